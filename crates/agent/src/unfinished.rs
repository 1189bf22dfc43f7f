//! What the running agent has not yet put into a file, for those who ask meanwhile.

use std::path::Path;

use anyhow::Result;
use transom_machine::namespace;
use transom_spool::{AgentRow, Connection, Text};

use crate::addresses::{Addresses, Tagger};
use crate::assemble::Assembler;
use crate::finish::{Seen, agent_rows, hex};
use crate::journal::{self, Record, Records};
use crate::taken::KEY;

/// The rows of a journal: the open one, or one that files are made of just now.
pub struct Unfinished {
    /// That of the files that it becomes.
    pub number: u32,
    pub connections: Vec<Connection>,
    pub agent: Vec<AgentRow>,
}

impl Unfinished {
    /// Each journal of a spool, once. What is made a file of meanwhile may be in both: files are
    /// to be listed after this, and have the same number. Addresses are left out, whatever the
    /// configuration says.
    ///
    /// # Errors
    /// A journal or the key of tags cannot be read, or is of another version.
    pub fn of(spool: &Path) -> Result<Vec<Unfinished>> {
        let mut found: Vec<Unfinished> = Vec::new();
        // The open one is read before the complete ones are listed, which it may be by then.
        let open = Unfinished::read(spool, &spool.join(journal::NAME))?;
        let complete = journal::all(spool)?.into_iter().skip(1);
        let complete = complete.filter_map(|path| Unfinished::read(spool, &path).transpose());
        for journal in open.into_iter().map(Ok).chain(complete) {
            let journal = journal?;
            if found.iter().all(|known| known.number != journal.number) {
                found.push(journal);
            }
        }
        Ok(found)
    }

    fn read(spool: &Path, path: &Path) -> Result<Option<Unfinished>> {
        let Some(records) = Records::open(path)? else { return Ok(None) };
        let head = records.head;
        let tagger = Tagger::of(&spool.join(KEY))?;
        let netns = namespace::own()?;
        let mut assembler = Assembler::new(tagger, Addresses::Prefix, head.us_per_jiffy, netns);
        let records: Vec<Record> = records.collect();
        // Rows may come before the first word of the time and of their cgroup's name.
        for record in records.iter().rev() {
            match record {
                Record::Name(id, name) => assembler.cgroups.note(*id, name),
                Record::Beat(beat) => assembler.wall_offset_ns = beat.wall_offset_ns,
                _ => {}
            }
        }
        let mut seen = Seen::default();
        let boot: Text = hex(&head.boot).into();
        let connections = records
            .into_iter()
            .inspect(|record| seen.note(record, || ()))
            .filter_map(|record| assembler.row_of(record))
            .map(|row| Connection { boot: Some(boot.clone()), ..row })
            .collect();
        let agent = agent_rows(&seen, &head);
        Ok(Some(Unfinished { number: head.number, connections, agent }))
    }
}

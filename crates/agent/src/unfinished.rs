//! What the running agent has not yet put into a file, for those who ask meanwhile.

use std::path::Path;

use anyhow::Result;
use transom_machine::namespace;
use transom_spool::{AgentRow, Connection};

use crate::addresses::{Addresses, Tagger};
use crate::assemble::Assembler;
use crate::journal::{self, Record, Records};
use crate::store::agent_rows;

/// The rows of an open journal.
pub struct Unfinished {
    /// That of the files that it becomes.
    pub number: u32,
    pub connections: Vec<Connection>,
    pub agent: Vec<AgentRow>,
}

impl Unfinished {
    /// `None`: there is no journal. Addresses are left out, whatever the configuration says.
    ///
    /// # Errors
    /// The journal or the key of tags cannot be read, or is of another version.
    pub fn of(spool: &Path) -> Result<Option<Unfinished>> {
        let path = spool.join(journal::NAME);
        let Some(records) = Records::open(&path)? else { return Ok(None) };
        let head = records.head;
        let tagger = Tagger::of(&spool.join("key"))?;
        let netns = namespace::inode(Path::new(namespace::OWN))?;
        let mut assembler = Assembler::new(tagger, Addresses::Prefix, head.us_per_jiffy, netns);
        let records: Vec<Record> = records.collect();
        // Rows may come before the first word of the time and of their cgroup's name.
        for record in &records {
            match record {
                Record::Name(id, name) => assembler.cgroups.note(*id, name),
                Record::Beat(beat) => assembler.wall_offset_ns = beat.wall_offset_ns,
                _ => {}
            }
        }
        let is_decision = |record: &&Record| matches!(record, Record::Decision(_));
        let decisions = records.iter().filter(is_decision).count() as u64;
        let (beats, others): (Vec<Record>, Vec<Record>) =
            records.into_iter().partition(|record| matches!(record, Record::Beat(_)));
        let connections: Vec<Connection> =
            others.into_iter().filter_map(|record| assembler.row_of(record)).collect();
        let rows = connections.len() as u64;
        let agent = agent_rows(beats.into_iter(), &head, rows, decisions);
        Ok(Some(Unfinished { number: head.number, connections, agent }))
    }
}

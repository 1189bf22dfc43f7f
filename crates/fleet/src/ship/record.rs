//! What was shipped, as lines that are only appended: before a file goes, the digest of what is sent;
//! after it landed, that it did. So a file that landed never goes again, even if somebody has put its
//! object together with others meanwhile, and after a kill it is known what was on the way.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use transom_spool::FileName;

use super::still_there;

const NAME: &str = "shipped";
/// Beyond it, files that are not in the spool any more are forgotten at the next start.
const MOST: usize = 50_000;

pub struct Record {
    path: PathBuf,
    file: File,
    sent: HashMap<String, String>,
    /// With the bytes of those that have events.
    landed: HashMap<String, u64>,
    /// Files of events that are not to go: their hour has as many as may land.
    left: HashSet<String>,
    /// Bytes of events that landed, by the hour in which their file was begun.
    events: HashMap<String, u64>,
}

fn line_of_landed(name: &str, events: u64) -> String {
    if events > 0 { format!("landed {name} {events}") } else { format!("landed {name}") }
}

/// The hour of a file's name, as `20261123T07`.
fn hour(name: &str) -> String {
    FileName::parse(name).map(|name| name.begun.chars().take(11).collect()).unwrap_or_default()
}

impl Record {
    /// `of` says where to and as whom: a record of another place is refused, unless nothing can have
    /// landed there, as where its address was misspelt. `lies_there` says whether the spool still has
    /// a file of that name.
    ///
    /// # Errors
    /// It cannot be written, is another's, or is damaged.
    pub fn open(folder: &Path, of: &str, lies_there: impl Fn(&str) -> bool) -> Result<Record> {
        let path = folder.join(NAME);
        let named = || {
            format!("opening {}: name a folder that can be written with --state", path.display())
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).with_context(named)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another transom-fleet has {}: name another folder with --state", path.display());
        }
        let mut record = Record {
            path,
            file,
            sent: HashMap::new(),
            landed: HashMap::new(),
            left: HashSet::new(),
            events: HashMap::new(),
        };
        let damaged = format!("{} is damaged", record.path.display());
        match record.read().context(damaged)? {
            Some(was_of) if was_of == of => {
                if record.landed.len() > MOST {
                    record.forget(of, lies_there)?;
                }
            }
            Some(was_of) if !record.is_unused() => bail!(
                "{} is of {was_of}, and this is of {of}: name another folder with --state (all files \
                 of the spool are then shipped there)",
                record.path.display()
            ),
            _ => {
                record.file.set_len(0)?;
                record.file.rewind()?;
                record.append(&format!("of {of}"))?;
                File::open(folder)?.sync_all()?;
            }
        }
        Ok(record)
    }

    /// Nothing has landed there, nor can have.
    fn is_unused(&self) -> bool {
        self.sent.is_empty() && self.landed.is_empty() && self.left.is_empty()
    }

    /// Where to and as whom, if there was anything.
    fn read(&mut self) -> Result<Option<String>> {
        let mut text = String::new();
        self.file.read_to_string(&mut text)?;
        // A line without its end was never acted upon.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.file.set_len(whole as u64)?;
        self.file.seek(SeekFrom::Start(whole as u64))?;
        let mut lines = text[..whole].lines();
        let Some(first) = lines.next() else { return Ok(None) };
        let of = first.strip_prefix("of ");
        let of = of.with_context(|| format!("it begins with '{first}'"))?.to_owned();
        for line in lines {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["sent", name, digest] => {
                    self.sent.insert(name.to_owned(), digest.to_owned());
                }
                ["landed", name] => self.note_landed(name, 0),
                ["landed", name, bytes] => self.note_landed(name, bytes.parse()?),
                ["left", name] => {
                    self.left.insert(name.to_owned());
                }
                _ => bail!("it has a line '{line}'"),
            }
        }
        Ok(Some(of))
    }

    fn note_landed(&mut self, name: &str, events: u64) {
        self.sent.remove(name);
        self.landed.insert(name.to_owned(), events);
        if events > 0 {
            *self.events.entry(hour(name)).or_default() += events;
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.landed.contains_key(name)
    }

    /// It is not to go.
    pub fn is_left(&self, name: &str) -> bool {
        self.left.contains(name)
    }

    /// Bytes of events that landed of the hour in which this file was begun.
    pub fn events_of_hour(&self, name: &str) -> u64 {
        self.events.get(&hour(name)).copied().unwrap_or_default()
    }

    /// The digest of what was sent when it was last tried.
    pub fn earlier(&self, name: &str) -> Option<&str> {
        self.sent.get(name).map(String::as_str)
    }

    /// # Errors
    /// It cannot be written, or the next program would not find it: the file must not go.
    pub fn sends(&mut self, name: &str, digest: &str) -> Result<()> {
        still_there::check(&self.file, &self.path).context("the record of what was shipped")?;
        // What an earlier program sent stays known until it is sure what became of it.
        if !self.sent.contains_key(name) {
            self.append(&format!("sent {name} {digest}"))?;
            self.sent.insert(name.to_owned(), digest.to_owned());
        }
        Ok(())
    }

    /// The server took nothing of what was said to be sent last, and of nothing else.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn was_refused(&mut self, name: &str) -> Result<()> {
        if let Some(digest) = self.sent.remove(name) {
            let line = format!("sent {name} {digest}\n");
            let begin = self.file.stream_position()?.saturating_sub(line.len() as u64);
            self.file.set_len(begin)?;
            self.file.seek(SeekFrom::Start(begin))?;
        }
        Ok(())
    }

    /// `events` are the bytes of a file of events: how much of its hour is taken is known after a
    /// start, too.
    ///
    /// # Errors
    /// It cannot be written: the file goes again, and is found to be there.
    pub fn landed(&mut self, name: &str, events: u64) -> Result<()> {
        self.append(&line_of_landed(name, events))?;
        self.note_landed(name, events);
        Ok(())
    }

    /// A file of events is not to go, now or later.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn leave(&mut self, name: &str) -> Result<()> {
        self.append(&format!("left {name}"))?;
        self.left.insert(name.to_owned());
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<()> {
        let begin = self.file.stream_position()?;
        let write = |file: &mut File| {
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        };
        write(&mut self.file).or_else(|error| {
            // Of a full disk: the next line must not begin in the middle of this one.
            self.file.set_len(begin)?;
            self.file.seek(SeekFrom::Start(begin))?;
            let remedy = match error.kind() {
                ErrorKind::StorageFull => " (make room there; files wait until then)",
                _ => "",
            };
            Err(error).with_context(|| format!("writing {}{remedy}", self.path.display()))
        })
    }

    fn forget(&mut self, of: &str, lies_there: impl Fn(&str) -> bool) -> Result<()> {
        self.landed.retain(|name, _| lies_there(name));
        self.sent.retain(|name, _| lies_there(name));
        let folder = self.path.parent().context("a folder")?;
        let mut new = tempfile::Builder::new().prefix(".shipped-").tempfile_in(folder)?;
        let mut text = format!("of {of}\n");
        self.sent.iter().for_each(|(name, digest)| text += &format!("sent {name} {digest}\n"));
        self.landed
            .iter()
            .for_each(|(name, events)| text += &(line_of_landed(name, *events) + "\n"));
        self.left.retain(|name| lies_there(name));
        self.left.iter().for_each(|name| text += &format!("left {name}\n"));
        new.write_all(text.as_bytes())?;
        new.as_file().sync_all()?;
        flock(new.as_file(), FlockOperation::NonBlockingLockExclusive)?;
        self.file = new.persist(&self.path)?;
        Ok(File::open(folder)?.sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Record {
        Record::open(folder, "web-1 to s3://b", |_| true).unwrap()
    }

    #[test]
    fn what_landed_stays_known_and_what_was_on_the_way_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = open(folder.path());
        record.sends("a", "1").unwrap();
        record.landed("a", 0).unwrap();
        record.sends("b", "2").unwrap();
        // Another program makes other bytes of the same rows.
        record.sends("b", "3").unwrap();
        drop(record);
        let record = open(folder.path());
        assert!(record.has("a") && !record.has("b"));
        assert_eq!((record.earlier("a"), record.earlier("b")), (None, Some("2")));
    }

    #[test]
    fn a_record_cut_anywhere_knows_all_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = open(folder.path());
        for name in ["a", "b"] {
            record.sends(name, "1").unwrap();
            record.landed(name, 0).unwrap();
        }
        drop(record);
        let path = folder.path().join(NAME);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let mut record = open(folder.path());
            let lines = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!((record.has("a"), record.has("b")), (lines >= 3, lines >= 5));
            record.landed("c", 0).unwrap();
            drop(record);
            assert!(open(folder.path()).has("c"));
        }
    }

    #[test]
    fn a_record_of_another_place_is_refused() {
        let refused = |known: fn(&mut Record)| {
            let folder = tempfile::tempdir().unwrap();
            known(&mut open(folder.path()));
            let other = Record::open(folder.path(), "web-1 to s3://c", |_| true);
            let said = format!("{:#}", other.err().unwrap());
            assert!(said.contains("--state") && !said.contains("damaged"), "{said}");
        };
        refused(|record| record.landed("a", 0).unwrap());
        refused(|record| record.leave("a").unwrap());
        // What became of it nobody knows.
        refused(|record| record.sends("a", "1").unwrap());
    }

    #[test]
    fn a_record_of_a_place_that_took_nothing_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = open(folder.path());
        record.sends("a", "1").unwrap();
        record.was_refused("a").unwrap();
        drop(record);
        let elsewhere = || Record::open(folder.path(), "web-1 to s3://c", |_| true).unwrap();
        let mut record = elsewhere();
        assert_eq!(record.earlier("a"), None);
        record.sends("a", "1").unwrap();
        record.landed("a", 0).unwrap();
        drop(record);
        assert!(elsewhere().has("a"));
    }

    #[test]
    fn a_long_record_forgets_what_the_spool_has_not_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::from("of web-1 to s3://b\n");
        (0..=MOST).for_each(|n| text += &format!("landed {n}\n"));
        std::fs::write(folder.path().join(NAME), text).unwrap();
        let of = "web-1 to s3://b";
        drop(Record::open(folder.path(), of, |name| name.ends_with("77")).unwrap());
        let record = open(folder.path());
        assert!(record.has("77") && record.has("1077") && !record.has("78"));
        assert!(Record::open(folder.path(), of, |_| true).is_err(), "it is still one's own");
    }

    #[test]
    fn how_much_of_an_hour_events_have_and_which_are_not_to_go_is_known_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let of =
            |minute: u32, number: u32| format!("traces-20261123T12{minute:02}00Z-{number:06}.raw");
        let mut record = open(folder.path());
        record.landed(&of(5, 1), 100).unwrap();
        record.landed("connections-20261123T120500Z-000001.parquet", 0).unwrap();
        record.landed(&of(59, 2), 30).unwrap();
        record.leave(&of(59, 3)).unwrap();
        drop(record);
        let record = open(folder.path());
        assert_eq!(record.events_of_hour(&of(0, 9)), 130);
        assert_eq!(record.events_of_hour("traces-20261123T130000Z-000009.raw"), 0);
        assert!(
            record.is_left(&of(59, 3)) && !record.has(&of(59, 3)) && !record.is_left(&of(5, 1))
        );
    }
}

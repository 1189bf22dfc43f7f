//! What has come and is not yet in a Parquet file: one file to which records are only appended,
//! so that a killed agent leaves all but the last second.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bytemuck::{Pod, Zeroable, bytes_of, pod_read_unaligned};
use transom_spool::{FileName, Table};

use crate::raw::{
    DECISION, RECENT, ROW_END, ROW_FAILED, ROW_INTERIM, RawDecision, RawRecents, RawRow,
};

pub const NAME: &str = "journal.raw";

/// The last beat of an agent that stopped, for the next one.
pub const STOPPED: &str = "stopped.raw";

/// That of a complete one, until files are made of it.
pub fn name_of_complete(number: u32) -> String {
    format!("journal-{number:06}.raw")
}

/// All that lie in a spool, in the order in which a reader misses nothing while the agent goes
/// on: the open one, then complete ones, oldest first. Those that are not there are no error.
///
/// # Errors
/// The spool cannot be read.
pub fn all(spool: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(spool) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let is_complete = |name: &str| {
        let number = name.strip_prefix("journal-").and_then(|rest| rest.strip_suffix(".raw"));
        number.is_some_and(|digits| digits.parse::<u32>().is_ok())
    };
    let mut complete = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_complete) {
            complete.push(entry.path());
        }
    }
    complete.sort();
    complete.insert(0, spool.join(NAME));
    Ok(complete)
}

const MAGIC: [u8; 8] = *b"TXAGENT3";
const BEAT: u8 = 200;
const NAMED: u8 = 201;
const TRACE: u8 = 202;
/// A path of a cgroup has at most this (PATH_MAX).
const MOST_NAME: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    magic: [u8; 8],
    /// The sizes of records: those of another version are not read.
    row: u32,
    decision: u32,
    pub boot: [u8; 16],
    /// Microseconds since 1970.
    pub begun_us: i64,
    pub number: u32,
    pub us_per_jiffy: u32,
}

impl Head {
    pub fn new(boot: [u8; 16], begun_us: i64, number: u32, us_per_jiffy: u32) -> Head {
        let (row, decision) = (size_of::<RawRow>() as u32, size_of::<RawDecision>() as u32);
        Head { magic: MAGIC, row, decision, boot, begun_us, number, us_per_jiffy }
    }
}

/// Each second, and when something happens to the agent itself.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Beat {
    pub kind: u8,
    /// [`transom_spool::AgentEvent`], by its place.
    pub event: u8,
    pub level: u8,
    pub reserved: u8,
    /// Millionths of one CPU.
    pub cpu_ppm: u32,
    pub time_ns: u64,
    pub wall_offset_ns: i64,
    /// Connections opened since boot, and established now: of the agent's network namespace.
    pub opened: u64,
    pub established: u64,
    pub tracked: u64,
    pub untracked: u64,
    pub lost_rows: u64,
    pub lost_decisions: u64,
    pub gap_ns: u64,
}

impl Beat {
    pub fn new(event: u8) -> Beat {
        Beat { kind: BEAT, event, ..Beat::zeroed() }
    }
}

/// A file of recorded events was finished.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct TraceFile {
    kind: u8,
    reserved: [u8; 3],
    number: u32,
    /// As in its name.
    begun: [u8; 16],
    pub events: u64,
    /// Microseconds since 1970.
    pub end_us: i64,
}

impl TraceFile {
    /// `None`: its name is none of a trace.
    pub fn new(name: &FileName, events: u64, end_us: i64) -> Option<TraceFile> {
        let begun = name.begun.as_bytes().try_into().ok()?;
        Some(TraceFile {
            kind: TRACE,
            reserved: [0; 3],
            number: name.number,
            begun,
            events,
            end_us,
        })
    }

    pub fn name(&self) -> FileName {
        let begun = String::from_utf8_lossy(&self.begun).into_owned();
        FileName::new(Table::Traces, begun, self.number)
    }
}

/// One record, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Row(Box<RawRow>),
    Decision(RawDecision),
    /// What led to the next record of this connection.
    Recents(Box<RawRecents>),
    Beat(Beat),
    Trace(TraceFile),
    /// A cgroup's number and path.
    Name(u64, String),
}

/// The size of the record that begins with this byte, if the kernel writes such.
pub fn size_of_kind(kind: u8) -> Option<usize> {
    match kind {
        ROW_END | ROW_INTERIM | ROW_FAILED => Some(size_of::<RawRow>()),
        DECISION => Some(size_of::<RawDecision>()),
        RECENT => Some(size_of::<RawRecents>()),
        _ => None,
    }
}

/// A journal whose records have other sizes.
#[derive(Debug)]
pub struct OtherVersion(PathBuf);

impl std::error::Error for OtherVersion {}

impl std::fmt::Display for OtherVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.0.display();
        write!(f, "{path} is of another version of the agent, whose own `transom ask` reads it")
    }
}

pub struct Journal {
    file: File,
    path: PathBuf,
    pub head: Head,
    pub bytes: u64,
    pub rows: u64,
    pub decisions: u64,
}

impl Journal {
    /// A new one, in place of whatever lies there.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(path: &Path, head: Head) -> Result<Journal> {
        let named = || format!("writing {}", path.display());
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .with_context(named)?;
        file.write_all(bytes_of(&head)).with_context(named)?;
        let bytes = size_of::<Head>() as u64;
        Ok(Journal { file, path: path.to_owned(), head, bytes, rows: 0, decisions: 0 })
    }

    /// # Errors
    /// Of the file system; what was written of it in part is taken back.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.file.write_all(bytes);
        if result.is_err() {
            let _ = self.file.set_len(self.bytes);
            let _ = std::io::Seek::seek(&mut self.file, std::io::SeekFrom::Start(self.bytes));
        } else {
            self.bytes += bytes.len() as u64;
        }
        result.with_context(|| format!("writing {}", self.path.display()))
    }

    pub fn beat(&mut self, beat: &Beat) -> Result<()> {
        self.append(bytes_of(beat))
    }

    pub fn trace(&mut self, file: &TraceFile) -> Result<()> {
        self.append(bytes_of(file))
    }

    pub fn name(&mut self, id: u64, path: &str) -> Result<()> {
        let path = &path.as_bytes()[..path.len().min(MOST_NAME)];
        let mut record = vec![NAMED, 0, 0, 0];
        record.extend((path.len() as u32).to_ne_bytes());
        record.extend(id.to_ne_bytes());
        record.extend(path);
        self.append(&record)
    }

    /// Whether the file was removed under us.
    pub fn is_gone(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

/// Bytes of a journal that are read at once.
const READ: usize = 1 << 18;

/// The records of a journal, whole ones only: the last may have been cut by a kill.
pub struct Records {
    from: File,
    /// What was read, of which the first bytes are behind us.
    read: Vec<u8>,
    behind: usize,
    pub head: Head,
}

impl Records {
    /// `None`: there is no journal, or none that has anything.
    ///
    /// # Errors
    /// It cannot be read, or is of another version.
    pub fn open(path: &Path) -> Result<Option<Records>> {
        let named = || format!("reading {}", path.display());
        // A pipe would be waited for.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let mut from = match opened {
            Ok(file) if file.metadata().with_context(named)?.is_file() => file,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(named),
        };
        let mut bytes = [0; size_of::<Head>()];
        if from.read_exact(&mut bytes).is_err() {
            return Ok(None);
        }
        let head: Head = pod_read_unaligned(&bytes);
        let ours = Head::new(head.boot, head.begun_us, head.number, head.us_per_jiffy);
        if head != ours {
            return Err(OtherVersion(path.to_owned()).into());
        }
        Ok(Some(Records { from, read: Vec::with_capacity(READ), behind: 0, head }))
    }

    /// The next bytes, if there are so many.
    fn ahead(&mut self, size: usize) -> Option<&[u8]> {
        if self.read.len() - self.behind < size {
            self.read.drain(..self.behind);
            self.behind = 0;
            let more = (READ - self.read.len()) as u64;
            (&self.from).take(more).read_to_end(&mut self.read).ok()?;
        }
        self.read.get(self.behind..self.behind + size)
    }

    fn next_bytes(&mut self, size: usize) -> Option<&[u8]> {
        self.ahead(size)?;
        self.behind += size;
        Some(&self.read[self.behind - size..self.behind])
    }

    fn next_of<T: Pod>(&mut self) -> Option<T> {
        self.next_bytes(size_of::<T>()).map(pod_read_unaligned)
    }

    fn name(&mut self) -> Option<Record> {
        let head: [u8; 16] = self.next_of()?;
        let length = u32::from_ne_bytes(head[4..8].try_into().ok()?) as usize;
        if length > MOST_NAME {
            return None;
        }
        let path = self.next_bytes(length)?;
        let id = u64::from_ne_bytes(head[8..].try_into().ok()?);
        Some(Record::Name(id, String::from_utf8_lossy(path).into_owned()))
    }
}

impl Iterator for Records {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        match *self.ahead(1)?.first()? {
            ROW_END | ROW_INTERIM | ROW_FAILED => self.next_of().map(Box::new).map(Record::Row),
            DECISION => self.next_of().map(Record::Decision),
            RECENT => self.next_of().map(Box::new).map(Record::Recents),
            BEAT => self.next_of().map(Record::Beat),
            TRACE => self.next_of().map(Record::Trace),
            NAMED => self.name(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> Head {
        Head::new([7; 16], 1_800_000_000_000_000, 3, 4000)
    }

    fn row(cookie: u64) -> RawRow {
        RawRow { kind: ROW_END, cookie, ..RawRow::zeroed() }
    }

    fn write(path: &Path) -> Vec<Record> {
        let mut journal = Journal::create(path, head()).unwrap();
        let decision = RawDecision { kind: DECISION, cookie: 5, ..RawDecision::zeroed() };
        let beat = Beat { time_ns: 77, ..Beat::new(1) };
        journal.name(9, "/system.slice/nginx.service").unwrap();
        journal.append(bytes_of(&row(4))).unwrap();
        journal.append(bytes_of(&decision)).unwrap();
        let recents = RawRecents { kind: RECENT, cookie: 4, ..RawRecents::zeroed() };
        journal.append(bytes_of(&recents)).unwrap();
        journal.beat(&beat).unwrap();
        let trace = FileName::new(Table::Traces, "20261123T070000Z".into(), 3);
        let trace = TraceFile::new(&trace, 12, 1_800_000_000_000_000).unwrap();
        journal.trace(&trace).unwrap();
        vec![
            Record::Name(9, "/system.slice/nginx.service".into()),
            Record::Row(Box::new(row(4))),
            Record::Decision(decision),
            Record::Recents(Box::new(recents)),
            Record::Beat(beat),
            Record::Trace(trace),
        ]
    }

    #[test]
    fn what_was_appended_is_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let written = write(&path);
        let records = Records::open(&path).unwrap().unwrap();
        assert_eq!(records.head, head());
        assert_eq!(records.collect::<Vec<_>>(), written);
    }

    #[test]
    fn a_journal_of_another_version_is_named_and_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        write(&path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let refusal = Records::open(&path).err().unwrap().to_string();
        assert!(refusal.contains("another version"), "{refusal}");
    }

    #[test]
    fn a_pipe_is_no_journal_and_nobody_waits_for_its_other_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Records::open(&path).unwrap().is_none());
        let refusal = Journal::create(&path, head()).err().unwrap().to_string();
        assert!(refusal.contains(NAME), "{refusal}");
    }

    #[test]
    fn a_journal_that_was_removed_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let journal = Journal::create(&path, head()).unwrap();
        assert!(!journal.is_gone());
        std::fs::remove_file(&path).unwrap();
        assert!(journal.is_gone());
    }

    proptest! {
        #[test]
        fn a_cut_loses_only_records_from_the_cut_on(cut in 0usize..800) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(NAME);
            let written = write(&path);
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&path, &bytes[..bytes.len().saturating_sub(cut)]).unwrap();
            let read: Vec<Record> = Records::open(&path).unwrap().into_iter().flatten().collect();
            prop_assert_eq!(&read[..], &written[..read.len()]);
        }

        #[test]
        fn noise_is_no_panic(noise: Vec<u8>) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(NAME);
            let mut bytes = bytes_of(&head()).to_vec();
            bytes.extend(noise);
            std::fs::write(&path, bytes).unwrap();
            let _ = Records::open(&path).unwrap().into_iter().flatten().count();
        }
    }
}

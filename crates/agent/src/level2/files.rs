//! The traces in the spool: one is open at a time, and begins with who its connections are.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use transom_event::{Directory, Event, Kind, LossCause, Raw};
use transom_output::note;
use transom_raw_stream::{Coding, Footer, Meta, Options, Reader, Writer, realtime_offset_ns};
use transom_spool::{FileName, Table, list, next_number};

use super::mask::mask;
use crate::finish::{READABLE_BY_GROUP, begun, gone};
use crate::journal::TraceFile;

/// A trace is finished when it has this size at the latest.
pub const MOST_BYTES: u64 = 4 << 20;
const BLOCK_RECORDS: usize = 1024;
/// After one that could not be written: a full disk is not to be filled with beginnings.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How much of the spool traces may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    pub bytes: u64,
    pub age: Duration,
    /// When the next file is begun: after this time, or with so many bytes in this one.
    pub file: Duration,
    pub file_bytes: u64,
}

/// Files that were finished, until somebody takes them.
#[derive(Clone, Debug, Default)]
pub struct Finished(Arc<Mutex<Vec<TraceFile>>>);

impl Finished {
    fn note(&self, name: &FileName, events: u64, end_us: i64) {
        let file = TraceFile::new(name, events, end_us);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(file);
    }

    pub fn take(&self) -> Vec<TraceFile> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub struct Files {
    spool: PathBuf,
    pub limits: FileLimits,
    full_addresses: bool,
    /// What each file says of the recording.
    meta: Meta,
    open: Option<Open>,
    /// When the last one could not be written.
    failed: Option<Instant>,
    next: u32,
    /// Who the connections are that have not ended.
    directory: Directory,
    last_ns: u64,
    finished: Finished,
}

struct Open {
    writer: Writer<File>,
    name: FileName,
    path: PathBuf,
    begun: Instant,
    offset_ns: i64,
}

impl Files {
    /// What an agent left that was killed is finished, too: as far as it was written.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub fn of(spool: &Path, limits: FileLimits, meta: Meta, finished: Finished) -> Result<Files> {
        let next = next_number(spool)?;
        for (name, path, _) in list(spool)?.iter().filter(|(name, ..)| is_trace(name)) {
            let mode = fs::metadata(path).map(|data| data.permissions().mode());
            if mode.is_ok_and(|mode| mode & READABLE_BY_GROUP != READABLE_BY_GROUP) {
                // One that cannot be read stays as it is, for whoever looks at it.
                if let Err(error) = finish_cut(name, path, &finished) {
                    note!("{} stays unfinished: {error:#}", path.display());
                }
            }
        }
        Ok(Files {
            spool: spool.to_owned(),
            limits,
            full_addresses: false,
            meta,
            open: None,
            failed: None,
            next,
            directory: Directory::default(),
            last_ns: 0,
            finished,
        })
    }

    fn begin(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            if self.waits() {
                bail!("no trace is begun so soon after one that could not be written");
            }
            let offset_ns = realtime_offset_ns();
            let now_us = (self.last_ns as i64 + offset_ns) / 1000;
            let name = FileName::new(Table::Traces, begun(now_us), self.next);
            let path = self.spool.join(name.to_string());
            let begun = self.begin_at(&path, offset_ns);
            if begun.is_err() {
                self.failed = Some(Instant::now());
            }
            let writer = begun.with_context(|| format!("writing {}", path.display()))?;
            self.next += 1;
            self.open = Some(Open { writer, name, path, begun: Instant::now(), offset_ns });
        }
        self.open.as_mut().context("a trace was just begun")
    }

    fn begin_at(&self, path: &Path, offset_ns: i64) -> Result<Writer<File>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        self.begin_in(file, offset_ns).inspect_err(|_| {
            let _ = fs::remove_file(path);
        })
    }

    fn begin_in(&self, file: File, offset_ns: i64) -> Result<Writer<File>> {
        let meta = Meta { realtime_offset_ns: offset_ns, ..self.meta.clone() };
        let options = Options { coding: Coding::Zstd(1), block_records: BLOCK_RECORDS };
        let mut writer = Writer::new(file, &meta, options)?;
        for event in self.directory.reopened(self.last_ns) {
            writer.push(&self.masked(&Raw::from(&event)))?;
        }
        Ok(writer)
    }

    fn waits(&self) -> bool {
        self.failed.is_some_and(|at| at.elapsed() < AGAIN_AFTER)
    }

    /// Nothing could be written since the last time that it failed.
    pub fn is_failing(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether addresses are whole. A file has them all alike: when this changes, the open one ends.
    ///
    /// # Errors
    /// Its end cannot be written.
    pub fn set_full_addresses(&mut self, full: bool) -> Result<()> {
        if std::mem::replace(&mut self.full_addresses, full) == full {
            return Ok(());
        }
        self.finish()
    }

    /// As it is to be written: the directory may know addresses from before the setting.
    fn masked(&self, raw: &Raw) -> Raw {
        let mut raw = *raw;
        if !self.full_addresses {
            mask(&mut raw);
        }
        raw
    }

    /// # Errors
    /// It cannot be written; the file ends there, and another is begun after a while.
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
        let raw = &self.masked(raw);
        self.last_ns = raw.head.time_ns;
        let result = self.begin().and_then(|open| open.writer.push(raw));
        // After the file was begun, which would otherwise have it twice.
        if says_who(raw)
            && let Ok(event) = Event::try_from(raw)
        {
            self.directory.learn(&event);
        }
        self.written(result)
    }

    /// What a file has that could not be written on is kept, and told as that of a killed agent is.
    fn written(&mut self, result: Result<()>) -> Result<()> {
        let Err(error) = result else { return Ok(()) };
        match self.open.take() {
            Some(Open { name, path, .. }) => self.given_up(&name, &path, error),
            None => Err(error),
        }
    }

    fn given_up(&mut self, name: &FileName, path: &Path, error: anyhow::Error) -> Result<()> {
        self.failed = Some(Instant::now());
        if path.exists() {
            let kept = finish_cut(name, path, &self.finished).and_then(|()| self.keep_within());
            if let Err(error) = kept {
                note!("{} stays unfinished: {error:#}", path.display());
            }
        }
        Err(error.context(format!("writing {}", path.display())))
    }

    /// Events that could not be recorded.
    pub fn note_lost(&mut self, cause: LossCause, number: u64) -> Result<()> {
        self.push(&Raw::from(&Event::lost(cause, number, self.last_ns)))
    }

    /// Each second: what came is on its way to the disk, and a file that is full is finished.
    pub fn tend(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let flushed = open.writer.flush();
        self.written(flushed)?;
        self.failed = None;
        let Some(open) = &self.open else { return Ok(()) };
        let is_gone = open.writer.get_ref().metadata().is_ok_and(|data| data.nlink() == 0);
        if is_gone {
            self.open = None;
        } else if open.writer.bytes_written() >= self.limits.file_bytes
            || open.begun.elapsed() >= self.limits.file
        {
            self.finish()?;
        }
        Ok(())
    }

    /// Ends the open file, and removes those that are too old or too much.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(open) = self.open.take() {
            let step = realtime_offset_ns().saturating_sub(open.offset_ns);
            let footer = Footer {
                end_ns: self.last_ns,
                // What two readings differ by is no step.
                clock_step_ns: if step.abs() < 1_000_000 { 0 } else { step },
                ..Footer::default()
            };
            let events = open.writer.events();
            if let Err(error) = open.writer.finish(footer) {
                return self.given_up(&open.name, &open.path, error);
            }
            // Noted first: whoever ships it then finds it in the agent's own table, too.
            let end_us = (self.last_ns as i64).saturating_add(open.offset_ns) / 1000;
            self.finished.note(&open.name, events, end_us);
            let mode = Permissions::from_mode(READABLE_BY_GROUP);
            let named = || format!("writing {}", open.path.display());
            fs::set_permissions(&open.path, mode).or_else(gone).with_context(named)?;
        }
        self.keep_within()
    }

    /// Nothing is known of the connections any more: the probes are gone.
    pub fn forget(&mut self) {
        self.directory = Directory::default();
    }

    fn keep_within(&self) -> Result<()> {
        let mut files = list(&self.spool)?;
        // A clock that was set back does not make new files old.
        files.sort_by_key(|(name, ..)| name.number);
        let traces = files.iter().filter(|(name, ..)| is_trace(name));
        let traces: Vec<_> = traces.collect();
        let mut total: u64 = traces.iter().map(|(.., bytes)| bytes).sum();
        for (_, path, bytes) in traces {
            let modified = fs::metadata(path).and_then(|data| data.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
            if total <= self.limits.bytes && age <= self.limits.age {
                continue;
            }
            let removed = fs::remove_file(path).or_else(gone);
            removed.with_context(|| format!("removing {}", path.display()))?;
            total -= bytes;
        }
        Ok(())
    }
}

fn is_trace(name: &FileName) -> bool {
    name.table() == Table::Traces
}

/// A file that has no end, since its agent was killed or the disk was full. One without an event
/// goes.
fn finish_cut(name: &FileName, path: &Path, finished: &Finished) -> Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(fs::remove_file(path)?);
    }
    let mut reader = Reader::open(file)?;
    let offset_ns = reader.meta().realtime_offset_ns;
    let (mut events, mut last_ns) = (0, 0);
    while let Some(block) = reader.next_block()? {
        for raw in block {
            (events, last_ns) = (events + 1, raw.head.time_ns);
        }
    }
    if events == 0 {
        return Ok(fs::remove_file(path)?);
    }
    finished.note(name, events, (last_ns as i64).saturating_add(offset_ns) / 1000);
    Ok(fs::set_permissions(path, Permissions::from_mode(READABLE_BY_GROUP))?)
}

/// Whether a record says which connection it is, or ends one.
fn says_who(raw: &Raw) -> bool {
    let kinds = [Kind::Open, Kind::Owner, Kind::Algorithm, Kind::Close];
    kinds.iter().any(|kind| *kind as u8 == raw.head.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use transom_event::{Open, Place};

    const LIMITS: FileLimits = FileLimits {
        bytes: 1 << 20,
        age: Duration::from_secs(3600),
        file: Duration::from_secs(3600),
        file_bytes: MOST_BYTES,
    };

    fn files(spool: &Path, limits: FileLimits) -> Result<Files> {
        Files::of(spool, limits, Meta::default(), Finished::default())
    }

    fn record(kind: Kind, cookie: u64) -> Raw {
        let mut raw = Raw::zeroed();
        (raw.head.kind, raw.head.cookie, raw.head.time_ns) = (kind as u8, cookie, 5);
        raw.head.place = Place::Recorder as u8;
        raw
    }

    fn traces(spool: &Path) -> Vec<PathBuf> {
        list(spool).unwrap().into_iter().map(|(_, path, _)| path).collect()
    }

    fn kinds(path: &Path) -> Vec<(u8, u64)> {
        let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
        let mut kinds = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            kinds.extend(block.map(|raw| (raw.head.kind, raw.head.cookie)));
        }
        assert!(!reader.is_cut());
        kinds
    }

    #[test]
    fn each_file_begins_with_the_connections_that_go_on() {
        let spool = tempfile::tempdir().unwrap();
        let mut files = files(spool.path(), LIMITS).unwrap();
        for (kind, cookie) in [(Kind::Open, 1), (Kind::Open, 2), (Kind::Ack, 1), (Kind::Close, 2)] {
            files.push(&record(kind, cookie)).unwrap();
        }
        files.finish().unwrap();
        files.push(&record(Kind::Send, 1)).unwrap();
        files.finish().unwrap();
        let [first, second] = &traces(spool.path())[..] else { panic!("two files") };
        let mode = fs::metadata(first).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "the agent's group reads what is finished");
        let (open, close) = (Kind::Open as u8, Kind::Close as u8);
        let (ack, send) = (Kind::Ack as u8, Kind::Send as u8);
        assert_eq!(kinds(first), [(open, 1), (open, 2), (ack, 1), (close, 2)]);
        // The end of the second one was the last that was said of it.
        assert_eq!(kinds(second).last(), Some(&(send, 1)));
        assert!(kinds(second).contains(&(open, 1)));
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let spool = tempfile::tempdir().unwrap();
        let limits = FileLimits { bytes: 1000, ..LIMITS };
        let mut files = files(spool.path(), limits).unwrap();
        for cookie in 1..=10 {
            files.push(&record(Kind::Open, cookie)).unwrap();
            files.push(&record(Kind::Close, cookie)).unwrap();
            files.finish().unwrap();
        }
        let left = list(spool.path()).unwrap();
        let bytes: u64 = left.iter().map(|(.., bytes)| bytes).sum();
        assert!(bytes <= 1000 && !left.is_empty(), "{left:?}");
        assert_eq!(left.last().unwrap().0.number, 10);
    }

    #[test]
    fn a_file_that_was_removed_is_begun_again() {
        let spool = tempfile::tempdir().unwrap();
        let mut files = files(spool.path(), LIMITS).unwrap();
        files.push(&record(Kind::Open, 1)).unwrap();
        fs::remove_file(&traces(spool.path())[0]).unwrap();
        files.tend().unwrap();
        files.push(&record(Kind::Ack, 1)).unwrap();
        files.finish().unwrap();
        assert_eq!(kinds(&traces(spool.path())[0]), [(Kind::Open as u8, 1), (Kind::Ack as u8, 1)]);
    }

    #[test]
    fn an_empty_file_that_a_full_disk_left_goes() {
        let spool = tempfile::tempdir().unwrap();
        let finished = Finished::default();
        let empty = FileName::new(Table::Traces, "20261123T070000Z".into(), 1);
        fs::write(spool.path().join(empty.to_string()), "").unwrap();
        fs::set_permissions(&traces(spool.path())[0], Permissions::from_mode(0o600)).unwrap();
        Files::of(spool.path(), LIMITS, Meta::default(), finished.clone()).unwrap();
        assert_eq!((traces(spool.path()), told(&finished)), (vec![], vec![]));
    }

    /// Last bytes of the remote addresses that a file has.
    fn hosts(path: &Path) -> Vec<u8> {
        let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
        let mut hosts = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            let opens = block.filter(|raw| raw.head.kind == Kind::Open as u8);
            hosts.extend(opens.map(|raw| raw.open().remote_addr[3]));
        }
        hosts
    }

    #[test]
    fn addresses_are_masked_from_the_moment_on_and_those_of_connections_that_go_on_are_too() {
        let spool = tempfile::tempdir().unwrap();
        let mut files = files(spool.path(), LIMITS).unwrap();
        let open = |cookie| {
            let mut raw = record(Kind::Open, cookie);
            let body =
                Open { family: libc::AF_INET as u16, remote_addr: [9; 16], ..Open::zeroed() };
            raw.body = bytemuck::cast(body);
            raw
        };
        files.set_full_addresses(true).unwrap();
        files.push(&open(1)).unwrap();
        files.set_full_addresses(false).unwrap();
        files.push(&open(2)).unwrap();
        files.finish().unwrap();
        let [full, prefixes] = &traces(spool.path())[..] else { panic!("two files") };
        assert_eq!((hosts(full), hosts(prefixes)), (vec![9], vec![0, 0]));
    }

    fn told(finished: &Finished) -> Vec<(String, u64)> {
        finished.take().iter().map(|file| (file.name().to_string(), file.events)).collect()
    }

    #[test]
    fn what_is_finished_is_told_with_its_events_and_so_is_what_a_killed_agent_left() {
        let spool = tempfile::tempdir().unwrap();
        let finished = Finished::default();
        let begin = || Files::of(spool.path(), LIMITS, Meta::default(), finished.clone()).unwrap();
        let mut files = begin();
        files.push(&record(Kind::Open, 1)).unwrap();
        files.push(&record(Kind::Close, 1)).unwrap();
        assert_eq!(told(&finished), [], "it is open");
        files.finish().unwrap();
        let [(name, 2)] = &told(&finished)[..] else { panic!("two events") };
        assert!(spool.path().join(name).exists());
        files.push(&record(Kind::Open, 2)).unwrap();
        files.tend().unwrap();
        drop(files);
        let cut = traces(spool.path()).pop().unwrap();
        let mode = || fs::metadata(&cut).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        drop(begin());
        assert_eq!((told(&finished).len(), mode()), (1, 0o640));
        drop(begin());
        assert_eq!(told(&finished), [], "each is told once");
    }
}

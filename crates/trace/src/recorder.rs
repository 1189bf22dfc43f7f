//! A recording in one file or, with rotation, in a row of them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use transom_event::{BodyKind, Directory, Event, Kind, LossCause, Losses, Raw, fields};
use transom_output::note;

use crate::full_files::{FullFiles, remove};
use crate::parquet_file::folder;
use crate::writer::Opened;
use crate::{Finished, Footer, Meta, Writer, WriterOptions, realtime_offset_ns};

/// When a file is full, go on in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes of the stream, before it becomes Parquet.
    pub bytes: u64,
    /// Files to keep, the newest ones; 0 = all.
    pub keep: usize,
}

/// What was recorded, in all files.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    pub files: Vec<Finished>,
    pub events: u64,
    /// Events that could not be recorded, by cause.
    pub lost: BTreeMap<LossCause, u64>,
    /// How far the wall clock was moved meanwhile, ns.
    pub clock_step_ns: i64,
    /// Connections that are in it.
    pub connections: u64,
}

/// Takes events and losses, writes files that are whole at any time.
pub struct Recorder {
    path: PathBuf,
    meta: Meta,
    rotation: Option<Rotation>,
    writer: Writer,
    number: usize,
    /// The next event goes to the next file.
    is_full: bool,
    full: FullFiles,
    events: u64,
    bytes_before: u64,
    losses: Losses,
    lost: BTreeMap<LossCause, u64>,
    lost_in_file: BTreeMap<LossCause, u64>,
    directory: Directory,
    connections: u64,
    last_ns: u64,
}

/// What stands before and behind the number: `trace.` and `.parquet` of `trace.parquet`.
fn around_number(path: &Path) -> (OsString, OsString) {
    let (nothing, dot) = (OsStr::new(""), OsStr::new("."));
    let before = [path.file_stem().unwrap_or_default(), nothing].join(dot);
    let behind = path.extension().map(|ending| [nothing, ending].join(dot)).unwrap_or_default();
    (before, behind)
}

/// `trace.parquet` and 7 make `trace.007.parquet`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let (mut name, behind) = around_number(path);
    name.push(format!("{number:03}"));
    name.push(behind);
    path.with_file_name(name)
}

/// The files of an earlier recording whose place this one would take.
fn earlier(path: &Path, rotation: Option<Rotation>) -> Vec<PathBuf> {
    if rotation.is_none() {
        return Vec::from_iter(path.exists().then(|| path.to_owned()));
    }
    let (before, behind) = around_number(path);
    let number = |name: &OsStr| {
        let rest = name.as_encoded_bytes().strip_prefix(before.as_encoded_bytes())?;
        let digits = rest.strip_suffix(behind.as_encoded_bytes())?;
        let number = str::from_utf8(digits).ok()?.parse().ok()?;
        (numbered(path, number).file_name()? == name).then_some(number)
    };
    let entries = fs::read_dir(folder(path)).into_iter().flatten().flatten();
    let mut numbers: Vec<usize> = entries.filter_map(|entry| number(&entry.file_name())).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| numbered(path, number)).collect()
}

/// A place for a recording that has not begun: until then nothing is overwritten or removed.
pub struct Reserved {
    path: PathBuf,
    meta: Meta,
    rotation: Option<Rotation>,
    first: Opened,
    /// The first file was not there before.
    is_new: bool,
    earlier: Vec<PathBuf>,
}

impl Reserved {
    /// # Errors
    /// If a recording is there already and `force` is not set, or the first file cannot be opened.
    pub fn new(
        path: &Path,
        meta: Meta,
        rotation: Option<Rotation>,
        force: bool,
    ) -> Result<Reserved> {
        let is_file = transom_output::is_file_or_new(path);
        ensure!(
            rotation.is_none() || is_file,
            "{} cannot be rotated: name a regular file",
            path.display()
        );
        let first = if rotation.is_some() { numbered(path, 0) } else { path.to_owned() };
        let earlier = if is_file { earlier(path, rotation) } else { Vec::new() };
        if let Some(file) = earlier.first().filter(|_| !force) {
            let all = if rotation.is_some() { ", which removes all files of that row" } else { "" };
            bail!("{} exists already: give another name, or --force{all}", file.display());
        }
        // Only a link that leads to no file yet may be there, unless somebody else has just come.
        let is_link = fs::symlink_metadata(&first).is_ok_and(|found| found.is_symlink());
        let is_new = is_file && !first.exists();
        let first = Opened::new(&first, |path| {
            let mut options = File::options();
            options.write(true).create(true).truncate(false).create_new(!force && !is_link);
            options.open(path)
        })?;
        Ok(Reserved { path: path.to_owned(), meta, rotation, first, is_new, earlier })
    }

    /// The first file.
    pub fn path(&self) -> &Path {
        self.first.path()
    }

    /// The recording does not begin: all is as it was before.
    pub fn give_up(self) {
        remove_new(self.path(), self.is_new);
    }

    /// Begins the recording; an earlier one goes.
    ///
    /// # Errors
    /// If the first file cannot be written, of which then nothing stays that was not there before, or
    /// one of an earlier recording cannot be removed.
    pub fn begin(self) -> Result<Recorder> {
        let Reserved { path, meta, rotation, first, is_new, earlier } = self;
        let first_path = first.path().to_owned();
        let begun = first.begin(&meta, WriterOptions::default());
        let writer = begun.inspect_err(|_| remove_new(&first_path, is_new))?;
        for file in earlier.iter().filter(|file| *file != writer.path()) {
            remove(file)?;
        }
        Ok(Recorder {
            path,
            meta,
            rotation,
            writer,
            number: 0,
            is_full: false,
            full: FullFiles::new(
                rotation.and_then(|rotation| rotation.keep.checked_sub(1)).unwrap_or(usize::MAX),
            ),
            events: 0,
            bytes_before: 0,
            losses: Losses::default(),
            lost: BTreeMap::new(),
            lost_in_file: BTreeMap::new(),
            directory: Directory::default(),
            connections: 0,
            last_ns: 0,
        })
    }
}

/// Nothing stays of a file that was not there before; a link to it does.
fn remove_new(path: &Path, is_new: bool) {
    if is_new && let Ok(file) = fs::canonicalize(path) {
        let _ = fs::remove_file(file);
    }
}

impl Recorder {
    /// Creates the first file, and begins.
    ///
    /// # Errors
    /// Those of [`Reserved::new`] and [`Reserved::begin`].
    pub fn create(
        path: &Path,
        meta: Meta,
        rotation: Option<Rotation>,
        force: bool,
    ) -> Result<Recorder> {
        Reserved::new(path, meta, rotation, force)?.begin()
    }

    /// # Errors
    /// If the file cannot be written; it then ends with its last whole batch.
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
        if self.is_full {
            self.rotate()?;
        }
        self.events += 1;
        self.last_ns = raw.head.time_ns;
        if !is_plain(raw) {
            self.learn(raw);
        }
        self.writer.push(raw)
    }

    #[cold]
    fn learn(&mut self, raw: &Raw) {
        let Ok(event) = Event::try_from(raw) else { return };
        if event.kind == Kind::Lost {
            // No event, but an account of those that are missing.
            self.events -= 1;
            self.count_lost(&event);
        }
        let is_new = self.directory.learn(&event);
        self.connections += u64::from(is_new && event.kind == Kind::Open);
    }

    /// What has to be done twice a second, with the losses since the start: what
    /// came after the last time is what a `kill -9` costs.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn tick(&mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<()> {
        self.note_losses(losses, now_ns)?;
        self.writer.flush()?;
        // The next file begins with an event: a recording that ends here leaves none that is empty.
        self.is_full =
            self.rotation.is_some_and(|rotation| self.writer.bytes_written() >= rotation.bytes);
        self.full.proceed()
    }

    /// Writes a `lost` event for each cause that lost more since the last time.
    fn note_losses(&mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<()> {
        for event in self.losses.fresh(losses, now_ns) {
            self.count_lost(&event);
            self.writer.push(&Raw::from(&event))?;
        }
        Ok(())
    }

    fn count_lost(&mut self, event: &Event) {
        let (Some(cause), number) = fields::lost(event.aux) else { return };
        for lost in [&mut self.lost, &mut self.lost_in_file] {
            *lost.entry(cause).or_default() += u64::from(number);
        }
    }

    #[cold]
    fn rotate(&mut self) -> Result<()> {
        self.is_full = false;
        let next = self.next_name();
        let fresh = Writer::create(&next, &self.meta, WriterOptions::default())?;
        let full = std::mem::replace(&mut self.writer, fresh);
        self.bytes_before += full.bytes_written();
        let footer = self.footer();
        self.lost_in_file.clear();
        self.full.push(full.end(footer)?)?;
        self.reopen()
    }

    /// The next that is free: a file that has appeared there meanwhile is somebody else's.
    fn next_name(&mut self) -> PathBuf {
        loop {
            self.number += 1;
            let next = numbered(&self.path, self.number);
            if fs::symlink_metadata(&next).is_err() {
                return next;
            }
            note!(
                "transom: {} exists already: it stays, and its number is skipped",
                next.display()
            );
        }
    }

    /// Each file says which connections it goes on with.
    fn reopen(&mut self) -> Result<()> {
        for event in self.directory.reopened(self.last_ns) {
            self.writer.push(&Raw::from(&event))?;
        }
        Ok(())
    }

    /// How far the wall clock was moved since the start; what two readings differ by is none.
    fn clock_step_ns(&self) -> i64 {
        let step = realtime_offset_ns().saturating_sub(self.meta.realtime_offset_ns);
        if step.abs() < 1_000_000 { 0 } else { step }
    }

    fn footer(&self) -> Footer {
        Footer {
            events: 0,
            lost: self.lost_in_file.clone(),
            end_ns: self.last_ns,
            clock_step_ns: self.clock_step_ns(),
        }
    }

    /// The file that is being written.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Events pushed, in all files.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Bytes written to streams, in all files.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_before + self.writer.bytes_written()
    }

    /// Ends the recording: what is still a stream becomes Parquet.
    ///
    /// # Errors
    /// If that cannot be done; the stream is then left and named.
    pub fn finish(mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<Recorded> {
        self.note_losses(losses, now_ns)?;
        let footer = Footer { end_ns: now_ns, ..self.footer() };
        let clock_step_ns = footer.clock_step_ns;
        let last = self.writer.end(footer)?;
        Ok(Recorded {
            files: self.full.finish(last)?,
            events: self.events,
            lost: self.lost,
            clock_step_ns,
            connections: self.connections,
        })
    }
}

/// Whether a record says nothing of which connection it is, nor ends one, nor of what is missing;
/// nearly all are so.
fn is_plain(raw: &Raw) -> bool {
    Kind::from_number(raw.head.kind.into()).is_none_or(|kind| {
        kind.body() != BodyKind::Open && !matches!(kind, Kind::Close | Kind::Lost)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use std::os::unix::ffi::OsStrExt;
    use transom_event::{Body, Open, Place, State};

    fn event(cookie: u64, kind: Kind, body: Body) -> Raw {
        let place = Place::SetState;
        Raw::from(&Event { time_ns: 7, cookie, tgid: 1, cpu: 0, kind, place, aux: [1, 0], body })
    }

    fn open(cookie: u64) -> Raw {
        event(cookie, Kind::Open, Body::Open(Open { family: 2, ..Open::default() }))
    }

    fn ack(cookie: u64) -> Raw {
        event(cookie, Kind::Ack, Body::State(State::default()))
    }

    #[test]
    fn an_existing_file_is_not_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        fs::write(&path, "precious").unwrap();
        let error = Recorder::create(&path, Meta::default(), None, false).err().unwrap();
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn what_is_there_stays_until_the_recording_begins_and_if_it_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let kept = ["t.000.parquet", "t.007.parquet", "t.parquet"];
        kept.iter().for_each(|name| fs::write(dir.path().join(name), "precious").unwrap());
        for rotation in [None, KEEP_TWO] {
            let reserve = || Reserved::new(&path, Meta::default(), rotation, true).unwrap();
            reserve().give_up();
            for name in kept {
                assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "precious");
            }
            assert_eq!(names(&dir), kept);
        }
        let recorder = Recorder::create(&path, Meta::default(), KEEP_TWO, true).unwrap();
        recorder.finish(&[], 30).unwrap();
        assert_eq!(names(&dir), ["t.000.parquet", "t.parquet"]);
        Reader::open(dir.path().join("t.000.parquet")).unwrap();
    }

    #[test]
    fn a_recording_that_does_not_begin_leaves_no_file_nor_takes_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (new, link) = (dir.path().join("new.parquet"), dir.path().join("link.parquet"));
        std::os::unix::fs::symlink("target.parquet", &link).unwrap();
        for path in [new, link] {
            Reserved::new(&path, Meta::default(), None, false).unwrap().give_up();
        }
        assert_eq!(names(&dir), ["link.parquet"]);
    }

    #[test]
    fn losses_become_events_once_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), None, false).unwrap();
        recorder.push(&ack(1)).unwrap();
        recorder.note_losses(&[(LossCause::Ring, 5)], 10).unwrap();
        recorder.note_losses(&[(LossCause::Ring, 5)], 20).unwrap();
        let recorded = recorder.finish(&[(LossCause::Ring, 8)], 30).unwrap();
        assert_eq!(recorded.lost[&LossCause::Ring], 8);
        let events: Vec<_> = Reader::open(&path).unwrap().collect::<Result<_>>().unwrap();
        let lost: Vec<u32> =
            events.iter().filter(|e| e.kind == Kind::Lost).map(|e| fields::lost(e.aux).1).collect();
        assert_eq!(lost, [5, 3]);
    }

    #[test]
    fn a_loss_that_comes_as_an_event_is_one_of_this_recording() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), None, false).unwrap();
        recorder.push(&ack(1)).unwrap();
        recorder.push(&Raw::from(&Event::lost(LossCause::Ring, 5, 10))).unwrap();
        let recorded = recorder.finish(&[], 30).unwrap();
        assert_eq!((recorded.events, recorded.lost[&LossCause::Ring]), (1, 5));
        assert_eq!(Reader::open(&path).unwrap().footer().unwrap().lost, recorded.lost);
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const KEEP_TWO: Option<Rotation> = Some(Rotation { bytes: 1, keep: 2 });

    #[test]
    fn each_file_of_a_rotation_names_its_connections_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), KEEP_TWO, false).unwrap();
        recorder.push(&open(42)).unwrap();
        for _ in 0..3 {
            recorder.push(&ack(42)).unwrap();
            recorder.rotate().unwrap();
        }
        recorder.push(&ack(42)).unwrap();
        recorder.finish(&[], 30).unwrap();
        assert_eq!(names(&dir), ["t.002.parquet", "t.003.parquet"]);
        let last = Reader::open(dir.path().join("t.003.parquet")).unwrap();
        let kinds: Vec<_> = last.map(|event| event.unwrap().kind).collect();
        assert_eq!(kinds, [Kind::Open, Kind::Ack]);
    }

    #[test]
    fn a_recording_that_ends_when_a_file_is_full_leaves_no_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), KEEP_TWO, false).unwrap();
        recorder.push(&open(42)).unwrap();
        recorder.tick(&[], 20).unwrap();
        recorder.push(&ack(42)).unwrap();
        recorder.tick(&[], 30).unwrap();
        recorder.finish(&[], 40).unwrap();
        assert_eq!(names(&dir), ["t.000.parquet", "t.001.parquet"]);
    }

    #[test]
    fn each_file_of_a_rotation_tells_the_window_scaling() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), KEEP_TWO, false).unwrap();
        let scaling = 1 << 8 | 9 << 4 | 7;
        let mut opened = open(42);
        opened.head.aux[1] = scaling;
        recorder.push(&opened).unwrap();
        let owner = Body::Open(Open { family: 2, ..Open::default() });
        recorder.push(&event(42, Kind::Owner, owner)).unwrap();
        recorder.rotate().unwrap();
        recorder.finish(&[], 30).unwrap();
        let mut last = Reader::open(dir.path().join("t.001.parquet")).unwrap();
        let opened = last.next().unwrap().unwrap();
        assert_eq!(fields::window_scaling(opened.aux), Some([7, 9]));
    }

    #[test]
    fn no_file_of_an_earlier_row_is_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        for name in ["t.007.parquet", "t.1234.parquet", "t.7.parquet", "t.007.csv"] {
            fs::write(dir.path().join(name), "precious").unwrap();
        }
        let create = |force| Recorder::create(&path, Meta::default(), KEEP_TWO, force);
        let error = create(false).err().unwrap().to_string();
        assert!(error.contains("t.007.parquet") && error.contains("--force"), "{error}");
        assert_eq!(names(&dir).len(), 4);
        create(true).unwrap();
        assert_eq!(names(&dir), ["t.000.parquet", "t.007.csv", "t.7.parquet"]);
    }

    #[test]
    fn a_row_whose_name_is_no_utf8_keeps_it_and_removes_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let named = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
        for path in [&b"caf\xe9.parquet"[..], b"caf\xe8.parquet", b"caf\xe8.parquet"] {
            Recorder::create(&named(path), Meta::default(), KEEP_TWO, true).unwrap();
        }
        let rows = [&b"caf\xe8.000.parquet"[..], b"caf\xe9.000.parquet"].map(OsStr::from_bytes);
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, rows);
        let again = Recorder::create(&named(b"caf\xe9.parquet"), Meta::default(), KEEP_TWO, false);
        assert!(again.is_err_and(|error| error.to_string().contains("--force")));
    }

    #[test]
    fn a_file_that_appears_under_the_next_number_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), KEEP_TWO, false).unwrap();
        let other = dir.path().join("t.001.parquet");
        fs::write(&other, "precious").unwrap();
        recorder.rotate().unwrap();
        assert_eq!(recorder.path(), dir.path().join("t.002.parquet"));
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    }

    #[test]
    fn connections_are_counted_and_what_has_ended_takes_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let mut recorder = Recorder::create(&path, Meta::default(), None, false).unwrap();
        for cookie in 0..100 {
            recorder.push(&open(cookie)).unwrap();
            recorder.push(&event(cookie, Kind::Close, Body::State(State::default()))).unwrap();
        }
        recorder.push(&open(100)).unwrap();
        recorder.push(&open(100)).unwrap();
        assert_eq!(recorder.directory.iter().count(), 1);
        assert_eq!(recorder.finish(&[], 30).unwrap().connections, 101);
    }
}

//! A recording in one file or, with rotation, in a row of them.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail, ensure};
use transom_event::{Body, BodyKind, Directory, Event, Kind, LossCause, Place, Raw};

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
    kept: VecDeque<PathBuf>,
    /// The file before, on its way to Parquet.
    finishing: Option<JoinHandle<Result<Finished>>>,
    done: Vec<Finished>,
    events: u64,
    bytes_before: u64,
    lost: BTreeMap<LossCause, u64>,
    lost_in_file: BTreeMap<LossCause, u64>,
    directory: Directory,
    connections: HashSet<u64>,
    last_ns: u64,
}

/// `trace.parquet` and 7 make `trace.007.parquet`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().map(|e| format!(".{}", e.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}.{number:03}{ending}"))
}

impl Recorder {
    /// Creates the first file.
    ///
    /// # Errors
    /// If it is there already and `force` is not set, or cannot be created.
    pub fn create(
        path: &Path,
        meta: Meta,
        rotation: Option<Rotation>,
        force: bool,
    ) -> Result<Recorder> {
        let first = if rotation.is_some() { numbered(path, 0) } else { path.to_owned() };
        let is_file = transom_output::is_file_or_new(path);
        ensure!(
            rotation.is_none() || is_file,
            "{} cannot be rotated: name a regular file",
            path.display()
        );
        if !force && is_file && first.exists() {
            bail!("{} exists already: give another name with -o, or --force", first.display());
        }
        let writer = Writer::create(&first, &meta, WriterOptions::default())?;
        Ok(Recorder {
            path: path.to_owned(),
            meta,
            rotation,
            writer,
            number: 0,
            kept: VecDeque::from([first]),
            finishing: None,
            done: Vec::new(),
            events: 0,
            bytes_before: 0,
            lost: BTreeMap::new(),
            lost_in_file: BTreeMap::new(),
            directory: Directory::default(),
            connections: HashSet::new(),
            last_ns: 0,
        })
    }

    /// # Errors
    /// If the file cannot be written; it then ends with its last whole batch.
    #[inline]
    pub fn push(&mut self, raw: &Raw) -> Result<()> {
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
        if event.kind == Kind::Open {
            self.connections.insert(event.cookie);
        }
        if self.rotation.is_some() {
            self.directory.learn(&event);
        }
    }

    /// What has to be done twice a second, with the losses since the start: what
    /// came after the last time is what a `kill -9` costs.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn tick(&mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<()> {
        self.note_losses(losses, now_ns)?;
        self.writer.flush()?;
        match self.rotation {
            Some(rotation) if self.writer.bytes_written() >= rotation.bytes => {
                self.rotate(rotation)
            }
            _ => Ok(()),
        }
    }

    /// Writes a `lost` event for each cause that lost more since the last time.
    fn note_losses(&mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<()> {
        for &(cause, total) in losses {
            let known = self.lost.entry(cause).or_default();
            let fresh = total.saturating_sub(*known);
            if fresh == 0 {
                continue;
            }
            *known = total;
            *self.lost_in_file.entry(cause).or_default() += fresh;
            let event = Event {
                time_ns: now_ns,
                cookie: 0,
                tgid: 0,
                cpu: 0,
                kind: Kind::Lost,
                place: Place::Recorder,
                aux: [cause as u32, u32::try_from(fresh).unwrap_or(u32::MAX)],
                body: Body::None,
            };
            self.writer.push(&Raw::from(&event))?;
        }
        Ok(())
    }

    fn rotate(&mut self, rotation: Rotation) -> Result<()> {
        self.collect_finished()?;
        self.number += 1;
        let next = numbered(&self.path, self.number);
        let fresh = Writer::create(&next, &self.meta, WriterOptions::default())?;
        let full = std::mem::replace(&mut self.writer, fresh);
        self.bytes_before += full.bytes_written();
        let footer = self.footer();
        self.finishing = Some(std::thread::spawn(move || full.finish(footer)));
        self.lost_in_file.clear();
        self.kept.push_back(next);
        while rotation.keep > 0 && self.kept.len() > rotation.keep {
            self.collect_finished()?;
            let Some(oldest) = self.kept.pop_front() else { break };
            fs::remove_file(&oldest)
                .with_context(|| format!("removing {}, the oldest file", oldest.display()))?;
            self.done.retain(|file| file.path != oldest);
        }
        self.reopen()
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

    fn collect_finished(&mut self) -> Result<()> {
        let Some(thread) = self.finishing.take() else { return Ok(()) };
        let finished = thread.join().map_err(|_| anyhow!("converting a full file failed"))?;
        self.done.push(finished?);
        Ok(())
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

    /// Gives the recording up before it began: no file stays.
    pub fn discard(self) {
        for file in self.kept.iter().filter(|file| transom_output::is_file_or_new(file)) {
            let _ = fs::remove_file(file);
        }
    }

    /// Ends the recording: what is still a stream becomes Parquet.
    ///
    /// # Errors
    /// If that cannot be done; the stream is then left and named.
    pub fn finish(mut self, losses: &[(LossCause, u64)], now_ns: u64) -> Result<Recorded> {
        self.note_losses(losses, now_ns)?;
        self.collect_finished()?;
        let footer = Footer { end_ns: now_ns, ..self.footer() };
        let clock_step_ns = footer.clock_step_ns;
        self.done.push(self.writer.finish(footer)?);
        Ok(Recorded {
            files: self.done,
            events: self.events,
            lost: self.lost,
            clock_step_ns,
            connections: self.connections.len() as u64,
        })
    }
}

/// Whether a record says nothing of which connection it is, nor ends one; nearly all are so.
fn is_plain(raw: &Raw) -> bool {
    Kind::from_number(raw.head.kind.into())
        .is_none_or(|kind| kind.body() != BodyKind::Open && kind != Kind::Close)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;
    use transom_event::{Open, State, fields};

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
    fn each_file_of_a_rotation_names_its_connections_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let rotation = Rotation { bytes: 1, keep: 2 };
        let mut recorder = Recorder::create(&path, Meta::default(), Some(rotation), false).unwrap();
        recorder.push(&open(42)).unwrap();
        for _ in 0..3 {
            recorder.push(&ack(42)).unwrap();
            recorder.rotate(rotation).unwrap();
        }
        recorder.push(&ack(42)).unwrap();
        recorder.finish(&[], 30).unwrap();
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["t.002.parquet", "t.003.parquet"]);
        let last = Reader::open(dir.path().join("t.003.parquet")).unwrap();
        let kinds: Vec<_> = last.map(|event| event.unwrap().kind).collect();
        assert_eq!(kinds, [Kind::Open, Kind::Ack]);
    }
}

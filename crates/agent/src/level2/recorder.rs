//! The thread that reads the probes' rings and writes the traces, so that nothing the daemon does
//! makes a ring overflow.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use transom_event::LossCause;
use transom_monitor::{Monitor, MonitorOptions, Survey};
use transom_output::note;
use transom_raw_stream::Meta;

use super::files::{FileLimits, Files, Finished};
use crate::journal::TraceFile;

/// Of all CPUs together.
const RING_BYTES: u32 = 1 << 20;
const READ_EVERY: Duration = Duration::from_millis(100);
const TEND_EVERY: Duration = Duration::from_secs(1);
/// After the kernel refused the probes.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How far the probes are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Wanted {
    Nothing,
    /// Loaded, if they were, and not attached.
    Ready,
    Events,
}

/// What the daemon may change while the thread runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    pub spool: PathBuf,
    pub limits: FileLimits,
    pub full_addresses: bool,
}

/// What was recorded since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    pub events: u64,
    pub lost: u64,
    /// Time of the probes.
    pub probes: Duration,
}

struct Shared {
    wanted: AtomicU8,
    ends: AtomicBool,
    orders: Mutex<Orders>,
    events: AtomicU64,
    lost: AtomicU64,
    probes_ns: AtomicU64,
    attached: AtomicBool,
    finished: Finished,
}

pub struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<()>>,
}

impl Recorder {
    /// # Errors
    /// No thread can be made.
    pub fn spawn(chosen: OwnedFd, orders: Orders) -> Result<Recorder> {
        let shared = Arc::new(Shared::new(orders));
        let work = Work::new(shared.clone(), chosen)?;
        let thread = std::thread::Builder::new()
            .name("traces".into())
            .spawn(move || work.run())
            .context("starting the thread that writes traces")?;
        Ok(Recorder { shared, thread })
    }

    pub fn want(&self, wanted: Wanted) {
        let before = self.shared.wanted.swap(wanted as u8, Ordering::Relaxed);
        if before != wanted as u8 {
            self.thread.thread().unpark();
        }
    }

    pub fn set(&self, orders: Orders) {
        *self.shared.orders() = orders;
    }

    pub fn recorded(&self) -> Recorded {
        let shared = &self.shared;
        Recorded {
            events: shared.events.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            probes: Duration::from_nanos(shared.probes_ns.load(Ordering::Relaxed)),
        }
    }

    /// Files that were finished since this was asked last.
    pub fn finished(&self) -> Vec<TraceFile> {
        self.shared.finished.take()
    }

    /// With the files that were finished last.
    pub fn stop(self) -> (Vec<TraceFile>, Result<()>) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let failed = |_| Err(anyhow!("the thread that writes traces failed"));
        let ended = self.thread.join().unwrap_or_else(failed);
        (self.shared.finished.take(), ended)
    }
}

impl Shared {
    fn new(orders: Orders) -> Shared {
        Shared {
            wanted: AtomicU8::new(Wanted::Nothing as u8),
            ends: AtomicBool::new(false),
            orders: Mutex::new(orders),
            events: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            probes_ns: AtomicU64::new(0),
            attached: AtomicBool::new(false),
            finished: Finished::default(),
        }
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants(&self, least: Wanted) -> bool {
        self.wanted.load(Ordering::Relaxed) >= least as u8
    }
}

/// The thread's own.
struct Work {
    shared: Arc<Shared>,
    chosen: OwnedFd,
    files: Option<Files>,
    lost: BTreeMap<LossCause, u64>,
    /// Time of probes that were unloaded.
    probes_before: u64,
    unwritable: bool,
}

impl Work {
    fn new(shared: Arc<Shared>, chosen: OwnedFd) -> Result<Work> {
        let lost = BTreeMap::new();
        Ok(Work { shared, chosen, files: None, lost, probes_before: 0, unwritable: false })
    }

    fn run(mut self) -> Result<()> {
        let mut monitor: Option<Monitor> = None;
        let mut refused: Option<Instant> = None;
        let mut tended = Instant::now();
        while !self.shared.ends.load(Ordering::Relaxed) {
            if !self.shared.wants(Wanted::Ready) {
                self.unload(&mut monitor);
            }
            if self.shared.wants(Wanted::Events) {
                if monitor.is_none() && refused.is_none_or(|at| at.elapsed() > AGAIN_AFTER) {
                    monitor = self.load().inspect_err(|error| note!("no traces: {error:#}")).ok();
                    refused = monitor.is_none().then(Instant::now);
                }
            } else if let Some(monitor) = &mut monitor {
                self.detach(monitor);
            }
            match &mut monitor {
                Some(monitor) if self.shared.wants(Wanted::Events) => {
                    let result = monitor.attach().and_then(|()| self.take(monitor));
                    self.shared.attached.store(true, Ordering::Relaxed);
                    self.noted(result);
                }
                _ => std::thread::park_timeout(TEND_EVERY),
            }
            if tended.elapsed() >= TEND_EVERY {
                tended = Instant::now();
                let result = self.tend(monitor.as_ref());
                self.noted(result);
            }
        }
        self.unload(&mut monitor);
        self.files.as_mut().map_or(Ok(()), Files::finish)
    }

    /// The agent lives on when its disk does not; it says so once.
    fn noted(&mut self, result: Result<()>) {
        match result {
            Err(error) if !self.unwritable => {
                note!("{error:#}; traces have gaps until it can be written");
                self.unwritable = true;
            }
            Ok(()) => self.unwritable &= self.files.as_ref().is_some_and(Files::is_failing),
            Err(_) => {}
        }
    }

    fn load(&mut self) -> Result<Monitor> {
        let options = MonitorOptions { ring_bytes: RING_BYTES, ..MonitorOptions::default() };
        let monitor = Monitor::of_chosen(Survey::take(), &options, self.chosen.as_fd())?;
        let meta = Meta {
            probes: monitor.survey().summary(),
            ring_bytes: RING_BYTES.into(),
            us_per_jiffy: transom_monitor::clock::microseconds_per_jiffy(),
            filters: "connections that the agent chose".to_owned(),
            ..Meta::of_this_machine()
        };
        let orders = self.shared.orders().clone();
        self.files =
            Some(Files::of(&orders.spool, orders.limits, meta, self.shared.finished.clone())?);
        Ok(monitor)
    }

    fn take(&mut self, monitor: &mut Monitor) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let full = self.shared.orders().full_addresses;
        let (mut taken, mut result) = (0, files.set_full_addresses(full));
        let mut unwritten = 0;
        monitor.poll(READ_EVERY, &mut |raw| {
            taken += 1;
            if let Err(error) = files.push(raw) {
                unwritten += 1;
                // The first says why, and those after it only that it is so still.
                if result.is_ok() {
                    result = Err(error);
                }
            }
        })?;
        self.shared.events.fetch_add(taken - unwritten, Ordering::Relaxed);
        self.shared.lost.fetch_add(unwritten, Ordering::Relaxed);
        result
    }

    fn tend(&mut self, monitor: Option<&Monitor>) -> Result<()> {
        let orders = self.shared.orders().clone();
        let Some(files) = &mut self.files else { return Ok(()) };
        files.limits = orders.limits;
        if let Some(monitor) = monitor {
            let time: u64 = monitor.program_stats().iter().map(|stats| stats.run_time_ns).sum();
            self.shared.probes_ns.store(self.probes_before + time, Ordering::Relaxed);
            self.note_lost(monitor.losses()?)?;
        }
        self.files.as_mut().map_or(Ok(()), Files::tend)
    }

    /// Segments that left unseen are no lost events; the trace says both.
    fn note_lost(&mut self, totals: Vec<(LossCause, u64)>) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        for (cause, total) in totals {
            let known = self.lost.entry(cause).or_default();
            let fresh = total.saturating_sub(*known);
            *known = total;
            if fresh == 0 {
                continue;
            }
            if !cause.counts_segments() {
                self.shared.lost.fetch_add(fresh, Ordering::Relaxed);
            }
            files.note_lost(cause, fresh)?;
        }
        Ok(())
    }

    /// The probes go, and what they had written is taken.
    fn detach(&mut self, monitor: &mut Monitor) {
        if !self.shared.attached.swap(false, Ordering::Relaxed) {
            return;
        }
        let taken = self.take(monitor);
        // Whatever becomes of the file: they would stay with nobody reading.
        monitor.detach();
        let finished = self.files.as_mut().map_or(Ok(()), Files::finish);
        self.noted(taken.and(finished));
    }

    fn unload(&mut self, monitor: &mut Option<Monitor>) {
        let Some(mut loaded) = monitor.take() else { return };
        self.detach(&mut loaded);
        self.probes_before = self.shared.probes_ns.load(Ordering::Relaxed);
        self.lost.clear();
        if let Some(files) = &mut self.files {
            files.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use transom_event::{Kind, fields};
    use transom_raw_stream::Reader;

    #[test]
    fn segments_that_left_unseen_are_in_the_trace_and_count_as_no_lost_events() {
        let spool = tempfile::tempdir().unwrap();
        let limits = FileLimits {
            bytes: 1 << 20,
            age: Duration::from_secs(3600),
            file: Duration::from_secs(3600),
            file_bytes: 1 << 20,
        };
        let orders = Orders { spool: spool.path().to_owned(), limits, full_addresses: true };
        let shared = Arc::new(Shared::new(orders));
        let mut work = Work::new(shared.clone(), File::open("/dev/null").unwrap().into()).unwrap();
        let finished = Finished::default();
        let files = Files::of(spool.path(), limits, Meta::default(), finished).unwrap();
        work.files = Some(files);
        let lost = || shared.lost.load(Ordering::Relaxed);
        work.note_lost(vec![(LossCause::UnseenSend, 21)]).unwrap();
        assert_eq!(lost(), 0);
        work.note_lost(vec![(LossCause::UnseenSend, 21), (LossCause::Ring, 3)]).unwrap();
        assert_eq!(lost(), 3);
        work.files.as_mut().unwrap().finish().unwrap();
        let (_, path, _) = transom_spool::list(spool.path()).unwrap().remove(0);
        let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
        let mut told = Vec::new();
        while let Some(block) = reader.next_block().unwrap() {
            let losses = block.filter(|raw| raw.head.kind == Kind::Lost as u8);
            told.extend(losses.map(|raw| fields::lost(raw.head.aux)));
        }
        assert_eq!(told, [(Some(LossCause::UnseenSend), 21), (Some(LossCause::Ring), 3)]);
    }
}

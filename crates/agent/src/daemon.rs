//! The agent's loop: read the ring, write the journal, look at long connections, keep the budget.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_getres, clock_gettime};
use transom_machine::namespace;
use transom_machine::signals::Signals;
use transom_output::note;
use transom_spool::AgentEvent;

use crate::addresses::Tagger;
use crate::assemble::Assembler;
use crate::budget::{Budget, Level, until_next_look};
use crate::cgroups::Cgroups;
use crate::config::{Config, Source};
use crate::cost;
use crate::counting::Counting;
use crate::finish::lacks_room;
use crate::gap::{Gap, Now};
use crate::journal::{Beat, Head, TraceFile};
use crate::kernel::Kernel;
use crate::level2::{self, Level2};
use crate::metrics::{Metrics, OwnState};
use crate::raw::Counts;
use crate::service_manager;
use crate::sock_diag::Polling;
use crate::store::{Limits, Store};
use crate::taken::{self, KEY, NO_ROOM, Taken};
use crate::watch::{Found, Watch};

/// How long records may lie in the ring.
const READ_EVERY: Duration = Duration::from_millis(500);
const BEAT_EVERY: Duration = Duration::from_secs(1);
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Without a write that failed: a full disk still takes small ones between those that it refuses.
const WRITABLE_AFTER: Duration = Duration::from_secs(10);

/// The configuration, once more, when it is asked for.
pub struct Reread<'a> {
    pub asked: Arc<AtomicBool>,
    pub read: &'a dyn Fn() -> Result<Config>,
}

pub struct Daemon {
    config: Config,
    kernel: Box<dyn Watch>,
    level_2: Option<Level2>,
    store: Store,
    assembler: Assembler,
    budget: Budget,
    counting: Counting,
    metrics: Option<Arc<Mutex<Metrics>>>,
    snmp: Option<File>,
    measured: (Instant, Duration),
    /// When a write failed last, until it is writable again.
    unwritable: Option<Instant>,
    /// Files that were removed for the spool's limit, as far as it was told.
    removed: u64,
    level_changes: u64,
    /// Before this agent.
    gap: Option<Gap>,
    /// Of the agent before, until this one begins.
    left: Option<(Head, Beat)>,
}

impl Daemon {
    /// Everything that can fail at the start, before anything is written or said to run. Dropped
    /// instead of begun, it leaves no more than was there before.
    ///
    /// # Errors
    /// A privilege or kernel feature is missing, the spool is taken or cannot be written.
    pub fn start(config: Config, metrics: Option<Arc<Mutex<Metrics>>>) -> Result<Daemon> {
        let taken = Taken::take(&config.spool)?;
        let disk = taken::disk(&config.spool);
        let config = config.within(disk);
        let tagger = Tagger::of_or_new(&config.spool.join(KEY))
            .map_err(|error| if lacks_room(&error) { error.context(NO_ROOM) } else { error })?;
        let netns = namespace::own()?;
        let us_per_jiffy = (clock_getres(ClockId::MonotonicCoarse).tv_nsec / 1000) as u32;
        let mut assembler = Assembler::new(tagger, config.addresses, us_per_jiffy, netns);
        let (store, left) = Store::open(taken, &config.spool, limits(&config), &mut assembler)?;
        let counting = Counting::begin();
        let kernel = watch(&config, us_per_jiffy)?;
        let own_key = level2::own_key(&config.spool);
        let level_2 = Level2::prepare(&config, &*kernel, own_key, us_per_jiffy)?;
        let wanted = match &level_2 {
            Some(_) => Level::Recording,
            None if kernel.has_level_1() => Level::Decisions,
            None => Level::Connections,
        };
        let mut daemon = Daemon {
            budget: Budget::new(config.cpu, wanted),
            config,
            kernel,
            level_2,
            store,
            assembler,
            counting,
            metrics,
            snmp: File::open("/proc/net/snmp").ok(),
            measured: (Instant::now(), Duration::ZERO),
            unwritable: None,
            removed: 0,
            level_changes: 0,
            gap: None,
            left,
        };
        daemon.measured.1 = daemon.spent();
        Ok(daemon)
    }

    /// From now on it writes.
    ///
    /// # Errors
    /// The kernel refuses level 2.
    pub fn begin(&mut self) -> Result<()> {
        self.tend_level_2()?;
        self.event(AgentEvent::Start, |_| {});
        if let Some((head, last)) = self.left.take() {
            self.note_gap(&head, &last);
        }
        let result = self.store.begun();
        self.noted(result);
        Ok(())
    }

    /// Between the agent before us and this one: how long nobody looked, and how many
    /// connections ended meanwhile, as far as the kernel's own counters tell.
    fn note_gap(&mut self, head: &Head, last: &Beat) {
        let counts = cost::opened_and_established(&mut self.snmp);
        let now = Now { boot: self.store.boot(), boottime_ns: boottime_ns(), wall_us: wall_us() };
        let gap = Gap::between(head, last, &now, counts);
        self.event(AgentEvent::Gap, |beat| {
            beat.gap_ns = gap.ns;
            beat.lost_rows = gap.connections;
        });
        note!("{gap}");
        self.gap = Some(gap);
    }

    fn beat(&mut self, event: AgentEvent, counts: &Counts) -> Beat {
        let (opened, established) = cost::opened_and_established(&mut self.snmp);
        let place = AgentEvent::ALL.iter().position(|known| *known == event).unwrap_or(0);
        let now = boottime_ns();
        Beat {
            level: self.budget.level().number(),
            cpu_ppm: (self.budget.share() * 1e6) as u32,
            time_ns: now,
            wall_offset_ns: wall_us() * 1000 - now as i64,
            opened,
            established,
            tracked: counts.tracked,
            untracked: counts.untracked,
            lost_rows: counts.lost_rows + self.store.losses.rows,
            lost_decisions: counts.lost_decisions + self.store.losses.decisions,
            ..Beat::new(place as u8)
        }
    }

    fn event(&mut self, event: AgentEvent, change: impl FnOnce(&mut Beat)) {
        let counts = self.kernel.counts();
        let mut beat = self.beat(event, &counts);
        change(&mut beat);
        let result = self.store.beat(&beat, wall_us());
        self.noted(result);
    }

    /// An agent lives on when its disk does not; what that costs is counted, and said once.
    fn noted(&mut self, result: Result<()>) {
        match (result, self.unwritable) {
            (Err(error), before) => {
                if before.is_none() {
                    note!("{error:#}; rows are counted as lost until it can be written");
                }
                self.unwritable = Some(Instant::now());
            }
            (Ok(()), Some(failed)) if failed.elapsed() >= WRITABLE_AFTER => {
                self.unwritable = None;
                note!("the spool can be written again");
                self.event(AgentEvent::Unwritable, |_| {});
            }
            _ => {}
        }
    }

    /// CPU time of agent and probes until now.
    fn spent(&self) -> Duration {
        cost::own() + self.counting.probes()
    }

    fn tend_counting(&mut self) {
        let (kernel, level_2) = (&self.kernel, &self.level_2);
        self.counting.tend(|| {
            let recorded = level_2.as_ref().map(Level2::recorded).unwrap_or_default();
            cost::of_probes(&kernel.stats()) + recorded.probes
        });
    }

    /// Runs until a signal comes; what has come by then is in whole files.
    pub fn run(mut self, signals: &Signals, reread: &Reread<'_>) -> Result<()> {
        let start = Instant::now();
        let (mut beaten, mut looked) = (start, start);
        let mut wait = Duration::from_secs(self.config.look_seconds);
        while !signals.came() {
            if reread.asked.swap(false, Ordering::Relaxed) {
                let result = (reread.read)().and_then(|config| self.reconfigure(config));
                if let Err(error) = result {
                    note!("{error:#}; the agent goes on as it was configured");
                }
            }
            let bytes = self.kernel.wait(READ_EVERY)?;
            self.take(&bytes);
            self.kernel.reuse(bytes);
            self.tend_level_2()?;
            self.tend_counting();
            if beaten.elapsed() >= BEAT_EVERY {
                beaten = Instant::now();
                self.each_second();
            }
            if looked.elapsed() >= wait {
                looked = Instant::now();
                wait = self.look()?;
            }
            if self.measured.0.elapsed() >= MEASURE_EVERY {
                self.measure()?;
            }
        }
        self.stop()
    }

    fn metrics(&self) -> Option<MutexGuard<'_, Metrics>> {
        let metrics = self.metrics.as_ref()?;
        Some(metrics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns after how long the next look is due.
    fn look(&mut self) -> Result<Duration> {
        let before = cost::of_thread();
        let asked = self.metrics().is_some_and(|mut metrics| metrics.wants_roll_call());
        let mut found = asked.then(Found::default);
        self.kernel.look(found.as_mut())?;
        if let (Some(found), Some(mut metrics)) = (found, self.metrics()) {
            metrics.looked(&found);
        }
        let (took, least) =
            (cost::of_thread() - before, Duration::from_secs(self.config.look_seconds));
        Ok(until_next_look(took, self.config.cpu, least, self.config.interim()))
    }

    fn tend_level_2(&mut self) -> Result<()> {
        let Some(level_2) = &mut self.level_2 else { return Ok(()) };
        level_2.set(self.budget.level() == Level::Recording);
        let counts = self.kernel.counts();
        level_2.tend(&mut *self.kernel, &counts, wall_us())?;
        level_2.evaluate(&mut *self.kernel, &counts, &mut self.assembler)
    }

    /// What may fail comes first, so that then nothing is changed.
    fn reconfigure(&mut self, config: Config) -> Result<()> {
        let (config, kept) = config.over(&self.config);
        let config = config.within(taken::disk(&self.config.spool));
        // Rows until now are written under the setting that they came under.
        if config.addresses != self.config.addresses {
            self.store.finish(wall_us(), &mut self.assembler)?;
        }
        if self.budget.level() > Level::Counting {
            self.kernel.set_most(config.connections)?;
        }
        self.store.set_limits(limits(&config));
        self.assembler.addresses = config.addresses;
        self.budget.set_most(config.cpu);
        if let Some(level_2) = &mut self.level_2 {
            level_2.reconfigure(&config);
        }
        self.config = config;
        if kept.is_empty() {
            note!("the configuration was read again");
        } else {
            note!("the configuration was read again; at the next start only: {}", kept.join(", "));
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let result = self.store.append(bytes, wall_us(), &mut self.assembler);
        self.noted(result);
        self.count(|metrics, cgroups, us| metrics.count_records(bytes, cgroups, us));
    }

    fn count(&mut self, counts: impl FnOnce(&mut Metrics, &mut Cgroups, u32)) {
        let Some(metrics) = &self.metrics else { return };
        let mut metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let us_per_jiffy = self.assembler.us_per_jiffy;
        counts(&mut metrics, &mut self.assembler.cgroups, us_per_jiffy);
    }

    fn each_second(&mut self) {
        self.assembler.cgroups.next_second();
        self.count(Metrics::count_unnamed);
        let counts = self.kernel.counts();
        let beat = self.beat(AgentEvent::Period, &counts);
        self.assembler.wall_offset_ns = beat.wall_offset_ns;
        let finished = self.level_2.as_ref().map(Level2::finished).unwrap_or_default();
        self.note_traces(&finished);
        let result = self.store.beat(&beat, wall_us());
        let result = result.and_then(|()| self.store.tend(wall_us(), &mut self.assembler));
        self.noted(result);
        if self.store.removed() > self.removed {
            self.removed = self.store.removed();
            self.event(AgentEvent::Removed, |_| {});
        }
        self.publish(&beat, &counts);
    }

    /// The agent's own table says what was recorded, whatever becomes of the files.
    fn note_traces(&mut self, finished: &[TraceFile]) {
        for file in finished {
            let result = self.store.trace(file, wall_us());
            self.noted(result);
        }
    }

    fn publish(&self, beat: &Beat, counts: &Counts) {
        let Some(metrics) = &self.metrics else { return };
        let recorded = self.level_2.as_ref().map(Level2::recorded).unwrap_or_default();
        let state = OwnState {
            level: beat.level,
            configured_level: self.budget.wanted().number(),
            tracked: beat.tracked,
            untracked: beat.untracked,
            lost_rows: beat.lost_rows,
            lost_decisions: beat.lost_decisions,
            recorded: counts.recorded,
            chosen: counts.chosen,
            not_chosen: counts.not_chosen,
            events: recorded.events,
            lost_events: recorded.lost,
            level_changes: self.level_changes,
            cpu_seconds: self.measured.1.as_secs_f64(),
            cpu_share: self.budget.share(),
            resident: cost::resident(),
            spool: self.store.bytes(),
            unwritable: self.unwritable.is_some(),
            gap_seconds: self.gap.as_ref().map_or(0.0, Gap::seconds),
            gap_connections: self.gap.as_ref().map_or(0, |gap| gap.connections),
        };
        metrics.lock().unwrap_or_else(PoisonError::into_inner).set_own(&state);
    }

    fn measure(&mut self) -> Result<()> {
        let (now, spent) = (Instant::now(), self.spent());
        let before = self.budget.level();
        let cpu = spent.saturating_sub(self.measured.1);
        let level = self.budget.measured(cpu, now - self.measured.0);
        self.measured = (now, spent);
        if level == before {
            return Ok(());
        }
        self.level_changes += 1;
        self.kernel.set_level_1(level >= Level::Decisions)?;
        self.kernel.set_most(if level == Level::Counting { 0 } else { self.config.connections })?;
        self.tend_level_2()?;
        note!(
            "level {} from now on: the budget is {} of one CPU",
            if level == Level::Counting { "none".into() } else { level.number().to_string() },
            self.config.cpu
        );
        self.event(AgentEvent::Level, |_| {});
        Ok(())
    }

    fn stop(mut self) -> Result<()> {
        service_manager::tell(service_manager::State::Stopping);
        let bytes = self.kernel.last()?;
        self.take(&bytes);
        if let Some(level_2) = self.level_2.take() {
            self.note_traces(&level_2.stop());
        }
        let counts = self.kernel.counts();
        if self.unwritable.is_some() {
            let beat = self.beat(AgentEvent::Unwritable, &counts);
            let result = self.store.beat(&beat, wall_us());
            self.noted(result);
        }
        let beat = self.beat(AgentEvent::Stop, &counts);
        let result = self.store.beat(&beat, wall_us());
        self.noted(result);
        self.store.finish(wall_us(), &mut self.assembler)?;
        self.store.stop(&beat, wall_us())
    }

    /// Whether the cost of the probes is known, which the budget needs.
    pub fn counts_probes(&self) -> bool {
        self.counting.works()
    }
}

fn limits(config: &Config) -> Limits {
    Limits {
        bytes: config.spool_mib << 20,
        decisions_us: config.decisions_hours as i64 * 3_600_000_000,
        file_us: config.file_seconds as i64 * 1_000_000,
    }
}

/// The probes, or what is possible without them.
fn watch(config: &Config, us_per_jiffy: u32) -> Result<Box<dyn Watch>> {
    let probes = || Kernel::open(config.interim(), config.connections, config.level >= 1);
    let refused = match config.source {
        Source::SockDiag => None,
        Source::Probes => return Ok(Box::new(probes()?)),
        Source::Auto => match probes() {
            Ok(kernel) => {
                if config.level >= 1 && !kernel.has_level_1() {
                    note!(
                        "this kernel has no level 1 (Linux 5.19): one row per connection, no decisions"
                    );
                }
                return Ok(Box::new(kernel));
            }
            Err(error) => Some(error),
        },
    };
    if let Some(error) = refused {
        note!(
            "{error:#}; rows come from sock_diag instead, which does not say how long a connection lasted or how it ended"
        );
    }
    Ok(Box::new(Polling::open(config.interim(), config.connections, us_per_jiffy)?))
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wall_us() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

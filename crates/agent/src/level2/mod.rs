//! Level 2: chosen connections, event by event. The kernel chooses (`bpf/agent_choice.h`), the
//! probes of the monitor record what is chosen, and a thread writes it into the spool.

mod condition;
mod files;
mod mask;
mod recorder;
mod settings;
mod watch_list;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use libbpf_rs::Object;
use transom_machine::objects::map;
use transom_output::note;

use crate::addresses::Addresses;
use crate::assemble::Assembler;
use crate::config::Config;
use crate::journal::TraceFile;
use crate::raw::{Counts, RawChoice};
use crate::store::JOURNALS;
use crate::taken::KEY;
use crate::watch::Watch;

pub use files::FileLimits;
pub use recorder::Recorded;
pub use settings::Recording;

use condition::Condition;
use recorder::{Orders, Recorder, Wanted};

/// How long the cgroups of units are believed.
const CGROUPS_FOR: Duration = Duration::from_secs(30);

/// What the recorder needs of the kernel's side: the map of what is chosen.
pub struct Chooser(OwnedFd);

impl Chooser {
    /// # Errors
    /// The object has no such map.
    pub fn of(object: &Object) -> Result<Chooser> {
        Ok(Chooser(map(object, "transom_chosen")?.as_fd().try_clone_to_owned()?))
    }
}

/// Level 2 as the daemon has it.
pub struct Level2 {
    settings: Recording,
    condition: Option<Condition>,
    /// The spool's own, where the configuration has no key.
    own_key: [u8; 16],
    us_per_jiffy: u32,
    on: bool,
    choice: RawChoice,
    cgroups_read: Option<Instant>,
    /// What was doubtful about the watch list the last time.
    told: Vec<String>,
    recorder: Recorder,
}

impl Level2 {
    /// Not on yet; `None` where the kernel or the configuration does not have it.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn prepare(
        config: &Config,
        kernel: &dyn Watch,
        own_key: [u8; 16],
        us_per_jiffy: u32,
    ) -> Result<Option<Level2>> {
        let Some(chooser) = kernel.chooser().filter(|_| config.level >= 2) else { return Ok(None) };
        let recorder = Recorder::spawn(chooser.0, orders(config))?;
        let settings = config.recording.clone();
        Ok(Some(Level2 {
            condition: settings.condition()?,
            settings,
            own_key,
            us_per_jiffy,
            on: false,
            choice: RawChoice::default(),
            cgroups_read: None,
            told: Vec::new(),
            recorder,
        }))
    }

    /// The configuration was read again, and was checked.
    pub fn reconfigure(&mut self, config: &Config) {
        self.settings = config.recording.clone();
        self.condition = self.settings.condition().unwrap_or_default();
        self.cgroups_read = None;
        self.recorder.set(orders(config));
    }

    /// The budget allows it, or not.
    pub fn set(&mut self, on: bool) {
        self.on = on;
    }

    /// What is to be done now and then: the day's key, the watch list, the probes.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn tend(&mut self, kernel: &mut dyn Watch, counts: &Counts, wall_us: i64) -> Result<()> {
        if self.cgroups_read.is_none_or(|read| read.elapsed() > CGROUPS_FOR) {
            self.cgroups_read = Some(Instant::now());
            self.settings.find_cgroups();
            self.tell_doubts(wall_us);
        }
        let choice = self.settings.choice(self.on, &self.own_key, self.us_per_jiffy, wall_us);
        if choice != self.choice {
            kernel.set_choice(&choice)?;
            self.choice = choice;
        }
        self.recorder.want(self.wanted(counts));
        Ok(())
    }

    /// Each once.
    fn tell_doubts(&mut self, wall_us: i64) {
        let doubts = watch_list::doubts(&self.settings.watch, wall_us);
        for doubt in doubts.iter().filter(|doubt| !self.told.contains(doubt)) {
            note!("{doubt}");
        }
        self.told = doubts;
    }

    /// Samples and watched connections are recorded from their first event on; for the others the
    /// probes come when there is one.
    fn wanted(&self, counts: &Counts) -> Wanted {
        if !self.on {
            Wanted::Nothing
        } else if counts.recorded > 0 || self.choice.sample_below > 0 || self.choice.watches > 0 {
            Wanted::Events
        } else {
            Wanted::Ready
        }
    }

    /// Evaluates the condition on what the last look saw. What finds no room the kernel counts.
    ///
    /// # Errors
    /// The kernel refuses to look.
    pub fn evaluate(
        &mut self,
        kernel: &mut dyn Watch,
        counts: &Counts,
        assembler: &mut Assembler,
    ) -> Result<()> {
        let snapshots = kernel.snapshots();
        let Some(condition) = self.condition.as_ref().filter(|_| self.on) else { return Ok(()) };
        let holds = snapshots.iter().filter(|raw| condition.holds(&assembler.connection(raw)));
        let chosen = holds.filter(|raw| kernel.choose(raw.cookie).is_ok()).count();
        // The next look takes what was chosen: now, not in ten seconds.
        let has_room = counts.recorded < u64::from(self.settings.connections);
        if chosen > 0 && has_room { kernel.look(None) } else { Ok(()) }
    }

    /// What was recorded so far.
    pub fn recorded(&self) -> Recorded {
        self.recorder.recorded()
    }

    /// Files of events that were finished since this was asked last.
    pub fn finished(&self) -> Vec<TraceFile> {
        self.recorder.finished()
    }

    /// Ends the thread, and with it the file, which is told.
    pub fn stop(self) -> Vec<TraceFile> {
        let (finished, ended) = self.recorder.stop();
        if let Err(error) = ended {
            note!("the last trace is cut: {error:#}");
        }
        finished
    }
}

fn orders(config: &Config) -> Orders {
    Orders {
        spool: config.spool.clone(),
        limits: FileLimits {
            bytes: config.recording.mib << 20,
            age: Duration::from_secs(config.recording.hours * 3600),
            file: Duration::from_secs(config.file_seconds),
            // The open one is not removed to keep the spool's limit: it must not take all of it.
            file_bytes: files::MOST_BYTES.min((config.spool_mib << 20) / JOURNALS),
        },
        full_addresses: config.addresses == Addresses::Full,
    }
}

/// The key of address tags doubles as that of the sample where none is shared with others.
pub fn own_key(spool: &Path) -> [u8; 16] {
    let bytes = std::fs::read(spool.join(KEY)).unwrap_or_default();
    bytes.try_into().unwrap_or([0; 16])
}

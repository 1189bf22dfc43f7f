//! A running monitor: programs loaded and attached, events read, all gone on drop.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::{Link, MapCore, MapFlags, Object, OpenObject};
use transom_event::{LossCause, Raw};
use transom_machine::objects::{self, map, per_cpu_sum};
use transom_machine::{ProgramStats, missed, processes};

use crate::filter::Filter;
use crate::presence::Presence;
use crate::rings::{Reader, Rings};
use crate::settings::Settings;
use crate::survey::Survey;
use crate::{existing, fit};

/// How many `ack` and `send` events of a connection are wanted. Error events
/// are never thinned out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    #[default]
    Every,
    /// At most one of each kind per smoothed round-trip time.
    OncePerRtt,
    /// At most one of each kind per interval.
    Interval(Duration),
}

/// What to monitor, and how.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    pub filter: Filter,
    pub rate: Rate,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Look for connections that exist already.
    pub existing: bool,
}

/// The rings are read so often while each could be filled once with connections that exist, of which
/// each is told by up to three events; what the traffic adds has the rest.
const STEPS_A_RING: u32 = 16;

/// Ring buffer when nothing is said: a quarter of a second at 250,000 events/s.
pub const DEFAULT_RING_BYTES: u32 = 8 << 20;

impl Default for MonitorOptions {
    fn default() -> MonitorOptions {
        MonitorOptions {
            filter: Filter::default(),
            rate: Rate::default(),
            ring_bytes: DEFAULT_RING_BYTES,
            existing: true,
        }
    }
}

/// Probes in the kernel and the ring buffer they fill. Dropping it detaches
/// all of them; the kernel does the same if the process dies.
pub struct Monitor {
    // Order of drop: first the reader, then the links, then the object.
    reader: Reader,
    /// What was read while connections that were there before were listed.
    earlier: Vec<Raw>,
    links: Vec<(String, Link)>,
    presence: Presence,
    object: Object,
    survey: Survey,
}

/// Leaves only the named programs to be loaded.
pub(crate) fn keep_programs(open: &mut OpenObject, names: &[&str]) {
    for mut program in open.progs_mut() {
        let wanted = names.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
}

/// The object with its settings and maps as the survey and the options want them.
pub(crate) fn prepared(
    survey: &Survey,
    options: &MonitorOptions,
    chosen: Option<BorrowedFd<'_>>,
) -> Result<OpenObject> {
    let mut open = objects::monitor::open()?;
    let rings = Rings::of(options.ring_bytes)?;
    let settings = Settings {
        ring_bits: rings.bits,
        ring_wake_at: u64::from(rings.records_each()) / 4,
        by_choice: chosen.is_some().into(),
        ..Settings::new(survey, options)?
    };
    settings.put_into(&mut open)?;
    resize(&mut open, "rings", rings.number)?;
    resize(&mut open, "records", rings.number << rings.bits)?;
    if let Some(chosen) = chosen {
        share(&mut open, "transom_chosen", chosen)?;
    }
    Ok(open)
}

/// The first thing this user or kernel lacks, as an error with its remedy.
pub(crate) fn refuse_if_hopeless(survey: &Survey) -> Result<()> {
    match survey.obstacles().first() {
        Some(fact) => bail!("{}: {} (see `transom check`)", fact.lack(), fact.remedy),
        None => Ok(()),
    }
}

/// Sets the number of entries of a map that is not yet loaded.
pub(crate) fn resize(open: &mut OpenObject, name: &str, entries: u32) -> Result<()> {
    let map = open.maps_mut().find(|map| map.name() == name);
    Ok(map.with_context(|| format!("no map {name}"))?.set_max_entries(entries)?)
}

/// Puts a map of another object in the place of one that is not yet loaded.
fn share(open: &mut OpenObject, name: &str, with: BorrowedFd<'_>) -> Result<()> {
    let map = open.maps_mut().find(|map| map.name() == name);
    let mut map = map.with_context(|| format!("no map {name}"))?;
    map.reuse_fd(with).with_context(|| format!("sharing {name}"))
}

impl MonitorOptions {
    /// What is wrong with them wherever they are used, before anything is tried.
    ///
    /// # Errors
    /// A filter that names something that is not there, an impossible size.
    pub fn check(&self) -> Result<()> {
        let page = rustix::param::page_size() as u32;
        if !self.ring_bytes.is_power_of_two() || self.ring_bytes < page {
            bail!(
                "a ring buffer of {} bytes cannot be: give a power of two, at least {page}",
                self.ring_bytes,
            );
        }
        self.filter.settings().map(drop)
    }
}

impl Monitor {
    /// Loads and attaches the best probes this kernel has.
    ///
    /// # Errors
    /// When a privilege or a kernel feature is missing (named, with the
    /// remedy), or a filter names something that is not there.
    pub fn start(survey: Survey, options: &MonitorOptions) -> Result<Monitor> {
        let mut monitor = Monitor::load(survey, options, &[], None)?;
        monitor.presence.attach(&monitor.object)?;
        monitor.attach()?;
        if options.existing {
            monitor.list_existing(options)?;
        }
        Ok(monitor)
    }

    /// Nobody reads the rings yet, and there may be more connections than they have room for.
    fn list_existing(&mut self, options: &MonitorOptions) -> Result<()> {
        let Monitor { reader, earlier, object, survey, .. } = self;
        let mut drain = || reader.take(&mut |raw| earlier.push(*raw)).map(drop);
        let step = (Rings::of(options.ring_bytes)?.records_each() / STEPS_A_RING).max(1);
        existing::report(object, survey, &options.filter, step, &mut drain)
    }

    /// Loads the probes for the connections in this map (`bpf/chosen.h`), which another object
    /// fills. None is attached: see [`Monitor::attach`]. Who chooses knows the owner, too.
    ///
    /// # Errors
    /// As [`Monitor::start`].
    pub fn of_chosen(
        survey: Survey,
        options: &MonitorOptions,
        chosen: BorrowedFd<'_>,
    ) -> Result<Monitor> {
        Monitor::load(survey, options, &["existing", "owner", "children"], Some(chosen))
    }

    /// Attaches all that is loaded; nothing where it is attached already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn attach(&mut self) -> Result<()> {
        if self.links.is_empty() {
            self.links = attach(&self.object, self.presence.programs())?;
        }
        Ok(())
    }

    /// Takes the probes away: what is loaded and not attached costs nothing. When it returns, none
    /// runs any more, and what they wrote can be read.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    fn load(
        mut survey: Survey,
        options: &MonitorOptions,
        without: &[&str],
        chosen: Option<BorrowedFd<'_>>,
    ) -> Result<Monitor> {
        refuse_if_hopeless(&survey)?;
        options.check()?;
        let object =
            fit::load(&mut survey, without, &[], |survey| prepared(survey, options, chosen))
                .context("the kernel did not accept the probes")?;
        let reader = Reader::open(&object, Rings::of(options.ring_bytes)?)?;
        add_processes(&object, &options.filter.pids)?;
        // Who chooses knows the owner.
        let owner = survey.chosen("owner").filter(|_| chosen.is_none());
        // What a filter by process asks at each system call, nothing else can say.
        let always = options.filter.settings()?.by_process != 0;
        let presence = Presence::of(&object, owner.map_or(&[], |owner| owner.programs), always)?;
        Ok(Monitor { reader, earlier: Vec::new(), links: Vec::new(), presence, object, survey })
    }

    /// What was chosen and why.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// From now on, connections that this process touches are wanted.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        add_processes(&self.object, &[pid])
    }

    /// From now on, connections that only this process touches are not wanted.
    pub fn remove_process(&self, pid: u32) -> Result<()> {
        let number = processes::kernel_numbers(&[pid])?[0];
        map(&self.object, "processes")?
            .delete(&number.to_ne_bytes())
            .with_context(|| format!("removing process {pid} from the filter"))
    }

    /// See `Reader::poll`.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        if !self.earlier.is_empty() {
            let earlier = std::mem::take(&mut self.earlier);
            earlier.iter().for_each(sink);
            return Ok(earlier.len());
        }
        let taken = self.reader.poll(timeout, sink)?;
        self.presence.keep(&self.object)?;
        Ok(taken)
    }

    /// Events that could not be recorded, by cause, since the start.
    ///
    /// # Errors
    /// If the counts cannot be read: how much is missing is then not known.
    pub fn losses(&self) -> Result<Vec<(LossCause, u64)>> {
        let losses = map(&self.object, "losses")?;
        let counted = |&cause: &LossCause| match cause {
            LossCause::Recursion => Ok((cause, missed(&self.object)?)),
            _ => Ok((cause, per_cpu_sum(&losses, cause as u32)?)),
        };
        let all = LossCause::ALL.iter().map(counted).collect::<Result<Vec<_>>>();
        let mut all = all.context("reading how many events were lost")?;
        all.retain(|&(_, events)| events > 0);
        Ok(all)
    }

    /// Name, runs and time of each program; needs `kernel.bpf_stats_enabled`.
    pub fn program_stats(&self) -> Vec<ProgramStats> {
        transom_machine::program_stats(&self.object)
    }
}

/// Connections that these processes touch are wanted.
pub(crate) fn add_processes(object: &Object, pids: &[u32]) -> Result<()> {
    let map = map(object, "processes")?;
    for number in processes::kernel_numbers(pids)? {
        map.update(&number.to_ne_bytes(), &[1], MapFlags::ANY)
            .with_context(|| format!("adding process {number} to the filter"))?;
    }
    Ok(())
}

/// Attaches every loaded program but these and the iterators, which run when asked.
pub(crate) fn attach(object: &Object, but: &[&str]) -> Result<Vec<(String, Link)>> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        if !program.autoload() || section.starts_with("iter/") {
            continue;
        }
        let name = program.name().to_string_lossy().into_owned();
        if but.contains(&name.as_str()) {
            continue;
        }
        let link = program.attach().with_context(|| format!("attaching {name} to {section}"))?;
        links.push((name, link));
    }
    Ok(links)
}

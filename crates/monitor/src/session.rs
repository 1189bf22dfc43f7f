//! A running monitor: programs loaded and attached, events read, all gone on drop.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::{
    Iter, Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramMut, RingBuffer,
    RingBufferBuilder,
};
use transom_event::{LossCause, Raw};

use crate::clock::microseconds_per_jiffy;
use crate::filter::Filter;
use crate::skeleton::{self, MonitorSettings};
use crate::survey::Survey;
use crate::{namespace, program_stats};

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
pub struct Options {
    pub filter: Filter,
    pub rate: Rate,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Look for connections that exist already.
    pub existing: bool,
}

/// Ring buffer when nothing is said: a quarter of a second at 250,000 events/s.
pub const DEFAULT_RING_BYTES: u32 = 8 << 20;

/// Records taken out of the ring buffer between two looks at the sink.
const BATCH: usize = 2048;

impl Default for Options {
    fn default() -> Options {
        Options {
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
    ring: RingBuffer<'static>,
    batch: Rc<RefCell<Vec<Raw>>>,
    malformed: Rc<RefCell<u64>>,
    _links: Vec<Link>,
    object: Object,
    survey: Survey,
}

/// Where a map's initial bytes are, seen as the settings struct they hold.
fn settings_of<T>(open: &mut OpenObject) -> Result<&mut T> {
    let map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let mut map = map.context("the BPF object has no settings")?;
    let bytes = map.initial_value_mut().context("the BPF object's settings are closed")?;
    if bytes.len() < size_of::<T>() || bytes.as_ptr().align_offset(align_of::<T>()) != 0 {
        bail!("the BPF object's settings have another layout");
    }
    // SAFETY: the bytes are libbpf's page-aligned copy of .rodata, which the generated
    // struct describes; they live as long as `open`, which stays borrowed.
    Ok(unsafe { &mut *bytes.as_mut_ptr().cast::<T>() })
}

/// Leaves only the named programs to be loaded.
pub(crate) fn keep_programs(open: &mut OpenObject, names: &[&str]) {
    for mut program in open.progs_mut() {
        let wanted = names.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
}

pub(crate) fn configure(open: &mut OpenObject, survey: &Survey, options: &Options) -> Result<()> {
    let filter = options.filter.settings()?;
    let settings: &mut MonitorSettings = settings_of(open)?;
    settings.filter = filter;
    settings.us_per_jiffy = microseconds_per_jiffy();
    match options.rate {
        Rate::Every => {}
        Rate::OncePerRtt => settings.once_per_rtt = 1,
        Rate::Interval(interval) => settings.min_interval_ns = interval.as_nanos() as u64,
    }
    let by_tracepoint = |purpose| {
        survey.chosen(purpose).is_none_or(|c| c.tier == crate::probes::Tier::Tracepoint)
    };
    settings.rto_by_state = by_tracepoint("rto").into();
    settings.refusal_by_state = by_tracepoint("local_congestion").into();
    settings.wake_at_bytes = u64::from(options.ring_bytes) / 4;
    Ok(())
}

fn page_size() -> u32 {
    rustix::param::page_size() as u32
}

impl Monitor {
    /// Loads and attaches the best probes this kernel has.
    ///
    /// # Errors
    /// When a privilege or a kernel feature is missing (named, with the
    /// remedy), or a filter names something that is not there.
    pub fn start(survey: Survey, options: &Options) -> Result<Monitor> {
        if let Some(fact) = survey.obstacles().first() {
            bail!("{} is missing: {} (see `transom check`)", fact.name, fact.remedy);
        }
        if !options.ring_bytes.is_power_of_two() || options.ring_bytes < page_size() {
            bail!(
                "a ring buffer of {} bytes cannot be: give a power of two, at least {}",
                options.ring_bytes,
                page_size()
            );
        }
        let programs = survey.programs();
        let mut open = ObjectBuilder::default().open_memory(skeleton::monitor())?;
        keep_programs(&mut open, &programs);
        configure(&mut open, &survey, options)?;
        for mut map in open.maps_mut() {
            if map.name() == "events" {
                map.set_max_entries(options.ring_bytes)?;
            }
        }
        let object = open.load().context("the kernel did not accept the probes")?;
        let mut monitor = Monitor::with_reader(object, survey)?;
        for pid in &options.filter.pids {
            monitor.add_process(*pid)?;
        }
        monitor._links = attach(&monitor.object)?;
        if options.existing {
            monitor.report_existing(options)?;
        }
        Ok(monitor)
    }

    fn with_reader(object: Object, survey: Survey) -> Result<Monitor> {
        let batch = Rc::new(RefCell::new(Vec::with_capacity(BATCH)));
        let malformed = Rc::new(RefCell::new(0));
        let (into, bad) = (Rc::clone(&batch), Rc::clone(&malformed));
        let events = object.maps().find(|map| map.name() == "events").context("no map events")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&events, move |bytes: &[u8]| {
            match Raw::from_bytes(bytes) {
                Ok(raw) => into.borrow_mut().push(raw),
                Err(_) => *bad.borrow_mut() += 1,
            }
            0
        })?;
        let ring = builder.build()?;
        Ok(Monitor { ring, batch, malformed, _links: Vec::new(), object, survey })
    }

    /// What was chosen and why.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// From now on, connections that this process touches are wanted.
    pub fn add_process(&self, pid: u32) -> Result<()> {
        let map = self.object.maps().find(|map| map.name() == "processes");
        let map = map.context("no map processes")?;
        map.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)
            .with_context(|| format!("adding process {pid} to the filter"))
    }

    /// From now on, connections that only this process touches are not wanted.
    pub fn remove_process(&self, pid: u32) -> Result<()> {
        let map = self.object.maps().find(|map| map.name() == "processes");
        let map = map.context("no map processes")?;
        map.delete(&pid.to_ne_bytes())
            .with_context(|| format!("removing process {pid} from the filter"))
    }

    /// Waits until much has gathered or `timeout` is over, then hands all of it
    /// to `sink` in the order the kernel wrote it. Returns how many.
    pub fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Raw)) -> Result<usize> {
        // The reader is woken only when much waits; what is less is taken here.
        self.wait(timeout)?;
        let mut taken = 0;
        loop {
            let got = self.ring.consume_raw_n(BATCH);
            if got < 0 {
                return Err(anyhow!("reading the ring buffer: {}", std::io::Error::from_raw_os_error(-got)));
            }
            let mut batch = self.batch.borrow_mut();
            batch.iter().for_each(&mut *sink);
            batch.clear();
            taken += got as usize;
            // A flood must not keep the caller from its other duties.
            if got < BATCH as i32 || taken >= 64 * BATCH {
                return Ok(taken);
            }
        }
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        // SAFETY: the ring buffer owns this descriptor and outlives the call.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.ring.epoll_fd()) };
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("waiting for events"),
        }
    }

    /// Events that could not be recorded, by cause, since the start.
    pub fn losses(&self) -> Vec<(LossCause, u64)> {
        let map = self.object.maps().find(|map| map.name() == "losses");
        let counted = |cause: LossCause| -> u64 {
            let Some(map) = &map else { return 0 };
            let key = u32::from(cause as u8).to_ne_bytes();
            let values = map.lookup_percpu(&key, MapFlags::ANY).ok().flatten().unwrap_or_default();
            values.iter().map(|v| u64::from_ne_bytes(v[..8].try_into().unwrap_or_default())).sum()
        };
        LossCause::ALL
            .iter()
            .map(|&cause| match cause {
                LossCause::Recursion => (cause, program_stats::missed(&self.object)),
                LossCause::Segment => (cause, counted(cause) + *self.malformed.borrow()),
                _ => (cause, counted(cause)),
            })
            .filter(|&(_, n)| n > 0)
            .collect()
    }

    /// Name, runs and time of each program; needs `kernel.bpf_stats_enabled`.
    pub fn program_stats(&self) -> Vec<program_stats::ProgramStats> {
        program_stats::all(&self.object)
    }

    /// Asks for an `open` and a `state` event of each connection that is there.
    fn report_existing(&self, options: &Options) -> Result<()> {
        if self.survey.chosen("existing").is_none() {
            return Ok(());
        }
        run_iterator(&self.object, "existing_owners").context("looking for owners of sockets")?;
        let only = options.filter.netns.as_deref().map(crate::filter::netns_path).transpose()?;
        let here = std::fs::metadata("/proc/self/ns/net").map(|m| std::os::unix::fs::MetadataExt::ino(&m)).ok();
        for (inode, path) in namespace::all() {
            if only.as_ref().is_some_and(|p| crate::filter::netns_inode(p).ok().map(u64::from) != Some(inode)) {
                continue;
            }
            let walk = || run_iterator(&self.object, "existing_connections");
            if Some(inode) == here {
                walk().context("looking for connections")?;
            } else if let Err(error) = in_namespace(&path, &self.object) {
                // A namespace may go while we look, or be another container's.
                tracing_note(&path, &error);
            }
        }
        Ok(())
    }
}

fn tracing_note(path: &std::path::Path, error: &anyhow::Error) {
    if path.exists() {
        eprintln!("transom: connections in {} are not listed: {error:#}", path.display());
    }
}

/// The iterator looks at the namespace of the thread that opens it.
fn in_namespace(path: &std::path::Path, object: &Object) -> Result<()> {
    let program = find_program(object, "existing_connections")?;
    let link = program.attach()?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&link));
    namespace::inside(path, move || -> Result<()> {
        // SAFETY: `link` is kept by the caller until the thread is joined.
        let iter = unsafe { libbpf_rs::libbpf_sys::bpf_iter_create(fd) };
        if iter < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the kernel has just given us this descriptor.
        let mut file = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(iter) };
        drain(&mut file)
    })?
}

fn drain(from: &mut impl Read) -> Result<()> {
    let mut nothing = [0; 64];
    while from.read(&mut nothing)? > 0 {}
    Ok(())
}

fn find_program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    let mut programs = object.progs_mut();
    programs.find(|program| program.name() == name).with_context(|| format!("no program {name}"))
}

fn run_iterator(object: &Object, name: &str) -> Result<()> {
    let link = find_program(object, name)?.attach()?;
    drain(&mut Iter::new(&link)?)
}

/// Attaches every loaded program but the iterators, which run when asked.
pub(crate) fn attach(object: &Object) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        if !program.autoload() || section.starts_with("iter/") {
            continue;
        }
        let name = program.name().to_string_lossy().into_owned();
        let link = program.attach().with_context(|| format!("attaching {name} to {section}"))?;
        links.push(link);
    }
    Ok(links)
}

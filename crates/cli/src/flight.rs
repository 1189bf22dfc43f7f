//! `transom flight`: the last minutes of events in memory, written out when a condition fires or
//! when somebody asks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use transom_event::{Losses, RAW_LEN, Raw};
use transom_flight::{Condition, Memory, Trigger};
use transom_machine::lock;
use transom_machine::signals::Signals;
use transom_monitor::{DEFAULT_RING_BYTES, MonitorOptions, Source, clock};
use transom_output::{note, say};
use transom_trace::{Meta, Reader, Recorded, Recorder};

use crate::filters::{FilterArgs, bytes, duration};
use crate::recorded::fresh_path;

/// What the names of its files begin with.
const FILES: &str = "flight-";

const LATENCY: Duration = Duration::from_millis(100);
const LOSSES_EVERY: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Keep the last minutes in memory until Ctrl-C
    Record(Box<RecordArgs>),
    /// Have every running `flight record`, or one, write what it has now
    Dump(DumpArgs),
}

/// Each time a condition is fulfilled, SIGUSR1 comes, or `transom flight dump` asks, the last
/// minutes become a trace file: `explain`, `report` and all others read it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom flight record --when rto=2/10s --unit nginx.service -o /var/tmp
  transom flight record --keep 2m --when retransmit=50/1s --when zero_window
  transom flight dump")]
struct RecordArgs {
    /// How much is kept
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = keep, allow_hyphen_values = true)]
    keep: Duration,
    /// Memory for it: the oldest events go first
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = memory)]
    memory: usize,
    /// Write when one connection has NUMBER events of a KIND within TIME: KIND[=NUMBER[/TIME]]
    #[arg(long, value_name = "CONDITION")]
    when: Vec<Condition>,
    /// How long to go on before writing, so that what follows is in the file, too
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, allow_hyphen_values = true)]
    after: Duration,
    /// End after this many files by conditions
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    files: u32,
    /// Folder for the files: flight-DATE-TIME.parquet
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    #[command(flatten)]
    filters: FilterArgs,
}

#[derive(clap::Args)]
struct DumpArgs {
    /// Only this one
    #[arg(long, value_name = "PID")]
    process: Option<u32>,
}

/// Least and most of `--memory`.
const MEMORY: (u64, u64) = (1 << 20, 64 << 30);

fn memory(text: &str) -> Result<usize> {
    let size = bytes(text)?;
    ensure!((MEMORY.0..=MEMORY.1).contains(&size), "'{text}': give a size from 1M to 64G");
    Ok(usize::try_from(size)?)
}

fn keep(text: &str) -> Result<Duration> {
    let time = duration(text)?;
    ensure!(!time.is_zero(), "'{text}' keeps nothing: give a time as 30s or 5m");
    Ok(time)
}

pub fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Record(args) => record(&args),
        Command::Dump(args) => dump(&args),
    }
}

/// Says where it is found while it runs.
struct Place(PathBuf);

impl Place {
    fn folder() -> PathBuf {
        lock::run().join("flight")
    }

    fn take() -> Result<Place> {
        let folder = Place::folder();
        let path = folder.join(std::process::id().to_string());
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, ""))
            .with_context(|| format!("noting this process in {}", path.display()))?;
        Ok(Place(path))
    }

    /// Processes that run now; what killed ones left is removed.
    fn running() -> Vec<u32> {
        let entries = fs::read_dir(Place::folder()).into_iter().flatten().flatten();
        let mut running = Vec::new();
        for entry in entries {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if is_ours(pid) {
                running.push(pid);
            } else {
                let _ = fs::remove_file(entry.path());
            }
        }
        running.sort_unstable();
        running
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A number may have been given to another program since.
fn is_ours(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| {
        let mut words = words.split(|&byte| byte == 0);
        words.any(|word| word == b"flight") && words.any(|word| word == b"record")
    })
}

fn dump(args: &DumpArgs) -> Result<ExitCode> {
    let running = Place::running();
    let asked = match args.process {
        Some(pid) if running.contains(&pid) => vec![pid],
        Some(pid) => bail!("process {pid} is no `transom flight record`: {}", list(&running)),
        None if running.is_empty() => bail!("{}", list(&running)),
        None => running,
    };
    for pid in asked {
        // SAFETY: a signal that such a process has a handler for.
        if unsafe { libc::kill(pid as i32, libc::SIGUSR1) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(error).with_context(|| format!("asking process {pid}"));
        }
        say!("process {pid} writes what it has")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(running: &[u32]) -> String {
    if running.is_empty() {
        return "no `transom flight record` runs: start one".into();
    }
    let pids: Vec<String> = running.iter().map(u32::to_string).collect();
    format!("those that run: {}", pids.join(", "))
}

struct Flight<'a> {
    args: &'a RecordArgs,
    source: Source,
    memory: Memory,
    triggers: Vec<Trigger>,
    /// When to write, and why.
    due: Option<(Instant, String)>,
    losses: Losses,
    noted: Instant,
    files: u32,
}

fn record(args: &RecordArgs) -> Result<ExitCode> {
    check(args)?;
    let signals = Signals::catch()?;
    let asked = Signals::asked_by(libc::SIGUSR1)?;
    let options = MonitorOptions {
        filter: args.filters.filter()?,
        rate: args.filters.rate,
        ring_bytes: DEFAULT_RING_BYTES,
        existing: true,
    };
    let source = Source::start(&options)?;
    check_source(args, &source)?;
    if let Some(note) = source.note() {
        note!("transom: {note}");
    }
    let place = Place::take();
    if let Err(error) = &place {
        note!("transom: {error:#}: `transom flight dump` does not find it, SIGUSR1 does");
    }
    clock::go_first();
    note!("transom: the last {:?} are kept; {}", args.keep, conditions(args));
    let mut flight = Flight {
        args,
        source,
        memory: Memory::new(args.keep.as_nanos() as u64, args.memory / RAW_LEN),
        triggers: args.when.iter().map(|condition| Trigger::new(*condition)).collect(),
        due: None,
        losses: Losses::default(),
        noted: Instant::now(),
        files: 0,
    };
    while !signals.came() && flight.files < args.files {
        flight.look()?;
        if asked.swap(false, Ordering::Relaxed) {
            flight.try_write("asked for");
        }
        if let Some((_, why)) = flight.due.take_if(|(at, _)| *at <= Instant::now()) {
            flight.files += u32::from(flight.try_write(&why));
        }
    }
    if let Some((_, why)) = flight.due.take() {
        // What is in memory ends with this process: then a part is better than nothing.
        flight.write(&why, |left| left.events > 0)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What would be noticed only when the fault has come.
fn check(args: &RecordArgs) -> Result<()> {
    let folder = args.output.display();
    ensure!(args.output.is_dir(), "{folder} is no folder: make it, or name another one with -o");
    tempfile::tempfile_in(&args.output)
        .with_context(|| format!("{folder} cannot be written: name another folder with -o"))?;
    transom_trace::remove_left(&args.output, |name| name.starts_with(FILES.as_bytes()));
    ensure!(
        args.when.is_empty() || args.after < args.keep,
        "--after {:?} is not shorter than --keep {:?}: what is waited for would be forgotten by \
         then. Keep more, or write earlier",
        args.after,
        args.keep
    );
    // A single event needs no time.
    let mut counting = args.when.iter().filter(|condition| condition.number > 1);
    let longer = |it: &&Condition| Duration::from_nanos(it.within_ns) > args.keep;
    if let Some(condition) = counting.find(longer) {
        bail!(
            "--when {condition} counts for longer than --keep {:?}: the first of its events would \
             be forgotten by then. Keep more, or count for a shorter time",
            args.keep
        );
    }
    Ok(())
}

fn check_source(args: &RecordArgs, source: &Source) -> Result<()> {
    let never = args.when.iter().find(|condition| !source.yields(condition.kind));
    let Some(condition) = never else { return Ok(()) };
    let why = match source {
        Source::Probes(_) => "no probe tells such events".into(),
        Source::Polling { .. } => source.note().unwrap_or_default(),
    };
    bail!("--when {condition} would never be fulfilled: {why}")
}

fn conditions(args: &RecordArgs) -> String {
    if args.when.is_empty() {
        return "`transom flight dump` or SIGUSR1 writes them, Ctrl-C ends".into();
    }
    let all: Vec<String> = args.when.iter().map(Condition::to_string).collect();
    format!("written at {}, by `transom flight dump` or SIGUSR1; Ctrl-C ends", all.join(" or "))
}

impl Flight<'_> {
    fn look(&mut self) -> Result<()> {
        let Flight { args, source, memory, triggers, due, .. } = self;
        source.poll(LATENCY, &mut |raw: &Raw| {
            memory.push(raw);
            // While one is waited for, what else happens is in its file.
            if due.is_some() {
                return;
            }
            if let Some(fired) =
                triggers.iter_mut().find_map(|t| t.sees(raw).then_some(t.condition))
            {
                let why = format!("{fired} on connection #{}", raw.head.cookie);
                *due = Some((Instant::now() + args.after, why));
            }
        })?;
        if self.noted.elapsed() >= LOSSES_EVERY { self.note_losses() } else { Ok(()) }
    }

    /// They are kept like other events, and age with those beside which they happened.
    fn note_losses(&mut self) -> Result<()> {
        self.noted = Instant::now();
        for event in self.losses.fresh(&self.source.losses()?, clock::boottime_ns()) {
            self.memory.push(&Raw::from(&event));
        }
        Ok(())
    }

    /// A recorder lives on when its disk does not: what is kept is in memory. Whether it is written.
    fn try_write(&mut self, why: &str) -> bool {
        let result = self.write(why, |left| left.is_whole);
        if let Err(error) = &result {
            note!(
                "transom: {why}: {error:#}; the events are kept: make room, and `transom flight \
                 dump` writes them"
            );
        }
        result.is_ok()
    }

    /// One file of all that is kept. It goes on being kept: two files may overlap. What there is of a
    /// file that cannot be written to its end stays only if it is worth it.
    fn write(&mut self, why: &str, is_worth_it: fn(&Left) -> bool) -> Result<()> {
        self.note_losses()?;
        if self.memory.is_empty() {
            note!("transom: {why}: no event was kept, so no file was written");
            return Ok(());
        }
        let path = fresh_path(&self.args.output, FILES);
        let meta = Meta {
            filters: self.args.filters.to_string(),
            probes: self.source.probes(),
            ring_bytes: DEFAULT_RING_BYTES.into(),
            us_per_jiffy: clock::microseconds_per_jiffy(),
            ..Meta::of_this_machine()
        };
        let recorder = Recorder::create(&path, meta, None, false)?;
        let recorded =
            self.fill(recorder).map_err(|error| match is_worth_it(&Left::of(&path)) {
                true => error,
                false => {
                    let _ = fs::remove_file(&path);
                    anyhow!("cannot write {}: {}", path.display(), error.root_cause())
                }
            })?;
        note!("transom: {}: {} events, {why}", path.display(), recorded.events);
        let crowded_out = self.memory.crowded_out();
        if crowded_out > 0 {
            note!(
                "transom: {crowded_out} events of that time had no room: give more with --memory, \
                 or fewer events with --rate or a filter"
            );
        }
        Ok(())
    }

    fn fill(&self, mut recorder: Recorder) -> Result<Recorded> {
        for raw in self.memory.all() {
            recorder.push(&raw)?;
        }
        recorder.finish(&[], clock::boottime_ns())
    }
}

/// What is in a file that was not written to its end.
struct Left {
    events: usize,
    /// It has all of them, and only did not become a table.
    is_whole: bool,
}

impl Left {
    fn of(path: &Path) -> Left {
        let Ok(mut reader) = Reader::open(path) else {
            return Left { events: 0, is_whole: false };
        };
        let events = reader.by_ref().map_while(Result::ok).count();
        Left { events, is_whole: reader.footer().is_some() }
    }
}

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use transom_event::Raw;
use transom_machine::signals::Signals;
use transom_monitor::{MonitorOptions, Source, clock};
use transom_trace::{Meta, Recorded, Recorder, Reserved, Rotation};

use crate::captured::PcapArgs;
use crate::columns::columns;
use crate::filters::{FilterArgs, bytes, duration};
use crate::recorded::{Messages, fresh_path, size};
use crate::watched::{self, Watched};
use transom_output::{is_standard_output, note};

/// How long events wait in the rings before they are taken out. Each look takes
/// a CPU from the load, which a bulk transfer feels; full rings call us earlier.
const LATENCY: Duration = Duration::from_millis(100);
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub struct Args {
    /// Trace file to write [default: transom-DATE-TIME.parquet]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists; with --rotate, remove all FILE.NNN of an earlier recording
    #[arg(long)]
    force: bool,
    /// Stop after this time
    #[arg(short, long, value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    duration: Option<Duration>,
    /// Stop after writing this much (before it is packed as Parquet), e.g. 500M
    #[arg(long, value_parser = file_size, value_name = "SIZE")]
    max_size: Option<u64>,
    /// Begin a new file each time this much is written: FILE.000, FILE.001, …
    #[arg(long, value_parser = file_size, value_name = "SIZE", conflicts_with = "max_size")]
    rotate: Option<u64>,
    /// With --rotate: keep only the newest N files [default: all]
    #[arg(
        long,
        default_value_t = 0,
        hide_default_value = true,
        value_name = "N",
        requires = "rotate"
    )]
    keep: usize,
    /// Memory for events on their way out of the kernel: a power of two
    #[arg(long, value_parser = ring, default_value = "8M", value_name = "SIZE")]
    ring: u32,
    /// Leave out connections that exist already, until something happens on them
    #[arg(long)]
    no_existing: bool,
    /// No progress and no summary
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON for programs: a line when the probes are attached, a line at the end; on the
    /// standard output, or on the standard error if PROGRAM or the trace uses the standard output
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Run this program and record exactly its connections; its exit status is passed on
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(flatten)]
    pcap: PcapArgs,
    #[command(flatten)]
    filters: FilterArgs,
}

/// Smallest file that is worth having: a batch of events and what every file says of itself.
const LEAST_FILE: u64 = 64 << 10;

pub fn file_size(text: &str) -> Result<u64> {
    match bytes(text)? {
        size if size < LEAST_FILE => bail!("'{text}' is too small for a file: use 64k or more"),
        size => Ok(size),
    }
}

fn ring(text: &str) -> Result<u32> {
    let size = bytes(text)?;
    match u32::try_from(size) {
        Ok(size) if size.is_power_of_two() && size >= 65536 => Ok(size),
        _ => bail!("'{text}' is no ring buffer size: use a power of two from 64k to 2G"),
    }
}

impl Args {
    fn options(&self) -> Result<MonitorOptions> {
        let filter = self.filters.filter_for(&self.program)?;
        let existing = !self.no_existing;
        Ok(MonitorOptions { filter, rate: self.filters.rate, ring_bytes: self.ring, existing })
    }

    fn path(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| fresh_path(Path::new(""), "transom-"))
    }

    fn meta(&self, source: &Source) -> Meta {
        Meta {
            filters: self.filters.to_string(),
            probes: source.probes(),
            ring_bytes: self.ring.into(),
            us_per_jiffy: clock::microseconds_per_jiffy(),
            ..Meta::of_this_machine()
        }
    }

    fn is_over(&self, began: Instant, recorder: &Recorder) -> bool {
        self.duration.is_some_and(|time| began.elapsed() >= time)
            || self.max_size.is_some_and(|size| recorder.bytes_written() >= size)
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    args.program.first().map_or(Ok(()), |word| watched::find(word))?;
    let mut source = Source::start(&args.options()?)?;
    let note = source.note().filter(|_| !args.quiet);
    if let Some(note) = note {
        note!("transom: {note}");
    }
    let mut path = args.path();
    let rotation = args.rotate.map(|bytes| Rotation { bytes, keep: args.keep });
    let reserved = loop {
        match Reserved::new(&path, args.meta(&source), rotation, args.force) {
            // Another recorder has taken that name in this moment.
            Err(_) if args.path() != path => path = args.path(),
            reserved => break reserved?,
        }
    };
    let beside = match args.pcap.start(&args.filters, &path, args.force) {
        Ok(beside) => beside,
        Err(error) => {
            reserved.give_up();
            return Err(error);
        }
    };
    let messages = Messages {
        json: args.json,
        quiet: args.quiet,
        has_stdout: args.program.is_empty() && !is_standard_output(&path),
    };
    let began = Instant::now();
    let (recorder, mut watched) = begin(&args.program, &messages, &mut source, reserved)?;
    // A program that is started inherits it, and would no longer run as it does by itself.
    clock::go_first();
    let recorded = recorder
        .and_then(|recorder| record(&args, &signals, &mut source, recorder, watched.as_mut()));
    // The program's fate is reported even if the recording failed.
    let code = watched.map_or(Ok(ExitCode::SUCCESS), Watched::finish);
    let recorded = recorded?;
    let took = began.elapsed();
    // Whoever reads the summary may open what it names.
    let file = recorded.files.first();
    let packets = beside.zip(file).map(|(beside, file)| beside.finish(&file.path)).transpose();
    messages.summary(&recorded, packets.as_ref().ok().and_then(Option::as_ref), took);
    packets.and(code)
}

/// The recording and the program, if there is one. Nothing is overwritten for a program before it
/// runs: whether the kernel can run it is known only then.
fn begin(
    program: &[OsString],
    messages: &Messages,
    source: &mut Source,
    reserved: Reserved,
) -> Result<(Result<Recorder>, Option<Watched>)> {
    if program.is_empty() {
        let recorder = reserved.begin()?;
        messages.ready(source, recorder.path());
        return Ok((Ok(recorder), None));
    }
    messages.ready(source, reserved.path());
    match Watched::start(program, source) {
        Ok(watched) => Ok((reserved.begin(), Some(watched))),
        Err(error) => {
            reserved.give_up();
            Err(error)
        }
    }
}

fn record(
    args: &Args,
    signals: &Signals,
    source: &mut Source,
    mut recorder: Recorder,
    mut watched: Option<&mut Watched>,
) -> Result<Recorded> {
    let began = Instant::now();
    let mut progress = Progress::new(!args.quiet && !args.json);
    let mut looked = began;
    loop {
        let over = signals.came() || args.is_over(began, &recorder);
        let ended = match &mut watched {
            Some(program) => program.is_over()?,
            None => false,
        };
        let mut result = Ok(());
        source.poll(LATENCY, &mut |raw: &Raw| {
            if result.is_ok() {
                result = recorder.push(raw);
            }
        })?;
        result?;
        if looked.elapsed() >= PROGRESS_EVERY {
            looked = Instant::now();
            let losses = source.losses()?;
            recorder.tick(&losses, clock::boottime_ns())?;
            progress.show(&recorder, losses.iter().map(|&(_, n)| n).sum());
        }
        if over || ended {
            progress.clear();
            return recorder.finish(&source.losses()?, clock::boottime_ns());
        }
    }
}

/// One line on a terminal, renewed twice a second.
struct Progress {
    wanted: bool,
    began: Instant,
    shown: Instant,
    events: u64,
}

impl Progress {
    fn new(wanted: bool) -> Progress {
        let now = Instant::now();
        let wanted = wanted && std::io::stderr().is_terminal();
        Progress { wanted, began: now, shown: now, events: 0 }
    }

    fn show(&mut self, recorder: &Recorder, lost: u64) {
        let since = self.shown.elapsed();
        if !self.wanted {
            return;
        }
        let fresh = recorder.events() - self.events;
        let rate = fresh as f64 / since.as_secs_f64();
        let line = format!(
            "{:.1} s  {} events  {rate:.0}/s  {lost} lost  {}",
            self.began.elapsed().as_secs_f64(),
            recorder.events(),
            size(recorder.bytes_written()),
        );
        let mut out = std::io::stderr();
        // A line that went on in the next one would not be renewed, but told again and again.
        let room = columns(&out).map_or(usize::MAX, |columns| columns.saturating_sub(1));
        let line: String = line.chars().take(room).collect();
        // Nobody has to read it.
        let _ = write!(out, "\r\x1b[K{line}");
        (self.shown, self.events) = (Instant::now(), recorder.events());
    }

    fn clear(&self) {
        if self.wanted {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_names_the_monitors_own_ring_size() {
        assert_eq!(super::ring("8M").unwrap(), transom_monitor::DEFAULT_RING_BYTES);
    }
}

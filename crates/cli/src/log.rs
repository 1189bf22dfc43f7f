use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use transom_event::text::{Context, LogPosition, PAPER_CAPACITY, human, json, paper};
use transom_event::{Directory, Event, Kind, Names, Raw};
use transom_machine::signals::Signals;
use transom_monitor::{MonitorOptions, Source, clock};

use crate::filters::{FilterArgs, duration};
use crate::naming::NamingArgs;
use crate::watched::Watched;
use transom_output::note;

/// How long an event may wait before it is printed.
const LATENCY: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// One readable line per event
    Human,
    /// The log line of DICOMO 2011, figure 4, field for field
    Paper,
    /// One JSON object per line
    Json,
}

// -n was the number of lines before ports had names.
#[derive(clap::Args)]
#[command(mut_arg("numeric", |numeric| numeric.short(None)))]
pub struct Args {
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Only these kinds of event, e.g. `rto,retransmit,local_congestion`
    #[arg(short, long, value_delimiter = ',', value_name = "KIND", value_parser = kind)]
    kinds: Vec<Kind>,
    /// Stop after this time
    #[arg(short, long, value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    duration: Option<Duration>,
    /// Stop after this many lines
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// Run this program and print exactly its connections; its exit status is passed on
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    naming: NamingArgs,
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("no such kind of event; there are {}", names.join(", "))
    })
}

/// Prints events in the chosen form until enough is printed.
struct Printer<W: Write> {
    out: W,
    format: Format,
    kinds: Vec<Kind>,
    names: Names,
    directory: Directory,
    start_ns: u64,
    realtime_offset_ns: i64,
    lines: u64,
    most: u64,
}

impl<W: Write> Printer<W> {
    fn print(&mut self, event: &Event) -> std::io::Result<()> {
        self.directory.learn(event);
        let wanted = self.kinds.is_empty() || self.kinds.contains(&event.kind);
        if !wanted || self.lines >= self.most {
            return Ok(());
        }
        let line = match self.format {
            Format::Human => {
                let open = self.directory.get(event.cookie);
                let who = open.map(|open| self.names.ends(open.endpoints()));
                Some(human(event, who.as_deref(), self.start_ns))
            }
            Format::Paper => paper(event, LogPosition::of(self.lines, PAPER_CAPACITY)),
            Format::Json => {
                let connection = self.directory.get(event.cookie);
                let realtime_offset_ns = Some(self.realtime_offset_ns);
                Some(json(event, Context { connection, realtime_offset_ns }))
            }
        };
        if let Some(line) = line {
            writeln!(self.out, "{line}")?;
            self.lines += 1;
        }
        Ok(())
    }
}

pub fn run(args: Args) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let names = args.naming.names()?;
    let filter = args.filters.filter_for(&args.program)?;
    let options = MonitorOptions { filter, rate: args.filters.rate, ..MonitorOptions::default() };
    let start_ns = clock::boottime_ns();
    let mut source = Source::start(&options)?;
    if let Some(note) = source.note() {
        note!("transom: {note}");
    }
    let mut watched = match args.program.as_slice() {
        [] => None,
        words => Some(Watched::start(words, &mut source)?),
    };
    let mut printer = Printer {
        out: BufWriter::new(transom_output::standard_output()),
        format: args.format,
        kinds: args.kinds,
        names,
        directory: Directory::default(),
        start_ns,
        realtime_offset_ns: transom_trace::realtime_offset_ns(),
        lines: 0,
        most: args.count.unwrap_or(u64::MAX),
    };
    let printed = print_all(&mut source, &mut printer, &signals, args.duration, watched.as_mut());
    // A program does not run on because nobody reads any more what is printed of it.
    let code = watched.map_or(Ok(ExitCode::SUCCESS), Watched::finish);
    printed?;
    for (cause, lost) in source.losses()? {
        note!("transom: {lost} {}: {cause}", cause.told_as("events could not be shown"));
    }
    code
}

/// Until there is a reason to end.
fn print_all<W: Write>(
    source: &mut Source,
    printer: &mut Printer<W>,
    signals: &Signals,
    duration: Option<Duration>,
    mut watched: Option<&mut Watched>,
) -> Result<()> {
    let deadline = duration.map(|time| Instant::now() + time);
    while !signals.came() && printer.lines < printer.most {
        if deadline.is_some_and(|at| Instant::now() >= at) {
            break;
        }
        if let Some(program) = &mut watched
            && program.is_over()?
        {
            break;
        }
        print_waiting(source, printer)?;
    }
    Ok(())
}

fn print_waiting<W: Write>(source: &mut Source, printer: &mut Printer<W>) -> Result<()> {
    let mut result = Ok(());
    source.poll(LATENCY, &mut |raw: &Raw| {
        if let (Ok(()), Ok(event)) = (&result, Event::try_from(raw)) {
            result = printer.print(&event);
        }
    })?;
    result?;
    printer.out.flush()?;
    Ok(())
}

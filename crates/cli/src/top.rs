use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transom_event::{Event, LossCause};
use transom_monitor::clock;
use transom_view::top::{self, Column, MOST_CONNECTIONS, Source, TopOptions};

use crate::filters::FilterArgs;
use crate::naming::NamingArgs;

/// Watches TCP connections live: their rates, their state, and what limits them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom top                          # the table, until q
  transom top --filter 'nginx :https'  # only what matches all words
  transom top --names -p 1234          # names of addresses; connections of a process
  transom top --once --sort retr -n    # one table as text, worst first, ports as numbers
  transom top --json --interval 5      # one JSON object, after five seconds")]
pub struct Args {
    /// Print one table and exit, even on a terminal (without a terminal this is what happens)
    #[arg(long)]
    once: bool,
    /// Print one JSON object and exit
    #[arg(long)]
    json: bool,
    /// Seconds between two redraws (0.5), or to observe before printing once (1)
    #[arg(long, value_name = "SECS", value_parser = interval)]
    interval: Option<Duration>,
    /// Show only connections that match all these words: each names connections as --connection of
    /// `transom explain` does (program, cookie, address, port, process), or is an algorithm, a
    /// state, or `mptcp`
    #[arg(
        long,
        visible_alias = "connection",
        value_name = "WORDS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    filter: String,
    /// Sort by this column
    #[arg(long, value_name = "COLUMN", default_value = "rate", value_parser = column)]
    sort: Column,
    /// Draw with ASCII only (the default when the locale is not UTF-8)
    #[arg(long)]
    ascii: bool,
    /// Keep at most this many connections, the most active ones
    #[arg(long, value_name = "N", default_value_t = MOST_CONNECTIONS, value_parser = at_least_one)]
    max_connections: usize,
    #[command(flatten)]
    naming: NamingArgs,
    #[command(flatten)]
    filters: FilterArgs,
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds from 0.05 to 3600 are meant".into()),
    }
}

fn column(name: &str) -> std::result::Result<Column, String> {
    Column::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Column::sortable().map(Column::name).collect();
        format!("the columns are {}", names.join(", "))
    })
}

/// The monitor, as the live table wants it.
struct Live {
    monitor: transom_monitor::Source,
    lost: Vec<(LossCause, u64)>,
}

impl Source for Live {
    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Event)) -> Result<()> {
        self.monitor.poll(timeout, &mut |raw| {
            if let Ok(event) = Event::try_from(raw) {
                sink(&event);
            }
        })?;
        self.lost = self.monitor.losses()?;
        Ok(())
    }

    fn lost(&self) -> Vec<(LossCause, u64)> {
        self.lost.clone()
    }

    fn note(&self) -> Option<String> {
        self.monitor.note()
    }
}

fn at_least_one(text: &str) -> Result<usize> {
    let number = text.parse().with_context(|| format!("'{text}' is no whole number"))?;
    ensure!(number > 0, "0 connections would show nothing: give at least 1");
    Ok(number)
}

pub fn run(args: Args) -> Result<ExitCode> {
    let names = args.naming.names()?;
    let monitored = transom_monitor::MonitorOptions {
        filter: args.filters.filter()?,
        rate: args.filters.rate,
        ..transom_monitor::MonitorOptions::default()
    };
    let monitor = transom_monitor::Source::start(&monitored)?;
    let source = Live { monitor, lost: Vec::new() };
    clock::go_first();
    let options = TopOptions {
        interval: args.interval,
        once: args.once,
        json: args.json,
        ascii: args.ascii,
        filter: args.filter,
        sort: args.sort,
        most_connections: args.max_connections,
        names,
    };
    top::run(source, options).context("top")?;
    Ok(ExitCode::SUCCESS)
}

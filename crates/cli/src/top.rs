use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use transom_view::top::{self, Column, MOST_CONNECTIONS, Options, Source};

#[derive(clap::Args)]
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
    /// Show only connections that match all these words: program, pid, address, port, algorithm,
    /// state
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    filter: String,
    /// Sort by this column
    #[arg(long, value_name = "COLUMN", default_value = "rate", value_parser = column)]
    sort: Column,
    /// Draw with ASCII only (the default when the locale is not UTF-8)
    #[arg(long)]
    ascii: bool,
    /// Keep at most this many connections, the most active ones
    #[arg(long, value_name = "N", default_value_t = MOST_CONNECTIONS)]
    max_connections: usize,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds from 0.05 to 3600 are meant".into()),
    }
}

fn column(name: &str) -> Result<Column, String> {
    Column::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Column::sortable().map(Column::name).collect();
        format!("the columns are {}", names.join(", "))
    })
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = source(&args)?;
    let options = Options {
        interval: args.interval,
        once: args.once,
        json: args.json,
        ascii: args.ascii,
        filter: args.filter,
        sort: args.sort,
        most_connections: args.max_connections,
    };
    top::run(source, options).context("top")?;
    Ok(ExitCode::SUCCESS)
}

/// Where the events come from.
fn source(_args: &Args) -> anyhow::Result<impl Source + use<>> {
    anyhow::bail!("not built yet: the kernel monitor gives the events");
    #[allow(unreachable_code)]
    Ok(NoSource)
}

struct NoSource;

impl Source for NoSource {
    fn poll(
        &mut self,
        _: Duration,
        _: &mut dyn FnMut(&transom_event::Event),
    ) -> anyhow::Result<()> {
        Ok(())
    }

    fn lost(&self) -> Vec<(transom_event::LossCause, u64)> {
        Vec::new()
    }

    fn note(&self) -> Option<String> {
        None
    }
}

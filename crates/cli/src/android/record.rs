//! A recording on the device that needs adb only to begin and to be fetched.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use transom_android::{Device, Installed, Lying, Order, Relation, Watching};
use transom_machine::signals::Signals;
use transom_monitor::clock;
use transom_output::{Replace, note};

use super::{Target, fetch, warn_without_root};
use crate::filters::{FilterArgs, duration};
use crate::recorded::size;

#[derive(clap::Args)]
pub struct Args {
    /// Trace file to write here [default: transom-DATE-TIME.parquet]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// End after this time [default: Ctrl-C]
    #[arg(long = "for", value_parser = duration, allow_hyphen_values = true, value_name = "TIME")]
    duration: Option<Duration>,
    /// End after writing this much on the device, e.g. 500M
    #[arg(long, value_name = "SIZE", value_parser = crate::record::file_size)]
    max_size: Option<u64>,
    /// Return when it records: the device may be unplugged, `transom android pull` fetches it
    #[arg(long, conflicts_with_all = ["output", "force"])]
    detach: bool,
    #[command(flatten)]
    target: Target,
    /// Names, processes and cgroups are the device's
    #[command(flatten)]
    filters: FilterArgs,
}

impl Args {
    fn replace(&self) -> Replace {
        if self.force { Replace::Always } else { Replace::Never }
    }

    /// Options of `transom record` there.
    fn options(&self) -> Vec<String> {
        let mut words = self.filters.words();
        if let Some(time) = self.duration {
            words.extend(["--duration".to_owned(), format!("{}us", time.as_micros())]);
        }
        if let Some(size) = self.max_size {
            words.extend(["--max-size".to_owned(), size.to_string()]);
        }
        words
    }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let name = format!("transom-{}", clock::calendar(SystemTime::now()));
    let to = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.parquet")));
    if !args.detach {
        fetch::check_output(&to, args.replace())?;
    }
    let device = args.target.device()?;
    args.target.with_program(&device, |installed| record(args, installed, &name, &to))
}

fn record(args: &Args, installed: &Installed, name: &str, to: &Path) -> Result<ExitCode> {
    let serial = installed.device.serial();
    warn_without_root(installed);
    let clocks = Relation::measure(installed)?;
    let signals = Signals::catch()?;
    let order = Order { name, options: args.options() };
    let ready = order.begin(installed, &clocks)?;
    note!("transom: ready, {serial} records {name}{}", means(&ready));
    if args.detach {
        note!("transom: it goes on by itself; `transom android pull` ends and fetches it");
        return Ok(ExitCode::SUCCESS);
    }
    let lying = watch(installed, name, &signals).with_context(|| gone(installed.device, name))?;
    ensure!(lying.bytes().is_some(), "the recorder wrote nothing: {}", fetch::why(&lying));
    fetch::fetch(installed, &lying, to, args.replace()).with_context(|| {
        format!("it is still on the device, `transom android pull {name}` fetches it")
    })?;
    Ok(if lying.done().is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is recorded with, as the recorder says.
fn means(ready: &Value) -> String {
    let probes = ready["probes"].as_str().unwrap_or_default();
    let tier = probes.split(' ').find_map(|probe| probe.strip_prefix("ack="));
    match (ready["note"].as_str(), tier) {
        (Some(note), _) => format!(": {note}"),
        (None, Some(tier)) => format!(", tier {tier}"),
        _ => String::new(),
    }
}

/// What is said when adb is lost in the middle.
fn gone(device: &Device, name: &str) -> String {
    format!(
        "the recording goes on without adb; when {} is back, `transom android pull {name}` ends \
         and fetches it",
        device.serial()
    )
}

/// Follows it to its end, which a signal brings.
fn watch(installed: &Installed, name: &str, signals: &Signals) -> Result<Lying> {
    let began = Instant::now();
    let mut watching = Watching::start(installed, name)?;
    let mut is_stopped = false;
    loop {
        let lying = watching.state()?;
        if !lying.is_running() {
            clear();
            return Ok(lying);
        }
        show(&lying, began);
        if signals.came() && !is_stopped {
            is_stopped = true;
            watching.stop();
        }
    }
}

fn show(lying: &Lying, began: Instant) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let _ = write!(
        std::io::stderr(),
        "\r\x1b[K{:.1} s  {}  {} free on the device",
        began.elapsed().as_secs_f64(),
        size(lying.bytes().unwrap_or(0)),
        lying.free().map_or_else(|| "?".to_owned(), size),
    );
}

fn clear() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
}

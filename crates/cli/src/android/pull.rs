//! Recordings that lie on the device.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use transom_android::{Installed, Lying, Watching};
use transom_monitor::clock;
use transom_output::{Replace, note, plain, say};

use super::{Target, fetch};
use crate::recorded::size;

#[derive(clap::Args)]
pub struct Args {
    /// Which recording [default: the only one]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Trace file to write here [default: NAME.parquet]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
    /// Say what lies there, and fetch nothing
    #[arg(long, conflicts_with_all = ["name", "output", "force", "discard"])]
    list: bool,
    /// End it, remove it from the device, and fetch nothing
    #[arg(long, conflicts_with_all = ["output", "force"], requires = "name")]
    discard: bool,
    #[command(flatten)]
    target: Target,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let device = args.target.device()?;
    args.target.with_program(&device, |installed| {
        let all = installed.recordings()?;
        if args.list {
            return list(&all);
        }
        let chosen = choose(&all, args.name.as_deref())?;
        if args.discard {
            let lying = end(installed, chosen)?;
            installed.remove(&lying)?;
            say!("{}: {} was removed", installed.device.serial(), lying.name())?;
            return Ok(ExitCode::SUCCESS);
        }
        fetch_it(args, installed, chosen)
    })
}

fn fetch_it(args: &Args, installed: &Installed, chosen: &Lying) -> Result<ExitCode> {
    let name = chosen.name();
    let to = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.parquet")));
    let replace = if args.force { Replace::Always } else { Replace::Never };
    fetch::check_output(&to, replace)?;
    let lying = end(installed, chosen)?;
    ensure!(
        lying.bytes().is_some(),
        "{name} has no trace, the recorder ended: {}; --discard removes it",
        fetch::why(&lying)
    );
    fetch::fetch(installed, &lying, &to, replace)?;
    Ok(ExitCode::SUCCESS)
}

fn list(all: &[Lying]) -> Result<ExitCode> {
    if all.is_empty() {
        say!("no recording lies there")?;
    }
    for lying in all {
        let state = match (lying.is_running(), lying.done()) {
            (true, _) => "records".to_owned(),
            (false, Some(done)) => format!("{} events", done["events"].as_u64().unwrap_or(0)),
            (false, None) => format!("ended early: {}", plain(&fetch::why(lying))),
        };
        let bytes = lying.bytes().map_or_else(|| "no trace".to_owned(), size);
        say!("{}  since {}  {bytes}  {state}", lying.name(), began(lying))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// By the device's clock.
fn began(lying: &Lying) -> String {
    let ns = lying.began_ns().and_then(|ns| u64::try_from(ns).ok());
    ns.map_or_else(
        || "?".to_owned(),
        |ns| clock::calendar(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns)),
    )
}

fn choose<'a>(all: &'a [Lying], name: Option<&str>) -> Result<&'a Lying> {
    let names = all.iter().map(Lying::name).collect::<Vec<_>>().join(", ");
    match (name, all) {
        (_, []) => bail!("no recording lies on the device"),
        (Some(name), _) => all.iter().find(|lying| lying.name() == name).with_context(|| {
            format!("no recording '{name}' lies on the device; those that do: {names}")
        }),
        (None, [only]) => Ok(only),
        (None, _) => bail!("several recordings lie on the device, name one: {names}"),
    }
}

/// Ends it if it still runs.
fn end(installed: &Installed, lying: &Lying) -> Result<Lying> {
    let mut watching = Watching::start(installed, lying.name())?;
    if lying.is_running() {
        note!("transom: {} still records: it is ended", lying.name());
        watching.stop();
    }
    loop {
        let now = watching.state()?;
        if !now.is_running() {
            return Ok(now);
        }
    }
}

//! `lab shell`: the hosts stay up.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use transom_lab::catalogue;
use transom_lab::experiment::Loaded;
use transom_lab::flows::process::{LOOK, dies_with_us};
use transom_lab::hosts::{Backend, Place, Topology, Wish};
use transom_lab::run::Carrier;
use transom_lab::sweep::{Point, canonical, points};
use transom_machine::signals::Signals;
use transom_output::say_plain;

use super::command_line;

#[derive(clap::Args)]
pub struct Args {
    /// A name of `lab list`, or the path of a file
    name: String,
    /// A shell in this host; the hosts go with it. Without: they stay until Ctrl-C
    host: Option<String>,
    /// The point of the sweep: the first that has these values
    #[arg(long, value_name = "KEY=VALUE")]
    point: Vec<String>,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let loaded = catalogue::find(&args.name)?;
    let point = choose(&loaded, &args.point)?;
    let signals = Signals::catch_all()?;
    let command = command_line();
    let wish = Wish {
        lab: &loaded.name,
        command: &command,
        experiment: &point.experiment,
        backend: Backend::Emulator,
        pcap: false,
    };
    let mut topology = Topology::put_up(&wish)?;
    let shell = args.host.as_deref().map(|host| topology.place(host).cloned()).transpose()?;
    let mut carrier = Carrier::start(&wish, &mut topology, point.seed(1))?;
    announce(&loaded, point, &topology)?;
    let mut child = shell.map(|place| start(&place)).transpose()?;
    loop {
        carrier = carrier.check()?;
        match &mut child {
            Some(child) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(ExitCode::from(status.code().unwrap_or(1) as u8));
                }
                if signals.must_end() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            None if signals.came() => return Ok(ExitCode::SUCCESS),
            None => {}
        }
        std::thread::sleep(LOOK);
    }
}

fn choose<'a>(loaded: &'a Loaded, wanted: &[String]) -> Result<&'a Point> {
    let mut pairs = Vec::new();
    for text in wanted {
        let pair = text.split_once('=');
        let (key, value) = pair.with_context(|| format!("'{text}' is no KEY=VALUE"))?;
        let values = loaded.experiment.sweep.get(key.trim()).with_context(|| {
            let keys = loaded.experiment.sweep.keys().cloned().collect::<Vec<_>>().join(", ");
            format!("'{key}' is not swept: {}", if keys.is_empty() { "nothing is" } else { &keys })
        })?;
        let all: Vec<String> = values.iter().map(canonical).collect();
        if !all.iter().any(|one| one == value.trim()) {
            bail!("{key} is never {value}: it is {}", all.join(", "));
        }
        pairs.push((key.trim(), value.trim()));
    }
    let fits = |point: &&Point| {
        pairs
            .iter()
            .all(|&(key, value)| point.values.get(key).is_some_and(|v| canonical(v) == value))
    };
    points(loaded, false).iter().find(fits).context("no point of the sweep has all these values")
}

fn announce(loaded: &Loaded, point: &Point, topology: &Topology) -> Result<()> {
    let mut out = String::new();
    let label = point.label();
    let at = if label.is_empty() { String::new() } else { format!(" at {label}") };
    writeln!(out, "The hosts of {}{at} are up:", loaded.name)?;
    for place in topology.places() {
        writeln!(
            out,
            "  {:12} {:11} {}  transom lab exec {} -- COMMAND",
            place.host,
            place.v4.to_string(),
            place.interface,
            place.host
        )?;
        if let Some(second) = &place.cellular {
            writeln!(out, "  {:12} {:11} {}", "", second.v4.to_string(), second.interface)?;
        }
    }
    say_plain(&out)?;
    transom_output::standard_output().flush()?;
    Ok(())
}

fn start(place: &Place) -> Result<std::process::Child> {
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &place.namespace, &shell]);
    // Debian's and Ubuntu's prompts begin with it, so that one sees where one is.
    command.env("debian_chroot", &place.host);
    dies_with_us(&mut command, libc::SIGHUP);
    command.spawn().context("cannot run 'ip netns exec'")
}

//! `transom names`: fills the cache of names that `--names` of other commands reads.

pub mod cache;
mod resolver;
mod wanted;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Subcommand;
use transom_analysis::units::count;
use transom_output::{note, say};

use crate::filters::duration;
use cache::{Cache, Entry};
use resolver::Answer;

/// Stores the names of addresses, for --names of top, explain, report, ask and log. Those commands send
/// no query: they only read what is stored.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom names resolve upload.parquet      # all peers of a recording
  transom names resolve --connected         # the peers of all current connections
  transom names resolve 192.0.2.7 2001:db8::7
  transom top --names
  transom names forget --all

The DNS servers learn which addresses you look up.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// File of names [default: $XDG_CACHE_HOME/transom/names, else ~/.cache/transom/names]
    #[arg(long, value_name = "FILE", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Ask this machine's resolver, and store the names
    #[command(after_help = "\
Examples:
  transom names resolve upload.parquet
  transom names resolve --connected --time-limit 1s")]
    Resolve(Resolve),
    /// Print what is stored: address, name, age
    #[command(after_help = "Example: transom names list | grep example.com")]
    List,
    /// Remove names
    #[command(after_help = "\
Examples:
  transom names forget 192.0.2.7
  transom names forget --all")]
    Forget(Forget),
}

#[derive(clap::Args)]
struct Resolve {
    /// Addresses; trace files; a file or the spool of an agent that keeps addresses
    #[arg(required_unless_present = "connected")]
    what: Vec<String>,
    /// Also the peers of all current TCP connections in this network namespace
    #[arg(long)]
    connected: bool,
    /// How long each address may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, allow_hyphen_values = true)]
    time_limit: Duration,
    /// Also look up names that are younger than a day
    #[arg(long)]
    again: bool,
}

#[derive(clap::Args)]
struct Forget {
    /// Addresses whose names are removed
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    addresses: Vec<IpAddr>,
    /// Everything: the file is removed
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let path = args.cache.map_or_else(cache::usual, Ok)?;
    match args.command {
        Command::Resolve(args) => resolve(&args, &path),
        Command::List => list(&path),
        Command::Forget(args) => forget(&args, &path),
    }
}

fn resolve(args: &Resolve, path: &Path) -> Result<ExitCode> {
    ensure!(!args.time_limit.is_zero(), "--time-limit 0 leaves no time to answer: try 5s");
    let mut wanted = BTreeSet::new();
    for word in &args.what {
        wanted.extend(wanted::of_word(word)?);
    }
    if args.connected {
        wanted.extend(wanted::connected()?);
    }
    let mut cache = Cache::read(path)?.unwrap_or_default();
    let is_known = |address: &IpAddr| cache.0.get(address).is_some_and(Entry::is_fresh);
    let asked: Vec<IpAddr> =
        wanted.iter().copied().filter(|address| args.again || !is_known(address)).collect();
    // Before the first is asked: what cannot be kept should not be asked for.
    cache.clone().write(path)?;
    let (mut named, mut without, mut late) = (0, 0, 0);
    let mut printed = Ok(());
    let mut keep = |address: IpAddr, name: Option<String>| {
        let line = say!("{address} {}", name.as_deref().unwrap_or("-"));
        printed = std::mem::replace(&mut printed, Ok(())).and(line);
        cache.0.insert(address, Entry { name, asked: cache::now() });
    };
    let outcome = resolver::ask(&asked, args.time_limit, |address, answer| match answer {
        Answer::Name(name) => {
            named += 1;
            keep(address, Some(name));
        }
        Answer::None => {
            without += 1;
            keep(address, None);
        }
        Answer::TooLate => late += 1,
    });
    cache.write(path)?;
    outcome?;
    printed?;
    let known = wanted.len() - asked.len();
    note!(
        "transom: {}: {named} with a name, {without} without, {known} known already, {late} not \
         answered within {:?}",
        count(wanted.len() as u64, "address", "addresses"),
        args.time_limit
    );
    if late > 0 && late == asked.len() {
        bail!(
            "the resolver answered nothing: look at /etc/resolv.conf, or give a longer --time-limit"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn list(path: &Path) -> Result<ExitCode> {
    let cache = Cache::read(path)?.ok_or_else(|| cache::missing(path))?;
    for (address, entry) in &cache.0 {
        say!("{address} {} {}", entry.name.as_deref().unwrap_or("-"), age(entry.age()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ ..3600 => format!("{}m", seconds / 60),
        seconds @ ..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn forget(args: &Forget, path: &Path) -> Result<ExitCode> {
    let mut cache = Cache::read(path)?.ok_or_else(|| cache::missing(path))?;
    if args.all {
        std::fs::remove_file(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    for address in &args.addresses {
        ensure!(cache.0.remove(address).is_some(), "{address} is not in {}", path.display());
    }
    cache.write(path)?;
    Ok(ExitCode::SUCCESS)
}

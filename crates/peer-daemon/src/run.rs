//! `transom peer run`: reads its arguments and files, checks them, and starts the daemon.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::builder::NonEmptyStringValueParser;
use transom_machine::signals::Signals;
use transom_output::{in_plain_words, text_of};
use transom_peers::{Function, Rules, tidy_name};

use crate::act::{Act, Rehearsal};
use crate::daemon::{Daemon, Setup};
use crate::link::Way;
use crate::tuned::Tuned;
use crate::{access_point, interface, key_file, place};

#[derive(clap::Args)]
pub struct Args {
    /// Decide, report and show, but change no connection
    #[arg(long)]
    dry_run: bool,
    /// The group's key, the same at all terminals
    #[arg(long, value_name = "FILE", default_value = key_file::DEFAULT)]
    key: PathBuf,
    /// The group's rules, the same at all terminals (`transom peer rules` prints the built-in ones)
    #[arg(long, value_name = "FILE", alias = "policy")]
    rules: Option<PathBuf>,
    /// How to decide, whatever the rules say
    #[arg(long, value_name = "FUNCTION", value_parser = function)]
    function: Option<Function>,
    /// The interface to the access point [default: that of the default route]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
    /// Name of the access point [default: its BSSID, else the gateway's hardware address,
    /// else its address]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    access_point: Option<String>,
    /// How fast this device is, relative to the others: its weight
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = class)]
    class: u16,
    /// The name of this terminal for the others [default: the host's name]
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,
    /// How to reach the others on this network: by multicast, or with a Zenoh session to each
    #[arg(long, value_name = "WAY", default_value = "multicast", value_parser = ["multicast", "zenoh"])]
    via: String,
    /// Reach the others through this Zenoh router instead (may be repeated)
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    connect: Vec<String>,
    /// The socket at which `transom peer status` asks [default: one per network namespace]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

fn function(text: &str) -> Result<Function, String> {
    match text {
        "table" => Ok(Function::Table),
        "stabilise" => Ok(Function::Stabilise),
        "share" => Ok(Function::Share),
        _ => Err("the functions are share, stabilise and table".into()),
    }
}

/// In tenths.
fn class(text: &str) -> Result<u16, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.1..=100.0).contains(&number) => Ok((number * 10.0).round() as u16),
        _ => Err("must be a number from 0.1 to 100".into()),
    }
}

/// Of a router, as Zenoh writes it.
pub fn endpoint(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("udp/").or(text.strip_prefix("tcp/"));
    match address.map(|address| address.to_socket_addrs().is_ok()) {
        Some(true) => Ok(text.into()),
        Some(false) => Err("no such host, or no port after it: udp/192.0.2.1:7447".into()),
        None => Err("must begin with udp/ or tcp/: udp/192.0.2.1:7447".into()),
    }
}

fn rules(args: &Args) -> Result<Rules> {
    let mut rules = match &args.rules {
        None => Rules::default(),
        Some(path) => {
            let shown = path.display();
            let text = text_of(path).with_context(|| format!("reading {shown}"))?;
            Rules::from_toml(&text)
                .map_err(|error| anyhow!("{shown}: {}", in_plain_words(&error)))?
        }
    };
    if let Some(function) = args.function {
        rules.function = function;
        rules = Rules::from_toml(&rules.to_toml()).map_err(|error| anyhow!("{error}"))?;
    }
    Ok(rules)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn routers(endpoints: &[String]) -> Vec<SocketAddr> {
    let address = |endpoint: &String| endpoint.get(4..)?.to_socket_addrs().ok();
    endpoints.iter().filter_map(address).flatten().collect()
}

fn act(dry_run: bool, interface: &str, rules: &Rules) -> Result<Box<dyn Act>> {
    if dry_run {
        return Ok(Box::new(Rehearsal));
    }
    let tuned = Tuned::start(interface, rules.share.first_window)
        .context("acting on connections (--dry-run only decides)")?;
    Ok(Box::new(tuned))
}

pub fn run(args: Args) -> Result<ExitCode> {
    let key = key_file::read(&args.key)?;
    let rules = rules(&args)?;
    let access_point = access_point::find(args.access_point.as_deref(), args.interface.as_deref())?;
    if args.connect.is_empty() {
        interface::check(&access_point.interface)?;
    }
    let socket = place::socket(args.socket)?;
    let signals = Signals::catch()?;
    let interface = access_point.interface.clone();
    let way = match args.via.as_str() {
        _ if !args.connect.is_empty() => Way::Routers(args.connect.clone()),
        "zenoh" => Way::Peers { interface },
        _ => Way::Multicast { interface },
    };
    let act = act(args.dry_run, &access_point.interface, &rules)?;
    let setup = Setup {
        key,
        rules,
        access_point,
        name: tidy_name(&args.name.unwrap_or_else(host_name)),
        class: args.class,
        dry_run: args.dry_run,
        way,
        routers: routers(&args.connect),
        named_access_point: args.access_point,
        named_interface: args.interface,
    };
    Daemon::start(setup, act, &socket)?.run(&signals)?;
    Ok(ExitCode::SUCCESS)
}

//! `transom-agent`: one row per TCP connection, always on. Found and run by `transom agent`; a
//! program of its own because it is to be small and to run for months.

#![warn(clippy::print_stdout, clippy::print_stderr)]

#[cfg(test)]
mod manual;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use transom_agent::Config;

/// Write one row per TCP connection of this machine, at nearly no cost
#[derive(Parser)]
#[command(name = "transom agent", version, max_term_width = 100, after_help = EXAMPLES)]
struct Args {
    /// Configuration; without it /etc/transom/agent.toml, where that exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder for what is kept [default: /var/lib/transom/spool]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// 0: one row per connection; 1: also rare decisions; 2: also chosen connections, event by event
    /// [default: 1]
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<u8>,
    /// Share of one CPU that agent and probes may take on average [default: 0.01]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    cpu: Option<f64>,
    /// Serve /metrics at this address [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = transom_agent::metrics_address)]
    metrics: Option<SocketAddr>,
    /// Read the configuration, say what is wrong with it, and end
    #[arg(long)]
    check: bool,
}

const EXAMPLES: &str = "\
Examples:
  transom agent --spool /var/tmp/spool --metrics 127.0.0.1:9464
  transom agent --config agent.toml --check
  transom ask 14:03..14:05 port 443 --spool /var/tmp/spool";

fn level(text: &str) -> Result<u8> {
    let level = text.parse::<u8>().ok().filter(|level| *level <= 2);
    level.with_context(|| format!("'{text}' is no level: give 0, 1 or 2"))
}

fn share(text: &str) -> Result<f64> {
    let share = text.parse::<f64>().ok();
    share.with_context(|| format!("'{text}' is no share of one CPU: give one as 0.01"))
}

fn main() -> ExitCode {
    transom_machine::objects::quiet_libbpf();
    transom_output::run("transom agent", run)
}

fn configured(args: &Args) -> Result<Config> {
    let mut config = Config::read(args.config.as_deref())?;
    config.spool = args.spool.clone().unwrap_or(config.spool);
    config.level = args.level.unwrap_or(config.level);
    config.cpu = args.cpu.unwrap_or(config.cpu);
    config.metrics = args.metrics.or(config.metrics);
    config.check()?;
    Ok(config)
}

fn run(args: Args) -> Result<ExitCode> {
    let config = configured(&args)?;
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    transom_agent::run(config, &|| configured(&args))?;
    Ok(ExitCode::SUCCESS)
}

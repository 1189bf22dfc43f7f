//! One row per TCP connection, always on: what the program `transom-agent` is made of.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod accept;
mod addresses;
mod assemble;
mod budget;
mod cgroups;
mod config;
mod cost;
mod counting;
mod daemon;
mod finish;
mod gap;
mod journal;
mod kernel;
mod level2;
mod metrics;
mod numbers;
mod pace;
mod raw;
mod recent;
mod room;
mod serve;
mod service_manager;
mod shared;
mod sock_diag;
mod store;
mod taken;
mod unfinished;
mod watch;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use transom_machine::signals::Signals;
use transom_output::note;

pub use config::{Config, metrics_address};
pub use unfinished::Unfinished;

use crate::daemon::{Daemon, Reread};
use crate::metrics::Metrics;
use crate::serve::serve;

/// Writes rows until a signal comes. SIGHUP reads the configuration again, unless a terminal sent
/// it that was closed.
///
/// # Errors
/// A privilege or kernel feature is missing, the spool is taken, the address of /metrics is.
pub fn run(config: Config, read: &dyn Fn() -> Result<Config>) -> Result<()> {
    let in_terminal = std::io::stdin().is_terminal();
    let signals =
        if in_terminal { Signals::catch_all()? } else { Signals::catch_all_but_hangup()? };
    let asked = Signals::asked_by(libc::SIGHUP)?;
    let metrics = config.metrics.map(|_| Arc::new(Mutex::new(Metrics::new())));
    let spool = config.spool.display().to_string();
    let at = config.metrics;
    let mut daemon = Daemon::start(config, metrics.clone())?;
    let at = at.zip(metrics).map(|(at, metrics)| serve(at, metrics)).transpose()?;
    daemon.begin()?;
    if let Some(at) = at {
        note!("metrics: http://{at}/metrics");
    }
    if !daemon.counts_probes() {
        note!("this kernel does not count the time of probes: the budget is the agent's own");
    }
    note!("rows of connections go to {spool}; Ctrl-C ends");
    service_manager::tell(service_manager::State::Ready);
    daemon.run(&signals, &Reread { asked, read })?;
    Ok(())
}

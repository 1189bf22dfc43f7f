//! One row per TCP connection, always on: what the program `transom-agent` is made of.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod addresses;
mod assemble;
mod budget;
mod cgroups;
mod config;
mod cost;
mod daemon;
mod journal;
mod kernel;
mod metrics;
mod raw;
mod recent;
mod serve;
mod store;

pub use config::Config;
pub use daemon::Daemon;
pub use metrics::Metrics;
pub use serve::serve;

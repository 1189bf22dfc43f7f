use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use transom_monitor::{DEFAULT_ENTRIES, Journal, MonitorOptions};

use crate::filters::FilterArgs;
use transom_output::say;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Begin to keep the last events in the kernel; no process of ours stays
    Install {
        /// How many events to keep (144 bytes of kernel memory each)
        #[arg(long, value_name = "N", default_value_t = DEFAULT_ENTRIES)]
        size: u32,
        #[command(flatten)]
        filters: Box<FilterArgs>,
    },
    /// Take it out of the kernel
    Remove,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let journal = Journal::default();
    match args.action {
        Action::Install { filters, size } => {
            let options = MonitorOptions {
                filter: filters.filter()?,
                rate: filters.rate,
                ..MonitorOptions::default()
            };
            journal.install(&options, size)?;
            say!("cat {}", journal.file().display())?;
        }
        Action::Remove => {
            let message = if journal.remove()? { "removed" } else { "there was no journal" };
            say!("{message}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

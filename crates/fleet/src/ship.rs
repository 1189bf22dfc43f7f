//! `transom-fleet ship`: the agent's finished files land in object storage, each once, and the spool
//! stays as it is: what lies there, and what goes first, is the agent's.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::bucket::{self, Bucket, Retries};

pub mod clock;
mod described;
mod files;
mod given_up;
mod labels;
mod last_look;
mod machine;
mod metrics;
mod object;
pub(crate) mod pace;
mod record;
mod shipper;
mod spool_lock;
mod still_there;

pub use machine::Said;
pub use shipper::Shipper;

/// Ship the finished files of the agent's spool to object storage
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The agent's spool, which is only read
    #[arg(long, value_name = "DIR", default_value = "/var/lib/transom/spool")]
    spool: PathBuf,
    /// Where the tables are
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    to: String,
    /// What this machine is called in the tables [default: its host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// A label of this machine in the table `hosts`, as cloud=NAME; can be given again
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = labels::label)]
    labels: Vec<(String, String)>,
    /// Ship recorded events (level 2), too: of each hour this many MiB at most, as they land; 0: none
    #[arg(long, value_name = "MIB", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=65_536))]
    events_mib: u64,
    /// The agent's configuration: addresses of this machine are written if it has `addresses = "full"`
    #[arg(long, value_name = "FILE", default_value = "/etc/transom/agent.toml")]
    agent_config: PathBuf,
    /// Folder for what is remembered of files that landed [default: $STATE_DIRECTORY, else the spool]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Keep metrics in this file, for the text collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE.prom", overrides_with = "metrics")]
    metrics: Option<PathBuf>,
    /// Ship what is there, and end
    #[arg(long)]
    once: bool,
    /// After an outage, the machines of a fleet come back spread over this time
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    spread: u64,
}

const EXAMPLES: &str = "\
Keys, region and endpoint come from where AWS's own programs take them: AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, AWS_REGION, AWS_ENDPOINT_URL, or a role.

Examples:
  transom-fleet ship --to s3://tables/fleet
  transom-fleet ship --spool spool --to file:///srv/tables --once";

impl Args {
    fn state(&self) -> PathBuf {
        let of_service = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        self.state.clone().or_else(of_service).unwrap_or_else(|| self.spool.clone())
    }
}

/// # Errors
/// Nothing can be shipped before somebody changes something: the message says what.
pub fn run(args: Args) -> Result<ExitCode> {
    let bucket = Bucket::open(&args.to, Retries::None)?;
    let state = args.state();
    let mut shipper = Shipper::open(
        &args.spool,
        &state,
        bucket,
        transom_spool::host_name(args.host.as_deref())?,
        Duration::from_secs(args.spread),
        machine::Said { labels: labels::joined(args.labels)?, agent_config: args.agent_config },
        args.metrics,
    )?
    .with_events(args.events_mib << 20);
    let runtime = bucket::runtime()?;
    if args.once {
        return runtime.block_on(shipper.once());
    }
    match runtime.block_on(shipper.forever())? {}
}

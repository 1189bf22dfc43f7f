//! `transom-fleet serve`: one live page of a fleet, made of answers to ready questions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use transom_output::{Output, Replace, note};

use crate::ask::{Answer, Tables, time};
use crate::bucket;
use crate::policy::place::Place;
use crate::policy::{key, words};
use crate::questions;

mod band;
mod figures;
mod http;
mod page;
mod policies;

use figures::{Figures, MOST_PREFIXES};
use page::{Notes, page};

/// Serve one page that shows the fleet: verdicts over time, services, prefixes, policies, agents
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where the tables are
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: String,
    /// Public keys, one a line: with them the page has the policies that are rolled out there, and
    /// what their gates found
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// From this time on: how long ago (90m, 3h, 2d), or a time in UTC (2026-11-23T14:03)
    #[arg(long, value_name = "TIME", default_value = "3h")]
    since: String,
    /// Up to this time [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Where it is served
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9466")]
    listen: SocketAddr,
    /// Serve it at an address that other machines reach: whoever reaches it may read it
    #[arg(long)]
    public: bool,
    /// Write the page into a file instead, and end
    #[arg(short, long, value_name = "FILE.html", conflicts_with_all = ["listen", "public"])]
    output: Option<PathBuf>,
    /// Overwrite that file, whatever it is
    #[arg(long, requires = "output")]
    force: bool,
}

const EXAMPLES: &str = "\
DuckDB's program reads the tables: `duckdb` in PATH, or the one that TRANSOM_DUCKDB names.

Examples:
  transom-fleet serve --from s3://tables/fleet --trust trusted-keys
  transom-fleet serve --from s3://tables/fleet --since 1d -o fleet.html";

/// Tables get new rows every five minutes.
const LASTS: Duration = Duration::from_secs(60);

/// # Errors
/// The tables cannot be read, DuckDB is lacking, or the address cannot be listened on.
pub fn run(args: Args) -> Result<ExitCode> {
    ensure!(
        args.public || args.listen.ip().is_loopback(),
        "{} is an address that others may reach, and the page asks nobody who they are: serve it \
         on 127.0.0.1 behind a proxy that does, or say --public",
        args.listen
    );
    // What is wrong is said before anybody looks.
    let figures = figures(&args)?;
    if let Some(path) = &args.output {
        let replace = if args.force { Replace::Always } else { Replace::Ours("<!doctype html>") };
        let html = page(&figures, &Notes { from: &args.from, refresh: None, trouble: None });
        Output::write_all_to(path, &[], replace, html.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let listen = args.listen;
    let last = Mutex::new(figures);
    let render = move || {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let trouble = match self::figures(&args) {
            Ok(figures) => {
                *last = figures;
                None
            }
            Err(error) => Some(format!("The figures are old: {error:#}")),
        };
        let refresh = Some(LASTS.as_secs());
        page(&last, &Notes { from: &args.from, refresh, trouble })
    };
    let listening = |at| note!("the page is at http://{at}/");
    match bucket::runtime()?.block_on(http::serve(
        listen,
        http::Page::new(render, LASTS),
        listening,
    ))? {}
}

fn figures(args: &Args) -> Result<Figures> {
    let range = time::range(&args.since, args.until.as_deref(), time::now())?;
    let tables = Tables::of(&args.from, range)?;
    let mut figures = Figures::of(range.0, range.1);
    let step = figures.step_us.to_string();
    let ask = |name: &str, given: &[(&str, &str)]| -> Result<Option<Answer>> {
        let given: BTreeMap<String, String> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        tables.answer_if_any(&questions::named(name)?, &given)
    };
    if let Some(answer) = ask("over_time", &[("step_us", &step)])? {
        figures.add_steps(&answer)?;
    }
    if let Some(answer) = ask("verdict_shares", &[])? {
        figures.add_services(&answer)?;
    }
    let rows = MOST_PREFIXES.to_string();
    if let Some(answer) = ask("losing_prefixes", &[("rows", &rows)])? {
        figures.add_prefixes(&answer)?;
    }
    if let Some(answer) = ask("agents", &[])? {
        figures.add_agents(&answer)?;
    }
    if let Some(answer) = ask("hosts", &[])? {
        figures.add_hosts(&answer)?;
    }
    if let Some(path) = &args.trust {
        let place = Place::open(&args.from, None, key::trusted(path)?)?;
        // Who cannot believe what is there still sees the rest.
        let shown = place.shown(words::now_s());
        figures.policies = Some(shown.map_err(|error| format!("{error:#}")));
    }
    Ok(figures)
}

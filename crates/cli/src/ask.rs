//! `transom ask`: from what the agent wrote, what was slow and why.

mod prelude;
mod text;
mod traces;
mod words;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use transom_agent::Unfinished;
use transom_event::Names;
use transom_event::text::Utc;
use transom_output::note;
use transom_spool::{
    AgentRow, Answer, BEGUN, Connection, FileName, Refused, Summary, Table, Time, list, of_file,
    rows_of, table_of, to_object,
};

use crate::naming::NamingArgs;

/// Says which connections were slow at a time, and why: compared with the hour before, and with
/// others to the same prefix. Reads what `transom agent` wrote.
#[derive(clap::Args)]
#[command(after_help = "\
Words: 14:03..14:05, 14:03, last 10m, last 2d; port N, program NAME, unit NAME, pod UID,
container ID, to ADDRESS, verdict NAME, failed, #COOKIE

Examples:
  transom ask 14:03..14:05 port 443
  transom ask last 1h unit nginx.service
  transom ask last 10m failed --json
  transom ask last 1h port 443 --report slow.html
  transom ask last 1h '#4990' --events slow.pcapng
  transom ask last 1h to 192.0.2. --names")]
pub struct Args {
    /// When, and which connections [default: last 10m]
    words: Vec<String>,
    /// Folder that the agent writes to
    #[arg(long, value_name = "DIR", default_value = "/var/lib/transom/spool")]
    spool: PathBuf,
    /// So many of the slowest
    #[arg(long, value_name = "N", default_value_t = 5)]
    slow: usize,
    /// One JSON object, for programs
    #[arg(long)]
    json: bool,
    /// Also write a page of those that the agent recorded event by event (level 2)
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Also write their events for another tool: .pcapng (Wireshark) or .pftrace (Perfetto)
    #[arg(long, value_name = "OUT")]
    events: Option<PathBuf>,
    #[command(flatten)]
    naming: NamingArgs,
}

pub fn run(args: Args) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let question = words::question(&args.words, Time(now.as_micros() as i64))?;
    let names = args.naming.names()?;
    look_into(&args.spool)?;
    // Before the list of files: what is finished meanwhile is then in both, and counts once.
    let (unfinished, is_newest) = unfinished(&args.spool);
    let files = list(&args.spool).with_context(|| args.spool.display().to_string())?;
    let (no_files, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(_, path, _)| is_something_else(path));
    let wanted = |begun: i64| Utc::from_us(begun).format(BEGUN);
    let begun = wanted(question.from.0 - LOOK_BACK_US)..=wanted(question.to.0);
    let (mut connections, mut damaged) =
        rows_of::<Connection>(&files, Table::Connections, &begun, None, |_| true)?;
    let (mut agent, more) = rows_of::<AgentRow>(&files, Table::Agent, &begun, None, |_| true)?;
    damaged.extend(more);
    tell_version(&files);
    // A gap is told by the agent that came after it.
    if let Some(next) = files.iter().find(|(name, ..)| is_agents(name) && name.begun > *begun.end())
    {
        agent.extend(of_file::<AgentRow>(&next.1).unwrap_or_default());
    }
    if files.is_empty() && unfinished.is_empty() {
        bail!(
            "nothing is in {} yet, or you may not read its journal: is the agent running?",
            args.spool.display()
        );
    }
    let kept_since = kept_since(&files, &unfinished);
    for unfinished in unfinished {
        let is_its = |name: &FileName| is_agents(name) && name.number == unfinished.number;
        if !files.iter().any(|(name, ..)| is_its(name)) {
            agent.extend(unfinished.agent);
        }
        connections.extend(unfinished.connections);
    }
    let newest = connections.iter().map(|row| row.time.0).max();
    let mut answer = transom_spool::answer(&question, &connections, &agent, args.slow);
    let no_files = no_files.into_iter().filter(|(name, ..)| begun.contains(&name.begun));
    damaged.extend(no_files.map(|(name, path, _)| (name, no_file(&path))));
    answer.missing.extend(damaged.iter().map(unreadable));
    answer.missing.extend(transom_spool::silence(&question, &agent, is_newest));
    if let Some(since) = kept_since.filter(|since| question.from < *since) {
        answer.missing.insert(0, (since, "no row is kept of the time before".into()));
    }
    let mut out = transom_output::standard_output();
    if args.json {
        serde_json::to_writer(&mut out, &json(&answer)).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text::answer(&question, &answer, newest, &names).as_bytes())?;
    }
    out.flush()?;
    if let Some(page) = &args.report {
        traces::report(&files, &answer, page, &names)?;
    }
    if let Some(to) = &args.events {
        traces::hand_over(&files, &answer, to)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// There is no spool, or we may not read it: with the remedy.
fn look_into(spool: &Path) -> Result<()> {
    let at = spool.display();
    match std::fs::read_dir(spool) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Refused::at(spool).into()),
        Err(error) => Err(error).with_context(|| {
            format!("no spool at {at}: is the agent running? Name its folder with --spool")
        }),
    }
}

/// The begin of the oldest rows that are there.
fn kept_since(files: &[(FileName, PathBuf, u64)], unfinished: &[Unfinished]) -> Option<Time> {
    let oldest = files.iter().find(|(name, ..)| name.table() == Table::Connections);
    let of_file = oldest.and_then(|(name, ..)| begun_us(&name.begun));
    let of_journals = unfinished.iter().flat_map(|of| of.agent.iter().map(|row| row.time.0));
    of_file.or_else(|| of_journals.min()).map(Time)
}

/// What was written as [`BEGUN`].
fn begun_us(begun: &str) -> Option<i64> {
    let (date, time) = begun.strip_suffix('Z')?.split_once('T')?;
    let date = format!("{}-{}-{}", date.get(..4)?, date.get(4..6)?, date.get(6..)?);
    let number = |at: std::ops::Range<usize>| time.get(at)?.parse::<i64>().ok();
    let seconds = number(0..2)? * 3600 + number(2..4)? * 60 + number(4..6)?;
    Some((Utc::of_date(&date)?.seconds() + seconds) * 1_000_000)
}

fn is_agents(name: &FileName) -> bool {
    name.table() == Table::Agent
}

/// What the running agent has in no file yet; where it cannot be read, the files must do, and the
/// newest rows are not among them.
fn unfinished(spool: &Path) -> (Vec<Unfinished>, bool) {
    match Unfinished::of(spool) {
        Ok(found) => (found, true),
        Err(error) => {
            note!("transom: without the newest rows, which are in no file yet: {error:#}");
            (Vec::new(), false)
        }
    }
}

/// The hour before, and the longest time that a file may be open.
const LOOK_BACK_US: i64 = 2 * 3_600_000_000;

fn unreadable((name, error): &(FileName, anyhow::Error)) -> (Time, String) {
    let at = Time(begun_us(&name.begun).unwrap_or(0));
    (at, format!("the rows of a file that cannot be read: {error:#}"))
}

/// Agent and `transom` may be of two versions.
fn tell_version(files: &[(FileName, PathBuf, u64)]) {
    let newest = files.iter().rev().find(|(name, ..)| name.table() != Table::Traces);
    let file = newest.and_then(|(_, path, _)| File::open(path).ok());
    if let Some(version) = file.and_then(transom_spool::later_version) {
        note!(
            "transom: the agent that wrote this is of version {version}, and this is {}: what is \
             new in it is left out. Its own `transom` knows it",
            env!("CARGO_PKG_VERSION")
        );
    }
}

/// A pipe or a device with the name of a file, which may let us wait for ever.
fn is_something_else(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| !found.is_file())
}

fn no_file(path: &Path) -> anyhow::Error {
    anyhow!("{}: it is no file", path.display())
}

pub fn is_table_of_connections(path: &Path) -> bool {
    let is_table = |file| table_of(file) == Some(Table::Connections);
    !is_something_else(path) && File::open(path).is_ok_and(is_table)
}

/// The addresses in a table of connections, or in all of a spool: none, if the agent keeps
/// prefixes only.
///
/// # Errors
/// A file cannot be read.
pub fn peers(path: &Path) -> Result<BTreeSet<IpAddr>> {
    let rows: Vec<Connection> = if path.is_dir() {
        // Whenever they were begun.
        let all = String::new()..="9".into();
        let (rows, mut damaged) = rows_of(&list(path)?, Table::Connections, &all, None, |_| true)?;
        if let Some((_, error)) = damaged.pop() {
            return Err(error);
        }
        rows
    } else {
        of_file(path)?
    };
    Ok(rows.iter().filter_map(|row| row.remote_address.as_ref()?.parse().ok()).collect())
}

/// Each row of one file, the one that was held back longest first.
///
/// # Errors
/// The file cannot be read.
pub fn explain(path: &Path, as_json: bool, names: &Names) -> Result<ExitCode> {
    let mut rows: Vec<Connection> = of_file(path)?;
    rows.sort_by_key(|row| (Reverse(transom_spool::held_back_us(row)), row.time));
    let mut out = transom_output::standard_output();
    if as_json {
        let rows: Vec<Value> = rows.iter().map(|row| Value::Object(to_object(row))).collect();
        serde_json::to_writer(&mut out, &rows).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text::rows(&rows, names).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json(answer: &Answer) -> Value {
    let slow = answer.slow.iter().map(|slow| {
        let mut row = to_object(&slow.row);
        row.insert("held_back_us".into(), transom_spool::held_back_us(&slow.row).into());
        row.insert("others_to_prefix".into(), numbers(&slow.others));
        if let Some(prelude) = &slow.prelude {
            row.insert("chosen_us".into(), prelude.chosen.0.into());
            row.insert("decisions_before_chosen".into(), (*prelude.decisions).into());
        }
        Value::Object(row)
    });
    let missing = answer.missing.iter().map(|(at, what)| json!({ "time_us": at.0, "what": what }));
    json!({
        "asked": numbers(&answer.asked),
        "hour_before": numbers(&answer.hour_before),
        "slow": slow.collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "rows_of_level_0": answer.level_0,
        "with_their_whole_life": answer.whole_life,
        "recorded": answer.recorded.iter().map(|it| it.cookie).collect::<Vec<_>>(),
    })
}

fn numbers(of: &Summary) -> Value {
    let verdicts: Map<String, Value> =
        of.verdicts.iter().map(|(cause, share)| (cause.name().into(), (*share).into())).collect();
    json!({
        "connections": of.connections,
        "failed": of.failed,
        "bytes_acked": of.bytes_acked,
        "bytes_received": of.bytes_received,
        "retransmitted_share": of.retransmitted,
        "timeouts": of.timeouts,
        "median_rtt_us": of.median_rtt_us,
        "least_rtt_us": of.least_rtt_us,
        "p99_handshake_us": of.p99_handshake_us,
        "median_rate_bits_per_second": of.median_rate,
        "verdicts": verdicts,
    })
}

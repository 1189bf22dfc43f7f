//! `transom-drill ask`: asks one host about one connection.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use chrono::{DateTime, Utc};
use transom_output::{Output, Replace, note, plain, say};
use transom_spool::{Decision, host_name, of_object};
use zenoh::query::{ConsolidationMode, QueryTarget};
use zenoh::{Session, Wait};

use crate::question::{Question, SLACK_US, VERSION, Want};
use crate::reply::{MOST_FILE_KIB, Reply, State};
use crate::ring::utc;
use crate::session::{self, failed};

/// Ask a host what its kernel decided about a connection
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  transom-drill ask web-1 '#1103806595145' --at 2026-11-23T13:10:59Z \\
      --router tls/router.example:7447
  transom-drill ask web-1 '#1103806595145' --at 2026-11-23T13:10:59Z --fetch report -o slow.html")]
pub struct Args {
    /// What the host is called in the tables
    host: String,
    /// The connection, as rows have it
    cookie: String,
    /// When it ended, or the time of its row (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// How long before that it may have begun, at most a day
    #[arg(long, value_name = "SECONDS", default_value_t = 3600.0)]
    lasted: f64,
    /// The boot in which it has that cookie, as the tables have it
    #[arg(long, value_name = "BOOT")]
    boot: Option<String>,
    /// Zenoh router to dial
    #[arg(long, value_name = "ENDPOINT")]
    router: Vec<String>,
    /// Zenoh's configuration: TLS
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long to wait for an answer; for a file at least 60
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=600))]
    wait: u32,
    /// Print the answer as JSON
    #[arg(long, conflicts_with = "fetch")]
    json: bool,
    /// Get what was recorded of it event by event, as the host makes it
    #[arg(long, value_name = "WHAT", requires = "output")]
    fetch: Option<Want>,
    /// File to write it to
    #[arg(short, long, value_name = "FILE", requires = "fetch")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
}

/// A host takes so long for a file, s.
const FILE_WAIT: u32 = 60;

/// # Errors
/// No router or no such host is there, it does not answer, or refuses.
pub fn run(args: &Args) -> Result<ExitCode> {
    let host = host_name(Some(&args.host))?;
    let question = question(args)?;
    let wait = args.wait.max(args.fetch.map_or(0, |_| FILE_WAIT));
    let config =
        session::client(&args.router, args.config.as_deref(), session::Wait::Ms(args.wait * 1000))?;
    let routers = session::endpoints(&config, "connect/endpoints").join(", ");
    let output = args.output.as_deref().map(|path| {
        let replace = if args.force { Replace::Always } else { Replace::Never };
        Output::open(path, &[], replace)
    });
    let output = output.transpose()?;
    let session = zenoh::open(config).wait().map_err(|error| {
        failed(error).context(format!("no router answers at {routers} within {} s", args.wait))
    })?;
    let answers = ask(&session, &host, &question, wait);
    let _ = session.close().wait();
    let answers = answers?;
    match output {
        Some(mut output) => {
            let [file] = &answers[..] else { bail!(several(&host, answers.len())) };
            ensure!(file.len() as u64 <= MOST_FILE_KIB << 10, "{host} sent more than is agreed");
            output.write_all(file)?;
            output.finish()?;
        }
        None => print(&host, &answers, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn question(args: &Args) -> Result<Question> {
    let digits = args.cookie.strip_prefix('#').unwrap_or(&args.cookie);
    let cookie = digits.parse().with_context(|| {
        format!("'{}': a cookie is a number, as rows have it: #4990", args.cookie)
    })?;
    let at = match &args.at {
        Some(at) => DateTime::parse_from_rfc3339(at)
            .with_context(|| format!("--at '{at}': give a time as 2026-11-23T13:10:59Z"))?
            .timestamp_micros(),
        None => Utc::now().timestamp_micros(),
    };
    let lasted_us = args.lasted * 1e6;
    ensure!((0.0..=86_400e6).contains(&lasted_us), "--lasted: 0 to 86400 seconds");
    Ok(Question {
        version: VERSION,
        want: args.fetch.unwrap_or(Want::Decisions),
        cookie,
        boot: args.boot.clone(),
        from_us: at - lasted_us as i64 - SLACK_US,
        to_us: at + SLACK_US,
    })
}

/// The answers of all that have this name.
fn ask(session: &Session, host: &str, question: &Question, wait: u32) -> Result<Vec<Vec<u8>>> {
    let replies = session
        .get(session::key(host))
        .payload(question.text()?)
        .target(QueryTarget::All)
        .consolidation(ConsolidationMode::None)
        .timeout(Duration::from_secs(wait.into()))
        .wait()
        .map_err(failed)?;
    let (mut answers, mut refusal) = (Vec::new(), None);
    while let Ok(reply) = replies.recv() {
        match reply.result() {
            Ok(sample) => answers.push(sample.payload().to_bytes().into_owned()),
            Err(error) => refusal = Some(error.payload().to_bytes().into_owned()),
        }
    }
    if !answers.is_empty() {
        return Ok(answers);
    }
    match refusal.as_deref() {
        None => bail!(
            "no host {host} is at this router: `transom-drill answer` does not run there, or cannot \
             reach it"
        ),
        Some(b"Timeout") => bail!("{host} did not answer within {wait} s"),
        Some(said) => bail!("{host} refused: {}", short(&String::from_utf8_lossy(said))),
    }
}

/// What a host says of itself fills no screen.
fn short(said: &str) -> String {
    plain(said).chars().take(1000).collect()
}

fn several(host: &str, count: usize) -> String {
    format!("{count} machines answer as {host}: each needs a name of its own (--host)")
}

fn print(host: &str, answers: &[Vec<u8>], as_json: bool) -> Result<()> {
    let replies = answers.iter().map(|answer| {
        serde_json::from_slice(answer)
            .with_context(|| format!("{host} answered with what is no answer: another version?"))
    });
    let replies: Vec<Reply> = replies.collect::<Result<_>>()?;
    if replies.len() > 1 {
        note!("transom-drill: {}", several(host, replies.len()));
    }
    // Of a machine with a cloned name the other one knows nothing.
    let known = replies.iter().find(|reply| reply.state != State::Unknown);
    let reply = known.or(replies.first()).context("no answer")?;
    if as_json {
        say!("{}", serde_json::to_string_pretty(reply)?)?;
        return Ok(());
    }
    if let Some(connection) = &reply.connection {
        let row: transom_spool::Connection = of_object(connection);
        say!(
            "{host} #{}: {}, {}, level {}{}",
            row.cookie,
            utc(row.time),
            row.verdict.name(),
            row.level,
            reply.chosen().map_or(String::new(), |why| format!(", recorded ({})", short(why)))
        )?;
    }
    if reply.left_out > 0 {
        say!("{} earlier decisions are left out", reply.left_out)?;
    }
    for decision in &reply.decisions {
        say!("{}", short(&of_object::<Decision>(decision).line()))?;
    }
    if let Some(why) = &reply.why {
        say!("{}", short(why))?;
    }
    if reply.is_recorded() {
        say!("its events: the same with --fetch report|pcapng|perfetto -o FILE")?;
    }
    Ok(())
}

//! A page or file of a recorded connection, made by the host's own `transom`.

use std::fs;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use chrono::DateTime;
use transom_output::Companion;

use crate::question::{Question, Want};

const TRANSOM: Companion = Companion { name: "transom", remedy: "it makes pages and files" };

/// More than a page of 256 MiB of traces takes.
const LONGEST: Duration = Duration::from_secs(60);

impl Want {
    /// The option of `transom ask`, and the ending by which it tells the format.
    fn option(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Want::Decisions => return None,
            Want::Report => ("--report", "html"),
            Want::Pcapng => ("--events", "pcapng"),
            Want::Perfetto => ("--events", "pftrace"),
        })
    }
}

/// # Errors
/// It was not recorded, its trace is gone, the file is too large, or `transom` is not here.
pub fn file(spool: &Path, question: &Question, most_bytes: u64) -> Result<Vec<u8>> {
    let (option, ending) = question.want.option().context("decisions are no file")?;
    let folder = tempfile::tempdir().context("a folder for the file")?;
    let to = folder.path().join(format!("events.{ending}"));
    let mut said = tempfile::tempfile().context("a file for what it says")?;
    let program = TRANSOM.path();
    let mut command = Command::new(&program);
    command.arg("ask").arg(format!("#{}", question.cookie)).arg(times(question));
    command.arg("--spool").arg(spool).arg(option).arg(&to);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("this host has no `transom`, which makes pages and files"),
        _ => TRANSOM.cannot_run(error),
    })?;
    let status = wait(child)?;
    let mut text = String::new();
    said.rewind()?;
    said.take(1 << 16).read_to_string(&mut text).unwrap_or_default();
    let last = text.lines().last().unwrap_or_default();
    ensure!(status.success(), "{}", last.strip_prefix("transom: ").unwrap_or(last));
    let bytes = fs::metadata(&to).with_context(|| "it made no file")?.len();
    ensure!(
        bytes <= most_bytes,
        "its {ending} has {bytes} bytes, and {most_bytes} are the most that is sent: make it on \
         the host, with transom ask '#{}' {} {option} FILE",
        question.cookie,
        times(question)
    );
    Ok(fs::read(&to)?)
}

/// Whole seconds, as `transom ask` takes them.
fn times(question: &Question) -> String {
    let time = |us: i64| {
        let time = DateTime::from_timestamp_micros(us).unwrap_or_default();
        time.format("%Y-%m-%dT%H:%M:%S").to_string()
    };
    format!("{}..{}", time(question.from_us), time(question.to_us + 999_999))
}

fn wait(mut child: Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + LONGEST;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            bail!("making it took more than {} s", LONGEST.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

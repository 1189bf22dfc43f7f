//! `transom run`: a program of its own (`transom-netstack`, which carries the Linux kernel as a
//! library and so is under GPL-2.0). We become it; or, with `--record`, stay and write what it tells
//! of the library's connections into a trace file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use transom_event::{Body, Event, Kind, RAW_LEN, Raw};
use transom_machine::relay::Relay;
use transom_monitor::clock;
use transom_trace::{Meta, Recorded, Recorder, Reserved};

use crate::recorded::print_summary;
use transom_output::{Companion, note, program};
use transom_supervisor::{Arguments, FORWARDED};

const NETSTACK: Companion =
    Companion { name: "transom-netstack", remedy: "build it with `make netstack`" };
/// So much is lost at most if we are killed.
const FLUSH_EVERY: Duration = Duration::from_millis(500);

/// It reads the same line, which is only looked at here.
pub fn run(line: Arguments) -> Result<ExitCode> {
    // Behind our own name and `run`.
    let words: Vec<OsString> = std::env::args_os().skip(2).collect();
    match &line.record {
        Some(file) => record(file, line.force, &words, program_name(&line.program)),
        None => NETSTACK.become_it(words),
    }
}

fn record(file: &Path, force: bool, words: &[OsString], name: &OsStr) -> Result<ExitCode> {
    let program = NETSTACK.path();
    // They are for the program; we write until it has ended.
    let relay = Relay::begin(&FORWARDED)?;
    let probes = "tracepoints of Linux as a library".to_owned();
    let meta = Meta { probes, us_per_jiffy: 1000, ..Meta::of_this_machine() };
    let reserved = Reserved::new(file, meta, None, force)?;
    let (read, write) = pipe().context("making a pipe")?;
    let started =
        Command::new(program).arg(format!("--events={}", write.as_raw_fd())).args(words).spawn();
    drop(write);
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            reserved.give_up();
            return Err(NETSTACK.cannot_run(error));
        }
    };
    relay.to(&child);
    let mut pipe = BufReader::new(File::from(read));
    if !has_any(&mut pipe)? {
        let status = end_of(&relay, &mut child)?;
        if !status.success() {
            // It may have refused to begin: nothing is overwritten for that.
            reserved.give_up();
            note!("transom: nothing was recorded in {}: no event came", file.display());
            return Ok(program::code_of(status).into());
        }
    }
    let recorded = reserved.begin().and_then(|recorder| copy(pipe, recorder, &child, name));
    let status = end_of(&relay, &mut child)?;
    print_summary(&recorded?, None);
    Ok(program::code_of(status).into())
}

/// Waits for the first event, or for the end.
fn has_any(pipe: &mut impl BufRead) -> Result<bool> {
    loop {
        match pipe.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            got => return Ok(!got.context("reading the library's events")?.is_empty()),
        }
    }
}

/// The reading end closes when we run a program, the writing end stays open in it.
fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: both are new, and nobody else's; no pointers.
    unsafe {
        libc::fcntl(ends[0], libc::F_SETFD, libc::FD_CLOEXEC);
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Until the other side has closed its end.
fn copy(
    mut pipe: impl Read,
    mut recorder: Recorder,
    child: &Child,
    name: &OsStr,
) -> Result<Recorded> {
    let mut bytes = vec![0; 4096 * RAW_LEN];
    let mut held = 0;
    let mut flushed = Instant::now();
    loop {
        let got = match pipe.read(&mut bytes[held..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            got => got.context("reading the library's events")?,
        };
        if got == 0 {
            break;
        }
        held += got;
        let whole = held - held % RAW_LEN;
        for record in bytes[..whole].chunks_exact(RAW_LEN) {
            recorder.push(&owned(Raw::from_bytes(record)?, child.id(), name))?;
        }
        bytes.copy_within(whole..held, 0);
        held -= whole;
        if flushed.elapsed() >= FLUSH_EVERY {
            flushed = Instant::now();
            recorder.tick(&[], clock::boottime_ns())?;
        }
    }
    if held > 0 {
        bail!("{} stopped in the middle of an event", NETSTACK.name);
    }
    recorder.finish(&[], clock::boottime_ns())
}

/// The library knows no processes: its sockets are those of the program that it runs.
fn owned(mut raw: Raw, process: u32, name: &OsStr) -> Raw {
    raw.head.tgid = process;
    let kind = Kind::from_number(raw.head.kind.into());
    if matches!(kind, Some(Kind::Open | Kind::Algorithm))
        && let Ok(mut event) = Event::try_from(&raw)
        && let Body::Open(open) = &mut event.body
    {
        let name = name.as_encoded_bytes();
        let most = name.len().min(open.comm.len() - 1);
        open.comm = Default::default();
        open.comm[..most].copy_from_slice(&name[..most]);
        return Raw::from(&event);
    }
    raw
}

fn program_name(program: &[OsString]) -> &OsStr {
    let file = program.first().and_then(|word| Path::new(word).file_name());
    file.unwrap_or_default()
}

fn end_of(relay: &Relay, child: &mut Child) -> Result<ExitStatus> {
    relay.wait(child).context("waiting for the program")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_program_is_named_by_its_file() {
        let name = |line: &str| {
            let line = Arguments::try_parse_from(line.split(' ')).unwrap();
            program_name(&line.program).to_owned()
        };
        assert_eq!(name("run --path eth0 -- /usr/bin/curl -- x"), "curl");
        assert_eq!(name("run curl http://x"), "curl");
        assert_eq!(name("run --record f --path eth0 --mptcp curl --path x"), "curl");
        assert_eq!(name("run --path eth0 --record f /usr/bin/curl"), "curl");
    }
}

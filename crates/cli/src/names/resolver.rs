//! Asks this machine's resolver what addresses are called: `getent` in processes of its own, which
//! end when their time is over. So the resolver's modules are the machine's, whatever this program
//! is linked with, and one that hangs holds up nothing.

use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cache::is_host_name;

/// As many at a time.
const AT_A_TIME: usize = 8;
const LOOK: Duration = Duration::from_millis(5);

pub enum Answer {
    Name(String),
    /// It has none, or no server could be asked.
    None,
    /// None in time.
    TooLate,
}

/// Gives each answer when it comes.
///
/// # Errors
/// There is no `getent`.
pub fn ask(
    addresses: &[IpAddr],
    limit: Duration,
    mut each: impl FnMut(IpAddr, Answer),
) -> Result<()> {
    let left = Mutex::new(addresses.iter());
    let (answers, all) = channel();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(addresses.len()) {
            let (left, answers) = (&left, answers.clone());
            scope.spawn(move || {
                let next = || left.lock().ok()?.next().copied();
                while let Some(address) = next() {
                    let answer = one(address, limit);
                    let is_over = answer.is_err();
                    if answers.send((address, answer)).is_err() || is_over {
                        break;
                    }
                }
            });
        }
        drop(answers);
        for (address, answer) in all {
            each(address, answer?);
        }
        Ok(())
    })
}

fn one(address: IpAddr, limit: Duration) -> Result<Answer> {
    let mut child = Command::new("getent")
        .args(["hosts", &address.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow::anyhow!(
                "there is no getent, which asks the resolver: it comes with the C library (libc-bin)"
            ),
            _ => anyhow::Error::new(error).context("running getent"),
        })?;
    // Longer than a clock counts: no end.
    let end = Instant::now().checked_add(limit);
    let status = loop {
        match child.try_wait().context("waiting for getent")? {
            Some(status) => break status,
            None if end.is_some_and(|end| Instant::now() >= end) => {
                let _ = child.kill();
                child.wait().context("ending getent")?;
                return Ok(Answer::TooLate);
            }
            None => thread::sleep(LOOK),
        }
    };
    let mut said = String::new();
    if let Some(mut output) = child.stdout.take() {
        let mut bytes = Vec::new();
        output.by_ref().take(4096).read_to_end(&mut bytes).context("reading from getent")?;
        said = String::from_utf8_lossy(&bytes).into_owned();
    }
    match status.code() {
        Some(0) => Ok(name(&said).map_or(Answer::None, Answer::Name)),
        Some(2) => Ok(Answer::None),
        _ => bail!("getent failed ({status})"),
    }
}

/// `192.0.2.1       server.example alias`: what a stranger's DNS server said, so only if it looks
/// like a name.
fn name(said: &str) -> Option<String> {
    let name = said.lines().next()?.split_whitespace().nth(1)?.trim_end_matches('.');
    is_host_name(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_name_is_one() {
        assert_eq!(name("192.0.2.1   server.example www\n").as_deref(), Some("server.example"));
        assert_eq!(name("192.0.2.1   server.example.\n").as_deref(), Some("server.example"));
        for wrong in ["", "192.0.2.1", "192.0.2.1 \u{1b}[31mred", "192.0.2.1 <b>", "192.0.2.1 -"] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
    }
}

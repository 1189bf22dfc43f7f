//! `transom peer status`: asks the daemon of this network namespace.

use std::io::{ErrorKind, IsTerminal as _, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_machine::lock;

use crate::link::Event;
use crate::place;
use crate::shown::State;

#[derive(clap::Args)]
pub struct Args {
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
    /// Print again each second
    #[arg(long)]
    watch: bool,
    /// Where the daemon answers [default: one place for each network namespace]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
}

const PATIENCE: Duration = Duration::from_secs(3);

fn ask(socket: &Path) -> Result<String> {
    let shown = socket.display();
    let mut stream = match UnixStream::connect(socket) {
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            bail!("no daemon answers at {shown}: start one with `transom peer run`")
        }
        other => other.with_context(|| format!("asking at {shown}"))?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .with_context(|| format!("the daemon at {shown} does not answer"))?;
    Ok(answer)
}

pub fn run(args: Args) -> Result<ExitCode> {
    let socket = place::socket(args.socket)?;
    let on_screen = std::io::stdout().is_terminal();
    loop {
        let answer = ask(&socket)?;
        let mut out = transom_output::standard_output();
        if args.json {
            writeln!(out, "{answer}")?;
        } else {
            let state: State = serde_json::from_str(&answer)
                .context("the daemon answers in another form: is it of another version?")?;
            if args.watch && on_screen {
                // Home, and nothing below.
                write!(out, "\x1b[H\x1b[J")?;
            }
            write!(out, "{}", state.table())?;
        }
        out.flush()?;
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The daemon's end. The file goes when this is dropped.
pub struct Listener(PathBuf);

impl Listener {
    /// Takes the place, if no living daemon has it; what a killed one left is removed.
    pub fn start(socket: &Path, events: SyncSender<Event>) -> Result<Listener> {
        let shown = socket.display();
        let folder = place::folder(socket)?;
        // Daemons of several namespaces start at the same time, and each removes what is left.
        let _one_at_a_time =
            lock::hold_folder(folder).with_context(|| format!("locking {}", folder.display()))?;
        if UnixStream::connect(socket).is_ok() {
            bail!("a daemon runs here already and answers at {shown}: stop it first");
        }
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {shown}"));
            }
            _ => {}
        }
        let listener =
            UnixListener::bind(socket).with_context(|| format!("listening at {shown}"))?;
        place::restrict(socket)?;
        place::sweep(folder);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, waiting) = channel();
                if events.send(Event::Asked(answer)).is_err() {
                    return;
                }
                let _ = answer_with(stream, waiting.recv_timeout(PATIENCE).ok());
            }
        });
        Ok(Listener(socket.to_owned()))
    }
}

fn answer_with(mut stream: UnixStream, text: Option<String>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(text.unwrap_or_default().as_bytes())
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_daemon_waits_for_one_that_takes_its_place_at_the_moment() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("peer-4026531840.sock");
        let other = lock::hold_folder(folder.path()).unwrap();
        thread::scope(|scope| {
            let daemon = scope.spawn(|| Listener::start(&socket, sync_channel(1).0));
            thread::sleep(Duration::from_millis(100));
            assert!(!socket.exists());
            drop(other);
            let _daemon = daemon.join().unwrap().unwrap();
            assert!(socket.exists());
        });
    }
}

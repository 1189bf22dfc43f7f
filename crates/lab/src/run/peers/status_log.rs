//! The status of a run's peer daemons, as `transom peer status --json` shows it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::hosts::{Place, namespace};

/// Between two questions.
const EACH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// A host whose daemon answers.
pub struct Host {
    pub name: String,
    socket: PathBuf,
    file: PathBuf,
}

impl Host {
    pub fn of(place: &Place, directory: &Path) -> Result<Host> {
        let inode = namespace::inode(&place.namespace)
            .with_context(|| format!("the namespace {} is gone", place.namespace))?;
        Ok(Host {
            name: place.host.clone(),
            socket: super::socket(inode),
            file: directory.join(format!("peer-{}.jsonl", place.host)),
        })
    }

    /// The daemon's state now.
    pub fn ask(&self) -> Result<Value> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }
}

/// Asks all of them each second and writes their answers to files.
pub struct StatusLog {
    stop: Sender<()>,
    thread: JoinHandle<Vec<String>>,
}

impl StatusLog {
    pub fn start(hosts: Vec<Host>) -> StatusLog {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut faults = Vec::new();
            let mut files: Vec<(Host, Option<File>)> =
                hosts.into_iter().map(|host| (host, None)).collect();
            while stopped.recv_timeout(EACH) == Err(RecvTimeoutError::Timeout) {
                for (host, file) in &mut files {
                    if let Err(error) = note(host, file, began) {
                        faults.push(format!(
                            "the middleware of '{}' did not answer: {error:#}",
                            host.name
                        ));
                    }
                }
            }
            faults.dedup();
            faults
        });
        StatusLog { stop, thread }
    }

    /// Returns what went wrong.
    pub fn stop(self) -> Vec<String> {
        drop(self.stop);
        self.thread
            .join()
            .unwrap_or_else(|_| vec!["the thread that asks the peers for their status died".into()])
    }
}

fn note(host: &Host, file: &mut Option<File>, began: Instant) -> Result<()> {
    let state = host.ask()?;
    let seconds = (began.elapsed().as_secs_f64() * 100.0).round() / 100.0;
    let file = match file {
        Some(file) => file,
        None => file.insert(File::create(&host.file)?),
    };
    writeln!(file, "{}", json!({ "t_s": seconds, "state": state }))?;
    Ok(())
}

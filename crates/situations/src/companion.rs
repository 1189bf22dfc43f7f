//! A program of Transom that runs beside a situation until it is interrupted.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::policy;

/// How long it may take to load its programs.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Companion {
    child: Child,
    name: &'static str,
}

impl Companion {
    /// `transom record`; returns when its probes are attached.
    pub fn record(transom: &Path, netns: &Path, file: &Path) -> Result<Companion> {
        let _ = std::fs::remove_file(file);
        let mut command = Command::new(transom);
        command.args(["record", "--quiet", "--ring", "16M", "--netns"]).arg(netns);
        // The file is created when the probes are in place.
        Companion::start(command.arg("-o").arg(file), "transom record", || Ok(file.exists()))
    }

    /// `transom tune apply` with `steady`; returns when it is in force. What it says stays beside
    /// the trace.
    pub fn tune(transom: &Path, netns: &Path, trace: &Path) -> Result<Companion> {
        let (rules, said) = (trace.with_extension("policy.toml"), trace.with_extension("tune.txt"));
        std::fs::write(&rules, policy::RULES)?;
        let output = std::fs::File::create(&said)?;
        let mut command = Command::new(transom);
        command.args(["tune", "apply"]).arg(&rules).arg("--netns").arg(netns);
        command.stdout(output.try_clone()?).stderr(output);
        Companion::start(&mut command, "transom tune", || {
            Ok(std::fs::read_to_string(&said)?.contains(policy::IN_FORCE))
        })
    }

    fn start(
        command: &mut Command,
        name: &'static str,
        is_ready: impl Fn() -> Result<bool>,
    ) -> Result<Companion> {
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.with_context(|| format!("starting {name}"))?;
        let mut companion = Companion { child, name };
        let began = Instant::now();
        while !is_ready()? {
            if let Some(status) = companion.child.try_wait()? {
                bail!("{name} ended with {status}");
            }
            ensure!(began.elapsed() < PATIENCE, "{name} did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(companion)
    }

    pub fn finish(mut self) -> Result<()> {
        let status = self.end()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    /// It takes everything back before it ends.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.child.wait()
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

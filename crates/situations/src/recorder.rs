//! `transom record` beside a situation.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// How long it may take to load its probes.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Recorder(Child);

impl Recorder {
    /// Returns when its probes are attached.
    pub fn start(transom: &Path, netns: &Path, file: &Path) -> Result<Recorder> {
        let _ = std::fs::remove_file(file);
        let mut child = Command::new(transom)
            .args(["record", "--quiet", "--ring", "16M", "--netns"])
            .arg(netns)
            .arg("-o")
            .arg(file)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", transom.display()))?;
        let began = Instant::now();
        // The file is created when the probes are in place.
        while !file.exists() {
            if let Some(status) = child.try_wait()? {
                bail!("transom record ended with {status}");
            }
            ensure!(began.elapsed() < PATIENCE, "transom record did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Recorder(child))
    }

    pub fn finish(mut self) -> Result<()> {
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        let status = self.0.wait()?;
        ensure!(status.success(), "transom record ended with {status}");
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

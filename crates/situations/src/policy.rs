//! `transom tune apply` beside a situation: how a connection comes to use `steady`.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

pub const STEADY: &str = "steady";

const POLICY: &str = r#"guard = { on = false }
[[rule]]
match = { rtt = "0ms.." }
action = { algorithm = "steady" }
"#;

/// How long it may take to load its programs.
const PATIENCE: Duration = Duration::from_secs(60);
/// What it says when new connections are reached.
const IN_FORCE: &str = "is in force";

pub struct Policy(Child);

impl Policy {
    /// Returns when it is in force; what it says stays beside the trace.
    pub fn start(transom: &Path, netns: &Path, trace: &Path) -> Result<Policy> {
        let (rules, said) = (trace.with_extension("policy.toml"), trace.with_extension("tune.txt"));
        std::fs::write(&rules, POLICY)?;
        let output = File::create(&said)?;
        let child = Command::new(transom)
            .args(["tune", "apply"])
            .arg(&rules)
            .arg("--netns")
            .arg(netns)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {}", transom.display()))?;
        let mut policy = Policy(child);
        let began = Instant::now();
        while !std::fs::read_to_string(&said)?.contains(IN_FORCE) {
            if let Some(status) = policy.0.try_wait()? {
                bail!("transom tune ended with {status}: {}", std::fs::read_to_string(&said)?);
            }
            ensure!(began.elapsed() < PATIENCE, "transom tune did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(policy)
    }

    pub fn finish(mut self) -> Result<()> {
        let status = self.end()?;
        ensure!(status.success(), "transom tune ended with {status}");
        Ok(())
    }

    /// It takes everything back before it ends.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(status) = self.0.try_wait()? {
            return Ok(status);
        }
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        self.0.wait()
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

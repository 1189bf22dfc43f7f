//! Programs of other people: started in a namespace, watched, ended. None outlives this process.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::cpu;
use crate::hosts::namespace;

/// How often a program is asked whether it has ended.
pub const LOOK: Duration = Duration::from_millis(20);
/// Of the programs of a run; `transom record` gives itself the same.
const NICE: i32 = -10;
/// Characters of a program's output that an error repeats.
const SAID: usize = 600;

/// A running program; dropping it kills it.
pub struct Process {
    /// The command line, for errors.
    pub words: String,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    /// s; once it has ended.
    cpu: Option<f64>,
}

impl Process {
    /// What it prints goes to `output`, and its errors beside it. With `inside`, a namespace's
    /// name, it runs in there.
    ///
    /// # Errors
    /// If the program or the namespace is not there.
    pub fn start(inside: Option<&str>, words: &[String], output: &Path) -> Result<Process> {
        Process::with_priority(Some(NICE), inside, words, output)
    }

    /// The same for work that nothing waits for: it has the priority of this process.
    ///
    /// # Errors
    /// If the program is not there.
    pub fn start_patient(words: &[String], output: &Path) -> Result<Process> {
        Process::with_priority(None, None, words, output)
    }

    fn with_priority(
        nice: Option<i32>,
        inside: Option<&str>,
        words: &[String],
        output: &Path,
    ) -> Result<Process> {
        let errors = beside(output);
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("creating {}", path.display()))
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(create(output)?).stderr(create(&errors)?);
        // Ctrl-C is for us, and we end the programs in our order.
        command.process_group(0);
        let file = inside
            .map(|name| File::open(namespace::path(name)))
            .transpose()
            .with_context(|| format!("opening the namespace {}", inside.unwrap_or_default()))?;
        // SAFETY: only system calls that may be made between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // Before what else the machine does, as its recorders are; users may not, and wait.
                if let Some(nice) = nice {
                    libc::setpriority(libc::PRIO_PROCESS, 0, nice);
                }
                match &file {
                    Some(file) if libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) != 0 => {
                        Err(io::Error::last_os_error())
                    }
                    _ => Ok(()),
                }
            });
        }
        dies_with_us(&mut command, libc::SIGKILL);
        let child = command.spawn().with_context(|| format!("cannot run '{}'", words[0]))?;
        Ok(Process { words: words.join(" "), child, output: output.into(), errors, cpu: None })
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Its end, if it has come.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.cpu.is_none() && is_over(self.pid()) {
            self.cpu = cpu::of_process(self.pid());
        }
        self.child.try_wait().with_context(|| format!("waiting for '{}'", self.words))
    }

    /// CPU time of it and of its children, s; none as long as it runs.
    pub fn cpu(&self) -> Option<f64> {
        self.cpu
    }

    /// Whether it ends by itself within `time`.
    pub fn ends_within(&mut self, time: Duration) -> Result<bool> {
        let deadline = Instant::now() + time;
        while self.ended()?.is_none() {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Returns when it is `ready`, which it must be `patience` after `began`.
    ///
    /// # Errors
    /// If it ends instead, or is not ready in time; with what it said.
    pub fn becomes(
        &mut self,
        began: Instant,
        patience: Duration,
        ready: impl Fn(&Process) -> bool,
    ) -> Result<()> {
        while !ready(self) {
            if self.ended()?.is_some() {
                bail!("'{}' ended at its start; {}", self.words, self.said());
            }
            if began.elapsed() > patience {
                let seconds = patience.as_secs();
                bail!("'{}' is not ready after {seconds} s; {}", self.words, self.said());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: a plain system call. The child is ours; a number that was waited for is not
        // signalled, since `ended` is asked first or the signal comes from `drop`.
        unsafe { libc::kill(self.pid(), signal) };
    }

    /// The last of what it printed, errors first.
    pub fn said(&self) -> String {
        let texts = [&self.errors, &self.output].map(|path| fs::read(path).unwrap_or_default());
        let text = texts.map(|text| String::from_utf8_lossy(&text).trim().to_owned()).join("\n");
        let from = text.char_indices().rev().nth(SAID - 1).map_or(0, |(at, _)| at);
        match text[from..].trim() {
            "" => "it printed nothing".into(),
            said => format!("it said: {said}"),
        }
    }

    /// How it ended badly; none if it ended well.
    pub fn fault(&self, status: ExitStatus) -> Option<String> {
        let how = match (status.code(), status.signal()) {
            (Some(0), _) => return None,
            (Some(code), _) => format!("ended with status {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "ended".into(),
        };
        Some(format!("'{}' {how}; {}", self.words, self.said()))
    }
}

/// Ends programs that run until SIGINT, each within `patience`; returns what went wrong.
///
/// # Errors
/// If one cannot be waited for.
pub fn interrupt_all(processes: &mut [Process], patience: Duration) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut running = Vec::new();
    for process in processes {
        match process.ended()? {
            Some(_) => {
                let (words, said) = (&process.words, process.said());
                faults.push(format!("'{words}' ended during the run; {said}"));
            }
            None => {
                process.signal(libc::SIGINT);
                running.push(process);
            }
        }
    }
    for process in running {
        if !process.ends_within(patience)? {
            let seconds = patience.as_secs();
            faults.push(format!("'{}' did not end within {seconds} s", process.words));
        } else if let Some(status) = process.ended()? {
            faults.extend(process.fault(status));
        }
    }
    Ok(faults)
}

/// Whether a child of ours has ended; it stays to be waited for.
fn is_over(pid: i32) -> bool {
    // SAFETY: a siginfo of zeroes is a valid one, and the kernel fills it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, pid as libc::id_t, &mut info, options) == 0
            && info.si_pid() == pid
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        for path in [&self.output, &self.errors] {
            if fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// `iperf-x.client.txt` → `iperf-x.client.err`.
fn beside(output: &Path) -> PathBuf {
    output.with_extension("err")
}

/// What `command` starts gets `signal` when this process dies. It must be started by a thread that
/// lives as long: the kernel means the thread.
pub fn dies_with_us(command: &mut Command, signal: i32) {
    let parent = std::process::id() as i32;
    let die = move || {
        // SAFETY: plain system calls.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() != parent {
                libc::_exit(1);
            }
        }
        Ok(())
    };
    // SAFETY: only system calls that may be made between fork and exec.
    unsafe { command.pre_exec(die) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, directory: &Path) -> Process {
        let words = ["sh", "-c", script].map(str::to_owned);
        Process::start(None, &words, &directory.join("sh.txt")).unwrap()
    }

    #[test]
    fn a_program_that_fails_is_told_with_what_it_said() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = sh("echo out; echo no such thing >&2; exit 3", directory.path());
        assert!(process.ends_within(Duration::from_secs(10)).unwrap());
        let status = process.ended().unwrap().unwrap();
        let fault = process.fault(status).unwrap();
        assert!(fault.contains("ended with status 3"), "{fault}");
        assert!(fault.contains("no such thing") && fault.contains("out"), "{fault}");
    }

    #[test]
    fn the_cpu_time_of_a_program_is_known_at_its_end_with_its_childrens() {
        let directory = tempfile::tempdir().unwrap();
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let mut process = sh(&format!("sh -c '{busy}'; {busy}"), directory.path());
        assert!(process.cpu().is_none());
        assert!(process.ends_within(Duration::from_secs(60)).unwrap());
        assert!(process.cpu() > Some(0.01), "{:?}", process.cpu());
    }

    #[test]
    fn a_program_that_hangs_is_gone_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = sh("exec sleep 600", directory.path());
        assert!(!process.ends_within(Duration::from_millis(50)).unwrap());
        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn long_output_is_cut_at_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let mut process = sh("yes ö | head -2000; echo the end", directory.path());
        assert!(process.ends_within(Duration::from_secs(10)).unwrap());
        let said = process.said();
        assert!(said.ends_with("the end") && said.chars().count() < 700, "{said}");
    }
}

//! Starting the program under the filter.
//!
//! The child installs the filter on itself, tells the number of its listener, and waits until we have
//! fetched it; only then it becomes the program. It has our terminal, process group, environment,
//! and the signal mask that we were started with.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, bail, ensure};
use transom_output::program;

use crate::errno::{self, Errno};
use crate::filter;
use crate::notify::Listener;
use crate::processes;
use crate::signals::Signals;

/// A child that waits to become the program.
pub struct Waiting {
    pub pid: i32,
    pub listener: Listener,
    pub signals: Signals,
    gate: File,
    report: File,
    name: OsString,
}

/// Why the program could not be started.
#[derive(Debug)]
pub struct NotStarted {
    pub name: OsString,
    pub errno: Errno,
}

impl NotStarted {
    pub fn exit_code(&self) -> u8 {
        program::code_of_refusal(&self.why())
    }

    fn why(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.errno.0)
    }
}

impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "cannot run {}: {}", self.name.display(), self.why())
    }
}

impl std::error::Error for NotStarted {}

/// Forks; to be called before other threads are there and, as a fork copies page tables, before the
/// stack has filled its memory.
pub fn prepare(program: &[OsString], datagrams: bool) -> Result<Waiting> {
    let Some(name) = program.first() else { bail!("no program is named after --") };
    let arguments = program
        .iter()
        .map(|argument| CString::new(argument.as_bytes()))
        .collect::<Result<Vec<_>, _>>()
        .context("an argument of the program has a zero byte")?;
    let release = kernel_release();
    if is_older(&release, (5, 14)) {
        bail!("this kernel is {release}; answering socket calls needs Linux 5.14 or newer");
    }
    let filter = filter::program(datagrams);
    let signals = Signals::take().context("taking over signals")?;
    // Orphans of the program stay our descendants: `pidfd_getfd` asks for that under Yama.
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    let (gate_read, gate_write) = pipe().context("making a pipe")?;
    let (report_read, report_write) = pipe().context("making a pipe")?;
    // SAFETY: the child makes only system calls until it becomes the program.
    let pid = Errno::check(unsafe { libc::fork() }.into()).context("fork")? as i32;
    if pid == 0 {
        drop((gate_write, report_read));
        become_program(&arguments, &filter, &signals, gate_read, report_write);
    }
    drop((gate_read, report_write));
    allow_many_descriptors();
    let mut report = File::from(report_read);
    let listener = fetch_listener(pid, &mut report)?;
    let gate = File::from(gate_write);
    Ok(Waiting { pid, listener, signals, gate, report, name: name.clone() })
}

impl Waiting {
    /// Lets the child become the program. Returns when it has.
    pub fn start(mut self) -> Result<(i32, Listener, Signals)> {
        // As an error of a pipe, it would be taken for that of a reader who has gone.
        ensure!(self.gate.write_all(&[1]).is_ok(), "the program was killed before it began");
        let mut bytes = [0; 4];
        // The pipe closes when the program begins.
        match self.report.read_exact(&mut bytes) {
            Err(_) => Ok((self.pid, self.listener, self.signals)),
            Ok(()) => {
                let errno = Errno(i32::from_ne_bytes(bytes));
                Err(NotStarted { name: self.name, errno }.into())
            }
        }
    }
}

fn fetch_listener(pid: i32, report: &mut File) -> Result<Listener> {
    let mut bytes = [0; 4];
    report.read_exact(&mut bytes).context("the child ended before its filter stood")?;
    let number = i32::from_ne_bytes(bytes);
    if number < 0 {
        let errno = Errno(-number);
        let remedy = match errno.0 {
            libc::EINVAL | libc::ENOSYS => {
                "this kernel needs CONFIG_SECCOMP_FILTER, Linux 5.14 or newer"
            }
            libc::EBUSY => {
                "the program that started us already answers system calls (one supervisor a program)"
            }
            _ => "is seccomp forbidden here (a container's profile)?",
        };
        bail!("installing the seccomp filter: {errno}; {remedy}");
    }
    let fetched = processes::open(pid).and_then(|process| processes::get(&process, number));
    let listener = fetched.context(
        "fetching the listener from the child (pidfd_getfd): forbidden by the kernel's \
         ptrace scope (kernel.yama.ptrace_scope must be 0 or 1) or by a container's profile?",
    )?;
    Ok(Listener::new(listener))
}

/// The child's side: never returns.
fn become_program(
    arguments: &[CString],
    filter: &[libc::sock_filter],
    signals: &Signals,
    gate: OwnedFd,
    report: OwnedFd,
) -> ! {
    let number = match install(filter) {
        Ok(listener) => listener,
        Err(errno) => -errno.0,
    };
    let errno = 'failed: {
        if write_int(&report, number) && number >= 0 && opened(&gate) {
            signals.give_back();
            let mut pointers: Vec<*const libc::c_char> =
                arguments.iter().map(|argument| argument.as_ptr()).collect();
            pointers.push(std::ptr::null());
            // SAFETY: strings and array end in zero and live until the program has begun.
            unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
            break 'failed Errno::last();
        }
        Errno(libc::EIO)
    };
    write_int(&report, errno.0);
    // SAFETY: ends this process at once, without the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

/// The number of the listener. Without `CAP_SYS_ADMIN` programs that would gain rights at `exec`
/// (set-user-ID) no longer do.
fn install(filter: &[libc::sock_filter]) -> errno::Result<RawFd> {
    let mut filter = filter.to_vec();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program points to `filter`, which lives across the call.
    let try_once = || unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &program,
        )
    };
    match Errno::check(try_once()) {
        Err(Errno(libc::EACCES)) => {
            // SAFETY: no pointers.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            Errno::check(try_once()).map(|fd| fd as RawFd)
        }
        other => other.map(|fd| fd as RawFd),
    }
}

/// Each socket of the program takes one or two of our descriptors, of all its processes together.
fn allow_many_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives across both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// `uname -r`.
fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

/// A release that begins with no numbers is not judged.
fn is_older(release: &str, least: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < least,
        _ => false,
    }
}

fn write_int(pipe: &OwnedFd, value: i32) -> bool {
    let bytes = value.to_ne_bytes();
    // SAFETY: pointer and length are those of `bytes`.
    unsafe { libc::write(pipe.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) == 4 }
}

/// Waits for one byte; `false` when the supervisor has gone.
fn opened(gate: &OwnedFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: room for the one byte that is asked for.
    unsafe { libc::read(gate.as_raw_fd(), (&raw mut byte).cast(), 1) == 1 }
}

fn pipe() -> errno::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors, which are then ours.
    unsafe {
        Errno::check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC).into())?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert!(is_older("5.4.0-generic", (5, 14)));
        assert!(is_older("4.19.99", (5, 14)));
        assert!(!is_older("5.14.0", (5, 14)));
        assert!(!is_older("6.1.43-android14-11", (5, 14)));
        assert!(!is_older("unheard-of", (5, 14)));
    }
}

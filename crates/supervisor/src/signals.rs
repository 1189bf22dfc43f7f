//! Signals, stopping and ending: the supervisor is to be seen as if it were the program.

use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::ptr;

use crate::errno::{Errno, Result};
use crate::system;

/// What somebody may send to us and mean the program. Faults stay ours, `SIGKILL` and `SIGSTOP`
/// nobody can take.
pub const FORWARDED: [i32; 12] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGWINCH,
];

/// Signals come through a descriptor while this lives.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
    /// What was to be done with `SIGCHLD`: who ignores it gets no exit status of its children.
    child_before: libc::sighandler_t,
}

/// How the program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    /// Killed by this signal.
    Signal(i32),
}

/// What one look at the children has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    Ended { pid: i32, exit: Exit },
    Stopped { pid: i32, signal: i32 },
}

impl Signals {
    pub fn take() -> Result<Self> {
        // SAFETY: the sets are initialized by the first calls and live across the others.
        unsafe {
            let mut wanted: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut wanted);
            for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&mut wanted, signal);
            }
            Errno::check(libc::sigprocmask(libc::SIG_BLOCK, &wanted, &mut before).into())?;
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let fd = system::owned(libc::signalfd(-1, &wanted, flags).into())?;
            let child_before = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            Ok(Self { fd, before, child_before })
        }
    }

    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// In the child: the mask as we found it. Rust's runtime ignores `SIGPIPE`; programs expect not.
    pub fn give_back(&self) {
        // SAFETY: the set was filled by the kernel.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::signal(libc::SIGCHLD, self.child_before);
            libc::sigprocmask(libc::SIG_SETMASK, &self.before, ptr::null_mut());
        }
    }

    /// The next signal, and whether a process sent it to us alone. What the terminal sends goes to
    /// the whole process group, so the program has it already.
    pub fn next(&self) -> Option<(i32, bool)> {
        // SAFETY: all zeros is a structure that the kernel then fills; length as told.
        unsafe {
            let mut info: libc::signalfd_siginfo = mem::zeroed();
            let size = mem::size_of_val(&info);
            let got = libc::read(self.raw(), (&raw mut info).cast(), size);
            (got == size as isize).then_some((info.ssi_signo as i32, info.ssi_code <= 0))
        }
    }
}

/// All children that have ended or stopped since.
pub fn children() -> Vec<Child> {
    let mut seen = Vec::new();
    loop {
        let mut status = 0;
        // SAFETY: room for one status.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::WUNTRACED) };
        if pid <= 0 {
            return seen;
        }
        if libc::WIFEXITED(status) {
            let exit = Exit::Code(libc::WEXITSTATUS(status) as u8);
            seen.push(Child::Ended { pid, exit });
        } else if libc::WIFSIGNALED(status) {
            let exit = Exit::Signal(libc::WTERMSIG(status));
            seen.push(Child::Ended { pid, exit });
        } else if libc::WIFSTOPPED(status) {
            seen.push(Child::Stopped { pid, signal: libc::WSTOPSIG(status) });
        }
    }
}

pub fn send(pid: i32, signal: i32) {
    // SAFETY: no pointers. A process that has gone needs no signal.
    unsafe { libc::kill(pid, signal) };
}

/// Whether a signal of the terminal for us reaches this process, too.
pub fn is_in_our_group(pid: i32) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::getpgid(pid) == libc::getpgrp() }
}

/// Stops us as the terminal stopped the program, so that the shell takes the terminal back; returns
/// when somebody continues us.
pub fn stop() {
    // SAFETY: no pointers.
    unsafe { libc::raise(libc::SIGSTOP) };
}

impl Exit {
    /// Ends us as the program has ended; returns only what `main` is to return.
    pub fn imitate(self) -> ExitCode {
        match self {
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(signal) => {
                let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                // SAFETY: structures live across the calls; the program has left its own core.
                unsafe {
                    libc::setrlimit(libc::RLIMIT_CORE, &no_core);
                    libc::signal(signal, libc::SIG_DFL);
                    let mut only: libc::sigset_t = mem::zeroed();
                    libc::sigemptyset(&mut only);
                    libc::sigaddset(&mut only, signal);
                    libc::raise(signal);
                    libc::sigprocmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
                }
                ExitCode::from(128u8.saturating_add(signal as u8))
            }
        }
    }
}

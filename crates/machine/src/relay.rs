//! Standing in front of a program: what is sent to us alone is meant for it.
//!
//! What the terminal sends goes to the whole process group, so the program has it already.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::io::{Error, ErrorKind, Result};
use std::mem;
use std::process::{Child, ExitStatus};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// 0: there is none, or it has ended.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// One bit for each signal that the program has not got.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// From its beginning signals end nothing here; they go to the program. One a process.
pub struct Relay(());

impl Relay {
    /// To be begun before the program, which has the usual actions of these signals. What we were
    /// started with as ignored (`nohup`), it ignores, too.
    ///
    /// # Errors
    /// When the kernel lets no handler in.
    pub fn begin(passed_on: &[i32]) -> Result<Relay> {
        PROGRAM.store(0, Ordering::SeqCst);
        KEPT.store(0, Ordering::SeqCst);
        for &signal in passed_on {
            if action(signal)?.sa_sigaction != libc::SIG_IGN {
                handle(signal, pass_on as *const () as libc::sighandler_t)?;
            }
        }
        handle(libc::SIGCHLD, stop_with_it as *const () as libc::sighandler_t)?;
        Ok(Relay(()))
    }

    /// From now on they go to this one, and those that have come before it was there.
    pub fn to(&self, program: &Child) {
        PROGRAM.store(program.id() as i32, Ordering::SeqCst);
        hand_out();
    }

    /// Waits for its end. Then its number may come to mean another process.
    ///
    /// # Errors
    /// It is no child of ours any more.
    pub fn wait(&self, program: &mut Child) -> Result<ExitStatus> {
        // SAFETY: all zeros is a structure that the kernel fills; with `WNOWAIT` the end stays there.
        unsafe {
            let mut info: libc::siginfo_t = mem::zeroed();
            let how = libc::WEXITED | libc::WNOWAIT;
            while libc::waitid(libc::P_PID, program.id(), &mut info, how) != 0
                && Error::last_os_error().kind() == ErrorKind::Interrupted
            {}
        }
        PROGRAM.store(0, Ordering::SeqCst);
        program.wait()
    }
}

fn action(signal: i32) -> Result<libc::sigaction> {
    // SAFETY: plain numbers, which may all be zero; the call only fills them in.
    unsafe {
        let mut found: libc::sigaction = mem::zeroed();
        match libc::sigaction(signal, ptr::null(), &mut found) {
            0 => Ok(found),
            _ => Err(Error::last_os_error()),
        }
    }
}

fn handle(signal: i32, handler: libc::sighandler_t) -> Result<()> {
    // SAFETY: the handlers make only calls that signal-safety(7) allows, and keep `errno`.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        match libc::sigaction(signal, &action, ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }
}

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a whole structure with `SA_SIGINFO`.
    let from_a_process = unsafe { (*info).si_code } <= 0;
    if from_a_process {
        KEPT.fetch_or(1 << signal, Ordering::SeqCst);
        keeping_errno(hand_out);
    }
}

/// Whoever was interrupted may be about to look at it.
fn keeping_errno(handle: impl FnOnce()) {
    // SAFETY: it is there for every thread.
    let errno = unsafe { *libc::__errno_location() };
    handle();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn hand_out() {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program == 0 {
        return;
    }
    let kept = KEPT.swap(0, Ordering::SeqCst);
    for signal in (1..64).filter(|signal| kept >> signal & 1 != 0) {
        // SAFETY: no pointers; the program has not been waited for, so its number is its own.
        unsafe { libc::kill(program, signal) };
    }
}

/// When the program stops we stop, so that the shell takes the terminal back.
extern "C" fn stop_with_it(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let program = PROGRAM.load(Ordering::SeqCst);
    if program == 0 {
        return;
    }
    // SAFETY: all zeros is a structure that the kernel fills; without `WEXITED` the program's end
    // stays there for whoever waits for it.
    keeping_errno(|| unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let how = libc::WSTOPPED | libc::WNOHANG;
        let seen = libc::waitid(libc::P_PID, program as u32, &mut info, how) == 0;
        if seen && info.si_pid() == program {
            libc::raise(libc::SIGSTOP);
        }
    });
}

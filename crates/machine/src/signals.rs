//! When to stop: SIGINT, SIGTERM or SIGHUP came, and what was begun is ended in order.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

#[derive(Clone, Debug, Default)]
pub struct Signals {
    interrupted: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Signals {
    /// From now on signals are noted; a second one ends the process at once.
    ///
    /// # Errors
    /// When the kernel lets no handler in.
    pub fn catch() -> Result<Signals> {
        let signals = Signals::default();
        for signal in ending().iter().copied().chain([SIGINT]) {
            // Asked before the first one is noted, so only the second meets it.
            for noted in [&signals.interrupted, &signals.ended] {
                flag::register_conditional_shutdown(signal, 128 + signal, noted.clone())?;
            }
        }
        signals.note(ending())
    }

    /// The same, but a second one changes nothing: for what takes a moment to
    /// take down and must not be left half up.
    ///
    /// # Errors
    /// As [`Signals::catch`].
    pub fn catch_all() -> Result<Signals> {
        Signals::default().note(ending())
    }

    /// The same for a program in the background, to which SIGHUP means something else
    /// ([`Signals::asked_by`]).
    ///
    /// # Errors
    /// As [`Signals::catch`].
    pub fn catch_all_but_hangup() -> Result<Signals> {
        Signals::default().note(&[SIGTERM])
    }

    fn note(self, ends: &[i32]) -> Result<Signals> {
        flag::register(SIGINT, self.interrupted.clone())?;
        for &signal in ends {
            flag::register(signal, self.ended.clone())?;
        }
        Ok(self)
    }

    /// Becomes true when a signal comes that ends nothing, such as SIGUSR1.
    ///
    /// # Errors
    /// When the kernel lets no handler in.
    pub fn asked_by(signal: i32) -> Result<Arc<AtomicBool>> {
        let came = Arc::new(AtomicBool::new(false));
        flag::register(signal, came.clone())?;
        Ok(came)
    }

    /// Whether any came.
    pub fn came(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed) || self.must_end()
    }

    /// Whether one came that is not Ctrl-C, which may be meant for a program in the terminal.
    pub fn must_end(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// What ends a program beside Ctrl-C. One that was started with SIGHUP ignored, as by `nohup`, is to
/// outlive its terminal. SIGINT is noted all the same: a shell ignores it for what it starts in the
/// background, which is to be interrupted nevertheless.
fn ending() -> &'static [i32] {
    if is_ignored(SIGHUP) { &[SIGTERM] } else { &[SIGTERM, SIGHUP] }
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: plain numbers, which may all be zero; the call only fills them in.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut found) == 0
            && found.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::low_level::raise;

    #[test]
    fn each_signal_is_noted_and_a_second_one_changes_nothing() {
        // These tests may run under nohup themselves.
        // SAFETY: no handler of this process goes.
        unsafe { libc::signal(SIGHUP, libc::SIG_DFL) };
        let signals = Signals::catch_all().expect("handlers");
        assert!(!signals.came());
        for _ in 0..2 {
            raise(SIGINT).expect("a signal");
            assert!(signals.came() && !signals.must_end());
        }
        raise(SIGHUP).expect("a signal");
        assert!(signals.must_end());
    }
}

//! When to stop: SIGINT, SIGTERM or SIGHUP; a second one ends us at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;

#[derive(Clone)]
pub struct Signals(Arc<AtomicBool>);

impl Signals {
    pub fn catch() -> Result<Signals> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, flag.clone())?;
            signal_hook::flag::register(signal, flag.clone())?;
        }
        Ok(Signals(flag))
    }

    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

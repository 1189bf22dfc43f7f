//! Starting the emulator's thread, looking at it, and stopping it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::event::{EventfdFlags, eventfd};

use crate::log::Log;
use crate::plan::Plan;
use crate::thread::{Carrier, Wishes};

/// The emulator while it runs. Dropping it stops the thread too, and closes the TAPs.
#[derive(Debug)]
pub struct Running {
    stop: Arc<OwnedFd>,
    bell: Arc<OwnedFd>,
    wishes: mpsc::Sender<mpsc::Sender<()>>,
    shown: Arc<Mutex<Log>>,
    thread: Option<JoinHandle<Result<Log>>>,
}

/// Carries packets between the hosts behind `taps`: one TAP device per port of the plan, in its
/// order; for a cellular host a TUN device ([`transom_link::tun::open`]).
///
/// Errors: a plan that [`Plan::check`] refuses, another number of TAPs than ports, no descriptors
/// or threads left.
pub fn start(plan: &Plan, taps: Vec<OwnedFd>) -> Result<Running> {
    plan.check()?;
    ensure!(
        taps.len() == plan.ports.len(),
        "{} interfaces for {} hosts",
        taps.len(),
        plan.ports.len()
    );
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let bell = || eventfd(0, flags).context("making an event descriptor").map(Arc::new);
    let (stop, begin) = (bell()?, bell()?);
    let (wishes, waiting) = mpsc::channel();
    let shown = Arc::new(Mutex::new(Log::default()));
    let (its_plan, its_stop, its_shown) = (plan.clone(), stop.clone(), shown.clone());
    let its_wishes = Wishes { bell: begin.clone(), waiting };
    // Frames are shared inside the thread alone, so the network is made there.
    let body = move || Carrier::new(its_plan, taps, its_stop, its_wishes, its_shown)?.run();
    let thread = std::thread::Builder::new()
        .name("emulator".to_owned())
        .spawn(body)
        .context("starting the emulator's thread")?;
    Ok(Running { stop, bell: begin, wishes, shown, thread: Some(thread) })
}

impl Running {
    /// What was measured so far, at most a tenth of a second old, without queue lengths.
    pub fn snapshot(&self) -> Log {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins anew, with the devices as they are: from now on it is time 0 for links that change,
    /// chance, queues and the log, as if it had been started here. What is inside is dropped.
    ///
    /// Errors: the thread has ended by itself.
    pub fn begin_anew(&self) -> Result<()> {
        let (tell, told) = mpsc::channel();
        let ended = "the emulator has ended";
        self.wishes.send(tell).ok().context(ended)?;
        rustix::io::write(&*self.bell, &1_u64.to_ne_bytes()).context("waking the emulator")?;
        told.recv().context(ended)
    }

    /// False once the thread has ended by itself, after an error, which `stop` then returns.
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the thread; what is still inside is dropped (see [`crate::log::Totals::inside`]).
    pub fn stop(mut self) -> Result<Log> {
        self.end()?
    }

    fn end(&mut self) -> Result<Result<Log>> {
        let thread = self.thread.take().context("the emulator was stopped already")?;
        rustix::io::write(&*self.stop, &1_u64.to_ne_bytes()).context("stopping the emulator")?;
        thread.join().map_err(|_| anyhow!("the emulator's thread panicked"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // There is no caller left to return an error to.
            let _ = self.end();
        }
    }
}

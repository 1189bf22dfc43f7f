//! The one loop: calls of the program, its ends of the pairs, signals, and the stack.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::errno::Errno;
use crate::launch::Waiting;
use crate::processes;
use crate::signals::{self, Child, Exit, Signals};
use crate::stack::{PollFd, SocketId};
use crate::status;
use crate::supervisor::{MOST_KEYS, Supervisor};
use transom_output::note;

/// What an event of the loop's epoll set is about; smaller numbers are keys of sockets.
const CALLS: u64 = MOST_KEYS + 1;
const SIGNALS: u64 = MOST_KEYS + 2;
const STACK: u64 = MOST_KEYS + 3;
const CLOSINGS: u64 = MOST_KEYS + 4;

/// How long after the program's end the peers of its connections may take nothing more of what it has
/// sent. It is given up then, where a kernel would go on for minutes.
const PATIENCE: Duration = Duration::from_secs(10);
/// An acknowledgment alone does not wake us.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// How often the stack may turn before the loop looks at the outside again.
const TURNS: usize = 16;

struct Loop<'s, 'o> {
    supervisor: Supervisor<'s>,
    signals: Signals,
    options: &'o crate::Options,
    program: i32,
    exit: Option<Exit>,
    /// No task is left that the filter applies to.
    all_gone: bool,
    /// Somebody wants us to end at once.
    hurried: bool,
    /// Processes of the program that ran when somebody wanted us to end.
    left_behind: Vec<i32>,
    polled: Vec<PollFd>,
    ready: Vec<SocketId>,
    next_status: Instant,
}

/// Serves the program until it and all its descendants have ended.
pub fn serve(
    stack: &mut dyn crate::Stack,
    options: &crate::Options,
    waiting: Waiting,
) -> Result<Exit> {
    let (program, listener, signals) = waiting.start()?;
    let supervisor = Supervisor::new(stack, options, listener).context("making an epoll set")?;
    let epoll = &supervisor.epoll;
    epoll.add(supervisor.listener.raw(), libc::EPOLLIN as u32, CALLS)?;
    epoll.add(signals.raw(), libc::EPOLLIN as u32, SIGNALS)?;
    epoll.add(supervisor.closings.raw(), libc::EPOLLIN as u32, CLOSINGS)?;
    let mut this = Loop {
        supervisor,
        signals,
        options,
        program,
        exit: None,
        all_gone: false,
        hurried: false,
        left_behind: Vec::new(),
        polled: Vec::new(),
        ready: Vec::new(),
        next_status: Instant::now() + STATUS_EVERY,
    };
    this.until_all_have_ended()?;
    this.until_delivered()?;
    // A child that has ended is seen before the listener hangs up, except under a debugger.
    Ok(this.exit.unwrap_or(Exit::Code(0)))
}

impl Loop<'_, '_> {
    fn until_all_have_ended(&mut self) -> Result<()> {
        while !(self.all_gone && self.exit.is_some()) {
            self.once(None)?;
        }
        Ok(())
    }

    /// What the program has sent before its end still goes out, as after any process's end, however
    /// long it takes, as long as there is some progress.
    fn until_delivered(&mut self) -> Result<()> {
        let mut last = None;
        let mut end = Instant::now() + PATIENCE;
        loop {
            self.run_stack();
            let left = (self.supervisor.undelivered(), self.supervisor.stack.lingering());
            if self.hurried {
                self.leave();
                return Ok(());
            }
            if left.0.connections + left.1.connections == 0 {
                return Ok(());
            }
            let now = Instant::now();
            if last != Some(left) {
                last = Some(left);
                end = now + PATIENCE;
            }
            if now >= end {
                note!(
                    "transom: what the program has sent is not delivered, and nothing of it was \
                     taken for {} s: given up",
                    PATIENCE.as_secs()
                );
                return Ok(());
            }
            self.once(Some(LOOK_EVERY.min(end - now)))?;
        }
    }

    /// Somebody wants us to end: no peer is to wait for what nobody will answer.
    fn leave(&mut self) {
        self.supervisor.abandon();
        self.run_stack();
        if !self.left_behind.is_empty() {
            let left: Vec<String> = self.left_behind.iter().map(i32::to_string).collect();
            note!(
                "transom run: ended by a signal; processes of the program still run, without \
                 network: {}",
                left.join(", ")
            );
        }
    }

    fn once(&mut self, limit: Option<Duration>) -> Result<()> {
        self.run_stack();
        self.watch_stack()?;
        let timeout = self.timeout(limit);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let got = self.supervisor.epoll.wait(&mut events, timeout).context("epoll_pwait2")?;
        for event in &events[..got] {
            let (what, bits) = (event.u64, event.events);
            match what {
                CALLS => self.call(bits)?,
                SIGNALS => self.take_signals(),
                STACK => {}
                CLOSINGS => self.supervisor.ends_closed(),
                key => self.supervisor.pair_changed(key, bits),
            }
        }
        for key in std::mem::take(&mut self.supervisor.again) {
            self.supervisor.pair_changed(key, 0);
        }
        if self.options.status && Instant::now() >= self.next_status {
            self.next_status = Instant::now() + STATUS_EVERY;
            status::print(&mut self.supervisor);
        }
        Ok(())
    }

    /// One call; more make the listener readable again.
    fn call(&mut self, bits: u32) -> Result<()> {
        if bits & libc::EPOLLIN as u32 != 0 {
            match self.supervisor.listener.receive() {
                Ok(call) => self.supervisor.serve(&call),
                // A signal was quicker.
                Err(Errno(libc::ENOENT | libc::EINTR)) => {}
                Err(errno) => return Err(errno).context("receiving a system call of the program"),
            }
        } else if bits & libc::EPOLLHUP as u32 != 0 {
            self.all_gone = true;
            self.supervisor.epoll.remove(self.supervisor.listener.raw())?;
            // Should the last child's signal be on its way.
            self.reap();
        }
        Ok(())
    }

    fn run_stack(&mut self) {
        for _ in 0..TURNS {
            self.supervisor.stack.turn(&mut self.ready);
            if self.ready.is_empty() {
                return;
            }
            for id in std::mem::take(&mut self.ready) {
                self.supervisor.stack_changed(id);
            }
        }
    }

    /// Brings the descriptors that the stack waits for up to date in the epoll set.
    fn watch_stack(&mut self) -> Result<()> {
        let wanted = self.supervisor.stack.poll_fds();
        if wanted == self.polled {
            return Ok(());
        }
        let wanted = wanted.to_vec();
        let epoll = &self.supervisor.epoll;
        let had = |fds: &[PollFd], fd: RawFd| fds.iter().any(|one| one.fd == fd);
        for gone in self.polled.iter().filter(|one| !had(&wanted, one.fd)) {
            // Closed already, if the stack has closed it.
            let _ = epoll.remove(gone.fd);
        }
        for one in &wanted {
            // One that was closed and opened again under the same number is new to the set.
            if !had(&self.polled, one.fd) || epoll.change(one.fd, one.events, STACK).is_err() {
                epoll.add(one.fd, one.events, STACK).context("waiting for the stack's NICs")?;
            }
        }
        self.polled = wanted;
        Ok(())
    }

    fn timeout(&mut self, limit: Option<Duration>) -> Option<Duration> {
        if !self.supervisor.again.is_empty() || !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let call = self.supervisor.expire(now).map(|at| at.saturating_duration_since(now));
        let status = self.options.status.then(|| self.next_status.saturating_duration_since(now));
        let stack = self.supervisor.stack.deadline();
        [limit, call, status, stack].into_iter().flatten().min()
    }

    fn take_signals(&mut self) {
        while let Some((signal, to_us_alone)) = self.signals.next() {
            if signal == libc::SIGCHLD {
                self.reap();
            } else if self.exit.is_some() {
                // Only descendants are left, or deliveries.
                if matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP) {
                    self.hurry(to_us_alone);
                }
            } else if to_us_alone {
                signals::send(self.program, signal);
            }
        }
    }

    fn hurry(&mut self, to_us_alone: bool) {
        self.hurried = true;
        if !std::mem::replace(&mut self.all_gone, true) {
            self.reap();
            // What the terminal sends has reached the others of our group as well: they are ending.
            let stays = |pid: &i32| to_us_alone || !signals::is_in_our_group(*pid);
            self.left_behind = processes::left_of_program().into_iter().filter(stays).collect();
        }
    }

    fn reap(&mut self) {
        for child in signals::children() {
            match child {
                Child::Ended { pid, exit } if pid == self.program => self.exit = Some(exit),
                Child::Stopped { pid, signal }
                    if pid == self.program
                        && matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) =>
                {
                    signals::stop();
                }
                // An orphan that we have inherited.
                _ => {}
            }
        }
    }
}

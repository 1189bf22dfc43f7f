//! Runs an unmodified program on another network stack.
//!
//! The program's socket calls come to us through seccomp user notification; it gets real
//! descriptors, one end of a pair of sockets each, whose other end is pumped into and out of one of
//! the stack. `docs/run.md` says what works and what does not.
//!
//! ```no_run
//! use clap::Parser;
//! use transom_supervisor::{Arguments, HostStack, prepare, run};
//!
//! fn main() -> anyhow::Result<std::process::ExitCode> {
//!     let arguments = Arguments::parse();
//!     arguments.refuse_library_options()?;
//!     // The fork comes before the stack has filled its memory.
//!     let waiting = prepare(&arguments.program, &arguments.options())?;
//!     let exit = run(&mut HostStack::new()?, &arguments.options(), waiting)?;
//!     Ok(exit.imitate())
//! }
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod address;
mod buffers;
mod calls;
mod closings;
mod command;
mod datagram;
mod errno;
mod event_loop;
mod filter;
#[cfg(test)]
mod forks;
mod host;
mod launch;
mod loopback;
mod memory;
mod message;
mod namespace;
mod notify;
mod pair;
mod processes;
mod rights;
mod signals;
mod socket;
mod stack;
mod status;
mod stream;
mod supervisor;
mod system;
pub mod tcp_info;
mod trace;
mod unheard;
mod watch;

use std::ffi::OsString;

pub use address::Address;
pub use command::{Arguments, EXAMPLES, StackName, Sysctl, Udp, check_stack};
pub use errno::{Errno, Result};
pub use host::HostStack;
pub use launch::{NotStarted, Waiting};
pub use signals::{Exit, FORWARDED};
pub use stack::{PathStatus, PollFd, Received, SocketId, Stack, Undelivered};

/// What `run` needs to know beside the program.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// UDP and other datagram sockets are the stack's too, not the host's.
    pub datagrams: bool,
    /// TCP sockets become MPTCP sockets.
    pub mptcp: bool,
    /// `TCP_CONGESTION` of each new TCP socket.
    pub congestion: Option<String>,
    /// Print each answered call on standard error.
    pub trace: bool,
    /// Print connections and paths on standard error, every second.
    pub status: bool,
}

/// Forks the process that will become the program, with its filter in place. Signals come to us from
/// now on. Dropping what it gives ends that process before the program has begun.
pub fn prepare(program: &[OsString], options: &Options) -> anyhow::Result<Waiting> {
    launch::prepare(program, options.datagrams)
}

/// Runs the program on `stack`, until it and all its descendants have ended and what they have sent
/// is delivered. A program that cannot be started is a `NotStarted`.
pub fn run(stack: &mut dyn Stack, options: &Options, program: Waiting) -> anyhow::Result<Exit> {
    check_stack(stack, options)?;
    event_loop::serve(stack, options, program)
}

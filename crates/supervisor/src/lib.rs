//! Runs an unmodified program on another network stack.
//!
//! The program's socket calls come to us through seccomp user notification; it gets real
//! descriptors, one end of a socket pair each, whose other end is pumped into and out of a socket of
//! the stack. See docs/run.md.

mod address;
mod errno;
mod stack;

pub use address::Address;
pub use errno::{Errno, Result};
pub use stack::{PathStatus, PollFd, Received, SocketId, Stack};

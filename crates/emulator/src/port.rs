//! Frames from and to the TAP and TUN devices, the ends of the emulated network in the hosts.

use std::os::fd::AsFd;

use rustix::io::{Errno, read, write};

/// What reading from a TAP gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Frame(usize),
    Nothing,
    /// The interface is no more, or will never give anything again.
    Vanished,
}

pub(crate) fn take(tap: impl AsFd, buffer: &mut [u8]) -> Taken {
    match read(tap, buffer) {
        Ok(length) => Taken::Frame(length),
        Err(Errno::AGAIN | Errno::INTR) => Taken::Nothing,
        Err(_) => Taken::Vanished,
    }
}

/// What became of a frame handed to a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Taken,
    /// Interface down, queue full, no memory, or not a frame that the kernel takes.
    Refused,
    Vanished,
}

pub(crate) fn give(tap: impl AsFd, frame: &[u8]) -> Given {
    loop {
        return match write(tap.as_fd(), frame) {
            Ok(_) => Given::Taken,
            Err(Errno::INTR) => continue,
            Err(Errno::BADFD | Errno::BADF) => Given::Vanished,
            Err(_) => Given::Refused,
        };
    }
}

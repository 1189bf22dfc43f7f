//! The end of descriptors of the program that have no peer to see it: UDP sockets.
//!
//! inotify tells when the last copy of a descriptor is closed, and holds none itself.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::errno::{Errno, Result};
use crate::system;

/// `struct inotify_event` without a name, as of everything that is no directory.
const EVENT_BYTES: usize = 16;

/// The watch of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watched(i32);

pub struct Closings {
    inotify: OwnedFd,
    keys: HashMap<Watched, u64>,
}

impl Closings {
    pub fn new() -> Result<Self> {
        // SAFETY: no pointers.
        let inotify = unsafe { libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC) };
        Ok(Self { inotify: system::owned(inotify.into())?, keys: HashMap::new() })
    }

    pub fn raw(&self) -> RawFd {
        self.inotify.as_raw_fd()
    }

    /// `ENOSPC`: the user has as many watches as the host allows.
    pub fn add(&mut self, theirs: BorrowedFd, key: u64) -> Result<Watched> {
        let path = CString::new(format!("/proc/self/fd/{}", theirs.as_raw_fd()));
        let path = path.expect("a path without a zero");
        // SAFETY: the path ends in a zero.
        let added = unsafe { libc::inotify_add_watch(self.raw(), path.as_ptr(), libc::IN_CLOSE) };
        let watched = Watched(Errno::check(added.into())? as i32);
        self.keys.insert(watched, key);
        Ok(watched)
    }

    pub fn forget(&mut self, watched: Watched) {
        self.keys.remove(&watched);
        // SAFETY: no pointers.
        unsafe { libc::inotify_rm_watch(self.raw(), watched.0) };
    }

    /// Which have been closed since the last time.
    pub fn take(&mut self) -> Vec<u64> {
        let mut closed = Vec::new();
        let mut events = [0; 64 * EVENT_BYTES];
        while let Ok(got) = system::read(self.inotify.as_fd(), &mut events)
            && got > 0
        {
            for event in events[..got].chunks_exact(EVENT_BYTES) {
                let watch = i32::from_ne_bytes([event[0], event[1], event[2], event[3]]);
                closed.extend(self.keys.get(&Watched(watch)));
            }
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    #[test]
    fn the_last_copy_s_end_is_told_and_no_other_s() {
        let _no_child = forks::none();
        let mut closings = Closings::new().unwrap();
        let (one, two) = (system::udp_socket().unwrap(), system::udp_socket().unwrap());
        let copy = one.try_clone().unwrap();
        let watched = closings.add(one.as_fd(), 1).unwrap();
        closings.add(two.as_fd(), 2).unwrap();
        drop(one);
        assert!(closings.take().is_empty());
        drop(copy);
        assert_eq!(closings.take(), [1]);
        closings.forget(watched);
        drop(two);
        assert_eq!(closings.take(), [2]);
    }
}

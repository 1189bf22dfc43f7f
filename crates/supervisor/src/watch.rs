//! Whether the program still has a descriptor, without holding one ourselves.
//!
//! When our end of a pair is closed (a reset), or both directions are shut down, the pair cannot
//! tell when the program closes its end. An epoll set can: it holds no reference to what is in it,
//! and the kernel takes an entry out when the last descriptor goes. `/proc/self/fdinfo` lists what is
//! left.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::errno::Result;
use crate::system::Epoll;

pub struct Watch {
    epoll: Epoll,
    added: usize,
    /// How many there were at the last look.
    found: usize,
}

impl Watch {
    pub fn new() -> Result<Self> {
        Ok(Self { epoll: Epoll::new()?, added: 0, found: 0 })
    }

    /// Begins to watch the program's end of the socket `key`. No events are asked for.
    pub fn add(&mut self, theirs: BorrowedFd, key: u64) {
        if self.epoll.add(theirs.as_raw_fd(), 0, key).is_ok() {
            self.added += 1;
        }
    }

    /// The sockets that somebody still has.
    pub fn alive(&self) -> HashSet<u64> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", self.epoll.raw()));
        info.map(|info| info.lines().filter_map(key_of).collect()).unwrap_or_default()
    }

    /// Time to look what has gone: as many have been added since the last look as there were then.
    pub fn is_crowded(&self) -> bool {
        self.added > self.found.max(64)
    }

    /// The sockets that somebody still has; not crowded any more.
    pub fn look(&mut self) -> HashSet<u64> {
        let alive = self.alive();
        self.added = 0;
        self.found = alive.len();
        alive
    }
}

/// `tfd: 5 events: 18 data: 1f pos:0 ino:… sdev:…`
fn key_of(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "data:");
    words.next()?;
    u64::from_str_radix(words.next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::pair::Pair;

    #[test]
    fn a_descriptor_is_alive_until_its_last_copy_is_closed() {
        let mut watch = Watch::new().unwrap();
        let pair = Pair::open(libc::SOCK_STREAM).unwrap();
        let copy = pair.theirs.try_clone().unwrap();
        watch.add(pair.theirs.as_fd(), 0xabc);
        drop(pair.theirs);
        assert!(watch.alive().contains(&0xabc));
        drop(copy);
        assert!(!watch.alive().contains(&0xabc));
    }
}

//! Whether the program still has a descriptor, without holding one ourselves.
//!
//! When our end of a pair is closed (a reset), or both directions are shut down, the pair cannot
//! tell when the program closes its end. An epoll set can: it holds no reference to what is in it,
//! and the kernel takes an entry out when the last descriptor goes. `/proc/self/fdinfo` lists what is
//! left.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::errno::Result;
use crate::system::{self, Epoll};

pub struct Watch {
    epoll: Epoll,
    /// The kernel knows an entry by its file and the number of the descriptor that it was added by:
    /// all are added by this one, so that they can be taken out again.
    slot: OwnedFd,
    /// In the slot while nothing else is.
    nothing: File,
    added: usize,
    /// How many there were at the last look.
    found: usize,
}

impl Watch {
    pub fn new() -> Result<Self> {
        let nothing = File::open("/dev/null")?;
        let slot = nothing.try_clone()?.into();
        Ok(Self { epoll: Epoll::new()?, slot, nothing, added: 0, found: 0 })
    }

    /// Begins to watch the program's end of the socket `key`. No events are asked for.
    pub fn add(&mut self, theirs: BorrowedFd, key: u64) {
        if self.in_slot(theirs, |epoll, number| epoll.add(number, 0, key)).is_ok() {
            self.added += 1;
        }
    }

    /// One that cannot be watched counts, too: it is to be looked for as soon as the others.
    pub fn miss(&mut self) {
        self.added += 1;
    }

    /// Ends it, though somebody may still have the descriptor.
    pub fn remove(&mut self, theirs: BorrowedFd) {
        if self.in_slot(theirs, Epoll::remove).is_ok() {
            self.added = self.added.saturating_sub(1);
        }
    }

    fn in_slot(
        &mut self,
        theirs: BorrowedFd,
        change: impl FnOnce(&Epoll, i32) -> Result<()>,
    ) -> Result<()> {
        system::put_in_place(theirs, &mut self.slot)?;
        let changed = change(&self.epoll, self.slot.as_raw_fd());
        // No reference to it is to stay.
        system::put_in_place(self.nothing.as_fd(), &mut self.slot)?;
        changed
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
    use super::*;
    use crate::forks;
    use crate::pair::{self, Pair};

    #[test]
    fn a_descriptor_is_alive_until_its_last_copy_is_closed() {
        let _no_child = forks::none();
        let mut watch = Watch::new().unwrap();
        let pair = Pair::open().unwrap();
        let copy = pair.theirs.try_clone().unwrap();
        watch.add(pair.theirs.as_fd(), 0xabc);
        drop(pair.theirs);
        assert!(watch.alive().contains(&0xabc));
        drop(copy);
        assert!(!watch.alive().contains(&0xabc));
    }

    #[test]
    fn what_was_taken_out_is_not_listed_though_somebody_has_it() {
        let _no_child = forks::none();
        let mut watch = Watch::new().unwrap();
        let ends: Vec<_> = (0..3).map(|_| pair::unconnected().unwrap()).collect();
        for (key, end) in ends.iter().enumerate() {
            watch.add(end.as_fd(), key as u64);
        }
        // The program's descriptor comes to us under another number each time.
        watch.remove(ends[1].try_clone().unwrap().as_fd());
        assert_eq!(watch.alive(), HashSet::from([0, 2]));
        drop(ends);
        assert!(watch.alive().is_empty());
    }
}

//! What is known of connections, by cookie, while they are open and for a while after their close:
//! the reset of a program's own close comes after it.

use std::collections::{HashMap, VecDeque};

/// So many connections are known that have closed: the last ones.
const MOST_CLOSED: usize = 1024;

/// What is known of each connection.
#[derive(Clone, Debug)]
pub struct Connections<T> {
    known: HashMap<u64, Entry<T>>,
    /// Cookies in the order of their closes, with the number of each close.
    closed: VecDeque<(u64, u64)>,
    closes: u64,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    /// The number of its close.
    closed: Option<u64>,
}

impl<T> Default for Connections<T> {
    fn default() -> Connections<T> {
        Connections { known: HashMap::new(), closed: VecDeque::new(), closes: 0 }
    }
}

impl<T> Connections<T> {
    pub fn get(&self, cookie: u64) -> Option<&T> {
        self.known.get(&cookie).map(|entry| &entry.value)
    }

    /// What is known of it; if that is nothing, it begins with this.
    pub fn get_or(&mut self, cookie: u64, first: impl FnOnce() -> T) -> &mut T {
        let entry = self.known.entry(cookie);
        &mut entry.or_insert_with(|| Entry { value: first(), closed: None }).value
    }

    /// A connection opens: what is known of an earlier one of this socket that has closed goes.
    pub fn open(&mut self, cookie: u64) {
        if self.known.get(&cookie).is_some_and(|entry| entry.closed.is_some()) {
            self.known.remove(&cookie);
        }
    }

    /// It has closed: it is forgotten when many later ones have.
    pub fn close(&mut self, cookie: u64) {
        let Some(entry) = self.known.get_mut(&cookie) else { return };
        self.closes += 1;
        entry.closed = Some(self.closes);
        self.closed.push_back((cookie, self.closes));
        if self.closed.len() <= MOST_CLOSED {
            return;
        }
        let Some((oldest, close)) = self.closed.pop_front() else { return };
        // The socket may have connected again since.
        if self.known.get(&oldest).is_some_and(|entry| entry.closed == Some(close)) {
            self.known.remove(&oldest);
        }
    }

    /// Those that have not closed.
    pub fn open_ones(&self) -> impl Iterator<Item = (u64, &T)> {
        let open = self.known.iter().filter(|(_, entry)| entry.closed.is_none());
        open.map(|(&cookie, entry)| (cookie, &entry.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_closed_is_known_until_many_later_ones_have() {
        let mut connections = Connections::default();
        for cookie in 0..10_000 {
            connections.get_or(cookie, || cookie);
            connections.close(cookie);
            assert_eq!(connections.get(cookie), Some(&cookie));
        }
        assert_eq!(connections.open_ones().count(), 0);
        assert_eq!(connections.known.len(), MOST_CLOSED);
        assert_eq!(connections.closed.len(), MOST_CLOSED);
        assert_eq!(connections.get(10_000 - MOST_CLOSED as u64 - 1), None);
    }

    #[test]
    fn a_socket_that_connects_again_begins_anew_and_stays() {
        let mut connections = Connections::default();
        for name in ["first", "second"] {
            connections.open(7);
            assert_eq!(connections.get_or(7, || name), &name);
            if name == "first" {
                connections.close(7);
            }
        }
        for cookie in 100..5000 {
            connections.get_or(cookie, || "later");
            connections.close(cookie);
        }
        assert_eq!(connections.open_ones().collect::<Vec<_>>(), [(7, &"second")]);
    }
}

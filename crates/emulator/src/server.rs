//! A drop-tail queue in front of something that serves at a rate.

use std::collections::VecDeque;

use crate::packet::Nanos;
use crate::rate::Rate;

/// Knows when each packet leaves as soon as it comes, so it needs no events of its own.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    rate: Rate,
    most_packets: u32,
    most_bytes: u64,
    /// Those whose service had not begun at `now`: when it begins, and their bytes.
    waiting: VecDeque<(Nanos, u64)>,
    waiting_bytes: u64,
    free_at: Nanos,
}

/// When the service of a packet begins, and when its last bit has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub begins: Nanos,
    pub ends: Nanos,
}

impl Server {
    pub fn new(rate: Rate, most_packets: Option<u32>, most_bytes: Option<u64>) -> Server {
        Server {
            rate,
            most_packets: most_packets.unwrap_or(u32::MAX),
            most_bytes: most_bytes.unwrap_or(u64::MAX),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: 0,
        }
    }

    /// None: the queue was full. Times of calls never go back.
    pub fn enter(&mut self, now: Nanos, bytes: usize) -> Option<Service> {
        self.begin_services(now);
        let bytes = bytes as u64;
        let begins = self.rate.begins(self.free_at.max(now));
        if begins > now {
            if self.waiting.len() as u64 >= u64::from(self.most_packets)
                || self.waiting_bytes + bytes > self.most_bytes
            {
                return None;
            }
            self.waiting.push_back((begins, bytes));
            self.waiting_bytes += bytes;
        }
        self.free_at = self.rate.ends(begins, bytes);
        Some(Service { begins, ends: self.free_at })
    }

    /// Packets and bytes that wait at this time.
    pub fn waiting(&mut self, now: Nanos) -> (usize, u64) {
        self.begin_services(now);
        (self.waiting.len(), self.waiting_bytes)
    }

    fn begin_services(&mut self, now: Nanos) {
        while let Some((_, bytes)) = self.waiting.front().copied().filter(|(at, _)| *at <= now) {
            self.waiting_bytes -= bytes;
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Server;
    use crate::rate::Rate;

    /// 8 Mbit/s: one byte a µs.
    fn server(packets: Option<u32>, bytes: Option<u64>) -> Server {
        Server::new(Rate::constant(8.0), packets, bytes)
    }

    #[test]
    fn packets_leave_one_after_the_other_at_the_rate() {
        let mut server = server(None, None);
        let mut ends = |now, bytes| server.enter(now, bytes).map(|service| service.ends);
        assert_eq!(ends(0, 1000), Some(1_000_000));
        assert_eq!(ends(0, 500), Some(1_500_000));
        assert_eq!(ends(2_000_000, 500), Some(2_500_000), "idle time is not made up for");
    }

    #[test]
    fn the_packet_being_sent_does_not_count_as_waiting() {
        let mut server = server(Some(2), None);
        assert!((0..3).all(|_| server.enter(0, 1000).is_some()));
        assert_eq!(server.enter(0, 1000), None);
        assert_eq!(server.waiting(0), (2, 2000));
        assert_eq!(server.waiting(1_000_000).0, 1, "the second began when the first had left");
        assert!(server.enter(1_000_000, 1000).is_some());
    }

    #[test]
    fn a_queue_of_bytes_holds_small_packets_where_a_large_one_does_not_fit() {
        let mut server = server(None, Some(1500));
        assert!(server.enter(0, 1000).is_some());
        assert!(server.enter(0, 1000).is_some());
        assert_eq!(server.enter(0, 1000), None);
        assert!(server.enter(0, 500).is_some());
    }
}

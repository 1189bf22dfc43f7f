//! What is seen of connections, from look to look.

/// Of a connection, as the kernel has it; counters since it began, in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// With data, retransmissions included.
    pub sent: u32,
    pub retransmitted: u32,
    pub delivered: u32,
    /// Smoothed, and the least one; `u32::MAX` = not measured.
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    /// Bytes that the program has written and that wait.
    pub unsent: u32,
}

/// What a connection did since the last look, segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub sent: u32,
    pub retransmitted: u32,
    pub delivered: u32,
}

impl Progress {
    pub fn between(before: &Counters, now: &Counters) -> Progress {
        Progress {
            sent: now.sent.wrapping_sub(before.sent),
            retransmitted: now.retransmitted.wrapping_sub(before.retransmitted),
            delivered: now.delivered.wrapping_sub(before.delivered),
        }
    }
}

/// Connections, and the segments of them that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought {
    pub connections: u64,
    pub segments: u64,
}

impl Brought {
    fn add(&mut self, delivered: u32) {
        self.connections += 1;
        self.segments += u64::from(delivered);
    }
}

/// What the connections of a path did since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Segments with data, retransmissions included.
    pub sent: u64,
    pub retransmitted: u64,
    /// The least smoothed round trip of those that send, µs; none: nobody does.
    pub srtt_us: Option<u32>,
    /// The least round trip of all connections of the path, µs.
    pub least_us: Option<u32>,
    pub ours: Brought,
    /// Connections that are not watched, and have data waiting.
    pub others: Brought,
    /// One of ours has a window that was chosen, which losses do not take away.
    pub chosen: bool,
}

impl Sample {
    /// What one watched connection of the path did.
    pub fn add(&mut self, now: &Counters, progress: Progress) {
        self.sent += u64::from(progress.sent);
        self.retransmitted += u64::from(progress.retransmitted);
        self.ours.add(progress.delivered);
        self.note_least(now);
        if (progress.sent > 0 || now.unsent > 0) && now.srtt_us > 0 {
            self.srtt_us = Some(self.srtt_us.map_or(now.srtt_us, |it| it.min(now.srtt_us)));
        }
    }

    /// What one of the others did; it counts if it could have had more.
    pub fn beside(&mut self, now: &Counters, progress: Progress) {
        self.note_least(now);
        if now.unsent > 0 {
            self.others.add(progress.delivered);
        }
    }

    /// A connection that began when the queue stood already has not seen the path without it.
    fn note_least(&mut self, now: &Counters) {
        if now.min_rtt_us != u32::MAX && now.min_rtt_us > 0 {
            self.least_us = Some(self.least_us.map_or(now.min_rtt_us, |it| it.min(now.min_rtt_us)));
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.srtt_us.is_some()
    }

    /// How much longer than the least round trip the shortest one is, µs.
    pub fn queue_us(&self) -> u32 {
        let (Some(srtt_us), Some(least_us)) = (self.srtt_us, self.least_us) else { return 0 };
        srtt_us.saturating_sub(least_us)
    }
}

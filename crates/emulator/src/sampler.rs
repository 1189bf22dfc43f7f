//! Queue lengths over time, at most 100 values a second, and only where they change.

use crate::log::QueueSeries;
use crate::packet::Nanos;

const INTERVAL: Nanos = 10_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    series: Vec<QueueSeries>,
    next: Nanos,
}

impl Sampler {
    /// `names` of the queues, in the order in which their lengths are given.
    pub fn new(names: Vec<String>) -> Sampler {
        let series = names.into_iter().map(|name| QueueSeries { name, ..QueueSeries::default() });
        Sampler { series: series.collect(), next: 0 }
    }

    /// The next moment to look at, if it is before `until`.
    pub fn due(&self, until: Nanos) -> Option<Nanos> {
        (self.next < until).then_some(self.next)
    }

    /// `lengths` in the order of the names.
    pub fn take(&mut self, at: Nanos, lengths: &[usize]) {
        for (series, length) in self.series.iter_mut().zip(lengths) {
            let length = u32::try_from(*length).unwrap_or(u32::MAX);
            if series.packets.last() != Some(&length) {
                series.at_s.push(at as f64 / 1e9);
                series.packets.push(length);
            }
        }
        self.next = at + INTERVAL;
    }

    /// Those of queues that ever held a packet.
    pub fn series(&self) -> Vec<QueueSeries> {
        let used = |series: &&QueueSeries| series.packets.iter().any(|length| *length > 0);
        self.series.iter().filter(used).cloned().collect()
    }
}

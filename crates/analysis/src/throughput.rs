//! Bytes per time, both directions.

use std::borrow::Borrow;

use serde::Serialize;

use crate::{Sample, Series};

/// Shortest bin chosen by [`automatic_bin`], ns.
const SHORTEST_BIN_NS: u64 = 1_000_000;
/// Bins of a whole connection when nothing else is asked for.
const BINS: u64 = 400;
/// Most bins ever made, whatever the caller asks for.
const MOST_BINS: u64 = 100_000;

/// Goodput in bins of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    pub start_ns: u64,
    pub end_ns: u64,
    /// Length of a bin; the last one also takes what remains, less than another of them.
    pub bin_ns: u64,
    /// Acknowledged by the other side, bit/s, one value a bin.
    pub up: Vec<f64>,
    /// Received in order, bit/s, one value a bin.
    pub down: Vec<f64>,
    /// Whether bytes were spread evenly between two samples, because the ACKs
    /// between them were not recorded.
    pub interpolated: bool,
}

/// About so many bins over the duration, but none shorter than 1 ms or than the minimum RTT (a
/// window arrives at once); 1, 2 or 5 times a power of ten.
pub fn automatic_bin(duration_ns: u64, min_rtt_ns: u64, bins: u64) -> u64 {
    let least = (duration_ns / bins.max(1)).max(min_rtt_ns).max(SHORTEST_BIN_NS);
    let mut unit = SHORTEST_BIN_NS;
    loop {
        let steps = [1, 2, 5].map(|n: u64| n.saturating_mul(unit));
        if let Some(step) = steps.into_iter().find(|&step| step >= least) {
            return step;
        }
        unit = unit.saturating_mul(10);
    }
}

impl Throughput {
    pub fn of(series: &Series, bin_ns: Option<u64>) -> Throughput {
        let duration = series.end_ns.saturating_sub(series.start_ns);
        let bin_ns = bin_ns.unwrap_or_else(|| automatic_bin(duration, series.min_rtt_ns(), BINS));
        Throughput::total([series], series.start_ns, series.end_ns, bin_ns)
    }

    /// Several connections together, on one grid of time that covers them all.
    pub fn total<S: Borrow<Series>>(
        all: impl IntoIterator<Item = S>,
        start_ns: u64,
        end_ns: u64,
        bin_ns: u64,
    ) -> Throughput {
        let duration = end_ns.saturating_sub(start_ns);
        let bin_ns = bin_ns.max(duration.div_ceil(MOST_BINS)).max(1);
        let count = (duration / bin_ns).max(1) as usize;
        let (up, down) = (vec![0.0; count], vec![0.0; count]);
        let mut result = Throughput { start_ns, end_ns, bin_ns, up, down, interpolated: false };
        for series in all {
            result.add_all(series.borrow());
        }
        // A remainder of its own could be as short as one ACK, whose bytes would make any rate.
        let last_ns = duration.saturating_sub((count as u64 - 1) * bin_ns).max(bin_ns);
        for values in [&mut result.up, &mut result.down] {
            for (i, value) in values.iter_mut().enumerate() {
                let length = if i + 1 == count { last_ns } else { bin_ns };
                *value *= 8.0e9 / length as f64;
            }
        }
        result
    }

    fn add_all(&mut self, series: &Series) {
        for pair in series.samples.windows(2) {
            let spread = series.sampled || pair[1].acks_unseen;
            self.interpolated |= spread;
            self.add(&pair[0], &pair[1], spread);
        }
        if let Some(first) = series.samples.first() {
            self.credit(first.time_ns, first.acked as f64, first.received as f64);
        }
    }

    /// Start of a bin, ns; that of the one after the last is the end of the connection.
    pub fn bin_start_ns(&self, bin: usize) -> u64 {
        if bin >= self.up.len() {
            return self.end_ns;
        }
        self.start_ns.saturating_add((bin as u64).saturating_mul(self.bin_ns))
    }

    /// The bin of a time; what is outside of all counts for the nearest.
    pub fn bin_of(&self, time_ns: u64) -> usize {
        let bin = time_ns.saturating_sub(self.start_ns) / self.bin_ns;
        (bin as usize).min(self.up.len() - 1)
    }

    /// Bytes between two samples: at the time of the second, or spread between both.
    fn add(&mut self, from: &Sample, to: &Sample, spread: bool) {
        let up = to.acked.saturating_sub(from.acked) as f64;
        let down = to.received.saturating_sub(from.received) as f64;
        if up == 0.0 && down == 0.0 {
            return;
        }
        let length = to.time_ns.saturating_sub(from.time_ns);
        if !spread || length == 0 {
            return self.credit(to.time_ns, up, down);
        }
        let mut at = from.time_ns;
        while at < to.time_ns {
            let bin = at.saturating_sub(self.start_ns) / self.bin_ns;
            let bin_end = self.start_ns.saturating_add((bin + 1).saturating_mul(self.bin_ns));
            let end = bin_end.clamp(at + 1, to.time_ns);
            let share = (end - at) as f64 / length as f64;
            self.credit(at, up * share, down * share);
            at = end;
        }
    }

    fn credit(&mut self, time_ns: u64, up: f64, down: f64) {
        let bin = self.bin_of(time_ns);
        self.up[bin] += up;
        self.down[bin] += down;
    }
}

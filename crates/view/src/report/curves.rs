//! The curves of a connection: which values, in which unit, and its throughput.

use transom_analysis::{Connection, Point};

use super::summary::progress;

pub const CURVES: usize = 11;

/// The values of all curves at one event, in the order of the page's columns:
/// cwnd, ssthresh, in flight, clamp, send window (segments); srtt, min_rtt, rto
/// (µs); send queue, receive queue, unsent (bytes).
pub fn values(point: &Point) -> [Option<u64>; CURVES] {
    let state = &point.state;
    let measured = |us: u32| (us != 0).then_some(u64::from(us));
    let segments = |bytes: u32| (state.mss != 0).then(|| u64::from(bytes / u32::from(state.mss)));
    [
        Some(state.cwnd.into()),
        state.ssthresh_set().map(u64::from),
        Some(state.in_flight().into()),
        state.clamp_set().map(u64::from),
        segments(state.snd_wnd),
        measured(state.srtt_us),
        state.min_rtt().map(u64::from),
        measured(state.rto_us),
        Some(state.send_queue.into()),
        Some(state.recv_queue.into()),
        Some(state.unsent.into()),
    ]
}

/// Bytes each way in equal bins of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Start of the first bin, µs since the start of the recording.
    pub from_us: u64,
    pub width_us: u64,
    pub acked: Vec<u64>,
    pub received: Vec<u64>,
}

impl Throughput {
    /// Bins of 1, 2 or 5 times a power of ten µs, not shorter than the smallest
    /// RTT (one window arrives at once), about `bins` of them at most.
    pub fn of(connection: &Connection, start_ns: u64, bins: u64) -> Throughput {
        let time = |ns: u64| ns.saturating_sub(start_ns) / 1000;
        let (first, last) = (time(connection.first_ns), time(connection.last_ns));
        let rtt = connection.points.iter().filter_map(|point| point.state.min_rtt()).min();
        let width_us = round_up(((last - first) / bins).max(rtt.unwrap_or(0).into()).max(1000));
        let from_us = first / width_us * width_us;
        let count = ((last - from_us) / width_us + 1) as usize;
        let (mut acked, mut received) = (vec![0; count], vec![0; count]);
        for pair in connection.points.windows(2) {
            let at = (time(pair[1].time_ns).saturating_sub(from_us) / width_us) as usize;
            let step = progress(&pair[0].state, &pair[1].state);
            acked[at.min(count - 1)] += step.acked;
            received[at.min(count - 1)] += step.received;
        }
        Throughput { from_us, width_us, acked, received }
    }

    /// Mean of a bin, Mbit/s.
    pub fn mbit(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.width_us as f64
    }
}

fn round_up(value: u64) -> u64 {
    let mut unit = 1;
    loop {
        for step in [unit, 2 * unit, 5 * unit] {
            if step >= value {
                return step;
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_have_round_widths() {
        assert_eq!([1, 3, 11, 20, 499].map(round_up), [1, 5, 20, 20, 500]);
    }
}

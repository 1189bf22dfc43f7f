//! What is compared of two recordings of a connection: the one that was made and a simulated one.

use serde::Serialize;
use transom_analysis::{Analysis, Connection, Point, Recording, Series, analyse};

/// The numbers of a connection that a prediction is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// From its first event until the last byte was acknowledged, or the end, s.
    pub seconds: f64,
    /// Bytes that were acknowledged.
    pub bytes: u64,
    /// Of the time in `seconds`, Mbit/s.
    pub goodput_mbit: f64,
    /// Of the smoothed round trip, s.
    pub rtt_median_s: f64,
    pub rtt_p95_s: f64,
    /// Full segments that its bytes make.
    pub segments: f64,
    /// Segments.
    pub retransmitted: u64,
    pub cwnd_median: u32,
    /// Mbit/s in each of the parts.
    pub parts: Vec<f64>,
}

/// Parts of the time in which throughput is compared.
const PARTS: usize = 10;

/// Adds what was acknowledged between two events, Mbit, to the parts of the time that lie between them,
/// Mbit/s. After the sender has closed no ACK has an event: all that was still on its way is
/// acknowledged at the end, which in a replay is a little earlier or later.
fn spread(parts: &mut [f64], all_s: f64, [from_s, to_s]: [f64; 2], mbit: f64) {
    let each_s = all_s / parts.len() as f64;
    for (i, part) in parts.iter_mut().enumerate() {
        let (begins_s, ends_s) = (i as f64 * each_s, (i + 1) as f64 * each_s);
        let inside_s = (ends_s.min(to_s) - begins_s.max(from_s)).max(0.0);
        let is_moment = to_s <= from_s && (begins_s..ends_s).contains(&to_s);
        let share = if is_moment { 1.0 } else { inside_s / (to_s - from_s).max(1e-9) };
        *part += mbit * share / each_s.max(1e-9);
    }
}

/// Rounded: the last event is within the time from the first to it.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Of the connection that carried most.
pub fn of_recording(recording: &Recording, within_s: f64, parts_s: f64) -> Option<Measured> {
    let analyses = analyse(recording);
    let analysis = analyses.first()?;
    let connection = recording.connection(analysis.cookie)?;
    Some(of_connection(connection, analysis, within_s, parts_s))
}

/// `within_s`: of its first so many seconds; the parts are those of `parts_s`.
pub fn of_connection(
    connection: &Connection,
    analysis: &Analysis,
    within_s: f64,
    parts_s: f64,
) -> Measured {
    let series = Series::of(connection);
    let within_ns = nanoseconds(within_s);
    let since = |time_ns: u64| time_ns.saturating_sub(connection.first_ns);
    let samples = || series.samples.iter().filter(|sample| since(sample.time_ns) <= within_ns);
    let bytes = samples().map(|sample| sample.acked).max().unwrap_or(0);
    let all = analysis.summary.acked;
    let last = samples().find(|sample| sample.acked == bytes);
    // Whatever was written has arrived: what came after it is no time of the transfer.
    let idle = |it: &Point| it.state.outstanding() == 0 && it.state.unsent == 0;
    let is_done = analysis.summary.coverage.ended || connection.points.last().is_some_and(idle);
    let over = bytes == all && is_done;
    let seconds = match last.filter(|_| over) {
        Some(sample) => since(sample.time_ns) as f64 / 1e9,
        None => within_s,
    };
    let mut parts = vec![0.0; PARTS];
    let (mut from_s, mut before) = (0.0, 0);
    for sample in samples() {
        let to_s = since(sample.time_ns) as f64 / 1e9;
        spread(&mut parts, parts_s, [from_s, to_s], (sample.acked - before) as f64 * 8e-6);
        (from_s, before) = (to_s, sample.acked);
    }
    let rtt = analysis.summary.rtt.unwrap_or_default();
    Measured {
        seconds,
        bytes,
        goodput_mbit: bytes as f64 * 8e-6 / seconds.max(1e-6),
        rtt_median_s: f64::from(rtt.median_us) / 1e6,
        rtt_p95_s: f64::from(rtt.p95_us) / 1e6,
        segments: bytes as f64 / f64::from(analysis.summary.mss.max(1)),
        retransmitted: analysis.summary.retransmitted.total(),
        cwnd_median: analysis.summary.median_cwnd,
        parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(events: &[([f64; 2], f64)]) -> Vec<f64> {
        let mut parts = vec![0.0; 4];
        events.iter().for_each(|(between, mbit)| spread(&mut parts, 2.0, *between, *mbit));
        parts
    }

    #[test]
    fn the_last_event_is_within_the_time_of_all() {
        let cut = |ns: &u64| ((*ns as f64 / 1e9) * 1e9) < *ns as f64;
        let mut ns: Vec<u64> = (0..1000).map(|i| 60_000_000 + i * 7_919).collect();
        assert!(ns.iter().any(cut), "the control: without rounding some lose their last ns");
        ns.retain(|&ns| nanoseconds(ns as f64 / 1e9) != ns);
        assert!(ns.is_empty(), "{ns:?}");
    }

    #[test]
    fn what_is_acknowledged_at_the_end_of_a_gap_was_delivered_in_it() {
        assert_eq!(parts(&[([0.0, 2.0], 4.0)]), [2.0; 4], "up to the very end");
        assert_eq!(parts(&[([0.5, 1.5], 2.0)]), [0.0, 2.0, 2.0, 0.0]);
        assert_eq!(
            parts(&[([1.0, 3.0], 4.0)]),
            [0.0, 0.0, 2.0, 2.0],
            "what comes later does not count"
        );
        assert_eq!(parts(&[([0.6, 0.6], 1.0)]), [0.0, 2.0, 0.0, 0.0], "two at one moment");
    }
}

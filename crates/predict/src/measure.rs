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
const PARTS: u64 = 10;

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
    let within_ns = (within_s * 1e9) as u64;
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
    let mut parts = vec![0.0; PARTS as usize];
    let mut before = 0;
    for sample in samples() {
        let part = (since(sample.time_ns) as f64 / 1e9 / parts_s * PARTS as f64) as usize;
        if let Some(part) = parts.get_mut(part) {
            *part += (sample.acked - before) as f64 * 8e-6 / parts_s * PARTS as f64;
        }
        before = sample.acked;
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

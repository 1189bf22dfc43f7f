//! Whether a replay of the unchanged settings is what was recorded.

use serde::Serialize;

use crate::measure::Measured;

/// Goodput may differ by this share.
pub const GOODPUT: f64 = 0.1;
/// Throughput in the tenths of the time, by this share of the mean, on average.
pub const COURSE: f64 = 0.25;
/// Round trips (median, 95th percentile), by this share and so many s.
pub const ROUND_TRIP: (f64, f64) = (0.2, 2e-3);
/// Retransmissions, by this factor and so many segments.
pub const RETRANSMITTED: (f64, f64) = (2.0, 10.0);
/// cwnd (median), by this share and so many segments.
pub const CWND: (f64, f64) = (0.35, 3.0);

/// A number of a replay that is not that of the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mismatch {
    pub what: &'static str,
    /// How far beyond the bound it is, bounds.
    pub excess: f64,
    /// In a whole sentence.
    pub text: String,
}

/// What does not match, the worst first.
pub fn mismatches(recorded: &Measured, replayed: &Measured) -> Vec<Mismatch> {
    let mut all: Vec<Mismatch> = [
        goodput(recorded, replayed),
        course(recorded, replayed),
        round_trip("RTT (median)", recorded.rtt_median_s, replayed.rtt_median_s),
        round_trip("RTT (95th percentile)", recorded.rtt_p95_s, replayed.rtt_p95_s),
        retransmitted(recorded, replayed),
        cwnd(recorded, replayed),
    ]
    .into_iter()
    .flatten()
    .collect();
    all.sort_by(|a, b| b.excess.total_cmp(&a.excess));
    all
}

fn mismatch(what: &'static str, excess: f64, text: String) -> Option<Mismatch> {
    (excess > 1.0).then_some(Mismatch { what, excess, text })
}

fn goodput(recorded: &Measured, replayed: &Measured) -> Option<Mismatch> {
    let (was, is) = (recorded.goodput_mbit, replayed.goodput_mbit);
    let excess = (is / was.max(1e-9)).ln().abs() / (1.0 + GOODPUT).ln();
    mismatch("goodput", excess, format!("Goodput was {was:.2} Mbit/s, replayed it is {is:.2}."))
}

fn course(recorded: &Measured, replayed: &Measured) -> Option<Mismatch> {
    let parts = || recorded.parts.iter().zip(&replayed.parts);
    let count = recorded.parts.len().max(1) as f64;
    let mean = recorded.parts.iter().sum::<f64>() / count;
    let apart = parts().map(|(a, b)| (a - b).abs()).sum::<f64>() / count / mean.max(1e-9);
    let worst = parts().enumerate().max_by(|(_, a), (_, b)| {
        (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs())
    });
    let (i, (was, is)) = worst?;
    let part = recorded.seconds / count;
    let (from, to) = (i as f64 * part, (i + 1) as f64 * part);
    let text = format!(
        "From {from:.1} to {to:.1} s {was:.2} Mbit/s were delivered, replayed {is:.2}: the model has no cause for that."
    );
    mismatch("throughput over time", apart / COURSE, text)
}

fn round_trip(what: &'static str, was: f64, is: f64) -> Option<Mismatch> {
    let (share, seconds) = ROUND_TRIP;
    let excess = (was - is).abs() / (share * was + seconds);
    let text = format!("{what} was {:.1} ms, replayed it is {:.1}.", was * 1e3, is * 1e3);
    mismatch(what, excess, text)
}

fn retransmitted(recorded: &Measured, replayed: &Measured) -> Option<Mismatch> {
    let (factor, segments) = RETRANSMITTED;
    let (was, is) = (recorded.retransmitted as f64, replayed.retransmitted as f64);
    let excess = (was.max(is) - segments) / (factor * was.min(is)).max(1.0);
    let excess = if was.max(is) <= segments { 0.0 } else { excess };
    let text = format!("{was} segments were retransmitted, replayed {is}.");
    mismatch("retransmissions", excess, text)
}

fn cwnd(recorded: &Measured, replayed: &Measured) -> Option<Mismatch> {
    let (share, segments) = CWND;
    let (was, is) = (f64::from(recorded.cwnd_median), f64::from(replayed.cwnd_median));
    let excess = (was - is).abs() / (share * was + segments);
    mismatch("cwnd", excess, format!("cwnd was {was} (median), replayed it is {is}."))
}

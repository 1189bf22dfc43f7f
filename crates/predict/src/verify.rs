//! What was predicted beside what came of it.

use serde::Serialize;
use transom_analysis::Connection;
use transom_event::Kind;

use crate::change::Change;
use crate::measure::Measured;
use crate::whatif::Prediction;

/// One number of the prediction, and of the recording made after the change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verified {
    pub what: &'static str,
    pub unit: &'static str,
    pub predicted: f64,
    pub low: f64,
    pub high: f64,
    pub recorded: f64,
}

impl Verified {
    /// Predicted ÷ recorded; none: both are nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.recorded > 0.0).then(|| self.predicted / self.recorded)
    }
}

/// Each number that was predicted beside the recorded one.
pub fn verify(prediction: &Prediction, after: &Measured) -> Vec<Verified> {
    let line = |what, unit, it: crate::Interval, scale: f64, recorded: f64| Verified {
        what,
        unit,
        predicted: it.value * scale,
        low: it.low * scale,
        high: it.high * scale,
        recorded: recorded * scale,
    };
    vec![
        line("goodput", "Mbit/s", prediction.goodput_mbit, 1.0, after.goodput_mbit),
        line("time", "s", prediction.seconds, 1.0, after.seconds),
        line("RTT (95th percentile)", "ms", prediction.rtt_p95_s, 1e3, after.rtt_p95_s),
        line(
            "retransmitted",
            "segments",
            prediction.retransmitted,
            1.0,
            after.retransmitted as f64,
        ),
    ]
}

/// What the sender had set differently in the second recording.
pub fn change_between(before: &Connection, after: &Connection) -> Change {
    let algorithm = |it: &Connection| Some(it.algorithm()).filter(|name| !name.is_empty());
    let cap = |it: &Connection| it.points.iter().filter_map(|p| p.state.clamp_set()).max();
    let window = |it: &Connection| {
        let first = it.points.iter().find(|point| point.kind == Kind::Send);
        first.map(|point| point.state.cwnd).filter(|_| cap(it).is_none())
    };
    fn changed<T: PartialEq>(before: Option<T>, after: Option<T>) -> Option<T> {
        if before == after { None } else { after }
    }
    Change {
        algorithm: changed(algorithm(before), algorithm(after)),
        initial_window: changed(window(before), window(after)),
        cap: changed(cap(before), cap(after)),
        ..Change::default()
    }
}

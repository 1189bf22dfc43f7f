//! What no setting gets out of a path, however far apart a few simulations are.

use crate::change::Change;
use crate::interval::Interval;
use crate::measure::Measured;
use crate::model::{Model, Program};

/// Of a model with a change, as far as the trace tells.
pub(crate) struct Bounds {
    /// Greatest goodput, Mbit/s.
    goodput_mbit: f64,
    /// Of a transfer that ends by itself, the least time, s.
    seconds: f64,
    /// Least round trip, s.
    rtt_s: f64,
    recorded_mbit: f64,
}

impl Bounds {
    pub fn of(model: &Model, change: &Change, recorded: &Measured) -> Bounds {
        let model = &change.lifted(model);
        let most = most_bytes(model);
        // Without its headers.
        let payload = recorded.bytes as f64 / recorded.segments.max(1.0) / model.packet;
        let goodput_mbit = most * payload.min(1.0) * 8e-6;
        let ends = matches!(model.program, Program::Bytes { .. } | Program::Requests { .. });
        let bytes = model.program.bytes().filter(|_| ends).unwrap_or(0);
        Bounds {
            goodput_mbit,
            seconds: bytes as f64 * 8e-6 / goodput_mbit,
            rtt_s: model.path.rtt_s.low,
            recorded_mbit: recorded.goodput_mbit,
        }
    }

    pub fn of_goodput(&self, mbit: Interval) -> Interval {
        mbit.within(0.0, self.goodput_mbit)
    }

    pub fn of_gain(&self, times: Interval) -> Interval {
        times.within(0.0, self.goodput_mbit / self.recorded_mbit.max(1e-9))
    }

    pub fn of_seconds(&self, seconds: Interval) -> Interval {
        seconds.within(self.seconds, f64::INFINITY)
    }

    pub fn of_rtt(&self, seconds: Interval) -> Interval {
        seconds.within(self.rtt_s, f64::INFINITY)
    }

    /// Of retransmissions in such runs: one for each segment, unless a run had more.
    pub fn of_retransmitted(&self, segments: Interval, runs: &[&Measured]) -> Interval {
        let most = runs.iter().map(|run| run.segments.max(run.retransmitted as f64));
        segments.within(0.0, most.fold(0.0, f64::max))
    }
}

/// Bytes/s of IP packets that its path lets through on average, at most; infinite where nothing that
/// limits it was seen.
fn most_bytes(model: &Model) -> f64 {
    let path = &model.path;
    let device = model.sender.device.as_ref().and_then(|device| device.high);
    let on_path = match &path.policer {
        None => path.rate.high,
        Some(policer) => policer.rate.high.zip(policer.burst.high).and_then(|(rate, burst)| {
            // A burst passes at once, and the rest at the rate.
            let bytes = model.program.bytes().map_or(rate * model.seconds + burst, |it| it as f64);
            (bytes > burst).then(|| rate * bytes / (bytes - burst))
        }),
    };
    let limits = [device, on_path].into_iter().flatten();
    limits.fold(f64::INFINITY, f64::min)
}

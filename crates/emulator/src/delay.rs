//! How long packets take from one end of a link to the other, which may change over time.

use crate::packet::{Nanos, nanos_of_ms};
use crate::plan;

#[derive(Clone, Debug)]
pub(crate) enum Delay {
    Constant(Nanos),
    /// From each moment on another delay, and when the last packet arrived: later ones do not pass
    /// it, though their delay is shorter.
    Steps {
        steps: Vec<(Nanos, Nanos)>,
        last: Nanos,
    },
}

impl Delay {
    pub fn new(plan: &plan::Direction, more_ms: f64) -> Delay {
        let delay = |ms: f64| nanos_of_ms(ms + more_ms);
        let second = |s: f64| nanos_of_ms(s * 1e3);
        let changes = plan.handovers.iter().filter_map(|handover| {
            let ends = second(handover.at_s) + nanos_of_ms(handover.outage_ms);
            Some((ends, delay(handover.delay_ms?)))
        });
        let mut steps: Vec<_> =
            plan.delays.iter().map(|(s, ms)| (second(*s), delay(*ms))).collect();
        if steps.is_empty() {
            steps.push((0, delay(plan.delay_ms)));
        }
        steps.extend(changes);
        steps.sort_by_key(|(at, _)| *at);
        match steps[..] {
            [(_, only)] => Delay::Constant(only),
            _ => Delay::Steps { steps, last: 0 },
        }
    }

    /// When a packet arrives whose last bit was sent at `sent`. Times of calls never go back.
    pub fn after(&mut self, sent: Nanos) -> Nanos {
        match self {
            Delay::Constant(delay) => sent.saturating_add(*delay),
            Delay::Steps { steps, last } => {
                let held = steps.partition_point(|(at, _)| *at <= sent).saturating_sub(1);
                *last = sent.saturating_add(steps[held].1).max(*last);
                *last
            }
        }
    }
}

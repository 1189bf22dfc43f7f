//! PIE (RFC 8033): on arrival packets are dropped, or marked, with a probability that a
//! proportional-integral controller sets every `update` by how long packets wait.
//!
//! The controller is run when a packet comes or goes, for all updates since then: between those
//! nothing changes what it sees. How long packets wait is taken from the last packet sent
//! (timestamps, as Linux does by default), not estimated from the rate.

use super::{Counts, Fifo, Limit, Waiting};
use crate::packet::{Nanos, nanos_of_ms};
use crate::plan;
use crate::random::Stream;

/// RFC 8033, section 4.2: QDELAY_REF and T_UPDATE; 4.4: MAX_BURST.
const DEFAULT_TARGET_MS: f64 = 15.0;
const DEFAULT_UPDATE_MS: f64 = 15.0;
const MOST_BURST_MS: f64 = 150.0;

/// RFC 8033, section 4.2: of the wait above the target, and of its change, for each second.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;

/// RFC 8033, section 4.2: the smaller the probability, the smaller the steps. Below this
/// probability, divided by that.
const SCALES: [(f64, f64); 6] = [
    (0.000_001, 2048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];

/// RFC 8033, section 5.1: above this probability ECN-capable packets are dropped, too.
const MOST_MARKS: f64 = 0.1;

/// RFC 8033, section 5.4: no drop while the probabilities since the last add up to less, and a
/// certain one above.
const LEAST_SUM: f64 = 0.85;
const MOST_SUM: f64 = 8.5;

/// Bytes in the queue that are never too many: two full packets.
const LEAST_BACKLOG: u64 = 2 * 1500;

/// A probability as small as this is none, so that idle times come to rest.
const NONE: f64 = 1e-12;

#[derive(Clone, Debug)]
pub(crate) struct Pie {
    limit: Limit,
    queue: Fifo,
    target: Nanos,
    update: Nanos,
    ecn: bool,
    probability: f64,
    /// Of the packets since the last drop or mark.
    sum: f64,
    /// Of the packet sent last; 0 if none was left behind it.
    waited: Nanos,
    waited_before: Nanos,
    /// So long everything passes yet.
    burst: Nanos,
    next_update: Nanos,
    random: Stream,
}

impl Pie {
    pub fn new(asked: &plan::Discipline, limit: Limit, random: Stream) -> Pie {
        let update = nanos_of_ms(asked.update_ms.unwrap_or(DEFAULT_UPDATE_MS));
        Pie {
            limit,
            queue: Fifo::default(),
            target: nanos_of_ms(asked.target_ms.unwrap_or(DEFAULT_TARGET_MS)),
            update,
            ecn: asked.marks(),
            probability: 0.0,
            sum: 0.0,
            waited: 0,
            waited_before: 0,
            burst: nanos_of_ms(MOST_BURST_MS),
            next_update: update,
            random,
        }
    }

    pub fn enqueue(
        &mut self,
        now: Nanos,
        mut waiting: Waiting,
        is_idle: bool,
        counts: &mut Counts,
    ) {
        self.run(now);
        if self.strikes() {
            let marked = self.ecn && self.probability <= MOST_MARKS && waiting.mark(counts);
            if !marked {
                counts.drop_by_aqm(&waiting);
                return;
            }
        }
        self.limit.enqueue(&mut self.queue, waiting, is_idle, counts);
    }

    pub fn dequeue(&mut self, now: Nanos) -> Option<Waiting> {
        self.run(now);
        let sent = self.queue.pop()?;
        self.waited = if self.queue.len() > 0 { now.saturating_sub(sent.since) } else { 0 };
        Some(sent)
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    fn strikes(&mut self) -> bool {
        let calm = self.waited_before < self.target / 2 && self.probability < 0.2;
        if self.burst > 0 || calm || self.queue.bytes() <= LEAST_BACKLOG {
            return false;
        }
        if self.probability == 0.0 {
            self.sum = 0.0;
        }
        self.sum += self.probability;
        if self.sum < LEAST_SUM {
            return false;
        }
        let strikes = self.sum >= MOST_SUM || self.random.chance(self.probability);
        if strikes {
            self.sum = 0.0;
        }
        strikes
    }

    /// Makes up for the updates until now.
    fn run(&mut self, now: Nanos) {
        while self.next_update <= now {
            if self.at_rest() {
                let missed = (now - self.next_update) / self.update + 1;
                self.next_update += missed * self.update;
                return;
            }
            self.control();
            self.next_update += self.update;
        }
    }

    /// Further updates change nothing until a packet comes.
    fn at_rest(&self) -> bool {
        self.probability == 0.0
            && self.waited == 0
            && self.waited_before == 0
            && self.burst == nanos_of_ms(MOST_BURST_MS)
    }

    fn control(&mut self) {
        let seconds = |nanos: Nanos| nanos as f64 / 1e9;
        let (waited, before) = (seconds(self.waited), seconds(self.waited_before));
        let step = ALPHA * (waited - seconds(self.target)) + BETA * (waited - before);
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below);
        let mut step = step / scale.map_or(1.0, |(_, scale)| *scale);
        // RFC 8033, section 5.5.
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        if waited > 0.25 {
            step += 0.02;
        }
        self.probability = (self.probability + step).clamp(0.0, 1.0);
        if self.waited == 0 && self.waited_before == 0 {
            self.probability *= 0.98;
        }
        if self.probability < NONE {
            self.probability = 0.0;
        }
        self.burst = self.burst.saturating_sub(self.update);
        let half = self.target / 2;
        if self.probability == 0.0 && self.waited < half && self.waited_before < half {
            self.burst = nanos_of_ms(MOST_BURST_MS);
        }
        self.waited_before = self.waited;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;

    const MS: Nanos = 1_000_000;

    fn pie(ecn: bool) -> Pie {
        let asked = plan::Discipline { ecn: Some(ecn), ..plan::Discipline::of(plan::Kind::Pie) };
        let limit = Limit { packets: 100_000, bytes: u64::MAX };
        Pie::new(&asked, limit, Stream::new(1, "test"))
    }

    /// Its probability after each update of a queue in which packets wait so long.
    fn probabilities(waited: &[Nanos]) -> Vec<f64> {
        let mut pie = pie(false);
        waited
            .iter()
            .map(|waited| {
                pie.waited = waited * MS;
                pie.control();
                pie.probability
            })
            .collect()
    }

    #[test]
    fn the_controller_computes_what_the_rfc_says() {
        // By hand from RFC 8033, section 4.2: alpha 1/8 and beta 5/4 for each second, 15 ms target.
        let first = (0.125 * 0.025 + 1.25 * 0.04) / 2048.0;
        let second = first + (0.125 * 0.025 + 0.0) / 128.0;
        let third = second + (0.125 * 0.025 + 0.0) / 128.0;
        let fell: f64 = third - (1.25 * 0.025) / 128.0;
        let computed = probabilities(&[40, 40, 40, 15]);
        for (computed, expected) in computed.iter().zip([first, second, third, fell.max(0.0)]) {
            assert!((computed - expected).abs() < 1e-15, "{computed} {expected}");
        }
    }

    #[test]
    fn a_long_wait_raises_it_faster_and_a_high_one_rises_in_steps() {
        let far = probabilities(&[300, 300]);
        assert!(far[0] > 0.02, "section 5.5: 2 % on top beyond 250 ms");
        let capped = probabilities(&[200; 2_000]);
        let steps = capped.windows(2).filter(|pair| pair[0] >= 0.1);
        assert!(steps.map(|pair| pair[1] - pair[0]).all(|step| step <= 0.02 + 1e-12));
    }

    #[test]
    fn nothing_is_dropped_in_a_burst_of_150_milliseconds() {
        let drops_at = |rate: u64| {
            let (mut pie, mut counts) = (pie(false), Counts::default());
            for ms in 0..2_000 {
                (0..rate).for_each(|_| {
                    pie.enqueue(
                        ms * MS,
                        Waiting { since: ms * MS, ..packet(0, false) },
                        false,
                        &mut counts,
                    );
                });
                pie.dequeue(ms * MS);
                if counts.aqm_drops > 0 {
                    return Some(ms);
                }
            }
            None
        };
        let first = drops_at(4).unwrap();
        assert!((150..400).contains(&first), "{first}");
        assert_eq!(drops_at(1), None, "the control: no queue, no drops");
    }

    #[test]
    fn marks_replace_drops_up_to_a_probability_of_a_tenth() {
        let (mut pie, mut counts) = (pie(true), Counts::default());
        pie.burst = 0;
        for (probability, marks) in [(0.09, true), (0.11, false)] {
            counts = Counts::default();
            (0..1_000).for_each(|_| {
                (pie.probability, pie.waited_before) = (probability, 20 * MS);
                pie.enqueue(0, packet(0, true), false, &mut counts);
            });
            let share = (counts.marks + counts.aqm_drops) as f64 / 1_000.0;
            assert_eq!((counts.marks > 0, counts.aqm_drops > 0), (marks, !marks));
            // Section 5.4 makes gaps more even, and by that longer: 0.85 / p is added to each.
            let expected = 1.0 / (1.0 / probability + 0.85 / probability - 1.0);
            assert!((share / expected - 1.0).abs() < 0.2, "{share} of {expected}");
        }
        assert!(counts.marks == 0);
    }

    #[test]
    fn a_long_silence_costs_no_time_and_ends_as_if_each_update_had_run() {
        let (mut skipped, mut counts) = (pie(false), Counts::default());
        (skipped.probability, skipped.waited, skipped.burst) = (0.3, 40 * MS, 0);
        let mut stepped = skipped.clone();
        skipped.dequeue(0);
        skipped.waited = 0;
        stepped.waited = 0;
        let end = 3_600_000 * MS + 7;
        skipped.enqueue(end, packet(0, false), false, &mut counts);
        while stepped.next_update <= end {
            stepped.control();
            stepped.next_update += stepped.update;
        }
        assert_eq!(skipped.next_update, stepped.next_update);
        assert_eq!(skipped.probability, stepped.probability);
        assert_eq!(skipped.burst, stepped.burst);
    }
}

//! How fast a link sends, over time.
//!
//! Nothing here is learned from packets but how much of an opportunity of a trace is left, so a
//! moment may be asked for at any time and more than once.

use crate::packet::{Nanos, nanos_of_ms};
use crate::plan::{self, OPPORTUNITY_BYTES};

const NANOS_PER_MS: Nanos = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Rate {
    Constant { nanos_per_byte: f64 },
    Steps(Steps),
    Trace(Trace),
}

impl Rate {
    pub fn constant(mbit: f64) -> Rate {
        Rate::Constant { nanos_per_byte: nanos_per_byte(mbit) }
    }

    /// None: packets never wait.
    pub fn of(plan: &plan::Direction) -> Option<Rate> {
        if let Some(trace) = &plan.trace {
            return Some(Rate::Trace(Trace::new(&trace.ms)));
        }
        if plan.rates.is_empty() && plan.handovers.is_empty() {
            return plan.rate_mbit.map(Rate::constant);
        }
        Some(Rate::Steps(Steps::new(plan)))
    }

    /// The first moment from `now` on at which a packet can begin.
    pub fn begins(&self, now: Nanos) -> Nanos {
        match self {
            Rate::Constant { .. } => now,
            Rate::Steps(steps) => steps.begins(now),
            Rate::Trace(trace) => trace.begins(now),
        }
    }

    /// When the last bit of a packet that begins at `from`, as [`Rate::begins`] allows, has left.
    pub fn ends(&mut self, from: Nanos, bytes: u64) -> Nanos {
        match self {
            Rate::Constant { nanos_per_byte } => {
                from + (bytes as f64 * *nanos_per_byte).round() as Nanos
            }
            Rate::Steps(steps) => steps.ends(from, bytes),
            Rate::Trace(trace) => trace.ends(from, bytes),
        }
    }
}

fn nanos_per_byte(mbit: f64) -> f64 {
    8_000.0 / mbit
}

/// From each moment on another rate.
#[derive(Clone, Debug)]
pub(crate) struct Steps(Vec<(Nanos, Pace)>);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    Stopped,
    NanosPerByte(f64),
}

impl Steps {
    fn new(plan: &plan::Direction) -> Steps {
        let pace = |mbit: f64| match mbit {
            0.0 => Pace::Stopped,
            mbit => Pace::NanosPerByte(nanos_per_byte(mbit)),
        };
        let mut steps: Vec<(Nanos, Pace)> = match plan.rate_mbit {
            Some(mbit) => vec![(0, pace(mbit))],
            None if plan.rates.is_empty() => vec![(0, Pace::NanosPerByte(0.0))],
            None => {
                plan.rates.iter().map(|(s, mbit)| (nanos_of_ms(s * 1e3), pace(*mbit))).collect()
            }
        };
        for handover in &plan.handovers {
            let begins = nanos_of_ms(handover.at_s * 1e3);
            let ends = begins + nanos_of_ms(handover.outage_ms);
            let before = steps.iter().rev().find(|(at, _)| *at <= ends).map(|(_, pace)| *pace);
            let after = handover.rate_mbit.map(pace).or(before).unwrap_or(Pace::Stopped);
            steps.retain(|(at, _)| *at < begins || *at > ends);
            steps.extend([(begins, Pace::Stopped), (ends, after)]);
            steps.sort_by_key(|(at, _)| *at);
        }
        Steps(steps)
    }

    /// The step that holds at `now`.
    fn at(&self, now: Nanos) -> usize {
        self.0.partition_point(|(at, _)| *at <= now).saturating_sub(1)
    }

    fn begins(&self, now: Nanos) -> Nanos {
        let held = self.at(now);
        if self.0[held].1 != Pace::Stopped {
            return now;
        }
        let later = self.0[held..].iter().find(|(_, pace)| *pace != Pace::Stopped);
        later.map_or(Nanos::MAX, |(at, _)| *at)
    }

    fn ends(&self, from: Nanos, bytes: u64) -> Nanos {
        let (mut now, mut left) = (from, bytes as f64);
        for index in self.at(from)..self.0.len() {
            let until = self.0.get(index + 1).map_or(Nanos::MAX, |(at, _)| *at);
            if let Pace::NanosPerByte(pace) = self.0[index].1 {
                let end = now.saturating_add((left * pace).round() as Nanos);
                if end <= until {
                    return end;
                }
                left -= (until - now) as f64 / pace;
            }
            now = until;
        }
        Nanos::MAX
    }
}

/// A recording of opportunities to send.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    ms: Vec<u32>,
    /// How many opportunities were begun to be used, or passed.
    used: u64,
    /// Bytes that the last of them still has.
    left: u64,
}

impl Trace {
    fn new(ms: &[u32]) -> Trace {
        Trace { ms: ms.to_vec(), used: 0, left: 0 }
    }

    fn period(&self) -> u64 {
        self.ms.last().copied().unwrap_or(1).into()
    }

    /// When the n-th opportunity is.
    fn time(&self, number: u64) -> Nanos {
        let length = self.ms.len() as u64;
        let within = self.ms[(number % length) as usize];
        (number / length * self.period() + u64::from(within)) * NANOS_PER_MS
    }

    /// The first unused opportunity at or after `now`.
    fn first_from(&self, now: Nanos) -> u64 {
        let ms = now.div_ceil(NANOS_PER_MS);
        // The end of one repetition is the beginning of the next one.
        let cycle = (ms / self.period()).saturating_sub(1);
        let first = [cycle, cycle + 1].into_iter().find_map(|cycle| {
            let offset = ms - (cycle * self.period()).min(ms);
            let within = self.ms.partition_point(|at| u64::from(*at) < offset);
            (within < self.ms.len()).then(|| cycle * self.ms.len() as u64 + within as u64)
        });
        let first = first.unwrap_or((cycle + 2) * self.ms.len() as u64);
        first.max(self.used)
    }

    fn has_left(&self, now: Nanos) -> bool {
        self.left > 0 && self.time(self.used - 1) == now
    }

    fn begins(&self, now: Nanos) -> Nanos {
        if self.has_left(now) { now } else { self.time(self.first_from(now)) }
    }

    fn ends(&mut self, from: Nanos, bytes: u64) -> Nanos {
        if !self.has_left(from) {
            self.used = self.first_from(from) + 1;
            self.left = OPPORTUNITY_BYTES;
        }
        let more = bytes.saturating_sub(self.left).div_ceil(OPPORTUNITY_BYTES);
        self.used += more;
        self.left = self.left + more * OPPORTUNITY_BYTES - bytes;
        self.time(self.used - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Direction, Handover};

    const MS: Nanos = NANOS_PER_MS;
    const SECOND: Nanos = 1_000 * MS;

    fn rate(direction: Direction) -> Rate {
        Rate::of(&direction).expect("a rate")
    }

    fn trace(ms: &[u32]) -> Rate {
        let trace = plan::Trace { ms: ms.to_vec(), ..plan::Trace::default() };
        rate(Direction { trace: Some(trace), ..Direction::default() })
    }

    /// The ends of packets sent one after the other from `now` on.
    fn ends(rate: &mut Rate, mut now: Nanos, sizes: &[u64]) -> Vec<Nanos> {
        let send = |bytes: &u64| {
            now = rate.ends(rate.begins(now), *bytes);
            now
        };
        sizes.iter().map(send).collect()
    }

    #[test]
    fn a_packet_across_a_step_is_sent_at_both_rates() {
        // 8 Mbit/s is a byte a µs, 1 Mbit/s one in 8.
        let mut rate =
            rate(Direction { rates: vec![(0.0, 8.0), (1.0, 1.0)], ..Direction::default() });
        assert_eq!(ends(&mut rate, 0, &[1_000]), [MS]);
        assert_eq!(ends(&mut rate, SECOND - MS / 2, &[1_000]), [SECOND + 4 * MS]);
        assert_eq!(ends(&mut rate, 2 * SECOND, &[1_000]), [2 * SECOND + 8 * MS]);
    }

    #[test]
    fn nothing_begins_while_the_rate_is_zero_and_what_has_begun_goes_on_after_it() {
        let steps = vec![(0.0, 8.0), (1.0, 0.0), (3.0, 8.0)];
        let mut rate = rate(Direction { rates: steps, ..Direction::default() });
        assert_eq!(rate.begins(2 * SECOND), 3 * SECOND);
        assert_eq!(ends(&mut rate, SECOND - MS / 4, &[1_000]), [3 * SECOND + 3 * MS / 4]);
    }

    #[test]
    fn a_handover_stops_the_link_and_may_change_its_rate() {
        let handover = Handover { at_s: 1.0, outage_ms: 200.0, ..Handover::default() };
        let with = |handover| {
            rate(Direction {
                rate_mbit: Some(8.0),
                handovers: vec![handover],
                ..Direction::default()
            })
        };
        let mut same = with(handover);
        assert_eq!(same.begins(SECOND + 50 * MS), SECOND + 200 * MS);
        assert_eq!(ends(&mut same, SECOND, &[1_000]), [SECOND + 201 * MS]);
        let mut slower = with(Handover { rate_mbit: Some(1.0), ..handover });
        assert_eq!(ends(&mut slower, SECOND, &[1_000]), [SECOND + 208 * MS]);
    }

    #[test]
    fn a_handover_between_steps_keeps_the_step_that_would_hold() {
        let mut rate = rate(Direction {
            rates: vec![(0.0, 8.0), (1.1, 1.0), (5.0, 8.0)],
            handovers: vec![Handover { at_s: 1.0, outage_ms: 200.0, ..Handover::default() }],
            ..Direction::default()
        });
        assert_eq!(ends(&mut rate, SECOND, &[1_000]), [SECOND + 208 * MS]);
        assert_eq!(ends(&mut rate, 5 * SECOND, &[1_000]), [5 * SECOND + MS]);
    }

    #[test]
    fn an_outage_alone_lets_everything_through_at_once_before_and_after() {
        let handovers = vec![Handover { at_s: 1.0, outage_ms: 200.0, ..Handover::default() }];
        let mut rate = rate(Direction { handovers, ..Direction::default() });
        assert_eq!(ends(&mut rate, 5, &[1_500, 1_500]), [5, 5]);
        assert_eq!(ends(&mut rate, SECOND, &[1_500, 1_500]), [SECOND + 200 * MS; 2]);
    }

    #[test]
    fn each_opportunity_of_a_trace_sends_1504_bytes_and_small_packets_share_one() {
        let mut full = trace(&[1, 2, 2, 5]);
        assert_eq!(ends(&mut full, 0, &[1504; 5]), [1, 2, 2, 5, 6].map(|ms| ms * MS));
        let mut small = trace(&[1, 2, 2, 5]);
        assert_eq!(
            ends(&mut small, 0, &[500; 5]),
            [1, 1, 1, 2, 2].map(|ms| ms * MS),
            "4 bytes are left"
        );
        let mut large = trace(&[1, 2, 2, 5]);
        assert_eq!(ends(&mut large, 0, &[3_000, 1_500]), [2 * MS, 2 * MS]);
    }

    #[test]
    fn an_opportunity_that_nobody_uses_is_lost() {
        let mut rate = trace(&[1, 2, 3, 10]);
        assert_eq!(ends(&mut rate, 2 * MS + 1, &[100]), [3 * MS]);
        assert_eq!(ends(&mut rate, 3 * MS + 1, &[100]), [10 * MS], "and what was left of it, too");
    }

    #[test]
    fn a_trace_repeats_from_its_last_time_on() {
        let mut rate = trace(&[0, 4, 10]);
        let times = ends(&mut rate, 0, &[1504; 8]);
        assert_eq!(times, [0, 4, 10, 10, 14, 20, 20, 24].map(|ms| ms * MS));
        assert_eq!(trace(&[0, 4, 10]).begins(3_601 * SECOND + 1), (3_601_000 + 4) * MS);
    }
}

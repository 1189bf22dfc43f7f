//! What is wrong with the elements of a direction that go beyond one rate and one queue.

use super::problem::{Problem, Problems};
use super::varying::{check_handovers, check_steps};
use super::{Direction, Kind};

/// More in a row is taken for a mistake.
const MOST_STAGES: usize = 64;

impl Direction {
    /// Problems of its discipline, of what changes over time, of cross traffic and of its list of
    /// stages, by key, as the table `at`; the stages themselves are to be looked at one by one.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Problems::below(at);
        if let Some(discipline) = &self.discipline {
            problems.found.extend(discipline.problems(&format!("{at}.discipline")));
            if !self.can_wait() {
                problems.add("discipline", "without a rate nothing waits", "set `rate_mbit`");
            }
        }
        self.varying_problems(&mut problems);
        if let Some(cross) = &self.cross {
            cross.problems(&mut problems);
            self.cross_problems(&mut problems);
        }
        if self.stages.len() >= MOST_STAGES {
            let what = format!("{} stages", self.stages.len() + 1);
            problems.add("stages", what, format!("give at most {}", MOST_STAGES - 1));
        }
        for (index, stage) in self.stages.iter().enumerate() {
            if !stage.stages.is_empty() {
                let key = format!("stages.{index}.stages");
                problems.add(&key, "stages of a stage", "put all into one list, in their order");
            }
        }
        problems.found
    }

    /// Whether packets may wait for the link.
    pub fn can_wait(&self) -> bool {
        self.rate_mbit.is_some()
            || !self.rates.is_empty()
            || self.trace.is_some()
            || !self.handovers.is_empty()
    }

    fn varying_problems(&self, problems: &mut Problems<'_>) {
        let given = [
            ("rate_mbit", self.rate_mbit.is_some()),
            ("rates", !self.rates.is_empty()),
            ("trace", self.trace.is_some()),
        ];
        let given: Vec<&str> = given.iter().filter(|(_, is)| *is).map(|(key, _)| *key).collect();
        if let [first, second, ..] = given[..] {
            problems.add(second, format!("is a rate, and so is `{first}`"), "keep one of them");
        }
        check_steps("rates", &self.rates, (0.0, 100_000.0, "Mbit/s"), problems);
        if self.rates.last().is_some_and(|(_, mbit)| *mbit == 0.0) {
            let what = "the last is 0, and what waits would never leave";
            problems.add("rates", what, "let a last step have a rate above 0");
        }
        for (index, (_, mbit)) in self.rates.iter().enumerate() {
            if *mbit > 0.0 && *mbit < 0.001 {
                let remedy = "give 0, or a number from 0.001 to 100000 Mbit/s";
                problems.add(&format!("rates.{index}.1"), format!("{mbit} is impossible"), remedy);
            }
        }
        check_steps("delays", &self.delays, (0.0, 60_000.0, "ms"), problems);
        if !self.delays.is_empty() && self.delay_ms != 0.0 {
            problems.add("delays", "is a delay, and so is `delay_ms`", "keep one of them");
        }
        check_handovers(&self.handovers, problems);
        if let Some(trace) = &self.trace {
            trace.problems(problems);
            if !self.handovers.is_empty() {
                let what = "a trace has its own outages and rates";
                problems.add("handovers", what, "remove `trace` or `handovers`");
            }
        }
    }

    fn cross_problems(&self, problems: &mut Problems<'_>) {
        if !self.can_wait() {
            problems.add("cross", "without a rate it takes nothing", "set `rate_mbit`");
        }
        let unlimited = self.queue_packets.is_none() && self.queue_bytes.is_none();
        let kind = self.discipline.as_ref().map_or(Kind::DropTail, |discipline| discipline.kind);
        if unlimited && kind == Kind::DropTail {
            let what = "could fill a queue without a limit for ever";
            problems.add("cross", what, "set `queue_packets` or `queue_bytes`");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{Cross, Direction, Discipline, Handover, Kind, Trace};

    fn said(direction: Direction) -> String {
        let problems = direction.problems("path.up");
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn what_can_be_emulated_is_no_problem() {
        let rated = Direction { rate_mbit: Some(1.0), ..Direction::default() };
        let threshold = Discipline {
            ecn: Some(false),
            ce_threshold_ms: Some(1.0),
            ..Discipline::of(Kind::FqCodel)
        };
        for direction in [
            Direction { discipline: Some(Discipline::of(Kind::Pie)), ..rated.clone() },
            Direction { discipline: Some(threshold), ..rated.clone() },
            Direction { rates: vec![(0.0, 0.0), (1.0, 2.0)], ..Direction::default() },
            Direction {
                trace: Some(Trace { ms: vec![0, 0, 3], ..Trace::default() }),
                ..Direction::default()
            },
            Direction {
                handovers: vec![Handover { outage_ms: 10.0, ..Handover::default() }],
                ..Direction::default()
            },
            Direction {
                cross: Some(Cross { rate_mbit: 2.0, ..Cross::default() }),
                queue_packets: Some(1),
                ..rated
            },
        ] {
            assert_eq!(said(direction), "");
        }
    }

    #[test]
    fn each_problem_names_its_key_and_the_remedy() {
        let none = Direction::default;
        let rated = || Direction { rate_mbit: Some(1.0), ..none() };
        let discipline = |kind| Some(Discipline::of(kind));
        let trace = |ms: &[u32]| Some(Trace { ms: ms.to_vec(), ..Trace::default() });
        let handover = |at_s, outage_ms| Handover { at_s, outage_ms, ..Handover::default() };
        let cross = |rate_mbit| Some(Cross { rate_mbit, ..Cross::default() });
        let target = Discipline { target_ms: Some(-1.0), ..Discipline::of(Kind::Codel) };
        for (direction, says) in [
            (
                Direction { discipline: discipline(Kind::Codel), ..none() },
                "path.up.discipline: without a rate nothing waits; set `rate_mbit`",
            ),
            (
                Direction { discipline: Some(target), ..rated() },
                "path.up.discipline.target_ms: -1 is impossible; give a number from 0.001 to",
            ),
            (
                Direction { rates: vec![(0.0, 1.0)], ..rated() },
                "path.up.rates: is a rate, and so is `rate_mbit`; keep one of them",
            ),
            (Direction { rates: vec![(1.0, 1.0)], ..none() }, "let the first begin at 0 s"),
            (
                Direction { rates: vec![(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)], ..none() },
                "path.up.rates: 2 s does not follow 2 s; give steps in the order of time",
            ),
            (
                Direction { rates: vec![(0.0, 1.0), (2.0, 0.0)], ..none() },
                "what waits would never leave",
            ),
            (
                Direction { rates: vec![(0.0, f64::NAN)], ..none() },
                "path.up.rates.0.1: NaN is impossible",
            ),
            (
                Direction { delays: vec![(0.0, 70_000.0)], ..none() },
                "path.up.delays.0.1: 70000 is impossible; give a number from 0 to 60000 ms",
            ),
            (Direction { trace: trace(&[]), ..none() }, "has no opportunity to send; set `file`"),
            (Direction { trace: trace(&[3, 1]), ..none() }, "path.up.trace: 1 follows 3"),
            (Direction { trace: trace(&[0, 0]), ..none() }, "it would never end to repeat"),
            (
                Direction { handovers: vec![handover(1.0, 500.0), handover(1.2, 1.0)], ..none() },
                "path.up.handovers.1.at_s: begins before the one before it has ended",
            ),
            (
                Direction { handovers: vec![handover(1.0, -1.0)], ..none() },
                "path.up.handovers.0.outage_ms: -1 is impossible",
            ),
            (Direction { cross: cross(1.0), ..none() }, "without a rate it takes nothing"),
            (
                Direction { cross: cross(1.0), ..rated() },
                "path.up.cross: could fill a queue without a limit for ever; set `queue_packets`",
            ),
            (
                Direction { cross: cross(0.0), queue_packets: Some(1), ..rated() },
                "path.up.cross.rate_mbit: 0 is impossible",
            ),
            (
                Direction { stages: vec![Direction { stages: vec![none()], ..none() }], ..none() },
                "path.up.stages.0.stages: stages of a stage; put all into one list",
            ),
        ] {
            let said = said(direction);
            assert!(said.contains(says), "{said:?} does not say {says:?}");
        }
    }
}

//! What becomes of a connection: pure, from what was seen of it and the policy.

use std::time::Instant;

use transom_event::Reason;
use transom_guard::{Hurt, Verdict};

use crate::contract::{Seen, Wish};
use crate::policy::{Policy, Rule, Stability};
use crate::stability::WindowFalls;

/// ESTABLISHED and CLOSE_WAIT: there may be more to send.
const SENDING: [u32; 2] = [1, 8];

/// What we know of one connection from look to look.
#[derive(Debug, Default)]
pub struct Tracker {
    /// Number of the rule in force, from 1.
    rule: Option<u8>,
    since: Option<Instant>,
    falls: WindowFalls,
    verdict: Option<Verdict>,
}

/// What does not belong to the connection.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    pub now: Instant,
    /// 0 = not known.
    pub terminals: u32,
    /// Of the guard of its path.
    pub verdict: Verdict,
}

impl Tracker {
    /// The rule in force, from 1.
    pub fn rule(&self) -> Option<u8> {
        self.rule
    }

    /// What is to be done now, if anything.
    pub fn decide(&mut self, seen: &Seen, policy: &Policy, around: Surroundings) -> Option<Wish> {
        self.meet(seen, policy, around.now);
        let stability = self.falls.look(around.now, seen.cwnd, &policy.stability);
        // Who has chosen an algorithm since ours keeps it.
        if !SENDING.contains(&seen.tcp_state) || seen.chose_itself() {
            return None;
        }
        // Somebody else took it back: it is applied again.
        if self.rule.is_some() && seen.tuned.wish.restore == 1 && !seen.is_touched() {
            self.rule = None;
        }
        let next = policy.rules.iter().enumerate().find(|&(at, rule)| {
            let number = at as u8 + 1;
            let stays = self.rule == Some(number);
            seen.rules & (1 << at) != 0
                && allowed(rule, around.verdict)
                && (holds(rule, seen, stability, around.terminals, stays)
                    || (stays && self.is_held(policy, around.now)))
        });
        let before = self.verdict.replace(around.verdict);
        let number = next.map(|(at, _)| at as u8 + 1);
        if number == self.rule {
            return None;
        }
        let withdrawn = self.rule.is_some_and(|rule| {
            let rule = policy.rules.get(usize::from(rule) - 1);
            rule.is_some_and(|rule| !allowed(rule, around.verdict))
        });
        let left = self.rule.unwrap_or(0);
        self.rule = number;
        self.since = Some(around.now);
        // Who lost its rule because it is unstable does not become stable by that.
        if number.is_some() {
            self.falls.restart();
        }
        let reason = match (around.verdict, next) {
            (Verdict::Withdrawn(Hurt::Loss), _) if withdrawn => Reason::GuardLoss,
            (Verdict::Withdrawn(Hurt::Inflation), _) if withdrawn => Reason::GuardInflation,
            (Verdict::Withdrawn(Hurt::Share), _) if withdrawn => Reason::GuardShare,
            (_, None) => Reason::RuleOver,
            (Verdict::Allowed, Some((_, rule)))
                if rule.treatment.is_aggressive()
                    && matches!(before, Some(Verdict::Withdrawn(_))) =>
            {
                Reason::GuardRetry
            }
            (_, Some((_, rule))) if rule.matching.stability == Some(Stability::Unstable) => {
                Reason::Unstable
            }
            _ => Reason::RuleMatched,
        };
        Some(match next {
            Some((at, rule)) => rule.treatment.wish(at as u8 + 1, reason),
            None => Wish::restore(left, reason),
        })
    }

    /// The kernel may have applied a rule when the connection was new, or somebody by hand.
    fn meet(&mut self, seen: &Seen, policy: &Policy, now: Instant) {
        if self.since.is_some() {
            return;
        }
        self.since = Some(now);
        if !seen.is_touched() {
            return;
        }
        let wish = &seen.tuned.wish;
        self.rule = match wish.rule {
            0 => {
                let same = |rule: &Rule| rule.treatment.is_of(wish);
                policy.rules.iter().position(same).map(|at| at as u8 + 1)
            }
            rule => Some(rule),
        };
    }

    fn is_held(&self, policy: &Policy, now: Instant) -> bool {
        self.since.is_some_and(|since| now - since < policy.hold)
    }
}

fn allowed(rule: &Rule, verdict: Verdict) -> bool {
    verdict == Verdict::Allowed || !rule.treatment.is_aggressive()
}

/// What changes while a connection lives. For the rule in force, ranges are wider.
fn holds(rule: &Rule, seen: &Seen, stability: Stability, terminals: u32, stays: bool) -> bool {
    let matching = &rule.matching;
    let rtt = matching.rtt_us.is_none_or(|range| {
        let range = if stays { range.widened() } else { range };
        // A range of everything asks nothing, not even that there is a round trip.
        (range.least == 0 && range.most == u32::MAX)
            || seen.rtt_us().is_some_and(|rtt| range.holds(rtt))
    });
    rtt && matching.terminals.is_none_or(|range| terminals > 0 && range.holds(terminals))
        && matching.stability.is_none_or(|wanted| wanted == stability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::name16;
    use std::time::Duration;

    fn policy(text: &str) -> Policy {
        let algorithms = ["steady", "cubic", "reno"].map(String::from);
        Policy::parse(text, &algorithms).expect("a good policy")
    }

    fn seen(rtt_us: u32, cwnd: u32) -> Seen {
        Seen { rules: u64::MAX, tcp_state: 1, min_rtt_us: rtt_us, cwnd, ..Seen::default() }
    }

    struct Run {
        policy: Policy,
        tracker: Tracker,
        start: Instant,
        verdict: Verdict,
        terminals: u32,
    }

    impl Run {
        fn of(text: &str) -> Run {
            Run {
                policy: policy(text),
                tracker: Tracker::default(),
                start: Instant::now(),
                verdict: Verdict::Allowed,
                terminals: 0,
            }
        }

        /// Rule and reason of what is done at this second; rule 0 is the way back.
        fn at(&mut self, second: u64, seen: Seen) -> Option<(u8, Reason)> {
            let now = self.start + Duration::from_secs(second);
            let (terminals, verdict) = (self.terminals, self.verdict);
            let around = Surroundings { now, terminals, verdict };
            let wish = self.tracker.decide(&seen, &self.policy, around)?;
            let rule = if wish.restore == 1 { 0 } else { wish.rule };
            Some((rule, Reason::from_number(wish.reason.into()).expect("a reason")))
        }
    }

    const BY_RTT: &str = "[[rule]]\nmatch = { rtt = \"64ms..\" }\naction = { cap = 55 }\n[[rule]]\naction = { cap = 20 }";

    #[test]
    fn the_first_rule_that_holds_wins_and_nothing_is_done_twice() {
        let mut run = Run::of(BY_RTT);
        assert_eq!(run.at(0, seen(100_000, 10)), Some((1, Reason::RuleMatched)));
        assert_eq!(run.at(1, seen(100_000, 10)), None);
        let mut run = Run::of(BY_RTT);
        assert_eq!(run.at(0, seen(10_000, 10)), Some((2, Reason::RuleMatched)));
    }

    #[test]
    fn a_round_trip_about_the_edge_does_not_make_it_change_and_change() {
        let mut run = Run::of(BY_RTT);
        run.at(0, seen(65_000, 10));
        for second in 1..100 {
            let rtt = if second % 2 == 0 { 65_000 } else { 60_000 };
            assert_eq!(run.at(second, seen(rtt, 10)), None);
        }
        assert_eq!(run.at(100, seen(30_000, 10)), Some((2, Reason::RuleMatched)));
    }

    #[test]
    fn a_rule_is_held_for_its_time() {
        let mut run = Run::of(BY_RTT);
        run.at(0, seen(100_000, 10));
        assert_eq!(run.at(5, seen(10_000, 10)), None);
        assert_eq!(run.at(11, seen(10_000, 10)), Some((2, Reason::RuleMatched)));
    }

    const WHEN_UNSTABLE: &str =
        "[[rule]]\nmatch = { stability = \"unstable\" }\naction = { algorithm = \"steady\" }";

    #[test]
    fn an_unstable_connection_is_given_steady_and_has_its_own_back_when_it_is_stable() {
        let mut run = Run::of(WHEN_UNSTABLE);
        let windows = [40, 20, 30, 15];
        let told: Vec<_> =
            (0..4).map(|second| run.at(second, seen(100_000, windows[second as usize]))).collect();
        assert_eq!(told, [None, None, None, Some((1, Reason::Unstable))]);
        assert_eq!(run.at(8, seen(100_000, 40)), None);
        assert_eq!(run.at(30, seen(100_000, 40)), Some((0, Reason::RuleOver)));
    }

    #[test]
    fn who_loses_a_rule_by_being_unstable_is_stable_only_after_its_time() {
        let mut run = Run::of(
            "[[rule]]\nmatch = { stability = \"stable\" }\naction = { algorithm = \"cubic\" }",
        );
        assert_eq!(run.at(0, seen(100_000, 40)), Some((1, Reason::RuleMatched)));
        for (second, cwnd) in [(1, 40), (12, 20), (13, 30)] {
            assert_eq!(run.at(second, seen(100_000, cwnd)), None);
        }
        assert_eq!(run.at(14, seen(100_000, 15)), Some((0, Reason::RuleOver)));
        for second in 15..=22 {
            assert_eq!(run.at(second, seen(100_000, 20)), None, "{second} s");
        }
        assert_eq!(run.at(23, seen(100_000, 20)), Some((1, Reason::RuleMatched)));
    }

    #[test]
    fn terminals_that_are_not_known_match_no_number() {
        let mut run = Run::of("[[rule]]\nmatch = { terminals = \"..4\" }\naction = { cap = 55 }");
        assert_eq!(run.at(0, seen(100_000, 10)), None);
        run.terminals = 3;
        assert_eq!(run.at(1, seen(100_000, 10)), Some((1, Reason::RuleMatched)));
    }

    #[test]
    fn the_guard_takes_the_aggressive_rule_away_and_gives_it_back() {
        let mut run = Run::of(
            "[[rule]]\naction = { algorithm = \"steady\", target = 70 }\n[[rule]]\naction = { cap = 20 }",
        );
        assert_eq!(run.at(0, seen(100_000, 10)), Some((1, Reason::RuleMatched)));
        run.verdict = Verdict::Withdrawn(Hurt::Loss);
        assert_eq!(run.at(1, seen(100_000, 10)), Some((2, Reason::GuardLoss)));
        assert_eq!(run.at(2, seen(100_000, 10)), None);
        run.verdict = Verdict::Allowed;
        assert_eq!(run.at(40, seen(100_000, 10)), Some((1, Reason::GuardRetry)));
    }

    #[test]
    fn what_the_kernel_did_to_a_new_connection_is_not_done_again() {
        let mut run = Run::of(BY_RTT);
        let mut new = seen(100_000, 10);
        new.tuned.algorithm[0] = b'r';
        new.tuned.wish.rule = 1;
        assert_eq!(run.at(0, new), None);
    }

    #[test]
    fn what_somebody_else_took_back_is_done_again() {
        let mut run = Run::of(BY_RTT);
        run.at(0, seen(100_000, 10));
        let mut taken = seen(100_000, 10);
        taken.tuned.wish = Wish::restore(0, Reason::Cleared);
        assert_eq!(run.at(1, taken), Some((1, Reason::RuleMatched)));
    }

    #[test]
    fn a_program_that_has_chosen_its_own_algorithm_since_keeps_it() {
        let mut run = Run::of(
            "[[rule]]\naction = { algorithm = \"steady\", target = 70 }\n[[rule]]\naction = { cap = 20 }",
        );
        run.at(0, seen(100_000, 10));
        let mut chosen = seen(100_000, 10);
        chosen.tuned.algorithm = name16("reno");
        chosen.tuned.wish.algorithm = name16("steady");
        chosen.open.algorithm = name16("cubic");
        run.verdict = Verdict::Withdrawn(Hurt::Loss);
        assert_eq!(run.at(1, chosen), None);
        chosen.tuned.refused = 1;
        assert_eq!(run.at(2, chosen), Some((2, Reason::GuardLoss)), "the kernel's choice is not");
    }

    #[test]
    fn a_connection_that_closes_is_left_alone() {
        let mut run = Run::of(BY_RTT);
        let closing = Seen { tcp_state: 4, ..seen(100_000, 10) };
        assert_eq!(run.at(0, closing), None);
    }
}

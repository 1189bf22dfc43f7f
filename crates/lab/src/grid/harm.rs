//! What a policy did to a path, by the simulator's own account, and what its guard made of it. Pure.
//!
//! The guard sees round trips and retransmissions of one terminal, ten times a second. Here the
//! bottleneck's queue itself is looked at, a hundred times a second.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transom_emulator::log::QueueSeries;
use transom_guard::{EACH, GuardSettings, Hurt, LOSS_TIMES};
use transom_scenario::{GuardLook, GuardOutcome};

use super::draw::Point;

/// Within so many round trips a policy that does harm is withdrawn.
pub const ROUND_TRIPS: f64 = 10.0;
/// Of the queue's record, s.
const STEP_S: f64 = 0.01;
/// Bits of a full packet.
const PACKET_BITS: f64 = 12_000.0;
/// Fewer segments than this say nothing about loss.
const LEAST_SEGMENTS: u64 = 20;
/// Round trips until a terminal knows that a queue is gone.
const LATE: f64 = 2.0;

/// A bound of the policy that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Queue,
    Loss,
}

/// A time in which a bound was broken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub bound: Bound,
    pub from_s: f64,
    pub to_s: f64,
    pub rtt_s: f64,
}

/// What became of a terminal's policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// No bound was broken for long, and nothing was withdrawn.
    Kept,
    /// Withdrawn so long after a bound was broken.
    Caught { bound: Bound, seconds: f64, round_trips: f64, at_s: f64 },
    /// A bound was broken for longer than the guard may take, and nothing was withdrawn.
    Missed { bound: Bound },
    /// Withdrawn though neither the queue nor the losses had broken a bound.
    Alarm { hurt: Hurt, at_s: f64 },
}

/// How long the guard may take where ten round trips are shorter, s.
pub fn floor_s(bound: Bound, settings: &GuardSettings) -> f64 {
    let lasts = match bound {
        Bound::Queue => settings.after,
        Bound::Loss => LOSS_TIMES * settings.after,
    };
    (lasts + 2 * EACH).as_secs_f64()
}

impl Stretch {
    fn is_long(&self, settings: &GuardSettings) -> bool {
        let least = (ROUND_TRIPS * self.rtt_s).max(floor_s(self.bound, settings));
        self.to_s - self.from_s >= least
    }

    /// Whether it is what a terminal saw when its policy was withdrawn.
    fn explains(&self, at_s: f64, settings: &GuardSettings) -> bool {
        let rtt = Duration::from_secs_f64(self.rtt_s);
        let lasts = match self.bound {
            Bound::Queue => settings.queue_lasts(rtt),
            Bound::Loss => settings.loss_lasts(rtt),
        };
        let late = LATE * self.rtt_s + 2.0 * EACH.as_secs_f64();
        self.to_s + late >= at_s && at_s - self.from_s >= lasts.as_secs_f64() / 2.0
    }
}

/// When the queue before the bottleneck was longer than it may be, while a terminal sent: who does
/// not send neither sees a queue nor keeps it up.
pub fn queues(
    series: &QueueSeries,
    looks: &[GuardLook],
    point: &Point,
    settings: &GuardSettings,
) -> Vec<Stretch> {
    let segment_us = PACKET_BITS * f64::from(point.flows()) / point.capacity_mbit();
    let bound_s = settings.queue_us(point.rtt_ms * 1e3, segment_us) / 1e6;
    let base_s = point.rtt_ms / 1e3;
    let wait_s = |packets: u32| f64::from(packets) * PACKET_BITS / (point.rate_mbit * 1e6);
    let rests_s = base_s + bound_s + 2.0 * EACH.as_secs_f64();
    let mut found: Vec<Stretch> = Vec::new();
    let mut waits = (0.0, 0.0);
    let (mut next, mut looked) = (0, 0);
    let end_s = looks.last().map_or(0.0, |look| look.at_s);
    for n in 0..(end_s / STEP_S) as usize {
        let now = n as f64 * STEP_S;
        while series.at_s.get(next).is_some_and(|at| *at <= now) {
            next += 1;
        }
        while looks.get(looked).is_some_and(|look| look.at_s <= now) {
            looked += 1;
        }
        let wait = next.checked_sub(1).map_or(0.0, |at| wait_s(series.packets[at]));
        let sends = looked.checked_sub(1).is_some_and(|at| now - looks[at].at_s <= rests_s);
        if wait < bound_s || !sends {
            continue;
        }
        // What goes for less than a round trip no terminal sees go.
        match found.last_mut() {
            Some(last) if now - last.to_s <= base_s + bound_s + STEP_S => last.to_s = now,
            _ => {
                waits = (0.0, 0.0);
                found.push(Stretch { bound: Bound::Queue, from_s: now, to_s: now, rtt_s: 0.0 });
            }
        }
        waits = (waits.0 + wait, waits.1 + 1.0);
        if let Some(last) = found.last_mut() {
            last.rtt_s = base_s + waits.0 / waits.1;
        }
    }
    found
}

/// How long a terminal had been sending, s, at each of its looks: a pause longer than a round trip
/// does not count.
struct Sending(Vec<(f64, f64)>);

impl Sending {
    fn of(looks: &[GuardLook], rtt_s: f64) -> Sending {
        let most = rtt_s.max(EACH.as_secs_f64());
        let mut clock: Vec<(f64, f64)> = Vec::new();
        for look in looks {
            let &(at, sum) = clock.last().unwrap_or(&(look.at_s, 0.0));
            clock.push((look.at_s, sum + (look.at_s - at).min(most)));
        }
        Sending(clock)
    }

    /// At this time of the run.
    fn at(&self, at_s: f64) -> f64 {
        let before = self.0.iter().rev().find(|(at, _)| *at <= at_s + 1e-9);
        before.map_or(0.0, |(_, sum)| *sum)
    }
}

/// When a terminal retransmitted more than it may, in its own time of sending: from the first to the
/// last retransmission of what is too much.
pub fn losses(looks: &[GuardLook], rtt_s: f64, settings: &GuardSettings) -> Vec<Stretch> {
    let span = settings.loss_lasts(Duration::from_secs_f64(rtt_s)).as_secs_f64();
    let each = EACH.as_secs_f64();
    let Sending(clock) = Sending::of(looks, rtt_s);
    let mut found: Vec<Stretch> = Vec::new();
    let (mut first, mut before) = (0, GuardLook::default());
    for (n, (look, (_, now))) in looks.iter().zip(&clock).enumerate() {
        while clock[first].1 < now - span - each / 2.0 {
            (first, before) = (first + 1, looks[first]);
        }
        let sent = look.sent - before.sent;
        let again = (look.retransmitted - before.retransmitted) as f64;
        let is_whole = *now >= span - 2.0 * each;
        if !is_whole || sent < LEAST_SEGMENTS || again / sent as f64 <= settings.loss {
            continue;
        }
        let mut last = before.retransmitted;
        let mut grew = (first..=n).filter(|at| {
            let grew = looks[*at].retransmitted > last;
            last = looks[*at].retransmitted;
            grew
        });
        let Some(from_s) = grew.next().map(|at| clock[at].1) else { continue };
        let to_s = grew.last().map_or(from_s, |at| clock[at].1);
        match found.last_mut() {
            Some(last) if from_s <= last.to_s => last.to_s = to_s,
            _ => found.push(Stretch { bound: Bound::Loss, from_s, to_s, rtt_s }),
        }
    }
    found
}

/// Of one terminal, by the first withdrawal. Losses are in the terminal's time of sending.
pub fn fate(
    outcome: &GuardOutcome,
    stretches: &[Stretch],
    rtt_s: f64,
    settings: &GuardSettings,
) -> Fate {
    let first = outcome.actions.iter().find_map(|it| Some((it.at_s, it.withdrawn?)));
    let Some((at_s, hurt)) = first else {
        let long = stretches.iter().filter(|it| it.is_long(settings));
        let bound = long.map(|it| it.bound).min();
        return bound.map_or(Fate::Kept, |bound| Fate::Missed { bound });
    };
    let sending = Sending::of(&outcome.looks, rtt_s);
    let after = |it: &&Stretch| match it.bound {
        Bound::Queue => at_s - it.from_s,
        Bound::Loss => sending.at(at_s) - it.from_s,
    };
    let before = stretches.iter().filter(|it| after(it) > 0.0);
    let harm =
        before.filter(|it| it.explains(it.from_s + after(it), settings) || it.is_long(settings));
    // What was seen first, in whatever time, is what it was withdrawn for.
    let Some(harm) = harm.max_by(|a, b| after(a).total_cmp(&after(b))) else {
        return Fate::Alarm { hurt, at_s };
    };
    let seconds = after(&harm);
    // A path without any delay still has its queue.
    let round_trips = seconds / harm.rtt_s.max(1e-3);
    Fate::Caught { bound: harm.bound, seconds, round_trips, at_s }
}

impl Fate {
    /// Within ten round trips, or the floor.
    pub fn is_in_time(&self, settings: &GuardSettings) -> bool {
        match self {
            Fate::Caught { bound, seconds, round_trips, .. } => {
                *round_trips <= ROUND_TRIPS || *seconds <= floor_s(*bound, settings)
            }
            _ => false,
        }
    }

    /// The bound that was broken.
    pub fn bound(&self) -> Option<Bound> {
        match self {
            Fate::Caught { bound, .. } | Fate::Missed { bound } => Some(*bound),
            Fate::Kept | Fate::Alarm { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use transom_scenario::GuardAction;

    use super::super::draw::Loss;
    use super::*;

    /// 12 Mbit/s, so a packet is a millisecond; 50 ms.
    fn point() -> Point {
        let file = include_str!("../../../../experiments/grid/senders.toml");
        let grid = super::super::Grid::parse(std::path::Path::new("x.toml"), file).unwrap();
        let drawn = super::super::draw::points(&grid, 1).remove(0);
        Point {
            rate_mbit: 12.0,
            rtt_ms: 50.0,
            terminals: 1,
            competes: None,
            loss: Loss::None,
            ..drawn
        }
    }

    fn settings() -> GuardSettings {
        GuardSettings::default()
    }

    /// Fifty segments a look for 20 s, of which this share is retransmitted.
    fn busy(share: f64) -> Vec<GuardLook> {
        let look = |n: u32| {
            let sent = u64::from(n) * 50;
            let retransmitted = (sent as f64 * share) as u64;
            GuardLook { at_s: f64::from(n) * 0.1, sent, retransmitted }
        };
        (0..200).map(look).collect()
    }

    fn queue(lengths: &[(f64, u32)]) -> Vec<Stretch> {
        let (at_s, packets) = lengths.iter().copied().unzip();
        let series = QueueSeries { name: "path up".to_owned(), at_s, packets };
        queues(&series, &busy(0.0), &point(), &settings())
    }

    fn withdrawn(at_s: f64) -> GuardOutcome {
        let action = GuardAction { at_s, withdrawn: Some(Hurt::Inflation), srtt_us: 100_000 };
        GuardOutcome { actions: vec![action], looks: busy(0.0) }
    }

    fn judged(outcome: &GuardOutcome, stretches: &[Stretch]) -> Fate {
        fate(outcome, stretches, 0.05, &settings())
    }

    #[test]
    fn a_queue_that_stands_begins_when_it_passes_the_bound_and_ends_when_it_is_gone() {
        let stretches = queue(&[(0.0, 0), (2.0, 29), (3.0, 50), (7.0, 5)]);
        assert_eq!(stretches.len(), 1);
        assert!((stretches[0].from_s - 3.0).abs() < 0.02 && (stretches[0].to_s - 7.0).abs() < 0.02);
        assert!((stretches[0].rtt_s - 0.1).abs() < 1e-6, "50 ms of path and 50 of queue");
        let dip = queue(&[(3.0, 50), (4.0, 0), (4.05, 50), (7.0, 0)]);
        assert_eq!(dip.len(), 1, "gone for less than a round trip");
        assert_eq!(queue(&[(3.0, 50), (4.0, 0), (4.2, 50), (7.0, 0)]).len(), 2);
    }

    #[test]
    fn a_withdrawal_is_in_time_late_or_false_and_harm_without_one_is_missed() {
        let stood = queue(&[(3.0, 50), (12.0, 0)]);
        let quick = judged(&withdrawn(3.9), &stood);
        let Fate::Caught { bound, round_trips, .. } = quick else { panic!("{quick:?}") };
        assert_eq!(bound, Bound::Queue);
        assert!((round_trips - 9.0).abs() < 0.2 && quick.is_in_time(&settings()));
        assert!(!judged(&withdrawn(6.0), &stood).is_in_time(&settings()), "30 round trips");
        let is_alarm = |fate| matches!(fate, Fate::Alarm { hurt: Hurt::Inflation, .. });
        assert!(is_alarm(judged(&withdrawn(2.0), &stood)), "before there was a queue");
        let short = queue(&[(3.0, 50), (3.3, 0)]);
        assert!(is_alarm(judged(&withdrawn(3.2), &short)), "too early to know");
        let nothing = GuardOutcome::default();
        assert_eq!(judged(&nothing, &stood), Fate::Missed { bound: Bound::Queue });
        assert_eq!(judged(&nothing, &queue(&[(3.0, 50), (3.9, 0)])), Fate::Kept, "not for long");
    }

    #[test]
    fn a_terminal_that_rests_keeps_up_no_queue() {
        let series = QueueSeries { name: String::new(), at_s: vec![3.0], packets: vec![50] };
        let rests = |look: &GuardLook| !(6.0..12.0).contains(&look.at_s);
        let looks: Vec<GuardLook> = busy(0.0).into_iter().filter(rests).collect();
        let stretches = queues(&series, &looks, &point(), &settings());
        assert_eq!(stretches.len(), 2, "{stretches:?}");
        assert!(stretches[1].from_s >= 12.0);
    }

    #[test]
    fn losses_are_those_of_the_terminal_over_two_seconds() {
        let found = losses(&busy(0.1), 0.05, &settings());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].from_s < 0.15 && found[0].to_s > 19.8);
        assert_eq!(losses(&busy(0.04), 0.05, &settings()), []);
        let caught = judged(&withdrawn(2.1), &found);
        assert!(caught.is_in_time(&settings()), "{caught:?}: the floor of losses is 2.2 s");
        let rests = |look: &GuardLook| look.at_s % 2.0 < 0.45;
        let transfers: Vec<GuardLook> = busy(0.1).into_iter().filter(rests).collect();
        let found = losses(&transfers, 0.05, &settings());
        assert!(found[0].to_s < 6.0, "it sent for no longer: {found:?}");
        let mut burst = busy(0.0);
        burst.iter_mut().filter(|look| look.at_s >= 5.0).for_each(|look| look.retransmitted = 100);
        let burst = losses(&burst, 0.05, &settings());
        assert!(burst.iter().all(|it| !it.is_long(&settings())), "a burst is over: {burst:?}");
    }
}

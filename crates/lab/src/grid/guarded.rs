//! What the guard made of the policies of a grid. Pure: results → counts.

use serde::{Deserialize, Serialize};
use transom_guard::GuardSettings;

use super::draw::Point;
use super::file::{Guarding, Under};
use super::harm::{Bound, Fate};
use super::numbers::Numbers;
use super::results::{AtPoint, Results, Which};
use crate::claims::interval;
use crate::measure::median;

/// Share of a full packet that is payload, with timestamps.
const PAYLOAD: f64 = 1448.0 / 1500.0;

/// Of one policy under one guard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub policy: String,
    /// Runs of terminals, and runs.
    pub terminals: usize,
    pub runs: usize,
    /// Terminals in whose run a bound was broken.
    pub queue: Caught,
    pub loss: Caught,
    /// Terminals at points where the policy leaves a competitor less than the bound, and no other
    /// bound was broken.
    pub share: Caught,
    /// Terminals that break no bound, those of them that were withdrawn, and the 95 % interval of
    /// that share.
    pub inside: usize,
    pub alarms: usize,
    pub alarms_interval: Option<(f64, f64)>,
}

/// Of the terminals that broke one bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caught {
    pub harmful: usize,
    pub withdrawn: usize,
    pub in_time: usize,
    /// Medians and 95th percentiles of the time until then, in round trips and s.
    pub round_trips: Option<(f64, f64)>,
    pub seconds: Option<(f64, f64)>,
}

/// What is measured with and without the guard, at points where the policy does harm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub policy: String,
    /// Points where it leaves a competitor less than the bound, and medians of what that gets of its
    /// fair share: without the guard, with it, and beside the algorithm of before.
    pub shares: (usize, [f64; 3]),
    /// Points where a queue stands for long, and medians of the median wait, ms.
    pub queues: (usize, [f64; 3]),
    /// Points where too much is lost, and medians of the retransmitted share.
    pub losses: (usize, [f64; 3]),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    pub rows: Vec<Row>,
    pub effects: Vec<Effect>,
}

/// None: the grid asks nothing of guards.
pub fn judge(results: &Results) -> Option<Guarded> {
    let guard = results.grid.guard.as_ref()?;
    // A grid with wrong bounds is refused.
    let bounds = guard.bounds().unwrap_or_default();
    let rows = guard.policies.iter().flat_map(|policy| {
        let of = |under: Under| {
            let is_there = results.grid.algorithms.contains_key(&under.of(policy));
            is_there.then(|| row(results, (guard, &bounds), policy, under))
        };
        Under::ADDED.into_iter().filter_map(of)
    });
    let effects = guard.policies.iter().map(|policy| effect(results, (guard, &bounds), policy));
    Some(Guarded { rows: rows.collect(), effects: effects.collect() })
}

/// What the grid asks of guards, and their bounds.
type Watching<'a> = (&'a Guarding, &'a GuardSettings);

fn competitor(results: &Results, at: &AtPoint, name: &str) -> Option<f64> {
    results.mean(at, (name, Which::First), |it| it.competitor_mbit)
}

/// What a competitor gets ÷ its fair share: what it gets beside the algorithm of before, or an equal
/// share of the bottleneck, if that is less.
fn of_fair(results: &Results, guard: &Guarding, at: &AtPoint, name: &str) -> Option<f64> {
    let point: &Point = &at.point;
    let equal = point.capacity_mbit() * PAYLOAD / f64::from(point.flows());
    let fair = competitor(results, at, &guard.before)?.min(equal);
    Some(competitor(results, at, name)? / fair).filter(|it| it.is_finite())
}

fn starves(results: &Results, guard: Watching<'_>, at: &AtPoint, policy: &str) -> bool {
    of_fair(results, guard.0, at, policy).is_some_and(|it| it < guard.1.share)
}

fn fates<'a>(at: &'a AtPoint, name: &str) -> impl Iterator<Item = &'a [Fate]> + use<'a> {
    let runs = at.runs.get(name).map(Vec::as_slice).unwrap_or_default();
    runs.iter().flatten().map(|numbers| numbers.guarded.as_slice())
}

/// Counts terminals that broke one bound.
#[derive(Default)]
struct Counted {
    harmful: usize,
    in_time: usize,
    took: Vec<(f64, f64)>,
}

impl Counted {
    fn done(self) -> Caught {
        let of = |number: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = self.took.iter().map(number).collect();
            all.sort_by(f64::total_cmp);
            let most = all.get((all.len() * 95).div_ceil(100).saturating_sub(1)).copied();
            Some((median(&all)?, most?))
        };
        Caught {
            harmful: self.harmful,
            withdrawn: self.took.len(),
            in_time: self.in_time,
            round_trips: of(|it| it.0),
            seconds: of(|it| it.1),
        }
    }
}

fn row(results: &Results, guard: Watching<'_>, policy: &str, under: Under) -> Row {
    let name = under.of(policy);
    let [mut queue, mut loss, mut share] = [(); 3].map(|()| Counted::default());
    let mut row = Row { policy: name.clone(), ..Row::default() };
    for at in &results.points {
        let starves = starves(results, guard, at, policy);
        for run in fates(at, &name) {
            row.runs += 1;
            for fate in run {
                row.terminals += 1;
                let (counted, took) = match fate {
                    Fate::Caught { bound, round_trips, seconds, .. } => {
                        let of = if *bound == Bound::Queue { &mut queue } else { &mut loss };
                        (of, Some((*round_trips, *seconds)))
                    }
                    Fate::Missed { bound: Bound::Queue } => (&mut queue, None),
                    Fate::Missed { bound: Bound::Loss } => (&mut loss, None),
                    // A competitor has been there from the first second on.
                    Fate::Alarm { at_s, .. } if starves => {
                        let seconds = (*at_s - super::point::STARTS_S).max(0.0);
                        let rtt = (at.point.rtt_ms / 1e3).max(1e-3);
                        (&mut share, Some((seconds / rtt, seconds)))
                    }
                    Fate::Kept if starves => (&mut share, None),
                    Fate::Alarm { .. } => {
                        row.alarms += 1;
                        row.inside += 1;
                        continue;
                    }
                    Fate::Kept => {
                        row.inside += 1;
                        continue;
                    }
                };
                counted.harmful += 1;
                counted.took.extend(took);
                counted.in_time += usize::from(fate.is_in_time(guard.1));
            }
        }
    }
    row.alarms_interval = interval::of_share(row.alarms, row.inside);
    (row.queue, row.loss, row.share) = (queue.done(), loss.done(), share.done());
    row
}

fn effect(results: &Results, guard: Watching<'_>, policy: &str) -> Effect {
    let names = [policy.to_owned(), Under::Guard.of(policy), guard.0.before.clone()];
    let medians = |values: Vec<[f64; 3]>| {
        let of = |n: usize| median(&values.iter().map(|it| it[n]).collect::<Vec<_>>());
        (values.len(), [0, 1, 2].map(|n| of(n).unwrap_or(f64::NAN)))
    };
    let of_each = |at: &AtPoint, number: &dyn Fn(&AtPoint, &str) -> Option<f64>| {
        Some([number(at, &names[0])?, number(at, &names[1])?, number(at, &names[2])?])
    };
    let starved = results.points.iter().filter(|at| starves(results, guard, at, policy));
    let share = |at: &AtPoint, name: &str| of_fair(results, guard.0, at, name);
    let broke = |at: &&AtPoint, bound: Bound| {
        fates(at, &names[1]).any(|run| run.iter().any(|fate| fate.bound() == Some(bound)))
    };
    let of_bound = |bound: Bound, number: &dyn Fn(&AtPoint, &str) -> Option<f64>| {
        let points = results.points.iter().filter(|at| broke(at, bound));
        medians(points.filter_map(|at| of_each(at, number)).collect())
    };
    let plain = |number: fn(&Numbers) -> f64| {
        move |at: &AtPoint, name: &str| {
            results.mean(at, (name, Which::First), |it| Some(number(it)))
        }
    };
    Effect {
        policy: policy.to_owned(),
        shares: medians(starved.filter_map(|at| of_each(at, &share)).collect()),
        queues: of_bound(Bound::Queue, &plain(|it| it.queue_p50_ms)),
        losses: of_bound(Bound::Loss, &plain(|it| 100.0 * it.retransmitted)),
    }
}

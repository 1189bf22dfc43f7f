//! Whether an algorithm holds what a grid file asks of it. Pure: results → verdicts.

use serde::{Deserialize, Serialize};

use super::draw::Point;
use super::numbers::Numbers;
use super::results::{AtPoint, Results, Which};
use crate::claims::interval;
use crate::measure::{mean, median};

/// Share of a full packet that is payload, with timestamps.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// Waits below this are no queue, ms: it is added to both of two that are compared.
const NO_QUEUE_MS: f64 = 1.0;

/// How the subject did at a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtOne {
    pub number: u32,
    /// Which yardstick was the best.
    pub best: String,
    /// Goodput ÷ the best yardstick's, means over repeats, and the 95 % interval of the repeats'
    /// own ratios.
    pub goodput: f64,
    pub interval: Option<(f64, f64)>,
    /// The best yardstick's own goodput with other seeds ÷ its first.
    pub again: Option<f64>,
    /// The same, where those yardsticks do not count that leave a competitor less than is asked of
    /// the subject.
    pub fair_goodput: f64,
    /// Of the competitor with the algorithm of `fair`: goodput ÷ its fair share, beside the subject
    /// and beside the algorithm of `beside`.
    pub competitor: Option<f64>,
    pub competitor_beside: Option<f64>,
    /// And beside the algorithm of `fair` itself, with other seeds.
    pub competitor_again: Option<f64>,
    /// Median waits in the queue, the subject's and of `beside`, ms.
    pub queue_ms: f64,
    pub queue_beside_ms: f64,
    pub retransmitted: f64,
    pub retransmitted_beside: f64,
    pub jain: f64,
}

impl AtOne {
    /// The subject's queue ÷ that of `beside`, where both are none 1.
    pub fn queue(&self) -> f64 {
        (self.queue_ms + NO_QUEUE_MS) / (self.queue_beside_ms + NO_QUEUE_MS)
    }
}

/// One of the things that a grid is judged by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    pub text: String,
    /// A share of the points, or a median over them.
    pub number: f64,
    /// 95 %.
    pub interval: Option<(f64, f64)>,
    pub points: usize,
    /// What the number must be; none: it is shown beside another.
    pub wanted: Option<Wanted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Met,
    NotMet,
    /// The bound lies in the interval.
    Undecided,
}

impl Criterion {
    /// None: nothing is asked of it.
    pub fn verdict(&self) -> Option<Verdict> {
        let (low, high) = self.interval.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        Some(match self.wanted? {
            Wanted::AtLeast(bound) if low >= bound => Verdict::Met,
            Wanted::AtLeast(bound) if high < bound => Verdict::NotMet,
            Wanted::AtMost(bound) if high <= bound => Verdict::Met,
            Wanted::AtMost(bound) if low > bound => Verdict::NotMet,
            _ => Verdict::Undecided,
        })
    }
}

/// Some of the points: those with one value of a dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub dimension: String,
    pub value: String,
    pub points: usize,
    /// How many have the goodput that is wanted, and the median of the ratio.
    pub goodput_met: usize,
    pub goodput: f64,
    /// How many competitors have what is wanted, of how many.
    pub competitor_met: (usize, usize),
    /// Median of the ratio of queues.
    pub queue: f64,
    pub retransmitted: f64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub at: Vec<AtOne>,
    pub criteria: Vec<Criterion>,
    pub groups: Vec<Group>,
}

/// Points at which the subject or a yardstick has no number are left out.
pub fn judge(results: &Results) -> Judgement {
    let judged: Vec<(&Point, AtOne)> =
        results.points.iter().filter_map(|at| Some((&at.point, one(results, at)?))).collect();
    Judgement {
        criteria: criteria(results, &judged),
        groups: groups(results, &judged),
        at: judged.into_iter().map(|(_, at)| at).collect(),
    }
}

fn one(results: &Results, at: &AtPoint) -> Option<AtOne> {
    let judge = &results.grid.judge;
    let (subject, beside) = (judge.subject.as_str(), judge.beside.as_str());
    let goodput = |name: &str, which| results.mean(at, (name, which), |it| Some(it.goodput_mbit));
    let own = goodput(subject, Which::First)?;
    let yardsticks = judge.yardsticks.iter().map(|it| Some((goodput(it, Which::First)?, it)));
    let yardsticks: Vec<(f64, &String)> = yardsticks.collect::<Option<_>>()?;
    let greatest = |a: &&(f64, &String), b: &&(f64, &String)| a.0.total_cmp(&b.0);
    let &(yardstick, best) = yardsticks.iter().max_by(greatest)?;
    let plain = |name, number: fn(&Numbers) -> f64| {
        results.mean(at, (name, Which::First), |it| Some(number(it)))
    };
    let point = &at.point;
    let share = point.capacity_mbit() * PAYLOAD / f64::from(point.flows());
    let competitor = |name: &str, which| results.mean(at, (name, which), |it| it.competitor_mbit);
    let is_fair = point.competes.as_deref() == algorithm(results, &judge.fair);
    let fair = competitor(&judge.fair, Which::First).filter(|_| is_fair).map(|it| it.min(share));
    let of_fair =
        |name: &str, which| Some(competitor(name, which)? / fair?).filter(|it| it.is_finite());
    let leaves_its_share =
        |it: &&(f64, &String)| of_fair(it.1, Which::First).is_none_or(|it| it >= judge.competitor);
    let fair_yardstick = yardsticks.iter().filter(leaves_its_share).max_by(greatest);
    let pair = (subject, best.as_str());
    Some(AtOne {
        number: point.number,
        best: best.clone(),
        goodput: ratio(own, yardstick),
        interval: interval::of_mean(&results.ratios(at, pair, |it| it.goodput_mbit)),
        again: goodput(best, Which::Again).map(|again| ratio(again, yardstick)),
        fair_goodput: ratio(own, fair_yardstick.map_or(yardstick, |it| it.0)),
        competitor: of_fair(subject, Which::First),
        competitor_beside: of_fair(beside, Which::First),
        competitor_again: of_fair(&judge.fair, Which::Again),
        queue_ms: plain(subject, |it| it.queue_p50_ms)?,
        queue_beside_ms: plain(beside, |it| it.queue_p50_ms)?,
        retransmitted: plain(subject, |it| it.retransmitted)?,
        retransmitted_beside: plain(beside, |it| it.retransmitted)?,
        jain: plain(subject, |it| it.jain)?,
    })
}

/// Where nobody gets anything, nobody is worse.
fn ratio(of: f64, over: f64) -> f64 {
    if over > 0.0 { of / over } else { 1.0 }
}

fn algorithm<'a>(results: &'a Results, name: &str) -> Option<&'a str> {
    results.grid.algorithms.get(name).map(|it| it.algorithm.as_str())
}

fn criteria(results: &Results, judged: &[(&Point, AtOne)]) -> Vec<Criterion> {
    let judge = &results.grid.judge;
    let (subject, beside) = (&judge.subject, &judge.beside);
    let best = judge.yardsticks.join(", ");
    let all = || judged.iter().map(|(_, at)| at);
    let weak = || judged.iter().filter(|(point, _)| point.has_weak_moments()).map(|(_, at)| at);
    let points = Some(Wanted::AtLeast(judge.points));
    let values = |of: fn(&AtOne) -> Option<f64>| all().filter_map(of).collect::<Vec<f64>>();
    let goodputs = values(|at| Some(at.goodput));
    let surely_less = |at: &&AtOne| at.interval.is_some_and(|(_, high)| high < judge.goodput);
    let less = all().filter(surely_less).count();
    let weak: Vec<f64> = weak().map(|at| at.goodput).collect();
    let (least, kept) = (judge.goodput, judge.competitor);
    let name = &judge.fair;
    vec![
        share(
            format!("points where goodput of {subject} ÷ best of {best} ≥ {least}"),
            &goodputs,
            least,
            points,
        ),
        share(
            "the same of the best itself, with other seeds".to_owned(),
            &values(|at| at.again),
            least,
            None,
        ),
        share(
            "the same, against the best of those that leave a competitor its share".to_owned(),
            &values(|at| Some(at.fair_goodput)),
            least,
            None,
        ),
        Criterion {
            text: format!("points where it is surely less than {least}"),
            number: less as f64 / goodputs.len().max(1) as f64,
            interval: interval::of_share(less, goodputs.len()),
            points: goodputs.len(),
            wanted: None,
        },
        of_median(format!("median of goodput of {subject} ÷ best of {best}"), &goodputs, None),
        of_median(
            "the same of points with weak moments".to_owned(),
            &weak,
            Some(Wanted::AtLeast(judge.goodput_weak)),
        ),
        share(
            format!("points where a competing {name} keeps ≥ {kept} of its fair share"),
            &values(|at| at.competitor),
            kept,
            points,
        ),
        share(format!("the same beside {beside}"), &values(|at| at.competitor_beside), kept, None),
        share(
            format!("the same beside {name}, with other seeds"),
            &values(|at| at.competitor_again),
            kept,
            None,
        ),
        of_median(
            format!("median of the standing queue of {subject} ÷ that of {beside}"),
            &values(|at| Some(at.queue())),
            Some(Wanted::AtMost(1.0)),
        ),
    ]
}

fn share(text: String, values: &[f64], bound: f64, wanted: Option<Wanted>) -> Criterion {
    let met = values.iter().filter(|it| **it >= bound).count();
    let points = values.len();
    let interval = interval::of_share(met, points);
    Criterion { text, number: met as f64 / points.max(1) as f64, interval, points, wanted }
}

fn of_median(text: String, values: &[f64], wanted: Option<Wanted>) -> Criterion {
    let number = median(values).unwrap_or(f64::NAN);
    let interval = interval::of_median(values);
    Criterion { text, number, interval, points: values.len(), wanted }
}

/// What a dimension says of a point.
type Says = fn(&Point) -> String;

const DIMENSIONS: [(&str, Says); 7] = [
    ("terminals", |it| band(f64::from(it.terminals), &[1.0, 2.0, 5.0, 64.0], "")),
    ("RTT", |it| band(it.rtt_ms, &[0.0, 4.0, 16.0, 64.0, 256.0, 1e9], " ms")),
    ("rate", |it| band(it.rate_mbit, &[0.0, 5.0, 25.0, 100.0, 1e9], " Mbit/s")),
    ("queue", |it| it.queue.clone()),
    ("losses", |it| it.losses.clone()),
    ("competitor", |it| it.competitor.clone()),
    ("flows", |it| it.flows.clone()),
];

/// `16 to 64 ms`: from the first limit, below the second.
fn band(value: f64, limits: &[f64], unit: &str) -> String {
    let at = limits.iter().rposition(|limit| value >= *limit).unwrap_or(0);
    let low = limits[at];
    match limits.get(at + 1) {
        Some(high) if *high < 1e9 => format!("{low} to {high}{unit}"),
        _ => format!("{low}{unit} and more"),
    }
}

fn groups(results: &Results, judged: &[(&Point, AtOne)]) -> Vec<Group> {
    let mut groups = Vec::new();
    for (dimension, says) in DIMENSIONS {
        let mut values: Vec<(f64, String)> = Vec::new();
        for (point, _) in judged {
            let value = says(point);
            if !values.iter().any(|(_, known)| *known == value) {
                let first = value.split(' ').next().and_then(|it| it.parse().ok());
                values.push((first.unwrap_or(0.0), value));
            }
        }
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, value) in values {
            let these = judged.iter().filter(|(point, _)| says(point) == value).map(|(_, at)| at);
            groups.push(group(results, dimension, value.clone(), &these.collect::<Vec<_>>()));
        }
    }
    groups
}

fn group(results: &Results, dimension: &str, value: String, these: &[&AtOne]) -> Group {
    let judge = &results.grid.judge;
    let of =
        |number: fn(&AtOne) -> f64| -> Vec<f64> { these.iter().map(|it| number(it)).collect() };
    let competitors: Vec<f64> = these.iter().filter_map(|at| at.competitor).collect();
    let kept = competitors.iter().filter(|it| **it >= judge.competitor).count();
    Group {
        dimension: dimension.to_owned(),
        value,
        points: these.len(),
        goodput_met: these.iter().filter(|at| at.goodput >= judge.goodput).count(),
        goodput: median(&of(|it| it.goodput)).unwrap_or(f64::NAN),
        competitor_met: (kept, competitors.len()),
        queue: median(&of(AtOne::queue)).unwrap_or(f64::NAN),
        retransmitted: mean(&of(|it| it.retransmitted)).unwrap_or(f64::NAN),
    }
}

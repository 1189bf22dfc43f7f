//! The lever that helps most: of all that was predicted, what can be set on the machines of both
//! ends, what it costs others, and how it is set.

mod how;
pub mod text;

use serde::Serialize;

use crate::change::{Lift, Steady};
use crate::interval::Interval;
use crate::model::Model;
use crate::policy::For;
use crate::whatif::{Prediction, WhatIf};

/// What the sender's machine has, so far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Congestion control that connections can be given now.
    pub algorithms: Vec<String>,
    /// What a module that is not loaded would add.
    pub modules: Vec<String>,
    /// `net.ipv4.tcp_wmem`: least, initial and largest automatic send buffer, bytes.
    pub send_memory: Option<[u64; 3]>,
}

/// Where a lever is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// `transom tune` on this machine.
    Tune,
    /// A sysctl of this machine.
    Sysctl,
    /// A sysctl of the receiver's machine.
    Receiver,
    /// Nothing that is set: a program, a device, or a kernel without the algorithm.
    Elsewhere,
}

/// What a gain costs others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Harm {
    /// A CUBIC flow beside it gets less than beside the recorded setting, and less than its half.
    Share { cubic_mbit: f64, instead_of_mbit: f64 },
    /// The queue that everybody waits in is longer than the recorded setting or CUBIC would make it;
    /// 95th percentiles of the round trip.
    Queue { rtt_p95_s: f64, instead_of_s: f64 },
}

/// One thing to set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lever {
    pub label: String,
    pub place: Place,
    /// Times the recorded goodput.
    pub gain: Interval,
    /// The path was never filled: it is at least the lower end of `gain`.
    pub is_least: bool,
    pub goodput_mbit: Interval,
    pub rtt_p95_s: Interval,
    pub harms: Vec<Harm>,
    /// Whether the harm was simulated.
    pub is_judged: bool,
    /// What does it, one line each.
    pub commands: Vec<String>,
    /// On what it depends.
    pub conditions: Vec<String>,
    /// What shows afterwards whether it did.
    pub verification: Vec<String>,
    /// A file for `transom tune apply`.
    pub policy: Option<String>,
}

impl Lever {
    pub fn is_harmless(&self) -> bool {
        self.harms.is_empty()
    }
}

/// What came of the question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// Gains below this share count for nothing.
    pub least_gain: f64,
    /// What surely helps and can be set, the best first.
    pub levers: Vec<Lever>,
    /// Shorter round trips at no loss of goodput, where the recorded ones stood in a queue.
    pub for_delay: Option<Lever>,
    /// What would help and cannot be set here.
    pub elsewhere: Vec<Lever>,
    /// What may well help, and it is not known whether it does.
    pub undecided: Vec<Undecided>,
    /// Whether all levers were simulated, as often as usual.
    pub complete: bool,
    /// Levers of which no simulation was finished.
    pub skipped: usize,
    /// What no simulation shows.
    pub advice: Vec<String>,
}

/// A lever whose gain the simulations leave open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undecided {
    pub label: String,
    /// Times the recorded goodput.
    pub gain: Interval,
}

impl Suggestion {
    /// Whether the time was over before it was known if anything helps.
    pub fn is_too_short(&self) -> bool {
        let is_open = self.skipped > 0 || !self.complete && !self.undecided.is_empty();
        self.levers.is_empty() && self.elsewhere.is_empty() && is_open
    }
}

/// The algorithm that others are taken to have.
const COMPETING: &str = "cubic";
/// A CUBIC flow that gets less than this share of what it got is harmed …
const TAKEN: f64 = 0.8;
/// … if it gets less than its half by as much.
const LESS_THAN_HALF: f64 = 0.4;
/// A round trip that grows by this factor and so many s is a queue.
const LONGER: (f64, f64) = (1.25, 5e-3);
/// What is suggested for the delay takes away this share of the round trip …
const SHORTER: f64 = 0.75;
/// … and leaves this share of the goodput.
const KEPT: f64 = 0.95;

/// Ranks what was predicted.
pub fn suggest(of: &For, machine: &Machine, result: &WhatIf, least_gain: f64) -> Suggestion {
    let how = how::How { of, machine, model: &result.model };
    let lever = |it: &Prediction| lever(&how, it, result);
    let (levers, elsewhere): (Vec<Lever>, Vec<Lever>) = result
        .predictions
        .iter()
        .filter(|it| it.helps(least_gain))
        .map(lever)
        .partition(|it| it.place != Place::Elsewhere);
    let for_delay = shorter(result)
        .map(lever)
        .into_iter()
        .find(|it| it.place == Place::Tune && it.is_harmless())
        .filter(|it| levers.first().is_none_or(|best| best.label != it.label));
    let undecided = |it: &Prediction| Undecided { label: it.label.clone(), gain: it.gain };
    let undecided = result.undecided(least_gain).into_iter().map(undecided).collect();
    let (complete, skipped) = (result.complete, result.skipped);
    let advice = advice(&result.model, result);
    Suggestion { least_gain, levers, for_delay, elsewhere, undecided, complete, skipped, advice }
}

fn lever(how: &how::How, it: &Prediction, result: &WhatIf) -> Lever {
    let way = how.of(it);
    Lever {
        label: it.label.clone(),
        place: way.place,
        gain: it.gain,
        is_least: it.is_open,
        goodput_mbit: it.goodput_mbit,
        rtt_p95_s: it.rtt_p95_s,
        harms: harms(it, result),
        is_judged: it.others.is_some(),
        commands: way.commands,
        conditions: way.conditions,
        verification: way.verification,
        policy: way.policy,
    }
}

fn harms(it: &Prediction, result: &WhatIf) -> Vec<Harm> {
    let Some(unchanged) = &result.unchanged else { return Vec::new() };
    let mut harms = Vec::new();
    if let (Some(now), Some(before)) = (it.others, unchanged.others) {
        let takes = now.goodput_mbit < TAKEN * before.goodput_mbit && now.share < LESS_THAN_HALF;
        let share =
            Harm::Share { cubic_mbit: now.goodput_mbit, instead_of_mbit: before.goodput_mbit };
        harms.extend(takes.then_some(share));
    }
    let (now, before) = (it.rtt_p95_s.value, ordinary_s(result));
    let (factor, seconds) = LONGER;
    let queue = Harm::Queue { rtt_p95_s: now, instead_of_s: before };
    // What the algorithm does without a limit that is not its own is no harm that it was chosen for.
    let is_chosen = it.change.lift.is_none();
    harms.extend((is_chosen && now > factor * before + seconds).then_some(queue));
    harms
}

/// The 95th percentile of the round trip of the recorded setting, or with CUBIC if that is more: the
/// queue that a flow may be expected to fill.
fn ordinary_s(result: &WhatIf) -> f64 {
    let is_cubic = |it: &&Prediction| it.label == COMPETING;
    let cubic = result.predictions.iter().find(is_cubic);
    let all = result.unchanged.iter().chain(cubic);
    all.map(|it| it.rtt_p95_s.value).fold(0.0, f64::max)
}

/// The setting with the shortest round trips of those that keep the goodput.
fn shorter(result: &WhatIf) -> Option<&Prediction> {
    let unchanged = result.unchanged.as_ref()?;
    let is = |it: &&Prediction| {
        let keeps = it.gain.value >= KEPT * unchanged.gain.value && !it.is_open;
        keeps && it.rtt_p95_s.high < SHORTER * unchanged.rtt_p95_s.low && it.change.lift.is_none()
    };
    let by_rtt = |a: &&Prediction, b: &&Prediction| a.rtt_p95_s.value.total_cmp(&b.rtt_p95_s.value);
    result.predictions.iter().filter(is).min_by(by_rtt)
}

/// Round trips of so many times the path's own stand in a queue.
const BLOATED: f64 = 2.0;

fn advice(model: &Model, result: &WhatIf) -> Vec<String> {
    let (rtt_s, recorded_s) = (model.path.rtt_s.value, result.recorded.rtt_p95_s);
    if recorded_s < BLOATED * rtt_s || model.path.policer.is_some() {
        return Vec::new();
    }
    vec![format!(
        "Up to {:.0} ms of the round trip are spent in the queue of the bottleneck, which is not \
         this machine's. Queue management there (fq_codel, CAKE) removes them for everybody. ECN \
         (`sysctl -w net.ipv4.tcp_ecn=1` at both ends) helps only if that queue marks, which the \
         trace does not show: there is no prediction.",
        (recorded_s - rtt_s) * 1e3
    )]
}

/// The algorithm that a change needs and a kernel may lack; `steady` comes with `tune`.
fn needed(it: &Prediction) -> Option<&str> {
    it.change.algorithm.as_deref().filter(|name| *name != Steady::NAME)
}

/// Whether nobody but the program, or whoever owns the device, can move this limit.
fn is_elsewhere(lift: Lift) -> bool {
    matches!(lift, Lift::Application | Lift::Reader | Lift::Pacing | Lift::Device)
}

//! What a grid file says (`experiments/grid/*.toml`); `docs/grid.md` is its reference.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use transom_control::Policy;
use transom_emulator::plan::Discipline;
use transom_guard::GuardSettings;
use transom_output::text_up_to;

use super::point;
use crate::experiment::places::Places;
use crate::experiment::problem::{Problem, instead};
use crate::experiment::reworded;

/// Of a file that says what to run.
const MOST_MIB: u64 = 16;
/// More terminals have no addresses on the lab's link.
const MOST_TERMINALS: f64 = 64.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    pub title: String,
    pub question: String,
    /// Of the points, and of what happens at them.
    pub seed: u64,
    /// How many are drawn.
    pub points: u32,
    /// Runs of each algorithm at each point.
    pub repeats: u32,
    pub space: Space,
    #[serde(default)]
    pub cost: Cost,
    /// What is compared, by name.
    pub algorithms: BTreeMap<String, Algorithm>,
    pub judge: Judge,
    /// Policies that run under the guard, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarding>,
}

/// Which algorithms are policies that the guard watches over, and by which bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guarding {
    /// Names of algorithms that are `steady`. Each runs without the guard and with it.
    pub policies: Vec<String>,
    /// One of them, which also runs under a guard whose bounds allow everything.
    pub control: String,
    /// What the terminals had before: an algorithm of the grid.
    pub before: String,
    /// As in a policy's `[guard]`; what is absent has its default there.
    #[serde(default)]
    pub settings: Table,
}

/// How a policy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    NoGuard,
    Guard,
    /// The control.
    WideBounds,
}

impl Under {
    /// Those that are added to the grid's algorithms.
    pub const ADDED: [Under; 2] = [Under::Guard, Under::WideBounds];

    /// The name of a policy that runs so.
    pub fn of(self, policy: &str) -> String {
        match self {
            Under::NoGuard => policy.to_owned(),
            Under::Guard => format!("{policy}, guarded"),
            Under::WideBounds => format!("{policy}, wide bounds"),
        }
    }
}

impl Guarding {
    fn settings(&self, under: Under) -> Option<Table> {
        let mut settings = self.settings.clone();
        match under {
            Under::NoGuard => return None,
            Under::Guard => {}
            Under::WideBounds => {
                for (key, value) in [("loss", 1.0), ("inflation", 1000.0), ("share", 0.0)] {
                    settings.insert(key.into(), value.into());
                }
                settings.insert("delay".into(), "3600s".into());
            }
        }
        Some(settings)
    }
}

/// From, to: drawn log-uniformly between them. A range that begins at 0 is drawn from a thousandth
/// of its end, and what falls below twice that is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range(pub f64, pub f64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// Hosts that send with the algorithm under test.
    pub terminals: Range,
    /// Of the path without queues.
    pub rtt_ms: Range,
    /// Of the bottleneck, bytes from the IP header on.
    pub rate_mbit: Range,
    pub queue: BTreeMap<String, Queue>,
    pub losses: BTreeMap<String, Losses>,
    pub competitor: BTreeMap<String, Competitor>,
    pub flows: BTreeMap<String, Flows>,
}

/// Before the bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Drop-tail of so many bandwidth-delay products.
    pub bdp: Option<Range>,
    /// Or this discipline, with its default limit.
    pub discipline: Option<Discipline>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Losses {
    None {},
    /// Each terminal's data segments, independently, on its own link.
    Random {
        share: Range,
    },
    /// Terminals on 802.11n's air, each with fades of its own (`station.fading`).
    WeakMoments {
        every_ms: Range,
        lasts_ms: Range,
        errors: Range,
    },
    /// At the bottleneck, of this share of its rate.
    Policer {
        share: Range,
        burst_ms: Range,
    },
}

/// One bulk flow of a host without losses of its own, over the same bottleneck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    /// Absent: there is none.
    pub algorithm: Option<String>,
}

/// What each terminal sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Flows {
    Bulk {},
    /// Uploads of this size over one connection, each answered, with pauses.
    Short {
        bytes: Range,
        think_s: Range,
    },
    /// Bulk and silence in turns over one connection; means of exponential times.
    OnOff {
        on_s: Range,
        off_s: Range,
    },
}

/// How long a point is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cost {
    /// At least so long, s,
    pub seconds: f64,
    /// and so many round trips,
    pub round_trips: f64,
    /// and so many packets of the bottleneck for each flow;
    pub packets_per_flow: f64,
    /// but no more than so many packets of the bottleneck in all,
    pub most_packets: f64,
    /// unless that is fewer round trips than this.
    pub least_round_trips: f64,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost {
            seconds: 20.0,
            round_trips: 100.0,
            packets_per_flow: 300.0,
            most_packets: 300_000.0,
            least_round_trips: 40.0,
        }
    }
}

/// A congestion control as the terminals have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Algorithm {
    /// As in `net.ipv4.tcp_available_congestion_control`, or `steady`.
    pub algorithm: String,
    /// Parameters of `steady`, as in a policy's action.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub action: Table,
    /// `[guard]` of the policy; absent: the guard is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Table>,
    /// Of the terminals, without `net.`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
}

/// Who is judged against whom. Bounds are those that a point must meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judge {
    pub subject: String,
    /// The best of them is the yardstick of goodput.
    pub yardsticks: Vec<String>,
    /// The one whose standing queue, and whose treatment of a competitor, the subject's is held to.
    pub beside: String,
    /// What a competitor's fair share is: what it gets beside terminals with this algorithm, or an
    /// equal share of the bottleneck, if that is less.
    pub fair: String,
    /// Goodput ÷ the yardstick's.
    pub goodput: f64,
    /// The same, at the median of points with weak moments.
    pub goodput_weak: f64,
    /// A competitor's goodput ÷ its fair share.
    pub competitor: f64,
    /// Share of points that must meet a bound.
    pub points: f64,
}

impl Grid {
    /// # Errors
    /// If the file cannot be read or says something that cannot be: every problem with its line.
    pub fn load(path: &Path) -> Result<Grid> {
        let text = text_up_to(path, MOST_MIB)
            .with_context(|| format!("cannot read the grid {}", path.display()))?;
        Grid::parse(path, &text)
    }

    /// [`Grid::load`] of a text already read.
    ///
    /// # Errors
    /// As [`Grid::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Grid> {
        let places = Places::of(text)
            .map_err(|error| anyhow::anyhow!("{}: no TOML: {}", path.display(), error.message()))?;
        let told = |problems: &[Problem]| {
            let line = |p: &Problem| format!("{}:{}: {p}", path.display(), places.line(&p.key));
            problems.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        let grid: Grid = match toml::from_str(text) {
            Ok(grid) => grid,
            Err(error) => {
                let (what, remedy) = reworded(error.message());
                bail!(told(&[Problem::new(places.blamed(&error), what, remedy)]));
            }
        };
        let problems = grid.problems();
        ensure!(problems.is_empty(), "{}", told(&problems));
        Ok(grid)
    }

    /// With the algorithms that `guard` asks for: each policy once more, under the guard.
    #[must_use]
    pub fn with_guards(mut self) -> Grid {
        let Some(guard) = &self.guard else { return self };
        for policy in &guard.policies {
            for under in Under::ADDED {
                if under != Under::Guard && *policy != guard.control {
                    continue;
                }
                let mut guarded = self.algorithms[policy].clone();
                guarded.guard = guard.settings(under);
                self.algorithms.insert(under.of(policy), guarded);
            }
        }
        self
    }

    /// Runs of an algorithm at each point. A yardstick runs twice as often: the second half, with
    /// other seeds, shows what chance alone does to the best of them.
    pub fn runs_of(&self, algorithm: &str) -> u32 {
        let is_yardstick = self.judge.yardsticks.iter().any(|name| name == algorithm);
        self.repeats * if is_yardstick { 2 } else { 1 }
    }

    /// What cannot be, by key.
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        if self.points == 0 || self.repeats == 0 {
            found.push(Problem::new("points", "no point or no repeat", "give at least 1 of each"));
        }
        self.space.problems(&mut found);
        let Cost { seconds, round_trips, packets_per_flow, most_packets, least_round_trips } =
            self.cost;
        let all = [seconds, round_trips, packets_per_flow, most_packets, least_round_trips];
        if all.iter().any(|it| !(*it > 0.0 && it.is_finite())) {
            found.push(Problem::new("cost", "a number that is not above 0", "make it greater"));
        }
        for (name, algorithm) in &self.algorithms {
            if !algorithm.action.is_empty() && algorithm.algorithm != STEADY {
                let key = format!("algorithms.{name}.action");
                found.push(Problem::new(key, "only `steady` has parameters", "remove it"));
            }
        }
        self.judge.problems(&self.algorithms, &mut found);
        if let Some(guard) = &self.guard {
            guard.problems(&self.algorithms, &mut found);
        }
        found
    }
}

/// The algorithm that has parameters.
pub(super) const STEADY: &str = "steady";

impl Space {
    fn problems(&self, found: &mut Vec<Problem>) {
        self.terminals.problems("space.terminals", (1.0, MOST_TERMINALS), found);
        self.rtt_ms.problems("space.rtt_ms", (0.0, 10_000.0), found);
        self.rate_mbit.problems("space.rate_mbit", (0.01, 10_000.0), found);
        let sizes = [self.queue.len(), self.losses.len(), self.competitor.len(), self.flows.len()];
        for (key, size) in ["queue", "losses", "competitor", "flows"].iter().zip(sizes) {
            if size == 0 {
                found.push(Problem::new(
                    format!("space.{key}"),
                    "has no kind",
                    "give at least one",
                ));
            }
        }
        for (name, queue) in &self.queue {
            let key = format!("space.queue.{name}");
            match (&queue.bdp, &queue.discipline) {
                (Some(range), None) => range.problems(&(key + ".bdp"), (0.0, 1000.0), found),
                (None, Some(_)) => {}
                _ => found.push(Problem::new(key, "is no queue", "give `bdp` or `discipline`")),
            }
        }
        for (name, losses) in &self.losses {
            let key = |part: &str| format!("space.losses.{name}.{part}");
            match losses {
                Losses::None {} => {}
                Losses::Random { share } => share.problems(&key("share"), (0.0, 0.9), found),
                Losses::WeakMoments { every_ms, lasts_ms, errors } => {
                    every_ms.problems(&key("every_ms"), (1.0, 1e6), found);
                    lasts_ms.problems(&key("lasts_ms"), (1.0, every_ms.0), found);
                    errors.problems(&key("errors"), (0.0, 1.0), found);
                }
                Losses::Policer { share, burst_ms } => {
                    share.problems(&key("share"), (0.01, 1.0), found);
                    burst_ms.problems(&key("burst_ms"), (0.1, 10_000.0), found);
                }
            }
        }
        for (name, flows) in &self.flows {
            let key = |part: &str| format!("space.flows.{name}.{part}");
            match flows {
                Flows::Bulk {} => {}
                Flows::Short { bytes, think_s } => {
                    bytes.problems(&key("bytes"), (1.0, 1e9), found);
                    think_s.problems(&key("think_s"), (0.0, 1000.0), found);
                }
                Flows::OnOff { on_s, off_s } => {
                    on_s.problems(&key("on_s"), (0.001, 1000.0), found);
                    off_s.problems(&key("off_s"), (0.001, 1000.0), found);
                }
            }
        }
    }
}

impl Range {
    fn problems(self, key: &str, (least, most): (f64, f64), found: &mut Vec<Problem>) {
        let Range(low, high) = self;
        if !(least..=most).contains(&low) || !(low..=most).contains(&high) || high <= 0.0 {
            let what = format!("{low} to {high} is no range within {least} to {most}");
            found.push(Problem::new(key, what, "give [LOW, HIGH]"));
        }
    }
}

impl Guarding {
    /// The guard's bounds as a policy has them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn bounds(&self) -> Result<GuardSettings, Vec<Problem>> {
        let guard = Some(self.settings.clone());
        let steady = Algorithm { algorithm: STEADY.to_owned(), guard, ..Algorithm::default() };
        let problem = |what: String, remedy: String| Problem::new("guard.settings", what, remedy);
        let text = toml::to_string(&point::policy(&steady))
            .map_err(|error| vec![problem(error.to_string(), String::new())])?;
        let policy = Policy::parse(&text, &[steady.algorithm]);
        policy.map(|policy| policy.guard).map_err(|problems| {
            problems.into_iter().map(|it| problem(it.what, it.remedy)).collect()
        })
    }

    fn problems(&self, algorithms: &BTreeMap<String, Algorithm>, found: &mut Vec<Problem>) {
        found.extend(self.bounds().err().into_iter().flatten());
        let policies = self.policies.iter().map(|name| ("guard.policies", name, true));
        for (key, name, is_policy) in policies.chain([("guard.before", &self.before, false)]) {
            let what = match algorithms.get(name).map(|it| it.algorithm == STEADY) {
                Some(is_steady) if is_steady == is_policy => continue,
                None => format!("there is no algorithm \"{name}\" in [algorithms]"),
                Some(true) => format!("\"{name}\" is a policy itself"),
                Some(false) => format!("\"{name}\" is no policy: it is not `steady`"),
            };
            let known = algorithms.keys().map(String::as_str);
            found.push(Problem::new(key, what, instead(name, known)));
        }
        if !self.policies.contains(&self.control) {
            let what = format!("\"{}\" is none of `policies`", self.control);
            found.push(Problem::new("guard.control", what, "name one of them"));
        }
    }
}

impl Judge {
    fn problems(&self, algorithms: &BTreeMap<String, Algorithm>, found: &mut Vec<Problem>) {
        let known = || algorithms.keys().map(String::as_str);
        let mut named = vec![("subject", &self.subject), ("beside", &self.beside)];
        named.push(("fair", &self.fair));
        named.extend(self.yardsticks.iter().map(|name| ("yardsticks", name)));
        for (key, name) in named {
            if !algorithms.contains_key(name) {
                let what = format!("there is no algorithm \"{name}\" in [algorithms]");
                found.push(Problem::new(format!("judge.{key}"), what, instead(name, known())));
            }
        }
        if self.yardsticks.is_empty() {
            let remedy = "name at least one algorithm";
            found.push(Problem::new("judge.yardsticks", "nothing to compare with", remedy));
        }
    }
}

impl Algorithm {
    /// `NAME=ALGORITHM[,KEY=VALUE]…`: a key is a parameter of a policy's action (`backoff`), or a
    /// sysctl of the terminals, which has a dot.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<(String, Algorithm)> {
        let (name, rest) = text.split_once('=').with_context(|| {
            format!("'{text}' is no NAME=ALGORITHM: write mine=steady,backoff=0")
        })?;
        let mut parts = rest.split(',').map(str::trim);
        let algorithm = parts.next().unwrap_or_default().to_owned();
        ensure!(!name.is_empty() && !algorithm.is_empty(), "'{text}' lacks a name or an algorithm");
        let mut made = Algorithm { algorithm, ..Algorithm::default() };
        for part in parts {
            let (key, value) = part.split_once('=').with_context(|| {
                format!("'{part}' is no KEY=VALUE of '{name}': write backoff=0, for example")
            })?;
            let key = key.strip_prefix("net.").unwrap_or(key);
            if key.contains('.') {
                made.sysctl.insert(key.to_owned(), value.to_owned());
            } else {
                let number = value.parse::<i64>().ok().filter(|_| key != "backoff");
                let value = number.map_or_else(|| value.into(), Value::Integer);
                made.action.insert(key.to_owned(), value);
            }
        }
        Ok((name.to_owned(), made))
    }
}

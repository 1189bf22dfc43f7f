//! A policy out of its TOML file; the whole file is looked through before
//! anything is done, and every problem has its line.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use transom_event::Prefix;

use super::range::Range;
use super::syntax::{fraction, microseconds};
use super::{
    BACKOFF, GuardSettings, LEAST_RTT, Match, Policy, Problem, Rule, Stability, StabilitySettings,
    Treatment,
};
use crate::contract::{ONE, PROGRAMS, Parameters, RULES, VALUES};

/// Largest window that a rule may name, segments: 1.4 GB at the usual size.
const MOST_WINDOW: i64 = 1_000_000;
/// Most of an initial window, segments; an action event has eight bits for it.
const MOST_INITIAL: i64 = 255;
/// Most of the gain, segments a round trip.
const MOST_GAIN: f64 = 64.0;
/// A program's name, as the kernel keeps it.
const MOST_NAME: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    guard: Option<GuardTable>,
    stability: Option<StabilityTable>,
    hold: Option<Spanned<String>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GuardTable {
    #[serde(default = "yes")]
    on: bool,
    loss: Option<Spanned<f64>>,
    inflation: Option<Spanned<f64>>,
    after: Option<Spanned<String>>,
    retry: Option<Spanned<String>>,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StabilityTable {
    falls: Option<Spanned<i64>>,
    within: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    name: Option<String>,
    #[serde(default, rename = "match")]
    matching: MatchTable,
    action: ActionTable,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct MatchTable {
    cgroup: Option<PathBuf>,
    program: Option<Spanned<Some1<String>>>,
    port: Option<Spanned<Some1<i64>>>,
    remote: Option<Spanned<Some1<String>>>,
    interface: Option<String>,
    rtt: Option<Spanned<String>>,
    terminals: Option<Spanned<Number>>,
    stability: Option<Stability>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionTable {
    algorithm: Option<Spanned<String>>,
    target: Option<Spanned<i64>>,
    cap: Option<Spanned<i64>>,
    backoff: Option<Spanned<Number>>,
    gain: Option<Spanned<f64>>,
    initial_window: Option<Spanned<i64>>,
}

/// One value, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Some1<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> Some1<T> {
    fn all(&self) -> Vec<T> {
        match self {
            Some1::One(value) => vec![value.clone()],
            Some1::Many(values) => values.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Whole(i64),
    Real(f64),
    Text(String),
}

impl Number {
    fn text(&self) -> String {
        match self {
            Number::Whole(number) => number.to_string(),
            Number::Real(number) => number.to_string(),
            Number::Text(text) => text.clone(),
        }
    }
}

/// Gathers what is wrong, with its line.
struct Check<'a> {
    text: &'a str,
    algorithms: &'a [String],
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    fn wrong<T>(&mut self, at: &Spanned<T>, what: impl Into<String>, remedy: impl Into<String>) {
        let line = self.line(at.span().start);
        self.problems.push(Problem { line, what: what.into(), remedy: remedy.into() });
    }

    fn said<T, V: Default>(&mut self, at: &Spanned<T>, key: &str, result: Result<V, String>) -> V {
        result.unwrap_or_else(|error| {
            self.wrong(at, format!("{key}: {error}"), "");
            V::default()
        })
    }

    fn whole(&mut self, key: &str, value: &Option<Spanned<i64>>, least: i64, most: i64) -> u32 {
        let Some(value) = value else { return 0 };
        let number = *value.get_ref();
        if (least..=most).contains(&number) {
            return number as u32;
        }
        self.wrong(value, format!("{key} = {number}"), format!("give {least} to {most}"));
        0
    }

    fn duration(
        &mut self,
        key: &str,
        value: &Option<Spanned<String>>,
        not_said: Duration,
    ) -> Duration {
        let Some(value) = value else { return not_said };
        let parsed = match microseconds(value.get_ref()) {
            Ok(0) => Err(String::from("give a time such as 2s")),
            other => other,
        };
        let us: u32 = self.said(value, key, parsed);
        Duration::from_micros(us.into())
    }

    fn guard(&mut self, table: Option<GuardTable>) -> GuardSettings {
        let not_said = GuardSettings::default();
        let Some(table) = table else { return not_said };
        let mut settings = GuardSettings { on: table.on, ..not_said };
        if let Some(loss) = &table.loss {
            settings.loss = *loss.get_ref();
            if !(0.001..=1.0).contains(&settings.loss) {
                self.wrong(
                    loss,
                    format!("loss = {}", settings.loss),
                    "give a share from 0.001 to 1",
                );
            }
        }
        if let Some(inflation) = &table.inflation {
            settings.inflation = *inflation.get_ref();
            if !(1.1..=1000.0).contains(&settings.inflation) {
                let what = format!("inflation = {}", settings.inflation);
                self.wrong(inflation, what, "give a factor from 1.1 to 1000");
            }
        }
        settings.after = self.duration("after", &table.after, not_said.after);
        settings.retry = self.duration("retry", &table.retry, not_said.retry);
        settings
    }

    fn stability(&mut self, table: Option<StabilityTable>) -> StabilitySettings {
        let not_said = StabilitySettings::default();
        let Some(table) = table else { return not_said };
        let falls = match self.whole("falls", &table.falls, 1, 1000) {
            0 => not_said.falls,
            falls => falls,
        };
        StabilitySettings { falls, within: self.duration("within", &table.within, not_said.within) }
    }

    fn matching(&mut self, table: MatchTable) -> Match {
        let mut matching = Match {
            cgroup: table.cgroup,
            interface: table.interface,
            stability: table.stability,
            ..Match::default()
        };
        if let Some(programs) = &table.program {
            matching.programs = programs.get_ref().all();
            self.few(programs, "program", matching.programs.len(), PROGRAMS);
            for name in &matching.programs {
                if name.is_empty() {
                    self.wrong(programs, "program ''", "give the name of a program");
                } else if name.len() > MOST_NAME {
                    let remedy =
                        format!("the kernel keeps {MOST_NAME} bytes: write {}", kept(name));
                    self.wrong(programs, format!("program '{name}' is too long"), remedy);
                }
            }
        }
        if let Some(ports) = &table.port {
            self.few(ports, "port", ports.get_ref().all().len(), VALUES);
            for port in ports.get_ref().all() {
                match u16::try_from(port) {
                    Ok(port) if port > 0 => matching.ports.push(port),
                    _ => self.wrong(ports, format!("port {port}"), "give 1 to 65535"),
                }
            }
        }
        if let Some(remote) = &table.remote {
            self.few(remote, "remote", remote.get_ref().all().len(), VALUES);
            for prefix in remote.get_ref().all() {
                match prefix.parse::<Prefix>() {
                    Ok(prefix) => matching.prefixes.push(prefix),
                    Err(error) => {
                        let remedy = "give an address or a prefix such as 10.0.0.0/8";
                        self.wrong(remote, format!("remote: {error:#}"), remedy);
                    }
                }
            }
        }
        if let Some(rtt) = &table.rtt {
            let range = Range::parse(rtt.get_ref(), microseconds);
            matching.rtt_us = self.said(rtt, "rtt", range.map(Some));
        }
        if let Some(terminals) = &table.terminals {
            let count = |text: &str| match text.trim().parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("'{text}' is no number of terminals such as 4 or 2..4")),
            };
            let range = Range::parse(&terminals.get_ref().text(), count);
            matching.terminals = self.said(terminals, "terminals", range.map(Some));
        }
        matching
    }

    fn few<T>(&mut self, at: &Spanned<T>, key: &str, number: usize, most: usize) {
        if number == 0 || number > most {
            self.wrong(at, format!("{key} has {number} values"), format!("give 1 to {most}"));
        }
    }

    fn treatment(&mut self, table: ActionTable) -> Treatment {
        let mut parameters = Parameters {
            target: self.whole("target", &table.target, 2, MOST_WINDOW),
            cap: self.whole("cap", &table.cap, 2, MOST_WINDOW),
            backoff: BACKOFF,
            gain: ONE,
        };
        if let Some(backoff) = &table.backoff {
            let share = fraction(&backoff.get_ref().text());
            parameters.backoff = self.said(backoff, "backoff", share);
        }
        if let Some(gain) = &table.gain {
            let segments = *gain.get_ref();
            if !(1.0 / f64::from(ONE)..=MOST_GAIN).contains(&segments) {
                self.wrong(gain, format!("gain = {segments}"), "give segments a round trip, to 64");
            }
            parameters.gain = (segments * f64::from(ONE)) as u32;
        }
        if let (Some(cap), true) = (&table.cap, parameters.cap > 0)
            && parameters.target > parameters.cap
        {
            let what = format!("target {} is above the cap {}", parameters.target, parameters.cap);
            self.wrong(cap, what, "raise the cap or lower the target");
        }
        let algorithm = table.algorithm.as_ref().map(|name| self.algorithm(name));
        let is_steady = algorithm.as_deref() == Some(crate::steady::NAME);
        let of_steady = [
            ("target", table.target.as_ref().map(|value| value.span())),
            ("backoff", table.backoff.as_ref().map(|value| value.span())),
            ("gain", table.gain.as_ref().map(|value| value.span())),
        ];
        for (key, span) in of_steady {
            if let (Some(span), false) = (span, is_steady) {
                let line = self.line(span.start);
                let what = format!("{key} is a parameter of steady");
                let remedy = "add algorithm = \"steady\", or leave it out".into();
                self.problems.push(Problem { line, what, remedy });
            }
        }
        let initial_window = self.whole("initial_window", &table.initial_window, 1, MOST_INITIAL);
        Treatment { algorithm, parameters, initial_window }
    }

    fn algorithm(&mut self, name: &Spanned<String>) -> String {
        let wanted = name.get_ref();
        if !self.algorithms.contains(wanted) {
            let remedy = format!(
                "there are {}; a module brings others: modprobe tcp_{wanted}",
                self.algorithms.join(", ")
            );
            self.wrong(name, format!("the kernel has no algorithm '{wanted}'"), remedy);
        }
        wanted.clone()
    }

    fn rule(&mut self, at: Spanned<RuleTable>) -> Rule {
        let line = self.line(at.span().start);
        let table = at.into_inner();
        let mut matching = self.matching(table.matching);
        let action = &table.action;
        let does_something =
            action.algorithm.is_some() || action.cap.is_some() || action.initial_window.is_some();
        let treatment = self.treatment(table.action);
        if !does_something {
            let what = "the action does nothing".into();
            let remedy = "give algorithm, cap or initial_window".into();
            self.problems.push(Problem { line, what, remedy });
        }
        if treatment.is_aggressive() && matching.rtt_us.is_none() {
            let least = LEAST_RTT.as_micros() as u32;
            matching.rtt_us = Some(Range { least, most: u32::MAX });
        }
        Rule { name: table.name, line, matching, treatment }
    }
}

impl Policy {
    /// Reads a policy. `algorithms` are those that connections can be given.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the lines.
    pub fn parse(text: &str, algorithms: &[String]) -> Result<Policy, Vec<Problem>> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            let what = error.message().replace('\n', "; ");
            vec![Problem { line, what, remedy: "see docs/policy.md".into() }]
        })?;
        let mut check = Check { text, algorithms, problems: Vec::new() };
        let guard = check.guard(file.guard);
        let stability = check.stability(file.stability);
        let hold = check.duration("hold", &file.hold, Duration::from_secs(10));
        let rules: Vec<Rule> = file.rule.into_iter().map(|rule| check.rule(rule)).collect();
        check.problems.extend(of_the_whole(&rules));
        if !check.problems.is_empty() {
            check.problems.sort_by_key(|problem| problem.line);
            return Err(check.problems);
        }
        Ok(Policy { guard, stability, hold, rules })
    }
}

/// What the kernel keeps of a name, without half a letter at its end.
fn kept(name: &str) -> &str {
    let end = (0..=MOST_NAME).rev().find(|&end| name.is_char_boundary(end));
    &name[..end.unwrap_or(0)]
}

/// What no rule shows alone.
fn of_the_whole(rules: &[Rule]) -> Option<Problem> {
    let problem =
        |line, what: String, remedy: &str| Some(Problem { line, what, remedy: remedy.into() });
    if rules.is_empty() {
        return problem(0, "the policy has no rule".into(), "add [[rule]] with match and action");
    }
    if rules.len() > RULES {
        let line = rules[RULES].line;
        return problem(line, format!("{} rules", rules.len()), "the most is 32");
    }
    let all = rules.iter().position(|rule| rule.matching == Match::default())?;
    let after = rules.get(all + 1)?;
    let what = format!("never reached: rule {} matches every connection", all + 1);
    problem(after.line, what, "move it before, or remove it")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! A policy out of its TOML file; the whole file is looked through before
//! anything is done, and every problem has its line.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use transom_output::in_plain_words;

use super::draft::Draft;
use super::syntax::microseconds;
use super::{GuardSettings, HOLD, Match, Policy, Problem, Rule, Stability, StabilitySettings};
use crate::contract::RULES;

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
    delay: Option<Spanned<String>>,
    share: Option<Spanned<f64>>,
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
    program: Option<Spanned<Texts>>,
    port: Option<Spanned<Ports>>,
    remote: Option<Spanned<Texts>>,
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

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn all(self) -> Vec<String> {
        match self {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or a list of whole numbers")]
enum Ports {
    One(i64),
    Many(Vec<i64>),
}

impl Ports {
    fn all(self) -> Vec<i64> {
        match self {
            Ports::One(port) => vec![port],
            Ports::Many(ports) => ports,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or a text such as \"2..4\" or \"1/8\"")]
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
        if let Some(share) = &table.share {
            settings.share = *share.get_ref();
            if !(0.0..=1.0).contains(&settings.share) {
                let what = format!("share = {}", settings.share);
                self.wrong(share, what, "give a share from 0 (not asked) to 1");
            }
        }
        settings.delay = self.duration("delay", &table.delay, not_said.delay);
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

    fn rule(&mut self, at: Spanned<RuleTable>) -> Option<Rule> {
        let line = self.line(at.span().start);
        let (draft, places) = draft(at.into_inner(), line);
        let complaints = match draft.check(self.algorithms) {
            Ok(rule) => return Some(rule),
            Err(complaints) => complaints,
        };
        for one in complaints {
            let place = places.iter().find(|&&(key, _)| key == one.key);
            let line = place.map_or(line, |&(_, at)| self.line(at));
            self.problems.push(Problem { line, what: one.what, remedy: one.remedy });
        }
        None
    }
}

/// Where each key is written.
type Places = Vec<(&'static str, usize)>;

/// What a table says, and where.
fn draft(table: RuleTable, line: usize) -> (Draft, Places) {
    fn taken<T>(places: &mut Places, key: &'static str, value: Option<Spanned<T>>) -> Option<T> {
        let value = value?;
        places.push((key, value.span().start));
        Some(value.into_inner())
    }
    let (matching, action) = (table.matching, table.action);
    let mut places = Places::new();
    let draft = Draft {
        name: table.name,
        line,
        cgroup: matching.cgroup,
        program: taken(&mut places, "program", matching.program).map(Texts::all),
        port: taken(&mut places, "port", matching.port).map(Ports::all),
        remote: taken(&mut places, "remote", matching.remote).map(Texts::all),
        interface: matching.interface,
        rtt: taken(&mut places, "rtt", matching.rtt),
        terminals: taken(&mut places, "terminals", matching.terminals).map(|it| it.text()),
        stability: matching.stability,
        algorithm: taken(&mut places, "algorithm", action.algorithm),
        target: taken(&mut places, "target", action.target),
        cap: taken(&mut places, "cap", action.cap),
        backoff: taken(&mut places, "backoff", action.backoff).map(|it| it.text()),
        gain: taken(&mut places, "gain", action.gain),
        initial_window: taken(&mut places, "initial_window", action.initial_window),
    };
    (draft, places)
}

impl Policy {
    /// Reads a policy for another machine, or a simulated one, which may have any algorithm.
    ///
    /// # Errors
    /// As [`Policy::parse`].
    pub fn parse_for_elsewhere(text: &str) -> Result<Policy, Vec<Problem>> {
        let rules = toml::from_str::<File>(text).map_or(Vec::new(), |file| file.rule);
        let named = |rule: Spanned<RuleTable>| rule.into_inner().action.algorithm;
        let algorithms = rules.into_iter().filter_map(named).map(Spanned::into_inner);
        Policy::parse(text, &algorithms.collect::<Vec<String>>())
    }

    /// Reads a policy. `algorithms` are those that connections can be given.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the lines.
    pub fn parse(text: &str, algorithms: &[String]) -> Result<Policy, Vec<Problem>> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            let what = in_plain_words(error.message()).replace('\n', "; ");
            vec![Problem { line, what, remedy: "see docs/policy.md".into() }]
        })?;
        let mut check = Check { text, algorithms, problems: Vec::new() };
        let guard = check.guard(file.guard);
        let stability = check.stability(file.stability);
        let hold = check.duration("hold", &file.hold, HOLD);
        let written: Vec<usize> =
            file.rule.iter().map(|rule| check.line(rule.span().start)).collect();
        let rules: Vec<Rule> = file.rule.into_iter().filter_map(|rule| check.rule(rule)).collect();
        check.problems.extend(too_few_or_many(&written));
        check.problems.extend(never_reached(&rules));
        if !check.problems.is_empty() {
            check.problems.sort_by_key(|problem| problem.line);
            return Err(check.problems);
        }
        Ok(Policy { guard, stability, hold, rules })
    }
}

/// What the number of rules is wrong with; `lines` are theirs.
fn too_few_or_many(lines: &[usize]) -> Option<Problem> {
    let (line, what, remedy) = match lines.get(RULES) {
        Some(&line) => (line, format!("{} rules", lines.len()), "the most is 32"),
        None if lines.is_empty() => {
            (0, "the policy has no rule".into(), "add [[rule]] with match and action")
        }
        None => return None,
    };
    Some(Problem { line, what, remedy: remedy.into() })
}

fn never_reached(rules: &[Rule]) -> Option<Problem> {
    let all = rules.iter().position(|rule| rule.matching == Match::default())?;
    let after = rules.get(all + 1)?;
    let by = rules[all].line;
    let what = format!("never reached: the rule of line {by} matches every connection");
    Some(Problem { line: after.line, what, remedy: "move it before, or remove it".into() })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

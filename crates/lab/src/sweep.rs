//! The points of a sweep: every combination of its values, each an experiment of its own.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use crate::experiment::problem::{Problem, instead};
use crate::experiment::{Experiment, Loaded, profile, raw, reworded};

/// One combination of the swept values.
#[derive(Clone, Debug)]
pub struct Point {
    /// A name for folders, made of the swept keys and their values; `only` without a sweep.
    pub slug: String,
    /// Swept key → value; of a case, its name.
    pub values: BTreeMap<String, Value>,
    /// The experiment with these values, its profiles merged in, for `--quick` shortened.
    pub experiment: Experiment,
    /// File's key → swept key that set it.
    set_by: BTreeMap<String, String>,
}

/// What is run, in this order: the last key of the sweep (they are sorted) changes fastest.
pub fn points(loaded: &Loaded, quick: bool) -> &[Point] {
    if quick { &loaded.quick } else { &loaded.full }
}

impl Point {
    /// The seed of a repeat (1-based). It depends on nothing but the file's `seed`, the values of
    /// the point (of keys that are not `paired`) and the repeat, so a changed sweep leaves the
    /// other runs as they were.
    pub fn seed(&self, repeat: u32) -> u64 {
        let mut hash = Fnv::default();
        let paired = &self.experiment.paired;
        for (key, value) in self.values.iter().filter(|(key, _)| !paired.contains(key)) {
            hash.add(format!("{key}={}\n", canonical(value)).as_bytes());
        }
        hash.add(&self.experiment.seed.to_le_bytes());
        hash.add(&repeat.to_le_bytes());
        // 53 bits, so that every reader of JSON has the same number.
        mix(hash.0) >> 11
    }

    /// Says of a problem with a swept key that the sweep set it.
    pub(crate) fn blame(&self, problem: Problem) -> Problem {
        let mut key = problem.key.as_str();
        loop {
            if let Some(by) = self.set_by.get(key) {
                let what = format!("at {}: `{}`: {}", self.label(), problem.key, problem.what);
                return Problem::new(format!("sweep.{by}"), what, problem.remedy);
            }
            match key.rsplit_once('.') {
                Some((outer, _)) => key = outer,
                None => return problem,
            }
        }
    }

    /// `path.rtt_ms = 64, algorithm = reno`.
    pub fn label(&self) -> String {
        let pair = |(key, value): (&String, &Value)| format!("{key} = {}", canonical(value));
        self.values.iter().map(pair).collect::<Vec<_>>().join(", ")
    }
}

/// Whether two values of the sweep mean the same: 0 and 0.0 do.
pub fn same(a: &Value, b: &Value) -> bool {
    canonical(a) == canonical(b)
}

/// A value as people write it, numbers in their shortest form.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Integer(n) => (*n as f64).to_string(),
        Value::Float(n) => n.to_string(),
        Value::String(text) => text.clone(),
        Value::Table(case) => name_of(case).unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

/// What of a case stands for it in results: its name.
fn name_of(case: &Table) -> Option<&str> {
    case.get("name")?.as_str()
}

/// Problems of the sweep that show without running it.
pub(crate) fn check(experiment: &Experiment) -> Vec<Problem> {
    let mut problems = lists(&experiment.sweep, "sweep");
    for (key, values) in &experiment.sweep {
        let cases = values.iter().filter(|value| value.is_table()).count();
        let at = format!("sweep.{key}");
        if cases == 0 {
            problems.extend(names_nothing(experiment, key, &at));
        } else if cases < values.len() {
            let what = "some values are cases and some are not";
            problems.push(Problem::new(at, what, "make all of them tables with `name` and `set`"));
        } else {
            let whole = |(n, value): (usize, &Value)| case(experiment, value, &format!("{at}.{n}"));
            problems.extend(values.iter().enumerate().flat_map(whole));
        }
    }
    let Some(quick) = &experiment.quick else { return problems };
    problems.extend(lists(&quick.sweep, "quick.sweep"));
    for (key, values) in &quick.sweep {
        let at = format!("quick.sweep.{key}");
        let Some(full) = experiment.sweep.get(key) else {
            let known = experiment.sweep.keys().map(String::as_str);
            problems.push(Problem::new(at, "the sweep has no such key", instead(key, known)));
            continue;
        };
        for value in values.iter().filter(|value| !full.iter().any(|one| same(one, value))) {
            let known: Vec<String> = full.iter().map(canonical).collect();
            let word = canonical(value);
            let remedy = instead(&word, known.iter().map(String::as_str));
            problems.push(Problem::new(&at, format!("the sweep never is {word}"), remedy));
        }
    }
    problems
}

fn lists(sweep: &BTreeMap<String, Vec<Value>>, at: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, values) in sweep {
        let at = format!("{at}.{key}");
        if values.is_empty() {
            problems.push(Problem::new(&at, "no values", "give at least one, or remove the key"));
        }
        let twice = (1..values.len()).find(|&n| values[..n].iter().any(|v| same(v, &values[n])));
        if let Some(n) = twice {
            let what = format!("{} stands there twice", canonical(&values[n]));
            problems.push(Problem::new(&at, what, "each value once; `repeats` runs it again"));
        }
    }
    problems
}

/// A case has a name and sets keys that there are.
fn case(experiment: &Experiment, value: &Value, at: &str) -> Vec<Problem> {
    let Value::Table(case) = value else { return Vec::new() };
    let remedy = "write { name = \"…\", set = { key = value } }";
    if name_of(case).is_none_or(str::is_empty) {
        return vec![Problem::new(at, "a case without `name`", remedy)];
    }
    let Some(Value::Table(set)) = case.get("set") else {
        return vec![Problem::new(at, "a case without `set`", remedy)];
    };
    let other = case.keys().find(|key| !matches!(key.as_str(), "name" | "set"));
    let unknown = other.map(|key| {
        let at = format!("{at}.{key}");
        Problem::new(at, "a case has no such key", instead(key, ["name", "set"]))
    });
    let keys = raw::leaves(set);
    let missing =
        keys.keys().filter_map(|k| names_nothing(experiment, k, &format!("{at}.set.{k}")));
    unknown.into_iter().chain(missing).collect()
}

/// Tables whose keys may be swept.
const ROOTS: [&str; 5] = ["path", "air", "hosts", "flows", "duration_s"];

/// Why a dotted key names nothing that can be swept, as far as names of the file tell.
fn names_nothing(experiment: &Experiment, key: &str, at: &str) -> Option<Problem> {
    let mut parts = key.split('.');
    let root = parts.next().unwrap_or_default();
    if !ROOTS.contains(&root) {
        let remedy = format!("a swept key begins with {}", ROOTS.join(", "));
        return Some(Problem::new(at, format!("names nothing: no `{root}` can be swept"), remedy));
    }
    let name = parts.next().unwrap_or_default();
    let known: Vec<&str> = match root {
        "hosts" => experiment.hosts.keys().map(String::as_str).collect(),
        "flows" => experiment.flows.keys().map(String::as_str).collect(),
        _ => return None,
    };
    let what = format!("names nothing: there is no `{root}.{name}`");
    (!known.contains(&name)).then(|| Problem::new(at, what, instead(name, known)))
}

/// Every point, from the file's own tree; profiles go under what the sweep has set.
pub(crate) fn build(
    tree: &Table,
    experiment: &Experiment,
    quick: bool,
) -> Result<Vec<Point>, Vec<Problem>> {
    let shortened = experiment.quick.as_ref().filter(|_| quick);
    let mut combinations: Vec<Vec<(&str, &Value)>> = vec![Vec::new()];
    for (key, full) in &experiment.sweep {
        let fewer = shortened.and_then(|quick| quick.sweep.get(key));
        let values = fewer.map_or_else(|| full.iter().collect(), |fewer| cases(fewer, full));
        combinations = combinations
            .iter()
            .flat_map(|before| {
                let with = |&value| [before.as_slice(), &[(key.as_str(), value)]].concat();
                values.iter().map(with).collect::<Vec<_>>()
            })
            .collect();
    }
    let mut points = Vec::new();
    let mut problems = Vec::new();
    for combination in combinations {
        match point(tree, &combination) {
            Ok(point) if is_skipped(experiment, &point) => {}
            Ok(mut point) => {
                if let Some(quick) = shortened {
                    let whole = &mut point.experiment;
                    whole.duration_s = quick.duration_s.unwrap_or(whole.duration_s);
                    whole.repeats = quick.repeats.unwrap_or(whole.repeats);
                }
                points.push(point);
            }
            Err(problem) if problems.contains(&problem) => {}
            Err(problem) => problems.push(problem),
        }
    }
    if points.is_empty() && problems.is_empty() {
        problems.push(Problem::new("skip", "leaves nothing to run", "skip fewer"));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    tell_apart(&mut points);
    Ok(points)
}

fn is_skipped(experiment: &Experiment, point: &Point) -> bool {
    let meant = |place: &BTreeMap<String, Value>| {
        place.iter().all(|(key, value)| point.values.get(key).is_some_and(|at| same(at, value)))
    };
    experiment.skip.iter().any(meant)
}

/// What `quick` keeps of the values.
fn cases<'a>(fewer: &'a [Value], full: &'a [Value]) -> Vec<&'a Value> {
    let whole = |value: &'a Value| {
        full.iter().find(|case| case.is_table() && same(case, value)).unwrap_or(value)
    };
    fewer.iter().map(whole).collect()
}

fn point(tree: &Table, combination: &[(&str, &Value)]) -> Result<Point, Problem> {
    let mut tree = tree.clone();
    let mut values = BTreeMap::new();
    let mut set_by = BTreeMap::new();
    for &(name, value) in combination {
        let sets = match value {
            Value::Table(case) => {
                let set = case.get("set").and_then(Value::as_table).cloned();
                raw::leaves(&set.unwrap_or_default())
            }
            _ => BTreeMap::from([(name.to_owned(), value.clone())]),
        };
        for (key, value) in sets {
            put(&mut tree, &key, value).map_err(|outer| {
                let what = format!("names nothing: `{outer}` is no table");
                Problem::new(format!("sweep.{name}"), what, "a swept key names one value")
            })?;
            set_by.insert(key, name.to_owned());
        }
        let plain = if value.is_table() { Value::String(canonical(value)) } else { value.clone() };
        values.insert(name.to_owned(), plain);
    }
    profile::merge(&mut tree);
    let (slug, experiment) = (slug(&values), Experiment::deserialize(tree));
    let label = || values.iter().map(|(k, v)| format!("{k} = {}", canonical(v)));
    let experiment = experiment.map_err(|error| {
        let (what, remedy) = reworded(error.message());
        let name = combination.first().map_or("", |(name, _)| name);
        let what = format!("at {}: {what}", label().collect::<Vec<_>>().join(", "));
        Problem::new(format!("sweep.{}", blamed(&set_by, &what).unwrap_or(name)), what, remedy)
    })?;
    Ok(Point { slug, values, experiment, set_by })
}

/// The swept key whose last part serde's sentence names.
fn blamed<'a>(set_by: &'a BTreeMap<String, String>, what: &str) -> Option<&'a str> {
    let named = |key: &str| what.contains(&format!("`{}`", key.rsplit('.').next().unwrap_or(key)));
    set_by.iter().find(|(key, _)| named(key)).map(|(_, by)| by.as_str())
}

/// Sets a dotted key, making the tables on the way; refuses with what is no table.
fn put(tree: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let Some((outer, last)) = key.rsplit_once('.') else {
        tree.insert(key.to_owned(), value);
        return Ok(());
    };
    let mut table = tree;
    for part in outer.split('.') {
        let inner = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
        table = inner.as_table_mut().ok_or_else(|| outer.to_owned())?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

/// The last part of each key and its value, of characters that every file system takes.
fn slug(values: &BTreeMap<String, Value>) -> String {
    let short = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let twice = |name: &str| values.keys().filter(|key| short(key) == name).count() > 1;
    let name = |key: &str| {
        let short = short(key);
        if twice(&short) { key.to_owned() } else { short }
    };
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let pair = |(key, value): (&String, &Value)| {
        let text = format!("{}-{}", name(key).replace('.', "-"), canonical(value));
        text.chars().map(safe).collect::<String>()
    };
    let all: Vec<String> = values.iter().map(pair).collect();
    if all.is_empty() { "only".to_owned() } else { all.join("_") }
}

/// Two points whose values differ only in characters left out of the slug get numbers.
fn tell_apart(points: &mut [Point]) {
    for at in 1..points.len() {
        let (before, after) = points.split_at_mut(at);
        if before.iter().any(|point| point.slug == after[0].slug) {
            after[0].slug = format!("{}_{}", after[0].slug, at + 1);
        }
    }
}

/// FNV-1a, 64 bit.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// The last step of SplitMix64: every bit of the hash reaches every bit of the seed.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;

//! The points of a sweep: every combination of its values, each an experiment of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use crate::claims::is_meant;
use crate::experiment::problem::{Problem, instead};
use crate::experiment::{Control, Experiment, Loaded, profile, raw, reworded};

/// One combination of the swept values.
#[derive(Clone, Debug)]
pub struct Point {
    /// A name for folders, made of the swept keys and their values; `only` without a sweep.
    pub slug: String,
    /// Name of the control that changes it; none: it is of the experiment itself.
    pub control: Option<String>,
    /// Swept key → value; of a case, its name.
    pub values: BTreeMap<String, Value>,
    /// The experiment with these values, its profiles merged in, for `--quick` shortened.
    pub experiment: Experiment,
    /// File's key → the place in the file that set it, `sweep.KEY` or `controls.N`.
    set_by: BTreeMap<String, String>,
}

/// What is run, in this order: the last key of the sweep (they are sorted) changes fastest. Points
/// that controls change come after all others.
pub fn points(loaded: &Loaded, quick: bool) -> &[Point] {
    if quick { &loaded.quick } else { &loaded.full }
}

impl Point {
    /// Of its repeats, in the folder of results.
    pub fn folder(&self) -> PathBuf {
        match &self.control {
            None => Path::new("runs").join(&self.slug),
            Some(name) => Path::new(CONTROLS).join(safe(name)).join(&self.slug),
        }
    }

    /// The seed of a repeat (1-based). It depends on nothing but the file's `seed`, the values of
    /// the point (of keys that are not `paired`) and the repeat, so a changed sweep leaves the
    /// other runs as they were, and a control meets the chance that the experiment met.
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
                return Problem::new(by, what, problem.remedy);
            }
            match key.rsplit_once('.') {
                Some((outer, _)) => key = outer,
                None => return problem,
            }
        }
    }

    /// `path.rtt_ms = 64, algorithm = reno`.
    pub fn label(&self) -> String {
        let control = self.control.iter().map(|name| format!("control \"{name}\""));
        let values = Some(label(&self.values)).filter(|values| !values.is_empty());
        control.chain(values).collect::<Vec<_>>().join(", ")
    }
}

/// Folder of what controls change, in a folder of results.
pub const CONTROLS: &str = "controls";

/// Of characters that every file system takes.
pub(crate) fn safe(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    text.chars().map(safe).collect()
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

/// All points are in memory at once; more than these would run for days even in virtual time.
const MOST_POINTS: usize = 10_000;

/// Problems of the sweep that show without running it.
pub(crate) fn check(experiment: &Experiment) -> Vec<Problem> {
    let mut problems = lists(&experiment.sweep, "sweep");
    let of_values =
        experiment.sweep.values().fold(1, |all: usize, it| all.saturating_mul(it.len()));
    if of_values > MOST_POINTS {
        let what = format!("makes {of_values} points, and at most {MOST_POINTS} are possible");
        problems.push(Problem::new("sweep", what, "sweep fewer keys, or give fewer values"));
    }
    for (key, values) in &experiment.sweep {
        let cases = values.iter().filter(|value| value.is_table()).count();
        let at = format!("sweep.{key}");
        if cases == 0 {
            problems.extend(names_nothing(experiment, key, &at, SWEPT));
        } else if cases < values.len() {
            let what = "some values are cases and some are not";
            problems.push(Problem::new(at, what, "make all of them tables with `name` and `set`"));
        } else {
            let whole = |(n, value): (usize, &Value)| case(experiment, value, &format!("{at}.{n}"));
            problems.extend(values.iter().enumerate().flat_map(whole));
        }
    }
    for (n, control) in experiment.controls.iter().enumerate() {
        let set = raw::leaves(&control.set).into_keys().map(|key| (key, "set"));
        let unset = control.unset.iter().map(|key| (key.clone(), "unset"));
        for (key, part) in set.chain(unset) {
            let at = format!("controls.{n}.{part}.{key}");
            problems.extend(names_nothing(experiment, &key, &at, "changed by a control"));
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
        keys.keys().filter_map(|k| names_nothing(experiment, k, &format!("{at}.set.{k}"), SWEPT));
    unknown.into_iter().chain(missing).collect()
}

/// Tables whose keys may be swept.
const ROOTS: [&str; 5] = ["path", "air", "hosts", "flows", "duration_s"];

const SWEPT: &str = "swept";

/// Why a dotted key names nothing that can be swept, or `done` else, as far as names of the file
/// tell.
fn names_nothing(experiment: &Experiment, key: &str, at: &str, done: &str) -> Option<Problem> {
    let mut parts = key.split('.');
    let root = parts.next().unwrap_or_default();
    if !ROOTS.contains(&root) {
        let remedy = format!("such a key begins with {}", ROOTS.join(", "));
        return Some(Problem::new(at, format!("names nothing: no `{root}` can be {done}"), remedy));
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
    let plain = combinations.iter().map(|combination| (combination, None));
    // Once each decides nothing, so the short form goes without controls.
    let controls = if quick { &[] } else { experiment.controls.as_slice() };
    let controlled = controls.iter().enumerate().flat_map(|(n, control)| {
        combinations.iter().map(move |combination| (combination, Some((n, control))))
    });
    for (combination, control) in plain.chain(controlled) {
        let values = values(combination);
        let is_left_out =
            control.is_some_and(|(_, control)| !changes(experiment, control, &values));
        if is_skipped(experiment, &values) || is_left_out {
            continue;
        }
        match point(tree, combination, values, control) {
            Ok(mut point) => {
                if let Some(quick) = shortened {
                    let whole = &mut point.experiment;
                    whole.duration_s = quick.duration_s.unwrap_or(whole.duration_s);
                    whole.repeats = quick.repeats.unwrap_or(whole.repeats);
                }
                if let Some(repeats) = control.and_then(|(_, control)| control.repeats) {
                    point.experiment.repeats = repeats;
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

/// Swept key → value of a combination; cases by their names.
fn values(combination: &[(&str, &Value)]) -> BTreeMap<String, Value> {
    let plain = |value: &Value| match value {
        Value::Table(_) => Value::String(canonical(value)),
        plain => plain.clone(),
    };
    combination.iter().map(|&(name, value)| (name.to_owned(), plain(value))).collect()
}

/// Whether a control changes a point that a claim which must fail under it looks at.
fn changes(experiment: &Experiment, control: &Control, values: &BTreeMap<String, Value>) -> bool {
    let mut claims = experiment.claims.iter();
    has(values, &control.at)
        && claims.any(|claim| {
            claim.fails_under.contains(&control.name)
                && claim.picks().iter().any(|pick| is_meant(pick, values))
        })
}

/// Whether a point has these values.
pub(crate) fn has(values: &BTreeMap<String, Value>, place: &BTreeMap<String, Value>) -> bool {
    place.iter().all(|(key, value)| values.get(key).is_some_and(|at| same(at, value)))
}

fn is_skipped(experiment: &Experiment, values: &BTreeMap<String, Value>) -> bool {
    experiment.skip.iter().any(|place| has(values, place))
}

/// What `quick` keeps of the values.
fn cases<'a>(fewer: &'a [Value], full: &'a [Value]) -> Vec<&'a Value> {
    let whole = |value: &'a Value| {
        full.iter().find(|case| case.is_table() && same(case, value)).unwrap_or(value)
    };
    fewer.iter().map(whole).collect()
}

fn point(
    tree: &Table,
    combination: &[(&str, &Value)],
    values: BTreeMap<String, Value>,
    control: Option<(usize, &Control)>,
) -> Result<Point, Problem> {
    let mut tree = tree.clone();
    let mut set_by = BTreeMap::new();
    let swept = combination.iter().map(|&(name, value)| {
        let sets = match value {
            Value::Table(case) => {
                let set = case.get("set").and_then(Value::as_table).cloned();
                raw::leaves(&set.unwrap_or_default())
            }
            _ => BTreeMap::from([(name.to_owned(), value.clone())]),
        };
        (format!("sweep.{name}"), sets)
    });
    let controlled =
        control.map(|(n, control)| (format!("controls.{n}"), raw::leaves(&control.set)));
    for (by, sets) in swept.chain(controlled) {
        for (key, value) in sets {
            put(&mut tree, &key, value).map_err(|outer| {
                let what = format!("names nothing: `{outer}` is no table");
                Problem::new(&by, what, "a key here names one value")
            })?;
            set_by.insert(key, by.clone());
        }
    }
    profile::merge(&mut tree);
    if let Some((n, control)) = control {
        for key in &control.unset {
            remove(&mut tree, key).ok_or_else(|| {
                let what = format!("there is no `{key}` to remove at {}", label(&values));
                Problem::new(format!("controls.{n}.unset"), what, "narrow `where`, or leave it out")
            })?;
            set_by.insert(key.clone(), format!("controls.{n}"));
        }
    }
    let (slug, experiment) = (slug(&values), Experiment::deserialize(tree));
    let experiment = experiment.map_err(|error| {
        let (what, remedy) = reworded(error.message());
        let first = set_by.values().next().cloned().unwrap_or_default();
        let what = format!("at {}: {what}", label(&values));
        Problem::new(blamed(&set_by, &what).unwrap_or(first), what, remedy)
    })?;
    let control = control.map(|(_, control)| control.name.clone());
    Ok(Point { slug, control, values, experiment, set_by })
}

/// `path.rtt_ms = 64, algorithm = reno`.
pub(crate) fn label(values: &BTreeMap<String, Value>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{key} = {}", canonical(value));
    values.iter().map(pair).collect::<Vec<_>>().join(", ")
}

/// What set the key whose last part serde's sentence names.
fn blamed(set_by: &BTreeMap<String, String>, what: &str) -> Option<String> {
    let named = |key: &str| what.contains(&format!("`{}`", key.rsplit('.').next().unwrap_or(key)));
    set_by.iter().find(|(key, _)| named(key)).map(|(_, by)| by.clone())
}

/// Removes what a dotted key names; none if it is not there. Keys may hold dots themselves.
fn remove(table: &mut Table, key: &str) -> Option<Value> {
    if let Some(value) = table.remove(key) {
        return Some(value);
    }
    let dots = key.match_indices('.').map(|(at, _)| at);
    let mut inner = dots.map(|at| (&key[..at], &key[at + 1..]));
    inner.find_map(|(outer, rest)| remove(table.get_mut(outer)?.as_table_mut()?, rest))
}

/// Sets a dotted key, making the tables on the way; a number names an entry of a list. Refuses with
/// what is neither table nor list.
fn put(tree: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let Some((outer, last)) = key.rsplit_once('.') else {
        tree.insert(key.to_owned(), value);
        return Ok(());
    };
    let mut parts = outer.split('.');
    let first = parts.next().unwrap_or_default();
    let mut place = tree.entry(first).or_insert_with(|| Value::Table(Table::new()));
    for part in parts {
        place = match place {
            Value::Table(table) => table.entry(part).or_insert_with(|| Value::Table(Table::new())),
            Value::Array(list) => entry(list, part).ok_or_else(|| outer.to_owned())?,
            _ => return Err(outer.to_owned()),
        };
    }
    match place {
        Value::Table(table) => drop(table.insert(last.to_owned(), value)),
        Value::Array(list) => *entry(list, last).ok_or_else(|| outer.to_owned())? = value,
        _ => return Err(outer.to_owned()),
    }
    Ok(())
}

fn entry<'a>(list: &'a mut [Value], number: &str) -> Option<&'a mut Value> {
    list.get_mut(number.parse::<usize>().ok()?)
}

/// The last part of each key and its value, of characters that every file system takes.
fn slug(values: &BTreeMap<String, Value>) -> String {
    let short = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let twice = |name: &str| values.keys().filter(|key| short(key) == name).count() > 1;
    let name = |key: &str| {
        let short = short(key);
        if twice(&short) { key.to_owned() } else { short }
    };
    let pair = |(key, value): (&String, &Value)| {
        safe(&format!("{}-{}", name(key).replace('.', "-"), canonical(value)))
    };
    let all: Vec<String> = values.iter().map(pair).collect();
    if all.is_empty() { "only".to_owned() } else { all.join("_") }
}

/// Two points whose values differ only in characters left out of the slug get numbers.
fn tell_apart(points: &mut [Point]) {
    for at in 1..points.len() {
        let (before, after) = points.split_at_mut(at);
        if before.iter().any(|point| point.folder() == after[0].folder()) {
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

//! Paths, and changes of a setting on each: what `transom whatif` is judged by.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

use crate::catalogue::{Situation, of_text};
use crate::draw::{Chance, number, numbers, round};
use crate::label::segments;

const ALGORITHMS: [&str; 3] = ["cubic", "reno", "bbr"];
/// Changes that are tried on each path.
const CHANGES: usize = 2;

/// A path, and the same with other settings of the sender.
#[derive(Clone, Debug)]
pub struct Trial {
    pub before: Situation,
    pub changes: Vec<Change>,
    /// All of it as TOML.
    pub written: String,
}

impl Trial {
    /// All that is run for it.
    pub fn situations(&self) -> impl Iterator<Item = &Situation> {
        std::iter::once(&self.before).chain(self.changes.iter().map(|change| &change.after))
    }
}

#[derive(Clone, Debug)]
pub struct Change {
    /// As `transom whatif` takes it.
    pub arguments: Vec<String>,
    pub after: Situation,
}

/// What is drawn of one path.
struct Drawn {
    table: Table,
    algorithm: &'static str,
    /// What the path holds with its queue, segments.
    holds: f64,
    short: bool,
}

/// So many paths of this seed.
///
/// # Errors
/// If what was drawn cannot be read.
pub fn trials(seed: u64, paths: usize) -> Result<Vec<Trial>> {
    let mut chance = Chance::new(seed);
    (1..=paths).map(|i| trial(&mut chance, &format!("path-{seed}-{i:02}"))).collect()
}

fn trial(chance: &mut Chance, name: &str) -> Result<Trial> {
    let drawn = draw(chance);
    let mut changes: Vec<Change> = Vec::new();
    let mut written = text(name, &drawn.table);
    while changes.len() < CHANGES {
        let (arguments, table) = change(chance, &drawn);
        if !changes.iter().any(|known| known.arguments == arguments) {
            let after = text(&format!("{name}-{}", slug(&arguments)), &table);
            written.push_str(&after);
            let after = situation(&after)?;
            changes.push(Change { arguments, after });
        }
    }
    Ok(Trial { before: situation(&text(name, &drawn.table))?, changes, written })
}

fn slug(arguments: &[String]) -> String {
    arguments.join("-").trim_start_matches('-').replace(['.', '=', ' '], "-")
}

fn text(name: &str, table: &Table) -> String {
    let mut text = format!("[{name}]\ncauses = [\"unknown\"]\n");
    for (key, value) in table {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

fn situation(text: &str) -> Result<Situation> {
    let mut read = of_text(text)?;
    ensure!(read.len() == 1, "one table is one situation");
    read.pop().context("one table is one situation")
}

fn draw(chance: &mut Chance) -> Drawn {
    let rtt_ms = chance.between(4.0, 220.0).round();
    let rate_mbit = round(chance.between(2.0, 80.0), 1);
    let content = segments(rate_mbit, rtt_ms);
    let queue = (content * chance.between(0.1, 3.0)).max(6.0).round();
    let policed = chance.one_in(8.0);
    let burst = (content * 1500.0 * chance.between(0.3, 2.0)).max(15_000.0).round();
    let mut up = match policed {
        true => numbers(&[("police_mbit", rate_mbit), ("police_burst_bytes", burst)]),
        false => numbers(&[("rate_mbit", rate_mbit), ("queue_packets", queue)]),
    };
    if let Some(loss) = chance.maybe(3.0, 0.0005, 0.02) {
        up.insert("loss".into(), number(round(loss, 4)));
    }
    let mut path = numbers(&[("rtt_ms", rtt_ms)]);
    path.insert("up".into(), up.into());
    let algorithm = chance.pick(&ALGORITHMS);
    let mut send = Table::from_iter([("algorithm".to_owned(), Value::from(algorithm))]);
    let mut sender = Table::new();
    let mut receive = Table::new();
    let short = program(chance, &mut send);
    if let Some(bytes) = chance.maybe(8.0, 20_000.0, 200_000.0) {
        send.insert("buffer".into(), number(bytes.round()));
    }
    if let Some(bytes) = chance.maybe(8.0, 20_000.0, 200_000.0) {
        receive.insert("buffer".into(), number(bytes.round()));
    }
    if let Some(segments) = chance.maybe(10.0, 8.0, 80.0) {
        sender.insert("largest_window".into(), number(segments.round()));
    }
    if let Some(mbit) = chance.maybe(12.0, 2.0, 40.0) {
        let driver = numbers(&[("rate_mbit", round(mbit, 1)), ("queue_packets", 150.0)]);
        sender.insert("driver".into(), driver.into());
    }
    if let Some(segments) = chance.maybe(4.0, 2.0, 40.0) {
        sender.insert("gso_max_segs".into(), number(segments.round()));
    }
    let seconds = (40.0 * rtt_ms / 1000.0).clamp(8.0, 14.0).ceil();
    let mut table = Table::from_iter([("seconds".to_owned(), number(seconds))]);
    for (key, part) in [("path", path), ("send", send), ("receive", receive), ("sender", sender)] {
        if !part.is_empty() {
            table.insert(key.into(), part.into());
        }
    }
    Drawn { table, algorithm, holds: content + queue, short }
}

/// What the program writes; whether it is over soon.
fn program(chance: &mut Chance, send: &mut Table) -> bool {
    let size = chance.between(20_000.0, 2_000_000.0).round();
    let write = chance.between(2_000.0, 200_000.0).round();
    let every_ms = chance.between(20.0, 1500.0).round();
    let keys = match chance.pick(&[0, 0, 0, 0, 0, 1, 1, 2]) {
        0 => Vec::new(),
        1 => vec![("total", size)],
        _ => vec![("write", write), ("every_ms", every_ms)],
    };
    let short = keys.first().is_some_and(|key| key.0 == "total");
    send.extend(numbers(&keys));
    short
}

fn change(chance: &mut Chance, drawn: &Drawn) -> (Vec<String>, Table) {
    let mut table = drawn.table.clone();
    let mut set = |part: &str, key: &str, value: Value| {
        let part = table.entry(part).or_insert_with(|| Table::new().into());
        if let Some(part) = part.as_table_mut() {
            part.insert(key.into(), value);
        }
    };
    let kinds: &[u32] = if drawn.short { &[0, 1, 1, 2] } else { &[0, 0, 0, 2] };
    let argument = match chance.pick(kinds) {
        0 => {
            let others = ALGORITHMS.map(|name| (name != drawn.algorithm).then_some(name));
            let others: Vec<&str> = others.into_iter().flatten().collect();
            let algorithm = chance.pick(&others);
            set("send", "algorithm", Value::from(algorithm));
            ["--cc".to_owned(), algorithm.to_owned()]
        }
        1 => {
            let window = chance.pick(&[4, 20, 30, 50]);
            set("sender", "initial_window", Value::from(window));
            ["--initial-window".to_owned(), window.to_string()]
        }
        _ => {
            let cap = (drawn.holds * chance.between(0.3, 1.1)).max(4.0).round();
            set("sender", "largest_window", number(cap));
            ["--cap".to_owned(), cap.to_string()]
        }
    };
    (argument.to_vec(), table)
}

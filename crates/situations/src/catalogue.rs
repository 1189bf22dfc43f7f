//! What is built, and what the verdict should say of it (`situations.toml`, `drawn.toml`,
//! `unseen.toml`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;
use toml::{Table, Value};

use crate::draw;

/// From this rate on a situation runs alone.
const HEAVY_MBIT: f64 = 200.0;

const TEXT: &str = include_str!("../situations.toml");
const DRAWN: &str = include_str!("../drawn.toml");
const UNSEEN: &str = include_str!("../unseen.toml");

/// One connection with a known cause.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    source: Source,
    /// What the verdict may say, as `verdict.cause` of `transom explain --json` writes it.
    pub causes: Vec<String>,
    #[serde(default = "six")]
    pub seconds: f64,
    #[serde(default)]
    pub ipv6: bool,
    /// The host that is recorded.
    #[serde(default)]
    pub record: Side,
    /// Tables of an experiment file (docs/experiments.md).
    #[serde(default)]
    pub path: Table,
    #[serde(default)]
    pub sender: Table,
    #[serde(default)]
    pub receiver: Table,
    #[serde(default)]
    pub send: Send,
    #[serde(default)]
    pub receive: Receive,
    /// Another sender on the same path that sends all it can.
    pub competing: Option<Competing>,
    pub cut: Option<Cut>,
}

fn six() -> f64 {
    6.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    #[default]
    Sender,
    Receiver,
}

/// What the sending program does. Sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Send {
    /// At once.
    pub write: usize,
    /// From one write to the next; 0: as fast as they are taken.
    pub every_ms: u64,
    /// SO_SNDBUF.
    pub buffer: Option<usize>,
    /// Of the sending host's connections; absent: cubic.
    pub algorithm: Option<String>,
    /// Until it is connected.
    pub algorithm_before: Option<String>,
    /// SO_MAX_PACING_RATE.
    pub max_pacing_mbit: Option<f64>,
    pub nodelay: bool,
    /// Writes when poll(2) allows it, instead of blocking.
    pub poll: bool,
    /// Closes the connection after so much.
    pub total: Option<usize>,
    /// One after the other.
    pub connections: usize,
    /// Waits for an answer of so much after each write.
    pub reply: usize,
}

impl Default for Send {
    fn default() -> Send {
        Send {
            write: 65_536,
            every_ms: 0,
            buffer: None,
            algorithm: None,
            algorithm_before: None,
            max_pacing_mbit: None,
            nodelay: false,
            poll: false,
            total: None,
            connections: 1,
            reply: 0,
        }
    }
}

/// What the receiving program does. Sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Receive {
    /// At once.
    pub read: usize,
    /// From one read to the next; 0: as fast as data comes.
    pub every_ms: u64,
    /// SO_RCVBUF.
    pub buffer: Option<usize>,
    /// Reads nothing for `stop_s` from this time of the connection on.
    pub stop_at_s: f64,
    pub stop_s: f64,
}

impl Default for Receive {
    fn default() -> Receive {
        Receive { read: 262_144, every_ms: 0, buffer: None, stop_at_s: 0.0, stop_s: 0.0 }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competing {
    pub algorithm: String,
}

/// From `at_s` of the connection on the receiver answers nothing, not even with an error; at 0
/// from before the connection.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    pub at_s: f64,
    /// Absent: for ever.
    pub for_s: Option<f64>,
}

impl Situation {
    /// FNV-1a of the name: the seed of the path's chance, and what decides who is kept aside.
    pub fn seed(&self) -> u64 {
        self.name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// So many packets that anything beside it would take CPU time from it.
    pub fn is_heavy(&self) -> bool {
        let up = self.path.get("up").and_then(Value::as_table);
        let rate = up
            .and_then(|up| up.get("rate_mbit"))
            .and_then(|rate| rate.as_float().or_else(|| rate.as_integer().map(|mbit| mbit as f64)));
        rate.is_some_and(|mbit| mbit >= HEAVY_MBIT)
    }

    /// What the rules of the verdicts learned from it.
    pub fn part(&self) -> Part {
        // The low bits of FNV of similar names are similar.
        match self.source {
            Source::Drawn => Part::Drawn,
            Source::Unseen => Part::Unseen,
            Source::Chosen if (self.seed() >> 32).is_multiple_of(3) => Part::Aside,
            Source::Chosen => Part::Tuned,
        }
    }
}

/// Where it comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    #[default]
    Chosen,
    Drawn,
    Unseen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The rules are tuned on it.
    Tuned,
    /// Kept aside at first: one in three, by a hash of the name. Tuned on since.
    Aside,
    /// Drawn by a random number generator at first. Tuned on since.
    Drawn,
    /// Drawn with a seed when the rules were done; nothing was tuned on it.
    Unseen,
}

/// All situations, by name.
///
/// # Errors
/// If the catalogue says what cannot be read.
pub fn all() -> Result<Vec<Situation>> {
    let mut all = read(TEXT, Source::Chosen).context("reading situations.toml")?;
    all.extend(read(DRAWN, Source::Drawn).context("reading drawn.toml")?);
    all.extend(read(UNSEEN, Source::Unseen).context("reading unseen.toml")?);
    Ok(all)
}

/// So many drawn with this seed.
///
/// # Errors
/// If what was drawn cannot be read.
pub fn drawn(seed: u64, count: usize) -> Result<Vec<Situation>> {
    read(&written(seed, count), Source::Drawn).context("reading what was drawn")
}

/// Situations of other tables, by name.
///
/// # Errors
/// If a table says what cannot be read.
pub fn of_text(text: &str) -> Result<Vec<Situation>> {
    read(text, Source::Drawn)
}

/// The same as text.
pub fn written(seed: u64, count: usize) -> String {
    let mut text = String::new();
    for (name, table) in draw::situations(seed, count) {
        let _ = writeln!(text, "[{name}]");
        let is_empty = |value: &Value| value.as_table().is_some_and(Table::is_empty);
        for (key, value) in table.iter().filter(|(_, value)| !is_empty(value)) {
            let _ = writeln!(text, "{key} = {value}");
        }
        text.push('\n');
    }
    text
}

fn read(text: &str, source: Source) -> Result<Vec<Situation>> {
    let tables: BTreeMap<String, Situation> = toml::from_str(text)?;
    let named = |(name, situation)| Situation { name, source, ..situation };
    Ok(tables.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn causes(all: &[Situation], part: Part) -> BTreeSet<&str> {
        all.iter().filter(|s| s.part() == part).map(|s| s.causes[0].as_str()).collect()
    }

    #[test]
    fn there_are_more_than_forty_and_a_third_is_kept_aside() {
        let all = read(TEXT, Source::Chosen).unwrap();
        assert!(all.len() >= 40, "{}", all.len());
        let aside = all.iter().filter(|s| s.part() == Part::Aside).count();
        let share = aside as f64 / all.len() as f64;
        assert!((0.25..0.45).contains(&share), "{aside} of {}", all.len());
    }

    #[test]
    fn every_part_has_most_causes() {
        let all = all().unwrap();
        for part in [Part::Tuned, Part::Aside, Part::Drawn, Part::Unseen] {
            assert!(causes(&all, part).len() >= 12, "{part:?}: {:?}", causes(&all, part));
        }
    }
}

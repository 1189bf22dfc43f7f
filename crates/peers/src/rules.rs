//! The rules by which a group decides, as a TOML file: which function, and its parameters.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::estimate::Stability;
use crate::report::Algorithm;

/// Which function decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// A table of round-trip times, as table 1 of the thesis.
    Table,
    /// `steady` for the only unstable one of a few, until it is stable.
    Stabilise,
    /// Caps, so that the air is filled and each has its share.
    #[default]
    Share,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Function::Table => "table",
            Function::Stabilise => "stabilise",
            Function::Share => "share",
        })
    }
}

/// `[share]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Share {
    /// How much may wait in queues beyond what the path holds, ms. Fitted to the caps of the
    /// thesis' table 1.
    pub queue_ms: u32,
    /// No cap is below this, segments.
    pub least_cap: u32,
    /// Round-trip time from which on `steady` helps, ms (DICOMO 2011, tables 2 and 3).
    pub steady_from_ms: u32,
    /// Whether connections over long paths have `steady` from their handshake on, with its first
    /// window and without slow start, though they have lost nothing. Where a path holds far more
    /// than that window, slow start is faster.
    pub open_steady: bool,
    /// The window with which `steady` begins where nothing says how large it should be, segments
    /// (thesis, table 1; DICOMO 2011: 66).
    pub first_window: u32,
    /// With more hungry terminals than this, no flow gets `steady`.
    pub few: usize,
    /// A hungry terminal is granted at most so many times its present goodput; 0 = without limit.
    pub growth: u32,
    /// A terminal whose packets wait and that has less than this percentage of its part is starved:
    /// those with more than theirs are held. Air that is moved for less costs more than it brings.
    pub waits_below: u8,
    /// Whether air is moved to terminals because of their class. Nothing can check a class, so one
    /// that claims a larger one gains by it.
    pub believe_class: bool,
    /// Whether a cap follows the goodput that the last one gave.
    pub correct_caps: bool,
    /// What the air carries, Mbit/s of TCP payload; without it, the most that the group has
    /// reached within two minutes.
    pub air_mbit: Option<f64>,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            queue_ms: 30,
            least_cap: 10,
            steady_from_ms: 64,
            open_steady: false,
            first_window: 70,
            few: 6,
            growth: 4,
            waits_below: 50,
            believe_class: false,
            correct_caps: true,
            air_mbit: None,
        }
    }
}

impl Share {
    /// Packets that wait less than this, µs, find no queue worth the name.
    pub fn short_us(&self) -> u32 {
        self.queue_ms * 500
    }
}

/// `[stabilise]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stabilise {
    /// Hungry terminals at most (DICOMO 2011, section 6.1: "1 to 2").
    pub few: usize,
    /// Round-trip time from which on `steady` helps, ms (DICOMO 2011, tables 2 and 3).
    pub rtt_from_ms: u32,
}

impl Default for Stabilise {
    fn default() -> Stabilise {
        Stabilise { few: 2, rtt_from_ms: 64 }
    }
}

/// One `[[table]]`: the rows for one class of terminals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// For people.
    pub name: String,
    /// For terminals of this class or faster, unless another column starts above it.
    pub class: f64,
    pub rows: Vec<Row>,
}

/// For round-trip times from `rtt_ms` up to the next row's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub rtt_ms: f64,
    #[serde(default)]
    pub algorithm: AlgorithmName,
    /// Segments.
    pub cap: Option<u32>,
}

/// How an algorithm is written in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlgorithmName {
    #[default]
    Default,
    Steady,
}

impl From<AlgorithmName> for Algorithm {
    fn from(name: AlgorithmName) -> Algorithm {
        match name {
            AlgorithmName::Default => Algorithm::Default,
            AlgorithmName::Steady => Algorithm::Steady,
        }
    }
}

/// Thesis, table 1. Its "original" is our `steady`; its fast phone (Nexus S) is about twice as fast
/// as its slow one (HT-03A), see section 5.2.
pub fn thesis_table_1() -> Vec<Column> {
    let column = |name: &str, class, algorithm, caps: [u32; 10]| {
        let rtts = [0., 1., 2., 4., 8., 16., 32., 64., 128., 256.];
        let rows = rtts.into_iter().zip(caps);
        let rows = rows.map(|(rtt_ms, cap)| Row { rtt_ms, algorithm, cap: Some(cap) }).collect();
        Column { name: name.into(), class, rows }
    };
    vec![
        column("slow", 0.0, AlgorithmName::Steady, [70, 70, 70, 70, 70, 100, 100, 100, 100, 100]),
        column("fast", 2.0, AlgorithmName::Default, [20, 20, 20, 20, 20, 20, 30, 55, 55, 100]),
    ]
}

/// All of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    pub function: Function,
    pub stability: Stability,
    pub share: Share,
    pub stabilise: Stabilise,
    pub table: Vec<Column>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            function: Function::default(),
            stability: Stability::default(),
            share: Share::default(),
            stabilise: Stabilise::default(),
            table: thesis_table_1(),
        }
    }
}

fn hold(holds: bool, say: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(say()) }
}

impl Rules {
    /// Reads the text of a rules file.
    ///
    /// # Errors
    /// Says the line, or the key and what it may be.
    pub fn from_toml(text: &str) -> Result<Rules, String> {
        let rules: Rules = toml::from_str(text).map_err(|error| error.to_string())?;
        rules.check()?;
        Ok(rules)
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("rules have only what TOML can say")
    }

    /// # Errors
    /// Says the key and what it may be.
    pub fn check(&self) -> Result<(), String> {
        let Rules { stability, share, stabilise, table, .. } = self;
        hold((1..=100).contains(&stability.unstable_above), || {
            "stability.unstable_above must be from 1 to 100 (percent)".into()
        })?;
        hold((1..=100).contains(&stability.losses), || {
            "stability.losses must be from 1 to 100 (times within 10 s)".into()
        })?;
        hold(stability.stable_below < stability.unstable_above, || {
            format!(
                "stability.stable_below ({}) must be less than unstable_above ({}), or flows would \
                 go back and forth",
                stability.stable_below, stability.unstable_above
            )
        })?;
        hold(stability.stable_for_s <= 3600, || {
            "stability.stable_for_s must be at most 3600 (seconds)".into()
        })?;
        hold((1..=1000).contains(&share.queue_ms), || {
            "share.queue_ms must be from 1 to 1000".into()
        })?;
        hold((2..=100_000).contains(&share.least_cap), || {
            "share.least_cap must be from 2 to 100000 (segments): with less, delayed \
             acknowledgments stop a flow"
                .into()
        })?;
        hold((2..=100_000).contains(&share.first_window), || {
            "share.first_window must be from 2 to 100000 (segments)".into()
        })?;
        hold((1..=100).contains(&share.waits_below), || {
            "share.waits_below must be from 1 to 100 (percent of a terminal's part)".into()
        })?;
        hold(share.growth != 1 && share.growth <= 1000, || {
            "share.growth must be from 2 to 1000 (times the goodput), or 0 for no limit: with 1, no \
             terminal could ever send more than it does"
                .into()
        })?;
        hold(share.air_mbit.is_none_or(|rate| (0.1..=100_000.0).contains(&rate)), || {
            "share.air_mbit must be from 0.1 to 100000 (Mbit/s)".into()
        })?;
        hold(stabilise.few >= 1 && share.few >= 1, || {
            "`few` must be at least 1 (terminals)".into()
        })?;
        hold(self.function != Function::Table || !table.is_empty(), || {
            "function = \"table\" needs at least one [[table]]; `transom peer rules` prints one"
                .into()
        })?;
        table.iter().try_for_each(Column::check)?;
        let mut classes: Vec<u64> = table.iter().map(Column::class_tenths).collect();
        classes.sort_unstable();
        hold(classes.windows(2).all(|pair| pair[0] != pair[1]), || {
            "two [[table]] have the same class".into()
        })
    }

    /// The same for equal rules, however the file writes them.
    pub fn digest(&self) -> u32 {
        let hash = Sha256::digest(self.to_toml().as_bytes());
        u32::from_le_bytes(hash[..4].try_into().expect("4 of 32 bytes"))
    }
}

impl Column {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        hold((0.0..=100.0).contains(&self.class), || {
            format!("table '{name}': class must be from 0 to 100")
        })?;
        hold(!self.rows.is_empty(), || format!("table '{name}' has no rows"))?;
        hold(self.rows.windows(2).all(|pair| pair[0].rtt_ms < pair[1].rtt_ms), || {
            format!("table '{name}': rtt_ms must grow from row to row")
        })?;
        for row in &self.rows {
            hold((0.0..=120_000.0).contains(&row.rtt_ms), || {
                format!("table '{name}': rtt_ms = {} must be from 0 to 120000", row.rtt_ms)
            })?;
            hold(row.cap.is_none_or(|cap| (2..=100_000).contains(&cap)), || {
                format!("table '{name}': cap must be from 2 to 100000 (segments)")
            })?;
        }
        Ok(())
    }

    /// In tenths, as reports say it.
    pub fn class_tenths(&self) -> u64 {
        (self.class * 10.0).round() as u64
    }
}

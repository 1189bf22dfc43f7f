//! What an experiment file says (`experiments/*.toml`); `docs/experiments.md` is its reference.

pub(crate) mod algorithms;
mod check;
mod controls;
mod load;
pub(crate) mod places;
pub(crate) mod problem;
pub mod profile;
pub(crate) mod raw;
pub(crate) mod sysctl;
#[cfg(test)]
mod tests;
mod traces;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use transom_emulator::plan::Path;
use transom_emulator::plan::{Air, Station};

pub(crate) use load::{Links, parse_with, reworded};
pub use load::{Loaded, load, parse};
pub use raw::leaves;

/// One file: a figure or table of a paper, or a question of one's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line, for `lab list`.
    pub title: String,
    /// Where it is from: paper, figure, section.
    pub source: String,
    /// What is asked, in one or two sentences.
    pub question: String,
    /// How long each flow sends, s.
    pub duration_s: f64,
    /// Runs of each point of the sweep, each with a seed of its own.
    pub repeats: u32,
    /// In virtual time, a claim is repeated until the half of its number's 95 % interval is at most
    /// this share of the number; absent: `repeats`.
    pub precision: Option<f64>,
    /// Repeats that a `precision` may take.
    #[serde(default = "most_repeats")]
    pub most_repeats: u32,
    /// First seed; each run's seed follows from it, the point and the repeat.
    #[serde(default = "one")]
    pub seed: u64,
    /// What remains different from the paper's system, one sentence each, for the result page.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Absent: no air, every host is wired to the path.
    pub air: Option<Air>,
    #[serde(default)]
    pub path: Path,
    pub hosts: BTreeMap<String, Host>,
    pub flows: BTreeMap<String, Flow>,
    /// Every host is recorded. Without, there are no window metrics, and recording costs no CPU.
    #[serde(default = "yes")]
    pub record: bool,
    /// What the processors can do is what is measured: a run whose hosts are short of CPU is no
    /// disturbed one.
    #[serde(default)]
    pub cpu_bound: bool,
    /// Swept keys that do not enter the seed: all their values meet the same chance, which makes
    /// what is compared along them differ by less luck.
    #[serde(default)]
    pub paired: Vec<String>,
    /// Dotted keys of this file and the values each takes: all combinations are run. A value that
    /// is a table is a case: a `name`, and the keys it `set`s together.
    #[serde(default, deserialize_with = "raw::lists")]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Parts of the sweep that are not run: points whose swept keys have these values.
    #[serde(default, deserialize_with = "raw::places")]
    pub skip: Vec<BTreeMap<String, toml::Value>>,
    /// What `--quick` runs instead.
    pub quick: Option<Quick>,
    /// What the paper published.
    #[serde(default)]
    pub published: Vec<Published>,
    #[serde(default)]
    pub figures: Vec<Figure>,
    #[serde(default)]
    pub claims: Vec<Claim>,
    #[serde(default)]
    pub controls: Vec<Control>,
}

fn one() -> u64 {
    1
}

fn most_repeats() -> u32 {
    100
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    pub duration_s: Option<f64>,
    pub repeats: Option<u32>,
    /// Only these values of these keys of the sweep; cases are meant by their names.
    #[serde(default, deserialize_with = "raw::lists")]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
}

/// A host is a network namespace; with `station` it hangs on the air, without on the wire.
/// A profile gives any of these fields, and what the file says itself goes first: in a
/// [`Loaded`] and its points that has been done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// `ht-03a`, `nexus-s`, `server`, `laptop`.
    pub profile: Option<String>,
    pub station: Option<Station>,
    pub driver: Option<Driver>,
    /// Congestion control of its connections (`net.ipv4.tcp_congestion_control`).
    pub algorithm: Option<String>,
    /// Initial window, segments (route metric `initcwnd`).
    pub initial_window: Option<u32>,
    /// Upper limit of the congestion window, segments (route metric `cwnd`, locked).
    pub largest_window: Option<u32>,
    /// Largest send and receive buffers, bytes (`tcp_wmem`, `tcp_rmem`).
    pub send_buffer: Option<u32>,
    pub receive_buffer: Option<u32>,
    /// Network sysctls of the namespace, without the leading `net.`.
    #[serde(default, deserialize_with = "sysctl::values")]
    pub sysctl: BTreeMap<String, String>,
    /// What `transom tune apply` holds in force on its connections (docs/policy.md).
    pub policy: Option<toml::Table>,
    /// How fast the device is, relative to the others: its weight (thesis, section 5.2).
    pub class: Option<f64>,
    /// It runs `transom peer`, by these rules (docs/peer.md).
    pub peer: Option<toml::Table>,
    /// A second interface, raw IP without a link header, with a path of its own to the wired
    /// hosts; `up` is from the host.
    pub cellular: Option<Path>,
    /// Of a wired host: its own link to the switch at its end of the path; `up` is from the host.
    pub link: Option<Path>,
    /// Whose sockets the programs of its flows have.
    #[serde(default)]
    pub stack: Stack,
    /// Its programs' TCP is Multipath TCP (RFC 8684).
    #[serde(default)]
    pub mptcp: bool,
    /// Segments that its kernel cuts a packet into as late as in front of the device
    /// (`gso_max_segs` of `ip link`); absent: 1.
    pub gso_max_segs: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    #[default]
    Host,
    /// Linux as a library (docs/run.md).
    Library,
}

/// A device slower than the air: a real queueing discipline in the host's namespace, so that its
/// kernel meets local device congestion.
/// Both must be given, here or by the profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Driver {
    /// Of bytes as the qdisc counts them, from the Ethernet header on.
    pub rate_mbit: f64,
    /// Packets that wait in the device's queue.
    pub queue_packets: u32,
    /// What the device sends of UDP, where that is less.
    pub udp_rate_mbit: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub tool: Tool,
    #[serde(default)]
    pub protocol: Protocol,
    /// Congestion control of this flow alone.
    pub algorithm: Option<String>,
    /// UDP: what the program tries to send, Mbit/s.
    pub rate_mbit: Option<f64>,
    /// SO_SNDBUF and SO_RCVBUF, bytes (iperf `-w`).
    pub buffer: Option<u32>,
    /// After the start of the run, s.
    #[serde(default)]
    pub start_s: f64,
    /// Sends so long, s, instead of the experiment's `duration_s`.
    pub duration_s: Option<f64>,
    /// Connections side by side (iperf `-P`).
    pub connections: Option<u32>,
    /// Bytes that the program gives or takes at once (iperf `-l`).
    pub write: Option<u32>,
    /// The receiving host opens the connection (iperf3 `-R`).
    #[serde(default)]
    pub reverse: bool,
    #[serde(default)]
    pub over: Over,
}

/// Bytes of one write of iperf over TCP.
pub const WRITE: u32 = 128 << 10;

impl Flow {
    /// The host whose program opens the connection.
    pub fn opens(&self) -> &str {
        if self.reverse { &self.to } else { &self.from }
    }

    /// The most that iperf 2 agrees to write at once over TCP: what it is to send in a second.
    pub fn most_at_once(&self) -> Option<u32> {
        let is_iperf2 = self.tool == Tool::Iperf && self.protocol == Protocol::Tcp;
        self.rate_mbit.filter(|_| is_iperf2).map(|mbit| (mbit * 1e6 / 8.0) as u32)
    }

    /// Bytes that the program writes at once, if not what it usually does.
    pub fn writes(&self) -> Option<u32> {
        self.write.or_else(|| self.most_at_once().filter(|&most| most < WRITE))
    }

    /// The host whose program waits for it.
    pub fn listens(&self) -> &str {
        if self.reverse { &self.from } else { &self.to }
    }
}

/// Which interface of a host that has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// `wlan0` or `eth0`; MPTCP joins the other.
    #[default]
    First,
    Cellular,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// iperf 2, which the papers used.
    #[default]
    Iperf,
    Iperf3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Tcp,
    Udp,
}

/// A series of numbers of the paper: `values[i]` at `sweep value[i]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub name: String,
    pub pick: Pick,
    /// A key of the sweep; absent: one value.
    pub along: Option<String>,
    #[serde(default)]
    pub at: Vec<toml::Value>,
    pub values: Vec<f64>,
}

/// Which number of the results: a metric of a flow (or of all), at a part of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// See `metrics::FLOW_METRICS` and `RUN_METRICS`.
    pub metric: String,
    /// Name of a flow; absent: metrics of the whole run (`sum_mbit`, `jain`, …).
    pub flow: Option<String>,
    /// Only points whose swept keys have these values; repeats are averaged (median).
    #[serde(default, rename = "where", deserialize_with = "raw::values")]
    pub at: BTreeMap<String, toml::Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "raw::Figure")]
pub struct Figure {
    pub title: String,
    #[serde(flatten)]
    pub kind: FigureKind,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FigureKind {
    /// `metric` over a key of the sweep, one curve a pick.
    Sweep { along: String, unit: String, curves: Vec<Curve> },
    /// A quantity over time in one run: `cwnd` (segments) or `throughput` (Mbit/s), all flows.
    Time {
        quantity: String,
        #[serde(rename = "where")]
        at: BTreeMap<String, toml::Value>,
        /// Of several runs, the one where this is greatest; absent: the first.
        #[serde(skip_serializing_if = "Option::is_none")]
        greatest: Option<Pick>,
        /// Or least.
        #[serde(skip_serializing_if = "Option::is_none")]
        least: Option<Pick>,
    },
    /// One bar a pick.
    Bars { unit: String, curves: Vec<Curve> },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    pub name: String,
    pub pick: Pick,
}

/// The same experiment without what a claim is about: a claim that passes here, too, is not
/// evidence for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// What it does, in a few words: `CUBIC in the place of steady`.
    pub name: String,
    /// Dotted keys of this file, and what they are here.
    #[serde(default)]
    pub set: toml::Table,
    /// Dotted keys that are removed.
    #[serde(default)]
    pub unset: Vec<String>,
    /// Only points whose swept keys have these values are changed; the others are those of the
    /// experiment itself.
    #[serde(default, rename = "where", deserialize_with = "raw::values")]
    pub at: BTreeMap<String, toml::Value>,
    /// Instead of the experiment's.
    pub repeats: Option<u32>,
}

/// A sentence of the paper, and the number that decides whether it was reproduced.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "raw::Claim")]
pub struct Claim {
    /// The paper's statement in our words.
    pub text: String,
    #[serde(flatten)]
    pub test: Test,
    /// The decided number must lie in here.
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// What the paper's own number is, for the table.
    pub published: Option<f64>,
    /// Why the number is an input of this experiment and so no evidence: the claim is checked, but
    /// not counted.
    pub calibrated: Option<String>,
    /// The picks name no value of some swept key on purpose: its points are pooled.
    pub over_all: bool,
    /// Instead of the experiment's.
    pub precision: Option<f64>,
    /// Names of the controls under which the claim must fail.
    pub fails_under: Vec<String>,
}

impl Claim {
    /// Everything that the claim picks.
    pub fn picks(&self) -> Vec<&Pick> {
        self.test.picks()
    }

    /// The swept key along which it is tested, if it is.
    pub fn along(&self) -> Option<&str> {
        match &self.test {
            Test::Trend { along, .. } | Test::RatioEverywhere { along, .. } => Some(along),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "test", rename_all = "kebab-case")]
pub enum Test {
    /// The picked number itself.
    Value { of: Pick },
    /// `of` ÷ (`over` + `plus`).
    Ratio {
        of: Pick,
        over: Pick,
        #[serde(skip_serializing_if = "Option::is_none")]
        plus: Option<Pick>,
    },
    /// Spearman's rank correlation of the metric with the values of the swept key.
    Trend { of: Pick, along: String },
    /// The least of `of` ÷ `over` (or of the greatest) at each value of the key: an order that
    /// holds everywhere.
    RatioEverywhere { of: Pick, over: Pick, along: String },
    /// Share of the repeats whose metric lies in `from`..=`to`: outcomes that come and go.
    Outcomes { of: Pick, from: f64, to: f64 },
}

impl Test {
    pub(crate) fn picks(&self) -> Vec<&Pick> {
        match self {
            Test::Value { of } | Test::Trend { of, .. } | Test::Outcomes { of, .. } => vec![of],
            Test::Ratio { of, over, plus } => {
                [Some(of), Some(over), plus.as_ref()].into_iter().flatten().collect()
            }
            Test::RatioEverywhere { of, over, .. } => vec![of, over],
        }
    }
}

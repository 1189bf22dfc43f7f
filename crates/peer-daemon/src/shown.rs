//! What `transom peer status` shows: the answer of the daemon, and its form for people.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use transom_peers::{Algorithm, Counters, Treatment};

/// All of it, as `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    pub access_point: String,
    pub known_by: String,
    pub interface: String,
    /// Multicast, or the routers.
    pub way: String,
    pub function: String,
    pub rules: String,
    pub dry_run: bool,
    /// kbit/s; 0 = not known.
    pub air_kbit: u64,
    /// Terminals that want to send more.
    pub hungry: usize,
    /// Ourselves first, then by identity.
    pub terminals: Vec<Terminal>,
    pub messages: serde_json::Value,
    /// Why the kernel does not drop forged messages; None if it does, or over Zenoh.
    pub unfiltered: Option<String>,
    /// Times that the link was reopened.
    pub reopened: u64,
    /// What could not be done, last.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terminal {
    pub terminal: String,
    pub name: String,
    pub own: bool,
    pub class: f64,
    /// Whether it decides by other rules than we.
    pub other_rules: bool,
    pub dry_run: bool,
    /// Since its last report, ms.
    pub age_ms: u64,
    pub goodput_kbit: u64,
    pub share_kbit: Option<u64>,
    pub flows: Vec<Flow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    pub flow: u32,
    /// Only of our own: they are not reported.
    pub ends: Option<String>,
    pub cwnd: u32,
    pub ssthresh: Option<u32>,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub goodput_kbit: u32,
    pub losses: u16,
    pub unsteady: u8,
    pub hungry: bool,
    pub unstable: bool,
    /// In force, by its own word.
    pub algorithm: String,
    pub cap: Option<u32>,
    /// Decided.
    pub decided_algorithm: String,
    pub decided_cap: Option<u32>,
    pub why: String,
}

/// The messages that were not believed, by reason.
pub fn refusals(counters: &Counters, others: u64) -> Vec<(&'static str, u64)> {
    let all = [
        ("of other groups, keys or access points", others),
        ("forged or damaged", counters.foreign),
        ("replayed", counters.replayed),
        ("by senders that have not yet proven that they are alive", counters.unproven),
        ("with absurd numbers", counters.absurd),
        ("by too many terminals", counters.crowded),
        ("in a flood", counters.flood),
        ("with our own identity", counters.clash),
    ];
    all.into_iter().filter(|&(_, count)| count > 0).collect()
}

/// What was done to a connection.
pub fn said(treatment: &Treatment) -> String {
    let algorithm = match treatment.algorithm {
        _ if treatment.is_none() => return "as before".into(),
        Algorithm::Steady => Some("steady".to_owned()),
        Algorithm::Default => None,
    };
    let cap = treatment.cap.map(|cap| format!("cap {cap}"));
    algorithm.into_iter().chain(cap).collect::<Vec<_>>().join(", ")
}

fn treatment(algorithm: &str, cap: Option<u32>) -> String {
    match (algorithm, cap) {
        ("default", None) => "-".into(),
        (name, None) => name.into(),
        (name, Some(cap)) => format!("{name} {cap}"),
    }
}

fn mbit(kbit: u64) -> String {
    format!("{:.2}", kbit as f64 / 1000.0)
}

impl State {
    pub fn table(&self) -> String {
        let mut to = String::new();
        let dry = if self.dry_run { ", dry run: nothing is touched" } else { "" };
        let air = match self.air_kbit {
            0 => "air not known yet".into(),
            kbit => format!("air {} Mbit/s", mbit(kbit)),
        };
        let _ = writeln!(
            to,
            "{} ({}) on {}, {}\n{} by rules {}{dry}: {} terminals, {} want more, {air}\n",
            self.access_point,
            self.known_by,
            self.interface,
            self.way,
            self.function,
            self.rules,
            self.terminals.len(),
            self.hungry,
        );
        let _ = writeln!(
            to,
            "{:<17} {:>5} {:>7} {:>7} {:>6} {:>7} {:>7} {:>5} {:<12} {:<12} why",
            "terminal",
            "class",
            "Mbit/s",
            "share",
            "cwnd",
            "rtt ms",
            "min ms",
            "lacks",
            "in force",
            "decided"
        );
        self.terminals.iter().for_each(|terminal| terminal.lines(&mut to));
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(to, "\ntrouble: {trouble}");
        }
        if self.reopened > 0 {
            let _ = writeln!(to, "\nthe link to the others was reopened {} times", self.reopened);
        }
        if let Some(why) = &self.unfiltered {
            let _ = writeln!(to, "\nforged messages are dropped in user space: {why}");
        }
        if let Ok(counters) = serde_json::from_value::<Counted>(self.messages.clone()) {
            for (what, count) in counters.refused {
                let _ = writeln!(to, "ignored: {count} messages {what}");
            }
        }
        to
    }
}

#[derive(Deserialize)]
struct Counted {
    refused: Vec<(String, u64)>,
}

impl Terminal {
    fn lines(&self, to: &mut String) {
        let mark = if self.own { "*" } else { "" };
        let name = format!("{}{mark}", self.name);
        let share = self.share_kbit.map_or("-".into(), mbit);
        let head =
            format!("{name:<17} {:>5} {:>7} {share:>7}", self.class, mbit(self.goodput_kbit));
        let mut notes = Vec::new();
        if self.other_rules {
            notes.push("decides by other rules");
        }
        if self.dry_run && !self.own {
            notes.push("dry run");
        }
        if self.flows.is_empty() {
            let _ = writeln!(to, "{head}  sends nothing {}", notes.join(", "));
            return;
        }
        let mut begin = head.as_str();
        for flow in &self.flows {
            let _ = writeln!(
                to,
                "{begin:<39} {:>6} {:>7.1} {:>7.1} {:>4}% {:<12} {:<12} {}",
                flow.cwnd,
                f64::from(flow.srtt_us) / 1000.0,
                f64::from(flow.min_rtt_us) / 1000.0,
                flow.unsteady,
                treatment(&flow.algorithm, flow.cap),
                treatment(&flow.decided_algorithm, flow.decided_cap),
                flow.why,
            );
            begin = "";
        }
        if !notes.is_empty() {
            let _ = writeln!(to, "  {}", notes.join(", "));
        }
    }
}

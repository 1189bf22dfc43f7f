//! What a terminal says of itself.

use std::fmt;

use serde::Serialize;

/// Flows of one report at most; a terminal with more reports its fastest.
pub const MOST_FLOWS: usize = 16;
/// Bytes of a terminal's name at most.
pub const MOST_NAME: usize = 24;

/// Stays the same when the terminal restarts, so that it is not counted twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(pub [u8; 8]);

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for TerminalId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A flow's number, which means something only to its own terminal.
pub type FlowId = u32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Whatever the connection had before anybody interfered.
    #[default]
    Default,
    /// The papers' own TCP.
    Steady,
}

/// What is done to a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Treatment {
    pub algorithm: Algorithm,
    /// Upper limit of the congestion window, segments.
    pub cap: Option<u32>,
}

impl Treatment {
    pub fn is_none(&self) -> bool {
        *self == Treatment::default()
    }
}

/// One connection on which the terminal sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    pub id: FlowId,
    /// Segments.
    pub cwnd: u32,
    /// Segments; None = not set.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, µs (RFC 6298).
    pub srtt_us: u32,
    /// The smallest seen, µs: the path without its queues.
    pub min_rtt_us: u32,
    /// Bytes of payload a segment.
    pub mss: u16,
    /// Bytes newly acknowledged, kbit/s over the last second or two.
    pub goodput_kbit: u32,
    /// Times that the congestion control gave way within the last 10 s.
    pub losses: u16,
    /// How much of the window that it had it lacks, percent, on the average of 10 s.
    pub unsteady: u8,
    /// Has more to send than it may: neither the program nor the receiver holds it back.
    pub hungry: bool,
    /// It lacks too much, or did until recently (with hysteresis).
    pub unstable: bool,
    /// What is done to it now.
    pub treatment: Treatment,
}

/// All that a terminal says at a time. Each report replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub terminal: TerminalId,
    /// For people only.
    pub name: String,
    /// How fast the device is, relative to others, in tenths: 10 is an ordinary one, 20 twice as
    /// fast (thesis section 5.2: HT-03A to Nexus S is 1 to 2).
    pub class: u16,
    /// A digest of the rules it decides by.
    pub rules: u32,
    /// The most that it has seen the whole group get together lately, kbit/s; 0 = not known.
    pub air_kbit: u32,
    /// Its last word.
    pub leaving: bool,
    /// It decides, but does nothing.
    pub dry_run: bool,
    pub flows: Vec<Flow>,
}

/// Which number cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absurd(pub &'static str);

impl fmt::Display for Absurd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is out of range", self.0)
    }
}

/// Segments. The largest window that can be scaled (RFC 7323: 2^30 bytes) in segments of 536 bytes.
const MOST_SEGMENTS: u32 = 2_003_000;
/// µs. The largest RTO of Linux (TCP_RTO_MAX).
const LONGEST_RTT: u32 = 120_000_000;
/// kbit/s: 100 Gbit/s.
const FASTEST: u32 = 100_000_000;
/// RFC 9293, section 3.7.1, and RFC 879: what a path must carry; jumbo frames stay below.
const MSS: std::ops::RangeInclusive<u16> = 48..=65_495;
/// A tenth to a hundred times as fast.
const CLASS: std::ops::RangeInclusive<u16> = 1..=1000;

fn within(name: &'static str, holds: bool) -> Result<(), Absurd> {
    if holds { Ok(()) } else { Err(Absurd(name)) }
}

impl Flow {
    /// How long its packets wait in queues, µs.
    pub fn waits_us(&self) -> u32 {
        self.srtt_us.saturating_sub(self.min_rtt_us)
    }

    /// # Errors
    /// Names the first number that no TCP connection can have.
    pub fn check(&self) -> Result<(), Absurd> {
        within("cwnd", (1..=MOST_SEGMENTS).contains(&self.cwnd))?;
        within("ssthresh", self.ssthresh.is_none_or(|it| (1..=MOST_SEGMENTS).contains(&it)))?;
        within("srtt", (1..=LONGEST_RTT).contains(&self.srtt_us))?;
        within("min_rtt", (1..=LONGEST_RTT).contains(&self.min_rtt_us))?;
        within("mss", MSS.contains(&self.mss))?;
        within("goodput", self.goodput_kbit <= FASTEST)?;
        within("unsteady", self.unsteady <= 100)?;
        within("cap", self.treatment.cap.is_none_or(|it| (1..=MOST_SEGMENTS).contains(&it)))
    }
}

impl Report {
    /// # Errors
    /// Names the first number that cannot be.
    pub fn check(&self) -> Result<(), Absurd> {
        let plain = |name: &str| !name.is_empty() && name.chars().all(|c| !c.is_control());
        within("name", self.name.len() <= MOST_NAME && plain(&self.name))?;
        within("class", CLASS.contains(&self.class))?;
        within("air rate", self.air_kbit <= FASTEST)?;
        within("number of flows", self.flows.len() <= MOST_FLOWS)?;
        let in_order = self.flows.windows(2).all(|pair| pair[0].id < pair[1].id);
        within("order of flows", in_order)?;
        self.flows.iter().try_for_each(Flow::check)
    }

    /// Of all its flows.
    pub fn goodput_kbit(&self) -> u64 {
        self.flows.iter().map(|flow| u64::from(flow.goodput_kbit)).sum()
    }

    /// Whether one of its flows would send more if it could.
    pub fn hungry(&self) -> bool {
        self.flows.iter().any(|flow| flow.hungry)
    }

    /// Whether what it says differs enough to be reported at once and not within the next second.
    pub fn differs_much(&self, before: &Report) -> bool {
        let key = |report: &Report| {
            let flows: Vec<_> =
                report.flows.iter().map(|f| (f.id, f.hungry, f.unstable, f.treatment)).collect();
            (report.class, report.rules, report.leaving, flows)
        };
        key(self) != key(before)
            || self.flows.iter().zip(&before.flows).any(|(now, then)| {
                now.cwnd < then.cwnd / 2 || now.cwnd > then.cwnd.saturating_mul(2)
            })
    }
}

/// A name that others may show: printable, and not longer than [`MOST_NAME`] bytes.
pub fn tidy_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.trim().chars().map(|c| if c.is_control() { '?' } else { c }) {
        if name.len() + c.len_utf8() > MOST_NAME {
            break;
        }
        name.push(c);
    }
    if name.is_empty() { "unnamed".into() } else { name }
}

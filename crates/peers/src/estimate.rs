//! What a terminal measures of itself, from looks at its connections: goodput, losses, how steady
//! a window is, and how much the air has given to the whole group.
//!
//! All that must be remembered is remembered here and reported to the others, so that the decision
//! itself needs no memory.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::{Flow, FlowId, Treatment};

/// How far back a flow is looked at.
const LOOK_BACK: Duration = Duration::from_secs(10);
/// Over this time goodput is taken.
const RATE_OVER: Duration = Duration::from_millis(1500);
/// How long a flow must want more, or want no more, before it is called so.
const HUNGRY_AFTER: Duration = Duration::from_millis(800);
const SATED_AFTER: Duration = Duration::from_secs(3);
/// A flow that has moved nothing for that long is not reported.
const IDLE_AFTER: Duration = Duration::from_secs(4);
/// What a first slow start overshot is set right by then.
const LEARNT_AFTER: Duration = Duration::from_secs(1);
/// Looks that are kept at most, however often they are taken.
const MOST_LOOKS: usize = 200;

/// When a window counts as unstable.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stability {
    /// Percent of its window that a flow lacks, from which on it is unstable. Reno's own sawtooth
    /// lacks 25 %.
    pub unstable_above: u8,
    /// Or so many times within 10 s it gave way though its packets had not waited in a queue: what
    /// was lost was lost on the air (DICOMO 2011, section 5.3).
    pub losses: u32,
    /// Percent below which it is stable again, if it stays there and loses nothing that way.
    pub stable_below: u8,
    /// Seconds that it must stay there.
    pub stable_for_s: u32,
}

/// A path's queues are empty if they make a round trip longer by less than this part of it.
const EMPTY: u32 = 8;

impl Look {
    /// Whether its packets find no queue. Short round trips are too noisy to show it.
    fn finds_no_queue(&self) -> bool {
        self.srtt_us.saturating_sub(self.min_rtt_us) < self.min_rtt_us / EMPTY
    }
}

impl Default for Stability {
    fn default() -> Stability {
        Stability { unstable_above: 40, losses: 2, stable_below: 28, stable_for_s: 60 }
    }
}

/// One look at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Segments.
    pub cwnd: u32,
    /// Segments; None = not set.
    pub ssthresh: Option<u32>,
    /// µs.
    pub srtt_us: u32,
    /// µs.
    pub min_rtt_us: u32,
    /// Bytes.
    pub mss: u16,
    /// Bytes acknowledged since any moment, modulo 2^32.
    pub acked: u32,
    /// In recovery, loss or CWR (RFC 6675; the kernel's TCP_CA_*).
    pub gives_way: bool,
    /// Would send more than its window allows.
    pub wants: bool,
}

/// What is remembered of a flow.
#[derive(Clone, Debug)]
pub struct Track {
    id: FlowId,
    looks: VecDeque<(Duration, Look)>,
    /// Of each look since the window counts: percent that was missing.
    missing: VecDeque<(Duration, u8)>,
    losses: VecDeque<Duration>,
    /// Those of them before which nothing waited in a queue.
    unexplained: VecDeque<Duration>,
    /// Since when it wants otherwise than `hungry` says.
    turned: Option<Duration>,
    hungry: bool,
    moved: Duration,
    has_lost: bool,
    /// From when on its window says something: losses of its first slow start are how TCP learns,
    /// no instability.
    counts_from: Duration,
    unstable: bool,
    calm_since: Option<Duration>,
}

impl Track {
    pub fn new(id: FlowId, now: Duration) -> Track {
        Track {
            id,
            looks: VecDeque::new(),
            missing: VecDeque::new(),
            losses: VecDeque::new(),
            unexplained: VecDeque::new(),
            turned: None,
            hungry: false,
            moved: now,
            has_lost: false,
            counts_from: Duration::ZERO,
            unstable: false,
            calm_since: None,
        }
    }

    /// Takes one look in; `now` must not go back.
    pub fn look(&mut self, now: Duration, look: Look, stability: &Stability) {
        self.note_loss(now, &look);
        self.note_hunger(now, look.wants);
        if self.looks.back().is_none_or(|(_, last)| last.acked != look.acked) {
            self.moved = now;
        }
        self.looks.push_back((now, look));
        while self.looks.len() > MOST_LOOKS
            || self.looks.front().is_some_and(|&(at, _)| at + LOOK_BACK < now)
        {
            self.looks.pop_front();
        }
        for losses in [&mut self.losses, &mut self.unexplained] {
            while losses.front().is_some_and(|&at| at + LOOK_BACK < now) {
                losses.pop_front();
            }
        }
        self.note_missing(now, look.cwnd);
        self.note_stability(now, stability);
    }

    fn note_loss(&mut self, now: Duration, look: &Look) {
        let Some(&(_, last)) = self.looks.back() else { return };
        let lowered = look.ssthresh != last.ssthresh && look.ssthresh.is_some();
        if lowered || (look.gives_way && !last.gives_way) {
            let learns = !self.has_lost && self.grew(now, last.cwnd);
            if learns {
                self.counts_from = now + LEARNT_AFTER;
                self.missing.clear();
            }
            self.has_lost = true;
            self.losses.push_back(now);
            if !learns && last.finds_no_queue() {
                self.unexplained.push_back(now);
            }
        }
        self.losses.truncate(MOST_LOOKS);
        self.unexplained.truncate(MOST_LOOKS);
    }

    /// Whether the window became larger by a fifth or more within the last second.
    fn grew(&self, now: Duration, cwnd: u32) -> bool {
        let before = self.looks.iter().find(|&&(at, _)| at + LEARNT_AFTER >= now);
        before.is_none_or(|(_, look)| u64::from(cwnd) * 5 >= u64::from(look.cwnd) * 6)
    }

    fn note_hunger(&mut self, now: Duration, wants: bool) {
        if wants == self.hungry {
            self.turned = None;
            return;
        }
        let since = *self.turned.get_or_insert(now);
        let long_enough = if wants { HUNGRY_AFTER } else { SATED_AFTER };
        if now >= since + long_enough {
            (self.hungry, self.turned) = (wants, None);
        }
    }

    fn note_stability(&mut self, now: Duration, stability: &Stability) {
        let lacks = self.lacks();
        let lost = self.unexplained.len() >= stability.losses as usize;
        if self.hungry && (lacks >= stability.unstable_above || lost) {
            (self.unstable, self.calm_since) = (true, None);
        } else if lacks > stability.stable_below || !self.unexplained.is_empty() {
            self.calm_since = None;
        } else if self.unstable {
            let since = *self.calm_since.get_or_insert(now);
            if now >= since + Duration::from_secs(stability.stable_for_s.into()) {
                (self.unstable, self.calm_since) = (false, None);
            }
        }
    }

    /// How much of the largest window of the last 10 s is missing now.
    fn note_missing(&mut self, now: Duration, cwnd: u32) {
        let counted = self.looks.iter().filter(|&&(at, _)| at >= self.counts_from);
        let Some(largest) = counted.map(|(_, look)| u64::from(look.cwnd)).max() else { return };
        let missing = 100 * (largest - u64::from(cwnd).min(largest)) / largest.max(1);
        self.missing.push_back((now, missing as u8));
        while self.missing.len() > MOST_LOOKS
            || self.missing.front().is_some_and(|&(at, _)| at + LOOK_BACK < now)
        {
            self.missing.pop_front();
        }
    }

    /// The mean of what was missing. A window that only grows lacks nothing.
    fn lacks(&self) -> u8 {
        let sum: u64 = self.missing.iter().map(|&(_, percent)| u64::from(percent)).sum();
        sum.checked_div(self.missing.len() as u64).unwrap_or(0) as u8
    }

    fn goodput_kbit(&self) -> u32 {
        let Some(&(now, last)) = self.looks.back() else { return 0 };
        let from = self.looks.iter().rev().find(|&&(at, _)| at + RATE_OVER <= now);
        let Some(&(then, first)) = from.or(self.looks.front()) else { return 0 };
        let bits = u64::from(last.acked.wrapping_sub(first.acked)) * 8;
        let ms = (now - then).as_millis() as u64;
        bits.checked_div(ms).unwrap_or(0).min(100_000_000) as u32
    }

    /// Whether it is worth reporting.
    pub fn is_active(&self, now: Duration) -> bool {
        self.hungry || self.looks.len() > 1 && self.moved + IDLE_AFTER > now
    }

    /// Its part of a report. None before the path's round-trip time is known.
    pub fn flow(&self, treatment: Treatment) -> Option<Flow> {
        let &(_, look) = self.looks.back()?;
        let flow = Flow {
            id: self.id,
            cwnd: look.cwnd,
            ssthresh: look.ssthresh,
            srtt_us: look.srtt_us,
            min_rtt_us: look.min_rtt_us,
            mss: look.mss,
            goodput_kbit: self.goodput_kbit(),
            losses: self.losses.len() as u16,
            unsteady: self.lacks(),
            hungry: self.hungry,
            unstable: self.unstable,
            treatment,
        };
        flow.check().is_ok().then_some(flow)
    }
}

/// Means are taken over this time, and so many of them are kept.
const AIR_SPAN: Duration = Duration::from_secs(5);
const AIR_SPANS: usize = 24;

/// The most that the whole group got together while the air was full, within two minutes.
#[derive(Clone, Debug, Default)]
pub struct Air {
    begun: Option<Duration>,
    sum: u64,
    looks: u64,
    full: u64,
    means: VecDeque<(Duration, u64)>,
}

impl Air {
    /// `kbit`: what all terminals get together now; `full`: whether packets wait. A span
    /// counts if it was so for three quarters of it: a fade of one link makes packets wait, too,
    /// and a window that still grows says nothing about the air.
    pub fn look(&mut self, now: Duration, kbit: u64, full: bool) {
        let begun = *self.begun.get_or_insert(now);
        if now >= begun + AIR_SPAN {
            if let Some(mean) = self.sum.checked_div(self.full)
                && self.full * 4 >= self.looks * 3
            {
                self.means.push_back((now, mean));
            }
            *self =
                Air { begun: Some(now), means: std::mem::take(&mut self.means), ..Air::default() };
        }
        self.looks += 1;
        if full {
            self.sum += kbit;
            self.full += 1;
        }
        while self.means.front().is_some_and(|&(at, _)| at + AIR_SPAN * AIR_SPANS as u32 <= now) {
            self.means.pop_front();
        }
    }

    /// kbit/s; 0 = not known yet.
    pub fn best_kbit(&self) -> u32 {
        let best = self.means.iter().map(|&(_, mean)| mean).max().unwrap_or(0);
        best.min(100_000_000) as u32
    }
}

//! What happened to a connection, as stretches of time with a name.

use serde::Serialize;
use transom_event::{CaState, Direction, Kind, flags};

use crate::track::{Step, is_synchronized, steps};
use crate::{Connection, cwnd_falls, recoveries, slow_start};

/// A plateau of cwnd that lasts this many round trips, though the sender would
/// use more, is saturation: Reno would have grown by as many segments.
pub const PLATEAU_RTTS: u64 = 32;
/// Share of the connection's time that a plateau must last.
pub const PLATEAU_SHARE: f64 = 0.5;
/// Round trips that cwnd must stay at its clamp.
pub const CLAMPED_RTTS: u64 = 4;

/// Something that happened between two times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Episode {
    pub start_ns: u64,
    pub end_ns: u64,
    #[serde(flatten)]
    pub kind: EpisodeKind,
}

/// What it was. Windows in segments, times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "episode", rename_all = "snake_case")]
pub enum EpisodeKind {
    /// cwnd below ssthresh and growing (RFC 5681 section 3.1).
    SlowStart { cwnd_from: u32, cwnd_to: u32, end: SlowStartEnd },
    /// Loss repaired on duplicate ACKs or SACK (RFC 6675, RFC 8985).
    FastRecovery {
        cwnd_before: u32,
        cwnd_after: u32,
        retransmitted: u64,
        /// Both windows were given back: nothing had been lost (RFC 3522, RFC 3708).
        undone: bool,
    },
    /// The retransmission timer expired (RFC 6298).
    Timeout {
        /// In a row.
        timeouts: u32,
        /// From the last progress before the first to the first progress after the last.
        stalled_ns: u64,
        cwnd_before: u32,
        cwnd_after: u32,
        retransmitted: u64,
        undone: bool,
    },
    /// cwnd taken back after silence longer than the RTO (RFC 5681 section 4.1, `tcp_cwnd_restart`).
    IdleRestart { idle_ns: u64, cwnd_before: u32, cwnd_after: u32 },
    /// cwnd taken back because it was not used (RFC 7661, `tcp_cwnd_application_limited`).
    CwndValidation { cwnd_before: u32, cwnd_after: u32 },
    /// cwnd fell though nothing was lost on the path.
    WindowCollapse { cwnd_before: u32, cwnd_after: u32, cause: CollapseCause },
    /// A window of zero, and until it opened again.
    ZeroWindow { by: WindowSide },
    /// cwnd stayed at its greatest value though the sender would have used more.
    Saturated {
        cwnd: u32,
        /// At `snd_cwnd_clamp`; otherwise what holds it is not to be seen.
        at_clamp: bool,
    },
}

/// How slow start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStartEnd {
    Loss,
    /// ssthresh was set to cwnd without loss: HyStart (RFC 9406) or its like.
    Delay,
    /// cwnd reached an ssthresh that was set before.
    Threshold,
    Clamp,
    LocalCongestion,
    /// The path marked congestion (RFC 3168).
    Ecn,
    /// The sender fell silent or did not use the window.
    Unused,
    /// The recording or the connection ended first.
    Still,
}

/// Why cwnd fell without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollapseCause {
    /// The device or its queue here refused a segment (`tcp_enter_cwr` from `__tcp_transmit_skb`).
    LocalCongestion,
    /// Congestion marks of the path, on a connection with ECN.
    Ecn,
    /// A tail loss probe repaired a loss without any duplicate ACK (RFC 8985 section 7.4.2).
    TailLoss,
    /// The algorithm, the clamp or a policy was changed just before.
    Policy,
    /// BBR's probe of the minimum RTT.
    ProbeRtt,
    Unknown,
}

/// Whose window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSide {
    /// The other side's program or memory is short.
    Other,
    /// The program here does not read.
    Here,
}

impl Episode {
    /// Every episode of the connection, in the order of their start.
    pub fn of(connection: &Connection) -> Vec<Episode> {
        find(connection, &steps(connection))
    }

    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

pub(crate) fn find(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let steps: Vec<Step> =
        steps.iter().filter(|step| is_synchronized(step.state())).copied().collect();
    let mut episodes = slow_start::find(connection, &steps);
    episodes.extend(recoveries::find(connection, &steps));
    episodes.extend(cwnd_falls::find(connection, &steps));
    episodes.extend(zero_windows(&steps));
    episodes.extend(saturations(connection, &steps));
    episodes.sort_by_key(|episode| (episode.start_ns, episode.end_ns));
    episodes
}

/// Congestion states as stretches `from..to` of steps; `to` is the first step after.
pub(crate) fn ca_spells(steps: &[Step]) -> Vec<(Option<CaState>, std::ops::Range<usize>)> {
    let mut spells: Vec<(Option<CaState>, std::ops::Range<usize>)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match spells.last_mut() {
            Some((ca, range)) if *ca == step.ca() => range.end = i + 1,
            _ => spells.push((step.ca(), i..i + 1)),
        }
    }
    spells
}

/// The last change of the window before a spell, told from what came after it.
pub(crate) fn time_at(steps: &[Step], index: usize) -> u64 {
    steps.get(index).or(steps.last()).map_or(0, Step::time_ns)
}

fn zero_windows(steps: &[Step]) -> Vec<Episode> {
    let mut episodes = stretches(steps, |step| {
        let told =
            step.kind() == Kind::ZeroWindow && step.point.aux[0] == Direction::Received as u32;
        told || step.state().snd_wnd == 0
    })
    .map(|(start_ns, end_ns)| Episode {
        start_ns,
        end_ns,
        kind: EpisodeKind::ZeroWindow { by: WindowSide::Other },
    })
    .collect::<Vec<_>>();
    episodes.extend(
        stretches(steps, |step| {
            let told =
                step.kind() == Kind::ZeroWindow && step.point.aux[0] == Direction::Sent as u32;
            told || step.state().rcv_wnd == 0
        })
        .map(|(start_ns, end_ns)| Episode {
            start_ns,
            end_ns,
            kind: EpisodeKind::ZeroWindow { by: WindowSide::Here },
        }),
    );
    episodes
}

/// Start and end of each stretch of steps for which `holds`.
fn stretches<'a>(
    steps: &'a [Step],
    holds: impl Fn(&Step) -> bool + 'a,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let mut i = 0;
    std::iter::from_fn(move || {
        i += steps[i.min(steps.len())..].iter().position(&holds)?;
        let start = i;
        i += steps[i..].iter().position(|step| !holds(step)).unwrap_or(steps.len() - i);
        Some((steps[start].time_ns(), time_at(steps, i)))
    })
}

/// cwnd at its clamp, or flat at its greatest value, though the sender would use more.
fn saturations(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let Some(greatest) = steps.iter().map(|step| step.state().cwnd).max() else {
        return Vec::new();
    };
    let duration = connection.last_ns.saturating_sub(connection.first_ns);
    let mut episodes = Vec::new();
    let mut i = 0;
    while i < steps.len() {
        let cwnd = steps[i].state().cwnd;
        let run = steps[i..].iter().take_while(|step| step.state().cwnd == cwnd).count();
        let stretch = &steps[i..i + run];
        let (start_ns, end_ns) = (steps[i].time_ns(), time_at(steps, i + run));
        i += run;
        let at_clamp =
            stretch.iter().any(|step| step.state().clamp_set().is_some_and(|c| c <= cwnd));
        let rtts = round_trips(stretch, end_ns - start_ns);
        let lasts = (end_ns - start_ns) as f64 >= PLATEAU_SHARE * duration as f64;
        let flat = cwnd == greatest && rtts >= PLATEAU_RTTS && lasts && would_use_more(stretch);
        if at_clamp && rtts >= CLAMPED_RTTS && would_use_more(stretch) || flat {
            let kind = EpisodeKind::Saturated { cwnd, at_clamp };
            episodes.push(Episode { start_ns, end_ns, kind });
        }
    }
    join(episodes)
}

/// Saturations at the same cwnd, one after the other, are one.
fn join(episodes: Vec<Episode>) -> Vec<Episode> {
    let mut joined: Vec<Episode> = Vec::new();
    for episode in episodes {
        match joined.last_mut() {
            Some(last) if last.kind == episode.kind => last.end_ns = episode.end_ns,
            _ => joined.push(episode),
        }
    }
    joined
}

fn round_trips(steps: &[Step], length_ns: u64) -> u64 {
    let srtt = steps.iter().map(|step| step.state().srtt_us).filter(|&us| us > 0).max();
    srtt.map_or(0, |us| length_ns / 1000 / u64::from(us))
}

/// Whether the kernel said "cwnd limited" at most of the steps, out of loss recovery.
fn would_use_more(steps: &[Step]) -> bool {
    let limited = |step: &&Step| {
        let state = step.state();
        state.has(flags::CWND_LIMITED) || state.unsent > 0 && state.in_flight() >= state.cwnd
    };
    let open = |step: &Step| matches!(step.ca(), Some(CaState::Open | CaState::Disorder));
    // Data that leaves is at that moment not limited, whatever it was before.
    let waits = steps.iter().filter(|step| step.kind() != Kind::Send);
    steps.iter().all(open) && waits.clone().filter(limited).count() * 2 > waits.count()
}

//! Finds every episode of a connection.

use transom_event::{CaState, Direction, Kind, flags};

use crate::track::{Step, is_synchronized, time_at};
use crate::{Connection, Episode, EpisodeKind, WindowSide, cwnd_falls, recoveries, slow_start};

/// A plateau of cwnd that lasts this many round trips, though the sender would
/// use more, is saturation: Reno would have grown by as many segments.
pub const PLATEAU_RTTS: u64 = 32;
/// Share of the connection's time that a plateau must last.
pub const PLATEAU_SHARE: f64 = 0.5;
/// Round trips that cwnd must stay at its clamp.
pub const CLAMPED_RTTS: u64 = 4;

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

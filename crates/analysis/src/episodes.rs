//! Finds every episode of a connection.

use transom_event::{CaState, Direction, Kind, State, flags};

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
    episodes.extend(zero_windows(&steps, WindowSide::Other));
    episodes.extend(zero_windows(&steps, WindowSide::Here));
    episodes.extend(saturations(connection, &steps));
    episodes.sort_by_key(|episode| (episode.start_ns, episode.end_ns));
    episodes
}

/// A segment that closes the window is recorded before the kernel takes its window over: the events
/// of that segment still show the window of before. They come within this time, ns.
const SAME_SEGMENT_NS: u64 = 1_000_000;

fn zero_windows(steps: &[Step], by: WindowSide) -> Vec<Episode> {
    let (direction, window): (_, fn(&State) -> u32) = match by {
        WindowSide::Other => (Direction::Received, |state| state.snd_wnd),
        WindowSide::Here => (Direction::Sent, |state| state.rcv_wnd),
    };
    // A kernel that does not tell the window has 0 in all states.
    let is_known = steps.iter().any(|step| window(step.state()) > 0);
    let mut episodes = Vec::new();
    let mut i = 0;
    while i < steps.len() {
        let reported = steps[i].is_zero_window(direction);
        if !reported && (window(steps[i].state()) > 0 || !is_known) {
            i += 1;
            continue;
        }
        let start_ns = steps[i].time_ns();
        i += 1;
        if reported {
            i += same_segment(&steps[i - 1], &steps[i..]);
        }
        while steps.get(i).is_some_and(|step| window(step.state()) == 0) {
            i += 1;
        }
        let kind = EpisodeKind::ZeroWindow { by };
        episodes.push(Episode { start_ns, end_ns: time_at(steps, i), kind });
    }
    episodes
}

/// How many of the next steps tell of the same segment: up to its `ack`, which comes last.
fn same_segment(first: &Step, next: &[Step]) -> usize {
    let same = |step: &&Step| {
        step.point.place == first.point.place
            && !step.is_after()
            && step.time_ns() - first.time_ns() < SAME_SEGMENT_NS
    };
    let all = next.iter().take_while(same);
    let mut count = 0;
    for step in all {
        count += 1;
        if step.kind() == Kind::Ack {
            break;
        }
    }
    count
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
        let in_use_ns = in_use_ns(&steps[i..steps.len().min(i + run + 1)]);
        i += run;
        let at_clamp =
            stretch.iter().any(|step| step.state().clamp_set().is_some_and(|c| c <= cwnd));
        let rtts = round_trips(stretch, in_use_ns);
        let lasts = in_use_ns as f64 >= PLATEAU_SHARE * duration as f64;
        let flat = cwnd == greatest && rtts >= PLATEAU_RTTS && lasts && would_use_more(stretch);
        if at_clamp && rtts >= CLAMPED_RTTS && would_use_more(stretch) || flat {
            let kind = EpisodeKind::Saturated { cwnd, at_clamp };
            episodes.push(Episode { start_ns, end_ns, kind });
        }
    }
    episodes
}

/// The time in which there was something to send or to be acknowledged, ns: a window that nothing
/// waits for does not grow.
fn in_use_ns(steps: &[Step]) -> u64 {
    let in_use = |step: &Step| {
        let state = step.settled();
        state.outstanding() > 0 || state.unsent > 0
    };
    let waits = steps.windows(2).filter(|pair| in_use(&pair[0]));
    waits.map(|pair| pair[1].time_ns() - pair[0].time_ns()).sum()
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

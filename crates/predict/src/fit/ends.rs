//! What the two ends contributed: the sender's settings and device, the receiver's window.

use transom_analysis::{Analysis, Cause, Connection, Limit, Step};
use transom_event::{Kind, State, fields, flags};

use crate::model::{Receiver, Sender};
use crate::observation::Observation;
use crate::parameter::Parameter;

/// Linux's initial window, segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// Memory that a segment takes at least beside its data (`MAX_TCP_HEADER`, `skb_shared_info`), which
/// depends on how the kernel was built, and for its `sk_buff`, bytes.
const HEADERS: u32 = 512;
const METADATA: u32 = 256;
/// So often a program does not set its buffer anew: one that grew in more steps was the kernel's.
const GROWTH: usize = 3;
/// Share of the states with one and the same pacing rate from which the program has set it.
const SAME_RATE: f64 = 0.4;
/// Share of the time from which a limit is modelled.
const MODELLED: f64 = 0.1;
/// Share of the states in which a buffer has one and the same size, from which that is its own.
const STAYED: f64 = 0.5;
/// A kernel that sizes its buffer itself offers this many times what is in flight.
const OFFERED: f64 = 1.5;

pub fn sender(connection: &Connection, analysis: &Analysis, steps: &[Step]) -> Sender {
    let states = || steps.iter().map(Step::state);
    let first = steps.iter().find(|step| step.kind() == Kind::Send).map(Step::state);
    let initial = first.map_or(INITIAL_WINDOW, |state| state.cwnd);
    let cap = states().filter_map(State::clamp_set).max();
    let (send_buffer, send_buffer_grew) = send_buffer(analysis, steps, initial);
    Sender {
        algorithm: connection.algorithm(),
        initial_window: (initial != INITIAL_WINDOW && cap.is_none_or(|cap| initial < cap))
            .then_some(initial),
        cap,
        send_buffer,
        send_buffer_grew,
        pacing: fixed_rate(steps),
        device: device(analysis, steps),
        gso_segments: gso(steps),
    }
}

/// How many segments the device takes at once, if it never took what the kernel would have given.
fn gso(steps: &[Step]) -> u32 {
    let sends = || steps.iter().filter(|step| step.kind() == Kind::Send);
    let most = sends().map(|step| fields::sent(step.point.aux).1).max().unwrap_or(1).max(1);
    // A millisecond of the pacing rate, two segments at least (`tcp_tso_autosize`).
    let given = |state: &State| (state.pacing().unwrap_or(0) >> 10) / u64::from(state.mss.max(1));
    let given = sends().map(|step| given(step.state()).max(2)).max().unwrap_or(2);
    if u64::from(most) < given || most == 1 { most } else { UNLIMITED }
}

/// `gso_max_segs` of devices that do not limit it.
const UNLIMITED: u32 = 65_535;

/// The fixed one, and whether the kernel had let it grow to that. One that stayed as it was from
/// the beginning was set by the program, unless it is what a new socket has and no limit. Of one
/// that was a limit, the steps tell who changed it: the kernel adds to it with each larger window,
/// a program sets it at once, larger or smaller.
fn send_buffer(analysis: &Analysis, steps: &[Step], initial: u32) -> (Option<u32>, bool) {
    let states = || steps.iter().map(Step::state);
    let sizes: Vec<u32> = states().filter_map(State::send_buffer_bytes).collect();
    let Some(kept) = most_of(&sizes) else { return (None, false) };
    let limits = analysis.limits.share(Limit::SendBuffer) >= MODELLED;
    let (rises, falls) = changes(&sizes);
    if rises + falls == 0 {
        let mss = states().map(|state| u32::from(state.mss)).max().unwrap_or(0);
        let is_fixed = limits || !is_of_a_new_socket(kept, mss, initial);
        return (is_fixed.then_some(kept / 2), false);
    }
    // Under memory pressure the kernel takes from it again and again.
    let is_fixed = limits && falls <= 1;
    let grew = rises >= GROWTH && sizes.iter().max() == Some(&kept);
    (is_fixed.then_some(kept / 2), is_fixed && grew)
}

/// The size of most of the states, if there is one.
fn most_of(sizes: &[u32]) -> Option<u32> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let most = sorted.chunk_by(|a, b| a == b).max_by_key(|same| same.len())?;
    (most.len() as f64 >= STAYED * sizes.len() as f64).then(|| most[0])
}

/// How often it became larger, and smaller.
fn changes(sizes: &[u32]) -> (usize, usize) {
    let pairs = || sizes.windows(2);
    let rises = pairs().filter(|pair| pair[0] < pair[1]).count();
    (rises, pairs().filter(|pair| pair[0] > pair[1]).count())
}

/// Whether the kernel gives so much, recorded in whole KiB, for the first window
/// (`tcp_sndbuf_expand`): twice what it takes, with BBR three times. It counts the larger of the
/// peer's MSS, which is not recorded, and ours, with headers of which only the least is known.
fn is_of_a_new_socket(size: u32, mss: u32, initial: u32) -> bool {
    let segment = (mss + HEADERS).next_power_of_two();
    let window = |segment: u32| (segment + METADATA) * initial.max(INITIAL_WINDOW);
    let mut windows = [segment, 2 * segment].into_iter().map(window);
    windows.any(|window| [2 * window, 3 * window].iter().any(|given| given >> 10 == size >> 10))
}

/// SO_MAX_PACING_RATE: the greatest rate, and most of the time this one.
fn fixed_rate(steps: &[Step]) -> Option<u64> {
    let paced = || steps.iter().map(Step::state).filter(|state| state.has(flags::PACED));
    let rates = || paced().filter_map(State::pacing).filter(|&rate| rate > 0);
    let most = rates().max()?;
    let same = rates().filter(|&rate| rate == most).count();
    (same > 20 && same as f64 >= SAME_RATE * rates().count() as f64).then_some(most)
}

/// The rate at which data left while the device was the limit, IP bytes/s.
fn device(analysis: &Analysis, steps: &[Step]) -> Option<Parameter> {
    if analysis.limits.share(Limit::LocalDevice) < MODELLED {
        return None;
    }
    let mut spans = analysis.limits.spans.iter().filter(|it| it.limit == Limit::LocalDevice);
    let mut span = spans.next()?;
    let (mut bytes, mut ns) = (0.0, 0_u64);
    for pair in steps.windows(2) {
        while span.end_ns < pair[1].time_ns() {
            match spans.next() {
                Some(next) => span = next,
                None => break,
            }
        }
        if span.start_ns < pair[1].time_ns() && pair[1].time_ns() <= span.end_ns {
            ns += pair[1].time_ns() - pair[0].time_ns().max(span.start_ns);
            let headers = fields::sent(pair[1].point.aux).1;
            let sent = pair[1].sent - pair[0].sent;
            bytes += sent as f64 + if sent > 0 { 52.0 * f64::from(headers) } else { 0.0 };
        }
    }
    let rate = bytes * 1e9 / ns.max(1) as f64;
    let reason = "how fast data left while this machine's device held it";
    (bytes > 0.0).then(|| Parameter::new(rate, rate * 0.97, Some(rate * 1.03), reason))
}

pub fn receiver(seen: &Observation, analysis: &Analysis, steps: &[Step]) -> Receiver {
    let most = analysis.summary.max_snd_wnd;
    let flight = steps.iter().map(|step| step.state().outstanding()).max().unwrap_or(0);
    let share = analysis.limits.share(Limit::ReceiverWindow);
    // One that grew further than it was used was a limit while it was smaller, and grows with another
    // setting, too.
    let tight = f64::from(most) < OFFERED * f64::from(flight) && share > 0.0;
    let slow = analysis.verdict.cause == Cause::PeerReadsSlowly;
    let window = (tight || (slow && share >= MODELLED)).then(|| {
        let reason = "the largest window that it offered, and all of it was used";
        Parameter::new(most.into(), most.into(), Some(most.into()), reason)
    });
    let reads = slow.then(|| {
        // What was acknowledged last still lies in its buffer.
        let left = steps.last().map_or(most, |step| step.settled().snd_wnd);
        let read = analysis.summary.acked.saturating_sub(most.saturating_sub(left).into());
        let rate = read as f64 / seen.seconds.max(1e-3);
        let reason = "what its program took while the window was closed or small";
        Parameter::new(rate, rate * 0.95, Some(rate * 1.05), reason)
    });
    Receiver { window, reads, gro: segments_per_ack(seen) > GRO }
}

/// The window that the receiver offered from the beginning, if it never grew though data came: another
/// setting may be the first to use all of it. One that its kernel sizes grows with what it receives.
pub fn small_window(steps: &[Step]) -> Option<Parameter> {
    let offered = || steps.iter().map(|step| step.settled().snd_wnd).filter(|&window| window > 0);
    let mss = steps.iter().map(|step| u64::from(step.state().mss)).max()?;
    let (first, most) = (offered().next()?, offered().max()?);
    let acked = steps.last()?.acked;
    (f64::from(most) < GROWS * f64::from(first) && acked > GROWN_WITH * mss).then(|| {
        let reason = "what it offered from the beginning, and no more as data came";
        Parameter::new(most.into(), most.into(), Some(most.into()), reason)
    })
}

/// With so many segments the window of a receiver whose kernel sizes it has grown by more than this
/// factor; one that has learned what a segment takes of its buffer offers a little more, too.
const GROWN_WITH: u64 = 30;
const GROWS: f64 = 1.5;

/// Linux acknowledges every second segment at least; more at once is a receiver that joins them.
const GRO: f64 = 2.6;

fn segments_per_ack(seen: &Observation) -> f64 {
    seen.acked_segments as f64 / seen.acks.max(1) as f64
}

/// Share of acknowledgements that did not come, where the receiver does not join segments.
pub fn ack_loss(seen: &Observation) -> Parameter {
    let each = segments_per_ack(seen);
    let share = if each > 2.05 && each <= GRO { 1.0 - 2.0 / each } else { 0.0 };
    let reason = format!("{each:.2} segments were acknowledged at once");
    Parameter::new(share, share / 2.0, Some(share * 1.5 + 0.02), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_gives_a_new_socket_is_known_for_segments_of_any_size() {
        // Of Linux 6.18, bytes: Ethernet (of two configurations), jumbo frames, loopback, BBR, an
        // initial window of 40.
        for (size, mss, initial) in [
            (87_040, 1448, 10),
            (46_080, 1448, 10),
            (69_120, 1448, 10),
            (332_800, 8948, 10),
            (2_626_560, 32_741, 10),
            (3_939_840, 32_741, 10),
            (348_160, 1448, 40),
        ] {
            assert!(is_of_a_new_socket(size >> 10 << 10, mss, initial), "{size} for {mss}");
        }
        assert!(!is_of_a_new_socket(131_072, 1448, 10), "SO_SNDBUF 65536");
        assert!(!is_of_a_new_socket(2_626_560, 1448, 10));
    }
}

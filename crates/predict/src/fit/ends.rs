//! What the two ends contributed: the sender's settings and device, the receiver's window.

use transom_analysis::{Analysis, Cause, Connection, Limit, Step};
use transom_event::{Kind, State, fields};

use crate::model::{Receiver, Sender};
use crate::observation::Observation;
use crate::parameter::Parameter;

/// Linux's initial window, segments (RFC 6928).
const INITIAL_WINDOW: u32 = 10;
/// Memory that Linux gives a new socket's send buffer for each segment of its first window: twice
/// what a full segment takes (`tcp_sndbuf_expand`).
const MEMORY_PER_SEGMENT: u32 = 2 * 4352;
/// Share of the states with one and the same pacing rate from which the program has set it.
const SAME_RATE: f64 = 0.4;
/// Share of the time from which a limit is modelled.
const MODELLED: f64 = 0.1;
/// Share of the states in which a buffer has its largest size, from which it did not grow further.
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

/// The fixed one, and whether it had grown to that. One that never grew was set by the program,
/// unless it is what a new socket has and no limit. One that was a limit and stayed as it was has
/// the largest size that the kernel gives.
fn send_buffer(analysis: &Analysis, steps: &[Step], initial: u32) -> (Option<u32>, bool) {
    let sizes = || steps.iter().filter_map(|step| step.state().send_buffer_bytes());
    let (Some(first), Some(largest)) = (sizes().next(), sizes().max()) else {
        return (None, false);
    };
    // Recorded in whole KiB.
    let own = (MEMORY_PER_SEGMENT * initial.max(INITIAL_WINDOW)) >> 10 << 10;
    let limits = analysis.limits.share(Limit::SendBuffer) >= MODELLED;
    let grew = sizes().any(|size| size != first);
    let stayed = || {
        let at_its_largest = sizes().filter(|&size| size == largest).count();
        at_its_largest as f64 >= STAYED * sizes().count() as f64
    };
    let is_fixed = if grew { limits && stayed() } else { first != own || limits };
    (is_fixed.then_some(largest / 2), is_fixed && grew)
}

/// SO_MAX_PACING_RATE: the greatest rate, and most of the time this one.
fn fixed_rate(steps: &[Step]) -> Option<u64> {
    let rates = || steps.iter().filter_map(|step| step.state().pacing()).filter(|&rate| rate > 0);
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
    let tight = f64::from(most) < OFFERED * f64::from(flight) && share > 0.0;
    let window = (share >= MODELLED || tight).then(|| {
        let reason = "the largest window that it offered, and all of it was used";
        Parameter::new(most.into(), most.into(), Some(most.into()), reason)
    });
    let slow = analysis.verdict.cause == Cause::PeerReadsSlowly;
    let reads = slow.then(|| {
        let rate = analysis.summary.acked as f64 / seen.seconds.max(1e-3);
        let reason = "what its program took while the window was closed or small";
        Parameter::new(rate, rate * 0.95, Some(rate * 1.05), reason)
    });
    Receiver { window, reads, gro: segments_per_ack(seen) > GRO }
}

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

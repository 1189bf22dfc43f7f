//! The numbers of one connection.

use serde::Serialize;
use transom_event::{Direction, Kind, Origin, RetransmitReason, State, fields, flags};

use crate::cwnd_falls::congestion_marks;
use crate::series::{is_closed_early, is_sampled};
use crate::track::{Step, is_sampled_only, is_synchronized, is_timeout};
use crate::{Connection, Recording};

/// Round-trip times, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rtt {
    /// The kernel's minimum where it has one, else the least smoothed RTT.
    pub min_us: u32,
    /// Of the smoothed RTT (RFC 6298) over all points.
    pub median_us: u32,
    pub p95_us: u32,
}

/// Retransmitted segments, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retransmitted {
    pub fast: u64,
    pub rto: u64,
    pub slow_start: u64,
    pub tlp: u64,
    pub syn: u64,
    /// The recording does not say why.
    pub other: u64,
}

impl Retransmitted {
    pub fn total(&self) -> u64 {
        self.data() + self.syn
    }

    /// All but SYNs, which carry no data and say nothing of the path's load.
    pub fn data(&self) -> u64 {
        self.fast + self.rto + self.slow_start + self.tlp + self.other
    }
}

/// What of the connection was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Its first segment was seen.
    pub begun: bool,
    /// Its end was seen.
    pub ended: bool,
    /// Many ACKs between two points were not recorded.
    pub sampled: bool,
    /// One side had closed long before the end: the probes see no ACK from then on.
    pub closed_early: bool,
    /// Nothing but states polled through sock_diag.
    pub polled: bool,
    /// The file ended in the middle of the recording.
    pub cut: bool,
    /// So much passed between two events that the numbers of bytes are only the least there were.
    pub uncounted_bytes: bool,
    /// Events of the whole recording that could not be recorded.
    pub lost_events: u64,
    /// Segments of the whole recording that were sent without an event.
    pub unseen_segments: u64,
    /// All events of the recording.
    pub recorded_events: u64,
}

/// All numbers of one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub duration_ns: u64,
    /// Bytes, each once: handed to the device, acknowledged, received in order.
    pub sent: u64,
    pub acked: u64,
    pub received: u64,
    /// Segments that were seen to leave for the first time: some or none where sends are thinned out.
    pub segments_sent: u64,
    /// Mean over the whole duration, bit/s.
    pub goodput_up: f64,
    pub goodput_down: f64,
    pub rtt: Option<Rtt>,
    /// Bytes; the last one that was not 0.
    pub mss: u32,
    pub retransmitted: Retransmitted,
    pub duplicate_acks: u64,
    /// Duplicates that the other side reported (RFC 2883): retransmitted for nothing.
    pub d_sacks: u64,
    pub timeouts: u64,
    pub local_congestion: u64,
    /// Times that cwnd was made smaller because the path had marked congestion (ECN).
    pub congestion_marks: u64,
    /// Windows of zero that the other side advertised, and that this side did.
    pub zero_windows_received: u64,
    pub zero_windows_sent: u64,
    pub resets: u64,
    /// Those that the other side sent, and those that this side did.
    pub resets_received: u64,
    pub resets_sent: u64,
    /// The error that its end left in the socket, 0 for none.
    pub errno: u32,
    /// Segments.
    pub max_cwnd: u32,
    pub median_cwnd: u32,
    /// Bytes.
    pub max_snd_wnd: u32,
    /// Not more than its 16 bits, scaled, can say (RFC 7323), where the scaling is known.
    pub max_rcv_wnd: u32,
    /// Whether it, and that of the other side, is all that can be said.
    pub rcv_wnd_at_scale: bool,
    pub snd_wnd_at_scale: bool,
    pub max_recv_queue: u32,
    pub max_send_queue: u32,
    pub ecn: bool,
    pub coverage: Coverage,
}

impl Summary {
    /// Segments with data that were retransmitted, per one that was sent, 0 to 1.
    pub fn loss_share(&self) -> f64 {
        let again = self.retransmitted.data() as f64;
        if again == 0.0 { 0.0 } else { again / (self.segments() + again) }
    }

    /// Segments with data that left for the first time.
    pub(crate) fn segments(&self) -> f64 {
        // A program that writes little at a time fills no segment; and not each may have been seen.
        let full = self.sent as f64 / f64::from(self.mss.max(1));
        full.max(self.segments_sent as f64)
    }

    pub(crate) fn of(connection: &Connection, steps: &[Step], recording: &Recording) -> Summary {
        let duration_ns = connection.last_ns.saturating_sub(connection.begun_ns());
        let last = steps.last();
        let bytes = |of: fn(&Step) -> u64| last.map_or(0, of);
        let (sent, acked, received) =
            (bytes(|s| s.sent), bytes(|s| s.acked), bytes(|s| s.received));
        let per_second = |bytes: u64| bytes as f64 * 8.0e9 / duration_ns.max(1) as f64;
        let flowing = || steps.iter().map(Step::state).filter(|state| is_synchronized(state));
        let greatest = |of: fn(&State) -> u32| flowing().map(of).max().unwrap_or(0);
        let count = |kind| connection.count(kind);
        let [most_snd_wnd, most_rcv_wnd] = largest_windows(connection);
        let (max_snd_wnd, max_rcv_wnd) = (greatest(|s| s.snd_wnd), greatest(|s| s.rcv_wnd));
        let went =
            |kind, way| count_of(connection, kind, |aux| fields::direction(aux) == Some(way));
        let close = connection.marks.iter().rfind(|mark| mark.kind == Kind::Close);
        Summary {
            duration_ns,
            sent,
            acked,
            received,
            segments_sent: segments_sent(steps),
            goodput_up: per_second(acked),
            goodput_down: per_second(received),
            rtt: rtt(flowing()),
            mss: flowing().map(|s| s.mss).rfind(|&mss| mss > 0).unwrap_or(0).into(),
            retransmitted: retransmitted(connection),
            duplicate_acks: count(Kind::DupAck),
            d_sacks: count_of(connection, Kind::Sack, fields::is_d_sack),
            timeouts: count_of(connection, Kind::Rto, is_timeout),
            local_congestion: count(Kind::LocalCongestion),
            congestion_marks: congestion_marks(connection, steps),
            zero_windows_received: went(Kind::ZeroWindow, Direction::Received),
            zero_windows_sent: went(Kind::ZeroWindow, Direction::Sent),
            resets: count(Kind::Reset),
            resets_received: went(Kind::Reset, Direction::Received),
            resets_sent: went(Kind::Reset, Direction::Sent),
            errno: close.map_or(0, |mark| fields::errno(mark.aux)),
            max_cwnd: greatest(|s| s.cwnd),
            median_cwnd: median(flowing().map(|s| s.cwnd).collect()),
            max_snd_wnd,
            max_rcv_wnd: max_rcv_wnd.min(most_rcv_wnd),
            rcv_wnd_at_scale: is_all_of(max_rcv_wnd, most_rcv_wnd),
            snd_wnd_at_scale: is_all_of(max_snd_wnd, most_snd_wnd),
            max_recv_queue: greatest(|s| s.recv_queue),
            max_send_queue: greatest(|s| s.send_queue),
            ecn: flowing().any(|s| s.has(flags::ECN)),
            coverage: coverage(connection, steps, recording),
        }
    }
}

/// The largest windows that both sides can offer: 16 bits, shifted by what the handshake agreed on.
fn largest_windows(connection: &Connection) -> [u32; 2] {
    let scaling = connection.window_scaling;
    scaling.map_or([u32::MAX; 2], |shifts| shifts.map(|shift| u32::from(u16::MAX) << shift))
}

/// Whether a window is all that can be offered; the other side's loses less than a unit of its scale.
fn is_all_of(window: u32, most: u32) -> bool {
    window >= most - most / 64
}

/// The value at this share of the sorted values, 0 for none.
pub(crate) fn quantile(mut values: Vec<u32>, share: f64) -> u32 {
    if values.is_empty() {
        return 0;
    }
    let at = ((values.len() - 1) as f64 * share).round() as usize;
    *values.select_nth_unstable(at).1
}

pub(crate) fn median(values: Vec<u32>) -> u32 {
    quantile(values, 0.5)
}

fn rtt<'a>(states: impl Iterator<Item = &'a State> + Clone) -> Option<Rtt> {
    let srtt: Vec<u32> = states.clone().map(|s| s.srtt_us).filter(|&us| us > 0).collect();
    let least = *srtt.iter().min()?;
    Some(Rtt {
        min_us: least_rtt(states.filter_map(State::min_rtt)).unwrap_or(least),
        median_us: median(srtt.clone()),
        p95_us: quantile(srtt, 0.95),
    })
}

/// Tick of TCP's timestamps (RFC 7323), µs: on Linux, and on most others.
pub const TIMESTAMP_TICK_US: u32 = 1000;

/// The kernel's least round trips, µs, of which the last is the least of all. An ACK of retransmitted
/// data is measured by its timestamp, whose clock counts whole ticks: it can seem a tick sooner than any
/// was. Then the least one that was measured otherwise counts, if it is within that.
fn least_rtt(all: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    let least = all.clone().filter(|&us| us > 0).min()?;
    let is_whole = |us: u32| us.is_multiple_of(TIMESTAMP_TICK_US);
    let finer = all.filter(|&us| us > 0 && !is_whole(us) && us < least + TIMESTAMP_TICK_US).min();
    if is_whole(least) { finer.or(Some(least)) } else { Some(least) }
}

fn count_of(connection: &Connection, kind: Kind, is: impl Fn([u32; 2]) -> bool) -> u64 {
    let marks = connection.marks.iter();
    marks.filter(|mark| mark.kind == kind && is(mark.aux)).count() as u64
}

fn segments_sent(steps: &[Step]) -> u64 {
    let sends = steps.iter().filter(|step| step.kind() == Kind::Send);
    sends.map(|step| u64::from(fields::sent(step.point.aux).1)).sum()
}

fn retransmitted(connection: &Connection) -> Retransmitted {
    let mut again = Retransmitted::default();
    for mark in connection.marks.iter().filter(|mark| mark.kind == Kind::Retransmit) {
        let (reason, segments) = fields::retransmit(mark.aux);
        *match reason {
            Some(RetransmitReason::Fast) => &mut again.fast,
            Some(RetransmitReason::Rto) => &mut again.rto,
            Some(RetransmitReason::SlowStart) => &mut again.slow_start,
            Some(RetransmitReason::Tlp) => &mut again.tlp,
            Some(RetransmitReason::Syn) => &mut again.syn,
            None => &mut again.other,
        } += u64::from(segments).max(1);
    }
    again
}

fn coverage(connection: &Connection, steps: &[Step], recording: &Recording) -> Coverage {
    Coverage {
        begun: matches!(connection.origin, Some(Origin::Connect | Origin::Accept)),
        ended: connection.closed,
        sampled: is_sampled(connection, steps),
        closed_early: is_closed_early(connection, steps),
        polled: is_sampled_only(steps),
        cut: recording.cut,
        uncounted_bytes: steps.iter().any(|step| step.uncounted),
        lost_events: recording.lost_events(),
        unseen_segments: recording.unseen_segments(),
        recorded_events: recording.events,
    }
}

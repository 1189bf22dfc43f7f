//! What held the sender back, for every moment of the connection.
//!
//! RFC 4898 (`SndLimTime*`) splits a sender's time between receiver, congestion
//! window and sender; the kernel's `tcp_chrono_*` splits off the send buffer.
//! We split further, with the tests of `tcp_write_xmit` in its order. What a
//! wait was for is read from the event that ended it: an ACK meets the state
//! that has held since the event before; data that leaves without an ACK was
//! not waiting for a window.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use transom_event::{CaState, Chrono, Kind, LossCause, State, TcpState, fields, flags};

use crate::Connection;
use crate::track::{Step, steps};

/// Silence from which a side with nothing to do counts as [`Limit::Idle`], ns.
pub const IDLE_NS: u64 = 1_000_000_000;

/// A send this short a part of the RTT after the event before belongs to the same burst.
pub const BURST_RTT_PART: u64 = 16;

/// A send within this time of the event before belongs to the same burst at most, ns.
pub const BURST_NS: u64 = 1_000_000;

/// A wait across lost events that is longer than this is not explained, ns.
pub const UNEXPLAINED_NS: u64 = 200_000_000;

/// What held the sender back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The congestion window (RFC 5681) was full.
    Cwnd,
    /// The window the other side offered was full (RFC 9293 section 3.8.6).
    ReceiverWindow,
    /// The send buffer was full, all of it in flight, and the program wanted to write more
    /// (`SOCK_NOSPACE`, `TCP_CHRONO_SNDBUF_LIMITED`).
    SendBuffer,
    /// The program had written nothing more.
    Application,
    /// The pacing rate said "not yet" (`tcp_pacing_check`, `sch_fq`).
    Pacing,
    /// The device or its queue here: it refused segments, or held enough of
    /// this connection's already (`tcp_small_queue_check`).
    LocalDevice,
    /// Waiting for a retransmission: for its timer, or with nothing else left to send.
    Repair,
    /// SYN and SYN-ACK.
    Handshake,
    /// Nothing to send: waiting for the data of the other side.
    Receiving,
    /// Nothing to send and no event at all for at least `IDLE_NS`, or after the end.
    Idle,
    /// Too many events were lost to say.
    Unknown,
}

impl Limit {
    /// Every value, the sender's limits first.
    pub const ALL: [Limit; 11] = [
        Limit::Cwnd,
        Limit::ReceiverWindow,
        Limit::SendBuffer,
        Limit::Application,
        Limit::Pacing,
        Limit::LocalDevice,
        Limit::Repair,
        Limit::Handshake,
        Limit::Receiving,
        Limit::Idle,
        Limit::Unknown,
    ];

    /// Words for a table.
    pub fn label(self) -> &'static str {
        match self {
            Limit::Cwnd => "congestion window",
            Limit::ReceiverWindow => "receiver window",
            Limit::SendBuffer => "send buffer",
            Limit::Application => "application",
            Limit::Pacing => "pacing",
            Limit::LocalDevice => "local device",
            Limit::Repair => "repairing loss",
            Limit::Handshake => "handshake",
            Limit::Receiving => "receiving",
            Limit::Idle => "idle",
            Limit::Unknown => "unknown",
        }
    }

    /// A word for a narrow column.
    pub fn word(self) -> &'static str {
        match self {
            Limit::Cwnd => "cwnd",
            Limit::ReceiverWindow => "rwnd",
            Limit::SendBuffer => "sndbuf",
            Limit::Application => "app",
            Limit::Pacing => "pacing",
            Limit::LocalDevice => "device",
            Limit::Repair => "repair",
            Limit::Handshake => "syn",
            Limit::Receiving => "recv",
            Limit::Idle => "idle",
            Limit::Unknown => "?",
        }
    }
}

/// A stretch of time with one limit; `end_ns` is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    pub start_ns: u64,
    pub end_ns: u64,
    pub limit: Limit,
}

impl Span {
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The time of a connection, split without gap or overlap.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Time of each limit, ns; those that never held are left out.
    pub total_ns: BTreeMap<Limit, u64>,
    pub duration_ns: u64,
    /// Of the local device's time, what was spent behind a window that a refusal made or kept small,
    /// ns. The rest its queue held.
    #[serde(skip)]
    pub behind_cut_ns: u64,
    /// In the order of time, neighbours differ.
    #[serde(skip)]
    pub spans: Vec<Span>,
}

impl Limits {
    /// `lost` in the order of time, as [`crate::Recording`] has it.
    pub fn of(connection: &Connection, lost: &[(u64, LossCause, u32)]) -> Limits {
        partition(connection, &steps(connection), lost)
    }

    pub fn time_ns(&self, limit: Limit) -> u64 {
        self.total_ns.get(&limit).copied().unwrap_or(0)
    }

    /// Share of the connection's time, 0 to 1.
    pub fn share(&self, limit: Limit) -> f64 {
        self.time_ns(limit) as f64 / self.duration_ns.max(1) as f64
    }

    /// Time in which one of these limits held and that lies in one of these times, which follow one
    /// another.
    pub(crate) fn common_ns(
        &self,
        limits: &[Limit],
        times: impl Iterator<Item = Range<u64>> + Clone,
    ) -> u64 {
        let mut times = times.peekable();
        let mut common = 0_u64;
        for span in self.spans.iter().filter(|span| limits.contains(&span.limit)) {
            while times.next_if(|time| time.end <= span.start_ns).is_some() {}
            for time in times.clone().take_while(|time| time.start < span.end_ns) {
                let from = time.start.max(span.start_ns);
                let shared = time.end.min(span.end_ns).saturating_sub(from);
                common = shared.saturating_add(common);
            }
        }
        common
    }

    fn push(&mut self, start_ns: u64, end_ns: u64, limit: Limit) {
        if end_ns <= start_ns {
            return;
        }
        *self.total_ns.entry(limit).or_default() += end_ns - start_ns;
        match self.spans.last_mut() {
            Some(last) if last.limit == limit => last.end_ns = end_ns,
            _ => self.spans.push(Span { start_ns, end_ns, limit }),
        }
    }
}

/// Splits the time of the connection from when it began to its last event.
pub(crate) fn partition(
    connection: &Connection,
    steps: &[Step],
    lost: &[(u64, LossCause, u32)],
) -> Limits {
    let (start, end) = (connection.begun_ns(), connection.last_ns.max(connection.first_ns));
    let mut limits = Limits { duration_ns: end - start, ..Limits::default() };
    let Some(first) = steps.first() else {
        limits.push(start, end, Limit::Unknown);
        return limits;
    };
    let mut judge = Judge::default();
    let met = judge.of_state(first.state());
    limits.push(start, first.time_ns(), met);
    for (i, pair) in steps.windows(2).enumerate() {
        let (from, to) = (&pair[0], &pair[1]);
        let mut limit = judge.between(from, to, brings_data(from, to, steps.get(i + 2)));
        let wait = to.time_ns() - from.time_ns();
        if wait > UNEXPLAINED_NS && is_broken(from, to, lost) {
            limit = Limit::Unknown;
        } else if judge.is_behind_cut {
            limits.behind_cut_ns = limits.behind_cut_ns.saturating_add(wait);
        }
        limits.push(from.time_ns(), to.time_ns(), limit);
    }
    if let Some(last) = steps.last() {
        limits.push(last.time_ns(), end, judge.of_state(&last.settled()));
    }
    limits
}

/// Whether the second event is the arrival of data. A segment that meets the state before shows only
/// in the next event what it brought; where none has come yet, it is taken for one like the last.
pub(crate) fn brings_data(from: &Step, to: &Step, next: Option<&Step>) -> bool {
    let meets = |step: &Step| step.kind() == Kind::Ack && !step.is_after();
    // What comes behind a gap waits in memory, and rcv_nxt stays.
    let brought = |before: &Step, after: &Step| {
        let queued = after.state().recv_queue > before.state().recv_queue;
        after.received > before.received || queued
    };
    let came = brought(from, to);
    match next.filter(|_| meets(to)) {
        Some(next) if brought(to, next) => true,
        None if meets(to) => came,
        _ => came && !meets(from),
    }
}

/// Whether events of the wait may be missing. Segments without an event are those of a connection whose
/// numbers moved; any connection may miss what was lost otherwise. A loss is told when the recorder
/// looks, which may be after the wait: then the connection's own numbers say that it is this one.
fn is_broken(from: &Step, to: &Step, lost: &[(u64, LossCause, u32)]) -> bool {
    let after = lost.partition_point(|&(time, ..)| time <= from.time_ns());
    let mut meanwhile = lost[after..].iter().take_while(|&&(time, ..)| time <= to.time_ns());
    let moved = to.unseen || to.follows_unseen_data(from);
    meanwhile.any(|(_, cause, _)| moved || !cause.counts_segments())
        || after < lost.len() && to.follows_missing_events(from)
}

/// What has to be remembered from one interval to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judge {
    previous: Option<Limit>,
    refused: Option<Refusal>,
    /// Whether the wait judged last was for a window that a refusal made or kept small.
    is_behind_cut: bool,
}

/// That the local device refused a segment, until cwnd has come back.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    cwnd: u32,
    /// Whether cwnd was reduced for it: not for what a queue dropped later than TCP was there to see.
    has_cut: bool,
}

impl Judge {
    pub fn between(&mut self, from: &Step, to: &Step, brings_data: bool) -> Limit {
        self.remember(from);
        let limit = refine(self.wait(from, to), from, to, brings_data);
        self.previous = Some(limit);
        self.is_behind_cut = self.waits_behind_cut(limit, to);
        if self.is_behind_cut { Limit::LocalDevice } else { limit }
    }

    fn remember(&mut self, step: &Step) {
        let is_cut = step.ca() == Some(CaState::Cwr);
        if step.kind() == Kind::LocalCongestion {
            let (cwnd, had_cut) = self.refused.map_or((0, false), |it| (it.cwnd, it.has_cut));
            let (cwnd, has_cut) = (cwnd.max(step.state().cwnd), had_cut || is_cut);
            self.refused = Some(Refusal { cwnd, has_cut });
        } else if let Some(refused) = &mut self.refused {
            refused.has_cut |= is_cut;
            let is_back = step.state().cwnd >= refused.cwnd || !refused.has_cut;
            if is_back && step.ca() == Some(CaState::Open)
                || matches!(step.ca(), Some(CaState::Recovery | CaState::Loss))
            {
                self.refused = None;
            }
        }
    }

    /// What the time between two events was spent waiting for.
    fn wait(&self, from: &Step, to: &Step) -> Limit {
        let state = to.state();
        if let Some(limit) = outside_of_transfer(state) {
            return limit;
        }
        if to.is_timeout() && state.outstanding() > 0 {
            return Limit::Repair;
        }
        if to.kind() == Kind::Send && !to.is_after() {
            let before = from.settled();
            if !to.unseen {
                return self.wait_without_ack(from, to);
            } else if before.unsent == 0 && state.outstanding() == 0 {
                // What waits now was written since all had been acknowledged.
                return nothing_unsent(&before);
            }
        }
        if to.is_after() { self.of_state(&from.settled()) } else { self.of_state(state) }
    }

    /// The wait ended with data leaving, no ACK in between: no window held it.
    fn wait_without_ack(&self, from: &Step, to: &Step) -> Limit {
        let before = from.settled();
        if before.unsent == 0 {
            return nothing_unsent(&before);
        }
        // A probe of a closed window, which its timer sends; what the last ACK offered shows here.
        if is_window_full(&State { snd_wnd: to.state().snd_wnd, ..before }) {
            return Limit::ReceiverWindow;
        }
        let wait = to.time_ns() - from.time_ns();
        match self.previous {
            Some(previous) if wait <= burst_ns(&before) => previous,
            _ if before.has(flags::PACED) && pacing_below_cwnd(&before) => Limit::Pacing,
            _ if before.unsent < u32::from(before.mss) => nothing_more(&before),
            // A rate above cwnd only spreads what cwnd lets through.
            _ if before.has(flags::PACED) && before.has(flags::CWND_LIMITED) => Limit::Cwnd,
            _ if before.has(flags::PACED) && is_pace(from, wait) => Limit::Pacing,
            _ => Limit::LocalDevice,
        }
    }

    /// The tests of `tcp_write_xmit` on a state that has held for a while.
    pub fn of_state(&self, state: &State) -> Limit {
        if let Some(limit) = outside_of_transfer(state) {
            return limit;
        }
        let mss = u32::from(state.mss).max(1);
        let full = state.in_flight() >= state.cwnd;
        // A probe of a zero window doubles the timer too, and is no loss.
        if state.backoff > 0 && state.packets_out > 0 {
            return Limit::Repair;
        }
        if state.chrono() == Chrono::SendBuffer {
            return Limit::SendBuffer;
        }
        if state.lost_out > state.retrans_out && full {
            return Limit::Cwnd;
        }
        if state.unsent == 0 {
            return nothing_unsent(state);
        }
        if state.chrono() == Chrono::ReceiveWindow {
            Limit::ReceiverWindow
        } else if full {
            Limit::Cwnd
        } else if is_window_full(state) {
            Limit::ReceiverWindow
        } else if state.has(flags::PACED) && pacing_below_cwnd(state) {
            Limit::Pacing
        } else if state.has(flags::CWND_LIMITED) {
            Limit::Cwnd
        } else if state.unsent < mss {
            nothing_more(state)
        } else {
            Limit::LocalDevice
        }
    }

    /// A window that the local device made small is the device's doing, until it has grown back.
    fn waits_behind_cut(&self, limit: Limit, to: &Step) -> bool {
        let waits_for_cwnd =
            limit == Limit::Cwnd || to.ca() == Some(CaState::Cwr) && to.state().unsent > 0;
        let is_cut = |refused: Refusal| refused.has_cut || to.ca() == Some(CaState::Cwr);
        waits_for_cwnd && self.refused.is_some_and(is_cut)
    }
}

/// Tells a side that only listens from a program that writes too little.
fn refine(limit: Limit, from: &Step, to: &Step, brings_data: bool) -> Limit {
    if limit != Limit::Application || from.settled().outstanding() > 0 {
        return limit;
    }
    if to.time_ns() - from.time_ns() >= IDLE_NS {
        Limit::Idle
    } else if brings_data {
        Limit::Receiving
    } else {
        Limit::Application
    }
}

/// How soon after an event a send belongs to the same burst.
pub(crate) fn burst_ns(state: &State) -> u64 {
    (u64::from(state.srtt_us) * 1000 / BURST_RTT_PART).min(BURST_NS)
}

/// Whether what waits is more than the offered window has room for.
fn is_window_full(state: &State) -> bool {
    let room = state.snd_wnd.saturating_sub(state.outstanding());
    room < u32::from(state.mss).max(1).min(state.unsent)
}

fn outside_of_transfer(state: &State) -> Option<Limit> {
    use TcpState::*;
    match state.tcp()? {
        SynSent | SynRecv | NewSynRecv => Some(Limit::Handshake),
        FinWait2 | TimeWait | Close | Listen => Some(Limit::Idle),
        Established | FinWait1 | CloseWait | LastAck | Closing => None,
    }
}

fn nothing_unsent(state: &State) -> Limit {
    let repairing = matches!(state.ca(), Some(CaState::Recovery | CaState::Loss));
    if repairing && state.outstanding() > 0 { Limit::Repair } else { nothing_more(state) }
}

/// Nothing to send, or less than a segment: the program has written no more, or was not let.
/// The kernel's own clock starts only if the program waits before the last segment leaves.
fn nothing_more(state: &State) -> Limit {
    let blocked = state.is_write_blocked() && state.outstanding() > 0;
    if blocked { Limit::SendBuffer } else { Limit::Application }
}

/// Whether a wait after a segment is one of its pacing rate: twice what it takes at most, where a
/// timer is late.
fn is_pace(sent: &Step, wait_ns: u64) -> bool {
    let rate = sent.state().pacing().filter(|_| sent.kind() == Kind::Send);
    let takes = |rate| u64::from(fields::sent(sent.point.aux).0) * 1_000_000_000 / rate;
    rate.filter(|&rate| rate > 0).is_some_and(|rate| wait_ns <= 2 * takes(rate))
}

/// Whether the pacing rate lets less into a round trip than cwnd does.
fn pacing_below_cwnd(state: &State) -> bool {
    let Some(rate) = state.pacing() else { return false };
    let per_rtt = u128::from(rate) * u128::from(state.srtt_us) / 1_000_000;
    state.srtt_us > 0 && per_rtt < u128::from(state.cwnd) * u128::from(state.mss)
}

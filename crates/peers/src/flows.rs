//! This terminal's own connections: what is remembered of each, and which of them are reported.

use std::collections::BTreeMap;
use std::time::Duration;

use transom_event::{Chrono, State, UNSET, flags};

use crate::estimate::{Look, Stability, Track};
use crate::report::{Flow, FlowId, MOST_FLOWS, Treatment};

/// Between two looks.
pub const EACH: Duration = Duration::from_millis(250);

/// Connections that a terminal follows at most; more are left alone.
const MOST_TRACKED: usize = 4096;

/// RFC 9293's established state, as the kernel numbers it.
const ESTABLISHED: u8 = 1;

/// Connections by their cookies, which are numbers that are never used twice.
#[derive(Clone, Debug, Default)]
pub struct Flows(BTreeMap<FlowId, Tracked>);

#[derive(Clone, Debug)]
struct Tracked {
    cookie: u64,
    track: Track,
}

/// Cookies are numbered one after the other, so 32 bits distinguish those of a terminal.
fn flow_id(cookie: u64) -> FlowId {
    cookie as FlowId
}

impl Look {
    /// What the kernel says of a connection; None before its round-trip time is known, and once it
    /// is closing.
    pub fn of(state: &State) -> Option<Look> {
        if state.tcp_state != ESTABLISHED || state.srtt_us == 0 || state.min_rtt_us == UNSET {
            return None;
        }
        let has_more = state.unsent > 0 || state.has(flags::CWND_LIMITED);
        Some(Look {
            cwnd: state.cwnd,
            ssthresh: state.ssthresh_set(),
            srtt_us: state.srtt_us,
            min_rtt_us: state.min_rtt_us.max(1),
            mss: state.mss,
            acked: state.snd_una,
            gives_way: state.ca_state >= 2,
            wants: has_more && state.chrono() != Chrono::Idle && !waits_for_reader(state),
        })
    }
}

/// Whether the receiver's window is full just now. The kernel's clock alone would count a flow that
/// met it for a moment between two looks.
fn waits_for_reader(state: &State) -> bool {
    match state.snd_wnd {
        // Reported since Linux 6.2.
        0 => state.chrono() == Chrono::ReceiveWindow,
        window => u64::from(state.packets_out + 1) * u64::from(state.mss) >= u64::from(window),
    }
}

impl Flows {
    /// A connection is there; false if it was known already, or there are too many.
    pub fn open(&mut self, now: Duration, cookie: u64) -> bool {
        let id = flow_id(cookie);
        if self.0.len() >= MOST_TRACKED || self.0.contains_key(&id) {
            return false;
        }
        self.0.insert(id, Tracked { cookie, track: Track::new(id, now) });
        true
    }

    /// The state of a connection that is there.
    pub fn look(&mut self, now: Duration, cookie: u64, state: &State, stability: &Stability) {
        let tracked = self.0.get_mut(&flow_id(cookie)).filter(|it| it.cookie == cookie);
        if let (Some(tracked), Some(look)) = (tracked, Look::of(state)) {
            tracked.track.look(now, look, stability);
        }
    }

    /// A connection has gone; false if it was not known.
    pub fn close(&mut self, cookie: u64) -> bool {
        self.knows(cookie) && self.0.remove(&flow_id(cookie)).is_some()
    }

    pub fn knows(&self, cookie: u64) -> bool {
        self.cookie(flow_id(cookie)) == Some(cookie)
    }

    pub fn cookie(&self, id: FlowId) -> Option<u64> {
        self.0.get(&id).map(|tracked| tracked.cookie)
    }

    /// What is reported: the fastest, in the order of their numbers. A treated one is reported as
    /// long as it lives.
    pub fn report(&self, now: Duration, treated: impl Fn(u64) -> Treatment) -> Vec<Flow> {
        let worth_reporting = |it: &Tracked| {
            let treatment = treated(it.cookie);
            let worth = it.track.is_active(now) || !treatment.is_none();
            worth.then(|| it.track.flow(treatment))?
        };
        let mut flows: Vec<Flow> = self.0.values().filter_map(worth_reporting).collect();
        flows.sort_by_key(|flow| {
            (flow.treatment.is_none(), std::cmp::Reverse((flow.hungry, flow.goodput_kbit)))
        });
        flows.truncate(MOST_FLOWS);
        flows.sort_by_key(|flow| flow.id);
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            cwnd: 10,
            ssthresh: i32::MAX as u32,
            srtt_us: 2000,
            min_rtt_us: 0,
            mss: 1448,
            tcp_state: ESTABLISHED,
            unsent: 5000,
            packets_out: 10,
            snd_wnd: 1 << 20,
            flags: 1 << flags::CHRONO_SHIFT,
            ..State::default()
        }
    }

    #[test]
    fn a_bulk_sender_wants_more_and_one_that_waits_for_its_reader_does_not() {
        let bulk = Look::of(&state()).unwrap();
        assert!(bulk.wants && bulk.ssthresh.is_none() && bulk.min_rtt_us == 1);
        let met_it = State { flags: 2 << flags::CHRONO_SHIFT, ..state() };
        assert!(Look::of(&met_it).unwrap().wants);
        assert!(!Look::of(&State { snd_wnd: 0, ..met_it }).unwrap().wants);
        assert!(!Look::of(&State { packets_out: 10, snd_wnd: 15_000, ..met_it }).unwrap().wants);
        let idle = State { unsent: 0, flags: 0, ..state() };
        assert!(!Look::of(&idle).unwrap().wants);
    }

    #[test]
    fn a_connection_without_a_round_trip_time_is_not_looked_at() {
        assert_eq!(Look::of(&State { srtt_us: 0, ..state() }), None);
        assert_eq!(Look::of(&State { min_rtt_us: UNSET, ..state() }), None);
        assert_eq!(Look::of(&State { tcp_state: 6, ..state() }), None);
    }

    #[test]
    fn a_number_that_two_connections_share_means_the_one_that_is_there() {
        let mut flows = Flows::default();
        let (first, second) = (7, 7 | 1 << 32);
        assert!(flows.open(Duration::ZERO, first) && !flows.open(Duration::ZERO, second));
        assert!(!flows.close(second) && flows.knows(first) && !flows.knows(second));
        assert!(flows.close(first) && flows.open(Duration::ZERO, second));
    }
}

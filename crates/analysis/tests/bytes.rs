//! SYN and FIN are no bytes, in whatever order the kernel reports the end of a connection.

use transom_analysis::{Live, Recording, analyse};
use transom_event::{Body, Event, Kind, Open, Origin, Place, State, TcpState};

const OWN: u32 = u32::MAX - 5_000;
const PEER: u32 = 7_000;

/// What the kernel reported of one connection: events by `tcp_state`, `unsent` 0.
struct Reported {
    events: Vec<Event>,
    state: State,
}

impl Reported {
    /// After the handshake: the SYNs are acknowledged.
    fn new() -> Reported {
        let state = State {
            snd_una: OWN.wrapping_add(1),
            snd_nxt: OWN.wrapping_add(1),
            rcv_nxt: PEER + 1,
            mss: 1000,
            snd_wnd: 1 << 20,
            tcp_state: TcpState::SynSent as u8,
            ..State::default()
        };
        Reported { events: Vec::new(), state }.becomes(TcpState::Established)
    }

    fn event(mut self, kind: Kind, aux: [u32; 2]) -> Reported {
        let time_ns = 1_000_000 * (self.events.len() as u64 + 1);
        let (place, body) = (Place::SetState, Body::State(self.state));
        self.events.push(Event { time_ns, cookie: 7, tgid: 1, cpu: 0, kind, place, aux, body });
        self
    }

    /// The event comes before the kernel stores the new state.
    fn becomes(self, new: TcpState) -> Reported {
        let old = self.state.tcp_state;
        let mut reported = self.event(Kind::State, [old.into(), new as u32]);
        reported.state.tcp_state = new as u8;
        reported
    }

    fn sends(self, bytes: u32) -> Reported {
        let mut reported = self.event(Kind::Send, [bytes, 1]);
        reported.state.snd_nxt = reported.state.snd_nxt.wrapping_add(bytes);
        reported
    }

    /// By an ACK that is not reported, as in FIN-WAIT.
    fn acknowledged(mut self) -> Reported {
        self.state.snd_una = self.state.snd_nxt;
        self
    }

    fn receives(mut self, bytes: u32) -> Reported {
        self.state.rcv_nxt += bytes;
        self
    }

    fn sends_fin(mut self) -> Reported {
        self.state.snd_nxt = self.state.snd_nxt.wrapping_add(1);
        self
    }

    fn receives_fin(self) -> Reported {
        self.receives(1)
    }

    /// The end of a connection is reported after its last state, with the same numbers.
    fn ends(mut self) -> Reported {
        let old = self.state.tcp_state;
        self = self.becomes(TcpState::Close);
        self.state.tcp_state = old;
        self.event(Kind::Close, [0, 0])
    }

    /// Sent, acknowledged and received, as every command counts them.
    fn bytes(self) -> (u64, u64, u64) {
        let summary = analyse(&Recording::from_iter(&self.events))[0].summary.clone();
        let mut live = Live::default();
        self.events.iter().for_each(|event| {
            live.push(event);
        });
        assert_eq!((live.acked(), live.received()), (summary.acked, summary.received));
        (summary.sent, summary.acked, summary.received)
    }
}

#[test]
fn the_one_that_closes_first() {
    let closed = Reported::new()
        .sends(10_000)
        .acknowledged()
        .becomes(TcpState::FinWait1)
        .sends_fin()
        .acknowledged()
        .becomes(TcpState::FinWait2)
        .receives_fin()
        .ends();
    assert_eq!(closed.bytes(), (10_000, 10_000, 0));
}

#[test]
fn the_one_that_closes_first_and_hears_the_rest() {
    let closed = Reported::new()
        .sends(10_000)
        .becomes(TcpState::FinWait1)
        .sends_fin()
        .acknowledged()
        .becomes(TcpState::FinWait2)
        .receives(80_000)
        .receives_fin()
        .ends();
    assert_eq!(closed.bytes(), (10_000, 10_000, 80_000));
}

#[test]
fn the_one_whose_program_is_gone_before_the_other_side_closes() {
    let closed = Reported::new()
        .event(Kind::Ack, [0, 10])
        .receives(500)
        .becomes(TcpState::FinWait1)
        .sends_fin()
        .acknowledged()
        .becomes(TcpState::FinWait2)
        .ends();
    assert_eq!(closed.bytes(), (0, 0, 500));
}

#[test]
fn the_one_that_closes_second() {
    let closed = Reported::new()
        .event(Kind::Ack, [0, 10])
        .receives(10_000)
        .receives_fin()
        .becomes(TcpState::CloseWait)
        .sends(3_000)
        .acknowledged()
        .becomes(TcpState::LastAck)
        .sends_fin()
        .acknowledged()
        .ends();
    assert_eq!(closed.bytes(), (3_000, 3_000, 10_000));
}

#[test]
fn both_at_once() {
    let closed = Reported::new()
        .sends(10_000)
        .acknowledged()
        .becomes(TcpState::FinWait1)
        .sends_fin()
        .receives_fin()
        .becomes(TcpState::Closing)
        .acknowledged()
        .ends();
    assert_eq!(closed.bytes(), (10_000, 10_000, 0));
}

/// The last segment of a handshake has no event of its own.
#[test]
fn what_the_last_segment_of_a_handshake_brings_is_counted() {
    let reported = Reported::new().receives(1_420).event(Kind::Ack, [0, 10]).receives(7_000);
    assert_eq!(reported.event(Kind::Ack, [0, 10]).bytes(), (0, 0, 8_420));
}

/// TCP Fast Open (RFC 7413): what the SYN carried has passed before the first event.
#[test]
fn what_a_syn_carries_is_counted_at_both_ends() {
    let with_syn = |origin: Origin, early: u32| {
        let mut reported = Reported::new().sends(10_000).acknowledged().receives(500);
        reported = reported.event(Kind::Ack, [0, 10]);
        let (kind, aux) = (Kind::Open, [origin as u32, early << 9]);
        let open = Event { kind, aux, body: Body::Open(Open::default()), ..reported.events[0] };
        reported.events.insert(0, open);
        reported
    };
    assert_eq!(with_syn(Origin::Connect, 1_000).bytes(), (11_000, 11_000, 500));
    assert_eq!(with_syn(Origin::Accept, 1_000).bytes(), (10_000, 10_000, 1_500));
    assert_eq!(with_syn(Origin::Existing, 1_000).bytes(), (10_000, 10_000, 500));
    // The other side has not taken it, so it is still in flight when the handshake is over.
    let mut refused = with_syn(Origin::Connect, 0);
    for event in &mut refused.events[1..3] {
        if let Body::State(state) = &mut event.body {
            state.snd_una = state.snd_una.wrapping_sub(1_000);
        }
    }
    assert_eq!(refused.bytes(), (11_000, 11_000, 500));
}

#[test]
fn a_reset_is_no_byte() {
    let closed = Reported::new().sends(10_000).event(Kind::Reset, [2, 0]).ends();
    assert_eq!(closed.bytes(), (10_000, 0, 0));
}

#[test]
fn an_event_of_a_later_connection_in_the_same_memory_is_not_its_traffic() {
    let mut reported = Reported::new().sends(10_000).acknowledged().becomes(TcpState::FinWait1);
    let closing = reported.state;
    reported.state = State {
        snd_una: OWN.wrapping_add(800_000_000),
        snd_nxt: OWN.wrapping_add(800_000_000),
        rcv_nxt: PEER + 900_000_000,
        tcp_state: TcpState::Established as u8,
        ..closing
    };
    assert_eq!(reported.sends(4).bytes(), (10_000, 10_000, 0));
}

/// 10 Gbit/s, and seconds between two events.
#[test]
fn where_sequence_numbers_do_not_tell_how_much_passed_the_bytes_are_a_lower_bound() {
    let after = |pause_ns: u64| {
        let mut reported = Reported::new().event(Kind::Ack, [0, 10]).receives(3_000_000_000);
        reported = reported.event(Kind::Ack, [0, 10]);
        reported.events.last_mut().unwrap().time_ns += pause_ns;
        let analysis = analyse(&Recording::from_iter(&reported.events)).remove(0);
        (analysis.summary.coverage.uncounted_bytes, analysis.verdict.caveats.join("; "))
    };
    let (uncounted, caveats) = after(10_000_000_000);
    assert!(uncounted && caveats.contains("byte counts are a lower bound"), "{caveats}");
    let (uncounted, caveats) = after(0);
    assert!(!uncounted && !caveats.contains("lower bound"), "an event out of order: {caveats}");
}

//! A small upload, event by event, with one of everything that the formats must show.

#![allow(dead_code)]

use bytemuck::Zeroable;
use transom_event::{
    Body, CaState, Event, Kind, LossCause, Open, Place, RetransmitReason, Sack, State, TcpState,
    flags,
};
use transom_export::Origin;

pub const MSS: u32 = 1448;
pub const COOKIE: u64 = 7;
pub const START_NS: u64 = 45_000_000_000_000;

/// 2026-03-02 14:05:11.000000 UTC is `START_NS`.
pub const OFFSET_NS: i64 = 1_772_460_311_000_000_000 - START_NS as i64;

pub fn origin() -> Origin {
    Origin {
        program: "transom 0.0.0".into(),
        kernel: "6.18.5".into(),
        host: "client".into(),
        boot_id: "2f3a".into(),
        realtime_offset_ns: OFFSET_NS,
        command_line: "transom record -o far.parquet".into(),
        cut: false,
    }
}

fn text(words: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..words.len()].copy_from_slice(words.as_bytes());
    bytes
}

pub fn address(last: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&[10, 0, 0, last]);
    bytes
}

/// A connection whose events are written down one after the other.
pub struct Flow {
    pub cookie: u64,
    pub local_port: u16,
    pub time_ns: u64,
    pub state: State,
    pub events: Vec<Event>,
}

impl Flow {
    pub fn new(cookie: u64, local_port: u16) -> Flow {
        let state = State {
            cwnd: 10,
            ssthresh: i32::MAX as u32,
            clamp: u32::MAX,
            snd_una: u32::MAX - 3 * MSS,
            snd_nxt: u32::MAX - 3 * MSS,
            rcv_nxt: 5_000,
            snd_wnd: 65_535,
            rcv_wnd: 64_256,
            rto_us: 204_000,
            srtt_us: 20_500,
            mdev_us: 300,
            min_rtt_us: 20_000,
            send_queue: 40_000,
            unsent: 100_000,
            pacing_rate: u64::MAX,
            mss: MSS as u16,
            tcp_state: TcpState::Established as u8,
            flags: 1 << flags::CHRONO_SHIFT | flags::IN_SLOW_START,
            ..State::zeroed()
        };
        Flow { cookie, local_port, time_ns: START_NS, state, events: Vec::new() }
    }

    pub fn after(&mut self, us: u64) -> &mut Flow {
        self.time_ns += us * 1000;
        self
    }

    pub fn event(&mut self, kind: Kind, place: Place, aux: [u32; 2], body: Body) {
        let Flow { time_ns, cookie, .. } = *self;
        self.events.push(Event { time_ns, cookie, tgid: 4242, cpu: 1, kind, place, aux, body });
    }

    pub fn state_event(&mut self, kind: Kind, place: Place, aux: [u32; 2]) {
        self.event(kind, place, aux, Body::State(self.state));
    }

    /// Who it is, with an algorithm of this name.
    fn identity(&self, algorithm: &str) -> Open {
        Open {
            local_addr: address(1),
            remote_addr: address(2),
            local_port: self.local_port,
            remote_port: 5201,
            family: 2,
            comm: text("iperf3"),
            algorithm: text(algorithm),
            ..Open::zeroed()
        }
    }

    /// The program or a policy changes the algorithm.
    pub fn algorithm(&mut self, name: &str) {
        let body = Body::Open(self.identity(name));
        self.event(Kind::Algorithm, Place::RcvEstablished, [0, 0], body);
    }

    pub fn open(&mut self) {
        let open = self.identity("cubic");
        // Shift counts 9 (theirs) and 7 (ours), known.
        self.event(Kind::Open, Place::SetState, [1, 9 | 7 << 4 | 1 << 8], Body::Open(open));
    }

    pub fn send(&mut self, segments: u32) {
        let bytes = segments * MSS;
        self.state_event(Kind::Send, Place::DevQueue, [bytes, segments]);
        self.state.snd_nxt = self.state.snd_nxt.wrapping_add(bytes);
        self.state.packets_out += segments;
        self.state.unsent -= bytes;
    }

    pub fn ack(&mut self, segments: u32, cwnd: u32) {
        let bytes = segments * MSS;
        self.state_event(Kind::Ack, Place::RcvEstablished, [bytes, self.state.cwnd]);
        self.state.snd_una = self.state.snd_una.wrapping_add(bytes);
        self.state.packets_out -= segments;
        self.state.cwnd = cwnd;
    }

    /// The segments `from..to` after the first unacknowledged one arrived out of order.
    pub fn sack(&mut self, from: u32, to: u32) {
        let s = &self.state;
        let edge = |n: u32| s.snd_una.wrapping_add(n * MSS);
        let sack = Sack {
            blocks: [[edge(from), edge(to)], [0; 2], [0; 2], [0; 2]],
            cwnd: s.cwnd,
            ssthresh: s.ssthresh,
            snd_una: s.snd_una,
            snd_nxt: s.snd_nxt,
            packets_out: s.packets_out,
            sacked_out: s.sacked_out,
            lost_out: s.lost_out,
            retrans_out: s.retrans_out,
            ca_state: s.ca_state,
            tcp_state: s.tcp_state,
            ..Sack::zeroed()
        };
        self.event(Kind::Sack, Place::RcvEstablished, [1, 0], Body::Sack(sack));
        self.state.sacked_out = to - from;
    }

    pub fn ca(&mut self, new: CaState) {
        let old = self.state.ca_state;
        self.state_event(Kind::CaState, Place::SetCaState, [old.into(), new as u32]);
        self.state.ca_state = new as u8;
    }

    pub fn retransmit(&mut self, reason: RetransmitReason) {
        let seq = self.state.snd_una;
        self.state_event(Kind::Retransmit, Place::RetransmitSkb, [reason as u32 | 1 << 8, seq]);
        self.state.retrans_out = 1;
    }
}

/// A loss that is repaired fast, a timeout, a refusal of the device, events that were lost, the end.
pub fn upload() -> Vec<Event> {
    let mut flow = Flow::new(COOKIE, 40_000);
    let f = &mut flow;
    f.open();
    f.after(100).send(4);
    f.after(10).send(2);
    f.after(20_000).ack(2, 12);
    f.after(50).sack(1, 3);
    f.state_event(Kind::DupAck, Place::RcvEstablished, [1, 1]);
    f.state_event(Kind::Ack, Place::RcvEstablished, [0, 12]);
    (f.state.ssthresh, f.state.lost_out) = (8, 1);
    f.ca(CaState::Recovery);
    f.state.flags &= !flags::IN_SLOW_START;
    f.after(5).retransmit(RetransmitReason::Fast);
    (f.state.lost_out, f.state.retrans_out, f.state.sacked_out) = (0, 0, 0);
    f.after(20_000).ack(4, 8);
    f.ca(CaState::Open);
    f.after(100).send(3);
    f.state_event(Kind::LocalCongestion, Place::EnterCwr, [1, 3 * MSS]);
    f.after(204_000).state_event(Kind::Rto, Place::EnterLoss, [1, 1]);
    f.ca(CaState::Loss);
    f.state.cwnd = 1;
    f.after(3).retransmit(RetransmitReason::Rto);
    f.event(Kind::Lost, Place::Recorder, [LossCause::Ring as u32, 12], Body::None);
    f.after(20_000).ack(3, 2);
    f.ca(CaState::Open);
    f.state.tcp_state = TcpState::FinWait1 as u8;
    f.after(100).state_event(Kind::Close, Place::SetState, [0, 0]);
    flow.events
}

/// The same, and a second connection that begins 50 µs later.
pub fn two_uploads() -> Vec<Event> {
    let mut second = Flow::new(COOKIE + 1, 40_001);
    second.after(50).open();
    second.after(100).send(1);
    let mut both = upload();
    both.extend(second.events);
    both.sort_by_key(|event| event.time_ns);
    both
}

//! Recordings of connections that never were: a sender over one bottleneck, the
//! same events for the same seed.

use transom_analysis::Recording;
use transom_event::{
    Body, CaState, Event, Kind, LossCause, Open, Origin, Place, RetransmitReason, Sack, State,
    TcpState, UNSET, flags,
};

const MSS: u32 = 1448;
const START_NS: u64 = 5_000_000_000;

/// What happens to a connection beside slow start and loss by a full queue.
#[derive(Clone, Copy, Debug)]
pub struct Story {
    pub cookie: u64,
    pub program: &'static str,
    pub events: usize,
    /// Without queueing.
    pub rtt_us: u64,
    /// Segments a second through the bottleneck.
    pub rate: u64,
    /// Segments that wait before the bottleneck.
    pub queue: u32,
    /// Fractions of the events at which each trouble comes.
    pub rto_at: Option<f64>,
    pub local_congestion_at: Option<f64>,
    pub zero_window_at: Option<f64>,
    pub clamp_at: Option<f64>,
}

impl Story {
    pub fn upload(cookie: u64, events: usize) -> Story {
        Story {
            cookie,
            program: "iperf3",
            events,
            rtt_us: 40_000,
            rate: 4000,
            queue: 120,
            rto_at: Some(0.55),
            local_congestion_at: Some(0.72),
            zero_window_at: Some(0.85),
            clamp_at: Some(0.9),
        }
    }
}

struct Sender {
    events: Vec<Event>,
    story: Story,
    now_ns: u64,
    state: State,
    random: u64,
    cwnd: f64,
}

/// The events of one connection.
pub fn events(story: Story) -> Vec<Event> {
    let mut sender = Sender::new(story);
    sender.open();
    while sender.events.len() < story.events {
        sender.ack();
        let done = sender.events.len() as f64 / story.events as f64;
        let due = |at: Option<f64>| at.is_some_and(|at| done >= at);
        if due(sender.story.rto_at) {
            sender.story.rto_at = None;
            sender.timeout();
        } else if due(sender.story.local_congestion_at) {
            sender.story.local_congestion_at = None;
            sender.local_congestion();
        } else if due(sender.story.zero_window_at) {
            sender.story.zero_window_at = None;
            sender.zero_window();
        } else if due(sender.story.clamp_at) {
            sender.story.clamp_at = None;
            sender.clamp();
        } else if sender.waiting() > f64::from(story.queue) {
            sender.loss();
        }
    }
    sender.state.tcp_state = TcpState::Close as u8;
    sender.event(Kind::Close, Place::SetState, [0, 0]);
    sender.events
}

/// One recording of several connections, in the order of time.
pub fn recording(stories: &[Story]) -> Recording {
    let mut all: Vec<Event> = stories.iter().flat_map(|&story| events(story)).collect();
    all.sort_by_key(|event| event.time_ns);
    all.iter().collect()
}

/// One whose window stays as it is, and that closes in the middle.
pub fn flat_and_closed() -> Recording {
    let mut all = events(Story::upload(1, 300));
    for event in &mut all {
        if let Body::State(state) = &mut event.body {
            (state.cwnd, state.ssthresh, state.clamp) = (10, i32::MAX as u32, UNSET);
            state.packets_out = state.packets_out.min(10);
        }
    }
    all.retain(|event| matches!(event.kind, Kind::Open | Kind::Ack | Kind::Close));
    let at = all.len() / 2;
    let aux = [TcpState::Established as u32, TcpState::FinWait1 as u32];
    all.insert(at, Event { kind: Kind::State, aux, ..all[at] });
    all.iter().collect()
}

/// What the recorder says when it lost some.
pub fn lost(time_ns: u64, count: u32) -> Event {
    Event::lost(LossCause::Ring, count.into(), time_ns)
}

impl Sender {
    fn new(story: Story) -> Sender {
        let state = State {
            cwnd: 10,
            ssthresh: i32::MAX as u32,
            clamp: UNSET,
            snd_una: u32::MAX - 400_000,
            snd_nxt: u32::MAX - 400_000,
            rcv_nxt: 77,
            snd_wnd: 900 * MSS,
            rcv_wnd: 65535,
            rto_us: 240_000,
            srtt_us: story.rtt_us as u32,
            mdev_us: 2000,
            min_rtt_us: story.rtt_us as u32,
            mss: MSS as u16,
            tcp_state: TcpState::Established as u8,
            flags: flags::AFTER,
            pacing_rate: u64::MAX,
            ..State::default()
        };
        let now_ns = START_NS + story.cookie % 7 * 130_000_000;
        let random = story.cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Sender { events: Vec::new(), story, now_ns, state, random, cwnd: 10.0 }
    }

    /// xorshift64: the same numbers for the same cookie.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Segments in the bottleneck's queue.
    fn waiting(&self) -> f64 {
        self.cwnd - self.story.rate as f64 * self.story.rtt_us as f64 / 1e6
    }

    fn event(&mut self, kind: Kind, place: Place, aux: [u32; 2]) {
        let body = Body::State(self.state);
        self.push(kind, place, aux, body);
    }

    fn push(&mut self, kind: Kind, place: Place, aux: [u32; 2], body: Body) {
        let Story { cookie, .. } = self.story;
        let time_ns = self.now_ns;
        self.events.push(Event { time_ns, cookie, tgid: 4242, cpu: 1, kind, place, aux, body });
    }

    fn open(&mut self) {
        let mut open = Open {
            local_port: 40000 + (self.story.cookie % 20000) as u16,
            remote_port: 5201,
            family: 2,
            ..Open::default()
        };
        open.local_addr[..4].copy_from_slice(&[10, 0, 0, 2]);
        open.remote_addr[..4].copy_from_slice(&[192, 0, 2, 1 + (self.story.cookie % 200) as u8]);
        let name = self.story.program.as_bytes();
        open.comm[..name.len().min(15)].copy_from_slice(&name[..name.len().min(15)]);
        open.algorithm[..5].copy_from_slice(b"cubic");
        self.push(Kind::Open, Place::SetState, [Origin::Connect as u32, 0], Body::Open(open));
        self.now_ns += self.story.rtt_us * 1000;
    }

    fn ack(&mut self) {
        let before = self.state.cwnd;
        let slow_start = self.cwnd < f64::from(self.state.ssthresh);
        self.cwnd += if slow_start { 1.0 } else { 2.5 / self.cwnd };
        self.cwnd = self.cwnd.min(f64::from(self.state.clamp));
        let queued = self.waiting().max(0.0);
        let rtt_us = self.story.rtt_us as f64 + queued * 1e6 / self.story.rate as f64;
        let pace_us = (1e6 / self.story.rate as f64).max(rtt_us / self.cwnd);
        let jitter = self.random() % 200;
        self.now_ns += (pace_us * 1000.0) as u64 * (900 + jitter) / 1000;
        self.state.snd_una = self.state.snd_una.wrapping_add(MSS);
        self.state.srtt_us = (rtt_us * (0.98 + jitter as f64 / 5000.0)) as u32;
        self.state.rto_us = self.state.srtt_us + 200_000;
        self.settle();
        self.event(Kind::Ack, Place::RcvEstablished, [MSS, before]);
    }

    /// What follows from cwnd.
    fn settle(&mut self) {
        let cwnd = self.cwnd as u32;
        let few = (self.random() % 3) as u32;
        self.state.cwnd = cwnd;
        self.state.packets_out = cwnd.saturating_sub(few).min(self.state.snd_wnd / MSS);
        self.state.snd_nxt = self.state.snd_una.wrapping_add(self.state.packets_out * MSS);
        self.state.send_queue = (cwnd * 2 + few) * 2304;
        self.state.unsent = cwnd * MSS / 2;
    }

    fn ca(&mut self, new: CaState) {
        let old = std::mem::replace(&mut self.state.ca_state, new as u8);
        self.event(Kind::CaState, Place::SetCaState, [old.into(), new as u32]);
    }

    fn wait(&mut self, us: u64) {
        self.now_ns += us * 1000;
    }

    fn loss(&mut self) {
        self.ca(CaState::Disorder);
        for count in 1..=12 {
            self.wait(250);
            self.state.sacked_out = count;
            self.event(Kind::DupAck, Place::RcvEstablished, [count, 1]);
            let edge = self.state.snd_una.wrapping_add(MSS);
            let mut sack = Sack { snd_una: self.state.snd_una, ..Sack::default() };
            sack.blocks[0] = [edge, edge.wrapping_add(count * MSS)];
            self.push(Kind::Sack, Place::RcvEstablished, [1, 0], Body::Sack(sack));
            if count == 3 {
                self.state.ssthresh = (self.cwnd * 0.7) as u32;
                self.ca(CaState::Recovery);
            }
            if count >= 3 && count % 3 == 0 {
                self.retransmit(RetransmitReason::Fast);
            }
        }
        for _ in 0..self.state.cwnd.saturating_sub(self.state.ssthresh) {
            self.wait(400);
            self.state.cwnd -= 1;
            self.state.sacked_out += 1;
            self.event(Kind::Ack, Place::RcvEstablished, [0, self.state.cwnd + 1]);
        }
        self.recovered();
    }

    fn recovered(&mut self) {
        self.state.sacked_out = 0;
        self.state.lost_out = 0;
        self.state.retrans_out = 0;
        self.cwnd = f64::from(self.state.cwnd);
        self.ca(CaState::Open);
    }

    fn retransmit(&mut self, reason: RetransmitReason) {
        self.state.retrans_out += 1;
        let aux = [reason as u32 | 1 << 8, self.state.snd_una];
        self.event(Kind::Retransmit, Place::RetransmitSkb, aux);
    }

    fn timeout(&mut self) {
        for count in 1..=3 {
            self.wait(u64::from(self.state.rto_us));
            self.state.rto_us *= 2;
            self.state.ssthresh = (self.cwnd / 2.0) as u32;
            self.state.cwnd = 1;
            self.state.lost_out = self.state.packets_out;
            if count == 1 {
                self.ca(CaState::Loss);
            }
            self.event(Kind::Rto, Place::EnterLoss, [count, 1]);
            self.retransmit(RetransmitReason::Rto);
        }
        for _ in 0..20 {
            self.wait(self.story.rtt_us / 10);
            self.state.cwnd += 1;
            self.retransmit(RetransmitReason::SlowStart);
        }
        self.recovered();
    }

    fn local_congestion(&mut self) {
        for _ in 0..4 {
            self.wait(120);
            self.event(Kind::LocalCongestion, Place::EnterCwr, [1, 0]);
        }
        self.ca(CaState::Cwr);
        self.state.ssthresh = (self.cwnd * 0.7) as u32;
        while self.state.cwnd > self.state.ssthresh {
            self.wait(500);
            self.state.cwnd -= 1;
            self.event(Kind::Ack, Place::RcvEstablished, [MSS, self.state.cwnd + 1]);
        }
        self.recovered();
    }

    fn zero_window(&mut self) {
        let open = std::mem::replace(&mut self.state.snd_wnd, 0);
        self.state.packets_out = 0;
        self.event(Kind::ZeroWindow, Place::RcvEstablished, [2, 0]);
        self.wait(600_000);
        self.state.snd_wnd = open;
        self.settle();
        self.event(Kind::Ack, Place::RcvEstablished, [0, self.state.cwnd]);
    }

    fn clamp(&mut self) {
        let old = std::mem::replace(&mut self.state.clamp, 150);
        self.event(Kind::Clamp, Place::SetState, [old, 150]);
    }
}

/// The same connection as the other end would record it: by a clock that is `behind_ns` behind,
/// half a round trip before each acknowledgement.
pub fn other_end(story: Story, behind_ns: u64) -> Recording {
    let mut recording = Recording::default();
    for mut event in events(story) {
        event.time_ns = event.time_ns - behind_ns - story.rtt_us * 500;
        event.cookie += 1000;
        match &mut event.body {
            Body::Open(open) => {
                std::mem::swap(&mut open.local_addr, &mut open.remote_addr);
                std::mem::swap(&mut open.local_port, &mut open.remote_port);
                event.aux = [Origin::Accept as u32, 0];
            }
            Body::State(state) if event.kind == Kind::Ack => {
                let (received, answered) = (state.snd_una, state.rcv_nxt);
                (state.snd_una, state.snd_nxt, state.rcv_nxt) = (answered, answered, received);
                (state.unsent, state.packets_out) = (0, 0);
            }
            _ if event.kind != Kind::Close => continue,
            _ => {}
        }
        recording.push(&event);
    }
    recording
}

//! A small deterministic TCP sender that tells its events as the probes do:
//! `ack` and `send` with the state before, everything else as it happens.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};

use transom_analysis::{Analysis, Cause, Connection, Recording, analyse, analyse_connection};
use transom_event::{
    Body, CaState, Chrono, Event, Kind, Open, Place, State, TcpState, UNSET, flags,
};

pub const MSS: u32 = 1000;
pub const MS: u64 = 1_000_000;
const NOT_SET: u32 = i32::MAX as u32;

/// What the program does.
#[derive(Clone, Copy)]
pub enum Program {
    /// Writes whenever there is room in the send buffer.
    Bulk,
    /// Writes so many bytes every so many ns.
    Chunks { bytes: u64, every_ns: u64 },
}

#[derive(Clone)]
pub struct Setup {
    pub program: Program,
    pub rtt_ns: u64,
    pub length_ns: u64,
    pub initial_sequence: u32,
    pub send_buffer: u64,
    pub receiver_window: u32,
    /// Bytes/s.
    pub pacing: Option<u64>,
    pub clamp: Option<u32>,
    /// ssthresh that is set, without loss, once cwnd has grown so far.
    pub hystart_at: Option<u32>,
    /// Numbers of the segments that the path loses once.
    pub lost: Vec<u64>,
    /// The path loses everything sent in this time.
    pub blackout: std::ops::Range<u64>,
    /// Times at which the local device refuses a segment.
    pub refusals: Vec<u64>,
    /// Times at which an ACK carries an ECN echo.
    pub marks: Vec<u64>,
    /// What a refusal or an ECN echo leaves of cwnd.
    pub cut: (u32, u32),
    /// The device's rate, bytes/s; it holds two segments.
    pub device: Option<u64>,
    pub ecn: bool,
    pub bottleneck: Option<Bottleneck>,
    /// The path hands on nothing for the second time, each first time: a radio link that is busy or away.
    pub pauses: Option<(u64, u64)>,
}

/// What holds the path to a rate.
#[derive(Clone, Copy)]
pub struct Bottleneck {
    /// Bytes/s.
    pub rate: u64,
    /// Segments that may wait, or that a policer lets pass in a burst.
    pub room: u64,
    /// Drops what exceeds the rate instead of letting it wait.
    pub polices: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            program: Program::Bulk,
            rtt_ns: 50 * MS,
            length_ns: 2000 * MS,
            initial_sequence: 1_000,
            send_buffer: 100_000_000,
            receiver_window: 1_000_000_000,
            pacing: None,
            clamp: None,
            hystart_at: Some(40),
            lost: Vec::new(),
            blackout: 0..0,
            refusals: Vec::new(),
            marks: Vec::new(),
            cut: (7, 10),
            device: None,
            ecn: false,
            bottleneck: None,
            pauses: None,
        }
    }
}

enum Wire {
    Arrive(u64),
    Write,
    Pace,
    Drained,
    Timer,
    Refuse,
    Mark,
}

pub struct Sender {
    setup: Setup,
    pub events: Vec<Event>,
    now: u64,
    agenda: BTreeMap<(u64, u64), Wire>,
    order: u64,
    // Segment numbers.
    una: u64,
    nxt: u64,
    written: u64,
    cwnd: u32,
    ssthresh: u32,
    grown: u32,
    ca: CaState,
    high: u64,
    sacked: u32,
    lost_out: u32,
    retrans_out: u32,
    received: BTreeSet<u64>,
    expected: u64,
    refused_lost: BTreeSet<u64>,
    duplicates: u32,
    timeouts: u32,
    deadline: u64,
    chrono: Chrono,
    cwnd_limited: bool,
    next_paced: u64,
    in_device: u32,
    device_free: u64,
    path_free: u64,
    last_sent: u64,
}

/// Runs the sender and returns what was recorded.
pub fn run(setup: Setup) -> Recording {
    let events = Sender::new(setup).run();
    Recording::from_iter(&events)
}

/// The analysis of the only connection.
pub fn analysis(setup: Setup) -> Analysis {
    let recording = run(setup);
    analyse_connection(only(&recording), &recording)
}

pub fn only(recording: &Recording) -> &Connection {
    assert_eq!(recording.connections.len(), 1);
    &recording.connections[0]
}

/// The analysis of the only connection of these events.
pub fn one(events: &[Event]) -> Analysis {
    analyse(&Recording::from_iter(events)).remove(0)
}

/// Segments of `MSS` that arrive each ms, until `length_ms`; `change(ms, state)`.
pub fn download(length_ms: u32, change: impl Fn(u32, &mut State)) -> Vec<Event> {
    let mut events = vec![open_event(0, 2)];
    for ms in 1..length_ms {
        let mut state = State {
            cwnd: 10,
            ssthresh: NOT_SET,
            clamp: UNSET,
            rcv_nxt: ms * MSS,
            snd_wnd: 65_536,
            rcv_wnd: 1_000_000,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            rto_us: 220_000,
            pacing_rate: u64::MAX,
            mss: MSS as u16,
            tcp_state: TcpState::Established as u8,
            ca_state: CaState::Open as u8,
            ..State::default()
        };
        change(ms, &mut state);
        events.push(Event {
            time_ns: u64::from(ms) * MS,
            kind: Kind::Ack,
            place: Place::RcvEstablished,
            aux: [0, 10],
            body: Body::State(state),
            ..events[0]
        });
    }
    events
}

#[track_caller]
pub fn assert_says(analysis: &Analysis, cause: Cause, words: &[&str]) {
    let text = analysis.verdict.text();
    assert_eq!(analysis.verdict.cause, cause, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

pub fn open_event(time_ns: u64, origin: u32) -> Event {
    let mut open = Open { local_port: 4000, remote_port: 5201, family: 2, ..Open::default() };
    open.local_addr[..4].copy_from_slice(&[10, 0, 0, 1]);
    open.remote_addr[..4].copy_from_slice(&[10, 0, 0, 2]);
    open.comm[..5].copy_from_slice(b"iperf");
    open.algorithm[..4].copy_from_slice(b"reno");
    Event {
        time_ns,
        cookie: 7,
        tgid: 42,
        cpu: 0,
        kind: Kind::Open,
        place: Place::SetState,
        aux: [origin, 0],
        body: Body::Open(open),
    }
}

impl Sender {
    pub fn new(setup: Setup) -> Sender {
        let written = 0;
        let mut sender = Sender {
            events: vec![open_event(0, 1)],
            now: 0,
            agenda: BTreeMap::new(),
            order: 0,
            una: 0,
            nxt: 0,
            written,
            cwnd: 10,
            ssthresh: NOT_SET,
            grown: 0,
            ca: CaState::Open,
            high: 0,
            sacked: 0,
            lost_out: 0,
            retrans_out: 0,
            received: BTreeSet::new(),
            expected: 0,
            refused_lost: setup.lost.iter().copied().collect(),
            duplicates: 0,
            timeouts: 0,
            deadline: u64::MAX,
            chrono: Chrono::Idle,
            cwnd_limited: false,
            next_paced: 0,
            in_device: 0,
            device_free: 0,
            path_free: 0,
            last_sent: 0,
            setup,
        };
        sender.at(1, Wire::Write);
        for time in sender.setup.refusals.clone() {
            sender.at(time, Wire::Refuse);
        }
        for time in sender.setup.marks.clone() {
            sender.at(time, Wire::Mark);
        }
        sender
    }

    pub fn run(mut self) -> Vec<Event> {
        while let Some(((time, _), wire)) = self.agenda.pop_first() {
            if time > self.setup.length_ns {
                break;
            }
            self.now = time;
            match wire {
                Wire::Arrive(segment) => self.acknowledge(segment),
                Wire::Write => self.write(),
                Wire::Pace => self.transmit(),
                Wire::Drained => {
                    self.in_device -= 1;
                    self.transmit();
                }
                Wire::Timer => self.timer(),
                Wire::Refuse => self.congest(Some(Kind::LocalCongestion)),
                Wire::Mark => self.congest(None),
            }
        }
        self.events
    }

    fn at(&mut self, time: u64, wire: Wire) {
        self.order += 1;
        self.agenda.insert((time, self.order), wire);
    }

    fn rto_ns(&self) -> u64 {
        (self.setup.rtt_ns * 2).max(200 * MS) << self.timeouts
    }

    fn in_flight(&self) -> u32 {
        (self.nxt - self.una) as u32 + self.retrans_out - self.sacked - self.lost_out
    }

    fn state(&self) -> State {
        let sequence = |segment: u64| {
            self.setup.initial_sequence.wrapping_add((segment * u64::from(MSS)) as u32)
        };
        let mut bits = (self.chrono as u8) << flags::CHRONO_SHIFT;
        let conditions = [
            (flags::CWND_LIMITED, self.cwnd_limited),
            (flags::PACED, self.setup.pacing.is_some()),
            (flags::IN_SLOW_START, self.cwnd < self.ssthresh),
            (flags::ECN, self.setup.ecn),
        ];
        for (bit, _) in conditions.into_iter().filter(|(_, on)| *on) {
            bits |= bit;
        }
        let rtt_us = (self.setup.rtt_ns / 1000) as u32;
        State {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            clamp: self.setup.clamp.unwrap_or(UNSET),
            snd_una: sequence(self.una),
            snd_nxt: sequence(self.nxt),
            rcv_nxt: 1,
            snd_wnd: self.setup.receiver_window,
            rcv_wnd: 65_536,
            packets_out: (self.nxt - self.una) as u32,
            sacked_out: self.sacked,
            lost_out: self.lost_out,
            retrans_out: self.retrans_out,
            rto_us: (self.rto_ns() / 1000) as u32,
            srtt_us: rtt_us,
            min_rtt_us: rtt_us,
            unsent: ((self.written - self.nxt) * u64::from(MSS)) as u32,
            pacing_rate: self.setup.pacing.unwrap_or(u64::MAX),
            mss: MSS as u16,
            ca_state: self.ca as u8,
            tcp_state: TcpState::Established as u8,
            flags: bits,
            backoff: self.timeouts as u8,
            ..State::default()
        }
    }

    fn emit(&mut self, kind: Kind, place: Place, aux: [u32; 2]) {
        let body = Body::State(self.state());
        let event =
            Event { time_ns: self.now, cookie: 7, tgid: 42, cpu: 0, kind, place, aux, body };
        self.events.push(event);
    }

    fn set_ca(&mut self, new: CaState) {
        if self.ca != new {
            self.emit(Kind::CaState, Place::SetCaState, [self.ca as u32, new as u32]);
            self.ca = new;
        }
    }

    fn write(&mut self) {
        match self.setup.program {
            Program::Bulk => self.fill(),
            Program::Chunks { bytes, every_ns } => {
                self.restart_after_idle();
                self.written += bytes.div_ceil(u64::from(MSS));
                self.at(self.now + every_ns, Wire::Write);
            }
        }
        self.transmit();
    }

    /// `tcp_slow_start_after_idle_check`, for one step of halving a time.
    fn restart_after_idle(&mut self) {
        let mut idle = self.now - self.last_sent;
        while self.nxt == self.una && idle > self.rto_ns() && self.cwnd > 10 {
            self.cwnd = (self.cwnd / 2).max(10);
            idle -= self.rto_ns();
        }
    }

    fn fill(&mut self) {
        let Program::Bulk = self.setup.program else { return };
        let room = self.setup.send_buffer / u64::from(MSS);
        self.written = self.written.max(self.una + room);
    }

    /// `tcp_write_xmit`.
    fn transmit(&mut self) {
        let mut rwnd_limited = false;
        self.cwnd_limited = false;
        while self.nxt < self.written {
            if self.in_flight() >= self.cwnd {
                self.cwnd_limited = true;
                break;
            }
            let end = (self.nxt - self.una + 1) * u64::from(MSS);
            if end > u64::from(self.setup.receiver_window) {
                rwnd_limited = true;
                break;
            }
            if self.setup.pacing.is_some() && self.now < self.next_paced {
                self.at(self.next_paced, Wire::Pace);
                break;
            }
            if self.setup.device.is_some() && self.in_device >= 2 {
                break;
            }
            self.send();
        }
        let bulk = matches!(self.setup.program, Program::Bulk);
        self.chrono = if rwnd_limited {
            Chrono::ReceiveWindow
        } else if self.nxt == self.written && bulk && !self.cwnd_limited {
            Chrono::SendBuffer
        } else if self.nxt > self.una || self.written > self.nxt {
            Chrono::Busy
        } else {
            Chrono::Idle
        };
    }

    fn send(&mut self) {
        self.emit(Kind::Send, Place::DevQueue, [MSS, 1]);
        let mut leaves = self.now;
        if let Some(rate) = self.setup.pacing {
            self.next_paced = self.now + u64::from(MSS) * 1_000_000_000 / rate;
        }
        if let Some(rate) = self.setup.device {
            leaves = self.device_free.max(self.now) + u64::from(MSS) * 1_000_000_000 / rate;
            self.device_free = leaves;
            self.in_device += 1;
            self.at(leaves, Wire::Drained);
        }
        let segment = self.nxt;
        self.nxt += 1;
        self.last_sent = self.now;
        self.put_on_wire(segment, leaves);
        if self.deadline == u64::MAX {
            self.arm();
        }
    }

    fn put_on_wire(&mut self, segment: u64, leaves: u64) {
        let mut lost = self.refused_lost.remove(&segment) || self.setup.blackout.contains(&leaves);
        let mut passed = leaves;
        if let Some(Bottleneck { rate, room, polices }) = self.setup.bottleneck {
            let service = u64::from(MSS) * 1_000_000_000 / rate;
            let begins = self.path_free.max(leaves);
            lost |= begins - leaves > room * service;
            if !lost {
                self.path_free = begins + service;
                passed = if polices { leaves } else { self.path_free };
            }
        }
        if !lost {
            self.at(self.after_pause(passed) + self.setup.rtt_ns, Wire::Arrive(segment));
        }
    }

    fn after_pause(&self, time: u64) -> u64 {
        let Some((every, length)) = self.setup.pauses else { return time };
        time.max(time / every * every + length)
    }

    fn arm(&mut self) {
        self.deadline = self.now + self.rto_ns();
        self.at(self.deadline, Wire::Timer);
    }

    fn acknowledge(&mut self, segment: u64) {
        self.received.insert(segment);
        let before = self.expected;
        while self.received.remove(&self.expected) {
            self.expected += 1;
        }
        let newly = self.expected - before;
        self.emit(Kind::Ack, Place::RcvEstablished, [newly as u32 * MSS, 0]);
        if newly == 0 {
            self.duplicate();
        } else {
            self.progress(newly as u32);
        }
        self.fill();
        self.transmit();
    }

    fn duplicate(&mut self) {
        self.duplicates += 1;
        self.sacked += 1;
        self.emit(Kind::DupAck, Place::Ack, [self.duplicates, 1]);
        if self.duplicates == 3 && self.ca == CaState::Open {
            self.ssthresh = (self.cwnd * 7 / 10).max(2);
            self.set_ca(CaState::Recovery);
            self.cwnd = self.ssthresh;
            (self.high, self.lost_out) = (self.nxt, 1);
            self.retransmit(1);
        }
    }

    fn retransmit(&mut self, reason: u32) {
        self.retrans_out += 1;
        let sequence = self.state().snd_una;
        self.emit(Kind::Retransmit, Place::RetransmitSkb, [reason | 1 << 8, sequence]);
        self.put_on_wire(self.una, self.now);
    }

    fn progress(&mut self, newly: u32) {
        self.una += u64::from(newly);
        self.duplicates = 0;
        self.timeouts = 0;
        self.deadline = u64::MAX;
        self.sacked = self.received.len() as u32;
        self.retrans_out = 0;
        if self.una >= self.high {
            self.lost_out = 0;
            self.set_ca(CaState::Open);
        } else if self.ca == CaState::Loss {
            self.lost_out = ((self.high - self.una) as u32).saturating_sub(self.sacked);
            self.retransmit(3);
        } else if self.ca == CaState::Recovery {
            self.lost_out = 1;
            self.retransmit(1);
        }
        if self.ca == CaState::Open || self.ca == CaState::Loss {
            self.grow(newly);
        }
        if self.nxt > self.una {
            self.arm();
        }
    }

    fn grow(&mut self, newly: u32) {
        if !self.cwnd_limited && self.ca == CaState::Open {
            return;
        }
        let clamp = self.setup.clamp.unwrap_or(UNSET);
        if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + newly).min(clamp);
            if self.setup.hystart_at.is_some_and(|at| self.cwnd >= at && self.ssthresh == NOT_SET) {
                self.ssthresh = self.cwnd;
            }
            return;
        }
        self.grown += newly;
        if self.grown >= self.cwnd {
            self.grown = 0;
            self.cwnd = (self.cwnd + 1).min(clamp);
        }
    }

    fn timer(&mut self) {
        if self.now != self.deadline || self.nxt == self.una {
            return;
        }
        let cut = self.timeouts == 0;
        self.emit(Kind::Rto, Place::EnterLoss, [self.timeouts + 1, 1]);
        if cut {
            self.ssthresh = (self.cwnd / 2).max(2);
        }
        self.set_ca(CaState::Loss);
        self.timeouts += 1;
        self.cwnd = 1;
        self.high = self.nxt;
        self.sacked = self.received.len() as u32;
        self.lost_out = (self.nxt - self.una) as u32 - self.sacked;
        self.retrans_out = 0;
        self.retransmit(2);
        self.arm();
    }

    /// CWR without loss: the cut of `tcp_cwnd_reduction`, in one step, and its end one RTT later.
    fn congest(&mut self, told: Option<Kind>) {
        if self.ca == CaState::Cwr {
            return;
        }
        if let Some(kind) = told {
            self.emit(kind, Place::EnterCwr, [1, MSS]);
        }
        let (kept, of) = self.setup.cut;
        self.ssthresh = (self.cwnd * kept / of).max(2);
        self.set_ca(CaState::Cwr);
        self.cwnd = self.ssthresh;
        self.high = self.nxt;
    }
}

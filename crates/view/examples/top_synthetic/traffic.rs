//! Five kinds of connections, made up from a few formulas: the same at every run.

use transom_event::{
    Body, CaState, Chrono, Event, Kind, Open, Origin, Place, RetransmitReason, State, TcpState,
    UNSET, flags,
};

const STEP_NS: u64 = 10_000_000;
const MSS: u32 = 1448;

/// Events of all connections, by their time.
pub struct Traffic {
    start_ns: u64,
    now_ns: u64,
    upload: State,
    backup: State,
    chat: State,
    video: State,
    curl: State,
    growth: f64,
}

const UPLOAD: u64 = 1;
const BACKUP: u64 = 2;
const CHAT: u64 = 3;
const VIDEO: u64 = 4;
const CURL: u64 = 100;

/// The upload loses a segment this often, and each third time it takes a timeout to notice.
const LOSS_EVERY: u64 = 600;

/// The curl process opens a connection this often and keeps it half of the time.
const CURL_EVERY: u64 = 300;

impl Traffic {
    pub fn new(start_ns: u64) -> Traffic {
        let state = State {
            cwnd: 10,
            ssthresh: i32::MAX as u32,
            clamp: UNSET,
            // Close to the end of the sequence space, so that it wraps soon.
            snd_una: u32::MAX - 5_000_000,
            snd_nxt: u32::MAX - 5_000_000,
            snd_wnd: 3_000_000,
            rcv_wnd: 65_536,
            rto_us: 240_000,
            srtt_us: 40_000,
            mdev_us: 1_500,
            min_rtt_us: 38_200,
            pacing_rate: u64::MAX,
            mss: MSS as u16,
            tcp_state: TcpState::Established as u8,
            ..State::default()
        };
        Traffic {
            start_ns,
            now_ns: start_ns,
            upload: State { unsent: 2_000_000, send_queue: 2_400_000, ..state },
            backup: State {
                cwnd: 120,
                snd_wnd: 65_536,
                srtt_us: 20_100,
                min_rtt_us: 19_800,
                unsent: 800_000,
                send_queue: 900_000,
                flags: (Chrono::ReceiveWindow as u8) << flags::CHRONO_SHIFT,
                ..state
            },
            chat: State {
                srtt_us: 130_000,
                min_rtt_us: 120_000,
                flags: flags::APP_LIMITED,
                ..state
            },
            video: State {
                cwnd: 80,
                srtt_us: 30_400,
                min_rtt_us: 30_000,
                unsent: 100_000,
                pacing_rate: 2_500_000,
                flags: flags::PACED,
                ..state
            },
            curl: state,
            growth: 10.0,
        }
    }

    /// Gives every event up to `now_ns`.
    pub fn advance_to(&mut self, now_ns: u64, sink: &mut dyn FnMut(&Event)) {
        while self.now_ns <= now_ns {
            let step = (self.now_ns - self.start_ns) / STEP_NS;
            if step == 0 {
                self.open_all(sink);
            }
            self.upload(step, sink);
            self.backup(sink);
            self.chat(step, sink);
            self.video(sink);
            self.curl(step, sink);
            self.now_ns += STEP_NS;
        }
    }

    fn open_all(&self, sink: &mut dyn FnMut(&Event)) {
        let v4 = |host: u8, port: u16| ([192, 0, 2, host].to_vec(), port);
        let v6 = |host: u8, port: u16| {
            let mut address =
                vec![0x20, 0x01, 0x0d, 0xb8, 0x85, 0xa3, 0, 0, 0, 0, 0x8a, 0x2e, 0x03];
            address.extend([0x70, 0x73, host]);
            (address, port)
        };
        let connections = [
            (UPLOAD, "upload", "cubic", v4(10, 5001)),
            (BACKUP, "backup", "reno", v4(20, 873)),
            (CHAT, "chatd", "cubic", v6(0x34, 5222)),
            (VIDEO, "video", "bbr", v4(40, 8443)),
        ];
        for (cookie, program, algorithm, remote) in connections {
            let open = open(program, algorithm, 40_000 + cookie as u16, remote);
            sink(&self.event(cookie, Kind::Open, [Origin::Existing as u32, 0], Body::Open(open)));
        }
    }

    fn event(&self, cookie: u64, kind: Kind, aux: [u32; 2], body: Body) -> Event {
        let place = Place::RcvEstablished;
        Event {
            time_ns: self.now_ns,
            cookie,
            tgid: 1000 + cookie as u32,
            cpu: 0,
            kind,
            place,
            aux,
            body,
        }
    }

    fn tell(&self, sink: &mut dyn FnMut(&Event), cookie: u64, kind: Kind, aux: [u32; 2], s: State) {
        sink(&self.event(cookie, kind, aux, Body::State(s)));
    }

    /// Slow start, then congestion avoidance between losses.
    fn upload(&mut self, step: u64, sink: &mut dyn FnMut(&Event)) {
        let mut s = self.upload;
        let into = step % LOSS_EVERY;
        let times_out = step / LOSS_EVERY % 3 == 2;
        if into == LOSS_EVERY - 20 {
            let ca = if times_out { CaState::Loss } else { CaState::Recovery };
            self.tell(sink, UPLOAD, Kind::CaState, [s.ca_state.into(), ca as u32], s);
            s.ssthresh = (s.cwnd * 7 / 10).max(2);
            s.cwnd = if times_out { 1 } else { s.ssthresh };
            s.ca_state = ca as u8;
            if times_out {
                self.tell(sink, UPLOAD, Kind::Rto, [1, 1], s);
            }
            let reason = if times_out { RetransmitReason::Rto } else { RetransmitReason::Fast };
            self.tell(sink, UPLOAD, Kind::Retransmit, [reason as u32 | 3 << 8, s.snd_una], s);
            self.growth = s.cwnd.into();
        }
        if into == 0 && step > 0 {
            self.tell(sink, UPLOAD, Kind::CaState, [s.ca_state.into(), 0], s);
            s.ca_state = CaState::Open as u8;
        }
        // A step is a quarter of the round-trip time.
        self.growth += if s.cwnd < s.ssthresh { self.growth * 0.19 } else { 0.25 };
        self.growth = self.growth.min(400.0);
        s.cwnd = self.growth as u32;
        s.packets_out = s.cwnd;
        s.snd_una = s.snd_una.wrapping_add(s.cwnd * MSS / 4);
        s.snd_nxt = s.snd_una.wrapping_add(s.cwnd * MSS);
        let phase = if s.cwnd < s.ssthresh { flags::IN_SLOW_START } else { 0 };
        s.flags = flags::CWND_LIMITED | phase;
        self.upload = s;
        self.tell(sink, UPLOAD, Kind::Ack, [s.cwnd * MSS / 4, s.cwnd], s);
    }

    fn backup(&mut self, sink: &mut dyn FnMut(&Event)) {
        let s = &mut self.backup;
        s.packets_out = 45;
        s.snd_una = s.snd_una.wrapping_add(s.snd_wnd / 2);
        s.snd_nxt = s.snd_una.wrapping_add(s.snd_wnd);
        let s = *s;
        self.tell(sink, BACKUP, Kind::Ack, [s.snd_wnd / 2, s.cwnd], s);
    }

    fn chat(&mut self, step: u64, sink: &mut dyn FnMut(&Event)) {
        if !step.is_multiple_of(20) {
            return;
        }
        let s = &mut self.chat;
        s.snd_una = s.snd_una.wrapping_add(500);
        s.snd_nxt = s.snd_una;
        s.rcv_nxt = s.rcv_nxt.wrapping_add(200);
        let s = *s;
        self.tell(sink, CHAT, Kind::Ack, [500, s.cwnd], s);
    }

    fn video(&mut self, sink: &mut dyn FnMut(&Event)) {
        let s = &mut self.video;
        s.packets_out = 52;
        s.snd_una = s.snd_una.wrapping_add(25_000);
        s.snd_nxt = s.snd_una.wrapping_add(52 * MSS);
        let s = *s;
        self.tell(sink, VIDEO, Kind::Ack, [25_000, s.cwnd], s);
    }

    /// Downloads, one after the other, each with a connection of its own.
    fn curl(&mut self, step: u64, sink: &mut dyn FnMut(&Event)) {
        let (turn, into) = (step / CURL_EVERY, step % CURL_EVERY);
        let cookie = CURL + turn;
        if into == 0 {
            let port = 50_000 + (turn % 1000) as u16;
            let open = open("curl", "cubic", port, ([198, 51, 100, 7].to_vec(), 443));
            sink(&self.event(cookie, Kind::Open, [Origin::Connect as u32, 0], Body::Open(open)));
        }
        if into <= CURL_EVERY / 2 {
            self.curl.rcv_nxt = self.curl.rcv_nxt.wrapping_add(80_000);
            self.curl.recv_queue = 20_000;
            self.tell(sink, cookie, Kind::Ack, [0, 10], self.curl);
        }
        if into == CURL_EVERY / 2 {
            let closed = State { tcp_state: TcpState::Close as u8, ..self.curl };
            self.tell(sink, cookie, Kind::Close, [0, 0], closed);
        }
    }
}

fn name(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

fn open(program: &str, algorithm: &str, local_port: u16, remote: (Vec<u8>, u16)) -> Open {
    let (bytes, remote_port) = remote;
    let mut remote_addr = [0; 16];
    remote_addr[..bytes.len()].copy_from_slice(&bytes);
    let mut local_addr = [0; 16];
    let local: &[u8] = if bytes.len() == 4 {
        &[10, 0, 0, 1]
    } else {
        &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    };
    local_addr[..local.len()].copy_from_slice(local);
    Open {
        local_addr,
        remote_addr,
        local_port,
        remote_port,
        netns: 4_026_531_840,
        family: if bytes.len() == 4 { 2 } else { 10 },
        comm: name(program),
        algorithm: name(algorithm),
        ..Open::default()
    }
}

//! A made-up bulk transfer with the habits of a real one: several connections
//! interleaved, events a few µs apart, RTT that wobbles, windows that move.

use bytemuck::Zeroable;
use transom_event::{Body, Event, Kind, Open, Place, Raw, Sack, State, flags};

const MSS: u32 = 1448;

/// A small generator of our own, so that every run writes the same file (xorshift64*).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }
}

struct Flow {
    cookie: u64,
    cpu: u16,
    state: State,
}

/// Endless events of `connections` bulk senders.
pub struct Bulk {
    random: Random,
    time_ns: u64,
    flows: Vec<Flow>,
    /// Flows that have yet to say who they are.
    unopened: usize,
}

impl Bulk {
    pub fn new(connections: usize) -> Bulk {
        let mut random = Random(0x5eed);
        let flows = (0..connections)
            .map(|i| {
                let sequence = random.next() as u32;
                let state = State {
                    cwnd: 80,
                    ssthresh: 60,
                    clamp: u32::MAX,
                    snd_una: sequence,
                    snd_nxt: sequence,
                    rcv_nxt: random.next() as u32,
                    snd_wnd: 3_145_728,
                    rcv_wnd: 64_256,
                    rto_us: 204_000,
                    srtt_us: 4_000,
                    mdev_us: 300,
                    min_rtt_us: 3_600,
                    send_queue: 400_000,
                    unsent: 200_000,
                    pacing_rate: 30_000_000,
                    mss: MSS as u16,
                    tcp_state: 1,
                    flags: 1 << flags::CHRONO_SHIFT | flags::CWND_LIMITED,
                    ..State::zeroed()
                };
                Flow { cookie: 0x1000 + i as u64, cpu: (i % 2) as u16, state }
            })
            .collect();
        Bulk { random, time_ns: 45_000_000_000_000, flows, unopened: connections }
    }

    fn open(&mut self, at: usize) -> Event {
        let mut local_addr = [0; 16];
        local_addr[..4].copy_from_slice(&[10, 0, 0, 1]);
        let mut remote_addr = [0; 16];
        remote_addr[..4].copy_from_slice(&[10, 0, 0, 2]);
        let mut comm = [0; 16];
        comm[..5].copy_from_slice(b"iperf");
        let mut algorithm = [0; 16];
        algorithm[..5].copy_from_slice(b"cubic");
        let body = Body::Open(Open {
            local_addr,
            remote_addr,
            local_port: 40_000 + at as u16,
            remote_port: 5201,
            netns: 4_026_531_840,
            ifindex: 2,
            family: 2,
            cgroup: 77,
            comm,
            algorithm,
            ..Open::zeroed()
        });
        self.event(at, Kind::Open, Place::SetState, [1, 0], body)
    }

    fn event(&self, at: usize, kind: Kind, place: Place, aux: [u32; 2], body: Body) -> Event {
        let Flow { cookie, cpu, .. } = self.flows[at];
        Event { time_ns: self.time_ns, cookie, tgid: 4242, cpu, kind, place, aux, body }
    }
}

impl Iterator for Bulk {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.time_ns += 900 + u64::from(self.random.below(6_000));
        if self.unopened > 0 {
            self.unopened -= 1;
            return Some(self.open(self.unopened));
        }
        let at = self.random.below(self.flows.len() as u32) as usize;
        let random = &mut self.random;
        let s = &mut self.flows[at].state;
        if random.chance(20_000) && s.packets_out > 3 {
            s.ssthresh = (s.cwnd * 7 / 10).max(2);
            s.cwnd = s.ssthresh;
            let body = Body::Sack(Sack {
                blocks: [[s.snd_una + MSS, s.snd_una + 3 * MSS], [0; 2], [0; 2], [0; 2]],
                cwnd: s.cwnd,
                ssthresh: s.ssthresh,
                snd_una: s.snd_una,
                snd_nxt: s.snd_nxt,
                packets_out: s.packets_out,
                sacked_out: 2,
                ca_state: 1,
                tcp_state: 1,
                ..Sack::zeroed()
            });
            return Some(self.event(at, Kind::Sack, Place::RcvEstablished, [1, 0], body));
        }
        if s.packets_out + 2 < s.cwnd && (s.packets_out < 4 || random.chance(2)) {
            let segments = (1 + random.below(8)).min(s.cwnd - s.packets_out);
            s.snd_nxt = s.snd_nxt.wrapping_add(segments * MSS);
            s.packets_out += segments;
            s.unsent = s.unsent.saturating_sub(segments * MSS);
            if s.unsent < 40_000 {
                s.unsent += 131_072;
                s.send_queue += 140_000;
            }
            let (aux, body) = ([segments * MSS, segments], Body::State(*s));
            return Some(self.event(at, Kind::Send, Place::DevQueue, aux, body));
        }
        let segments = (1 + random.below(4)).min(s.packets_out);
        let before = s.cwnd;
        s.snd_una = s.snd_una.wrapping_add(segments * MSS);
        s.packets_out -= segments;
        s.delivered += segments;
        s.send_queue = s.send_queue.saturating_sub(segments * 1_600).max(50_000);
        let sample = 3_600 + random.below(900);
        s.mdev_us = (s.mdev_us * 3 + sample.abs_diff(s.srtt_us)) / 4;
        s.srtt_us = (s.srtt_us * 7 + sample) / 8;
        s.min_rtt_us = s.min_rtt_us.min(sample);
        s.rto_us = 200_000 + s.srtt_us / 1_000 * 1_000;
        if random.chance(s.cwnd.max(1)) {
            s.cwnd += 1;
        }
        let window = u64::from(s.cwnd) * u64::from(MSS) * 1_000_000;
        s.pacing_rate = window * 12 / 10 / u64::from(s.srtt_us);
        let (aux, body) = ([segments * MSS, before], Body::State(*s));
        Some(self.event(at, Kind::Ack, Place::Ack, aux, body))
    }
}

/// The first `n` events of such a transfer, as the kernel writes them.
#[allow(dead_code)]
pub fn records(n: usize, connections: usize) -> Vec<Raw> {
    Bulk::new(connections).take(n).map(|event| Raw::from(&event)).collect()
}

//! Packets and senders in logical time, for tests and calibration.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use transom_emulator::plan::{Path, Plan, Port, Side};
use transom_emulator::{Delivery, Frame, Nanos, Network};

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;
/// Bytes from the IP header on of a full packet.
pub const FULL: usize = 1500;

pub fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, (port >> 8) as u8, port as u8]
}

/// A TCP segment of a flow, which is its source port, with a number in it.
pub fn segment(from: usize, to: usize, flow: u16, ecn: bool, number: u64, bytes: usize) -> Frame {
    let mut frame = vec![0; 14 + bytes.max(32)];
    frame[..6].copy_from_slice(&mac(to));
    frame[6..12].copy_from_slice(&mac(from));
    frame[12] = 8;
    frame[14..16].copy_from_slice(&[0x45, if ecn { 2 } else { 0 }]);
    frame[23] = 6;
    frame[26..34].copy_from_slice(&[10, 77, 0, from as u8, 10, 77, 0, to as u8]);
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame[38..46].copy_from_slice(&number.to_be_bytes());
    Frame::new(frame)
}

pub fn flow_of(delivery: &Delivery) -> u16 {
    u16::from_be_bytes(delivery.frame.bytes()[34..36].try_into().expect("two bytes"))
}

pub fn number_of(delivery: &Delivery) -> u64 {
    u64::from_be_bytes(delivery.frame.bytes()[38..46].try_into().expect("eight bytes"))
}

pub fn plan(path: Path, sides: Vec<Side>) -> Plan {
    let ports = sides.into_iter().enumerate().map(|(index, side)| Port {
        name: format!("h{index}"),
        mac: mac(index),
        side,
    });
    Plan { seed: 1, path, ports: ports.collect(), ..Plan::default() }
}

pub fn advance(network: &mut Network, until: Nanos) -> Vec<Delivery> {
    let mut out = Vec::new();
    network.advance(until, &mut out);
    out
}

/// What one sender does.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub from: usize,
    pub to: usize,
    pub ecn: bool,
    /// Of the ACKs, which meet no queue.
    pub back: Nanos,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// CUBIC (RFC 9438) with segments of full packets, an ACK for each, and nothing sent again:
    /// what a queue does to a window, and the window to the queue, without the rest of TCP.
    Cubic,
    /// The same with DCTCP's reaction to marks (RFC 8257).
    Dctcp,
    /// This many full packets a second, whatever happens.
    Constant(u64),
    /// A packet of 100 bytes this often.
    Sparse(Nanos),
}

/// What became of it, from `from` until the end.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub bytes: u64,
    pub marks: u64,
    pub packets: u64,
    /// One way, ns.
    pub delays: Vec<Nanos>,
}

impl Outcome {
    pub fn mean_delay_ms(&self) -> f64 {
        self.delays.iter().sum::<Nanos>() as f64 / self.delays.len() as f64 / MS as f64
    }
}

#[derive(Debug)]
struct Tcp {
    sender: Sender,
    window: f64,
    /// Slow start ends here.
    threshold: f64,
    next: u64,
    acked: u64,
    /// No second reduction until this is acknowledged.
    recover: u64,
    most: f64,
    epoch: Option<Nanos>,
    last_ack: Nanos,
    /// DCTCP: share of marked packets, smoothed; and of this window: marked, all, its end.
    alpha: f64,
    seen: (u64, u64, u64),
    sent: Vec<Nanos>,
}

impl Tcp {
    fn new(sender: Sender) -> Tcp {
        Tcp {
            sender,
            window: 10.0,
            threshold: f64::INFINITY,
            next: 0,
            acked: 0,
            recover: 0,
            most: 0.0,
            epoch: None,
            last_ack: 0,
            alpha: 1.0,
            seen: (0, 0, 0),
            sent: Vec::new(),
        }
    }

    /// RFC 9438, section 4, with C = 0.4 and beta = 0.7.
    fn grow(&mut self, now: Nanos, rtt: f64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let begun = *self.epoch.get_or_insert(now);
        let elapsed = (now - begun) as f64 / 1e9;
        let inflection = (self.most * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (elapsed + rtt - inflection).powi(3) + self.most;
        let reno = self.most * 0.7 + 3.0 * 0.3 / 1.7 * elapsed / rtt;
        let target = cubic.max(reno).min(1.5 * self.window);
        self.window += ((target - self.window) / self.window).max(0.01 / self.window);
    }

    fn reduce(&mut self, factor: f64) {
        self.most = self.window;
        self.window = (self.window * factor).max(2.0);
        self.threshold = self.window;
        self.epoch = None;
        self.recover = self.next;
    }

    fn on_ack(&mut self, now: Nanos, number: u64, marked: bool) {
        let lost = number > self.acked;
        self.acked = number + 1;
        self.last_ack = now;
        let rtt = (now - self.sent[number as usize]) as f64 / 1e9;
        if self.sender.kind == Kind::Dctcp {
            self.seen.0 += u64::from(marked);
            self.seen.1 += 1;
            if number >= self.seen.2 {
                let share = self.seen.0 as f64 / self.seen.1 as f64;
                self.alpha += (share - self.alpha) / 16.0;
                self.seen = (0, 0, self.next);
            }
        }
        match (lost || marked) && number >= self.recover {
            true if self.sender.kind == Kind::Dctcp && !lost => {
                self.reduce(1.0 - self.alpha / 2.0);
            }
            true => self.reduce(0.7),
            false if number >= self.recover => self.grow(now, rtt),
            false => {}
        }
    }

    /// How many it may send now, and how long until it wants to be asked again at the latest.
    fn allowance(&mut self, now: Nanos) -> (u64, Nanos) {
        match self.sender.kind {
            Kind::Constant(rate) => (1, (self.next + 1) * SECOND / rate - now),
            Kind::Sparse(every) => (1, every),
            Kind::Cubic | Kind::Dctcp => {
                if now > self.last_ack + SECOND {
                    // All of a window was lost: the timeout.
                    self.reduce(0.5);
                    (self.acked, self.last_ack) = (self.next, now);
                }
                let inside = self.next - self.acked;
                ((self.window as u64).saturating_sub(inside), SECOND)
            }
        }
    }
}

/// When a flow acts, which one, and of an ACK its number and mark.
type Turn = (Nanos, usize, Option<(u64, bool)>);

/// Lets them send through the network; what reached the receivers from `from` to `until`.
pub fn run(network: &mut Network, senders: &[Sender], from: Nanos, until: Nanos) -> Vec<Outcome> {
    let mut flows: Vec<Tcp> = senders.iter().map(|sender| Tcp::new(*sender)).collect();
    let mut outcomes = vec![Outcome::default(); flows.len()];
    let mut queue: BinaryHeap<Reverse<Turn>> = BinaryHeap::new();
    (0..flows.len()).for_each(|flow| queue.push(Reverse((0, flow, None))));
    let mut out = Vec::new();
    loop {
        let timer = queue.peek().map(|Reverse((at, ..))| *at);
        let Some(now) = timer.into_iter().chain(network.next_delivery()).min() else { break };
        if now > until {
            break;
        }
        network.advance(now, &mut out);
        for delivery in out.drain(..) {
            let flow = usize::from(flow_of(&delivery));
            let (number, marked) = (number_of(&delivery), delivery.frame.is_marked());
            if delivery.at >= from {
                let outcome = &mut outcomes[flow];
                outcome.bytes += delivery.frame.bytes().len() as u64 - 14;
                outcome.marks += u64::from(marked);
                outcome.packets += 1;
                outcome.delays.push(delivery.at - flows[flow].sent[number as usize]);
            }
            let back = delivery.at + flows[flow].sender.back;
            queue.push(Reverse((back, flow, Some((number, marked)))));
        }
        while queue.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, index, ack))) = queue.pop() else { break };
            let flow = &mut flows[index];
            if let Some((number, marked)) = ack {
                if !matches!(flow.sender.kind, Kind::Cubic | Kind::Dctcp) {
                    continue;
                }
                flow.on_ack(now, number, marked);
            }
            let (number, again) = flow.allowance(now);
            let Sender { from, to, ecn, kind, .. } = flow.sender;
            let bytes = if matches!(kind, Kind::Sparse(_)) { 100 } else { FULL };
            for _ in 0..number {
                flow.sent.push(now);
                network.arrive(now, from, segment(from, to, index as u16, ecn, flow.next, bytes));
                flow.next += 1;
            }
            if ack.is_none() {
                queue.push(Reverse((now + again, index, None)));
            }
        }
    }
    outcomes
}

/// Jain's index of their bytes.
pub fn jain(outcomes: &[Outcome]) -> f64 {
    let sum: f64 = outcomes.iter().map(|one| one.bytes as f64).sum();
    let squares: f64 = outcomes.iter().map(|one| (one.bytes as f64).powi(2)).sum();
    sum * sum / (outcomes.len() as f64 * squares)
}

//! What a connection went over and what its ends did: all that a simulation needs, each number with
//! what the trace leaves open.

use serde::Serialize;

use crate::parameter::Parameter;

/// Rates are in bytes/s, of IP packets; times in s; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// From its first event to its last.
    pub seconds: f64,
    pub ipv6: bool,
    /// Bytes of a full IP packet.
    pub packet: f64,
    pub path: Path,
    pub sender: Sender,
    pub receiver: Receiver,
    pub program: Program,
    /// How far the round trips are from those over this path; none: something else makes them.
    pub misfit: Option<Misfit>,
    /// What the model leaves out, in whole sentences.
    pub notes: Vec<String>,
}

/// Distances, s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Misfit {
    pub mean_s: f64,
    /// The tenth of the time in which they are greatest, and the median there.
    pub from_s: f64,
    pub to_s: f64,
    pub worst_s: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Round trip without any queue.
    pub rtt_s: Parameter,
    pub rate: Parameter,
    /// Full packets that wait for the rate, without the one that is being sent.
    pub queue: Parameter,
    pub policer: Option<Policed>,
    /// Share of segments that are lost where nothing is full.
    pub loss: Parameter,
    /// Mean number lost in a row, where it is more than chance makes.
    pub loss_burst: Option<f64>,
    /// Share of acknowledgements that are lost.
    pub ack_loss: Parameter,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policed {
    pub rate: Parameter,
    pub burst: Parameter,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sender {
    pub algorithm: String,
    /// Segments; none: the kernel's ten.
    pub initial_window: Option<u32>,
    /// Upper limit of cwnd, segments.
    pub cap: Option<u32>,
    /// SO_SNDBUF as the program gave it, or what comes to the same.
    pub send_buffer: Option<u32>,
    /// The kernel sized it, and did not let it grow further (`tcp_wmem`).
    pub send_buffer_grew: bool,
    /// SO_MAX_PACING_RATE, bytes/s.
    pub pacing: Option<u64>,
    /// Of its own device, bytes/s of IP packets.
    pub device: Option<Parameter>,
    /// Segments that its device takes at once.
    pub gso_segments: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Receiver {
    /// The largest window that it offers, where that is its limit.
    pub window: Option<Parameter>,
    /// Its program reads no faster.
    pub reads: Option<Parameter>,
    pub gro: bool,
}

/// What the sending program does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Program {
    /// All that the socket takes, until the recording ended.
    Endless,
    /// So much at once, then it closes.
    Bytes { bytes: u64 },
    /// Time after the first event, and bytes.
    Writes { writes: Vec<(f64, u64)> },
    /// Asks, waits for the whole answer, thinks.
    Requests { request: u64, response: u64, think_s: f64, count: u64 },
}

impl Program {
    /// Bytes that it sends in all; none: as much as it can.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Program::Endless => None,
            Program::Bytes { bytes } => Some(*bytes),
            Program::Writes { writes } => Some(writes.iter().map(|write| write.1).sum()),
            Program::Requests { request, count, .. } => Some(request * count),
        }
    }
}

/// What an unbounded interval is taken to end at, times the least value that agrees.
const OPEN: f64 = 4.0;
/// And that of a queue at so many times what the path holds, if that is more.
const OPEN_QUEUE: f64 = 2.0;
/// And that of losses by chance at this share, between which and so small a part of it they lie.
const OPEN_LOSS: f64 = 0.01;
const OPEN_LOSS_PART: f64 = 1.0 / 64.0;
/// Intervals narrower than this change nothing that is worth a simulation.
const NARROW: f64 = 0.02;

impl Path {
    /// Nothing that limits it was seen.
    pub fn is_open(&self) -> bool {
        self.rate.high.is_none() && self.policer.is_none()
    }
}

impl Model {
    /// Whether chance has a part in what happens on it.
    pub fn is_random(&self) -> bool {
        self.path.loss.value > 0.0 || self.path.ack_loss.value > 0.0
    }

    /// What it has that the other one has not, as the subject of a sentence.
    pub(crate) fn apart_from(&self, other: &Model) -> &'static str {
        match (self.path.policer.is_some(), other.path.policer.is_some()) {
            (true, false) => "With a policer the same",
            (false, true) => "Without a policer the same",
            _ if self.sender.device != other.sender.device => {
                "With a slow device of this machine the same"
            }
            _ if self.receiver.window != other.receiver.window => {
                "With a receive buffer that does not grow the same"
            }
            _ if self.path.queue != other.path.queue => "With a queue that was full the same",
            _ if self.sender.pacing != other.sender.pacing => "With SO_MAX_PACING_RATE the same",
            _ => "With another program the same",
        }
    }

    /// Every number with an interval: name, unit, what it is multiplied by to be in that unit.
    pub fn parameters(&self) -> Vec<(&'static str, &'static str, f64, &Parameter)> {
        let path = &self.path;
        let mut all = vec![("round trip", "ms", 1e3, &path.rtt_s)];
        if let Some(policer) = &path.policer {
            all.push(("policed rate", "Mbit/s", 8e-6, &policer.rate));
            all.push(("burst", "kB", 1e-3, &policer.burst));
        } else {
            all.push(("rate", "Mbit/s", 8e-6, &path.rate));
            all.push(("queue", "packets", 1.0, &path.queue));
        }
        all.push(("loss", "%", 100.0, &path.loss));
        all.push(("loss of ACKs", "%", 100.0, &path.ack_loss));
        all.extend(self.sender.device.as_ref().map(|it| ("device", "Mbit/s", 8e-6, it)));
        all.extend(self.receiver.window.as_ref().map(|it| ("receiver's window", "kB", 1e-3, it)));
        all.extend(self.receiver.reads.as_ref().map(|it| ("receiver reads", "Mbit/s", 8e-6, it)));
        all
    }

    fn parameters_mut(&mut self) -> Vec<&mut Parameter> {
        let path = &mut self.path;
        let mut all = vec![&mut path.rtt_s, &mut path.rate, &mut path.queue, &mut path.loss];
        all.push(&mut path.ack_loss);
        all.extend(path.policer.iter_mut().flat_map(|it| [&mut it.rate, &mut it.burst]));
        all.extend(&mut self.sender.device);
        all.extend(&mut self.receiver.window);
        all.extend(&mut self.receiver.reads);
        all
    }

    /// One of the models that agree with the trace: the best for 0, then others within the
    /// intervals, spread evenly.
    pub fn variant(&self, number: u32) -> Model {
        let mut model = self.clone();
        if number == 0 {
            return model;
        }
        // A queue that was never full may hold as much as the path, twice.
        let content = OPEN_QUEUE * self.path.rate.value * self.path.rtt_s.value / self.packet;
        if model.path.queue.high.is_none() {
            let queue = &mut model.path.queue;
            queue.high = Some(content.max(OPEN * queue.value));
            // And no more than what was seen to wait in it.
            queue.value = queue.value.min(OPEN * queue.low.max(1.0));
        }
        if model.path.loss.high.is_none() {
            let most = OPEN_LOSS.max(self.path.loss.value);
            let loss = &mut model.path.loss;
            // Above 0, so that it is spread like the others.
            (loss.low, loss.high) = (most * OPEN_LOSS_PART, Some(most));
            loss.value = loss.value.max(loss.low);
        }
        for (i, parameter) in model.parameters_mut().into_iter().enumerate() {
            let high = parameter.high.unwrap_or(OPEN * parameter.value.max(parameter.low));
            if high - parameter.low <= NARROW * parameter.value || parameter.value == 0.0 {
                continue;
            }
            // Multiples of the square roots of primes: every pair of parameters is spread evenly.
            let root = [2.0_f64, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0, 23.0, 29.0][i % 10].sqrt();
            let place = (f64::from(number) * root).fract();
            let low = parameter.low.max(parameter.value / OPEN);
            parameter.value = low * (high / low).powf(place);
        }
        model
    }

    /// Whether every variant is the same.
    pub fn is_certain(&self) -> bool {
        self.variant(1) == *self
    }
}

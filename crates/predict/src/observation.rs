//! What left and what came back, segment by segment: what a path is fitted to.

use transom_analysis::{Connection, Mark, Step, steps};
use transom_event::{CaState, Kind, Origin, RetransmitReason, Sack, State, TcpState, fields};

/// Bytes that IPv4 and IPv6 take in front of TCP's own header.
const IP_HEADER: [u32; 2] = [20, 40];
/// TCP's header, and its timestamps (RFC 7323), which Linux sends unless they are turned off.
const TCP_HEADER: u32 = 20;
const TIMESTAMPS: u32 = 12;
/// Sizes of packets that links have; they tell whether a segment had room for timestamps.
const USUAL_MTU: [u32; 7] = [1500, 9000, 1280, 1492, 1480, 1420, 65_536];

/// A segment of data that left for the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// After the connection's first event, s.
    pub at_s: f64,
    /// Of the IP packet.
    pub bytes: f64,
    /// Unwrapped sequence number behind it.
    pub end: u64,
    /// Not for the first time.
    pub again: bool,
    /// It did not arrive, as far as the sender learned.
    pub lost: bool,
}

/// The round trip of a segment that left once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// Index of its departure.
    pub of: usize,
    pub seconds: f64,
    /// Segments that were acknowledged at once, this one included.
    pub segments: u32,
}

/// A connection as its sender saw it.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// In the order of time.
    pub departures: Vec<Departure>,
    /// In the order in which the acknowledgements came.
    pub round_trips: Vec<RoundTrip>,
    /// Length of the recording of it, s.
    pub seconds: f64,
    /// The round trip of the handshake, s, where it was seen: of packets that are next to nothing.
    pub handshake_s: Option<f64>,
    /// The least round trip that the kernel knew, s.
    pub least_s: Option<f64>,
    /// Payload of a full segment, and the headers of its packet, bytes.
    pub mss: u32,
    pub headers: u32,
    /// Retransmissions of what had arrived (D-SACK).
    pub needless: u64,
    /// ACKs that acknowledged new data out of recovery, and the segments that they did.
    pub acks: u64,
    pub acked_segments: u64,
}

impl Observation {
    pub fn of(connection: &Connection) -> Observation {
        Watcher::new(connection).watch(connection)
    }

    /// Bytes of a full packet.
    pub fn packet(&self) -> f64 {
        f64::from(self.mss + self.headers)
    }

    pub fn lost(&self) -> usize {
        self.departures.iter().filter(|it| it.lost).count()
    }
}

fn headers(mss: u32, ipv6: bool) -> u32 {
    let least = IP_HEADER[usize::from(ipv6)] + TCP_HEADER;
    let without = USUAL_MTU.contains(&(mss + least));
    if without { least } else { least + TIMESTAMPS }
}

fn seconds_of(us: u32) -> f64 {
    f64::from(us) / 1e6
}

/// What the kernel had measured before any data left.
fn handshake(connection: &Connection) -> Option<f64> {
    connection.origin.filter(|origin| *origin != Origin::Existing)?;
    let established = |state: &&State| state.tcp() == Some(TcpState::Established);
    let first = connection.points.iter().map(|point| &point.state).find(established)?;
    first.min_rtt().filter(|&us| us > 0).map(seconds_of)
}

/// A segment since it left for the first time.
#[derive(Clone, Copy)]
struct Segment {
    start: u64,
    end: u64,
    /// Index of its last departure.
    departure: usize,
    again: bool,
    arrived: bool,
}

struct Watcher {
    seen: Observation,
    first_ns: u64,
    acks_end_ns: u64,
    segments: Vec<Segment>,
    /// All before it were acknowledged cumulatively.
    next: usize,
    sent: u64,
}

impl Watcher {
    fn new(connection: &Connection) -> Watcher {
        let states = || connection.points.iter().map(|point| &point.state);
        let mss = states().map(|state| u32::from(state.mss)).max().unwrap_or(0);
        let ipv6 = connection.endpoints().is_some_and(|ends| ends.local.is_ipv6());
        let seen = Observation {
            seconds: connection.last_ns.saturating_sub(connection.first_ns) as f64 / 1e9,
            mss,
            headers: headers(mss, ipv6),
            handshake_s: handshake(connection),
            least_s: states().filter_map(State::min_rtt).filter(|&us| us > 0).min().map(seconds_of),
            ..Observation::default()
        };
        Watcher {
            seen,
            first_ns: connection.first_ns,
            acks_end_ns: connection.acks_end_ns().unwrap_or(u64::MAX),
            segments: Vec::new(),
            next: 0,
            sent: 0,
        }
    }

    fn watch(mut self, connection: &Connection) -> Observation {
        let steps = steps(connection);
        let mut sacks = connection.marks.iter().filter(|mark| mark.sack().is_some()).peekable();
        let mut acked = 0;
        for step in &steps {
            while let Some(mark) = sacks.next_if(|mark| mark.time_ns <= step.time_ns()) {
                self.selectively_acknowledged(mark, acked);
            }
            acked = self.step(step);
        }
        if self.acks_end_ns == u64::MAX {
            self.unanswered();
        }
        self.seen
    }

    /// Retransmissions that nothing answered until the end.
    fn unanswered(&mut self) {
        let open = |segment: &&Segment| segment.again && !segment.arrived;
        for segment in self.segments[self.next..].iter().filter(open) {
            self.seen.departures[segment.departure].lost = true;
        }
    }

    fn seconds(&self, time_ns: u64) -> f64 {
        time_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    /// Follows it; what is acknowledged after it.
    fn step(&mut self, step: &Step) -> u64 {
        if step.sent > self.sent {
            self.left(step);
        }
        match step.kind() {
            Kind::Retransmit => self.left_again(step),
            Kind::Ack => self.acknowledged(step),
            // When this side has closed, ACKs are no events; what they let out shows when they came.
            Kind::Send if step.time_ns() > self.acks_end_ns => self.acknowledged(step),
            _ => {}
        }
        step.acked
    }

    fn left(&mut self, step: &Step) {
        let mss = u64::from(step.state().mss).max(1);
        let at_s = self.seconds(step.time_ns());
        while self.sent < step.sent {
            let end = (self.sent + mss).min(step.sent);
            let bytes = (end - self.sent) as f64 + f64::from(self.seen.headers);
            let departure = self.seen.departures.len();
            self.seen.departures.push(Departure { at_s, bytes, end, again: false, lost: false });
            let segment =
                Segment { start: self.sent, end, departure, again: false, arrived: false };
            self.segments.push(segment);
            self.sent = end;
        }
    }

    fn left_again(&mut self, step: &Step) {
        let (reason, count) = fields::retransmit(step.point.aux);
        let ahead = fields::retransmitted_seq(step.point.aux).wrapping_sub(step.state().snd_una);
        if reason == Some(RetransmitReason::Syn) || ahead >= 1 << 31 {
            return;
        }
        let start = step.acked.saturating_add(u64::from(ahead));
        let first = self.segments.partition_point(|segment| segment.end <= start);
        let at_s = self.seconds(step.time_ns());
        for at in first..(first + count.max(1) as usize).min(self.segments.len()) {
            let segment = &mut self.segments[at];
            self.seen.departures[segment.departure].lost = true;
            let bytes = (segment.end - segment.start) as f64 + f64::from(self.seen.headers);
            segment.departure = self.seen.departures.len();
            segment.again = true;
            let end = segment.end;
            self.seen.departures.push(Departure { at_s, bytes, end, again: true, lost: false });
        }
    }

    fn acknowledged(&mut self, step: &Step) {
        let from = self.next;
        let (mut newly, mut last, mut repaired) = (0, None, false);
        while self.next < self.segments.len() && self.segments[self.next].end <= step.acked {
            let segment = &mut self.segments[self.next];
            repaired |= segment.again;
            if !segment.arrived {
                segment.arrived = true;
                newly += 1;
                last = Some(self.next);
            }
            self.next += 1;
        }
        let open = step.ca() == Some(CaState::Open);
        if open && newly > 0 && newly as usize == self.next - from {
            self.seen.acks += 1;
            self.seen.acked_segments += u64::from(newly);
        }
        // Behind a repaired loss, what is acknowledged at once may have arrived long before.
        self.round_trip(last.filter(|_| !repaired), newly, step.time_ns());
    }

    fn round_trip(&mut self, last: Option<usize>, segments: u32, time_ns: u64) {
        let Some(segment) = last.map(|at| self.segments[at]).filter(|it| !it.again) else { return };
        let left = self.seen.departures[segment.departure].at_s;
        let seconds = self.seconds(time_ns) - left;
        self.seen.round_trips.push(RoundTrip { of: segment.departure, seconds, segments });
    }

    fn selectively_acknowledged(&mut self, mark: &Mark, acked: u64) {
        let Some(sack) = mark.sack() else { return };
        let mut best: Option<usize> = None;
        let mut newly = 0;
        for (i, block) in sack.blocks.iter().take(fields::sack_blocks(mark.aux)).enumerate() {
            if i == 0 && fields::is_d_sack(mark.aux) {
                self.arrived_twice(block, sack, acked);
                continue;
            }
            let [Some(start), Some(end)] = block.map(|edge| unwrapped(edge, sack, acked)) else {
                continue;
            };
            let first = self.segments.partition_point(|segment| segment.start < start);
            for at in first..self.segments.len() {
                let segment = &mut self.segments[at];
                if segment.end > end {
                    break;
                }
                if !segment.arrived {
                    segment.arrived = true;
                    newly += 1;
                    best = best.max(Some(at));
                }
            }
        }
        self.round_trip(best, newly, mark.time_ns);
    }

    /// Neither of its last two departures was lost.
    fn arrived_twice(&mut self, block: &[u32; 2], sack: &Sack, acked: u64) {
        let Some(start) = unwrapped(block[0], sack, acked) else { return };
        let at = self.segments.partition_point(|segment| segment.end <= start);
        let Some(segment) = self.segments.get(at).filter(|segment| segment.again) else { return };
        let before = &mut self.seen.departures[..segment.departure];
        if let Some(first) = before.iter_mut().rev().find(|it| it.end == segment.end) {
            self.seen.needless += u64::from(first.lost);
            first.lost = false;
        }
    }
}

/// Counted as [`Step::acked`] counts, which stood at the `snd_una` that the blocks met.
fn unwrapped(edge: u32, sack: &Sack, acked: u64) -> Option<u64> {
    let ahead = edge.wrapping_sub(sack.snd_una) as i32;
    acked.checked_add_signed(i64::from(ahead))
}

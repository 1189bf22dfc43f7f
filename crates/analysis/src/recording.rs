//! Events sorted by connection: what every analysis and picture starts from.

use std::collections::HashMap;

use transom_event::{
    Body, Endpoints, Event, Kind, LossCause, Open, Origin, Place, Sack, State, TcpState, Token,
    fields,
};

use crate::track::Step;

/// The state of a connection at one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub time_ns: u64,
    pub kind: Kind,
    pub place: Place,
    pub aux: [u32; 2],
    pub state: State,
}

/// An event that is no state change of the normal run: what a picture marks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    pub time_ns: u64,
    pub kind: Kind,
    pub place: Place,
    pub aux: [u32; 2],
    pub body: Body,
}

impl Mark {
    /// The SACK blocks of a [`Kind::Sack`].
    pub fn sack(&self) -> Option<&Sack> {
        match &self.body {
            Body::Sack(sack) => Some(sack),
            _ => None,
        }
    }

    /// Whether something went wrong here, on the path, the device or the other side.
    pub fn is_error(&self) -> bool {
        matches!(
            self.kind,
            Kind::Retransmit
                | Kind::DupAck
                | Kind::Sack
                | Kind::Rto
                | Kind::LocalCongestion
                | Kind::Reset
                | Kind::ZeroWindow
        )
    }
}

/// All that was seen of one connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Its socket's, or another number where that socket had a connection before: see [`again`].
    pub cookie: u64,
    /// Its addresses and program; missing when the trace was cut before its `open`.
    pub open: Option<Open>,
    pub origin: Option<Origin>,
    /// Shift counts of the windows that the other side offers and of those offered here (RFC 7323).
    pub window_scaling: Option<[u32; 2]>,
    /// Bytes that passed before its first event, where that is of its beginning: sent and acknowledged by
    /// the side that connects, received by the other one.
    pub early_bytes: u32,
    /// Process that touched it last; 0 = not known.
    pub tgid: u32,
    /// Time of the first and the last event, ns.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Whether its end was seen.
    pub closed: bool,
    /// Number of events of all kinds.
    pub events: u64,
    /// Every event that carries state, in the order of time.
    pub points: Vec<Point>,
    /// Every event but `ack`, `send` and `sample`, in the order of time.
    pub marks: Vec<Mark>,
}

impl Connection {
    pub fn endpoints(&self) -> Option<Endpoints> {
        self.open.as_ref().map(Open::endpoints)
    }

    /// The congestion control algorithm last seen.
    pub fn algorithm(&self) -> String {
        self.open.as_ref().map(Open::algorithm).unwrap_or_default()
    }

    pub fn program(&self) -> String {
        self.open.as_ref().map(Open::program).unwrap_or_default()
    }

    /// The Multipath TCP connection that it is a subflow of.
    pub fn mptcp(&self) -> Option<Token> {
        self.open.as_ref().and_then(Open::mptcp)
    }

    /// When it began: with its first event, but for a first SYN that was lost. Nothing is recorded
    /// before the timer of that one expires, which is as long before as the timer runs.
    pub fn begun_ns(&self) -> u64 {
        let lost_syn = self.points.first().filter(|point| {
            let is_its_timeout = match point.kind {
                Kind::Rto => fields::in_a_row(point.aux) <= 1,
                kind => kind == Kind::Retransmit && point.state.backoff == 0,
            };
            is_its_timeout && point.state.tcp() == Some(TcpState::SynSent)
        });
        let since_ns = |syn: &Point| u64::from(syn.state.rto_us) * 1000;
        let is_seen_whole = self.origin == Some(Origin::Connect);
        let lost_syn = lost_syn.filter(|_| is_seen_whole);
        let sent_ns = lost_syn.map(|syn| syn.time_ns.saturating_sub(since_ns(syn)));
        sent_ns.map_or(self.first_ns, |sent_ns| sent_ns.min(self.first_ns))
    }

    /// Where the kinds of event end that exist only in ESTABLISHED: `ack`, `dup_ack`, `sack` and
    /// received `zero_window`. The connection lives on, and what arrives is not seen.
    pub fn acks_end_ns(&self) -> Option<u64> {
        let leaves = |mark: &&Mark| {
            let [_, new] = fields::tcp_states(mark.aux);
            mark.kind == Kind::State
                && !matches!(new, None | Some(TcpState::Established | TcpState::SynRecv))
        };
        self.marks.iter().find(leaves).map(|mark| mark.time_ns)
    }

    /// Those of its steps up to there.
    pub fn while_acks_are_seen<'a, 'b>(&self, steps: &'a [Step<'b>]) -> &'a [Step<'b>] {
        let end_ns = self.acks_end_ns().unwrap_or(u64::MAX);
        &steps[..steps.partition_point(|step| step.time_ns() < end_ns)]
    }

    pub fn count(&self, kind: Kind) -> u64 {
        self.marks.iter().filter(|mark| mark.kind == kind).count() as u64
    }

    /// The marks with `from_ns <= time_ns <= to_ns`.
    pub fn marks_between(&self, from_ns: u64, to_ns: u64) -> &[Mark] {
        let from = self.marks.partition_point(|mark| mark.time_ns < from_ns);
        let length = self.marks[from..].partition_point(|mark| mark.time_ns <= to_ns);
        &self.marks[from..from + length]
    }

    /// What an event says of the connection as a whole; the event itself is not kept.
    pub(crate) fn learn(&mut self, event: &Event) {
        self.events += 1;
        self.first_ns = self.first_ns.min(event.time_ns);
        self.last_ns = self.last_ns.max(event.time_ns);
        if event.tgid != 0 {
            self.tgid = event.tgid;
        }
        if let Body::Open(open) = event.body {
            self.open = Some(open);
            if event.kind == Kind::Open {
                self.origin = fields::origin(event.aux);
                self.window_scaling = fields::window_scaling(event.aux);
                self.early_bytes = fields::early_bytes(event.aux);
            }
        }
        self.closed |= event.kind == Kind::Close;
    }

    fn push(&mut self, event: &Event) {
        self.learn(event);
        let Event { time_ns, kind, place, aux, body, .. } = *event;
        if let Body::State(state) = body {
            self.points.push(Point { time_ns, kind, place, aux, state });
        }
        if !matches!(kind, Kind::Ack | Kind::Send | Kind::Sample) {
            self.marks.push(Mark { time_ns, kind, place, aux, body });
        }
    }
}

/// What a connection is called whose socket had others before it, so many. The kernel counts cookies
/// from both ends of the numbers on, and comes to none of these.
fn again(cookie: u64, before: u64) -> u64 {
    cookie ^ before << 40
}

/// Which connection an event is of: a socket may connect again, after an attempt that failed or when it
/// was disconnected. Its sequence numbers have nothing to do with those of before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sockets {
    /// Of those that have closed once: how many connections they had before, and whether the last one
    /// is closed, too.
    closed: HashMap<u64, (u64, bool)>,
}

impl Sockets {
    /// The number of the connection; all events are told, in their order.
    pub fn connection_of(&mut self, event: &Event) -> u64 {
        let cookie = event.cookie;
        if event.kind == Kind::Close {
            self.closed.entry(cookie).or_default().1 = true;
        }
        let Some((before, is_closed)) = self.closed.get_mut(&cookie) else { return cookie };
        if event.kind == Kind::Open && *is_closed {
            (*before, *is_closed) = (*before + 1, false);
        }
        again(cookie, *before)
    }

    /// The number of the last connection that this socket had.
    fn last_of(&self, cookie: u64) -> u64 {
        again(cookie, self.closed.get(&cookie).map_or(0, |(before, _)| *before))
    }
}

/// A whole trace, sorted by connection.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// When the first connection began, or the first event was, and time of the last event, ns of
    /// CLOCK_BOOTTIME.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Where it was cut, see [`Recording::between`].
    pub from_ns: Option<u64>,
    pub events: u64,
    /// In the order of their first event.
    pub connections: Vec<Connection>,
    /// Events that could not be recorded: when, why, how many; in the order of time.
    pub lost: Vec<(u64, LossCause, u32)>,
    /// Whether the file ended in the middle of the recording; the reader of the file sets it.
    pub cut: bool,
    /// How far apart two `ack` of a connection are at least, because those between are left out
    /// (`--rate`), ns; the reader of the file sets it.
    pub told_apart_ns: u64,
    index: HashMap<u64, usize>,
    sockets: Sockets,
    has_begun: bool,
}

impl Recording {
    /// An event of a connection that is not kept: the recording was under way then, too.
    pub fn pass(&mut self, event: &Event) {
        self.cover(event);
        self.sockets.connection_of(event);
    }

    fn cover(&mut self, event: &Event) {
        if !self.has_begun {
            self.has_begun = true;
            self.start_ns = event.time_ns;
        }
        self.start_ns = self.start_ns.min(event.time_ns);
        self.end_ns = self.end_ns.max(event.time_ns);
    }

    pub fn push(&mut self, event: &Event) {
        self.cover(event);
        self.events += 1;
        if event.kind == Kind::Lost {
            if let (Some(cause), count) = fields::lost(event.aux) {
                let at = self.lost.partition_point(|&(time_ns, ..)| time_ns <= event.time_ns);
                self.lost.insert(at, (event.time_ns, cause, count));
            }
            return;
        }
        let at = self.place_of(event);
        self.connections[at].push(event);
        self.start_ns = self.start_ns.min(self.connections[at].begun_ns());
    }

    /// Where the connection of this event is.
    fn place_of(&mut self, event: &Event) -> usize {
        let cookie = self.sockets.connection_of(event);
        *self.index.entry(cookie).or_insert_with(|| {
            let first_ns = event.time_ns;
            self.connections.push(Connection { cookie, first_ns, ..Connection::default() });
            self.connections.len() - 1
        })
    }

    pub fn connection(&self, cookie: u64) -> Option<&Connection> {
        self.index.get(&cookie).map(|&at| &self.connections[at])
    }

    /// The connections that the socket of this cookie had, one after the other.
    pub fn connections_of(&self, cookie: u64) -> impl Iterator<Item = &Connection> {
        (0..).map_while(move |before| self.connection(again(cookie, before)))
    }

    /// The last of them: what an event that was just taken is of.
    pub fn last_of(&self, cookie: u64) -> Option<&Connection> {
        self.connection(self.sockets.last_of(cookie))
    }

    /// Leaves out the others.
    pub fn keep(&mut self, is_kept: impl Fn(&Connection) -> bool) {
        self.connections.retain(is_kept);
        self.events = self.connections.iter().map(|connection| connection.events).sum();
        self.reindex();
    }

    /// From the first to the last moment that is looked at.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.from_ns.unwrap_or(self.start_ns))
    }

    pub(crate) fn reindex(&mut self) {
        let places = self.connections.iter().enumerate().map(|(at, c)| (c.cookie, at));
        self.index = places.collect();
    }

    /// How many events could not be recorded.
    pub fn lost_events(&self) -> u64 {
        self.lost_by(|cause| !cause.counts_segments())
    }

    /// How many segments left without an event (limits.md).
    pub fn unseen_segments(&self) -> u64 {
        self.lost_by(LossCause::counts_segments)
    }

    fn lost_by(&self, is_meant: impl Fn(LossCause) -> bool) -> u64 {
        let meant = self.lost.iter().filter(|lost| is_meant(lost.1));
        meant.map(|&(_, _, n)| u64::from(n)).sum()
    }
}

impl<'a> FromIterator<&'a Event> for Recording {
    fn from_iter<I: IntoIterator<Item = &'a Event>>(events: I) -> Recording {
        let mut recording = Recording::default();
        for event in events {
            recording.push(event);
        }
        recording
    }
}

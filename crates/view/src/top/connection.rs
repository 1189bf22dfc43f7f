//! One connection as the table knows it: the last state, counts, rates and a short history.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use transom_analysis::{Identified, Identity, Limit, Live, is_timeout};
use transom_event::{
    Body, CaState, Endpoints, Event, Kind, Names, Open, Place, Sack, State, TcpState, Token,
    fields, text,
};

use super::history::{History, SLOT_NS, Tick, slot_number};
use super::recent::Recent;

/// Events listed in the detail view.
const MARKS: usize = 20;

/// Slots before the running one over which rates are taken: one second.
const RATE_SLOTS: u32 = 4;

const SECOND_NS: u64 = 1_000_000_000;

/// An event worth listing.
#[derive(Clone, Debug)]
pub struct Mark {
    pub time_ns: u64,
    pub kind: Kind,
    pub place: Place,
    pub aux: [u32; 2],
    /// Segments, at that moment.
    pub cwnd: u32,
    who: Option<Box<Open>>,
}

impl Mark {
    /// The event in one line: seconds since `start_ns`, kind, details, cwnd, kernel function.
    pub fn line(&self, start_ns: u64) -> String {
        let body = self.who.as_ref().map_or(Body::None, |open| Body::Open(**open));
        let Mark { time_ns, kind, place, aux, .. } = *self;
        let event = Event { time_ns, cookie: 0, tgid: 0, cpu: 0, kind, place, aux, body };
        let line = text::human(&event, None, start_ns);
        match (line.rsplit_once(" @"), self.cwnd) {
            (Some((what, place)), cwnd) if cwnd > 0 => format!("{what} cwnd={cwnd} @{place}"),
            _ => line,
        }
    }
}

/// How often each thing happened since the connection came into view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Segments.
    pub retransmitted: u64,
    pub rtos: u64,
    pub dup_acks: u64,
    pub sacks: u64,
    pub local_congestion: u64,
    pub zero_windows: u64,
    pub resets: u64,
}

/// All that is kept of one connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    pub cookie: u64,
    /// Process that touched it last; 0 = not known.
    pub tgid: u32,
    pub open: Option<Open>,
    /// Of the program; empty while it is not known.
    name: String,
    pub first_ns: u64,
    pub last_ns: u64,
    pub closed_ns: Option<u64>,
    /// The last state told, if any event has told one.
    pub state: Option<State>,
    /// Whether it is polled (sock_diag), not traced.
    pub sampled: bool,
    pub counts: Counts,
    /// Bytes and limits, by the rules of the analysis.
    pub live: Live,
    recent: Recent,
    pub history: History,
    pub marks: VecDeque<Mark>,
    /// Last change of the congestion control, of the clamp, and last action of Transom itself.
    pub last_algorithm: Option<Mark>,
    pub last_clamp: Option<Mark>,
    pub last_action: Option<Mark>,
    names: Arc<Names>,
}

/// Whether a connection has ended with this event.
pub fn closes(event: &Event) -> bool {
    let ends = || fields::tcp_states(event.aux)[1] == Some(TcpState::Close);
    event.kind == Kind::Close || event.kind == Kind::State && ends()
}

impl Connection {
    pub fn new(cookie: u64, first_ns: u64, names: Arc<Names>) -> Connection {
        Connection { cookie, first_ns, last_ns: first_ns, names, ..Connection::default() }
    }

    pub fn push(&mut self, event: &Event) {
        let time_ns = event.time_ns;
        self.counts.events += 1;
        if event.tgid != 0 {
            self.tgid = event.tgid;
        }
        match &event.body {
            Body::State(state) => self.told(event, state),
            Body::Open(open) => self.is(open),
            Body::Sack(sack) => self.sacked(sack, time_ns),
            Body::None => {}
        }
        self.last_ns = self.last_ns.max(time_ns);
        if !matches!(event.kind, Kind::Ack | Kind::Send | Kind::Sample) {
            self.happened(event);
        }
    }

    /// Who it is.
    pub fn is(&mut self, open: &Open) {
        self.open = Some(*open);
        self.name = open.program();
    }

    fn told(&mut self, event: &Event, state: &State) {
        let time_ns = event.time_ns;
        if let Some(gained) = self.live.push(event) {
            let (up, down) = (gained.acked, gained.received);
            self.sampled = event.kind == Kind::Sample;
            if self.sampled {
                self.history.carried_since(self.last_ns, time_ns, up, down);
            } else if up + down > 0 {
                self.history.carried(time_ns, up, down);
            }
            if let Some(span) = gained.span {
                self.recent.add(span);
            }
        }
        if state.cwnd != 0 {
            self.history.cwnd(time_ns, state.cwnd);
        }
        self.state = Some(*state);
    }

    fn sacked(&mut self, sack: &Sack, time_ns: u64) {
        let state = self.state.get_or_insert_default();
        state.cwnd = sack.cwnd;
        state.ssthresh = sack.ssthresh;
        state.packets_out = sack.packets_out;
        state.sacked_out = sack.sacked_out;
        state.lost_out = sack.lost_out;
        state.retrans_out = sack.retrans_out;
        state.ca_state = sack.ca_state;
        state.tcp_state = sack.tcp_state;
        if sack.cwnd != 0 {
            self.history.cwnd(time_ns, sack.cwnd);
        }
    }

    /// Counts an event that is not of the normal run, and lists it.
    fn happened(&mut self, event: &Event) {
        let Event { time_ns, kind, place, aux, .. } = *event;
        match kind {
            _ if closes(event) => self.closed_ns = Some(time_ns),
            Kind::Retransmit => {
                let segments = event.retransmit().1.max(1);
                self.counts.retransmitted += u64::from(segments);
                self.history.retransmitted(time_ns, segments);
                self.history.tick(time_ns, Tick::Retransmission);
            }
            Kind::Rto if is_timeout(aux) => {
                self.counts.rtos += 1;
                self.history.tick(time_ns, Tick::Timeout);
            }
            Kind::LocalCongestion => {
                self.counts.local_congestion += 1;
                self.history.tick(time_ns, Tick::LocalCongestion);
            }
            Kind::DupAck => self.counts.dup_acks += 1,
            Kind::Sack => self.counts.sacks += 1,
            Kind::ZeroWindow => self.counts.zero_windows += 1,
            Kind::Reset => self.counts.resets += 1,
            _ => {}
        }
        // These two come with every ACK of a recovery and would push out all else.
        if matches!(kind, Kind::DupAck | Kind::Sack) {
            return;
        }
        let who = matches!(kind, Kind::Open | Kind::Algorithm | Kind::Owner)
            .then(|| event.open().copied().map(Box::new))
            .flatten();
        let cwnd = self.state.map_or(0, |state| state.cwnd);
        let mark = Mark { time_ns, kind, place, aux, cwnd, who };
        match kind {
            Kind::Algorithm => self.last_algorithm = Some(mark.clone()),
            Kind::Clamp => self.last_clamp = Some(mark.clone()),
            Kind::Action => self.last_action = Some(mark.clone()),
            _ => {}
        }
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    pub fn endpoints(&self) -> Option<Endpoints> {
        self.open.as_ref().map(Open::endpoints)
    }

    /// One of its ends, for people.
    pub fn called(&self, end: SocketAddr) -> String {
        self.names.end(end)
    }

    /// The names that its ends have, for a filter: `server.example:https`, `10.0.0.1:https`.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let ends = self.endpoints().map(|ends| [ends.local, ends.remote]);
        let is_named = |end: &SocketAddr| {
            self.names.host(end.ip()).is_some() || self.names.service(end.port()).is_some()
        };
        ends.into_iter().flatten().filter(is_named).map(|end| self.names.end(end))
    }

    /// Name of the owner; `?` while it is not known.
    pub fn program(&self) -> String {
        self.open.as_ref().map(Open::program).filter(|p| !p.is_empty()).unwrap_or("?".into())
    }

    pub fn algorithm(&self) -> String {
        self.open.as_ref().map(Open::algorithm).filter(|a| !a.is_empty()).unwrap_or("?".into())
    }

    /// The Multipath TCP connection that it is a subflow of.
    pub fn mptcp(&self) -> Option<Token> {
        self.open.as_ref().and_then(Open::mptcp)
    }

    pub fn tcp(&self) -> Option<TcpState> {
        if self.closed_ns.is_some() { Some(TcpState::Close) } else { self.state?.tcp() }
    }

    pub fn ca(&self) -> Option<CaState> {
        self.state?.ca()
    }

    /// Bytes/s up and down over the last second (up to 1.25 s: whole slots and the running one).
    pub fn rates(&self, now_ns: u64) -> (f64, f64) {
        // Between two polls nothing is known: the rate of the last one stands.
        let waits = self.sampled && now_ns.saturating_sub(self.last_ns) < 2 * SECOND_NS;
        let end_ns = if waits { self.last_ns } else { now_ns };
        let end = slot_number(end_ns);
        let first = end.saturating_sub(RATE_SLOTS);
        let from_ns = (u64::from(first) * SLOT_NS).max(self.first_ns);
        let seconds = end_ns.saturating_sub(from_ns).max(SLOT_NS / 2) as f64 / 1e9;
        let (up, down) = self
            .history
            .between(first, end)
            .fold((0, 0), |(up, down), s| (up + u64::from(s.up), down + u64::from(s.down)));
        (up as f64 / seconds, down as f64 / seconds)
    }

    /// Segments retransmitted within the last second.
    pub fn retransmitted_lately(&self, now_ns: u64) -> u64 {
        let end = slot_number(now_ns);
        let slots = self.history.between(end.saturating_sub(RATE_SLOTS), end);
        slots.map(|slot| u64::from(slot.retransmitted)).sum()
    }

    /// The last one to two seconds, with what it has been waiting for since the last event that is
    /// judged.
    pub fn recent(&self, now_ns: u64) -> Recent {
        let mut recent = self.recent;
        let open = [self.live.waited(), self.live.waiting(now_ns)];
        open.into_iter().flatten().for_each(|span| recent.add(span));
        recent
    }

    /// What held it back for most of the last one to two seconds; `None` when it is closed or
    /// nothing is known yet.
    pub fn limit(&self, now_ns: u64) -> Option<Limit> {
        if self.closed_ns.is_some() {
            return None;
        }
        let now = || self.live.waiting(now_ns).map(|span| span.limit);
        self.recent(now_ns).prevailing().or_else(now)
    }
}

impl Identified for Connection {
    fn identity(&self) -> Identity<'_> {
        Identity {
            cookie: self.cookie,
            tgid: self.tgid,
            program: &self.name,
            ends: self.endpoints(),
            mptcp: self.mptcp(),
        }
    }
}

//! All connections in view, bounded in number and memory. Pure: the clock comes from `tick`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use transom_event::{Event, Kind, LossCause, Names, Place, fields};

use super::absent::Absent;
use super::connection::{Connection, closes};
use super::history::SLOTS;

const SECOND_NS: u64 = 1_000_000_000;

/// A closed connection stays in view this long.
pub const FADE_NS: u64 = 5 * SECOND_NS;

/// A polled connection that no poll has found for this long is gone.
const UNSEEN_NS: u64 = 10 * SECOND_NS;

/// A polled connection takes the place of another when it carries so many times as much: a small
/// difference is not worth a history.
const MUCH: f64 = 2.0;

/// Connections kept by default.
pub const MOST_CONNECTIONS: usize = 20_000;

/// Slots of history that all connections share: with many connections each one's is shorter.
const SHARED_SLOTS: usize = 1_200_000;
const FEWEST_SLOTS: usize = 40;

/// What the screen shows, fed by events and by a clock.
#[derive(Clone, Debug)]
pub struct Model {
    connections: HashMap<u64, Box<Connection>>,
    now_ns: u64,
    most: usize,
    absent: Absent,
    events: u64,
    /// (time, events until then), one per tick of the last second or so.
    ticks: VecDeque<(u64, u64)>,
    lost: Vec<(LossCause, u64)>,
    names: Arc<Names>,
}

impl Default for Model {
    fn default() -> Model {
        Model::new(MOST_CONNECTIONS)
    }
}

impl Model {
    /// A model of at most `most` connections (at least one).
    pub fn new(most: usize) -> Model {
        Model {
            connections: HashMap::new(),
            now_ns: 0,
            most: most.max(1),
            absent: Absent::default(),
            events: 0,
            ticks: VecDeque::new(),
            lost: Vec::new(),
            names: Arc::default(),
        }
    }

    /// With names for the addresses and ports of the connections that come.
    pub fn named(self, names: Names) -> Model {
        Model { names: names.into(), ..self }
    }

    pub fn push(&mut self, event: &Event) {
        self.events += 1;
        if event.kind == Kind::Lost {
            return self.push_lost(event);
        }
        if let Some(connection) = self.connections.get_mut(&event.cookie) {
            // The socket connects again: what closed was another connection.
            if event.kind == Kind::Open && connection.closed_ns.is_some() {
                **connection = Connection::new(event.cookie, event.time_ns, self.names.clone());
            }
            return connection.push(event);
        }
        // The reset that a close sends comes after it.
        if closes(event) || event.kind == Kind::Reset {
            self.absent.take(event.cookie);
            return;
        }
        let is_full = self.connections.len() >= self.most;
        // A poll tells of each in turn: the longest without an event is the next to be told of.
        if is_full && event.place == Place::SockDiag {
            return self.absent.polled(event);
        }
        if is_full {
            self.drop_least_active();
        }
        self.keep(event.cookie, Some(event));
    }

    /// Begins to keep a connection, with what is known of it.
    fn keep(&mut self, cookie: u64, event: Option<&Event>) {
        let is_new = event.is_some_and(|event| event.kind == Kind::Open);
        let known = self.absent.take(cookie).filter(|_| !is_new).unwrap_or_default();
        let mut events = known.samples.iter().chain(event).peekable();
        let Some(first) = events.peek() else { return };
        let mut connection = Box::new(Connection::new(cookie, first.time_ns, self.names.clone()));
        connection.tgid = known.tgid;
        if let Some(open) = &known.open {
            connection.is(open);
        }
        events.for_each(|event| connection.push(event));
        self.connections.insert(cookie, connection);
    }

    fn push_lost(&mut self, event: &Event) {
        let (Some(cause), count) = fields::lost(event.aux) else { return };
        match self.lost.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, total)) => *total += u64::from(count),
            None => self.lost.push((cause, count.into())),
        }
    }

    /// Makes room for a sixteenth at once, so that the search for the least active is rare.
    fn drop_least_active(&mut self) {
        let room = (self.most / 16).max(1);
        let mut order: Vec<(bool, u64, u64)> = self
            .connections
            .values()
            .map(|c| (c.closed_ns.is_none(), c.last_ns, c.cookie))
            .collect();
        let least = room.min(order.len());
        order.select_nth_unstable(least - 1);
        for &(_, _, cookie) in &order[..least] {
            self.make_room(cookie);
        }
    }

    fn make_room(&mut self, cookie: u64) {
        let gone = self.connections.remove(&cookie);
        if let Some(connection) = gone.filter(|connection| connection.closed_ns.is_none()) {
            self.absent.add(&connection);
        }
    }

    /// Where connections are polled, those that carry most are kept.
    fn exchange(&mut self) {
        let coming = self.absent.most_active();
        if coming.is_empty() {
            return;
        }
        let carries = |c: &Connection| {
            let (up, down) = c.rates(self.now_ns);
            if c.closed_ns.is_some() { -1.0 } else { up + down }
        };
        let polled = self.connections.values().filter(|c| c.sampled);
        let mut going: Vec<(f64, u64)> = polled.map(|c| (carries(c), c.cookie)).collect();
        going.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut going = going.into_iter();
        for (rate, cookie) in coming {
            if self.connections.len() >= self.most {
                match going.next() {
                    Some((least, gives_way)) if rate > MUCH * least => self.make_room(gives_way),
                    _ => break,
                }
            }
            self.keep(cookie, None);
        }
        self.absent.go_on();
    }

    /// Moves the clock (CLOCK_BOOTTIME, ns): forgets what has faded and what is too old.
    pub fn tick(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.connections.retain(|_, c| {
            let unseen = c.sampled && now_ns.saturating_sub(c.last_ns) > UNSEEN_NS;
            if unseen && c.closed_ns.is_none() {
                c.closed_ns = Some(now_ns);
            }
            c.closed_ns.is_none_or(|closed| now_ns.saturating_sub(closed) < FADE_NS)
        });
        self.exchange();
        let share = SHARED_SLOTS / self.connections.len().max(1);
        let most = share.clamp(FEWEST_SLOTS, SLOTS);
        for connection in self.connections.values_mut() {
            connection.history.trim(now_ns, most);
        }
        self.ticks.push_back((now_ns, self.events));
        while self.ticks.len() > 2 && now_ns.saturating_sub(self.ticks[1].0) >= SECOND_NS
            || self.ticks.len() > 100
        {
            self.ticks.pop_front();
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// In no order.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().map(Box::as_ref)
    }

    pub fn connection(&self, cookie: u64) -> Option<&Connection> {
        self.connections.get(&cookie).map(Box::as_ref)
    }

    pub fn len(&self) -> usize {
        self.connections.len()
    }

    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Connections that are known to be open and have no room.
    pub fn not_kept(&self) -> u64 {
        self.absent.len() as u64
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events per second, over the last second of ticks.
    pub fn event_rate(&self) -> f64 {
        match (self.ticks.front(), self.ticks.back()) {
            (Some(first), Some(last)) if last.0 > first.0 => {
                last.1.saturating_sub(first.1) as f64 / ((last.0 - first.0) as f64 / 1e9)
            }
            _ => 0.0,
        }
    }

    /// Events lost, as the stream itself told.
    pub fn lost(&self) -> &[(LossCause, u64)] {
        &self.lost
    }
}

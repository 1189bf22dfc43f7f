//! The members of a group: which messages may be believed.
//!
//! A sealed message proves that a holder of the key made it, not when. So a terminal is believed
//! only after it has answered a question of ours: each of our messages has a counter of its own and
//! may ask sessions that we do not know yet; the answer names the message that asked. A recording
//! cannot answer a question that was not asked before it was made. From then on the counter of the
//! sender's session must grow. No clock is compared with another, nothing need be remembered of
//! sessions that have ended, and a terminal that restarts takes a new session.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;

use crate::report::{Report, TerminalId};
use crate::seal::Seal;
use crate::sieve::Drops;
use crate::wire::{self, Answer, MOST_ASKED, Message, Session};

/// A terminal not heard for that long is not there. Three reports may be lost in a row.
pub const EXPIRY: Duration = Duration::from_millis(2800);
/// Terminals that are believed at a time, at most.
pub const MOST_TERMINALS: usize = 256;
/// Sessions that are remembered at a time, believed or not, at most.
pub const MOST_REMEMBERED: usize = 512;

/// A proof is asked for again after this time, and no longer good after twice of it: else an attacker
/// could hold all messages back, each a little longer than the one before.
const PROOF_AGE: Duration = Duration::from_secs(30);
/// Between the first two questions to the same session; then twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(400);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its report counts.
    Believed,
    /// Its sender was asked to prove that it is alive.
    Unproven,
    /// Not sealed with this group's key for this access point, or damaged.
    Foreign,
    /// Sealed with the key, but not a message, or one with a number that cannot be.
    Absurd,
    /// As old as one that was heard before, or older.
    Replayed,
    /// There are too many terminals already.
    Crowded,
    /// From a second terminal with our own identity.
    Clash,
    /// Our own, come back.
    Own,
}

/// How many messages of each kind were heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub spoken: u64,
    pub believed: u64,
    pub unproven: u64,
    pub foreign: u64,
    pub absurd: u64,
    pub replayed: u64,
    pub crowded: u64,
    pub clash: u64,
    /// Dropped before: its session sends more than an honest one does.
    pub flood: u64,
}

impl Counters {
    /// With those that were dropped before the group heard them.
    pub fn and(self, drops: Drops) -> Counters {
        Counters {
            foreign: self.foreign + drops.foreign,
            replayed: self.replayed + drops.replayed,
            flood: self.flood + drops.flood,
            ..self
        }
    }

    fn count(&mut self, heard: Heard) {
        let counter = match heard {
            Heard::Believed => &mut self.believed,
            Heard::Unproven => &mut self.unproven,
            Heard::Foreign => &mut self.foreign,
            Heard::Absurd => &mut self.absurd,
            Heard::Replayed => &mut self.replayed,
            Heard::Crowded => &mut self.crowded,
            Heard::Clash => &mut self.clash,
            Heard::Own => return,
        };
        *counter += 1;
    }
}

/// A terminal that is believed to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub report: Report,
    /// Time since its last report.
    pub age: Duration,
}

#[derive(Clone, Debug)]
struct Asking {
    /// Only answers to our messages from this one on count.
    since: u32,
    next: Duration,
    wait: Duration,
}

#[derive(Clone, Debug)]
struct Known {
    counter: u32,
    heard: Duration,
    proven: Option<Duration>,
    asking: Option<Asking>,
    report: Report,
}

/// The terminals of one access point, as one of them hears them.
#[derive(Clone, Debug)]
pub struct Group {
    seal: Seal,
    me: TerminalId,
    session: Session,
    /// Of our next message.
    counter: u32,
    known: BTreeMap<Session, Known>,
    answers: VecDeque<Answer>,
    counters: Counters,
}

impl Group {
    /// `session` must be random: a terminal takes a new one each time it starts.
    pub fn new(seal: Seal, me: TerminalId, session: Session) -> Group {
        Group {
            seal,
            me,
            session,
            counter: 0,
            known: BTreeMap::new(),
            answers: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sessions in memory, believed or not; never more than [`MOST_REMEMBERED`].
    pub fn remembered(&self) -> usize {
        self.known.len()
    }

    /// The others that are believed to be there, by identity.
    pub fn members(&self, now: Duration) -> Vec<Member> {
        let believed = self.known.values().filter(|known| known.proven.is_some());
        let mut members: Vec<Member> = believed
            .map(|known| Member {
                report: known.report.clone(),
                age: now.saturating_sub(known.heard),
            })
            .collect();
        members.sort_by_key(|member| member.report.terminal);
        members
    }

    /// Whether someone waits for our question or answer.
    pub fn is_asked(&self, now: Duration) -> bool {
        !self.answers.is_empty() || self.known.values().any(|known| known.asks_at(now))
    }

    /// When to call [`Group::expire`] next.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.known.values().map(|known| known.heard + EXPIRY).min()
    }

    /// Forgets sessions that were silent for [`EXPIRY`]; whether there were any.
    pub fn expire(&mut self, now: Duration) -> bool {
        let before = self.known.len();
        self.known.retain(|_, known| known.heard + EXPIRY > now);
        for known in self.known.values_mut() {
            if known.proven.is_some_and(|at| at + 2 * PROOF_AGE <= now) {
                known.proven = None;
            }
        }
        self.known.len() != before
    }

    /// The next message of ours, sealed. It says `report`, asks and answers.
    pub fn speak(&mut self, now: Duration, report: &Report) -> Vec<u8> {
        let number = self.counter;
        let mut due: Vec<(&Session, &mut Known)> =
            self.known.iter_mut().filter(|(_, known)| known.asks_at(now)).collect();
        due.sort_by_key(|(_, known)| known.asking.as_ref().map(|asking| asking.next));
        let mut asks = Vec::new();
        for (session, known) in due.into_iter().take(MOST_ASKED) {
            if let Some(asking) = &mut known.asking {
                asking.next = now + asking.wait;
                asking.wait = (asking.wait * 2).min(LONGEST_WAIT);
            }
            asks.push(session.short());
        }
        let given = self.answers.len().min(MOST_ASKED);
        let answers = self.answers.drain(..given).collect();
        let message = Message { report: report.clone(), asks, answers };
        self.counter += 1;
        self.counters.spoken += 1;
        self.seal.close(self.session, number, &wire::encode(&message))
    }

    /// Takes in what came over the network, whatever it is.
    pub fn hear(&mut self, now: Duration, sealed: &[u8]) -> Heard {
        let heard = self.judge(now, sealed);
        self.counters.count(heard);
        heard
    }

    fn judge(&mut self, now: Duration, sealed: &[u8]) -> Heard {
        let Some((session, counter, bytes)) = self.seal.open(sealed) else {
            return Heard::Foreign;
        };
        if session == self.session {
            return Heard::Own;
        }
        let Ok(message) = wire::decode(&bytes) else { return Heard::Absurd };
        if message.report.terminal == self.me {
            return Heard::Clash;
        }
        if self.known.get(&session).is_some_and(|known| counter <= known.counter) {
            return Heard::Replayed;
        }
        if !self.remember(now, session, counter, &message) {
            return Heard::Crowded;
        }
        if message.asks.contains(&self.session.short()) {
            self.answer(Answer { session, counter });
        }
        self.weigh(now, session, message)
    }

    /// Makes room for a session; false if there is none.
    fn remember(&mut self, now: Duration, from: Session, counter: u32, message: &Message) -> bool {
        if let Some(known) = self.known.get_mut(&from) {
            (known.counter, known.heard) = (counter, now);
            return true;
        }
        if self.known.len() >= MOST_REMEMBERED {
            self.expire(now);
            let unproven = self.known.iter().filter(|(_, known)| known.proven.is_none());
            let oldest = unproven.min_by_key(|(_, known)| known.heard).map(|(&session, _)| session);
            match oldest {
                Some(oldest) => self.known.remove(&oldest),
                None => return false,
            };
        }
        let asking = Asking { since: self.counter, next: now, wait: FIRST_WAIT };
        let report = message.report.clone();
        let fresh = Known { counter, heard: now, proven: None, asking: Some(asking), report };
        self.known.insert(from, fresh);
        true
    }

    fn answer(&mut self, answer: Answer) {
        self.answers.retain(|waiting| waiting.session != answer.session);
        if self.answers.len() < MOST_REMEMBERED {
            self.answers.push_back(answer);
        }
    }

    /// Whether the sender, which is remembered by now, is believed.
    fn weigh(&mut self, now: Duration, session: Session, message: Message) -> Heard {
        let room = self.believed() < MOST_TERMINALS;
        let (own, spoken) = (self.session, self.counter);
        let Some(known) = self.known.get_mut(&session) else { return Heard::Crowded };
        let was_believed = known.proven.is_some();
        let is_proof = |answer: &&Answer| {
            let since = known.asking.as_ref().map(|asking| asking.since);
            answer.session == own
                && since.is_some_and(|since| (since..spoken).contains(&answer.counter))
        };
        if message.answers.iter().find(is_proof).is_some() {
            if !was_believed && !room {
                return Heard::Crowded;
            }
            (known.proven, known.asking) = (Some(now), None);
        } else if known.asking.is_none() && known.proven.is_some_and(|at| at + PROOF_AGE <= now) {
            known.asking = Some(Asking { since: spoken, next: now, wait: FIRST_WAIT });
        }
        if known.proven.is_none() {
            return Heard::Unproven;
        }
        let terminal = message.report.terminal;
        let leaving = message.report.leaving;
        known.report = message.report;
        if !was_believed {
            // It has restarted; its earlier session is void.
            self.known.retain(|other, known| {
                *other == session || known.proven.is_none() || known.report.terminal != terminal
            });
        }
        if leaving {
            self.known.remove(&session);
        }
        Heard::Believed
    }

    fn believed(&self) -> usize {
        self.known.values().filter(|known| known.proven.is_some()).count()
    }
}

impl Known {
    fn asks_at(&self, now: Duration) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.next <= now)
    }
}

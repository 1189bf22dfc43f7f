//! One terminal of a group, without its clock, its sockets and its kernel: the daemon on a real
//! kernel and the simulated terminal call this, and do what it says.
//!
//! At each look: [`Terminal::flows`] gets the states of the connections, [`Terminal::decide`]
//! decides, [`Terminal::orders`] names what is to be done, and [`Terminal::done`] hears that it was.
//! Between looks: [`Terminal::hear`] and [`Terminal::speak`].

use std::collections::BTreeSet;
use std::time::Duration;

use crate::decide::{Opening, Verdict, decide, is_full, openings};
use crate::estimate::Air;
use crate::flows::Flows;
use crate::group::{Counters, Group, Heard, Member};
use crate::in_force::InForce;
use crate::pace::{PERIOD, Pace};
use crate::report::{Algorithm, Report, TerminalId, Treatment};
use crate::rules::Rules;

/// What a terminal says of itself in every report.
#[derive(Clone, Debug)]
pub struct Identity {
    pub terminal: TerminalId,
    pub name: String,
    /// In tenths.
    pub class: u16,
    pub rules: Rules,
    pub dry_run: bool,
}

#[derive(Clone, Debug)]
pub struct Terminal {
    identity: Identity,
    /// Of its rules.
    digest: u32,
    group: Group,
    pub flows: Flows,
    air: Air,
    pace: Pace,
    /// When to speak if nothing happens.
    speak_at: Duration,
    in_force: InForce,
    /// Our last word. We decide by it, as the others do.
    said: Option<Report>,
    /// What the last decision was made of, and what it is.
    heard: Vec<Report>,
    full: bool,
    verdict: Verdict,
}

impl Terminal {
    pub fn new(identity: Identity, group: Group) -> Terminal {
        let verdict = decide(&identity.rules, &[]);
        Terminal {
            digest: identity.rules.digest(),
            identity,
            group,
            flows: Flows::default(),
            air: Air::default(),
            pace: Pace::default(),
            speak_at: Duration::ZERO,
            in_force: InForce::default(),
            said: None,
            heard: Vec::new(),
            full: false,
            verdict,
        }
    }

    /// From now on it is in another group, on another air.
    pub fn join(&mut self, group: Group) {
        (self.group, self.air) = (group, Air::default());
    }

    pub fn rules(&self) -> &Rules {
        &self.identity.rules
    }

    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    pub fn said(&self) -> Option<&Report> {
        self.said.as_ref()
    }

    pub fn members(&self, now: Duration) -> Vec<Member> {
        self.group.members(now)
    }

    pub fn counters(&self) -> Counters {
        self.group.counters()
    }

    /// Takes in what came over the network, whatever it is.
    pub fn hear(&mut self, now: Duration, sealed: &[u8]) -> Heard {
        self.group.hear(now, sealed)
    }

    /// Forgets those that were silent for too long.
    pub fn expire(&mut self, now: Duration) {
        self.group.expire(now);
    }

    /// A connection has gone, or is no longer on our air. What was in force for it.
    pub fn close(&mut self, cookie: u64) -> Treatment {
        let treatment = self.in_force.of(cookie);
        if self.flows.close(cookie) {
            self.in_force.forget(cookie);
        }
        treatment
    }

    /// Decides by what is known now. Whether the air is full.
    pub fn decide(&mut self, now: Duration) -> bool {
        self.heard = self.group.members(now).into_iter().map(|member| member.report).collect();
        self.heard.extend(self.said.clone());
        let sum = self.heard.iter().map(Report::goodput_kbit).sum();
        self.full = is_full(&self.identity.rules, &self.heard);
        self.air.look(now, sum, self.full);
        self.verdict = decide(&self.identity.rules, &self.heard);
        self.full
    }

    /// What new connections are to get.
    pub fn openings(&self) -> Vec<Opening> {
        let own = self.said.as_ref();
        own.map(|own| openings(&self.identity.rules, &self.heard, own)).unwrap_or_default()
    }

    /// What is to be done so that the decision holds, by cookies. The `withdrawn` connections get
    /// no `steady`, since it hurts their path.
    pub fn orders(&self, withdrawn: &BTreeSet<u64>) -> Vec<(u64, Treatment)> {
        let me = self.identity.terminal;
        let own = self.verdict.decisions.iter().find(|decision| decision.terminal == me);
        let choices = own.into_iter().flat_map(|decision| &decision.flows);
        let wanted = choices.filter_map(|choice| {
            let cookie = self.flows.cookie(choice.flow)?;
            let mut treatment = choice.treatment;
            if withdrawn.contains(&cookie) {
                treatment.algorithm = Algorithm::Default;
            }
            Some((cookie, treatment))
        });
        self.in_force.orders(wanted)
    }

    /// This was done, by an order or when the connection opened.
    pub fn done(&mut self, orders: &[(u64, Treatment)]) {
        self.in_force.done(orders);
    }

    /// What it would report now.
    pub fn report(&self, now: Duration) -> Report {
        let Identity { terminal, name, class, dry_run, .. } = &self.identity;
        Report {
            terminal: *terminal,
            name: name.clone(),
            class: *class,
            rules: self.digest,
            air_kbit: self.air.best_kbit(),
            leaving: false,
            dry_run: *dry_run,
            flows: self.flows.report(now, |cookie| self.in_force.of(cookie)),
        }
    }

    /// The message to send now with this report; None: it is too early, or there is nothing new.
    pub fn speak(&mut self, now: Duration, report: Report) -> Option<Vec<u8>> {
        let news = self.said.as_ref().is_none_or(|said| report.differs_much(said));
        self.speak_at = self.pace.due(now, news || self.group.is_asked(now));
        if self.speak_at > now {
            return None;
        }
        let sealed = self.group.speak(now, &report);
        self.pace.spoke(now);
        self.speak_at = now + PERIOD;
        self.said = Some(report);
        Some(sealed)
    }

    /// When it speaks next unless something happens before.
    pub fn speaks_at(&self) -> Duration {
        self.speak_at
    }

    /// Its last message.
    pub fn farewell(&mut self, now: Duration) -> Vec<u8> {
        let report = Report { leaving: true, flows: Vec::new(), ..self.report(now) };
        self.group.speak(now, &report)
    }
}

//! The daemon's loop: look, hear, decide, act, speak.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use transom_machine::signals::Signals;
use transom_peers::estimate::Air;
use transom_peers::seal::{GroupKey, Seal};
use transom_peers::wire::Session;
use transom_peers::{
    Algorithm, Choice, Group, Opening, PERIOD, Pace, Report, Rules, TerminalId, Treatment, Verdict,
    decide, is_full, openings,
};

use crate::access_point::{self, AccessPoint};
use crate::act::{Act, InForce};
use crate::link::{Early, Event, Inlet, Link, WAITING, Way};
use crate::looks::{EACH, Looks, Tracked};
use crate::shown::{self, State};
use crate::status::Listener;
use crate::{interface, key_file};
use transom_output::{note, say};

/// How often the access point and the link are looked after.
const CARE: Duration = Duration::from_secs(5);

/// All that the command line and the files said.
pub struct Setup {
    pub key: GroupKey,
    pub rules: Rules,
    pub access_point: AccessPoint,
    pub name: String,
    /// In tenths.
    pub class: u16,
    pub dry_run: bool,
    pub way: Way,
    pub routers: Vec<SocketAddr>,
    pub named_access_point: Option<String>,
    pub named_interface: Option<String>,
}

pub struct Daemon {
    setup: Setup,
    started: Instant,
    me: TerminalId,
    group: Group,
    link: Option<Link>,
    looks: Looks,
    air: Air,
    pace: Pace,
    /// When to speak if nothing happens.
    speak_at: Duration,
    act: Box<dyn Act>,
    in_force: InForce,
    /// Connections from which the guard keeps `steady` away.
    withdrawn: BTreeSet<u64>,
    /// Our last word. We decide by it, as the others do.
    said: Option<Report>,
    verdict: Verdict,
    /// What new connections get.
    openings: Vec<Opening>,
    events: Receiver<Event>,
    sender: SyncSender<Event>,
    inlet: Arc<Inlet>,
    reopened: u64,
    trouble: Option<String>,
    _listener: Listener,
}

fn seal(setup: &Setup) -> Seal {
    Seal::new(&setup.key, &setup.access_point.name)
}

fn group(setup: &Setup, me: TerminalId) -> Result<Group> {
    let session = Session(u64::from_le_bytes(key_file::random()?));
    Ok(Group::new(seal(setup), me, session))
}

impl Daemon {
    pub fn start(setup: Setup, act: Box<dyn Act>, socket: &Path) -> Result<Daemon> {
        let (sender, events) = sync_channel(WAITING);
        let listener = Listener::start(socket, sender.clone())?;
        let inlet = Inlet::new(seal(&setup), sender.clone());
        let me = setup.key.terminal(&access_point::own_name(&setup.access_point.interface));
        let group = group(&setup, me)?;
        let local = interface::addresses(&setup.access_point.interface)?;
        let looks = Looks::start(local, setup.routers.clone())?;
        let verdict = decide(&setup.rules, &[]);
        let mut daemon = Daemon {
            setup,
            started: Instant::now(),
            me,
            group,
            link: None,
            looks,
            air: Air::default(),
            pace: Pace::default(),
            speak_at: Duration::ZERO,
            act,
            in_force: InForce::default(),
            withdrawn: BTreeSet::new(),
            said: None,
            verdict,
            openings: Vec::new(),
            events,
            sender,
            inlet,
            reopened: 0,
            trouble: None,
            _listener: listener,
        };
        daemon.open_link()?;
        Ok(daemon)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn open_link(&mut self) -> Result<()> {
        let topic = self.setup.key.topic(&self.setup.access_point.name);
        let link = Link::open(&self.setup.way, &topic, self.inlet.clone())?;
        if let Some(why) = link.unfiltered() {
            let _ = say!("forged messages are dropped in user space, at more cost: {why}");
        }
        self.link = Some(link);
        Ok(())
    }

    /// Until a signal comes; then everything is undone.
    pub fn run(mut self, signals: &Signals) -> Result<()> {
        let AccessPoint { name, known_by, interface } = &self.setup.access_point;
        let _ = say!("{name} ({known_by}) on {interface}: {}", self.setup.rules.function);
        let (mut look_at, mut care_at) = (Duration::ZERO, CARE);
        while !signals.came() {
            let wait = look_at.min(self.speak_at).saturating_sub(self.now());
            match self.events.recv_timeout(wait) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.now();
            self.group.expire(now);
            if now >= look_at {
                look_at = now + EACH;
                self.look(now)?;
            }
            if now >= care_at {
                care_at = now + CARE;
                self.care();
            }
            self.speak(now);
        }
        self.leave()
    }

    fn take(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Message(sealed) => {
                self.group.hear(now, &sealed);
            }
            Event::Asked(answer) => {
                let text = serde_json::to_string(&self.state(now)).unwrap_or_default();
                let _ = answer.send(text);
            }
        }
    }

    fn look(&mut self, now: Duration) -> Result<()> {
        let changes = self.looks.look(now, &self.setup.rules.stability)?;
        changes.gone.iter().for_each(|&cookie| self.in_force.forget(cookie));
        self.meet(&changes.come);
        let members: Vec<Report> = self.group.members(now).into_iter().map(|m| m.report).collect();
        let all = members.iter().chain(&self.said);
        let sum = all.clone().map(Report::goodput_kbit).sum();
        let heard: Vec<Report> = all.cloned().collect();
        let full = is_full(&self.setup.rules, &heard);
        self.air.look(now, sum, full);
        self.verdict = decide(&self.setup.rules, &heard);
        self.treat(now, full);
        self.open(&heard);
        Ok(())
    }

    /// New connections may have got something already.
    fn meet(&mut self, come: &[u64]) {
        if come.is_empty() || self.openings.is_empty() || self.setup.dry_run {
            return;
        }
        match self.act.opened() {
            Ok(mut given) => {
                given.retain(|(cookie, _)| come.contains(cookie));
                self.in_force.done(&given);
                self.tell(self.now(), &given);
            }
            Err(error) => self.complain(&format!("{error:#}")),
        }
    }

    /// Makes what was decided for new connections hold.
    fn open(&mut self, heard: &[Report]) {
        let Some(own) = &self.said else { return };
        let wanted = openings(&self.setup.rules, heard, own);
        if wanted == self.openings || self.setup.dry_run {
            return;
        }
        match self.act.open_with(&wanted) {
            Ok(()) => self.openings = wanted,
            Err(error) => self.complain(&format!("{error:#}")),
        }
    }

    /// Says what was done, and why.
    fn tell(&self, now: Duration, orders: &[(u64, Treatment)]) {
        let own = self.verdict.decisions.iter().find(|decision| decision.terminal == self.me);
        for (cookie, treatment) in orders {
            let Some((id, tracked)) = self.looks.by_cookie(*cookie) else { continue };
            let choice = own.and_then(|own| own.flows.iter().find(|choice| choice.flow == id));
            let why = choice.map_or("new".into(), |choice| choice.why.to_string());
            let (seconds, ends) = (now.as_secs_f64(), &tracked.ends);
            let _ = say!("{seconds:.2} s {ends}: {}, {why}", shown::said(treatment));
        }
    }

    /// Makes what was decided for us hold.
    fn treat(&mut self, now: Duration, full: bool) {
        let own = self.verdict.decisions.iter().find(|decision| decision.terminal == self.me);
        let wanted: Vec<(u64, Treatment)> = own
            .into_iter()
            .flat_map(|decision| &decision.flows)
            .filter_map(|choice| Some((self.looks.get(choice.flow)?.cookie, choice.treatment)))
            .collect();
        let withdrawn = match self.act.withdrawn(full) {
            Ok(withdrawn) => withdrawn,
            Err(error) => {
                self.complain(&format!("{error:#}"));
                return;
            }
        };
        let guarded = wanted.into_iter().map(|(cookie, treatment)| {
            let hurts = withdrawn.contains(&cookie);
            let algorithm = if hurts { Algorithm::Default } else { treatment.algorithm };
            (cookie, Treatment { algorithm, ..treatment })
        });
        let orders = self.in_force.orders(guarded);
        self.withdrawn = withdrawn;
        if orders.is_empty() || self.setup.dry_run {
            return;
        }
        match self.act.treat(&orders) {
            Ok(()) => {
                self.in_force.done(&orders);
                self.tell(now, &orders);
            }
            Err(error) => self.complain(&format!("{error:#}")),
        }
    }

    /// Says a trouble once, however often it comes back.
    fn complain(&mut self, text: &str) {
        if self.trouble.as_deref() != Some(text) {
            note!("transom peer: {text}");
            self.trouble = Some(text.to_owned());
        }
    }

    fn report(&self, now: Duration) -> Report {
        Report {
            terminal: self.me,
            name: self.setup.name.clone(),
            class: self.setup.class,
            rules: self.setup.rules.digest(),
            air_kbit: self.air.best_kbit(),
            leaving: false,
            dry_run: self.setup.dry_run,
            flows: self.looks.flows(now, |cookie| self.in_force.of(cookie)),
        }
    }

    fn speak(&mut self, now: Duration) {
        let report = self.report(now);
        let news = self.said.as_ref().is_none_or(|said| report.differs_much(said));
        self.speak_at = self.pace.due(now, news || self.group.is_asked(now));
        if self.speak_at > now {
            return;
        }
        self.send(now, &report);
        self.pace.spoke(now);
        self.speak_at = now + PERIOD;
        self.said = Some(report);
    }

    fn send(&mut self, now: Duration, report: &Report) {
        let sealed = self.group.speak(now, report);
        if let Some(Err(error)) = self.link.as_ref().map(|link| link.send(&sealed)) {
            self.complain(&format!("{error:#}"));
        }
    }

    /// The terminal may have roamed, and the link may have died.
    fn care(&mut self) {
        let Setup { named_access_point, named_interface, .. } = &self.setup;
        let found = access_point::find(named_access_point.as_deref(), named_interface.as_deref());
        let here = &self.setup.access_point;
        let moved = found.ok().filter(|found| found.differs_from(here));
        if let Some(found) = moved {
            self.move_to(found);
        } else if !self.link.as_ref().is_some_and(Link::is_alive) {
            self.reopened += 1;
            self.reopen();
        }
        if let Ok(local) = interface::addresses(&self.setup.access_point.interface) {
            self.looks.set_local(local);
        }
    }

    fn move_to(&mut self, found: AccessPoint) {
        let _ = say!("now at {} ({})", found.name, found.known_by);
        self.say_good_bye();
        self.setup.way = self.setup.way.on(&found.interface);
        self.setup.access_point = found;
        self.inlet = Inlet::new(seal(&self.setup), self.sender.clone());
        match group(&self.setup, self.me) {
            Ok(group) => self.group = group,
            Err(error) => self.complain(&format!("{error:#}")),
        }
        self.air = Air::default();
        self.reopen();
    }

    fn reopen(&mut self) {
        if let Some(link) = self.link.take() {
            link.close();
        }
        if let Err(error) = self.open_link() {
            self.complain(&format!("{error:#}"));
        }
    }

    fn say_good_bye(&mut self) {
        let now = self.now();
        let report = Report { leaving: true, flows: Vec::new(), ..self.report(now) };
        self.send(now, &report);
    }

    fn leave(mut self) -> Result<()> {
        self.say_good_bye();
        let undone = self.act.undo().context("taking back what was done");
        if let Some(link) = self.link.take() {
            link.close();
        }
        undone
    }

    fn state(&self, now: Duration) -> State {
        let AccessPoint { name, known_by, interface } = self.setup.access_point.clone();
        let mut terminals: VecDeque<shown::Terminal> = self
            .group
            .members(now)
            .iter()
            .map(|member| self.shown(&member.report, member.age))
            .collect();
        if let Some(said) = &self.said {
            terminals.push_front(self.shown(said, Duration::ZERO));
        }
        let early = self.link.as_ref().map_or_else(|| Ok(Early::default()), Link::early);
        let unread = early.as_ref().err().map(|error| format!("{error:#}"));
        let Early { others, drops } = early.unwrap_or_default();
        let counters = self.group.counters().and(self.inlet.drops()).and(drops);
        let refused = shown::refusals(&counters, others);
        State {
            access_point: name,
            known_by: known_by.into(),
            interface,
            way: self.setup.way.say(),
            function: self.verdict.function.to_string(),
            rules: format!("{:08x}", self.setup.rules.digest()),
            dry_run: self.setup.dry_run,
            air_kbit: self.verdict.air_kbit,
            hungry: self.verdict.hungry,
            terminals: terminals.into(),
            messages: serde_json::json!({
                "counted": counters, "other_groups": others, "refused": refused,
            }),
            unfiltered: self.link.as_ref().and_then(Link::unfiltered),
            reopened: self.reopened,
            trouble: unread.or_else(|| self.trouble.clone()),
        }
    }

    fn why(&self, choice: Option<&Choice>, ends: Option<&Tracked>) -> String {
        let why = choice.map(|choice| choice.why.to_string()).unwrap_or_default();
        match ends.is_some_and(|tracked| self.withdrawn.contains(&tracked.cookie)) {
            true => format!("{why}; but the guard found that steady hurts here"),
            false => why,
        }
    }

    fn shown(&self, report: &Report, age: Duration) -> shown::Terminal {
        let own = report.terminal == self.me;
        let decision = self.verdict.decisions.iter().find(|d| d.terminal == report.terminal);
        let flows = report.flows.iter().map(|flow| {
            let choice = decision.and_then(|d| d.flows.iter().find(|c| c.flow == flow.id));
            let decided = choice.map(|choice| choice.treatment).unwrap_or_default();
            let ends = own.then(|| self.looks.get(flow.id)).flatten();
            shown::Flow {
                flow: flow.id,
                ends: ends.map(|tracked| tracked.ends.to_string()),
                cwnd: flow.cwnd,
                ssthresh: flow.ssthresh,
                srtt_us: flow.srtt_us,
                min_rtt_us: flow.min_rtt_us,
                goodput_kbit: flow.goodput_kbit,
                losses: flow.losses,
                unsteady: flow.unsteady,
                hungry: flow.hungry,
                unstable: flow.unstable,
                algorithm: algorithm(flow.treatment.algorithm),
                cap: flow.treatment.cap,
                decided_algorithm: algorithm(decided.algorithm),
                decided_cap: decided.cap,
                why: self.why(choice, ends),
            }
        });
        shown::Terminal {
            terminal: report.terminal.to_string(),
            name: report.name.clone(),
            own,
            class: f64::from(report.class) / 10.0,
            other_rules: report.rules != self.setup.rules.digest(),
            dry_run: report.dry_run,
            age_ms: age.as_millis() as u64,
            goodput_kbit: report.goodput_kbit(),
            share_kbit: decision.and_then(|decision| decision.share_kbit),
            flows: flows.collect(),
        }
    }
}

fn algorithm(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Default => "default".into(),
        Algorithm::Steady => "steady".into(),
    }
}

//! The daemon's loop: look, hear, decide, act, speak.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use transom_machine::signals::Signals;
use transom_peers::seal::{GroupKey, Seal};
use transom_peers::wire::Session;
use transom_peers::{
    Algorithm, Choice, EACH, Group, Identity, Opening, Report, Rules, Terminal, TerminalId,
    Treatment,
};

use crate::access_point::{self, AccessPoint};
use crate::act::Act;
use crate::link::{Early, Event, Inlet, Link, WAITING, Way};
use crate::looks::Looks;
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
    terminal: Terminal,
    link: Option<Link>,
    looks: Looks,
    act: Box<dyn Act>,
    /// Connections from which the guard keeps `steady` away.
    withdrawn: BTreeSet<u64>,
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
        let identity = Identity {
            terminal: me,
            name: setup.name.clone(),
            class: setup.class,
            rules: setup.rules.clone(),
            dry_run: setup.dry_run,
        };
        let mut daemon = Daemon {
            setup,
            started: Instant::now(),
            me,
            terminal: Terminal::new(identity, group),
            link: None,
            looks,
            act,
            withdrawn: BTreeSet::new(),
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
            let wait = look_at.min(self.terminal.speaks_at()).saturating_sub(self.now());
            match self.events.recv_timeout(wait) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.now();
            self.terminal.expire(now);
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
                self.terminal.hear(now, &sealed);
            }
            Event::Asked(answer) => {
                let text = serde_json::to_string(&self.state(now)).unwrap_or_default();
                let _ = answer.send(text);
            }
        }
    }

    fn look(&mut self, now: Duration) -> Result<()> {
        let come = self.looks.look(now, &mut self.terminal)?;
        self.meet(&come);
        let full = self.terminal.decide(now);
        self.treat(now, full);
        self.open();
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
                self.terminal.done(&given);
                self.tell(self.now(), &given);
            }
            Err(error) => self.complain(&format!("{error:#}")),
        }
    }

    /// Makes what was decided for new connections hold.
    fn open(&mut self) {
        let wanted = self.terminal.openings();
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
        let decisions = &self.terminal.verdict().decisions;
        let own = decisions.iter().find(|decision| decision.terminal == self.me);
        for (cookie, treatment) in orders {
            let Some(ends) = self.looks.ends(*cookie) else { continue };
            let is_it = |choice: &&Choice| self.terminal.flows.cookie(choice.flow) == Some(*cookie);
            let choice = own.and_then(|own| own.flows.iter().find(is_it));
            let why = choice.map_or("new".into(), |choice| choice.why.to_string());
            let seconds = now.as_secs_f64();
            let _ = say!("{seconds:.2} s {ends}: {}, {why}", shown::said(treatment));
        }
    }

    /// Makes what was decided for us hold.
    fn treat(&mut self, now: Duration, full: bool) {
        match self.act.withdrawn(full) {
            Ok(withdrawn) => self.withdrawn = withdrawn,
            Err(error) => {
                self.complain(&format!("{error:#}"));
                return;
            }
        }
        let orders = self.terminal.orders(&self.withdrawn);
        if orders.is_empty() || self.setup.dry_run {
            return;
        }
        match self.act.treat(&orders) {
            Ok(()) => {
                self.terminal.done(&orders);
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

    fn speak(&mut self, now: Duration) {
        let report = self.terminal.report(now);
        if let Some(sealed) = self.terminal.speak(now, report) {
            self.send(&sealed);
        }
    }

    fn send(&mut self, sealed: &[u8]) {
        if let Some(Err(error)) = self.link.as_ref().map(|link| link.send(sealed)) {
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
            self.turn_to(local);
        }
    }

    /// Follows the connections from these addresses, and gives others back what they had.
    fn turn_to(&mut self, local: Vec<IpAddr>) {
        let turned = self.looks.set_local(self.now(), local, &mut self.terminal);
        self.meet(&turned.come);
        let orders: Vec<_> =
            turned.left.into_iter().map(|cookie| (cookie, Treatment::default())).collect();
        if orders.is_empty() || self.setup.dry_run {
            return;
        }
        match self.act.treat(&orders) {
            Ok(()) => self.tell(self.now(), &orders),
            Err(error) => self.complain(&format!("{error:#}")),
        }
    }

    fn move_to(&mut self, found: AccessPoint) {
        let _ = say!("now at {} ({})", found.name, found.known_by);
        self.say_good_bye();
        self.setup.way = self.setup.way.on(&found.interface);
        self.setup.access_point = found;
        self.inlet = Inlet::new(seal(&self.setup), self.sender.clone());
        match group(&self.setup, self.me) {
            Ok(group) => self.terminal.join(group),
            Err(error) => self.complain(&format!("{error:#}")),
        }
        // What the other group decided for new connections ends with it.
        self.openings.clear();
        if let Err(error) = self.act.move_to(&self.setup.access_point.interface) {
            self.complain(&format!("{error:#}"));
        }
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
        let sealed = self.terminal.farewell(self.now());
        self.send(&sealed);
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
            .terminal
            .members(now)
            .iter()
            .map(|member| self.shown(&member.report, member.age))
            .collect();
        if let Some(said) = self.terminal.said() {
            terminals.push_front(self.shown(said, Duration::ZERO));
        }
        let early = self.link.as_ref().map_or_else(|| Ok(Early::default()), Link::early);
        let unread = early.as_ref().err().map(|error| format!("{error:#}"));
        let Early { others, drops } = early.unwrap_or_default();
        let counters = self.terminal.counters().and(self.inlet.drops()).and(drops);
        let refused = shown::refusals(&counters, others);
        State {
            access_point: name,
            known_by: known_by.into(),
            interface,
            way: self.setup.way.say(),
            function: self.terminal.verdict().function.to_string(),
            rules: format!("{:08x}", self.setup.rules.digest()),
            dry_run: self.setup.dry_run,
            air_kbit: self.terminal.verdict().air_kbit,
            hungry: self.terminal.verdict().hungry,
            terminals: terminals.into(),
            messages: serde_json::json!({
                "counted": counters, "other_groups": others, "refused": refused,
            }),
            unfiltered: self.link.as_ref().and_then(Link::unfiltered),
            reopened: self.reopened,
            trouble: unread.or_else(|| self.trouble.clone()),
        }
    }

    fn why(&self, choice: Option<&Choice>, cookie: Option<u64>) -> String {
        let why = choice.map(|choice| choice.why.to_string()).unwrap_or_default();
        match cookie.is_some_and(|cookie| self.withdrawn.contains(&cookie)) {
            true => format!("{why}; but the guard found that steady hurts here"),
            false => why,
        }
    }

    fn shown(&self, report: &Report, age: Duration) -> shown::Terminal {
        let own = report.terminal == self.me;
        let decisions = &self.terminal.verdict().decisions;
        let decision = decisions.iter().find(|d| d.terminal == report.terminal);
        let flows = report.flows.iter().map(|flow| {
            let choice = decision.and_then(|d| d.flows.iter().find(|c| c.flow == flow.id));
            let decided = choice.map(|choice| choice.treatment).unwrap_or_default();
            let cookie = own.then(|| self.terminal.flows.cookie(flow.id)).flatten();
            let ends = cookie.and_then(|cookie| self.looks.ends(cookie));
            shown::Flow {
                flow: flow.id,
                ends: ends.map(ToString::to_string),
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
                why: self.why(choice, cookie),
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

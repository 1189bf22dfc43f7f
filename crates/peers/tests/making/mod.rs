//! Terminals, flows and groups to try things on.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::time::Duration;

use proptest::prelude::*;
use transom_peers::seal::{GroupKey, Seal};
use transom_peers::wire::Session;
use transom_peers::{
    Algorithm, Flow, Group, Heard, MOST_FLOWS, Report, TerminalId, Treatment, tidy_name,
};

pub const AP: &str = "02:00:00:00:00:01";

pub fn key() -> GroupKey {
    GroupKey::new([7; 32])
}

pub fn seal() -> Seal {
    Seal::new(&key(), AP)
}

pub fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

pub fn id(number: u64) -> TerminalId {
    TerminalId(number.to_be_bytes())
}

/// A hungry upload over a path of 100 ms.
pub fn flow(number: u32) -> Flow {
    Flow {
        id: number,
        cwnd: 50,
        ssthresh: Some(40),
        srtt_us: 140_000,
        min_rtt_us: 100_000,
        mss: 1448,
        goodput_kbit: 6000,
        losses: 0,
        unsteady: 10,
        hungry: true,
        unstable: false,
        treatment: Treatment::default(),
    }
}

pub fn report(number: u64) -> Report {
    Report {
        terminal: id(number),
        name: format!("phone{number}"),
        class: 10,
        rules: 0x1234_5678,
        air_kbit: 20_000,
        leaving: false,
        dry_run: false,
        flows: vec![flow(1)],
    }
}

/// A terminal with the key, and what it would say.
pub struct Terminal {
    pub group: Group,
    pub report: Report,
    pub session: Session,
}

impl Terminal {
    pub fn new(number: u64) -> Terminal {
        Terminal::with_session(number, Session(number << 32 | number))
    }

    pub fn with_session(number: u64, session: Session) -> Terminal {
        Terminal { group: Group::new(seal(), id(number), session), report: report(number), session }
    }

    pub fn speak(&mut self, now: Duration) -> Vec<u8> {
        self.group.speak(now, &self.report)
    }

    pub fn sees(&self) -> Vec<TerminalId> {
        self.group.members(ms(0)).iter().map(|member| member.report.terminal).collect()
    }

    pub fn hear(&mut self, now: Duration, sealed: &[u8]) -> Heard {
        self.group.hear(now, sealed)
    }
}

/// Everybody says something, and everybody hears it.
pub fn round(now: Duration, terminals: &mut [Terminal]) {
    let said: Vec<Vec<u8>> = terminals.iter_mut().map(|terminal| terminal.speak(now)).collect();
    for terminal in terminals.iter_mut() {
        terminal.group.expire(now);
        for sealed in &said {
            terminal.hear(now, sealed);
        }
    }
}

/// Enough rounds that everybody has proven itself to everybody.
pub fn acquainted(terminals: &mut [Terminal]) -> Duration {
    for n in 0..5 {
        round(ms(n * 500), terminals);
    }
    ms(2000)
}

prop_compose! {
    pub fn any_flow()(
        id in any::<u32>(),
        cwnd in 1..=2_003_000u32,
        ssthresh in proptest::option::of(1..=2_003_000u32),
        srtt_us in 1..=120_000_000u32,
        min_rtt_us in 1..=120_000_000u32,
        mss in 48..=65_495u16,
        goodput_kbit in 0..=100_000_000u32,
        (losses, unsteady) in (any::<u16>(), 0..=100u8),
        (hungry, unstable, steady) in any::<(bool, bool, bool)>(),
        cap in proptest::option::of(1..=2_003_000u32),
    ) -> Flow {
        let algorithm = if steady { Algorithm::Steady } else { Algorithm::Default };
        let treatment = Treatment { algorithm, cap };
        Flow {
            id, cwnd, ssthresh, srtt_us, min_rtt_us, mss, goodput_kbit, losses, unsteady, hungry,
            unstable, treatment,
        }
    }
}

prop_compose! {
    pub fn any_report()(
        terminal in any::<[u8; 8]>(),
        name in ".{0,24}",
        class in 1..=1000u16,
        rules in any::<u32>(),
        air_kbit in prop_oneof![Just(0), 0..=100_000_000u32],
        (leaving, dry_run) in (proptest::bool::weighted(0.1), any::<bool>()),
        mut flows in proptest::collection::vec(any_flow(), 0..=MOST_FLOWS),
    ) -> Report {
        flows.sort_by_key(|flow| flow.id);
        flows.dedup_by_key(|flow| flow.id);
        Report {
            terminal: TerminalId(terminal), name: tidy_name(&name), class, rules, air_kbit,
            leaving, dry_run, flows,
        }
    }
}

//! 200 terminals on one access point, in memory: through the seal and the form, to one decision.

mod making;

use making::{Terminal, ms};
use transom_peers::seal::MOST_SEALED;
use transom_peers::{Report, Rules, Verdict, decide};

const TERMINALS: u64 = 200;

fn decided(terminal: &Terminal, now: std::time::Duration) -> Verdict {
    let mut heard: Vec<Report> =
        terminal.group.members(now).into_iter().map(|member| member.report).collect();
    heard.push(terminal.report.clone());
    decide(&Rules::default(), &heard)
}

/// All say something within the period, one after the other, as they do in the air.
fn period(n: u64, all: &mut [Terminal]) -> usize {
    let mut bytes = 0;
    for speaker in 0..all.len() {
        let now = ms(n * 900 + speaker as u64 * 4);
        let said = all[speaker].speak(now);
        assert!(said.len() <= MOST_SEALED);
        bytes += said.len();
        for (i, terminal) in all.iter_mut().enumerate() {
            if i != speaker {
                terminal.hear(now, &said);
            }
        }
    }
    let now = ms(n * 900 + 900);
    for terminal in all {
        terminal.group.expire(now);
    }
    bytes
}

#[test]
fn two_hundred_terminals_find_each_other_and_decide_the_same() {
    let mut all: Vec<_> = (1..=TERMINALS).map(Terminal::new).collect();
    for (n, terminal) in all.iter_mut().enumerate() {
        terminal.report.class = 10 + (n as u16 % 3) * 5;
        terminal.report.flows[0].hungry = n % 4 != 0;
        terminal.report.flows[0].min_rtt_us = 2_000 + n as u32 * 1_000;
        terminal.report.air_kbit = 20_000 + n as u32;
    }
    let mut periods = 0;
    let everybody = TERMINALS as usize - 1;
    while all.iter().any(|terminal| terminal.sees().len() < everybody) {
        assert!(periods < 30, "not together after {periods} periods");
        period(periods, &mut all);
        periods += 1;
    }
    let now = ms(periods * 900);
    let verdict = decided(&all[0], now);
    assert_eq!(verdict.decisions.len(), TERMINALS as usize);
    assert!(all.iter().all(|terminal| decided(terminal, now) == verdict));

    let shares: u64 = verdict.decisions.iter().filter_map(|d| d.share_kbit).sum();
    assert!(shares <= verdict.air_kbit && shares + TERMINALS >= verdict.air_kbit);

    // Settled, each says its report and renews proofs now and then.
    let bytes: usize = (0..10).map(|n| period(periods + n, &mut all)).sum();
    let each = bytes / 10 / TERMINALS as usize;
    println!("together after {periods} periods; then {each} bytes a message");
    assert!(each < 250, "{each} bytes");
}

//! Pacing rates that a program set.

mod sender;

use sender::{MS, MSS, Program, Sender, Setup, analysis, assert_says, one};
use transom_analysis::{Cause, Limit};
use transom_event::{Body, Event, Kind};

#[test]
fn the_pacing_rate_that_the_program_set() {
    let analysis = analysis(Setup { pacing: Some(125_000), ..Setup::default() });
    assert_says(&analysis, Cause::Pacing, &["1 Mbit/s", "were achieved", "SO_MAX_PACING_RATE"]);
}

/// A sender whose program sets rates one after the other, bytes/s, each for so long, ms.
fn paced(rates: &[(u64, u64)], algorithm: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for (pacing, ms) in rates.iter().map(|(rate, ms)| (Some(*rate), ms)) {
        let setup = Setup { pacing, length_ns: ms * MS, ..Setup::default() };
        let before = events.last().copied();
        let skipped = usize::from(before.is_some());
        for mut event in Sender::new(setup).run().into_iter().skip(skipped) {
            if let (Some(last), Body::State(state)) = (&before, &mut event.body) {
                let sent = last.state().unwrap().snd_nxt;
                event.time_ns += last.time_ns;
                state.snd_una = state.snd_una.wrapping_add(sent);
                state.snd_nxt = state.snd_nxt.wrapping_add(sent);
            }
            events.push(event);
        }
    }
    if let Body::Open(open) = &mut events[0].body {
        open.algorithm = [0; 16];
        open.algorithm[..algorithm.len()].copy_from_slice(algorithm.as_bytes());
    }
    events
}

#[test]
fn rates_that_the_program_set_one_after_the_other_are_told_each_with_its_time() {
    let (fast, slow) = ((500_000, 3000), (125_000, 5000));
    for rates in [[fast, slow], [slow, fast]] {
        let analysis = one(&paced(&rates, "reno"));
        let words = ["at 2 rates: 1 Mbit/s for 4.", "4 Mbit/s for 2.", "sets these rates"];
        assert_says(&analysis, Cause::Pacing, &words);
        assert!(!analysis.verdict.text().contains("one rate"));
    }
}

#[test]
fn of_many_rates_the_longest_are_named_and_that_there_are_others() {
    let rates = [(500_000, 2500), (250_000, 3500), (125_000, 4500), (62_500, 5500)];
    for count in [4, 3] {
        let text = one(&paced(&rates[..count], "reno")).verdict.text();
        let (_, named) = text.split_once(&format!("at {count} rates: ")).expect(&text);
        let (named, _) = named.split_once("; ").expect(&text);
        assert_eq!(named.matches(" for ").count(), 3, "{text}");
        assert_eq!(named.ends_with(", …"), count > 3, "{text}");
    }
}

/// BBR keeps its estimate as long where it has found a policer.
#[test]
fn a_rate_that_was_higher_for_a_while_is_the_programs_unless_the_algorithm_estimates_it() {
    let rates = [(500_000, 1500), (125_000, 20_000)];
    assert_says(&one(&paced(&rates, "reno")), Cause::Pacing, &["at one rate, 1 Mbit/s"]);
    assert_ne!(one(&paced(&rates, "bbr")).verdict.cause, Cause::Pacing);
}

/// A program that writes a piece now and then, on a paced socket, and a recording that misses every other
/// acknowledgement: when the next piece leaves, only that one waits.
#[test]
fn a_piece_that_was_just_written_waited_for_no_pacing_though_an_acknowledgement_is_missing() {
    let program = Program::Chunks { bytes: u64::from(MSS), every_ns: 20 * MS };
    let setup = Setup { program, rtt_ns: 5 * MS, pacing: Some(1_000_000), ..Setup::default() };
    let mut events = Sender::new(setup).run();
    let mut acks = 0;
    events.retain(|event| {
        acks += u32::from(event.kind == Kind::Ack);
        event.kind != Kind::Ack || acks % 2 == 0
    });
    let limits = one(&events).limits;
    assert!(limits.share(Limit::Pacing) < 0.01, "{:?}", limits.total_ns);
    assert!(limits.share(Limit::Application) > 0.95, "{:?}", limits.total_ns);
}

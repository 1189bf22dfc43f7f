//! The words for people.

use std::fmt::Write as _;

use super::{Harm, Lever, Place, Suggestion};
use crate::text::{gains, interval_to, number};

/// What to do, why, how, and how to verify it.
pub fn suggestion(all: &Suggestion) -> String {
    let mut text = String::new();
    let least = (all.least_gain * 1e3).round() / 10.0;
    match all.levers.first() {
        None if all.is_too_short() => {
            let _ = writeln!(
                text,
                "The time was over before it was known whether a lever helps by more than {least} \
                 %: raise --budget."
            );
        }
        None => {
            let _ = writeln!(text, "No lever helps by more than {least} %: leave it as it is.");
        }
        Some(best) => {
            let _ = writeln!(text, "Best: {}.", what(best));
            details(&mut text, best);
            alternatives(&mut text, all, best);
        }
    }
    if let Some(lever) = &all.for_delay {
        let _ = writeln!(
            text,
            "\nIf the delay matters: {}, a round trip of {} ms (95th percentile; {} to {}), at {} \
             times the recorded goodput.",
            lever.label,
            number(lever.rtt_p95_s.value * 1e3),
            number(lever.rtt_p95_s.low * 1e3),
            number(lever.rtt_p95_s.high * 1e3),
            number(lever.gain.value),
        );
        lines(&mut text, &lever.commands);
    }
    for lever in &all.elsewhere {
        let _ = writeln!(text, "\nNot set here: {}: {}.", what(lever), lever.conditions.join("; "));
    }
    if !all.undecided.is_empty() {
        let gains = gains(all.undecided.iter().map(|it| (it.label.as_str(), &it.gain)));
        let _ = writeln!(text, "\nWhether these help is not known: {gains}.");
    }
    if !all.complete && !all.is_too_short() {
        text.push_str("\nEnded early: levers are missing, or intervals wide. Raise --budget.\n");
    }
    for advice in &all.advice {
        let _ = writeln!(text, "\n{advice}");
    }
    text
}

/// `bbr, 3.1 times the goodput (2.6 to 3.5), 18.2 Mbit/s`.
fn what(lever: &Lever) -> String {
    if lever.is_least {
        return format!(
            "{}, at least {} times the goodput (the path was never filled, so that the trace does \
             not tell what it carries)",
            lever.label,
            number(lever.gain.low)
        );
    }
    let gain = interval_to(&lever.gain);
    format!(
        "{}, {gain} the goodput, {} Mbit/s, round trip {} ms (95th percentile)",
        lever.label,
        number(lever.goodput_mbit.value),
        number(lever.rtt_p95_s.value * 1e3)
    )
}

fn details(text: &mut String, lever: &Lever) {
    for harm in &lever.harms {
        let _ = writeln!(text, "  Harms others: {}.", harmed(harm));
    }
    if !lever.is_judged {
        text.push_str("  What it costs others was not simulated in that time: raise --budget.\n");
    }
    let place = match lever.place {
        Place::Tune => {
            "\nTo set it, until `transom tune clear` (-o POLICY.toml writes a policy for `transom \
             tune apply`):\n"
        }
        Place::Receiver => "\nTo set it, on the receiver's machine:\n",
        Place::Sysctl | Place::Elsewhere => "\nTo set it:\n",
    };
    text.push_str(place);
    lines(text, &lever.commands);
    for condition in &lever.conditions {
        let _ = writeln!(text, "  ({condition})");
    }
    text.push_str("To verify it, while the program does the same again:\n");
    lines(text, &lever.verification);
}

fn lines(text: &mut String, all: &[String]) {
    for line in all {
        let _ = writeln!(text, "  {line}");
    }
}

fn harmed(harm: &Harm) -> String {
    match harm {
        Harm::Share { cubic_mbit, instead_of_mbit } => format!(
            "a CUBIC flow beside it gets {} Mbit/s, beside the recorded setting {}",
            number(*cubic_mbit),
            number(*instead_of_mbit)
        ),
        Harm::Queue { rtt_p95_s, instead_of_s } => format!(
            "everybody at the bottleneck waits in its queue, round trips of {} ms (95th \
             percentile) instead of {}",
            number(rtt_p95_s * 1e3),
            number(instead_of_s * 1e3)
        ),
    }
}

/// What else helps; of a best one that harms others, the best that does not comes with its commands.
fn alternatives(text: &mut String, all: &Suggestion, best: &Lever) {
    let mut others: Vec<&Lever> = all.levers.iter().skip(1).collect();
    if !best.is_harmless() {
        match others.iter().position(|it| it.is_harmless() && it.is_judged) {
            None => text.push_str("\nNo lever helps without harm to others.\n"),
            Some(at) => {
                let harmless = others.remove(at);
                let _ = writeln!(text, "\nBest without harm to others: {}.", what(harmless));
                lines(text, &harmless.commands);
            }
        }
    }
    if others.is_empty() {
        return;
    }
    text.push_str("\nThese help, too:\n");
    for lever in others {
        let harms: Vec<String> = lever.harms.iter().map(harmed).collect();
        let harms = match harms.is_empty() {
            true => String::new(),
            false => format!("; harms others: {}", harms.join("; ")),
        };
        let _ = writeln!(text, "  {}{harms}", what(lever));
    }
}

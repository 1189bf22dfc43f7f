//! What led to a recording, for a page: the words of `last_decisions` for people.

use transom_event::text::Utc;
use transom_spool::Prelude;
use transom_view::report::Before;

pub fn before(prelude: &Prelude) -> Before {
    Before {
        heading: format!(
            "Before it was chosen at {} UTC ({}), seen by level 1:",
            Utc::from_us(prelude.chosen.0).format("%H:%M:%S"),
            prelude.why.name()
        ),
        steps: prelude.decisions.split("; ").map(phrase).collect(),
    }
}

/// `-1.250 s open>recovery 34`; what is not of this form stays as it is.
fn phrase(decision: &str) -> String {
    let words: Vec<&str> = decision.split(' ').collect();
    let [seconds, "s", what, value @ ..] = words.as_slice() else { return decision.to_owned() };
    let what = match (*what, value) {
        ("timeout", [nth]) => format!("timeout, number {nth} in a row"),
        ("syn", [times]) => format!("SYN retransmitted, {times} so far"),
        ("window_clamp", [bytes]) => format!("window clamp of {bytes} B"),
        ("clamp", [segments]) => format!("congestion window limited to {segments}"),
        (change, [cwnd]) if change.contains('>') => {
            format!("{}, cwnd {cwnd}", change.replace('>', " → "))
        }
        (what, value) => [&[what], value].concat().join(" ").replace('_', " "),
    };
    format!("{} s: {what}", seconds.replace('-', "−"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_is_said_in_words() {
        for (decision, said) in [
            ("-1.250 s open>recovery 34", "−1.250 s: open → recovery, cwnd 34"),
            ("-0.000 s timeout 2", "−0.000 s: timeout, number 2 in a row"),
            ("-2.997 s window_clamp 9000", "−2.997 s: window clamp of 9000 B"),
            ("-2.997 s reset_sent", "−2.997 s: reset sent"),
            ("-2.997 s tuned 3", "−2.997 s: tuned 3"),
            ("of a later version", "of a later version"),
        ] {
            assert_eq!(phrase(decision), said);
        }
    }
}

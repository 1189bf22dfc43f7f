//! The words for people.

use std::fmt::Write as _;

use transom_analysis::Analysis;

use crate::change::Lift;
use crate::interval::Interval;
use crate::model::{Model, Program, Sender};
use crate::parameter::Parameter;
use crate::verify::Verified;
use crate::whatif::{GAIN, Prediction, WhatIf};

pub use crate::suggest::text::suggestion;

/// The fitted model, a line each number.
pub fn model(model: &Model) -> String {
    let mut text = String::from("Fitted to the recording:\n");
    for (name, unit, scale, parameter) in model.parameters() {
        let Parameter { value, low, high, reason } = parameter;
        let high = high.map_or("…".to_owned(), |high| number(high * scale));
        let interval = format!("({} to {high})", number(low * scale));
        let value = format!("{} {unit}", number(value * scale));
        let _ = writeln!(text, "  {name:18} {value:>14}  {interval:22} {reason}");
    }
    let _ = writeln!(text, "  {:18} {}", "sender", sender(&model.sender));
    let _ = writeln!(text, "  {:18} {}", "program", program(&model.program));
    for note in &model.notes {
        let _ = writeln!(text, "  Note: {note}");
    }
    text
}

/// What it had set, and what its device takes at once.
fn sender(sender: &Sender) -> String {
    let mut parts = vec![if sender.algorithm.is_empty() {
        "an algorithm that was not recorded".to_owned()
    } else {
        sender.algorithm.clone()
    }];
    parts.extend(sender.initial_window.map(|it| format!("initial window {it}")));
    parts.extend(sender.cap.map(|it| format!("cap {it}")));
    parts.extend(sender.send_buffer.map(|it| format!("SO_SNDBUF {it}")));
    let pacing = |it| format!("SO_MAX_PACING_RATE {} Mbit/s", number(it as f64 * 8e-6));
    parts.extend(sender.pacing.map(pacing));
    if sender.gso_segments < UNLIMITED_GSO {
        parts.push(format!("at most {} segments at once", sender.gso_segments));
    }
    parts.join(", ")
}

/// `gso_max_segs` of devices that do not limit it.
const UNLIMITED_GSO: u32 = 65_535;

fn program(program: &Program) -> String {
    match program {
        Program::Endless => "wrote as much as the socket took, until the recording ended".into(),
        Program::Bytes { bytes } => format!("wrote {bytes} bytes at once, then closed"),
        Program::Writes { writes } => format!("{} writes at their times", writes.len()),
        Program::Requests { request, response, think_s, count } => format!(
            "asked {count} times with {request} bytes, waited for {response}, thought for {:.0} ms",
            think_s * 1e3
        ),
    }
}

/// Three digits, as many of them before the point as there are.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.1 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn interval(it: &Interval, scale: f64) -> String {
    let Interval { value, low, high } = *it;
    let [value, low, high] = [value, low, high].map(|it| number(it * scale));
    if low == high { value } else { format!("{value} ({low}–{high})") }
}

/// What came of it.
pub fn whatif(model: &Model, analysis: &Analysis, result: &WhatIf) -> String {
    let mut text = String::new();
    replay(&mut text, result);
    if !result.mismatches.is_empty() || result.replayed.is_none() {
        return text;
    }
    table(&mut text, result);
    text.push_str(&conclusion(model, analysis, result));
    if result.predictions.is_empty() {
        text.push_str(
            "\nNo other setting was simulated in that time: no prediction. Raise --budget.\n",
        );
    } else if !result.complete {
        text.push_str("\nEnded early: intervals are of fewer simulations than usual.\n");
    }
    if let Some(failure) = &result.failure {
        let _ = writeln!(text, "\nLeft out, as a simulation failed: {failure}");
    }
    text
}

/// What was recorded beside its replay, in one line; and why there is no prediction.
pub fn replayed(result: &WhatIf) -> String {
    let mut text = String::new();
    replay(&mut text, result);
    text
}

fn replay(text: &mut String, result: &WhatIf) {
    let recorded = &result.recorded;
    let Some(replayed) = &result.replayed else {
        text.push_str("No simulation was finished: no prediction. Raise --budget.\n");
        return;
    };
    let _ = writeln!(
        text,
        "Replayed with unchanged settings (recorded): {} Mbit/s ({}), RTT {} ms ({}), 95 % below {} ms ({}), {} segments retransmitted ({}), cwnd {} ({}).",
        number(replayed.goodput_mbit),
        number(recorded.goodput_mbit),
        number(replayed.rtt_median_s * 1e3),
        number(recorded.rtt_median_s * 1e3),
        number(replayed.rtt_p95_s * 1e3),
        number(recorded.rtt_p95_s * 1e3),
        replayed.retransmitted,
        recorded.retransmitted,
        replayed.cwnd_median,
        recorded.cwnd_median,
    );
    if !result.mismatches.is_empty() {
        text.push_str("The model is not what was recorded: no prediction.\n");
        for mismatch in &result.mismatches {
            let _ = writeln!(text, "  {}", mismatch.text);
        }
        if !result.complete {
            text.push_str("Ended early, after fewer replays than usual: raise --budget.\n");
        }
    }
}

fn table(text: &mut String, result: &WhatIf) {
    let _ = writeln!(
        text,
        "\n{:30} {:>16} {:>17} {:>16} {:>15} {:>14}",
        "setting", "times recorded", "Mbit/s", "p95 RTT ms", "retransmitted", "CUBIC gets"
    );
    for prediction in result.predictions.iter().chain(&result.unchanged) {
        row(text, prediction);
    }
}

fn row(text: &mut String, prediction: &Prediction) {
    let open = if prediction.is_open { "?" } else { "" };
    let others = prediction.others.map_or(String::new(), |others| {
        format!("{:.0}%, {} ms", others.share * 100.0, number(others.rtt_median_s * 1e3))
    });
    let _ = writeln!(
        text,
        "{:30} {:>16} {:>17} {:>16} {:>15} {:>14}",
        prediction.label,
        interval(&prediction.gain, 1.0) + open,
        interval(&prediction.goodput_mbit, 1.0),
        interval(&prediction.rtt_p95_s, 1e3),
        interval(&prediction.retransmitted, 1.0),
        others,
    );
}

/// What came of it in a few sentences: the best lever, and limits that are not TCP's.
fn conclusion(model: &Model, analysis: &Analysis, result: &WhatIf) -> String {
    let mut text = String::from("\n");
    match result.helpful().first() {
        Some(best) => {
            let gain = interval_to(&best.gain);
            let _ = writeln!(text, "Best: {}, {gain} the goodput.", best.label);
        }
        None => text.push_str(&nothing_helps(result)),
    }
    let verdict = analysis.verdict.findings.first().map_or("", String::as_str);
    for limit in limits(model, result) {
        let _ = writeln!(text, "A limit that is not TCP's: {verdict} {limit}");
    }
    for open in result.of_tcp().filter(|it| it.is_open) {
        let _ = writeln!(text, "{}: {}.", open.label, left_open(model, open));
    }
    text
}

fn nothing_helps(result: &WhatIf) -> String {
    if result.of_tcp().next().is_none() {
        return String::new();
    }
    match &result.undecided(GAIN)[..] {
        [] if result.skipped == 0 => {
            "None of these settings of TCP would have made it faster.\n".into()
        }
        [] => "None of the settings of TCP that were simulated would have made it faster.\n".into(),
        open => format!(
            "None of these settings of TCP is known to make it faster. It may be: {}.\n",
            gains(open.iter().map(|it| (it.label.as_str(), &it.gain)))
        ),
    }
}

/// `bbr, 5.53 times (0.60 to 51.0); reno, …`.
pub(crate) fn gains<'a>(all: impl Iterator<Item = (&'a str, &'a Interval)>) -> String {
    let all: Vec<String> =
        all.map(|(label, gain)| format!("{label}, {}", interval_to(gain))).collect();
    all.join("; ")
}

/// The same in one paragraph, for those who read about the connection elsewhere.
pub fn lever(model: &Model, result: &WhatIf) -> String {
    if let Some(mismatch) = result.mismatches.first() {
        return unpredicted(&mismatch.text);
    }
    if result.replayed.is_none() || result.predictions.is_empty() {
        return "What other settings would have done is not known: no simulation was finished."
            .to_owned();
    }
    let helpful = result.helpful();
    let mut parts: Vec<String> = helpful
        .iter()
        .map(|it| format!("with {} {} the goodput", it.label, interval_to(&it.gain)))
        .collect();
    let rest = || result.of_tcp().filter(|it| !it.is_open && !helpful.contains(it));
    let slows = |it: &&Prediction| it.gain.high < 1.0 && it.gain.value < 1.0 - GAIN;
    let named = |what: &str, all: Vec<&Prediction>| {
        let labels: Vec<&str> = all.iter().map(|it| it.label.as_str()).collect();
        (!all.is_empty()).then(|| format!("with {} {what}", labels.join(", ")))
    };
    parts.extend(named("no difference", rest().filter(|it| !slows(it)).collect()));
    parts.extend(named("less", rest().filter(slows).collect()));
    let open: Vec<&Prediction> = result.of_tcp().filter(|it| it.is_open).collect();
    parts.extend(named("no prediction", open.clone()));
    let may_help = open.iter().any(|it| it.may_help(GAIN));
    let begin = match (helpful.is_empty(), may_help) {
        (false, _) => "What helps",
        (true, false) => "No setting of TCP helps",
        (true, true) => "No setting of TCP is known to help",
    };
    let mut text = format!("{begin}: {}.", parts.join("; "));
    for limit in limits(model, result) {
        text.push(' ');
        text.push_str(&limit);
    }
    if !result.complete {
        text.push_str(" The time was over before all was simulated (give more: `--whatif=1min`).");
    }
    text
}

/// For those who ask with more than a prediction: why there is none, a whole sentence.
pub fn unpredicted(why: &str) -> String {
    format!("What other settings would have done cannot be predicted: {why}")
}

/// `3.1 times (2.6 to 3.5)`.
pub(crate) fn interval_to(it: &Interval) -> String {
    format!("{} times ({} to {})", number(it.value), number(it.low), number(it.high))
}

/// By how much each limit that is not TCP's would have to move.
fn limits(model: &Model, result: &WhatIf) -> Vec<String> {
    let lifted = result.predictions.iter().filter(|it| it.gain.value > 1.0 + GAIN);
    let limit = |it: &Prediction| it.change.lift.map(|lift| limit(model, lift, it));
    lifted.filter_map(limit).collect()
}

fn limit(model: &Model, lift: Lift, without: &Prediction) -> String {
    if without.is_open {
        let least = match without.gain.low {
            low if low > 1.0 + GAIN => format!("at least {} times as much", number(low)),
            _ => "more, but it is not known how much".to_owned(),
        };
        return format!("With {} {least}: {}.", lift.label(), left_open(model, without));
    }
    let path = &model.path;
    let rate = path.policer.as_ref().map_or(path.rate.value, |policer| policer.rate.value);
    let kilobytes = number(rate * path.rtt_s.value / 1e3);
    let goodput = number(without.goodput_mbit.value);
    let needed = match lift {
        Lift::SendBuffer => format!("it must hold {kilobytes} kB in flight to fill the path"),
        Lift::ReceiverWindow => format!("it must be {kilobytes} kB to fill the path"),
        Lift::Reader => format!("it must read {goodput} Mbit/s"),
        Lift::Application => format!("it must write {goodput} Mbit/s"),
        Lift::Pacing => format!("it must be above {} Mbit/s", number(rate * 8e-6)),
        Lift::Device => format!("it must send {goodput} Mbit/s"),
    };
    format!("With {} {} times as much: {needed}.", lift.label(), number(without.gain.value))
}

/// Why there is no number for it.
fn left_open(model: &Model, of: &Prediction) -> String {
    if model.path.is_open() || of.change.lift.is_some() {
        return "the path was never filled, so that the trace does not tell what it carries".into();
    }
    let [low, high] = [of.gain.low, of.gain.high].map(number);
    match model.is_random() {
        true => format!("it depends on where losses fall ({low} to {high} times)"),
        false => format!("the trace leaves too much open ({low} to {high} times)"),
    }
}

/// Prediction and outcome side by side.
pub fn verified(label: &str, all: &[Verified]) -> String {
    let mut text = format!("Predicted for {label}, and recorded after it:\n");
    for it in all {
        let ratio = it.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "  {:22} {:>10} ({} to {}) {}, recorded {}: {ratio} times",
            it.what,
            number(it.predicted),
            number(it.low),
            number(it.high),
            it.unit,
            number(it.recorded),
        );
    }
    text
}

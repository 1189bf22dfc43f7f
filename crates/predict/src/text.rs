//! The words for people.

use std::fmt::Write as _;

use transom_analysis::Analysis;

use crate::change::Lift;
use crate::model::{Model, Program};
use crate::parameter::Parameter;
use crate::verify::Verified;
use crate::whatif::{Interval, Prediction, WhatIf};

/// Goodput that changes by less than this is no gain.
const GAIN: f64 = 0.05;

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
    let _ = writeln!(text, "  {:18} {}", "program", program(&model.program));
    for note in &model.notes {
        let _ = writeln!(text, "  Note: {note}");
    }
    text
}

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
fn number(value: f64) -> String {
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
    if !result.complete {
        text.push_str("\nEnded early: intervals are of fewer simulations than usual.\n");
    }
    text
}

fn replay(text: &mut String, result: &WhatIf) {
    let recorded = &result.recorded;
    let Some(replayed) = &result.replayed else {
        text.push_str("No simulation was finished: no prediction.\n");
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

/// The best lever, in a sentence.
pub fn conclusion(model: &Model, analysis: &Analysis, result: &WhatIf) -> String {
    let mut text = String::from("\n");
    let is_tcp = |it: &&Prediction| it.change.lift.is_none();
    let best = result.predictions.iter().filter(|it| !it.is_open).find(is_tcp);
    let best = best.filter(|it| it.gain.value > 1.0 + GAIN && it.gain.low > 1.0);
    match best {
        Some(best) => {
            let _ = writeln!(
                text,
                "Best: {}, {} times the goodput ({} to {}).",
                best.label,
                number(best.gain.value),
                number(best.gain.low),
                number(best.gain.high)
            );
        }
        None if result.predictions.iter().any(|it| is_tcp(&it)) => {
            text.push_str("None of these settings of TCP would have made it faster.\n");
        }
        None => {}
    }
    let lifts = result.predictions.iter().filter(|it| it.change.lift.is_some());
    for lifted in lifts.filter(|it| it.gain.value > 1.0 + GAIN) {
        let Some(lift) = lifted.change.lift else { continue };
        let _ = writeln!(text, "{}", limit(model, analysis, lift, lifted));
    }
    for open in result.predictions.iter().filter(|it| it.is_open) {
        let _ = writeln!(
            text,
            "{}: the trace leaves too much open ({} to {} times): what the path would do beyond what was sent was never seen.",
            open.label,
            number(open.gain.low),
            number(open.gain.high)
        );
    }
    text
}

/// By how much a limit that is not TCP's would have to move.
fn limit(model: &Model, analysis: &Analysis, lift: Lift, without: &Prediction) -> String {
    let path = &model.path;
    let rate = path.policer.as_ref().map_or(path.rate.value, |policer| policer.rate.value);
    let kilobytes = rate * path.rtt_s.value / 1e3;
    let gain = number(without.gain.value);
    let verdict = analysis.verdict.findings.first().map_or("", String::as_str);
    let needed = match lift {
        Lift::SendBuffer => {
            format!("it must hold {} kB in flight to fill the path", number(kilobytes))
        }
        Lift::ReceiverWindow => format!("it must be {} kB to fill the path", number(kilobytes)),
        Lift::Reader => format!("it must read {} Mbit/s", number(without.goodput_mbit.value)),
        Lift::Application => format!("it must write {} Mbit/s", number(without.goodput_mbit.value)),
        Lift::Pacing => format!("it must be above {} Mbit/s", number(rate * 8e-6)),
        Lift::Device => format!("it must send {} Mbit/s", number(without.goodput_mbit.value)),
    };
    format!(
        "A limit that is not TCP's: {verdict} With {} {gain} times as much: {needed}.",
        lift.label()
    )
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

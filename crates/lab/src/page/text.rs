//! Results as plain text: a table of claims for the terminal, all numbers as CSV.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use super::{Count, Results};
use crate::claims::{Controlled, Judged, Outcome, Verdict};
use crate::progress::clock;
use crate::run::campaign::VIRTUAL;
use crate::sweep::canonical;

/// A number with about three digits that matter.
pub fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        n if n >= 99.5 => format!("{number:.0}"),
        n if n >= 9.95 => format!("{number:.1}"),
        n if n >= 0.0995 => format!("{number:.2}"),
        n if n >= 0.001 => format!("{number:.4}"),
        _ => format!("{number:.1e}"),
    }
}

/// What the number must be: `7.6 to 8.8`, `at least 0.9`.
pub fn bounds(verdict: &Verdict) -> String {
    match (verdict.at_least, verdict.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", short(least), short(most)),
        (Some(least), None) => format!("at least {}", short(least)),
        (None, Some(most)) => format!("at most {}", short(most)),
        (None, None) => String::new(),
    }
}

/// The 95 % confidence interval: `7.21 to 7.34`; empty of one repeat.
pub fn interval(judged: &Judged) -> String {
    match judged.interval {
        Some((low, high)) => format!("{} to {}", short(low), short(high)),
        None => String::new(),
    }
}

/// `reproduced`, `not reproduced, 0.3 below`, `undecided with 2 repeats`, `not run: no run at …`.
pub fn outcome(judged: &Judged) -> String {
    match &judged.outcome {
        Outcome::Reproduced => "reproduced".to_owned(),
        Outcome::NotReproduced { by } => {
            let side = if *by < 0.0 { "below" } else { "above" };
            format!("not reproduced, {} {side}", short(by.abs()))
        }
        Outcome::Undecided { inside } => {
            let runs = if judged.repeats == 1 { "repeat" } else { "repeats" };
            let side = if *inside { "within" } else { "outside" };
            format!("undecided with {} {runs}, the number is {side}", judged.repeats)
        }
        Outcome::NotRun { why } => format!("not run: {why}"),
    }
}

/// What became of the claim itself, where calibration is said before all.
pub fn verdict(verdict: &Verdict) -> String {
    match &verdict.calibrated {
        Some(_) => format!("calibrated ({})", outcome(&verdict.judged)),
        None => outcome(&verdict.judged),
    }
}

/// Why a calibrated claim is not counted, and what each control said of it.
pub fn remarks(verdict: &Verdict) -> Vec<String> {
    let calibrated = verdict.calibrated.iter().map(|why| format!("Not counted: {why}"));
    calibrated.chain(verdict.controls.iter().map(control)).collect()
}

/// A claim that a control passes says nothing about what it names.
fn control(controlled: &Controlled) -> String {
    let Controlled { control, judged } = controlled;
    let number = judged.number.map(short).unwrap_or_default();
    let interval = match interval(judged) {
        interval if interval.is_empty() => interval,
        interval => format!(" ({interval})"),
    };
    match &judged.outcome {
        Outcome::NotReproduced { .. } => {
            format!("Control \"{control}\" fails as it must: {number}{interval}")
        }
        Outcome::Reproduced => format!(
            "WARNING: the claim passes without what it names: control \"{control}\" gives \
             {number}{interval}"
        ),
        Outcome::Undecided { .. } => {
            format!("Control \"{control}\": {}: {number}{interval}", outcome(judged))
        }
        Outcome::NotRun { .. } => format!("Control \"{control}\": {}", outcome(judged)),
    }
}

/// `Virtual time: Linux 6.12.117 simulated for 19 min, which took 41 s, run by run.`; none of real
/// runs.
pub fn virtual_time(manifest: &Value) -> Option<String> {
    if manifest["backend"] != VIRTUAL {
        return None;
    }
    let time = &manifest["virtual_time"];
    let kernels: Vec<&str> = time["simulated_kernels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let seconds = |key: &str| time[key].as_f64().map(clock);
    Some(match (seconds("virtual_s"), seconds("wall_s")) {
        (Some(passed), Some(took)) => format!(
            "Virtual time: Linux {} simulated for {passed}, which took {took}, run by run.",
            kernels.join(", ")
        ),
        _ => "Virtual time: the runs were simulated.".to_owned(),
    })
}

/// The claims with their verdicts, for a terminal of 100 columns.
pub fn table(results: &Results) -> String {
    let verdicts = results.verdicts();
    let mut text = format!("{}\n", results.loaded.experiment.title);
    if let Some(time) = virtual_time(&results.manifest) {
        let _ = writeln!(text, "{time}");
    }
    for verdict in &verdicts {
        let mark = match verdict.judged.outcome {
            _ if verdict.calibrated.is_some() => "cal",
            Outcome::Reproduced => "yes",
            Outcome::NotReproduced { .. } => "NO ",
            Outcome::Undecided { .. } => " ? ",
            Outcome::NotRun { .. } => " - ",
        };
        for (n, line) in wrapped(&verdict.text, 92).iter().enumerate() {
            let _ = writeln!(text, "  {}  {line}", if n == 0 { mark } else { "   " });
        }
        let _ = writeln!(text, "       {}", numbers(verdict).join("  "));
        for line in remarks(verdict).iter().flat_map(|remark| wrapped(remark, 92)) {
            let _ = writeln!(text, "       {line}");
        }
    }
    let count = Count::of(&verdicts);
    if !verdicts.is_empty() {
        let _ = writeln!(text, "  {}", count.in_words());
    }
    text
}

fn numbers(verdict: &Verdict) -> Vec<String> {
    let judged = &verdict.judged;
    let mut parts = Vec::new();
    if let Some(number) = judged.number {
        parts.push(format!("measured {}", short(number)));
    }
    if judged.interval.is_some() {
        parts.push(format!("({})", interval(judged)));
    }
    parts.push(format!("wanted {}", bounds(verdict)));
    if let Some(published) = verdict.published {
        parts.push(format!("published {}", short(published)));
    }
    if !matches!(judged.outcome, Outcome::Reproduced) {
        parts.push(outcome(judged));
    }
    parts
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Every number of every run: swept keys, repeat, seed, then `metric` and `flow.metric`.
pub fn csv(results: &Results) -> String {
    let keys: Vec<&String> = results.loaded.experiment.sweep.keys().collect();
    let mut columns = BTreeSet::new();
    for run in &results.runs {
        columns.extend(run.measured.run.keys().map(|metric| (String::new(), metric.clone())));
        for (flow, numbers) in &run.measured.flows {
            columns.extend(numbers.keys().map(|metric| (flow.clone(), metric.clone())));
        }
    }
    let named = columns.iter().map(|(flow, metric)| {
        if flow.is_empty() { metric.clone() } else { format!("{flow}.{metric}") }
    });
    let head = keys.iter().map(|key| quoted(key)).chain(["repeat".into(), "seed".into()]);
    let mut text = head.chain(named).collect::<Vec<_>>().join(",") + "\n";
    for run in &results.runs {
        let measured = &run.measured;
        let point = keys.iter().map(|key| {
            measured.point.get(*key).map(|value| quoted(&canonical(value))).unwrap_or_default()
        });
        let which = [measured.repeat.to_string(), measured.seed.to_string()];
        let numbers = columns.iter().map(|(flow, metric)| {
            let of = if flow.is_empty() { Some(&measured.run) } else { measured.flows.get(flow) };
            of.and_then(|numbers| numbers.get(metric)).map(f64::to_string).unwrap_or_default()
        });
        text += &(point.chain(which).chain(numbers).collect::<Vec<_>>().join(",") + "\n");
    }
    text
}

/// RFC 4180.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_that_matter() {
        let numbers = [0.0, 0.00214, 0.25, 3.456, 66.04, 256.3, -8.2, 0.0002];
        let texts = ["0", "0.0021", "0.25", "3.46", "66.0", "256", "-8.20", "2.0e-4"];
        assert_eq!(numbers.map(short), texts);
    }

    #[test]
    fn fields_of_csv_are_quoted_where_they_must() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn a_control_that_passes_is_a_warning() {
        let of = |outcome, interval| {
            let judged = Judged { outcome, number: Some(1.17), interval, repeats: 2 };
            control(&Controlled { control: "CUBIC".into(), judged })
        };
        assert_eq!(
            of(Outcome::Reproduced, Some((1.15, 1.19))),
            "WARNING: the claim passes without what it names: control \"CUBIC\" gives 1.17 (1.15 to 1.19)"
        );
        assert_eq!(
            of(Outcome::NotReproduced { by: -0.1 }, Some((1.15, 1.19))),
            "Control \"CUBIC\" fails as it must: 1.17 (1.15 to 1.19)"
        );
        assert_eq!(
            of(Outcome::Undecided { inside: false }, None),
            "Control \"CUBIC\": undecided with 2 repeats, the number is outside: 1.17"
        );
    }
}

//! Results as plain text: a table of claims for the terminal, all numbers as CSV.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Results, count};
use crate::claims::{Outcome, Verdict};
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

pub fn spread(verdict: &Verdict) -> String {
    match verdict.spread {
        Some((low, high)) => format!("{} to {}", short(low), short(high)),
        None => String::new(),
    }
}

/// `reproduced`, `not reproduced, 0.3 below`, `not run: no run at …`.
pub fn outcome(verdict: &Verdict) -> String {
    match &verdict.outcome {
        Outcome::Reproduced => "reproduced".to_owned(),
        Outcome::NotReproduced { by } => {
            let side = if *by < 0.0 { "below" } else { "above" };
            format!("not reproduced, {} {side}", short(by.abs()))
        }
        Outcome::NotRun { why } => format!("not run: {why}"),
    }
}

/// The claims with their verdicts, for a terminal of 100 columns.
pub fn table(results: &Results) -> String {
    let verdicts = results.verdicts();
    let mut text = format!("{}\n", results.loaded.experiment.title);
    for verdict in &verdicts {
        let mark = match verdict.outcome {
            Outcome::Reproduced => "yes",
            Outcome::NotReproduced { .. } => "NO ",
            Outcome::NotRun { .. } => " - ",
        };
        for (n, line) in wrapped(&verdict.text, 92).iter().enumerate() {
            let _ = writeln!(text, "  {}  {line}", if n == 0 { mark } else { "   " });
        }
        let mut parts = Vec::new();
        if let Some(number) = verdict.number {
            parts.push(format!("measured {}", short(number)));
        }
        let spread = spread(verdict);
        if !spread.is_empty() {
            parts.push(format!("({spread})"));
        }
        parts.push(format!("wanted {}", bounds(verdict)));
        if let Some(published) = verdict.published {
            parts.push(format!("published {}", short(published)));
        }
        if !matches!(verdict.outcome, Outcome::Reproduced) {
            parts.push(outcome(verdict));
        }
        let _ = writeln!(text, "       {}", parts.join("  "));
    }
    let (reproduced, decided, all) = count(&verdicts);
    if all > 0 {
        let open =
            if decided < all { format!(", {} not run", all - decided) } else { String::new() };
        let _ = writeln!(text, "  {reproduced} of {decided} claims reproduced{open}");
    }
    text
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
}

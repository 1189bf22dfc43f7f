//! Questions and answers on the standard output.

use anyhow::Result;
use serde_json::{Map, Value};
use transom_output::{plain, say};
use transom_spool::Time;

use super::duckdb::Answer;
use super::time::utc;
use crate::questions::{self, Question};

pub fn list() -> Result<()> {
    for question in questions::all() {
        say!("{:<18} {}", question.name, question.title)?;
    }
    say!("\n`transom-fleet ask QUESTION --about` says what one needs and answers with.")?;
    Ok(())
}

pub fn about(question: &Question) -> Result<()> {
    say!("{}", question.title)?;
    if !question.parameters.is_empty() {
        say!("\nParameters:")?;
    }
    for parameter in &question.parameters {
        let default = match parameter.default {
            Some(default) => format!("{}={default}", parameter.name),
            None => format!("{}=…", parameter.name),
        };
        say!("  {default:<22} {}", parameter.meaning)?;
    }
    say!("\nAnswers with:")?;
    for (name, meaning) in &question.columns {
        say!("  {name:<22} {meaning}")?;
    }
    Ok(())
}

/// An array with an object for each row.
pub fn objects(answer: &Answer) -> Value {
    let object = |row: &Vec<Value>| {
        let pairs = answer.columns.iter().zip(row);
        pairs.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>()
    };
    answer.rows.iter().map(object).map(Value::Object).collect()
}

pub fn json(answer: &Answer) -> Result<()> {
    say!("{}", serde_json::to_string_pretty(&objects(answer))?)?;
    Ok(())
}

/// # Errors
/// Of the standard output.
pub fn table(answer: &Answer, question: &Question) -> Result<()> {
    for line in lines(answer, question) {
        say!("{line}")?;
    }
    Ok(())
}

/// What hosts wrote into their rows stays in its cell.
fn lines(answer: &Answer, question: &Question) -> Vec<String> {
    if answer.rows.is_empty() {
        return vec!["none".to_owned()];
    }
    let is_time = |at: usize| {
        let is_it = |(name, _): &&(&str, &str)| *name == answer.columns[at];
        question.columns.iter().find(is_it).is_some_and(|(_, it)| it.contains("µs since 1970"))
    };
    let cell = |(at, value): (usize, &Value)| match value {
        Value::Number(number) if is_time(at) => {
            number.as_i64().map_or_else(|| number.to_string(), |time| utc(Time(time)))
        }
        Value::Number(number) if number.is_f64() => real(number.as_f64().unwrap_or(f64::NAN)),
        Value::Null => "-".into(),
        Value::String(text) => plain(text).into_owned(),
        value => plain(&value.to_string()).into_owned(),
    };
    let lines: Vec<Vec<String>> =
        answer.rows.iter().map(|row| row.iter().enumerate().map(cell).collect()).collect();
    let heading: Vec<String> = answer.columns.iter().map(|name| (*name).to_owned()).collect();
    let width = |at: usize| {
        let cells = lines.iter().chain([&heading]).map(|line| line[at].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let is_text = |at: usize| answer.rows.iter().any(|row| row[at].is_string()) || is_time(at);
    let line = |cells: &Vec<String>| {
        let cells = cells.iter().enumerate().map(|(at, cell)| match is_text(at) {
            true => format!("{cell:<width$}", width = widths[at]),
            false => format!("{cell:>width$}", width = widths[at]),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    [&heading].into_iter().chain(&lines).map(line).collect()
}

/// Four digits, as shares and intervals want.
fn real(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    let digits = (3 - number.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_that_count() {
        let written = [0.0, 0.051_234, 1.0 / 3.0, 12_345.678, -2.5, 1e-12].map(real);
        assert_eq!(written, ["0", "0.05123", "0.3333", "12346", "-2.500", "0.000000000"]);
    }

    #[test]
    fn what_a_host_wrote_into_a_row_stays_in_its_cell() {
        let question = questions::named("slow_connections").unwrap();
        let rows = vec![vec!["web\u{1b}[1A\u{9b}2K\nweb-2".into(), serde_json::json!(["\u{7f}"])]];
        let answer = Answer { columns: vec!["host", "verdict"], rows };
        let lines = lines(&answer, &question);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[1], "web?[1A?2K?web-2    [\"?\"]");
    }
}

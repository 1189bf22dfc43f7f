//! What the verdict says of each trace, and how often it is right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::catalogue::{Part, Situation};

/// Causes by which the verdict says that it does not know.
const NOT_TOLD: [&str; 2] = ["unknown", "unclear_loss"];

/// What was said of one situation.
#[derive(Clone, Debug)]
pub struct Said {
    pub name: String,
    pub wanted: Vec<String>,
    pub cause: String,
    /// Findings and remedy.
    pub text: String,
    pub part: Part,
}

impl Said {
    pub fn is_right(&self) -> bool {
        self.wanted.contains(&self.cause)
    }

    pub fn is_not_told(&self) -> bool {
        !self.is_right() && NOT_TOLD.contains(&self.cause.as_str())
    }
}

/// Asks `transom explain --json` about the connection that carried most.
///
/// # Errors
/// If the program fails or finds no connection.
pub fn ask(situation: &Situation, transom: &Path, file: &Path) -> Result<Said> {
    let output = Command::new(transom).args(["explain", "--json"]).arg(file).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "transom explain {}: {errors}", file.display());
    let found: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let is_ours = |c: &&Value| {
        let port = format!(":{}", crate::network::PORT);
        ["local", "remote"].iter().any(|end| c[end].as_str().is_some_and(|e| e.ends_with(&port)))
    };
    let connection = found.iter().find(is_ours);
    let connection = connection.with_context(|| format!("{}: no connection", file.display()))?;
    let verdict = &connection["verdict"];
    let mut sentences: Vec<&str> = verdict["findings"]
        .as_array()
        .map(|all| all.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    sentences.extend(verdict["remedy"].as_str());
    Ok(Said {
        name: situation.name.clone(),
        wanted: situation.causes.clone(),
        cause: verdict["cause"].as_str().context("the verdict has a cause")?.to_owned(),
        text: sentences.join(" "),
        part: situation.part(),
    })
}

/// How many were right, wrong, and undetermined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    pub right: usize,
    pub wrong: usize,
    pub not_told: usize,
}

impl Score {
    pub fn of<'a>(said: impl IntoIterator<Item = &'a Said>) -> Score {
        let mut score = Score::default();
        for one in said {
            *if one.is_right() {
                &mut score.right
            } else if one.is_not_told() {
                &mut score.not_told
            } else {
                &mut score.wrong
            } += 1;
        }
        score
    }

    /// Right of those that were told, 0 to 1.
    pub fn share(&self) -> f64 {
        self.right as f64 / (self.right + self.wrong).max(1) as f64
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Score { right, wrong, not_told } = self;
        let percent = self.share() * 100.0;
        write!(f, "{right} right, {wrong} wrong ({percent:.0}% right), {not_told} undetermined")
    }
}

/// The same answers with the labels of others: the control, whose score must be that of chance.
pub fn shuffled(said: &[Said]) -> Vec<Said> {
    let step = said.len() / 2 + 1;
    let other = |i: usize| &said[(i + step) % said.len()];
    said.iter()
        .enumerate()
        .map(|(i, one)| Said { wanted: other(i).wanted.clone(), ..one.clone() })
        .collect()
}

/// A table in Markdown: a row for each cause that was built, a column for each that was said.
pub fn matrix(said: &[&Said]) -> String {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut columns = BTreeSet::new();
    for one in said {
        let cause = one.cause.as_str();
        // Any accepted answer stands on the diagonal.
        let wanted = one.wanted[0].as_str();
        let shown = if one.is_right() { wanted } else { cause };
        *counts.entry((wanted, shown)).or_default() += 1;
        columns.extend([shown, wanted]);
    }
    let rows: BTreeSet<&str> = counts.keys().map(|(wanted, _)| *wanted).collect();
    let mut text = String::from("| built \\ said |");
    for column in &columns {
        let _ = write!(text, " {column} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    for row in rows {
        let _ = write!(text, "\n| {row} |");
        for column in &columns {
            match counts.get(&(row, *column)) {
                Some(n) => {
                    let _ = write!(text, " {n} |");
                }
                None => text.push_str(" |"),
            }
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(wanted: &str, cause: &str) -> Said {
        Said {
            name: format!("{wanted}-1"),
            wanted: vec![wanted.to_owned()],
            cause: cause.to_owned(),
            text: String::new(),
            part: Part::Tuned,
        }
    }

    #[test]
    fn what_is_not_told_is_neither_right_nor_wrong() {
        let all =
            [said("a", "a"), said("a", "unknown"), said("b", "a"), said("unknown", "unknown")];
        assert_eq!(Score::of(&all), Score { right: 2, wrong: 1, not_told: 1 });
    }

    #[test]
    fn with_the_labels_of_others_nothing_is_right() {
        let all: Vec<Said> = (0..9).map(|i| said(&i.to_string(), &i.to_string())).collect();
        assert_eq!(Score::of(&all).share(), 1.0);
        assert_eq!(Score::of(&shuffled(&all)).share(), 0.0);
    }

    #[test]
    fn the_matrix_has_a_row_for_what_was_built_and_a_column_for_what_was_said() {
        let all = [said("a", "a"), said("a", "b")];
        let text = matrix(&all.iter().collect::<Vec<_>>());
        assert_eq!(text, "| built \\ said | a | b |\n|---|---|---|\n| a | 1 | 1 |\n");
    }
}

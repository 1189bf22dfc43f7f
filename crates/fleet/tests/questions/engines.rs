//! The engines that answer, each as its users have it, over the same objects.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use transom_testbed::{is_required, skip};

use crate::environment;

pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

pub type Answers = BTreeMap<String, Answer>;

impl Answer {
    /// The values of a column.
    pub fn column(&self, name: &str) -> Vec<&Value> {
        let at = self.columns.iter().position(|column| column == name);
        let at = at.unwrap_or_else(|| panic!("no column {name} in {:?}", self.columns));
        self.rows.iter().map(|row| &row[at]).collect()
    }

    pub fn number(&self, row: usize, name: &str) -> f64 {
        self.column(name)[row].as_f64().unwrap_or_else(|| panic!("{name} is no number"))
    }

    /// Whether both are the same, but for the last digits of what was computed.
    pub fn is_like(&self, other: &Answer) -> bool {
        let number = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-15,
            _ => a == b,
        };
        let row = |(a, b): (&Vec<Value>, &Vec<Value>)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| number(a, b))
        };
        self.columns == other.columns
            && self.rows.len() == other.rows.len()
            && self.rows.iter().zip(&other.rows).all(row)
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions").join(name)
}

/// The interpreter with Spark.
pub fn spark() -> Option<PathBuf> {
    if !transom_testbed::has("java") {
        return None;
    }
    let is_there = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pyspark/bin/python").exists();
    if !is_there && !is_required("pyspark") {
        skip("pyspark", "half a gigabyte, which is fetched only where TRANSOM_REQUIRE lists it");
        return None;
    }
    environment::of("pyspark", &["pyspark"], "pyspark")
}

/// Serves folders as buckets, and runs what `statements` makes of the server's port:
/// name → engine, statement.
pub fn ask_over_s3(
    python: &Path,
    buckets: &[(&str, &Path)],
    statements: impl FnOnce(u16) -> BTreeMap<String, (String, String)>,
) -> Answers {
    let words = buckets.iter().map(|(name, folder)| format!("{name}={}", folder.display()));
    let mut command = Command::new(python);
    command.arg(script("engines.py")).args(words);
    ask(command, |first| {
        let port = first().trim().parse().expect("the server's port");
        serde_json::to_string(&statements(port)).unwrap()
    })
}

/// name → statement.
pub fn ask_spark(python: &Path, statements: &BTreeMap<String, String>) -> Answers {
    let mut command = Command::new(python);
    command.arg(script("spark.py"));
    ask(command, |_| serde_json::to_string(statements).unwrap())
}

fn ask(
    mut command: Command,
    statements: impl FnOnce(&mut dyn FnMut() -> String) -> String,
) -> Answers {
    let mut errors = tempfile::tempfile().unwrap();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    let text = statements(&mut line);
    let sent = child.stdin.take().unwrap().write_all(format!("{text}\n").as_bytes());
    let answers = line();
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Seek::rewind(&mut errors).unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert!(status.success() && sent.is_ok(), "{status}: {said}");
    let answers: BTreeMap<String, (Vec<String>, Vec<Vec<Value>>)> =
        serde_json::from_str(&answers).unwrap();
    let answer = |(name, (columns, rows))| (name, Answer { columns, rows });
    answers.into_iter().map(answer).collect()
}

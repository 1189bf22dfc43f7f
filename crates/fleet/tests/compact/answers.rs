//! What the ready questions answer over a folder of objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use transom_fleet::questions;

use crate::generated::{boot_of, host_name, prefix_name};
use crate::objects;
use crate::{FULL, HOSTS};

pub type Answers = BTreeMap<&'static str, Value>;

/// Asks all of them by `transom-fleet ask`.
pub fn answers(duckdb: &Path, folder: &Path) -> Answers {
    // It is asked of connections by their names, which the questions' tests have.
    let questions = questions::all().into_iter();
    let names = questions.map(|question| question.name).filter(|name| *name != "decisions_of");
    some(duckdb, folder, names)
}

/// Asks some of them.
pub fn some(
    duckdb: &Path,
    folder: &Path,
    names: impl IntoIterator<Item = &'static str>,
) -> Answers {
    names.into_iter().map(|name| (name, answer(duckdb, folder, name))).collect()
}

fn answer(duckdb: &Path, folder: &Path, name: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
    command
        .args(["ask", name, "--json", "--from", &format!("file://{}", folder.display())])
        .args(["--since", "2026-11-23T12:00", "--until", "2026-11-23T14:00"])
        .args(given(name))
        .env("TRANSOM_DUCKDB", duckdb);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn given(name: &str) -> Vec<String> {
    let customer = format!("customer={}", prefix_name(FULL));
    match name {
        "slow_connections" => vec![customer, "rows=100000".into()],
        "events_of" => {
            let (host, cookie) = (objects::RECORDED.0, objects::cookie_of_recorded(1));
            let (name, boot) = (host_name(host), boot_of(host));
            vec![format!("host={name}"), format!("boot={boot}"), format!("cookie={cookie}")]
        }
        "recorded" => {
            let (host, cookie) = (objects::RECORDED.0, objects::cookie_of_recorded(1));
            let (name, boot) = (host_name(host), boot_of(host));
            vec![format!("hosts={name}"), format!("boots={boot}"), format!("cookies={cookie}")]
        }
        "beside_others" => vec![customer],
        "other_end" => vec!["customer=10.200.0.0/24".into()],
        "by_window" => vec!["of=retransmitted".into(), "per=data_segments_sent".into()],
        "change" => {
            let even = (0..HOSTS).step_by(2).map(host_name);
            let even = even.collect::<Vec<_>>().join(",");
            vec!["change=2026-11-23T13:00:00Z".into(), format!("treated={even}")]
        }
        "by_machine" => vec!["by=role".into()],
        _ => vec![],
    }
}

/// Whether both are the same, but for the last digits of what was computed.
pub fn alike(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| alike(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && alike(a.1, b.1))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= 1e-9 * one.abs().max(other.abs()) + 1e-15
        }
        _ => one == other,
    }
}

pub fn assert_alike(one: &Answers, other: &Answers) {
    for (name, answer) in one {
        let rows = answer.as_array().unwrap();
        assert!(!rows.is_empty(), "{name} has an answer");
        assert!(alike(answer, &other[name]), "{name}: {answer} {}", other[name]);
    }
}

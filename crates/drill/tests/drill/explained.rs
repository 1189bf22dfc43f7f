//! `transom-fleet explain` asks hosts for what was not shipped.

#[path = "../../../fleet/tests/questions/environment.rs"]
mod environment;

use std::fs;
use std::process::Command;

use serde_json::Value;
use transom_spool::Decision;
use transom_testbed::{find_program, needs};

use crate::host::{Desk, Kept, NAME, answering, said};

#[test]
fn explain_shows_decisions_of_the_tables_and_asks_the_host_for_those_that_were_not_shipped() {
    needs!("root", "linux-5.19");
    let Some(python) = environment::engines() else { return };
    // Slower than those of other tests, which its agent sees, too.
    let kept = Kept::made("", 4, 0);
    let [slow, _] = kept.connections();
    let decisions = kept.decisions(slow.cookie);
    let folder = tempfile::tempdir().unwrap();
    let place = format!("file://{}", folder.path().join("tables").display());
    for name in ["tables", "state"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let program = find_program("transom-fleet").expect("transom-fleet is built");
    let mut ship = Command::new(&program);
    ship.args(["ship", "--once", "--host", NAME, "--to", &place]);
    ship.arg("--spool").arg(kept.spool()).arg("--state").arg(folder.path().join("state"));
    said(&mut ship).unwrap();
    let desk = Desk::beside(&kept).route();
    let explain = |more: &[&str]| {
        let mut command = desk.host.command(program.to_str().unwrap());
        command.args(["explain", "--customer", "10.77.0.2", "--from", &place]);
        command.args(["--drill", "tcp/10.88.0.2:7447"]).args(more);
        said(command.env("TRANSOM_DUCKDB", python.with_file_name("duckdb"))).unwrap()
    };
    let row = || {
        let told: Value = serde_json::from_str(&explain(&["--json"])).unwrap();
        let slowest = told["slowest"].as_array().unwrap();
        let is_its = |row: &&Value| row["cookie"] == slow.cookie;
        slowest.iter().find(is_its).unwrap_or_else(|| panic!("{told:#}")).clone()
    };
    let shipped = row();
    assert_eq!(shipped["drill"]["from"], "tables", "{shipped:#}");
    let lines = |text: &str| {
        let of = |decision: &Decision| text.contains(&decision.line());
        decisions.iter().rev().take(16).all(of)
    };
    let text = explain(&[]);
    assert!(text.contains("What their hosts decided:") && lines(&text), "{text}");
    // They were never shipped: their host has them, as long as it answers.
    fs::remove_dir_all(folder.path().join("tables/decisions")).unwrap();
    let gone = row();
    assert_eq!(gone["drill"]["from"], Value::Null, "{gone:#}");
    assert!(gone["drill"]["why"].as_str().unwrap().contains("no host web-1 is at"), "{gone:#}");
    let answerer = answering(&kept);
    let asked = row();
    assert_eq!(asked["drill"]["from"], "host", "{asked:#}");
    let count = asked["drill"]["decisions"].as_array().unwrap().len();
    assert_eq!(count, decisions.len().min(16));
    let text = explain(&[]);
    println!("{text}");
    assert!(text.contains(", from its host") && lines(&text), "{text}");
    drop(answerer);
}

//! `transom-fleet explain` asks hosts for what was not shipped.

#[path = "../../../fleet/tests/questions/environment.rs"]
mod environment;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use transom_spool::{Decision, Table};
use transom_testbed::{find_program, needs};

use crate::host::{DRILL, Desk, Kept, NAME, RECORDED, answering, said};

/// What a host shipped, and whoever asks for it.
struct Tables {
    folder: tempfile::TempDir,
    place: String,
    program: PathBuf,
    duckdb: PathBuf,
}

impl Tables {
    fn shipped_from(kept: &Kept, python: &Path) -> Tables {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tables", "state"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let place = format!("file://{}", folder.path().join("tables").display());
        let program = find_program("transom-fleet").expect("transom-fleet is built");
        let mut ship = Command::new(&program);
        ship.args(["ship", "--once", "--host", NAME, "--to", &place]);
        ship.args(["--events-mib", "64"]);
        ship.arg("--spool").arg(kept.spool()).arg("--state").arg(folder.path().join("state"));
        said(&mut ship).unwrap();
        Tables { folder, place, program, duckdb: python.with_file_name("duckdb") }
    }

    fn explain(&self, desk: &Desk, more: &[&str]) -> String {
        let mut command = desk.host.command(self.program.to_str().unwrap());
        command.args(["explain", "--customer", "10.77.0.2", "--from", &self.place]);
        command.args(["--drill", "tcp/10.88.0.2:7447"]).args(more);
        said(command.env("TRANSOM_DUCKDB", &self.duckdb)).unwrap()
    }

    /// What is told of one of the slowest.
    fn row(&self, desk: &Desk, cookie: u64) -> Value {
        let told: Value = serde_json::from_str(&self.explain(desk, &["--json"])).unwrap();
        let slowest = told["slowest"].as_array().unwrap();
        let is_its = |row: &&Value| row["cookie"] == cookie;
        slowest.iter().find(is_its).unwrap_or_else(|| panic!("{told:#}")).clone()
    }
}

#[test]
fn explain_shows_decisions_of_the_tables_and_asks_the_host_for_those_that_were_not_shipped() {
    needs!("root", "linux-5.19");
    let Some(python) = environment::engines() else { return };
    // Slower than those of other tests, which its agent sees, too.
    let kept = Kept::made("", 4, 0);
    let [slow, _] = kept.connections();
    let decisions = kept.decisions(slow.cookie);
    let tables = Tables::shipped_from(&kept, &python);
    let desk = Desk::beside(&kept).route();
    let shipped = tables.row(&desk, slow.cookie);
    assert_eq!(shipped["drill"]["from"], "tables", "{shipped:#}");
    let lines = |text: &str| {
        let of = |decision: &Decision| text.contains(&decision.line());
        decisions.iter().rev().take(16).all(of)
    };
    let text = tables.explain(&desk, &[]);
    assert!(text.contains("What their hosts decided:") && lines(&text), "{text}");
    // They were never shipped: their host has them, as long as it answers.
    fs::remove_dir_all(tables.folder.path().join("tables/decisions")).unwrap();
    let gone = tables.row(&desk, slow.cookie);
    assert_eq!(gone["drill"]["from"], Value::Null, "{gone:#}");
    assert!(gone["drill"]["why"].as_str().unwrap().contains("no host web-1 is at"), "{gone:#}");
    let _answerer = answering(&kept);
    let asked = tables.row(&desk, slow.cookie);
    assert_eq!(asked["drill"]["from"], "host", "{asked:#}");
    let count = asked["drill"]["decisions"].as_array().unwrap().len();
    assert_eq!(count, decisions.len().min(16));
    let text = tables.explain(&desk, &[]);
    println!("{text}");
    assert!(text.contains(", from its host") && lines(&text), "{text}");
    // Nor has the host them any more: that is told with the row.
    for file in kept.files(Table::Decisions) {
        fs::remove_file(file).unwrap();
    }
    let text = tables.explain(&desk, &[]);
    assert!(text.contains("decisions of that time were removed"), "{text}");
}

#[test]
fn the_commands_that_explain_prints_get_what_was_recorded() {
    needs!("root", "linux-5.19");
    let Some(python) = environment::engines() else { return };
    let kept = Kept::made(RECORDED, 4, 100_000);
    let [slow, _] = kept.connections();
    let tables = Tables::shipped_from(&kept, &python);
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let text = tables.explain(&desk, &[]);
    println!("{text}");
    assert!(text.contains("It was recorded event by event (timeouts)."), "{text}");
    let its = format!("'#{}'", slow.cookie);
    let is_command = |line: &&str| line.contains("--fetch") && line.contains(&its);
    let commands: Vec<&str> = text.lines().filter(is_command).map(str::trim).collect();
    assert_eq!(commands.len(), 3, "{text}");
    its_events_are_in_the_tables(&tables, &text, slow.cookie);
    let path = Path::new(DRILL).parent().unwrap().display();
    for command in commands {
        let mut shell = desk.host.command("sh");
        shell.args(["-c", command]).current_dir(tables.folder.path());
        said(shell.env("PATH", format!("{path}:/usr/bin:/bin"))).unwrap();
    }
    for ending in ["html", "pcapng", "pftrace"] {
        let file = tables.folder.path().join(format!("web-1-{}.{ending}", slow.cookie));
        assert!(fs::metadata(file).unwrap().len() > 500, "{ending}");
    }
}

/// The command that is printed of them answers with all that its kernel recorded.
fn its_events_are_in_the_tables(tables: &Tables, text: &str, cookie: u64) {
    let its = format!("cookie={cookie} ");
    let command = text.lines().map(str::trim).find(|line| line.contains(&its));
    let command = command.unwrap_or_else(|| panic!("no command: {text}"));
    let mut shell = Command::new("sh");
    let path = format!("{}:/usr/bin:/bin", tables.program.parent().unwrap().display());
    shell.args(["-c", &format!("{command} --json")]).env("PATH", path);
    let told = said(shell.env("TRANSOM_DUCKDB", &tables.duckdb)).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&told).unwrap();
    assert!(rows.len() > 10 && rows.len() as u64 == rows[0]["all_of_them"], "{told:.2000}");
    for event in ["ack", "send", "retransmit"] {
        assert!(rows.iter().any(|row| row["event"] == event), "no {event}: {told:.2000}");
    }
    assert!(rows.iter().all(|row| row["verdict"] == "timeouts" && row["into_us"].is_number()));
}

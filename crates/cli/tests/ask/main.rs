//! `transom ask` and `transom explain` on what the agent wrote.

mod traces;

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use transom_spool::{
    AgentEvent, AgentRow, Cause, Chosen, Connection, FileName, Row, RowKind, TABLE, Table, Time,
    VERSION, write,
};
use transom_testbed::{needs_root, run, transom, transom_of_nobody};

/// 2026-03-02T14:00:00Z
const TWO: i64 = 1_772_460_000_000_000;
const MINUTE: i64 = 60_000_000;

fn put<T: Row>(spool: &Path, table: Table, begun: &str, rows: Vec<T>) -> PathBuf {
    put_with(spool, table, begun, rows, &[])
}

fn put_with<T: Row>(
    spool: &Path,
    table: Table,
    begun: &str,
    rows: Vec<T>,
    more: &[(&'static str, String)],
) -> PathBuf {
    let path = spool.join(FileName::new(table, begun.into(), 1).to_string());
    let file = File::create(&path).unwrap();
    let says = [&[(TABLE, table.name().to_owned())], more].concat();
    write(file, rows, &says, &mut || ()).unwrap();
    path
}

fn row(cookie: u64, minute: i64) -> Connection {
    Connection {
        time: Time(TWO + minute * MINUTE),
        cookie,
        service: 443,
        program: Some("curl".into()),
        remote_prefix: Some("192.0.2.0/24".into()),
        duration_us: Some(10_000_000),
        bytes_acked: 1_000_000,
        data_segments_sent: 1000,
        ..Connection::default()
    }
}

#[test]
fn rows_have_the_names_of_their_services_and_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let full = Connection { remote_address: Some("192.0.2.7".into()), ..row(1, 3) };
    let file = put(folder.path(), Table::Connections, "20260302T140000Z", vec![full]);
    let cache = folder.path().join("names");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let head = "# transom names 1: ADDRESS NAME SECONDS-SINCE-1970; no name: -";
    std::fs::write(&cache, format!("{head}\n192.0.2.7 server.example {now}\n")).unwrap();
    let names = format!("--names={}", cache.display());
    let said = |words: &[&str]| output(&[&["explain"], words].concat(), &file).1;
    assert!(said(&[]).contains("192.0.2.7 port 443 https (#1)"), "{}", said(&[]));
    assert!(said(&["-n"]).contains("192.0.2.7 port 443 (#1)"), "{}", said(&["-n"]));
    assert!(said(&[&names]).contains("server.example port 443 https (#1)"), "{}", said(&[&names]));
    assert_eq!(said(&["--json", &names]), said(&["--json", "-n"]));
}

#[test]
fn the_addresses_of_a_spool_can_be_looked_up_where_it_has_them() {
    let resolve = |row: Connection| {
        let spool = tempfile::tempdir().unwrap();
        put(spool.path(), Table::Connections, "20260302T140000Z", vec![row]);
        let cache = spool.path().join("names");
        output(&["names", "resolve", "--cache", cache.to_str().unwrap()], spool.path())
    };
    let (ended_well, said) = resolve(row(1, 3));
    assert!(!ended_well && said.contains("`addresses = \"full\"`"), "{said}");
    // Of /etc/hosts everywhere.
    let (ended_well, said) =
        resolve(Connection { remote_address: Some("127.0.0.1".into()), ..row(1, 3) });
    assert!(ended_well && said.contains("127.0.0.1 localhost\n"), "{said}");
}

/// One slow connection at 14:03, one before and one after; three rows lost at 14:04.
fn spool() -> (tempfile::TempDir, PathBuf) {
    let spool = tempfile::tempdir().unwrap();
    let slow = Connection {
        retransmitted: 80,
        verdict: Cause::Loss,
        verdict_share: 0.08,
        busy_us: 9_000_000,
        last_decisions: Some("-1.250 s open>recovery 34; -0.003 s timeout 1".into()),
        ..row(2, 3)
    };
    let file = put(
        spool.path(),
        Table::Connections,
        "20260302T140000Z",
        vec![row(1, -20), slow, row(3, 9)],
    );
    let at = |minute, lost_rows| AgentRow {
        time: Time(TWO + minute * MINUTE),
        event: AgentEvent::Period,
        lost_rows,
        ..AgentRow::default()
    };
    put(spool.path(), Table::Agent, "20260302T140000Z", vec![at(0, 0), at(4, 3)]);
    (spool, file)
}

fn output(arguments: &[&str], path: &Path) -> (bool, String) {
    let output = transom().args(arguments).arg(path).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn what_was_slow_at_a_time_stands_beside_the_hour_before_and_others() {
    let (spool, _) = spool();
    let question = "2026-03-02T14:02..2026-03-02T14:05 port 443";
    let (ended_well, said) = output(&["ask", question, "--spool"], spool.path());
    assert!(ended_well, "{said}");
    for wanted in [
        "connections                            1                 1",
        "missing: 3 rows lost",
        "14:03:00 curl → 192.0.2.0/24 port 443",
        "unclear_loss (8%), held back 9.00 s",
        "    last decisions: -1.250 s open>recovery 34; -0.003 s timeout 1",
        "1 other connection to this prefix: 0% retransmitted",
    ] {
        assert!(said.contains(wanted), "'{wanted}' is not in:\n{said}");
    }
}

#[test]
fn json_has_the_same_with_whole_rows() {
    let (spool, _) = spool();
    let question = "2026-03-02T14:02..2026-03-02T14:05";
    let (_, said) = output(&["ask", question, "--json", "--spool"], spool.path());
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["asked"]["connections"], 1);
    assert_eq!(answer["slow"][0]["cookie"], 2);
    assert_eq!(answer["slow"][0]["held_back_us"], 9_000_000);
    assert_eq!(answer["missing"][0]["what"], "3 rows lost");
}

#[test]
fn no_text_of_a_table_can_move_the_cursor_of_a_terminal() {
    let spool = tempfile::tempdir().unwrap();
    let text = || Some("a\x1b[2J\u{9b}1A\x7f\n".into());
    let row = Connection {
        program: text(),
        unit: text(),
        cgroup: text(),
        interface: text(),
        remote_prefix: text(),
        algorithm: text(),
        last_decisions: text(),
        verdict: Cause::Loss,
        busy_us: 9_000_000,
        ..row(2, 3)
    };
    let full = Connection { cookie: 3, remote_address: text(), ..row.clone() };
    let file = put(spool.path(), Table::Connections, "20260302T140000Z", vec![row, full]);
    let question = "2026-03-02T14:02..2026-03-02T14:05";
    let commands: [(&[&str], &Path); 4] = [
        (&["explain"], &file),
        (&["explain", "--json"], &file),
        (&["ask", question, "--spool"], spool.path()),
        (&["ask", question, "--json", "--spool"], spool.path()),
    ];
    for (words, path) in commands {
        let (ended_well, said) = output(words, path);
        assert!(ended_well && said.contains("a?[2J?1A??"), "{words:?}: {said:?}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{words:?}: {said:?}");
    }
    let (_, error) = output(&["explain"], Path::new("no\x1b[2Jfile"));
    assert!(error.contains("no?[2Jfile"), "{error:?}");
}

#[test]
fn explain_reads_a_table_of_connections() {
    let (_spool, file) = spool();
    let (ended_well, said) = output(&["explain"], &file);
    assert!(ended_well && said.contains("unclear_loss (8%)"), "{said}");
    assert!(said.find("#2)") < said.find("#1)"), "the one that was held back first: {said}");
}

#[test]
fn a_journal_that_cannot_be_read_costs_only_the_newest_rows() {
    let (spool, _) = spool();
    std::fs::write(spool.path().join("journal.raw"), [7; 200]).unwrap();
    let question = "2026-03-02T14:02..2026-03-02T14:05 port 443";
    let (ended_well, said) = output(&["ask", question, "--spool"], spool.path());
    assert!(ended_well && said.contains("without the newest rows"), "{said}");
    assert!(said.contains("another version"), "{said}");
    assert!(said.contains("14:03:00 curl → 192.0.2.0/24 port 443"), "{said}");
}

/// Rows of the agent that stopped at 14:06, and of the one that began at 14:20 after a gap.
fn with_a_gap(spool: &Path) {
    let at = |minute, event| AgentRow {
        time: Time(TWO + minute * MINUTE),
        event,
        lost_rows: if event == AgentEvent::Gap { 7 } else { 0 },
        gap_us: (event == AgentEvent::Gap).then_some(14 * MINUTE as u64),
        ..AgentRow::default()
    };
    put(spool, Table::Agent, "20260302T140500Z", vec![at(6, AgentEvent::Stop)]);
    let began = vec![at(20, AgentEvent::Start), at(20, AgentEvent::Gap), at(21, AgentEvent::Stop)];
    put(spool, Table::Agent, "20260302T142000Z", began);
}

#[test]
fn a_time_without_an_agent_is_not_shown_as_one_without_connections() {
    let (spool, _) = spool();
    let ask = |question: &str| output(&["ask", question, "--spool"], spool.path()).1;
    // All that there is ends with a stop.
    let stopped = "the agent was stopped, and none has written since";
    let inside = "2026-03-02T14:10..14:12";
    assert!(!ask(inside).contains("without an agent"), "{}", ask(inside));
    with_a_gap(spool.path());
    let gap = "missing: 840.0 s without an agent: about 7 connections of its network namespace \
               without a row (2026-03-02 14:06:00 UTC)";
    assert!(ask(inside).contains(gap), "{}", ask(inside));
    assert!(!ask(inside).contains(stopped), "another one came: {}", ask(inside));
    assert!(ask("2026-03-02T14:19..14:25").contains(gap));
    assert!(ask("2026-03-02T14:22..14:25").contains(stopped));
    assert!(!ask("2026-03-02T14:02..14:05").contains("without an agent"));
    let before = "missing: no row is kept of the time before (2026-03-02 14:00:00 UTC)";
    assert!(ask("2026-03-01T14:00..14:10").contains(before));
    assert!(!ask(inside).contains(before));
}

#[test]
fn what_led_to_a_recording_is_told_from_what_came_last() {
    let spool = tempfile::tempdir().unwrap();
    let chosen = |minute, kind, last_decisions: &str| Connection {
        chosen: Chosen::Timeouts,
        level: 2,
        kind,
        last_decisions: Some(last_decisions.into()),
        verdict: Cause::Timeouts,
        busy_us: 9_000_000,
        ..row(4, minute)
    };
    let rows = vec![
        chosen(2, RowKind::Interim, "-0.600 s timeout 1; -0.000 s timeout 2"),
        chosen(4, RowKind::End, "-3.000 s loss>open 10"),
    ];
    put(spool.path(), Table::Connections, "20260302T140000Z", rows);
    let question = "2026-03-02T14:00..14:05";
    let (_, said) = output(&["ask", question, "--spool"], spool.path());
    let last = "    last decisions: -3.000 s loss>open 10\n";
    let before =
        "    recorded from 14:02:00 on (timeouts); before, from level 1: -0.600 s timeout 1";
    assert!(said.contains(last) && said.contains(before), "{said}");
    let (_, said) = output(&["ask", question, "--json", "--spool"], spool.path());
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["slow"][0]["chosen_us"], TWO + 2 * MINUTE);
    let before = "-0.600 s timeout 1; -0.000 s timeout 2";
    assert_eq!(answer["slow"][0]["decisions_before_chosen"], before);
}

#[test]
fn a_file_that_is_damaged_costs_only_its_own_rows() {
    let (spool, file) = spool();
    let bytes = std::fs::read(&file).unwrap();
    let other = spool.path().join("connections-20260302T140300Z-000009.parquet");
    std::fs::write(&other, &bytes[..bytes.len() / 2]).unwrap();
    let question = "2026-03-02T14:02..14:05";
    let (ended_well, said) = output(&["ask", question, "--spool"], spool.path());
    assert!(ended_well && said.contains("14:03:00 curl → 192.0.2.0/24 port 443"), "{said}");
    let missing = "missing: the rows of a file that cannot be read: ";
    assert!(said.contains(missing) && said.contains("140300Z-000009.parquet"), "{said}");
}

#[test]
fn a_pipe_with_the_name_of_a_file_is_not_waited_for() {
    let (spool, _) = spool();
    for table in [Table::Connections, Table::Agent] {
        let name = FileName::new(table, "20260302T140400Z".into(), 9).to_string();
        run(&["mkfifo", spool.path().join(name).to_str().unwrap()]);
    }
    let mut command = Command::new("timeout");
    command.args([
        "60",
        env!("CARGO_BIN_EXE_transom"),
        "ask",
        "2026-03-02T14:02..14:05",
        "--spool",
    ]);
    let output = command.arg(spool.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "it waits: {said}");
    assert!(said.contains("140400Z-000009.parquet: it is no file"), "{said}");
    assert!(said.contains("14:03:00 curl → 192.0.2.0/24 port 443"), "the others: {said}");
}

#[test]
fn who_may_not_read_the_files_is_told_who_may() {
    needs_root!();
    let (spool, file) = spool();
    let ask = || {
        let mut command = transom_of_nobody(spool.path());
        command.args(["ask", "2026-03-02T14:02..14:05", "--spool"]).arg(spool.path());
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    assert!(ask().0, "{}", ask().1);
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let (ended_well, said) = ask();
    assert!(!ended_well && said.contains("may not be read by you: ask as root"), "{said}");
}

#[test]
fn a_spool_of_a_later_version_is_read_as_far_as_it_is_known_and_that_is_said() {
    let asked = |version: &str| {
        let (spool, file) = spool();
        let metadata = [(TABLE, "connections".to_owned()), (VERSION, version.to_owned())];
        write(File::create(&file).unwrap(), vec![row(2, 3)], &metadata, &mut || ()).unwrap();
        let question = "2026-03-02T14:02..14:05";
        let (ended_well, said) = output(&["ask", question, "--spool"], spool.path());
        assert!(ended_well && said.contains("connections                            1"), "{said}");
        said
    };
    assert!(asked("99.0.0").contains("is of version 99.0.0, and this is"));
    assert!(!asked(env!("CARGO_PKG_VERSION")).contains("of version"));
}

#[test]
fn what_cannot_be_answered_is_said_with_the_remedy() {
    let nowhere = output(&["ask", "--spool"], Path::new("/no/such/spool"));
    assert!(!nowhere.0 && nowhere.1.contains("is the agent running?"), "{}", nowhere.1);
    assert!(!nowhere.1.contains("without the newest rows"), "{}", nowhere.1);
    let time = output(&["ask", "25:00", "--spool"], Path::new("/no/such/spool"));
    assert!(!time.0 && time.1.contains("'25:00' is no time"), "{}", time.1);
    let empty = tempfile::tempdir().unwrap();
    let nothing = output(&["ask", "--spool"], empty.path());
    assert!(!nothing.0 && nothing.1.contains("may not read its journal"), "{}", nothing.1);
    let (_spool, file) = spool();
    let report = output(&["report"], &file);
    assert!(!report.0 && report.1.contains("`transom ask` read it"), "{}", report.1);
}

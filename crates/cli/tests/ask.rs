//! `transom ask` and `transom explain` on what the agent wrote.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use transom_event::text::Utc;
use transom_event::{Body, Event, Kind, Open, Origin, Place, State, TcpState};
use transom_raw_stream::{Meta, Options, Writer};
use transom_spool::{
    AgentEvent, AgentRow, BEGUN, BOOT, Cause, Chosen, Connection, FileName, Row, RowKind, TABLE,
    Table, Time, VERSION, write,
};
use transom_testbed::{needs, needs_root, run, transom, transom_of_nobody};

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

/// A run of the kernel that traces are of.
struct Boot {
    id: &'static str,
    /// CLOCK_BOOTTIME at two o'clock, ns.
    two_ns: i64,
    local_port: u16,
}

/// The machine was started an hour before two.
const UNNAMED: Boot = Boot { id: "", two_ns: 3_600_000_000_000, local_port: 50_000 };

/// A trace of the agent's that begins so many seconds after two: a second of each connection.
fn trace(spool: &Path, number: u32, second: i64, cookies: &[u64]) {
    trace_of(&UNNAMED, spool, number, second, cookies);
}

fn trace_of(boot: &Boot, spool: &Path, number: u32, second: i64, cookies: &[u64]) {
    let &Boot { id, two_ns, local_port } = boot;
    let begun = Utc::from_us(TWO + second * 1_000_000).format(BEGUN);
    let name = FileName::new(Table::Traces, begun, number);
    let realtime_offset_ns = TWO * 1000 - two_ns;
    let meta = Meta { boot_id: id.into(), realtime_offset_ns, ..Meta::default() };
    let file = File::create(spool.join(name.to_string())).unwrap();
    let mut writer = Writer::new(file, &meta, Options::default()).unwrap();
    let open = Open {
        family: 2,
        remote_port: 443,
        local_port,
        algorithm: *b"cubic\0\0\0\0\0\0\0\0\0\0\0",
        ..Open::default()
    };
    for &cookie in cookies {
        for n in 0..100_u64 {
            let (kind, place, body, aux) = match n {
                0 => (Kind::Open, Place::Recorder, Body::Open(open), [Origin::Existing as u32, 0]),
                _ => (Kind::Ack, Place::RcvEstablished, Body::State(sending(n as u32)), [1448, 10]),
            };
            let begun_ns = (two_ns + second * 1_000_000_000) as u64;
            let time_ns = begun_ns + n * 10_000_000;
            let event = Event { time_ns, cookie, tgid: 1, cpu: 0, kind, place, aux, body };
            writer.push(&(&event).into()).unwrap();
        }
    }
    writer.finish(transom_raw_stream::Footer::default()).unwrap();
}

fn sending(n: u32) -> State {
    State {
        cwnd: 10,
        mss: 1448,
        snd_una: n * 1448,
        snd_nxt: n * 1448 + 14_480,
        packets_out: 10,
        srtt_us: 20_000,
        min_rtt_us: 20_000,
        tcp_state: TcpState::Established as u8,
        ..State::default()
    }
}

#[test]
fn a_report_shows_the_events_of_those_that_were_recorded() {
    let (spool, _) = spool();
    let page = spool.path().join("page.html");
    let report = |question: &str| {
        let spool = spool.path().display().to_string();
        let page = page.display().to_string();
        output(&["ask", question, "--spool", &spool, "--report"], Path::new(&page))
    };
    let question = "2026-03-02T14:02..2026-03-02T14:05";
    // Nobody recorded any of them.
    let (ended_well, said) = report(question);
    assert!(!ended_well && said.contains("none of the 1 connections was recorded"), "{said}");
    let recorded =
        |cookie, minute| Connection { chosen: Chosen::Timeouts, level: 2, ..row(cookie, minute) };
    let choice = Connection {
        kind: RowKind::Interim,
        last_decisions: Some("-0.600 s open>loss 34; -0.000 s timeout 2".into()),
        ..recorded(4, 3)
    };
    let rows = vec![choice, recorded(4, 4), recorded(5, 4), row(6, 4)];
    put(spool.path(), Table::Connections, "20260302T140100Z", rows);
    let (ended_well, said) = report(question);
    assert!(!ended_well && said.contains("are gone"), "{said}");
    // In two files, with a connection that nobody asked for, and an older one of the same cookie.
    trace(spool.path(), 1, 232, &[4, 77]);
    trace(spool.path(), 2, 234, &[4]);
    trace(spool.path(), 3, 3, &[5]);
    let (ended_well, said) = report(question);
    assert!(ended_well && said.contains("1 of 4 connections with events"), "{said}");
    assert!(said.contains("2 with rows only, 1 whose trace is gone"), "{said}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("id=\"c4\""), "the connection");
    assert!(!html.contains("id=\"c77\"") && !html.contains("id=\"c5\""));
    for said in [
        "Before it was chosen at 14:03:00 UTC (timeouts), seen by level 1:",
        "−0.600 s: open → loss, cwnd 34",
        "0.0.0.0:https",
    ] {
        assert!(html.contains(said), "{said}");
    }
    // The same for other tools: both files, and nothing of the others.
    let at = spool.path().display().to_string();
    let events = |name: &str| {
        let to = spool.path().join(name);
        let ran = output(&["ask", question, "--spool", &at, "--events"], &to);
        (ran.0, ran.1, std::fs::read(to).unwrap_or_default())
    };
    let (ended_well, said, pcapng) = events("slow.pcapng");
    assert!(ended_well && pcapng.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "{said}");
    assert!(pcapng.len() > 199 * 100, "199 events of two files in {} bytes", pcapng.len());
    let (ended_well, said, perfetto) = events("slow.pftrace");
    assert!(ended_well && perfetto.len() > 199 * 10, "{said}");
    let (ended_well, said, _) = events("slow.txt");
    assert!(!ended_well && said.contains("name it .pcapng (Wireshark) or .pftrace"), "{said}");
    let (_, json) = output(&["ask", question, "--json", "--spool"], spool.path());
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["recorded"], serde_json::json!([4, 5]));
}

/// The machine was started again at 14:03:40: its clock began anew, and so did its cookies.
#[test]
fn connections_of_two_boots_are_two_at_their_times_of_day() {
    needs!("tshark");
    let spool = tempfile::tempdir().unwrap();
    let boots = [
        Boot { id: "11111111-2222-3333-4444-555555555555", ..UNNAMED },
        Boot {
            id: "66666666-7777-8888-9999-000000000000",
            two_ns: -220_000_000_000,
            local_port: 50_001,
        },
    ];
    for (number, (boot, second)) in (1..).zip(boots.iter().zip([150, 240])) {
        let recorded = Connection { chosen: Chosen::Timeouts, level: 2, ..row(4, 0) };
        let time = Time(TWO + (second + 5) * 1_000_000);
        let begun = format!("20260302T14000{number}Z");
        let says = [(BOOT, boot.id.replace('-', ""))];
        let rows = vec![Connection { time, ..recorded }];
        put_with(spool.path(), Table::Connections, &begun, rows, &says);
        trace_of(boot, spool.path(), number, second, &[4]);
    }
    let (at, to) = (spool.path().display().to_string(), spool.path().join("both.pcapng"));
    let question = "2026-03-02T14:02..2026-03-02T14:05";
    let (ended_well, said) = output(&["ask", question, "--spool", &at, "--events"], &to);
    assert!(ended_well && said.contains("2 of 2 connections with events"), "{said}");
    for (boot, second) in boots.iter().zip([150, 240]) {
        let of = format!("frame.comment contains \"0.0.0.0:{} >\"", boot.local_port);
        let command = ["-r", to.to_str().unwrap(), "-Y", &of, "-T", "fields"];
        let mut tshark = Command::new("tshark");
        let command = tshark.args(command).args(["-e", "frame.time_epoch"]);
        let printed = command.output().unwrap().stdout;
        let printed = String::from_utf8(printed).unwrap();
        let times: Vec<f64> = printed.lines().map(|line| line.parse().unwrap()).collect();
        let begun = (TWO / 1_000_000 + second) as f64;
        assert_eq!(times.len(), 99, "one of the hundred has no state");
        assert!(times.iter().all(|time| (begun..begun + 1.0).contains(time)), "{times:?}");
    }
}

/// The wall clock was set on by ten minutes at 14:04, and the agent went on in another file.
#[test]
fn a_connection_recorded_after_the_clock_was_set_is_shown_beside_one_of_before() {
    let spool = tempfile::tempdir().unwrap();
    let later = Boot { two_ns: UNNAMED.two_ns - 600_000_000_000, ..UNNAMED };
    let mut rows = Vec::new();
    for (number, clock, second) in [(1, &UNNAMED, 150), (2, &later, 600 + 300)] {
        trace_of(clock, spool.path(), number, second, &[number.into()]);
        let time = Time(TWO + (second + 5) * 1_000_000);
        let chosen = Chosen::Timeouts;
        rows.push(Connection { time, chosen, level: 2, ..row(number.into(), 0) });
    }
    put(spool.path(), Table::Connections, "20260302T140000Z", rows);
    let at = spool.path().display().to_string();
    let question = "2026-03-02T14:02..2026-03-02T14:16";
    for (option, name) in [("--report", "page.html"), ("--events", "both.pftrace")] {
        let to = spool.path().join(name);
        let (ended_well, said) = output(&["ask", question, "--spool", &at, option], &to);
        assert!(ended_well && said.contains("2 of 2 connections with events"), "{said}");
        assert!(!said.contains("gone"), "{said}");
        assert!(said.contains("the clock was set by +600.000 s between these traces"), "{said}");
    }
    let html = std::fs::read_to_string(spool.path().join("page.html")).unwrap();
    assert!(["id=\"c1\"", "id=\"c2\""].iter().all(|id| html.contains(id)));
}

/// The wall clock was set on by three hours at 14:04, or back by three, and the agent went on in another
/// file; the times of a row are those of the clock at its end.
#[test]
fn a_connection_during_which_the_clock_was_set_has_its_earlier_part() {
    for set_s in [3 * 3600, -3 * 3600] {
        let spool = tempfile::tempdir().unwrap();
        let later = Boot { two_ns: UNNAMED.two_ns - set_s * 1_000_000_000, ..UNNAMED };
        // It has nothing to do with it, and its name is of the hours between.
        trace_of(&UNNAMED, spool.path(), 1, 60, &[9]);
        trace_of(&UNNAMED, spool.path(), 2, 150, &[4]);
        trace_of(&later, spool.path(), 3, set_s + 300, &[4]);
        let time = Time(TWO + (set_s + 305) * 1_000_000);
        let recorded = Connection { chosen: Chosen::Timeouts, level: 2, ..row(4, 0) };
        let row = Connection { time, duration_us: Some(156_000_000), ..recorded };
        let begun = Utc::from_us(time.0 - 60_000_000).format(BEGUN);
        put(spool.path(), Table::Connections, &begun, vec![row]);
        let (at, to) = (spool.path().display().to_string(), spool.path().join("all.pcapng"));
        let minute = |us: i64| Utc::from_us(us).format("%Y-%m-%dT%H:%M");
        let question = format!("{}..{}", minute(time.0 - 60_000_000), minute(time.0 + 60_000_000));
        let (ended_well, said) = output(&["ask", &question, "--spool", &at, "--events"], &to);
        assert!(ended_well && said.contains("1 of 1 connections with events"), "{said}");
        assert_eq!(packets(&std::fs::read(&to).unwrap()), 2 * 99, "{set_s}: of both files");
    }
}

/// Custom blocks: an event each.
fn packets(pcapng: &[u8]) -> usize {
    let word = |at: usize| u32::from_le_bytes(pcapng[at..at + 4].try_into().unwrap()) as usize;
    let next = |at: &usize| Some(at + word(at + 4)).filter(|next| *next < pcapng.len());
    std::iter::successors(Some(0), next).filter(|at| word(*at) == 0x0bad).count()
}

/// A trace of one socket that connects twice: a second each, and half a second between them.
fn trace_of_two_attempts(spool: &Path, begun_second: i64) {
    let name = FileName::new(Table::Traces, "20260302T140000Z".into(), 1);
    let meta = Meta { realtime_offset_ns: TWO * 1000 - UNNAMED.two_ns, ..Meta::default() };
    let file = File::create(spool.join(name.to_string())).unwrap();
    let mut writer = Writer::new(file, &meta, Options::default()).unwrap();
    for attempt in 0..2 {
        let ms = 1_000_000;
        let begun_ns = (UNNAMED.two_ns + (begun_second * 1000 + attempt * 1500) * ms) as u64;
        let open = Open { family: 2, remote_port: 443, local_port: 50_000, ..Open::default() };
        for n in 0..=100_u64 {
            let (kind, body, aux) = match n {
                0 => (Kind::Open, Body::Open(open), [Origin::Connect as u32, 0]),
                100 => (Kind::Close, Body::State(sending(100)), [0, 0]),
                _ => (Kind::Ack, Body::State(sending(n as u32)), [1448, 10]),
            };
            let (time_ns, place) = (begun_ns + n * 10_000_000, Place::SetState);
            let event = Event { time_ns, cookie: 4, tgid: 1, cpu: 0, kind, place, aux, body };
            writer.push(&(&event).into()).unwrap();
        }
    }
    writer.finish(transom_raw_stream::Footer::default()).unwrap();
}

#[test]
fn of_a_socket_that_connected_again_the_connection_of_the_row_is_shown() {
    let spool = tempfile::tempdir().unwrap();
    let page = spool.path().join("page.html");
    trace_of_two_attempts(spool.path(), 180);
    let row = |ended_ms: i64| Connection {
        time: Time(TWO + 3 * MINUTE + ended_ms * 1000),
        duration_us: Some(1_000_000),
        chosen: Chosen::Timeouts,
        level: 2,
        ..row(4, 3)
    };
    put(spool.path(), Table::Connections, "20260302T140000Z", vec![row(1000), row(2500)]);
    let at = spool.path().display().to_string();
    let shown = |question: &str| {
        let (ended_well, said) = output(&["ask", question, "--spool", &at, "--report"], &page);
        assert!(ended_well, "{said}");
        let html = std::fs::read_to_string(&page).unwrap();
        std::fs::remove_file(&page).unwrap();
        let is_shown = |cookie: u64| html.contains(&format!("id=\"c{cookie}\""));
        (said, [4, 4 | 1 << 40].map(is_shown))
    };
    for (question, words, expected) in [
        ("2026-03-02T14:03..2026-03-02T14:03:02", "1 of 1 ", [true, false]),
        ("2026-03-02T14:03:02..2026-03-02T14:04", "1 of 1 ", [false, true]),
        ("2026-03-02T14:03..2026-03-02T14:04", "2 of 2 ", [true, true]),
    ] {
        let (said, found) = shown(question);
        assert!(found == expected && said.contains(words), "{question}: {found:?}\n{said}");
    }
}

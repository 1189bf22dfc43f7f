//! The events of connections that the agent recorded, from its traces.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use transom_event::text::Utc;
use transom_event::{Body, Event, Kind, Open, Origin, Place, State, TcpState};
use transom_raw_stream::{Meta, Options, Writer};
use transom_spool::{BEGUN, BOOT, Chosen, Connection, FileName, RowKind, Table, Time};
use transom_testbed::needs;

use super::{MINUTE, TWO, output, put, put_with, row, spool};

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

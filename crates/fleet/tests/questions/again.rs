//! A socket that connects again, as a program does that waits for its database: it keeps its cookie,
//! and has a row for each of its connections.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use transom_fleet::questions::{self, Asked, Engine};
use transom_spool::{
    Cause, Connection, Decided, Decision, Direction, Ended, RowKind, Time, to_object,
};

use crate::asked::{Asker, said};
use crate::engines::{Answer, ask_over_s3};
use crate::generated::{HOUR_US, NOON, host_name};
use crate::{environment, objects};

const SECOND_US: i64 = 1_000_000;
const DATABASE: &str = "198.51.100.0/24";
const COOKIE: u64 = 4711;

fn row(kind: RowKind, at_s: i64, duration_s: u64, verdict: Cause) -> Connection {
    Connection {
        kind,
        time: Time(NOON + at_s * SECOND_US),
        cookie: COOKIE,
        direction: Direction::Connect,
        duration_us: Some(duration_s * SECOND_US as u64),
        busy_us: if kind == RowKind::Failed { 0 } else { duration_s * SECOND_US as u64 },
        service: 5432,
        local_port: 40_000,
        remote_port: 5432,
        remote_prefix: Some(DATABASE.into()),
        bytes_acked: 20_000,
        ended: if kind == RowKind::Interim { Ended::Open } else { Ended::ClosedHere },
        verdict,
        ..Connection::default()
    }
}

/// Two attempts in vain, and one that succeeded. Of another socket only one is left, which goes on.
fn rows() -> Vec<Connection> {
    vec![
        row(RowKind::Failed, 10, 3, Cause::Handshake),
        row(RowKind::Failed, 20, 4, Cause::Handshake),
        row(RowKind::Interim, 30, 5, Cause::Cwnd),
        // Both in one microsecond.
        row(RowKind::Interim, 40, 15, Cause::Cwnd),
        row(RowKind::End, 40, 15, Cause::Cwnd),
        Connection { cookie: COOKIE + 1, ..row(RowKind::Interim, 31, 1, Cause::Loss) },
        Connection {
            cookie: COOKIE + 1,
            busy_us: 2 * SECOND_US as u64,
            ..row(RowKind::Interim, 41, 11, Cause::Loss)
        },
    ]
}

/// What both engines say.
fn answered(name: &str) -> Option<Answer> {
    let python = environment::engines()?;
    let folder = tempfile::tempdir().unwrap();
    objects::put(folder.path(), "connections", 0, (0, 1), rows()).unwrap();
    let question = questions::named(name).unwrap();
    let (begin, end) = (Time(NOON), Time(NOON + HOUR_US));
    let given = BTreeMap::from([("customer".to_owned(), DATABASE.to_owned())]);
    let statement = |engine, from: String| {
        let hours = BTreeMap::from([("connections", vec!["date=2026-11-23/hour=12".to_owned()])]);
        let asked = Asked { from, begin, end, hours };
        question.statement(engine, &asked, &given).unwrap()
    };
    let mut answers = ask_over_s3(&python, &[("again", folder.path())], |port| {
        let (here, there) = ("s3://again".into(), format!("http://127.0.0.1:{port}/again"));
        [("duckdb", Engine::DuckDb, here), ("clickhouse", Engine::ClickHouse, there)]
            .map(|(word, engine, from)| {
                (word.to_owned(), (word.to_owned(), statement(engine, from)))
            })
            .into()
    });
    let (one, other) = (answers.remove("duckdb").unwrap(), &answers["clickhouse"]);
    assert!(one.is_like(other), "{name}: {:?} {:?}", one.rows, other.rows);
    Some(one)
}

#[test]
fn each_attempt_of_a_socket_is_a_connection_of_its_own() {
    let Some(slow) = answered("slow_connections") else { return };
    let seconds = |us: &&Value| us.as_f64().unwrap() / SECOND_US as f64;
    let held: Vec<f64> = slow.column("held_back_us").iter().map(seconds).collect();
    assert_eq!(held, [15.0, 4.0, 3.0, 2.0], "{:?}", slow.rows);
    assert!(slow.column("customers_connections").iter().all(|count| **count == 4));
    assert!(slow.column("held_back").iter().all(|count| **count == 4));
    let kinds = ["end", "failed", "failed", "interim"].map(Value::from);
    assert_eq!(slow.column("kind"), kinds.each_ref());
    let Some(beside) = answered("beside_others") else { return };
    let verdicts = beside.column("verdict").into_iter().zip(beside.column("ended"));
    let ended: Vec<(&str, u64)> =
        verdicts.map(|(name, count)| (name.as_str().unwrap(), count.as_u64().unwrap())).collect();
    assert_eq!(ended, [("cwnd", 1), ("handshake", 2), ("unclear_loss", 1)]);
}

#[test]
fn each_has_its_own_decisions_and_only_the_one_that_came_about_has_another_end() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let decided = |at_s: i64, decided| Decision {
        time: Time(NOON + at_s * SECOND_US),
        cookie: COOKIE,
        decided,
        ..Decision::default()
    };
    let decisions = vec![
        decided(8, Decided::Syn),
        decided(17, Decided::Syn),
        decided(19, Decided::Syn),
        decided(35, Decided::Timeout),
        Decision { cookie: COOKIE + 1, ..decided(32, Decided::Timeout) },
        Decision { cookie: COOKIE + 2, ..decided(57, Decided::Timeout) },
    ];
    // A program that has tried this customer's address, and then another's, with one socket.
    let mut of_host = rows();
    let elsewhere = row(RowKind::End, 60, 5, Cause::Cwnd);
    of_host.extend(
        [
            row(RowKind::Failed, 50, 1, Cause::Handshake),
            Connection { remote_prefix: Some("203.0.113.0/24".into()), ..elsewhere },
        ]
        .map(|row| Connection { cookie: COOKIE + 2, ..row }),
    );
    let at_the_other_end = Connection {
        cookie: 7,
        direction: Direction::Accept,
        local_port: 5432,
        remote_port: 40_000,
        bytes_received: 20_000,
        bytes_acked: 0,
        verdict: Cause::OtherSide,
        remote_prefix: Some("198.18.0.0/24".into()),
        ..row(RowKind::End, 40, 15, Cause::OtherSide)
    };
    objects::put(folder.path(), "decisions", 0, (0, 1), decisions.clone()).unwrap();
    objects::put(folder.path(), "connections", 0, (0, 1), of_host).unwrap();
    objects::put(folder.path(), "connections", 1, (0, 1), vec![at_the_other_end]).unwrap();
    let mut command = asker.program("explain");
    command
        .args(["--customer", DATABASE, "--json", "--drill", "tcp/127.0.0.1:1"])
        .args(["--from", &format!("file://{}", folder.path().display())])
        .args(["--since", "2026-11-23T12:00", "--until", "2026-11-23T13:00"]);
    let told: Value = serde_json::from_str(&said(&mut command).unwrap()).unwrap();
    let of = |at: usize| &told["slowest"][at];
    let own = [&decisions[3..4], &decisions[1..3], &decisions[..1]];
    for (at, own) in own.into_iter().enumerate() {
        let own: Vec<_> = own.iter().map(to_object).collect();
        assert_eq!(of(at)["drill"]["decisions"], json!(own), "{:#}", of(at));
        assert_eq!(of(at)["drill"]["earlier"], 0);
    }
    // What it decided about the other's is none of this one's, and its host is asked.
    assert_eq!(of(3)["drill"]["decisions"], json!([to_object(&decisions[4])]), "{:#}", of(3));
    assert_eq!(of(4)["cookie"], COOKIE + 2, "{told:#}");
    assert_eq!(of(4)["drill"]["decisions"], json!([]), "{:#}", of(4));
    assert!(of(4)["drill"]["why"].is_string(), "{:#}", of(4));
    assert_eq!(of(0)["other_end"]["there"], host_name(1), "{:#}", of(0));
    assert!((1..5).all(|at| of(at)["other_end"].is_null()), "{told:#}");
}

//! Two operators at the same time, in a folder and on a real S3 server: the slower one is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use transom_fleet::policy::publish::{Draft, publish};
use transom_rollout::Waves;
use transom_testbed::write_script;

use crate::environment;
use crate::program::{Operator, POLICY, policy, said};
use crate::rows::{self, now_s};
use crate::server::Server;

#[test]
fn who_was_slower_to_publish_is_told_and_writes_nothing_over() {
    let operator = Operator::new();
    let draft = Draft {
        policy: POLICY.to_owned(),
        waves: Waves::default(),
        gates: vec![],
        expected: vec![],
        lease_s: 3600,
        after: 0,
    };
    let meanwhile = |_| {
        said(&mut operator.publish(&["--first", "fast"])).unwrap();
        Ok("slow".to_owned())
    };
    let slow = publish(&operator.place(), draft, meanwhile, now_s());
    let refused = format!("{:#}", slow.err().unwrap());
    assert!(refused.contains("policy/current was written by somebody else meanwhile"), "{refused}");
    let state = operator.place().under_way().unwrap();
    assert_eq!((state.current.generation, state.current.first.as_str()), (1, "fast"));
}

const START: u64 = 1_800_000_000;
const AT: &str = "s3://tables/fleet";

/// `step` on the bucket, with tables in the operator's folder.
fn step(operator: &Operator, server: &Server, seconds: u64, duckdb: &Path) -> Command {
    let [now, key, from] =
        [(START + seconds).to_string(), operator.text("fleet.key"), operator.address()];
    let words = ["step", "--to", AT, "--from", &from, "--key", &key, "--lag", "30s", "--now", &now];
    let mut command = policy(words);
    server.give_keys(&mut command);
    command.env("TRANSOM_DUCKDB", duckdb);
    command
}

/// Another step, and then the real DuckDB.
fn slow_duckdb(operator: &Operator, duckdb: &Path, other: &Command) -> PathBuf {
    let words = std::iter::once(other.get_program()).chain(other.get_args());
    let words = words.map(|word| format!("'{}'", word.to_str().unwrap()));
    let text = format!(
        "#!/bin/sh\nexport TRANSOM_DUCKDB={duckdb}\n{} </dev/null >/dev/null || exit 1\nexec {duckdb} \"$@\"\n",
        words.collect::<Vec<_>>().join(" "),
        duckdb = duckdb.display()
    );
    let path = operator.path("duckdb");
    write_script(&path, &text);
    path
}

#[test]
fn of_two_steps_on_a_bucket_the_slower_one_is_refused_and_the_next_goes_on() {
    let (Some(server), Some(python)) = (Server::start(), environment::engines()) else { return };
    let duckdb = python.with_file_name("duckdb");
    let operator = Operator::new();
    let start = START.to_string();
    let mut publish = operator.publish_to(AT, &["--first", "web-0", "--now", &start]);
    server.give_keys(&mut publish);
    said(&mut publish).unwrap();
    for host in 0..3 {
        rows::write(&operator.path("fleet"), &format!("web-{host}"), &[(START + 300, 2000, 20)]);
    }
    let fast = step(&operator, &server, 661, &duckdb);
    let slow = slow_duckdb(&operator, &duckdb, &fast);
    let refused = said(&mut step(&operator, &server, 662, &slow)).unwrap_err();
    assert!(refused.contains("policy/current was written by somebody else meanwhile"), "{refused}");
    let next = said(&mut step(&operator, &server, 700, &duckdb)).unwrap();
    assert_eq!(next, "generation 1: nothing is due\n");
    let trusted = operator.text("trusted");
    let mut status = policy(["status", "--from", AT, "--trust", &trusted]);
    server.give_keys(&mut status);
    let text = said(&mut status).unwrap();
    assert!(text.contains("1 of 12 windows of 10 min judged"), "{text}");
    assert!(text.contains("no verdict: "), "{text}");
}

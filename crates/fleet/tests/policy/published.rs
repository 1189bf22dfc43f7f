//! What is published, what hosts make of it, and what `status` says.

use std::fs;

use serde_json::Value;
use transom_rollout::Known;

use crate::environment;
use crate::program::{Operator, said};
use crate::rows::{self, now_s};

#[test]
fn one_host_has_a_new_generation_at_once_and_nobody_else() {
    let operator = Operator::new();
    let told = said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    assert!(told.starts_with("generation 1 is published: web-7 first, then 1 %, 10 %"), "{told}");
    let now = now_s();
    assert_eq!(operator.host_has("web-7", now), Some(1));
    assert_eq!(operator.host_has("web-8", now), None);
    assert_eq!(operator.host_has("web-7", now + 3600), None, "its lease is an hour");
}

#[test]
fn a_name_that_a_host_made_up_moves_no_cursor() {
    let operator = Operator::new();
    let told = said(&mut operator.publish(&["--first", "web\u{1b}[2J\u{9b}2K"])).unwrap();
    assert!(told.starts_with("generation 1 is published: web?[2J?2K first"), "{told}");
    let status = said(&mut operator.status(&[])).unwrap();
    assert!(status.starts_with("generation 1: wave 1 of 5 (web?[2J?2K) since"), "{status}");
}

#[test]
fn the_first_host_is_one_that_has_rows() {
    let Some(python) = environment::engines() else { return };
    let operator = Operator::new();
    rows::write(&operator.path("fleet"), "web-3", &[(now_s() - 60, 10, 1)]);
    let duckdb = python.with_file_name("duckdb");
    let told = said(operator.publish(&[]).env("TRANSOM_DUCKDB", duckdb)).unwrap();
    assert!(told.contains("web-3 first"), "{told}");
}

#[test]
fn without_rows_somebody_has_to_name_the_first_host() {
    let operator = Operator::new();
    let refused = said(&mut operator.publish(&[])).unwrap_err();
    assert!(refused.contains("--first") && refused.contains("has nothing of"), "{refused}");
    assert!(!operator.path("fleet/policy").exists(), "nothing is left behind");
}

#[test]
fn status_says_where_it_is_and_what_is_expected() {
    let operator = Operator::new();
    let gates = [
        "--gate",
        "timeouts / connections, higher, 20 %",
        "--gate",
        "loss = retransmitted / data_segments_sent, higher, 0.1",
        "--expected",
        "loss=-30%..-10%",
    ];
    let first = ["--first", "web-7", "--shares", "20%,100%", "--lease", "2h"];
    said(&mut operator.publish(&[&gates[..], &first[..]].concat())).unwrap();
    let text = said(&mut operator.status(&[])).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("generation 1: wave 1 of 3 (web-7) since 20"), "{text}");
    assert!(lines[0].ends_with("0 of 12 windows of 10 min judged"), "{text}");
    assert_eq!(lines[1], "control and all hosts outside have nothing");
    assert!(lines[2].starts_with("its lease ends in ") && lines[2].contains(", at 20"), "{text}");
    assert_eq!(lines[3], "gate timeouts = timeouts / connections, higher, 20 %");
    assert_eq!(lines[4], "  found: not asked yet");
    assert_eq!(lines[7], "  expected: -30.0 % to -10.0 %");
    let json: Value =
        serde_json::from_str(&said(&mut operator.status(&["--json"])).unwrap()).unwrap();
    assert_eq!(
        (&json["generation"], &json["wave"], &json["lease_s"]),
        (&1.into(), &0.into(), &7200.into())
    );
    assert_eq!(json["gates"][1]["expected"]["low"], -0.3);
    assert!(json["gates"][1]["found"].is_null());
}

#[test]
fn a_generation_over_one_that_all_have_leaves_that_one_with_the_others() {
    let operator = Operator::new();
    operator.publish_for_all();
    let told = said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    assert!(
        told.contains("generation 2 is published") && told.contains("have generation 1"),
        "{told}"
    );
    assert_eq!(operator.host_has("web-8", now_s()), Some(1));
    assert_eq!(operator.host_has("web-7", now_s()), Some(2));
}

#[test]
fn in_another_place_its_number_is_higher_than_what_hosts_have_seen() {
    let operator = Operator::new();
    let publish = |more: &[&str]| {
        let mut publish = operator.publish(&[&["--first", "web-7"][..], more].concat());
        let output = publish.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(publish(&[]).contains("the first one here: hosts that have followed another place"));
    fs::remove_dir_all(operator.path("fleet/policy")).unwrap();
    assert_eq!(publish(&["--after", "41"]), "");
    let current = operator.place().under_way().unwrap().current;
    assert_eq!(current.generation, 42);
    let mut known = Known { generation: 41, written_s: now_s() + 9 };
    assert_eq!(current.believe(now_s(), &mut known), Ok(()));
    // Where there is a higher one, that counts.
    said(&mut operator.signed("rollback", &["--none"])).unwrap();
    assert_eq!(publish(&["--after", "7"]), "");
    assert_eq!(operator.place().under_way().unwrap().current.generation, 44);
}

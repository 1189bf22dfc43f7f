//! `rollback`: at any time, by hand, for all hosts at once.

use std::fs;

use crate::program::{Operator, has, policy, said};
use crate::rows::now_s;

/// All hosts have generation 1, and one host has generation 2.
fn second_under_way() -> Operator {
    let operator = Operator::new();
    operator.publish_for_all();
    said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    operator
}

#[test]
fn an_older_policy_is_given_to_all_hosts_by_a_new_generation() {
    let operator = second_under_way();
    assert_eq!(operator.host_has("web-7", now_s()), Some(2));
    let told = said(&mut operator.signed("rollback", &["--generation", "1"])).unwrap();
    assert!(told.starts_with("generation 3: all hosts have the policy of generation 1"), "{told}");
    for host in ["web-7", "web-8", "web-9"] {
        assert_eq!(operator.host_has(host, now_s()), Some(3));
    }
    let status = said(&mut operator.status(&[])).unwrap();
    assert!(status.contains("because: taken back by hand, to generation 1"), "{status}");
    said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    assert_eq!(operator.place().under_way().unwrap().current.before, 3);
}

#[test]
fn none_takes_the_policy_from_all_hosts() {
    let operator = second_under_way();
    said(&mut operator.signed("rollback", &["--none"])).unwrap();
    for host in ["web-7", "web-8"] {
        assert_eq!(operator.host_has(host, now_s()), None);
    }
}

#[test]
fn where_to_go_back_to_has_to_be_said_and_has_to_be_there() {
    let operator = second_under_way();
    let refused = |more: &[&str]| said(&mut operator.signed("rollback", more)).unwrap_err();
    assert!(refused(&[]).contains("--generation"));
    assert!(refused(&["--none", "--generation", "1"]).contains("cannot be used with"));
    assert!(refused(&["--generation", "9"]).contains("has no generation 9"));
    assert!(!operator.path("fleet/policy/gen-3").exists(), "nothing is left behind");
    fs::remove_file(operator.path("fleet/policy/current")).unwrap();
    assert!(refused(&["--none"]).contains("has no policy"));
}

#[test]
fn a_place_whose_generation_was_removed_takes_a_new_policy_and_goes_back_to_none() {
    let operator = Operator::new();
    operator.publish_for_all();
    fs::remove_file(operator.path("fleet/policy/gen-1")).unwrap();
    let refused = said(&mut operator.signed("step", &[])).unwrap_err();
    assert!(refused.contains("has no generation 1: if it was there, a rule"), "{refused}");
    let told = said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    assert!(told.contains("generation 2 is published") && told.contains("have nothing"), "{told}");
    assert_eq!(operator.host_has("web-7", now_s()), Some(2));
    assert_eq!(operator.host_has("web-8", now_s()), None);
    fs::remove_file(operator.path("fleet/policy/gen-2")).unwrap();
    said(&mut operator.signed("rollback", &["--none"])).unwrap();
    assert_eq!(operator.host_has("web-7", now_s()), None);
}

/// A second key, and `command` with it.
fn by_another_key(operator: &Operator, command: &str, more: &[&str]) -> Result<String, String> {
    if !operator.path("new.key").exists() {
        let public = said(&mut policy(["key", &operator.text("new.key")])).unwrap();
        fs::write(operator.path("new-trusted"), public).unwrap();
    }
    let [address, key, file] =
        [operator.address(), operator.text("new.key"), operator.text("far.toml")];
    let words = if command == "publish" { vec![command, &file] } else { vec![command] };
    let all = [&words[..], &["--to", &address, "--key", &key], more].concat();
    said(&mut policy(all))
}

#[test]
fn going_back_with_a_new_key_is_believed_where_the_old_one_is_trusted_no_more() {
    let operator = Operator::new();
    operator.publish_for_all();
    let old = operator.text("trusted");
    by_another_key(&operator, "rollback", &["--none", "--trust", &old]).unwrap();
    let files = operator.path("fleet/policy");
    assert_eq!(has(&files, &operator.path("new-trusted"), "web-7", now_s()), None);
    // Its policy signed anew.
    by_another_key(&operator, "rollback", &["--generation", "1", "--trust", &old]).unwrap();
    assert_eq!(has(&files, &operator.path("new-trusted"), "web-7", now_s()), Some(3));
}

#[test]
fn nothing_goes_on_over_a_generation_that_nobody_could_go_back_to() {
    let operator = Operator::new();
    operator.publish_for_all();
    let old = operator.text("trusted");
    by_another_key(&operator, "publish", &["--first", "web-7", "--trust", &old]).unwrap();
    let before = fs::read(operator.path("fleet/policy/current")).unwrap();
    let refused = by_another_key(&operator, "step", &[]).unwrap_err();
    assert!(refused.contains("could not be taken back to generation 1"), "{refused}");
    assert!(refused.contains("--trust") && refused.contains("gen-1: signed with"), "{refused}");
    assert_eq!(fs::read(operator.path("fleet/policy/current")).unwrap(), before);
    let told = by_another_key(&operator, "step", &["--trust", &old]).unwrap();
    assert_eq!(told, "generation 2: nothing is due\n");
    fs::remove_file(operator.path("fleet/policy/gen-1")).unwrap();
    let refused = by_another_key(&operator, "step", &["--trust", &old]).unwrap_err();
    assert!(refused.contains("could not be taken back to generation 1"), "{refused}");
    assert!(refused.contains("has no generation 1: if it was there, a rule"), "{refused}");
    // What all have now is the old key's, and was renewed with the new one.
    let operator = Operator::new();
    operator.publish_for_all();
    let old = operator.text("trusted");
    let later = (now_s() + 1000).to_string();
    let renewed = by_another_key(&operator, "step", &["--trust", &old, "--now", &later]).unwrap();
    assert!(renewed.contains("the lease is renewed"), "{renewed}");
    let refused =
        by_another_key(&operator, "publish", &["--first", "web-7", "--now", &later]).unwrap_err();
    assert!(refused.contains("all other hosts are to keep generation 1"), "{refused}");
    assert!(refused.contains("--trust"), "{refused}");
    assert!(!operator.path("fleet/policy/gen-2").exists(), "nothing is left behind");
}

#[test]
fn one_write_by_a_clock_that_is_ahead_keeps_nobody_from_going_back() {
    let operator = second_under_way();
    let place = operator.place();
    let state = place.under_way().unwrap();
    let mut ahead = state.current.clone();
    ahead.renew(now_s() + 7200);
    place.swap(Some(&state.last()), &ahead).unwrap();
    // A renewal with the right time would be a replay.
    let state = place.under_way().unwrap();
    let mut right = state.current.clone();
    right.renew(now_s());
    let refused = place.swap(Some(&state.last()), &right).unwrap_err().to_string();
    assert!(refused.contains("clock is behind"), "{refused}");
    said(&mut operator.signed("rollback", &["--none"])).unwrap();
    assert_eq!(operator.host_has("web-7", now_s()), None);
    assert_eq!(place.under_way().unwrap().current.generation, 3);
}

//! `rollback`: at any time, by hand, for all hosts at once.

use std::fs;

use crate::program::{Operator, said};
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

//! `transom tune` on all network namespaces, beside what is tuned in one of them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use transom_testbed::tuned::{Policy, Setting, algorithm_of, tune};
use transom_testbed::{Path, needs_root, pair, transom_of_nobody, wait_for};

/// What is set for the whole machine would reach the other tests' namespaces.
static MACHINE: Mutex<()> = Mutex::new(());

const FAR: &str = "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { algorithm = \"steady\", target = 30, cap = 55 }\n";

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

#[test]
fn clear_leaves_alone_what_a_running_policy_holds() {
    needs_root!();
    let _one_at_a_time = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let (path, other) = (slow_path(), slow_path());
    let (held, _far) = pair(&path);
    let (by_hand, _far_too) = pair(&other);
    let policy = Policy::start(path.left.name(), FAR);
    wait_for("the running connection", || algorithm_of(&held) == "steady");
    let setting = Setting::of(other.left.name(), &["--algorithm", "cubic"]);
    let output = tune(&["clear"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let pid = policy.child.id();
    assert!(said.contains(&format!("is left alone: process {pid} tunes")), "{said}");
    assert_eq!((algorithm_of(&held), algorithm_of(&by_hand)), ("steady".into(), "reno".into()));
    policy.stop();
    assert_eq!(algorithm_of(&held), "reno");
    drop(setting);
}

#[test]
fn who_may_not_clear_is_told_so_and_no_connection_is_said_to_be_held() {
    needs_root!();
    let _one_at_a_time = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = slow_path();
    let (by_hand, _far) = pair(&path);
    let _setting = Setting::of(path.left.name(), &["--algorithm", "cubic"]);
    let folder = tempfile::tempdir().unwrap();
    let output = transom_of_nobody(folder.path()).args(["tune", "clear"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("tune.lock: Permission denied") && !said.contains("left alone"),
        "{said}"
    );
    assert_eq!(algorithm_of(&by_hand), "cubic");
}

#[test]
fn scopes_that_share_connections_do_not_tune_at_once() {
    needs_root!();
    let _one_at_a_time = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = slow_path();
    let policy = Policy::start(path.left.name(), FAR);
    let output = tune(&["set", "--cap", "20"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains(&format!("process {} tunes connections", policy.child.id())), "{said}");
    policy.stop();
    let _setting = Setting::of(path.left.name(), &["--cap", "20"]);
    let output = tune(&["set", "--cap", "20"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("is in force in the network namespace"), "{said}");
}

//! `transom tune` on all network namespaces, beside what is tuned in one of them.

use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use transom_testbed::tuned::{Policy, Setting, algorithm_of, tune, tuned};
use transom_testbed::{
    Namespace, Path, link, needs_root, pair, transom, transom_of_nobody, wait_for,
};

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

/// An `apply` that keeps a route in this namespace.
fn apply_of_routes(host: &Namespace) -> Child {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[rule]]\naction.initial_window = 20\n").expect("a policy");
    let mut apply = transom();
    apply.args(["tune", "apply", "--backend", "route", "--netns", host.name()]);
    let apply = apply.arg(file.path()).spawn().expect("transom runs");
    wait_for("its route", || !host.ip("route show proto 117").is_empty());
    apply
}

#[test]
fn routes_that_a_killed_apply_left_in_another_namespace_are_told_and_removed_without_naming_it() {
    needs_root!();
    let _one_at_a_time = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let (host, far) = (Namespace::new("host"), Namespace::new("far"));
    link((&host, "d0", &["10.1.0.2/24"]), (&far, "p0", &[]));
    host.ip("route add default via 10.1.0.1");
    let told = || {
        let all = tuned(&["status", "--json"]);
        let all = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        let here = |one: &Value| one["netns"].as_str().is_some_and(|it| it.ends_with(host.name()));
        let mut routes: Vec<Value> = all.filter(here).collect();
        assert_eq!(routes.len(), 1, "{routes:?}");
        routes.remove(0)
    };
    for remedy in [&["clear"][..], &["set", "--port", "9", "--cap", "9"]] {
        let mut apply = apply_of_routes(&host);
        assert_eq!(told()["outcome"], "in_force");
        if remedy == ["clear"] {
            let said = tune(&["clear"]).stderr;
            let said = String::from_utf8_lossy(&said);
            let stay = format!("{} stay: process {}", host.name(), apply.id());
            assert!(said.contains(&stay), "{said}");
        }
        apply.kill().expect("it runs");
        apply.wait().expect("our child");
        assert_eq!(
            (told()["outcome"].as_str(), &told()["route"]),
            (Some("left"), &"default".into())
        );
        let status = tune(&["status"]);
        let (routes, remedies) =
            (String::from_utf8_lossy(&status.stdout), String::from_utf8_lossy(&status.stderr));
        assert!(routes.contains("default via 10.1.0.1 dev d0 proto 117 initcwnd 20"), "{routes}");
        assert!(remedies.contains("or `transom tune clear`"), "{remedies}");
        // Others may hold a policy in a namespace of theirs.
        wait_for("it to succeed", || tune(remedy).status.success());
        assert_eq!(host.ip("route show proto 117"), "", "{remedy:?}");
        tuned(&["clear"]);
    }
}

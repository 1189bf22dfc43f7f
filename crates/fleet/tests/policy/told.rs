//! What is told to Prometheus: what is known, and nothing before.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use transom_testbed::{Talking, wait_for};

use crate::program::{Operator, said};

fn lease_end(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let is_told = |line: &&str| !line.starts_with('#') && line.contains("_lease_end_");
    text.lines().find(is_told).map(str::to_owned)
}

#[test]
fn nothing_is_told_of_policies_before_it_is_known_nor_forgotten_when_the_storage_is_away() {
    let operator = Operator::new();
    let files = ["step.prom", "follow.prom"].map(|name| operator.path(name));
    let [of_steps, of_copies] = &files;
    let step = || {
        let mut command = operator.signed("step", &["--every", "1s"]);
        command.arg("--metrics").arg(of_steps).stdout(Stdio::null());
        command
    };
    let follow = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        command.args(["follow", "--every", "1s", "--from", &operator.address(), "--to"]);
        command.arg(operator.path("copies")).arg("--metrics").arg(of_copies);
        command
    };
    let in_vain = || {
        Talking::start(&mut step(), "again in 1 s");
        Talking::start(&mut follow(), "stays as it is");
    };
    in_vain();
    assert!(!of_steps.exists() && !of_copies.exists(), "a lease that ended in 1970");
    said(&mut operator.publish(&["--first", "web-7"])).unwrap();
    let running = [step(), follow()].map(|mut command| Talking::spawn(&mut command));
    let told = || [of_steps, of_copies].map(|file| lease_end(file));
    wait_for("both tell when the lease ends", || told().iter().all(Option::is_some));
    drop(running);
    let before = told();
    fs::rename(operator.path("fleet/policy"), operator.path("away")).unwrap();
    in_vain();
    assert_eq!(told(), before);
}

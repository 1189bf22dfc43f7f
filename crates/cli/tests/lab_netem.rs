//! `transom lab --backend netem`: the kernel's own emulator means the same by a path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::{needs, needs_root};

#[test]
fn netem_delays_limits_and_loses_as_the_experiment_says() {
    needs!("root", "netem", "iperf3");
    let bench = Bench::new("netem", include_str!("netem.toml"));
    let output = bench.run(&["--quick", "--backend", "netem"]);
    assert!(output.status.success(), "{}", errors(&output));
    let of = |case: &str| {
        let run = bench.results().join(format!("runs/case-{case}/1/measured.json"));
        json(&run)["flows"]["up"].clone()
    };
    let (queue, loss, short) = (of("queue"), of("loss"), of("short"));
    let goodput = |flow: &serde_json::Value| flow["goodput_mbit"].as_f64().expect("a number");
    // The rate of the path, and 2 % of loss well below it.
    assert!((5.0..8.0).contains(&goodput(&queue)), "{queue}");
    assert!(goodput(&loss) < goodput(&queue), "{loss} {queue}");
    let rtt = |flow: &serde_json::Value| flow["srtt_ms"].as_f64().expect("a number");
    assert!(rtt(&queue) >= 40.0 && rtt(&loss) >= 40.0, "{queue} {loss}");
    // The control: a shorter path is one.
    assert!((10.0..40.0).contains(&rtt(&short)), "{short}");
}

/// A folder to go first in `PATH`, in which `tc` finds netem in every kernel and writes which
/// namespaces have a name.
fn kernel_with_netem(bench: &Bench) -> String {
    let folder = bench.folder.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let script = "#!/bin/sh\nls /run/netns >> \"$SEEN\"\ncat > /dev/null\n";
    for program in ["tc", "iperf3"] {
        let path = folder.join(program);
        fs::write(&path, script).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn run(bench: &Bench) -> (Output, String) {
    let seen = bench.folder.path().join("seen");
    let mut command = bench.lab(&["run", &bench.name, "--quick", "--backend", "netem"]);
    command.env("PATH", kernel_with_netem(bench)).env("SEEN", &seen);
    let output = command.output().expect("transom runs");
    (output, fs::read_to_string(seen).unwrap_or_default())
}

#[test]
fn a_foreign_namespace_that_has_the_name_of_the_one_between_is_left_alone_and_told() {
    needs_root!();
    let bench = Bench::new("between", include_str!("netem.toml"));
    let name = format!("tx-{}-path.netem", bench.name);
    let ip = |words: &[&str]| Command::new("ip").arg("netns").args(words).status().unwrap();
    assert!(ip(&["add", &name]).success());
    let mut inside =
        Command::new("ip").args(["netns", "exec", &name, "sleep", "60"]).spawn().unwrap();
    let (output, _) = run(&bench);
    let (is_there, lives) = (bench.namespace("path.netem").exists(), inside.try_wait().unwrap());
    let _ = inside.kill().and_then(|()| inside.wait());
    let _ = ip(&["delete", &name]);
    assert!(!output.status.success());
    assert!(is_there, "it was removed: {}", errors(&output));
    assert_eq!(lives, None, "what ran inside was ended: {}", errors(&output));
    assert!(errors(&output).contains(&format!("ip netns delete {name}")), "{}", errors(&output));
}

#[test]
fn no_name_could_stay_of_the_namespace_in_which_netem_is_tried() {
    needs_root!();
    let bench = Bench::new("probe", include_str!("netem.toml"));
    let name = format!("tx-{}-other", bench.name);
    let ip = |word: &str| Command::new("ip").args(["netns", word, &name]).status().unwrap();
    assert!(ip("add").success());
    let (output, seen) = run(&bench);
    assert!(ip("delete").success());
    assert!(seen.contains(&name), "netem was tried: {}", errors(&output));
    assert!(!seen.contains("tx-probe"), "{seen}");
}

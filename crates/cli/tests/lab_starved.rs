//! `transom lab` where the programs of a run have no processor to spare.

use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::{Spinning, find_program, needs};

const PHONE_AND_SERVER: &str = r#"
title = "A phone and a server"
source = "this test"
question = "Does it hold?"
duration_s = 2
record = false
repeats = 1

[path]
rtt_ms = 10
up = { rate_mbit = 200, queue_packets = 100 }

[hosts.phone]

[hosts.server]
profile = "server"

[flows.up]
from = "phone"
to = "server"
tool = "iperf3"
write = 32
"#;

#[test]
fn a_run_whose_programs_get_no_processor_is_rejected_and_repeated() {
    needs!("root", "iperf3");
    let bench = Bench::new("starved", PHONE_AND_SERVER);
    let iperf3 = find_program("iperf3").expect("it was asked for");
    // Only the programs share the processor that is taken: the lab itself, the emulator and the other
    // tests have the rest.
    let processor = Spinning::processor();
    let script = format!("exec taskset -c {processor} {} \"$@\"", iperf3.display());
    let path = bench.path_with("iperf3", &script);
    // With the priority of a run's programs.
    let spinning = Spinning::start(4, -10);
    let output = bench.lab(&["run", &bench.name]).env("PATH", path).output().expect("transom runs");
    drop(spinning);
    assert!(output.status.success(), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("was short of CPU") && said.contains("once more"), "{said}");
    assert!(said.contains("1 kept though the machine was too busy"), "{said}");
    let wait = &json(&bench.of_run("measured.json"))["run"]["cpu_wait"];
    assert!(wait.as_f64() > Some(0.1), "{wait}");
    let waits = &json(&bench.of_run("run.json"))["waited"];
    for host in ["phone", "server"] {
        assert!(waits[host]["waited"].is_number() && waits[host]["slept"].is_number(), "{waits}");
    }
    bench.assert_clean();
}

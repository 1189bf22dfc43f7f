//! `transom lab --backend netem`: the kernel's own emulator means the same by a path.

use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::needs;

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

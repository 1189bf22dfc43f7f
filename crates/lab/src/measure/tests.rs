use std::fs;

use super::*;
use crate::made_up;

fn folder() -> (tempfile::TempDir, Experiment) {
    let folder = tempfile::tempdir().unwrap();
    made_up::run(folder.path(), 5.5);
    let loaded = crate::experiment::parse("x.toml".as_ref(), made_up::EXPERIMENT.to_owned());
    (folder, loaded.unwrap().experiment)
}

#[test]
fn a_window_that_goes_up_and_down_is_measured() {
    let (folder, experiment) = folder();
    let measured = measure(folder.path(), &experiment).unwrap();
    let up = &measured.flows["up"];
    assert_eq!(up["goodput_mbit"], 5.5);
    assert_eq!((up["cwnd_max"], up["flight_max"]), (40.0, 40.0));
    assert_eq!((up["cwnd_falls"], up["cwnd_falls_without_loss"]), (4.0, 0.0));
    assert_eq!((up["cwnd_before_fall"], up["lowest_after_fall"]), (40.0, 0.5));
    assert_eq!((up["retransmits"], up["timeouts"]), (4.0, 0.0));
    assert_eq!(up["srtt_ms"], 20.0);
    // From 11 segments, the first whose sending was seen, to 36, one each 10 ms.
    assert!((up["cwnd_rise_s"] - 0.25).abs() < 1e-9, "{up:?}");
    // Each value holds as long as the next, so the mean is that of an arithmetic series.
    assert!((28.0..31.0).contains(&up["cwnd_mean"]), "{up:?}");
    assert_eq!((measured.run["sum_mbit"], measured.run["jain"]), (5.5, 1.0));
}

#[test]
fn every_metric_is_one_that_picks_may_name() {
    let (folder, experiment) = folder();
    let measured = measure(folder.path(), &experiment).unwrap();
    let named = |all: &[(&str, &str)], name: &str| all.iter().any(|(known, _)| *known == name);
    let of_flow = measured.flows["up"].keys();
    assert!(of_flow.into_iter().all(|name| named(crate::metrics::FLOW_METRICS, name)));
    assert!(measured.run.keys().all(|name| named(crate::metrics::RUN_METRICS, name)));
}

#[test]
fn what_is_missing_is_named() {
    for file in ["flows.json", "iperf-up.server.txt", "trace-a.parquet"] {
        let (folder, experiment) = folder();
        fs::remove_file(folder.path().join(file)).unwrap();
        let text = format!("{:#}", measure(folder.path(), &experiment).unwrap_err());
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn what_is_damaged_is_named() {
    for file in ["flows.json", "iperf-up.server.txt", "trace-a.parquet", "emulator.json"] {
        let (folder, experiment) = folder();
        fs::write(folder.path().join(file), "?").unwrap();
        let text = format!("{:#}", measure(folder.path(), &experiment).unwrap_err());
        assert!(text.contains(file), "{text}");
    }
}

#[test]
fn a_flow_whose_connection_was_not_seen_is_told() {
    let (folder, experiment) = folder();
    let flows = fs::read_to_string(folder.path().join("flows.json")).unwrap();
    fs::write(folder.path().join("flows.json"), flows.replace("5001", "5009")).unwrap();
    let text = format!("{:#}", measure(folder.path(), &experiment).unwrap_err());
    assert!(
        text.contains("flow \"up\": ") && text.contains("no connection to port 5009"),
        "{text}"
    );
}

#[test]
fn goodput_is_weighed_by_the_class_of_the_sender_or_of_who_receives_from_a_server() {
    let (folder, mut experiment) = folder();
    let flow = experiment.flows["up"].clone();
    let weighed = |experiment: &Experiment| by_class(experiment, &[6.0]);
    assert_eq!(weighed(&experiment), [6.0]);
    experiment.hosts.get_mut(&flow.to).unwrap().class = Some(3.0);
    assert_eq!(weighed(&experiment), [2.0]);
    experiment.hosts.get_mut(&flow.from).unwrap().class = Some(2.0);
    assert_eq!(weighed(&experiment), [3.0]);
    assert_eq!(measure(folder.path(), &experiment).unwrap().run["jain_weighted"], 1.0);
}

#[test]
fn cpu_time_is_of_the_machine_and_of_the_programs() {
    let (folder, experiment) = folder();
    assert!(!measure(folder.path(), &experiment).unwrap().run.contains_key("cpu_busy"));
    let cpu = r#"{"machine": {"seconds": 2, "all_s": 4, "busy_s": 1},
        "flows": {"up": {"from_s": 0.5, "to_s": 0.25}}}"#;
    fs::write(folder.path().join("cpu.json"), cpu).unwrap();
    let measured = measure(folder.path(), &experiment).unwrap();
    assert_eq!(measured.run["cpu_busy"], 0.25);
    // 5.5 Mbit/s for two seconds.
    assert!((measured.run["cpu_s_per_gbit"] - 1.0 / 0.011).abs() < 1e-9);
    // 5.5 Mbit/s for four seconds; the made-up emulator took no time.
    assert!((measured.run["cpu_own_s_per_gbit"] - 0.75 / 0.022).abs() < 1e-9);
    let up = &measured.flows["up"];
    assert_eq!((up["cpu_from_s"], up["cpu_to_s"]), (0.5, 0.25));
}

#[test]
fn of_a_reversed_flow_what_counts_is_what_the_client_received() {
    let (folder, mut experiment) = folder();
    let flow = experiment.flows.get_mut("up").unwrap();
    (flow.tool, flow.reverse) = (Tool::Iperf3, true);
    experiment.record = false;
    let said = r#"{"intervals": [], "end": {"sum_received": {"bits_per_second": 7e6}}}"#;
    fs::write(folder.path().join("iperf-up.client.json"), said).unwrap();
    let measured = measure(folder.path(), &experiment).unwrap();
    assert_eq!(measured.flows["up"]["goodput_mbit"], 7.0);
    assert!(!measured.flows["up"].contains_key("cwnd_max"), "nothing was recorded");
}

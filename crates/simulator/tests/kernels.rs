//! Hosts with kernels of two series in one simulation.

mod bed;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use bed::{bytes, flow, host, run, scenario, seconds};
use transom_event::Kind;
use transom_scenario::{Protocol, Scenario, Traffic, trace_file};

const OLD: &str = "6.1";
const NEW: &str = "6.12";

/// Whether the program has both; if not, the test is noted as skipped.
fn has_both() -> bool {
    let listed =
        Command::new(env!("CARGO_BIN_EXE_transom-simulate")).arg("kernels").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let listed: BTreeSet<&str> = listed.lines().collect();
    if !listed.contains(OLD) {
        transom_testbed::skip("liblinux-6.1", "liblinux-6.1.a was not built: make linux");
    }
    listed == BTreeSet::from([OLD, NEW])
}

fn on(mut scenario: Scenario, kernels: [&str; 2]) -> Scenario {
    for (name, kernel) in ["a", "b"].into_iter().zip(kernels) {
        host(&mut scenario, name).kernel = Some(kernel.to_owned());
    }
    scenario
}

#[test]
fn every_byte_arrives_once_between_kernels_of_different_series() {
    if !has_both() {
        return;
    }
    for kernels in [[OLD, NEW], [NEW, OLD]] {
        let mut hostile = on(scenario(10.0, 20.0, bytes(3_000_000)), kernels);
        let up = &mut hostile.links.path.up;
        (up.loss, up.duplicate, up.reorder, up.reorder_ms) = (0.02, 0.02, 0.05, 15.0);
        hostile.links.path.down.loss = 0.02;
        let ran = run(&hostile);
        assert_eq!(ran.flow().received, 3_000_000);
        for (name, kernel) in ["a", "b"].into_iter().zip(kernels) {
            let release = &ran.outcome().kernels[name];
            assert!(release.starts_with(&format!("{kernel}.")), "{name} runs {release}");
        }
        let lost = ran.links().up.lost;
        assert!(ran.count("a", Kind::Retransmit) as u64 >= lost - 2, "{lost} were lost");
    }
}

#[test]
fn two_series_in_one_simulation_are_as_deterministic_as_one() {
    if !has_both() {
        return;
    }
    let mut lossy = on(scenario(10.0, 30.0, seconds(5.0)), [OLD, NEW]);
    lossy.links.path.up.loss = 0.01;
    let (first, again) = (run(&lossy), run(&lossy));
    for name in [&trace_file("a"), &trace_file("b"), "emulator.json"] {
        let of = |ran: &bed::Ran| fs::read(ran.path(name)).unwrap();
        assert!(of(&first) == of(&again), "{name} differs");
    }
}

#[test]
fn each_host_decides_as_its_own_series_does() {
    if !has_both() {
        return;
    }
    // An unanswered SYN is retransmitted after 1, 2, 3, 4 s since 6.5 (tcp_syn_linear_timeouts),
    // after 1 and 3 s before.
    let timeouts = |kernels| {
        let mut dead = on(scenario(10.0, 20.0, seconds(3.0)), kernels);
        dead.links.path.up.loss = 1.0;
        dead.most_seconds = 4.5;
        run(&dead).count("a", Kind::Rto)
    };
    assert_eq!([[NEW, OLD], [OLD, NEW]].map(timeouts), [4, 2]);
    assert_eq!([[NEW, NEW], [OLD, OLD]].map(timeouts), [4, 2], "the peer's series is no matter");
}

#[test]
fn a_receive_buffer_holds_a_larger_window_since_6_6() {
    if !has_both() {
        return;
    }
    // Half of the buffer was kept for overhead (tcp_adv_win_scale = 1); now it is measured.
    let goodput = |kernel| {
        let mut far = on(scenario(100.0, 100.0, seconds(8.0)), [NEW, kernel]);
        far.record = false;
        let rmem = "4096 131072 524288".to_owned();
        host(&mut far, "b").sysctl.insert("ipv4.tcp_rmem".into(), rmem);
        run(&far).flow().goodput_mbit().unwrap()
    };
    let [old, new] = [OLD, NEW].map(goodput);
    assert!((18.0..21.5).contains(&old), "256 KiB in 100 ms are 21 Mbit/s: {old}");
    assert!(new > 1.3 * old, "{new} of {old}");
}

#[test]
fn datagrams_pass_between_series_too() {
    if !has_both() {
        return;
    }
    let traffic = Traffic::Constant { mbit: 5.0, datagram: 1470, seconds: 5.0 };
    let mut stream = on(scenario(10.0, 20.0, traffic), [OLD, NEW]);
    flow(&mut stream).protocol = Protocol::Udp;
    let (sent, received) = run(&stream).flow().datagrams.unwrap();
    assert!(sent > 2000 && sent == received, "{received} of {sent}");
}

#[test]
fn a_host_may_have_any_series_that_is_there_and_no_other() {
    let mut odd = scenario(10.0, 20.0, seconds(1.0));
    host(&mut odd, "a").kernel = Some("2.6.29".to_owned());
    let complaint = run(&odd).complaint();
    assert!(complaint.contains("host 'a'"), "{complaint}");
    assert!(complaint.contains("no kernel 2.6.29: there is"), "{complaint}");
    assert!(complaint.contains(NEW), "{complaint}");
}

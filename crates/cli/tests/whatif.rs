//! `transom whatif` with the engine: what it predicts of a path is what that path then does.

mod simulated;

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use simulated::{SECONDS, bulk, flow, recorded, scenario};
use transom_control::Policy;
use transom_event::{Event, Raw};
use transom_scenario::{Flow, Scenario, Traffic};
use transom_testbed::{copy_transom, needs};
use transom_trace::{Footer, Reader, Writer, WriterOptions};

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");
/// Enough for a limit that holds all the time.
const SHORT: f64 = 3.0;

fn whatif(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(TRANSOM);
    command.args(["whatif", "--budget", "2m"]).args(arguments).args(files);
    command.output().expect("transom runs")
}

fn answer(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn another_algorithm_does_what_was_predicted_of_it() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let before = recorded(&scenario("reno", 1), &folder.path().join("before"));
    let arguments = ["--json", "--cc", "bbr", "--cc", "cubic"];
    let predictions = answer(&whatif(&arguments, &[&before]))["result"]["predictions"].clone();
    assert_eq!(predictions.as_array().map(Vec::len), Some(2));
    for algorithm in ["bbr", "cubic"] {
        let after = recorded(&scenario(algorithm, 7), &folder.path().join(algorithm));
        let verified = answer(&whatif(&["--json", "--verify"], &[&before, &after]));
        assert_eq!(verified["result"]["predictions"][0]["label"], algorithm);
        for number in verified["verified"].as_array().expect("numbers") {
            if number["what"] == "retransmitted" {
                continue;
            }
            let of = |key: &str| number[key].as_f64().expect("a number");
            let ratio = of("predicted") / of("recorded");
            assert!((ratio - 1.0).abs() < 0.05, "{algorithm}: {number}");
        }
    }
}

#[test]
fn of_a_policy_the_rule_that_fits_the_connection_is_tried() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("reno", 5), &folder.path().join("run"));
    let file = folder.path().join("policy.toml");
    let tried = |rules: &[(&str, u32)]| {
        let rule = |(matching, cap): &(&str, u32)| {
            format!("[[rule]]\nmatch = {{ {matching} }}\naction = {{ cap = {cap} }}\n")
        };
        std::fs::write(&file, rules.iter().map(rule).collect::<String>()).expect("a policy");
        let name = file.display().to_string();
        let output = whatif(&["--json", "--policy", &name], &[&trace]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (answer(&output)["result"]["predictions"][0]["label"].clone(), said)
    };
    let others = [("program = \"nginx\"", 11), ("port = 9", 12), ("rtt = \"..1ms\"", 13)];
    let fitting = [&others[..], &[("port = 5201", 14), ("rtt = \"1ms..\"", 15)]].concat();
    let (label, said) = tried(&fitting);
    assert_eq!(
        (label.as_str(), said.contains("rule 4 is tried")),
        (Some("cap 14"), true),
        "{said}"
    );
    let (label, said) = tried(&others);
    assert_eq!((label.as_str(), said.contains("no rule is for")), (Some("cap 11"), true), "{said}");
}

#[test]
fn a_second_recording_without_the_setting_is_no_silent_verification() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after, with] = [("before", "reno"), ("after", "reno"), ("with", "cubic")]
        .map(|(name, algorithm)| recorded(&scenario(algorithm, 5), &folder.path().join(name)));
    for (after, is_told) in [(&after, true), (&with, false)] {
        let words = ["--verify", "--cc", "cubic"];
        let output = whatif(&words, &[&before, after]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said.contains("at its end the connection has reno, not cubic"),
            is_told,
            "{said}"
        );
    }
}

#[test]
fn where_others_take_a_part_of_the_path_nothing_is_predicted() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut scenario = scenario("cubic", 3);
    let other = Flow { start_s: SECONDS / 2.0, ..flow("other", 5202, "cubic") };
    scenario.flows.insert("other".into(), other);
    let trace = recorded(&scenario, folder.path());
    let policy = folder.path().join("none.toml");
    let written = policy.display().to_string();
    for arguments in [&["--cc", "bbr"][..], &["--cc", "bbr", "--write-policy", &written]] {
        let output = whatif(arguments, &[&trace]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("no prediction") && said.contains("other flows"), "{said}");
    }
    assert!(!policy.exists());
}

/// What is fitted to it.
fn model(scenario: &Scenario) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(TRANSOM);
    command.args(["whatif", "--json", "--budget", "0s"]).arg(recorded(scenario, folder.path()));
    let output = command.output().expect("transom runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["result"]["model"].clone()
}

/// And what does not match.
fn model_and_mismatches(scenario: &Scenario) -> (Value, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(scenario, folder.path());
    let output = whatif(&["--json", "--cc", "reno"], &[&trace]);
    let said = String::from_utf8_lossy(&output.stderr);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    (answer["result"]["model"].clone(), answer["result"]["mismatches"].clone())
}

#[test]
fn how_long_a_program_thinks_between_questions_is_found() {
    needs!("transom-simulate");
    for think_s in [0.0, 0.07] {
        let mut asking = scenario("cubic", 5);
        let flow = asking.flows.get_mut("flow").expect("the flow");
        flow.traffic = Traffic::Requests { request: 20_000, response: 6_000, think_s, count: 20 };
        let model = model(&asking);
        assert_eq!(model["program"]["kind"], "requests", "{model}");
        let found = model["program"]["think_s"].as_f64().expect("a time");
        assert!((found - think_s).abs() < 0.002, "{found} s instead of {think_s}");
    }
}

#[test]
fn over_a_slow_path_delayed_acknowledgements_are_no_other_flows() {
    needs!("transom-simulate");
    for queue in [1, 6] {
        let mut slow = scenario("cubic", 5);
        slow.links.path.rtt_ms = 9.0;
        // A packet takes 60 ms: no second one comes before the receiver acknowledges the first.
        (slow.links.path.up.rate_mbit, slow.links.path.up.queue_packets) = (Some(0.2), Some(queue));
        let (model, mismatches) = model_and_mismatches(&slow);
        assert_eq!(mismatches, serde_json::json!([]), "{queue} packets: {model}");
        let rate = model["path"]["rate"]["value"].as_f64().expect("a rate") * 8e-6;
        assert!((rate / 0.2 - 1.0).abs() < 0.01, "{rate} Mbit/s");
    }
}

#[test]
fn a_receivers_small_buffer_is_replayed_with_the_window_that_it_offered() {
    needs!("transom-simulate");
    let mut small = scenario("cubic", 5);
    small.links.path.rtt_ms = 6.0;
    // What is in flight stands in the queue: the round trip shows it, the goodput does not.
    (small.links.path.up.rate_mbit, small.links.path.up.queue_packets) = (Some(0.5), Some(60));
    small.flows.get_mut("flow").expect("the flow").receiver.receive_buffer = Some(4_608);
    let (model, mismatches) = model_and_mismatches(&small);
    assert_eq!(mismatches, serde_json::json!([]), "{model}");
    assert_eq!(model["receiver"]["window"]["value"], 4_344.0, "three segments");
}

#[test]
fn a_window_that_grew_further_than_it_was_used_is_no_limit_of_the_receiver() {
    needs!("transom-simulate");
    let window = |receive_buffer| {
        let mut first = scenario("cubic", 5);
        // The first window is larger than what a new connection is offered.
        first.hosts.get_mut("sender").expect("the sender").route.initcwnd = Some(100);
        (first.links.path.up.rate_mbit, first.links.path.up.queue_packets) =
            (Some(100.0), Some(1_000));
        let flow = first.flows.get_mut("flow").expect("the flow");
        flow.traffic = Traffic::Bulk { seconds: None, bytes: Some(400_000) };
        flow.receiver.receive_buffer = receive_buffer;
        model(&first)["receiver"]["window"].clone()
    };
    assert_eq!(window(None), Value::Null);
    assert!(window(Some(60_000)).is_object(), "the control: one that does not grow");
}

/// Losses that no queue causes.
fn lossy(algorithm: &str) -> Scenario {
    let mut scenario = scenario(algorithm, 5);
    scenario.links.path.up.loss = 0.01;
    scenario
}

#[test]
fn a_policy_is_written_of_what_helps_and_of_nothing_else() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&lossy("cubic"), &folder.path().join("run"));
    let policy = folder.path().join("policy.toml");
    let written = policy.display().to_string();
    let output = whatif(&["--cc", "reno", "--write-policy", &written], &[&trace]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("None of these settings of TCP would have made it faster."), "{said}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("no lever helps"), "{errors}");
    assert!(!policy.exists());
    answer(&whatif(&["--json", "--cc", "bbr,reno", "--write-policy", &written], &[&trace]));
    let text = std::fs::read_to_string(&policy).expect("a policy");
    let algorithms = ["bbr", "reno"].map(str::to_owned);
    let rules = Policy::parse(&text, &algorithms).expect("one that tune reads").rules;
    assert_eq!(rules[0].treatment.algorithm.as_deref(), Some("bbr"), "{text}");
    assert!(text.contains("times the goodput"), "{text}");
}

/// A machine with both ends, as one that downloads from a container of its own, records both.
#[test]
fn of_a_connection_with_both_ends_in_the_trace_the_senders_is_asked_about() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut download = scenario("reno", 5);
    let mut flow = Flow { reverse: true, ..flow("sender", 5201, "reno") };
    flow.traffic = bulk(SHORT);
    download.flows.insert("flow".into(), flow);
    let sender = recorded(&download, folder.path());
    let receiver = folder.path().join("trace-receiver.parquet");
    let [theirs, ours] = [&receiver, &sender].map(|trace| Reader::open(trace).expect("a trace"));
    let meta = ours.meta().clone();
    let all = theirs.chain(ours).collect::<Result<Vec<Event>, _>>();
    let mut events = all.expect("events");
    events.sort_by_key(|event| event.time_ns);
    let both = folder.path().join("both.parquet");
    let mut writer = Writer::create(&both, &meta, WriterOptions::default()).expect("a file");
    events.iter().for_each(|event| writer.push(&Raw::from(event)).expect("room"));
    writer.finish(Footer::default()).expect("a trace");
    let output = whatif(&["--json", "--cc", "cubic"], &[&both]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("10.77.0.1:5201 > 10.77.0.2:"), "{said}");
    assert_eq!(answer(&output)["result"]["predictions"][0]["label"], "cubic");
}

/// No ACK has an event after the sender has closed, which one does that has written all it has.
#[test]
fn an_upload_of_which_most_was_acknowledged_after_it_was_closed_is_replayed() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut upload = scenario("cubic", 3);
    upload.most_seconds = 30.0;
    upload.hosts.get_mut("sender").expect("the sender").gso_max_segs = 65_535;
    let path = &mut upload.links.path;
    path.rtt_ms = 145.4;
    (path.up.rate_mbit, path.up.queue_packets) = (Some(5.14), Some(124));
    let traffic = Traffic::Bulk { seconds: None, bytes: Some(1_000_000) };
    upload.flows.insert("flow".into(), Flow { traffic, ..flow("sender", 5201, "cubic") });
    let trace = recorded(&upload, &folder.path().join("run"));
    let output = whatif(&["--initial-window", "30"], &[&trace]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("\ninitial window 30 "), "{said}");
    assert!(said.contains("wrote 1000000 bytes at once, then closed"), "{said}");
}

#[test]
fn segments_smaller_than_ipv6_needs_are_replayed() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut over_ipv6 = scenario("cubic", 3);
    for (number, host) in (1..).zip(over_ipv6.hosts.values_mut()) {
        host.addresses = vec![[0xfd00, 0x77, 0, 0, 0, 0, 0, number].into()];
    }
    let flow = over_ipv6.flows.get_mut("flow").expect("the flow");
    (flow.ipv6, flow.sender.mss) = (true, Some(1100));
    let trace = recorded(&over_ipv6, &folder.path().join("run"));
    let output = whatif(&["--initial-window", "20"], &[&trace]);
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("\ninitial window 20 "), "{said}{errors}");
}

fn transom(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(TRANSOM).args(arguments).args(files).output().expect("transom runs")
}

#[test]
fn explain_and_report_name_the_best_lever_when_asked() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&lossy("reno"), &folder.path().join("run"));
    let explained = answer(&transom(&["explain", "--whatif=5min", "--json"], &[&trace]));
    let said = explained[0]["verdict"]["lever"].as_str().expect("a lever");
    assert!(said.starts_with("What helps: with bbr ") && said.contains("times ("), "{said}");
    let predictions = &explained[0]["whatif"]["result"]["predictions"];
    assert_eq!(predictions[0]["label"], "bbr");
    let words = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.replace("\n    ", " ")
    };
    let begin = &said[..said.find(" times").expect("a number")];
    assert!(words(&transom(&["explain", "--whatif=5min"], &[&trace])).contains(begin), "{begin}");
    assert!(!words(&transom(&["explain"], &[&trace])).contains("What helps"));
    let page = folder.path().join("page.html");
    let name = page.display().to_string();
    for (arguments, is_asked) in
        [(vec!["report", "-o", &name], false), (vec!["report", "--whatif=5min", "-o", &name], true)]
    {
        let output = transom(&arguments, &[&trace]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let page = std::fs::read_to_string(&page).expect("a page");
        assert_eq!(page.contains(begin), is_asked, "{arguments:?}");
    }
}

#[test]
fn a_simulation_that_fails_is_a_sentence_of_what_is_explained() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("cubic", 3), &folder.path().join("run"));
    let alone = folder.path().join("transom");
    copy_transom(&alone);
    let broken = folder.path().join("transom-simulate");
    std::fs::write(&broken, "#!/bin/sh\necho 'transom-simulate: out of order' >&2\nexit 1\n")
        .and_then(|()| std::fs::set_permissions(&broken, Permissions::from_mode(0o755)))
        .expect("a program");
    let run = |words: &[&str]| {
        let output = Command::new(&alone).args(words).arg(&trace).output().expect("transom runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).replace("\n    ", " ")
    };
    let why = "cannot be predicted: the simulation failed: out of order.";
    let explained = run(&["explain", "--whatif"]);
    assert!(explained.contains(why) && explained.contains(":5201"), "{explained}");
    let page = folder.path().join("page.html");
    run(&["report", "--whatif", "-o", &page.display().to_string()]);
    assert!(std::fs::read_to_string(&page).expect("a page").contains(why));
}

#[test]
fn a_limit_that_is_not_tcps_is_named_and_how_far_it_would_have_to_move() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let writes: Vec<(f64, u64)> = (0..15).map(|i| (f64::from(i) * 0.5, 40_000)).collect();
    type Limit = (&'static str, &'static str, Box<dyn Fn(&mut Scenario)>);
    let on_flow = |change: fn(&mut Flow)| -> Box<dyn Fn(&mut Scenario)> {
        Box::new(move |it| change(it.flows.get_mut("flow").expect("the flow")))
    };
    let limits: [Limit; 5] = [
        (
            "a program that never waits",
            "it must write",
            Box::new(move |it| {
                let flow = it.flows.get_mut("flow").expect("the flow");
                flow.traffic = Traffic::Writes { writes: writes.clone() };
            }),
        ),
        (
            "a send buffer that grows",
            "kB in flight",
            on_flow(|flow| {
                flow.sender.send_buffer = Some(20_000);
            }),
        ),
        (
            "a send buffer that grows",
            "kB in flight",
            Box::new(|it| {
                // It grows at first, and would have to hold 100 kB.
                it.links.path.rtt_ms = 100.0;
                let sender = it.hosts.get_mut("sender").expect("the sender");
                sender.sysctl.insert("ipv4.tcp_wmem".into(), "4096 16384 65536".into());
            }),
        ),
        (
            "a receiver's window that grows",
            "it must be",
            on_flow(|flow| {
                flow.receiver.receive_buffer = Some(20_000);
            }),
        ),
        (
            "a device as fast as the path",
            "it must send",
            Box::new(|it| {
                it.hosts.get_mut("sender").expect("the sender").device_mbit = Some(3.0);
            }),
        ),
    ];
    for (number, (without, needed, limit)) in limits.iter().enumerate() {
        let mut scenario = scenario("cubic", 5);
        scenario.most_seconds = SHORT;
        scenario
            .flows
            .insert("flow".into(), Flow { traffic: bulk(SHORT), ..flow("sender", 5201, "cubic") });
        limit(&mut scenario);
        let trace = recorded(&scenario, &folder.path().join(number.to_string()));
        let output = whatif(&["--try", "usual"], &[&trace]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("None of these settings of TCP would"), "{without}: {said}");
        let (_, of_limit) = said
            .split_once("A limit that is not TCP's: ")
            .unwrap_or_else(|| panic!("{without}: {said}"));
        assert!(of_limit.contains(&format!("With {without} ")), "{said}");
        assert!(
            of_limit.contains(needed) || of_limit.contains("the path was never filled"),
            "{said}"
        );
    }
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing_behind() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("cubic", 3), &folder.path().join("run"));
    let place = folder.path().join("temporary");
    std::fs::create_dir(&place).expect("a folder");
    let caps: Vec<String> = (10..200).map(|cap| cap.to_string()).collect();
    let mut command = Command::new(TRANSOM);
    command.args(["whatif", "--budget", "5m", "--cap", &caps.join(",")]).arg(&trace);
    command.env("TMPDIR", &place).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("transom runs");
    let mut lines = BufReader::new(child.stderr.take().expect("its messages")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("simulations"), "{first}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it lives");
    let status = child.wait().expect("it ends");
    assert!(!status.success(), "{status}");
    let left: Vec<_> = std::fs::read_dir(&place).expect("the folder").collect();
    assert!(left.is_empty(), "{left:?}");
    let of_ours =
        |line: &[u8]| String::from_utf8_lossy(line).contains(&place.display().to_string());
    let processes = std::fs::read_dir("/proc").expect("proc").flatten();
    let lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    assert_eq!(lines.filter(|line| of_ours(line)).count(), 0, "simulations run on");
}

#[test]
fn what_cannot_be_done_is_said_with_its_remedy() {
    needs!("transom-simulate");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = recorded(&scenario("cubic", 3), &folder.path().join("run"));
    let refused = |arguments: &[&str], files: &[&Path], words: &str| {
        let output = whatif(arguments, files);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    refused(&[], &[&trace, &trace], "--verify");
    refused(&["--verify"], &[&trace], "--verify");
    refused(&["--verify"], &[&trace, &trace], "no setting");
    refused(&["--sysctl", "tcp_sack"], &[&trace], "NAME=VALUE");
    for (words, says) in [
        (["--cc", "cubic,nonesuch"], "no congestion control 'nonesuch': it has "),
        (["--sysctl", "ipv4.nonesuch=1"], "sysctl -a"),
        (["--sysctl", "ipv4.tcp_sack=x"], "Invalid argument"),
    ] {
        refused(&words, &[&trace], says);
        let said = whatif(&words, &[&trace]).stderr;
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("simulations"), "before anything is simulated: {said}");
    }
    refused(&["--cap", "1"], &[&trace], "2..=1000000");
    refused(&["--initial-window", "0"], &[&trace], "1..=255");
    refused(&["--connection", ":9"], &[&trace], "no connection is");
    let cut = folder.path().join("cut.parquet");
    let whole = std::fs::read(&trace).expect("a trace");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("half of it");
    refused(&[], &[&cut], "cut or corrupt");
    refused(&[], &[&folder.path().join("run/trace-receiver.parquet")], "record there");
    let alone = folder.path().join("transom");
    copy_transom(&alone);
    let page = folder.path().join("page.html").display().to_string();
    for arguments in
        [vec!["whatif"], vec!["explain", "--whatif"], vec!["report", "--whatif", "-o", &page]]
    {
        let mut command = Command::new(&alone);
        let output = command.args(&arguments).arg(&trace).env("PATH", folder.path()).output();
        let output = output.expect("transom runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("make simulator"),
            "{arguments:?}: {said}"
        );
    }
    assert!(!Path::new(&page).exists(), "a page without what was asked for");
}

//! From predictions to what a user is told to do.

#[path = "../../analysis/tests/sender/mod.rs"]
mod sender;

use sender::{Bottleneck, MS, Setup, only, run};
use transom_analysis::analyse_connection;
use transom_event::Endpoints;
use transom_predict::{
    Change, For, Harm, Interval, Lift, Machine, Measured, Model, Others, Parameter, Place,
    Prediction, Steady, Suggestion, WhatIf, fit, levers, suggest, text,
};

const LEAST: f64 = 0.05;

/// 1 MB/s and a queue that was full.
fn model() -> Model {
    let bottleneck = Some(Bottleneck { rate: 1_000_000, room: 40, polices: false });
    let setup =
        Setup { length_ns: 6_000 * MS, hystart_at: Some(40), bottleneck, ..Setup::default() };
    let recording = run(setup);
    let connection = only(&recording);
    let analysis = analyse_connection(connection, &recording);
    fit(connection, &analysis, &recording).expect("it can be fitted").remove(0)
}

fn interval(value: f64) -> Interval {
    Interval { value, low: value * 0.95, high: value * 1.05 }
}

fn beside(goodput_mbit: f64, share: f64) -> Option<Others> {
    Some(Others { share, goodput_mbit, rtt_median_s: 0.05 })
}

fn predicted(change: Change, gain: f64) -> Prediction {
    Prediction {
        label: change.label(),
        change,
        gain: interval(gain),
        goodput_mbit: interval(gain * 4.0),
        seconds: interval(8.0),
        rtt_p95_s: interval(0.06),
        retransmitted: Interval::default(),
        others: beside(4.0, 0.5),
        runs: 6,
        is_open: false,
    }
}

fn algorithm(name: &str, gain: f64) -> Prediction {
    predicted(Change { algorithm: Some(name.into()), ..Change::default() }, gain)
}

fn lifted(lift: Lift, gain: f64) -> Prediction {
    predicted(Change::of_lift(lift), gain)
}

fn answer(model: Model, predictions: Vec<Prediction>) -> WhatIf {
    let recorded = Measured { goodput_mbit: 4.0, rtt_p95_s: 0.03, ..Measured::default() };
    WhatIf {
        model,
        replayed: Some(recorded.clone()),
        recorded,
        mismatches: Vec::new(),
        unchanged: Some(predicted(Change::default(), 1.0)),
        predictions,
        complete: true,
        skipped: 0,
        failure: None,
        simulations: 12,
    }
}

fn of() -> For<'static> {
    let address = |text: &str| text.parse().expect("an address");
    For {
        program: "iperf3",
        ends: Endpoints { local: address("10.0.0.1:40000"), remote: address("10.0.0.2:5201") },
        serves: false,
        trace: "my upload.parquet",
        command: "transom tune suggest",
        policy: "POLICY.toml",
    }
}

fn machine() -> Machine {
    let names = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
    Machine {
        algorithms: names(&["reno", "cubic", "steady"]),
        modules: names(&["bbr"]),
        send_memory: Some([4096, 16384, 4 << 20]),
    }
}

fn suggested(model: Model, predictions: Vec<Prediction>) -> Suggestion {
    suggest(&of(), &machine(), &answer(model, predictions), LEAST)
}

#[test]
fn the_best_lever_comes_with_its_command_and_how_to_verify_it() {
    let all = suggested(model(), vec![algorithm("cubic", 1.8), algorithm("reno", 1.2)]);
    let [best, second] = &all.levers[..] else { panic!("{all:?}") };
    assert_eq!((best.label.as_str(), best.place), ("cubic", Place::Tune));
    assert_eq!(second.label, "reno");
    let set = "sudo transom tune set --algorithm cubic --remote 10.0.0.2 --port 5201";
    assert_eq!(best.commands, [set]);
    assert_eq!(
        best.verification,
        [
            "sudo transom record -o after.parquet --port 5201",
            "transom whatif --verify 'my upload.parquet' after.parquet"
        ]
    );
    let said = text::suggestion(&all);
    assert!(said.starts_with(
        "Best: cubic, 1.80 times (1.71 to 1.89) the goodput, 7.20 Mbit/s, round trip 60.0 ms"
    ));
    assert!(said.contains(set) && said.contains("These help, too:\n  reno, 1.20 times"), "{said}");
    let policy = best.policy.as_ref().expect("tune can set it");
    let rule = "match = { remote = \"10.0.0.2\", port = 5201 }\naction = { algorithm = \"cubic\" }";
    assert!(policy.contains(rule), "{policy}");
    assert!(policy.starts_with("# Written by `transom tune suggest` from my upload"), "{policy}");
}

#[test]
fn a_server_is_named_by_its_own_port() {
    let of = For { serves: true, ..of() };
    let result = answer(model(), vec![algorithm("cubic", 1.8)]);
    let all = suggest(&of, &machine(), &result, LEAST);
    assert_eq!(all.levers[0].commands, ["sudo transom tune set --algorithm cubic --port 40000"]);
}

#[test]
fn a_module_is_loaded_first_and_what_the_kernel_lacks_is_not_suggested() {
    let all = suggested(model(), vec![algorithm("bbr", 3.0)]);
    assert_eq!(all.levers[0].commands[0], "sudo modprobe tcp_bbr");
    let without = Machine { modules: Vec::new(), ..machine() };
    let result = answer(model(), vec![algorithm("bbr", 3.0), algorithm("cubic", 1.5)]);
    let all = suggest(&of(), &without, &result, LEAST);
    assert_eq!(all.levers[0].label, "cubic");
    let said = text::suggestion(&all);
    assert!(said.contains("Not set here: bbr, 3.00 times"), "{said}");
    assert!(said.contains("this kernel has no bbr, and no module tcp_bbr"), "{said}");
}

#[test]
fn a_gain_that_others_pay_for_is_marked_and_the_best_that_they_do_not_is_named() {
    let takes = Prediction { others: beside(0.6, 0.1), ..algorithm("cubic", 3.0) };
    let queues = Prediction { rtt_p95_s: interval(0.2), ..algorithm("reno", 2.0) };
    let fair = predicted(Change { initial_window: Some(40), ..Change::default() }, 1.3);
    let all = suggested(model(), vec![takes, queues, fair]);
    let share = Harm::Share { cubic_mbit: 0.6, instead_of_mbit: 4.0 };
    assert_eq!(all.levers[0].harms, [share]);
    assert_eq!(all.levers[1].harms, [Harm::Queue { rtt_p95_s: 0.2, instead_of_s: 0.06 }]);
    assert!(all.levers[2].is_harmless());
    let said = text::suggestion(&all);
    assert!(said.contains("Harms others: a CUBIC flow beside it gets 0.60 Mbit/s"), "{said}");
    assert!(said.contains("Best without harm to others: initial window 40, 1.30"), "{said}");
    assert!(said.contains("--initial-window 40"), "{said}");
}

#[test]
fn a_queue_that_cubic_would_fill_as_well_is_no_harm() {
    let long = |it: Prediction| Prediction { rtt_p95_s: interval(0.2), ..it };
    let reno = vec![long(algorithm("reno", 2.0)), long(algorithm("cubic", 1.0))];
    for predictions in [reno, vec![long(lifted(Lift::ReceiverWindow, 2.0))]] {
        let all = suggested(model(), predictions);
        assert!(all.levers[0].is_harmless(), "{all:?}");
    }
}

#[test]
fn where_the_path_and_not_the_neighbour_limits_cubic_nothing_is_taken_from_it() {
    let mut result =
        answer(model(), vec![Prediction { others: beside(0.9, 0.1), ..algorithm("cubic", 6.0) }]);
    result.unchanged =
        Some(Prediction { others: beside(1.0, 0.5), ..predicted(Change::default(), 1.0) });
    let all = suggest(&of(), &machine(), &result, LEAST);
    assert!(all.levers[0].is_harmless(), "{:?}", all.levers[0].harms);
}

#[test]
fn without_a_gain_above_the_least_all_is_left_as_it_is() {
    let few =
        vec![algorithm("cubic", 1.04), Prediction { is_open: true, ..algorithm("reno", 9.0) }];
    let unsure = Prediction {
        gain: Interval { value: 1.3, low: 0.9, high: 1.8 },
        ..algorithm("cubic", 1.3)
    };
    for predictions in [few, vec![unsure], Vec::new()] {
        let all = suggested(model(), predictions);
        assert!(all.levers.is_empty() && all.for_delay.is_none(), "{all:?}");
        let said = text::suggestion(&all);
        assert!(said.starts_with("No lever helps by more than 5 %: leave it"), "{said}");
    }
    let result = answer(model(), vec![algorithm("cubic", 1.8)]);
    let all = suggest(&of(), &machine(), &result, 1.0);
    assert!(all.levers.is_empty(), "less than the doubling that was asked for");
}

#[test]
fn a_time_that_was_too_short_to_tell_is_no_reason_to_leave_it_as_it_is() {
    let open = Interval { value: 4.1, low: 0.6, high: 28.0 };
    let unsure = || vec![Prediction { gain: open, is_open: true, ..algorithm("bbr", 4.1) }];
    let unsure_of_little = || {
        let open = Interval { value: 1.03, low: 0.3, high: 3.5 };
        vec![Prediction { gain: open, is_open: true, ..algorithm("bbr", 1.03) }]
    };
    let same = || vec![algorithm("reno", 1.0)];
    let short =
        |predictions, skipped| WhatIf { complete: false, skipped, ..answer(model(), predictions) };
    for result in
        [short(unsure(), 0), short(unsure_of_little(), 0), short(same(), 2), short(Vec::new(), 3)]
    {
        let all = suggest(&of(), &machine(), &result, LEAST);
        assert!(all.is_too_short(), "{all:?}");
        let said = text::suggestion(&all);
        assert!(said.starts_with("The time was over before it was known"), "{said}");
        assert!(said.contains("raise --budget") && !said.contains("leave it"), "{said}");
    }
    let said = text::suggestion(&suggest(&of(), &machine(), &short(unsure(), 0), LEAST));
    assert!(said.contains("not known: bbr, 4.10 times (0.60 to 28.0)."), "{said}");

    // That fewer runs than usual agree on it is an answer; and what helps is one in any case.
    let all = suggest(&of(), &machine(), &short(same(), 0), LEAST);
    assert!(!all.is_too_short() && text::suggestion(&all).contains("leave it as it is"));
    let all = suggest(&of(), &machine(), &short(vec![algorithm("cubic", 1.8)], 2), LEAST);
    let said = text::suggestion(&all);
    assert!(!all.is_too_short() && said.starts_with("Best: cubic"), "{said}");
    assert!(said.contains("Ended early"), "{said}");
}

#[test]
fn a_limit_of_the_receiver_is_lifted_there_to_what_the_path_and_its_queue_hold() {
    let mut limited = model();
    limited.receiver.window = Some(Parameter::new(10_000.0, 10_000.0, Some(10_000.0), "all"));
    let path = &limited.path;
    let holds = path.rate.value * path.rtt_s.value;
    let all = suggested(limited.clone(), vec![lifted(Lift::ReceiverWindow, 2.0)]);
    let best = &all.levers[0];
    assert_eq!((best.place, best.policy.as_ref()), (Place::Receiver, None));
    let (_, value) = best.commands[0].split_once("4096 131072 ").expect("tcp_rmem");
    let memory: f64 = value.split('"').next().and_then(|it| it.parse().ok()).expect("bytes");
    assert!(memory >= 2.0 * holds && memory <= 8.0 * holds.max(32768.0), "{memory} {holds}");
    assert!(best.commands[0].ends_with("# on 10.0.0.2"), "{:?}", best.commands);
    assert!(text::suggestion(&all).contains("on the receiver's machine"));
}

/// What is said of a connection that a send buffer of so many bytes limited, on a machine whose
/// `tcp_wmem` ends with `most`.
fn of_send_buffer(bytes: u32, grew: bool, most: u64) -> Suggestion {
    let mut limited = model();
    (limited.sender.send_buffer, limited.sender.send_buffer_grew) = (Some(bytes / 2), grew);
    let result = answer(limited, vec![lifted(Lift::SendBuffer, 2.0)]);
    let machine = Machine { send_memory: Some([4096, 16384, most]), ..machine() };
    suggest(&of(), &machine, &result, LEAST)
}

#[test]
fn a_send_buffer_is_a_sysctl_where_it_is_the_largest_automatic_one() {
    let all = of_send_buffer(16384, false, 16384);
    assert_eq!(all.levers[0].place, Place::Sysctl);
    assert_eq!(all.levers[0].commands, ["sudo sysctl -w net.ipv4.tcp_wmem=\"4096 16384 262144\""]);
    let all = of_send_buffer(16384, false, 4 << 20);
    assert!(all.levers.is_empty(), "the program has set it");
    assert!(text::suggestion(&all).contains("its program has set SO_SNDBUF (8192 bytes)"));
}

#[test]
fn a_send_buffer_that_grew_is_a_sysctl_where_this_machine_gives_less_than_is_needed() {
    let all = of_send_buffer(65536, true, 32768);
    assert_eq!(all.levers[0].commands, ["sudo sysctl -w net.ipv4.tcp_wmem=\"4096 16384 262144\""]);
    let all = of_send_buffer(65536, true, 4 << 20);
    assert!(all.levers.is_empty(), "no command makes it smaller: {:?}", all.levers);
    let said = text::suggestion(&all);
    assert!(said.contains("lets that of a new connection grow to 4194304"), "{said}");
}

#[test]
fn a_send_buffer_that_limits_becomes_larger_also_where_the_path_holds_no_more() {
    for grew in [false, true] {
        let all = of_send_buffer(4 << 20, grew, 4 << 20);
        let command = "sudo sysctl -w net.ipv4.tcp_wmem=\"4096 16384 8388608\"";
        assert_eq!(all.levers[0].commands, [command]);
    }
}

#[test]
fn what_only_a_program_can_change_is_no_lever() {
    let open = Prediction { is_open: true, ..lifted(Lift::Application, 2.0) };
    let all = suggested(model(), vec![open, lifted(Lift::Reader, 1.5)]);
    assert!(all.levers.is_empty());
    let said = text::suggestion(&all);
    assert!(said.contains("a program that never waits, at least 1.90 times"), "{said}");
    assert!(said.contains("the receiving program must read faster"), "{said}");
}

#[test]
fn steady_is_set_with_its_parameters_and_below_its_usual_floor_if_the_path_is() {
    let steady = Steady { target: 14, cap: 17, backoff: 0, gain: Steady::ONE };
    let change =
        Change { algorithm: Some("steady".into()), steady: Some(steady), ..Change::default() };
    let mut near = model();
    near.path.rtt_s.value = 0.02;
    let all = suggested(near, vec![predicted(change, 2.0)]);
    let best = &all.levers[0];
    assert_eq!(best.label, "steady, target 14, cap 17, backoff 0");
    let set = "sudo transom tune set --algorithm steady --target 14 --cap 17 --backoff 0 \
               --remote 10.0.0.2 --port 5201 --rtt 0ms..";
    assert_eq!(best.commands, [set]);
    let policy = best.policy.as_ref().expect("a policy");
    let action = "action = { algorithm = \"steady\", target = 14, cap = 17, backoff = 0 }";
    assert!(policy.contains(action) && policy.contains("rtt = \"0ms..\""), "{policy}");
    assert!(
        best.verification[1].contains("--verify --policy POLICY.toml"),
        "the trace has no target"
    );
}

#[test]
fn a_sysctl_is_verified_by_its_name() {
    let sysctl = [("ipv4.tcp_slow_start_after_idle".to_owned(), "0".to_owned())].into();
    let all = suggested(model(), vec![predicted(Change { sysctl, ..Change::default() }, 1.5)]);
    let best = &all.levers[0];
    assert_eq!(best.commands, ["sudo sysctl -w net.ipv4.tcp_slow_start_after_idle=0"]);
    assert!(best.verification[1].contains("--sysctl ipv4.tcp_slow_start_after_idle=0"));
}

#[test]
fn where_round_trips_stand_in_a_queue_a_shorter_one_is_offered_though_nothing_is_faster() {
    let cap = Change { cap: Some(17), ..Change::default() };
    let short = Prediction { rtt_p95_s: interval(0.022), ..predicted(cap, 0.99) };
    let mut near = model();
    near.path.rtt_s.value = 0.02;
    let mut result = answer(near, vec![short]);
    result.recorded.rtt_p95_s = 0.06;
    let all = suggest(&of(), &machine(), &result, LEAST);
    assert!(all.levers.is_empty());
    let said = text::suggestion(&all);
    assert!(said.contains("If the delay matters: cap 17, a round trip of 22.0 ms"), "{said}");
    assert!(said.contains("fq_codel"), "the queue is not ours: {said}");
}

#[test]
fn what_is_tried_contains_more_than_our_own() {
    let all: Vec<String> = levers(&model()).iter().map(Change::label).collect();
    let begins = |what: &str| all.iter().any(|label| label.starts_with(what));
    for what in ["bbr", "steady", "steady, target", "initial window 40", "cap "] {
        assert!(begins(what), "{what} of {all:?}");
    }
}

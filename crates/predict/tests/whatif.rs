//! Replay, refusal and prediction, with a small sender in the place of the simulator.

#[path = "../../analysis/tests/sender/mod.rs"]
mod sender;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use sender::{Bottleneck, MS, MSS, Program, Setup, only, run};
use transom_analysis::{Analysis, Recording, analyse_connection};
use transom_predict::{
    Change, Effort, Interval, Measured, Misfit, Model, Parameter, Policed, Prediction,
    Program as Fitted, Scene, Simulator, Watch, WhatIf, fit, mismatches, of_connection, scenario,
    text, verify, whatif,
};
use transom_scenario::{FlowOutcome, Outcome, Scenario, Traffic};

/// Runs a scenario with the sender of the tests.
struct Small;

impl Simulator for Small {
    fn run(&self, scenario: &Scenario, _: Duration) -> Result<Option<(Outcome, Recording)>> {
        scenario.check()?;
        let path = &scenario.links.path;
        // Packets of the scenario have headers, those of the tests have none.
        let sender = &scenario.hosts["sender"];
        let most = sender.device_mbit.unwrap_or(f64::INFINITY);
        let rate = path.up.rate_mbit.unwrap_or(1e3).min(most) / 8e-6 * f64::from(MSS)
            / f64::from(sender.mtu);
        let room = path.up.queue_packets.map_or(1_000_000, u64::from);
        let start_s = scenario.flows["flow"].start_s;
        let setup = Setup {
            rtt_ns: (path.rtt_ms * 1e6) as u64,
            length_ns: ((scenario.most_seconds - start_s) * 1e9) as u64,
            clamp: scenario.hosts["sender"].route.cwnd,
            hystart_at: Some(40),
            bottleneck: Some(Bottleneck { rate: rate as u64, room, polices: false }),
            ..Setup::default()
        };
        let mut outcome = Outcome::default();
        let received = FlowOutcome { received: 1_000_000, ..FlowOutcome::default() };
        for name in scenario.flows.keys() {
            outcome.flows.insert(name.clone(), received.clone());
        }
        Ok(Some((outcome, run(setup))))
    }
}

struct Patient;

impl Watch for Patient {
    fn progress(&self, _: usize, _: usize) {}

    fn stops(&self) -> bool {
        false
    }
}

const EFFORT: Effort =
    Effort { replays: 2, runs: 2, competing: 1, jobs: 2, budget: Duration::from_secs(600) };

fn setup() -> Setup {
    let bottleneck = Some(Bottleneck { rate: 1_000_000, room: 40, polices: false });
    Setup { length_ns: 6_000 * MS, hystart_at: Some(40), bottleneck, ..Setup::default() }
}

fn models_of(recording: &Recording) -> (Vec<Model>, Measured) {
    let connection = only(recording);
    let analysis = analyse_connection(connection, recording);
    let models = fit(connection, &analysis, recording).expect("it can be fitted");
    let seconds = (connection.last_ns - connection.first_ns) as f64 / 1e9;
    (models, of_connection(connection, &analysis, seconds, seconds))
}

fn analysis_of(recording: &Recording) -> Analysis {
    analyse_connection(only(recording), recording)
}

fn cap(cap: u32) -> Change {
    Change { cap: Some(cap), ..Change::default() }
}

fn asked(recording: &Recording, changes: &[Change]) -> WhatIf {
    let (models, recorded) = models_of(recording);
    whatif(&models, &recorded, changes, &Small, &Patient, EFFORT).unwrap()
}

#[test]
fn a_cap_is_predicted_as_it_is_then_recorded() {
    let answer = asked(&run(setup()), &[cap(20), cap(60)]);
    assert_eq!(answer.mismatches, []);
    assert!(answer.complete);
    let labels: Vec<&str> = answer.predictions.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["cap 60", "cap 20"], "the best first");
    for (prediction, clamp) in answer.predictions.iter().zip([60, 20]) {
        let after = run(Setup { clamp: Some(clamp), ..setup() });
        let (_, after) = models_of(&after);
        let goodput = &verify(prediction, &after)[0];
        let ratio = goodput.ratio().unwrap();
        assert!((ratio - 1.0).abs() < 0.03, "cap {clamp}: {ratio}");
        assert!(goodput.low <= goodput.recorded && goodput.recorded <= goodput.high, "{goodput:?}");
    }
}

#[test]
fn what_the_model_has_no_cause_for_is_named_and_nothing_is_predicted() {
    // For a fifth of the time nothing arrives, and no queue is full.
    let outage = run(Setup { blackout: 2_000 * MS..3_200 * MS, ..setup() });
    let answer = asked(&outage, &[cap(60)]);
    assert!(answer.predictions.is_empty());
    let texts: Vec<&str> = answer.mismatches.iter().map(|it| it.text.as_str()).collect();
    let said = text::lever(&answer.model, &answer);
    assert!(said.contains("cannot be predicted: ") && said.contains(texts[0]), "{said}");
    assert!(texts.iter().any(|text| text.contains("has no cause for that")), "{texts:?}");
}

#[test]
fn other_flows_that_come_and_go_are_refused_though_the_mean_is_near() {
    let (mut models, recorded) = models_of(&run(setup()));
    models.truncate(1);
    let mut ask = |worst_s| {
        models[0].misfit = Some(Misfit { mean_s: 1e-3, from_s: 2.0, to_s: 2.6, worst_s });
        whatif(&models, &recorded, &[cap(60)], &Small, &Patient, EFFORT).unwrap()
    };
    let said = ask(0.012).mismatches.first().map(|it| it.text.clone()).unwrap_or_default();
    assert!(said.contains("12.0 ms from 2.00 to 2.60 s") && said.contains("other flows"), "{said}");
    assert_eq!(ask(0.002).mismatches, [], "the control");
}

#[test]
fn that_replays_are_few_makes_nothing_match() {
    let standing = |rtt_s| Measured {
        goodput_mbit: 16.0,
        rtt_median_s: rtt_s,
        rtt_p95_s: rtt_s,
        cwnd_median: 700,
        ..Measured::default()
    };
    let off = |replays: &[f64]| {
        let replays: Vec<Measured> = replays.iter().map(|&rtt_s| standing(rtt_s)).collect();
        mismatches(&standing(0.35), &replays.iter().collect::<Vec<_>>()).len()
    };
    // Of two numbers no more is known than that they differ.
    assert_eq!(off(&[0.15, 0.22]), 2, "the median and the 95th percentile");
    assert_eq!(off(&[0.15, 0.17, 0.19]), 2);
    // What lies between replays, or near one, matches as before.
    for replays in [&[0.2, 0.5][..], &[0.15, 0.30], &[0.15, 0.2, 0.28]] {
        assert_eq!(off(replays), 0, "{replays:?}");
    }
}

/// With a cap of 60, every second run is held back by something else.
struct Fitful;

impl Simulator for Fitful {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        let mut scenario = scenario.clone();
        let cap = &mut scenario.hosts.get_mut("sender").expect("the sender").route.cwnd;
        if *cap == Some(60) && scenario.seed.is_multiple_of(2) {
            *cap = Some(20);
        }
        Small.run(&scenario, within)
    }
}

/// With a cap of 60, a sender whose device takes so many segments at once is held back by something
/// else.
const SEGMENTS: u32 = 7;

struct Divided;

impl Simulator for Divided {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        let mut scenario = scenario.clone();
        let sender = scenario.hosts.get_mut("sender").expect("the sender");
        if sender.gso_max_segs == SEGMENTS && sender.route.cwnd == Some(60) {
            sender.route.cwnd = Some(20);
        }
        Small.run(&scenario, within)
    }
}

#[test]
fn a_prediction_reaches_over_all_models_that_explain_the_recording() {
    let (mut models, recorded) = models_of(&run(setup()));
    models.truncate(1);
    let changes = [cap(60), cap(20)];
    let ask = |models: &[Model]| {
        let effort = Effort { replays: 3, runs: 3, ..EFFORT };
        whatif(models, &recorded, &changes, &Divided, &Patient, effort).unwrap()
    };
    let of = |answer: &WhatIf, cap: u32| {
        let is = |it: &&Prediction| it.change.cap == Some(cap);
        answer.predictions.iter().find(is).unwrap().clone()
    };
    let alone = ask(&models);
    let mut other = models[0].clone();
    other.sender.gso_segments = SEGMENTS;
    models.push(other);
    let both = ask(&models);
    assert_eq!(both.mismatches, []);
    let (is, was) = (of(&both, 60), of(&alone, 60));
    assert_eq!(is.gain.value, was.gain.value, "that of the likelier one");
    let held_back = of(&alone, 20).gain.value;
    assert!(is.gain.low <= held_back, "{:?}, and {held_back} is possible", is.gain);
    assert!(was.gain.low > held_back * 1.2, "the control: {:?}", was.gain);
    // What both say is no wider.
    assert_eq!(of(&both, 20).gain, of(&alone, 20).gain);
    assert!(both.model.notes.len() > alone.model.notes.len(), "{:?}", both.model.notes);
    // One that does not explain it has no say.
    let slow = models[1].path.rate.value / 2.0;
    models[1].path.rate = Parameter::new(slow, slow, Some(slow), "wrong");
    assert_eq!(of(&ask(&models), 60).gain, was.gain);
}

#[test]
fn few_runs_that_differ_reach_no_further_than_the_path_lets_anything_through() {
    let (models, recorded) = models_of(&run(setup()));
    let changes = [cap(60)];
    let answer = whatif(&models, &recorded, &changes, &Fitful, &Patient, EFFORT).unwrap();
    assert_eq!(answer.mismatches, []);
    let path = &answer.model.path;
    let Prediction { runs, goodput_mbit, gain, rtt_p95_s, .. } = &answer.predictions[0];
    assert!(*runs == 2 && goodput_mbit.low < goodput_mbit.value / 2.0, "{goodput_mbit:?}");
    // Of segments of 1000 bytes over a rate of as many in a second.
    assert!(goodput_mbit.high <= 8.0 * 1.01, "{goodput_mbit:?}");
    assert!(gain.high <= 1.01 * 8.0 / recorded.goodput_mbit, "{gain:?}");
    assert!(rtt_p95_s.low >= path.rtt_s.low, "{rtt_p95_s:?}");
}

#[test]
fn few_runs_that_leave_open_what_helps_are_no_word_against_it() {
    let capped = Setup { clamp: Some(20), ..setup() };
    let mut answer = asked(&run(capped), &[cap(60), cap(8)]);
    answer.complete = false;
    answer.predictions[0].gain = Interval { value: 2.9, low: 0.4, high: 21.0 };
    answer.predictions[0].is_open = true;
    let analysis = analysis_of(&run(setup()));
    let said = text::whatif(&answer.model, &analysis, &answer);
    let known = "None of these settings of TCP is known to make it faster. It may be: cap 60, 2.90";
    assert!(said.contains(known) && said.contains("Ended early"), "{said}");
    let said = text::lever(&answer.model, &answer);
    assert!(said.starts_with("No setting of TCP is known to help: "), "{said}");
    // One that was not simulated may help as well.
    answer.predictions.remove(0);
    answer.skipped = 1;
    let said = text::whatif(&answer.model, &analysis, &answer);
    assert!(said.contains("None of the settings of TCP that were simulated would"), "{said}");
}

#[test]
fn one_sentence_names_what_helps_and_what_does_not() {
    let capped = Setup { clamp: Some(20), ..setup() };
    let (models, recorded) = models_of(&run(capped));
    let effort = Effort { replays: 6, runs: 6, ..EFFORT };
    let changes = [cap(60), cap(21), cap(8)];
    let answer = whatif(&models, &recorded, &changes, &Small, &Patient, effort).unwrap();
    let said = text::lever(&answer.model, &answer);
    let begin = "What helps: with cap 60 ";
    assert!(said.starts_with(begin) && said.contains("cap 21 no difference"), "{said}");
    assert!(said.contains("with cap 8 less"), "{said}");
    let answer = asked(&run(setup()), &[cap(8)]);
    let said = text::lever(&answer.model, &answer);
    assert!(said.starts_with("No setting of TCP helps: with cap 8 less"), "{said}");
}

#[test]
fn beyond_what_a_path_was_seen_to_carry_nothing_is_promised() {
    let capped = Setup { clamp: Some(4), length_ns: 4_000 * MS, ..Setup::default() };
    let answer = asked(&run(capped), &[cap(8), cap(3)]);
    assert_eq!(answer.mismatches, []);
    for prediction in &answer.predictions {
        let is_more = prediction.change.cap == Some(8);
        assert_eq!(prediction.is_open, is_more, "{prediction:?}");
    }
    let said = text::lever(&answer.model, &answer);
    assert!(said.contains("with cap 8 no prediction"), "{said}");
}

/// The replays of `whatif` unless it is told otherwise.
const REPLAYS: u32 = 6;

#[test]
fn whatever_a_trace_leaves_open_can_be_simulated() {
    let (models, _) = models_of(&run(Setup { bottleneck: None, ..setup() }));
    let open = &models[0];
    assert!(open.path.is_open(), "{:?}", open.path);
    let changed = |change: fn(&mut Model)| {
        let mut model = open.clone();
        change(&mut model);
        model
    };
    let all = [
        open.clone(),
        changed(|it| it.path.rtt_s.value = -1e-5),
        changed(|it| it.packet = 65_536.0),
        changed(|it| it.seconds = 20_000.0),
        changed(|it| (it.program, it.seconds) = (Fitted::Bytes { bytes: 1 << 30 }, 20_000.0)),
        changed(|it| (it.path.loss.value, it.path.loss_burst) = (0.6, Some(1.2))),
        changed(|it| {
            let [rate, burst] = [1e6, 600.0].map(|it| Parameter::new(it, it, Some(it), ""));
            it.path.policer = Some(Policed { rate, burst });
        }),
    ];
    for (model, number) in all.iter().flat_map(|it| (0..REPLAYS).map(move |i| (it, i))) {
        for ipv6 in [false, true] {
            let variant = Model { ipv6, ..model.variant(number) };
            for scene in [Scene::Alone, Scene::Competing] {
                let scenario = scenario(&variant, &Change::default(), scene, 1);
                let checked = scenario.check();
                assert!(checked.is_ok(), "{number}: {checked:?}: {variant:?}");
            }
        }
    }
}

/// Cannot run what this says of.
struct Refusing(fn(&Scenario) -> bool);

impl Simulator for Refusing {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        ensure!(!(self.0)(scenario), "its kernel does not take that");
        Small.run(scenario, within)
    }
}

#[test]
fn a_model_that_cannot_be_simulated_is_left_out() {
    let (models, recorded) = models_of(&run(setup()));
    let answer =
        |simulator: &Refusing| whatif(&models, &recorded, &[cap(60)], simulator, &Patient, EFFORT);
    let is_second_replay = |it: &Scenario| it.seed == 2;
    let without_it = answer(&Refusing(is_second_replay)).unwrap();
    assert_eq!((without_it.predictions.len(), without_it.predictions[0].runs), (1, 2));
    assert!(without_it.complete, "it was not the time that was too short");
    let is_another = |it: &Scenario| it.seed != 1;
    let alone = answer(&Refusing(is_another)).unwrap();
    assert_eq!(alone.predictions[0].runs, 1, "no other takes its place");
    let of_the_cap = |it: &Scenario| it.hosts["sender"].route.cwnd == Some(60);
    for refusing in [Refusing(|_| true), Refusing(of_the_cap)] {
        let error = answer(&refusing).expect_err("nothing is left").to_string();
        assert_eq!(error, "its kernel does not take that");
    }
}

#[test]
fn a_change_that_cannot_be_simulated_leaves_the_others_their_prediction() {
    let (models, recorded) = models_of(&run(setup()));
    let simulator = Refusing(|it: &Scenario| it.hosts["sender"].route.cwnd == Some(60));
    let changes = [cap(60), cap(20)];
    let answer = whatif(&models, &recorded, &changes, &simulator, &Patient, EFFORT).unwrap();
    let labels: Vec<&str> = answer.predictions.iter().map(|it| it.label.as_str()).collect();
    assert_eq!((labels, answer.skipped), (vec!["cap 20"], 1));
    let said = text::whatif(&answer.model, &analysis_of(&run(setup())), &answer);
    assert!(said.contains("a simulation failed: cap 60: its kernel does not take that"), "{said}");
    assert_eq!(asked(&run(setup()), &changes).failure, None, "the control");
}

#[test]
fn a_replay_lasts_from_the_handshakes_end_as_long_as_the_recording() {
    let (models, _) = models_of(&run(setup()));
    let Model { seconds, path, program, .. } = &models[0];
    assert_eq!(*program, Fitted::Endless);
    let scenario = scenario(&models[0], &Change::default(), Scene::Alone, 1);
    // A flow's time counts from its connect().
    assert!(scenario.most_seconds >= seconds + path.rtt_s.value, "{}", scenario.most_seconds);
}

#[test]
fn a_queue_that_was_never_full_may_hold_no_more_than_waited_in_it() {
    let (models, _) = models_of(&run(Setup { bottleneck: None, ..setup() }));
    let mut model = models[0].clone();
    model.path.rate = Parameter::new(1e5, 1e5, None, "no queue was seen");
    model.path.queue = Parameter::new(20.0, 1.0, None, "never full: 1 packets waited at most");
    let queues: Vec<f64> = (1..REPLAYS).map(|i| model.variant(i).path.queue.value).collect();
    let reaches = |from: f64, to: f64| queues.iter().any(|queue| (from..to).contains(queue));
    assert!(reaches(1.0, 4.0) && reaches(4.0, 100.0), "{queues:?}");
}

/// Replays with these seeds are held back, those with others are not.
struct HeldBack {
    seeds: fn(u64) -> bool,
    cap: u32,
    /// And the rest has a rate so many times that of the model.
    faster: f64,
}

impl Simulator for HeldBack {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        let mut scenario = scenario.clone();
        let rate = &mut scenario.links.path.up.rate_mbit;
        match (self.seeds)(scenario.seed) {
            true => {
                scenario.hosts.get_mut("sender").expect("the sender").route.cwnd = Some(self.cap)
            }
            false => *rate = rate.map(|rate| rate * self.faster),
        }
        Small.run(&scenario, within)
    }
}

#[test]
fn models_that_are_predicted_with_match_without_those_that_are_left_out() {
    let (models, recorded) = models_of(&run(setup()));
    let effort = Effort { replays: REPLAYS, ..EFFORT };
    let answer = |faster: f64| {
        let lopsided = HeldBack { seeds: |seed| seed.is_multiple_of(2), cap: 8, faster };
        whatif(&models, &recorded, &[cap(60)], &lopsided, &Patient, effort).unwrap()
    };
    // Half of the replays is far too slow, and the others are all a quarter too fast.
    let between = answer(1.25);
    assert!(between.predictions.is_empty(), "{:?}", between.predictions);
    assert!(between.mismatches.iter().any(|it| it.what == "goodput"), "{:?}", between.mismatches);
    assert_eq!(answer(1.0).mismatches, [], "the control");
}

#[test]
fn where_few_models_are_near_others_are_looked_for() {
    let (models, recorded) = models_of(&run(setup()));
    let effort = Effort { replays: REPLAYS, runs: 4, ..EFFORT };
    let answer = |seeds| {
        let simulator = HeldBack { seeds, cap: 8, faster: 1.0 };
        whatif(&models, &recorded, &[cap(60)], &simulator, &Patient, effort).unwrap()
    };
    let found = answer(|seed| (2..=6).contains(&seed));
    let Prediction { gain, runs, .. } = &found.predictions[0];
    assert!(*runs >= 3 && gain.high < 1.1 * gain.low, "{runs} runs: {gain:?}");
    let none = answer(|seed| seed != 1);
    let gain = &none.predictions[0].gain;
    assert!(gain.high > 2.0 * gain.low, "the control, there are none: {gain:?}");
}

#[test]
fn segments_that_are_smaller_than_ipv6_needs_are_simulated_as_small() {
    let (models, _) = models_of(&run(setup()));
    let model = Model { ipv6: true, packet: f64::from(MSS) + 72.0, ..models[0].clone() };
    let scenario = scenario(&model, &Change::default(), Scene::Alone, 1);
    assert_eq!(scenario.hosts["sender"].mtu, 1280);
    // Timestamps are a part of it.
    assert_eq!(scenario.flows["flow"].sender.mss, Some(MSS + 12));
}

#[test]
fn a_simulated_program_writes_as_long_after_the_handshake_as_the_recorded_one() {
    let program = Program::Chunks { bytes: 50_000, every_ns: 400 * MS };
    let (models, _) = models_of(&run(Setup { program, ..setup() }));
    let model = &models[0];
    let scenario = scenario(model, &Change::default(), Scene::Alone, 1);
    let Traffic::Writes { writes } = &scenario.flows["flow"].traffic else { panic!("it waits") };
    // A flow's time counts from its connect().
    for (i, (at_s, _)) in writes.iter().enumerate() {
        let recorded_s = at_s - model.path.rtt_s.value;
        assert!((recorded_s - i as f64 * 0.4).abs() < 0.002, "write {i} at {at_s} s");
    }
}

#[test]
fn an_end_before_time_gives_what_is_done() {
    struct Hasty;
    impl Watch for Hasty {
        fn progress(&self, _: usize, _: usize) {}

        fn stops(&self) -> bool {
            true
        }
    }
    let (models, recorded) = models_of(&run(setup()));
    let answer = whatif(&models, &recorded, &[cap(60)], &Small, &Hasty, EFFORT).unwrap();
    assert!(!answer.complete && answer.predictions.is_empty() && answer.replayed.is_none());
}

/// Takes so long for something that was never recorded.
struct Slow {
    takes: Duration,
    runs: AtomicUsize,
}

impl Slow {
    fn asked(takes: Duration, segments: f64) -> (WhatIf, usize) {
        let (models, mut recorded) = models_of(&run(setup()));
        recorded.segments = segments;
        let models = [models[0].clone(), models[0].clone()];
        let slow = Slow { takes, runs: AtomicUsize::new(0) };
        let effort = Effort { budget: BUDGET, ..EFFORT };
        let answer = whatif(&models, &recorded, &[cap(60)], &slow, &Patient, effort).unwrap();
        (answer, slow.runs.into_inner())
    }
}

impl Simulator for Slow {
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>> {
        assert!(within <= BUDGET, "{within:?}");
        self.runs.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.takes.min(within));
        if self.takes > within {
            return Ok(None);
        }
        let mut other = scenario.clone();
        other.hosts.get_mut("sender").expect("the sender").route.cwnd = Some(4);
        Small.run(&other, within)
    }
}

/// Long beside what a busy machine takes to begin two threads.
const BUDGET: Duration = Duration::from_secs(5);
const SHORT: f64 = 1_000.0;

#[test]
fn what_one_simulation_took_is_known_of_the_next_model() {
    let (answer, runs) = Slow::asked(BUDGET * 4 / 5, SHORT);
    assert!(!answer.complete && !answer.mismatches.is_empty(), "{:?}", answer.mismatches);
    assert_eq!(runs, 2, "those of the first model, which began at once");
}

#[test]
fn a_simulation_that_does_not_end_is_ended_when_the_time_is_over() {
    let began = Instant::now();
    let (answer, runs) = Slow::asked(Duration::MAX, SHORT);
    assert!(!answer.complete && answer.replayed.is_none());
    assert_eq!((answer.simulations, runs), (0, 2));
    assert!(began.elapsed() >= BUDGET);
    assert!(text::replayed(&answer).contains("Raise --budget"));
}

#[test]
fn how_long_a_long_recording_takes_is_seen_of_one_replay_alone() {
    let (answer, runs) = Slow::asked(Duration::MAX, 1e6);
    assert!(!answer.complete && answer.replayed.is_none());
    assert_eq!(runs, 1);
}

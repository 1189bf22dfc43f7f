use super::*;

/// Runs at RTT 0, 64 and 256 with these goodputs, a repeat a list.
fn runs(repeats: &[[f64; 3]]) -> Vec<Measured> {
    let mut runs = Vec::new();
    for (n, goodputs) in repeats.iter().enumerate() {
        for (rtt, goodput) in [0, 64, 256].into_iter().zip(goodputs) {
            runs.push(Measured {
                point: BTreeMap::from([("rtt".to_owned(), Value::Integer(rtt))]),
                repeat: n as u32 + 1,
                run: BTreeMap::from([("sum_mbit".to_owned(), 2.0 * goodput)]),
                flows: BTreeMap::from([(
                    "up".to_owned(),
                    BTreeMap::from([("goodput_mbit".to_owned(), *goodput)]),
                )]),
                ..Measured::default()
            });
        }
    }
    runs
}

fn claim(text: &str) -> Claim {
    toml::from_str(&format!("text = 'c'\n{text}")).unwrap()
}

const UP: &str = "metric = 'goodput_mbit', flow = 'up'";

fn at(rtt: i64) -> String {
    format!("{{ {UP}, where = {{ rtt = {rtt}.0 }} }}")
}

/// The points of these runs.
fn sweep(runs: &[Measured]) -> Vec<Values> {
    runs.iter().map(|run| run.point.clone()).collect()
}

/// The claim under no control, where all points were run.
fn judged(claim: &Claim, runs: &[Measured]) -> Judged {
    judge(claim, &sweep(runs), runs, &[]).judged
}

/// The claim over three repeats of RTT 0, 64 and 256, without the runs at 256 that these repeats
/// lack.
fn judged_without_256(test: &str, lacking: &[u32]) -> Judged {
    let mut runs = runs(&[[9.0, 3.0, 1.0], [8.9, 3.1, 1.1], [9.1, 2.9, 0.9]]);
    let sweep = sweep(&runs);
    runs.retain(|run| run.point["rtt"] != 256.into() || !lacking.contains(&run.repeat));
    judge(&claim(test), &sweep, &runs, &[]).judged
}

/// Of the goodput at RTT 64, by repeat.
fn at_64(goodputs: &[f64], bounds: &str) -> Judged {
    let claim = claim(&format!("test = 'value'\nof = {}\n{bounds}", at(64)));
    let repeats: Vec<[f64; 3]> = goodputs.iter().map(|goodput| [9.0, *goodput, 1.0]).collect();
    judged(&claim, &runs(&repeats))
}

fn undecided(inside: bool) -> Outcome {
    Outcome::Undecided { inside }
}

#[test]
fn a_value_is_the_mean_of_the_repeats_with_students_interval() {
    let judged = at_64(&[3.0, 5.0, 4.0], "at_least = 1\nat_most = 7");
    assert_eq!(judged.number, Some(4.0));
    let (low, high) = judged.interval.unwrap();
    let half = 4.303 / 3f64.sqrt();
    assert!((low - (4.0 - half)).abs() < 1e-9 && (high - (4.0 + half)).abs() < 1e-9);
    assert_eq!((judged.repeats, judged.outcome), (3, Outcome::Reproduced));
}

#[test]
fn a_claim_is_reproduced_only_if_the_whole_interval_is_within_the_bounds() {
    // 4 ± 2.48
    let of = |bounds| at_64(&[3.0, 5.0, 4.0], bounds).outcome;
    assert_eq!(of("at_least = 1.5"), Outcome::Reproduced);
    assert_eq!(of("at_least = 1.6"), undecided(true));
    assert_eq!(of("at_least = 5"), undecided(false));
    assert_eq!(of("at_least = 6.5"), Outcome::NotReproduced { by: -2.5 });
    assert_eq!(of("at_most = 6.5"), Outcome::Reproduced);
    assert_eq!(of("at_most = 6.4"), undecided(true));
    assert_eq!(of("at_most = 1.5"), Outcome::NotReproduced { by: 2.5 });
    assert_eq!(of("at_least = 3.9\nat_most = 4.1"), undecided(true), "wider than the bounds");
}

#[test]
fn one_repeat_decides_nothing() {
    let judged = at_64(&[3.0], "at_least = 1");
    assert_eq!((judged.number, judged.interval), (Some(3.0), None));
    assert_eq!((judged.repeats, judged.outcome), (1, undecided(true)));
}

#[test]
fn repeats_that_are_all_the_same_decide() {
    assert_eq!(at_64(&[0.0, 0.0], "at_most = 0").outcome, Outcome::Reproduced);
    assert_eq!(at_64(&[1.0, 1.0], "at_most = 0").outcome, Outcome::NotReproduced { by: 1.0 });
}

#[test]
fn a_metric_of_the_run_needs_no_flow() {
    let claim =
        claim("test = 'value'\nof = { metric = 'sum_mbit', where = { rtt = 0 } }\nat_least = 18");
    assert_eq!(judged(&claim, &runs(&[[9.0, 3.0, 1.0]; 2])).outcome, Outcome::Reproduced);
}

#[test]
fn a_ratio_is_taken_in_each_repeat() {
    let claim =
        claim(&format!("test = 'ratio'\nof = {}\nover = {}\nat_most = 0.5", at(256), at(0)));
    // What both share, as the luck of a seed, does not make the ratio less certain.
    let judged = judged(&claim, &runs(&[[8.0, 3.0, 2.0], [4.0, 3.0, 1.0]]));
    assert_eq!((judged.number, judged.interval), (Some(0.25), Some((0.25, 0.25))));
}

#[test]
fn a_repeat_that_is_not_finished_is_left_out() {
    let claim =
        claim(&format!("test = 'ratio'\nof = {}\nover = {}\nat_most = 0.5", at(256), at(0)));
    let mut runs = runs(&[[8.0, 3.0, 2.0], [4.0, 3.0, 1.0], [4.0, 3.0, 4.0]]);
    runs.pop();
    assert_eq!(judged(&claim, &runs).repeats, 2);
}

#[test]
fn a_claim_is_not_decided_on_fewer_points_than_it_states() {
    let run = "{ metric = 'sum_mbit' }";
    for test in [
        format!("test = 'ratio-everywhere'\nof = {{ {UP} }}\nover = {run}\nalong = 'rtt'"),
        format!("test = 'value'\nof = {{ {UP} }}\nover_all = true"),
        format!("test = 'ratio'\nof = {}\nover = {{ {UP} }}\nover_all = true", at(0)),
        format!("test = 'outcomes'\nof = {{ {UP} }}\nfrom = 0\nto = 9\nover_all = true"),
    ] {
        let test = test + "\nat_least = 0.01";
        assert_eq!(judged_without_256(&test, &[]).outcome, Outcome::Reproduced, "{test}");
        let never = judged_without_256(&test, &[1, 2, 3]);
        assert_eq!(never.outcome, Outcome::NotRun { why: "no run at rtt = 256".to_owned() });
        assert_eq!(never.number, None, "{test}");
    }
}

#[test]
fn a_repeat_without_one_of_the_pooled_points_does_not_count() {
    let pooled = format!("test = 'value'\nof = {{ {UP} }}\nover_all = true\nat_least = 2");
    let judged = judged_without_256(&pooled, &[2]);
    assert_eq!((judged.number.map(|n| (10.0 * n).round()), judged.repeats), (Some(30.0), 2));
    let trend = format!("test = 'trend'\nof = {{ {UP} }}\nalong = 'rtt'\nat_most = -0.9");
    assert_eq!(judged_without_256(&trend, &[2]).repeats, 2);
    let everywhere = format!(
        "test = 'ratio-everywhere'\nof = {{ {UP} }}\nover = {{ metric = 'sum_mbit' }}\n\
         along = 'rtt'\nat_least = 0.6"
    );
    // The worst place is one of equals: the last.
    assert_eq!(judged_without_256(&everywhere, &[2]).repeats, 2);
    let nowhere = judged_without_256(&pooled, &[1, 2]);
    assert_eq!((nowhere.repeats, nowhere.outcome), (1, undecided(true)));
}

#[test]
fn a_ratio_over_nothing_is_no_verdict() {
    let claim = claim(&format!("test = 'ratio'\nof = {}\nover = {}\nat_least = 1", at(0), at(64)));
    let judged = judged(&claim, &runs(&[[8.0, 0.0, 2.0], [8.0, 1.0, 2.0]]));
    assert_eq!(judged.outcome, Outcome::NotRun { why: "a division by zero".to_owned() });
}

#[test]
fn a_trend_is_the_rank_correlation_in_each_repeat() {
    let claim = claim(&format!("test = 'trend'\nof = {{ {UP} }}\nalong = 'rtt'\nat_most = -0.9"));
    let falling = judged(&claim, &runs(&[[9.0, 3.0, 1.0], [7.0, 3.0, 2.0]]));
    assert_eq!(
        (falling.number.map(|n| n.round()), falling.outcome),
        (Some(-1.0), Outcome::Reproduced)
    );
    let rising = judged(&claim, &runs(&[[1.0, 3.0, 9.0]; 2]));
    assert!(matches!(rising.outcome, Outcome::NotReproduced { by } if by > 1.8));
    let flat = judged(&claim, &runs(&[[3.0; 3]]));
    assert!(matches!(flat.outcome, Outcome::NotRun { why } if why.contains("does not vary")));
}

#[test]
fn two_places_make_no_trend() {
    let claim = claim(&format!("test = 'trend'\nof = {{ {UP} }}\nalong = 'rtt'\nat_most = 0"));
    let judged = judged(&claim, &runs(&[[9.0, 3.0, 1.0]])[..2]);
    assert_eq!(judged.outcome, Outcome::NotRun { why: "2 values of rtt make no trend".to_owned() });
}

#[test]
fn a_ratio_everywhere_is_decided_by_its_worst_place() {
    let run = "{ metric = 'sum_mbit' }";
    let bounds = |bounds: &str| {
        let claim = claim(&format!(
            "test = 'ratio-everywhere'\nof = {{ {UP} }}\nover = {run}\nalong = 'rtt'\n{bounds}"
        ));
        let mut runs = runs(&[[9.0, 3.0, 1.0]; 2]);
        for repeat in runs.chunks_mut(3) {
            repeat[1].run.insert("sum_mbit".to_owned(), 10.0);
            repeat[2].run.insert("sum_mbit".to_owned(), 1.25);
        }
        let judged = judged(&claim, &runs);
        (judged.number.unwrap(), judged.outcome)
    };
    // The ratios are 0.5, 0.3 and 0.8.
    assert_eq!(bounds("at_least = 0.25"), (0.3, Outcome::Reproduced));
    assert_eq!(bounds("at_most = 0.9"), (0.8, Outcome::Reproduced));
    assert_eq!(bounds("at_least = 0.2\nat_most = 0.5").0, 0.8);
    let (number, outcome) = bounds("at_least = 0.5\nat_most = 1");
    assert_eq!(number, 0.3);
    assert_eq!(outcome, Outcome::NotReproduced { by: 0.3 - 0.5 });
}

#[test]
fn one_uncertain_place_leaves_a_ratio_everywhere_undecided() {
    let claim = claim(&format!(
        "test = 'ratio-everywhere'\nof = {{ {UP} }}\nover = {{ metric = 'sum_mbit' }}\n\
         along = 'rtt'\nat_least = 0.4"
    ));
    let mut runs = runs(&[[9.0, 3.0, 1.0]; 2]);
    assert_eq!(judged(&claim, &runs).outcome, Outcome::Reproduced);
    runs[1].run.insert("sum_mbit".to_owned(), 5.0);
    assert_eq!(judged(&claim, &runs).outcome, undecided(true));
}

#[test]
fn outcomes_are_counted_over_all_runs_that_are_meant_with_the_interval_of_a_share() {
    let of = |bounds: &str, goodputs: &[f64]| {
        let claim =
            claim(&format!("test = 'outcomes'\nof = {}\nfrom = 2\nto = 4\n{bounds}", at(64)));
        let repeats: Vec<[f64; 3]> = goodputs.iter().map(|goodput| [9.0, *goodput, 3.0]).collect();
        judged(&claim, &runs(&repeats))
    };
    let some = of("at_least = 0.05\nat_most = 0.999", &[3.0, 5.0, 2.0]);
    assert_eq!((some.number, some.repeats), (Some(2.0 / 3.0), 3));
    assert_eq!(some.outcome, Outcome::Reproduced);
    assert_eq!(of("at_least = 0.2", &[3.0, 5.0, 2.0]).outcome, undecided(true));
    // All of three are as many as 29 % may give, by chance.
    assert_eq!(of("at_least = 0.5", &[3.0; 3]).outcome, undecided(true));
    assert_eq!(of("at_least = 0.5", &[3.0; 6]).outcome, Outcome::Reproduced);
}

#[test]
fn what_was_not_run_is_no_failure() {
    let claim = claim(&format!("test = 'value'\nof = {}\nat_least = 2", at(128)));
    let judged = judged(&claim, &runs(&[[9.0, 3.0, 1.0]]));
    assert_eq!(judged.outcome, Outcome::NotRun { why: "no run at rtt = 128".to_owned() });
    assert_eq!(judged.number, None);
    let claim = self::claim("test = 'value'\nof = { metric = 'air_busy' }\nat_least = 2");
    let judged = self::judged(&claim, &runs(&[[9.0, 3.0, 1.0]]));
    assert!(matches!(judged.outcome, Outcome::NotRun { why } if why.contains("air_busy")));
}

#[test]
fn a_claim_that_its_control_passes_is_no_evidence() {
    let claim = claim(&format!("test = 'value'\nof = {}\nat_least = 2", at(64)));
    let measured = runs(&[[9.0, 3.0, 1.0]; 2]);
    let under = |goodput: f64, repeats: usize| {
        let control = runs(&vec![[9.0, goodput, 1.0]; repeats]);
        judge(&claim, &sweep(&measured), &measured, &[("CUBIC", control)])
    };
    let fails = under(1.0, 2);
    assert!(fails.is_evidence());
    assert_eq!(fails.controls[0].judged.outcome, Outcome::NotReproduced { by: -1.0 });
    assert!(!under(2.5, 2).is_evidence(), "the control passes");
    assert!(under(2.5, 2).is_passed_by_control());
}

#[test]
fn a_claim_whose_control_was_not_seen_to_fail_is_no_evidence() {
    let claim = claim(&format!("test = 'value'\nof = {}\nat_least = 2", at(64)));
    let measured = runs(&[[9.0, 3.0, 1.0]; 2]);
    let fails = runs(&[[9.0, 1.0, 1.0]; 2]);
    let with = |other: Vec<Measured>| {
        let controls = [("CUBIC", fails.clone()), ("no cap", other)];
        judge(&claim, &sweep(&measured), &measured, &controls)
    };
    assert!(with(fails.clone()).is_evidence());
    for goodput in [1.0, 2.5] {
        let one_repeat = with(runs(&[[9.0, goodput, 1.0]]));
        assert!(matches!(one_repeat.controls[1].judged.outcome, Outcome::Undecided { .. }));
        assert!(!one_repeat.is_evidence() && !one_repeat.is_passed_by_control());
    }
    let not_run = with(Vec::new());
    assert!(matches!(not_run.controls[1].judged.outcome, Outcome::NotRun { .. }));
    assert!(!not_run.is_evidence() && !not_run.is_passed_by_control());
}

#[test]
fn what_was_put_in_is_no_evidence() {
    let claim =
        claim(&format!("test = 'value'\nof = {}\nat_least = 2\ncalibrated = 'the rate'", at(64)));
    let runs = runs(&[[9.0, 3.0, 1.0]; 2]);
    let verdict = judge(&claim, &sweep(&runs), &runs, &[]);
    assert_eq!(verdict.judged.outcome, Outcome::Reproduced);
    assert!(!verdict.is_evidence());
}

#[test]
fn places_along_a_key_come_in_its_order_with_their_spread() {
    let runs = runs(&[[9.0, 3.0, 1.0], [7.0, 3.0, 2.0]]);
    let all: Vec<&Measured> = runs.iter().rev().collect();
    let pick = Pick { metric: "goodput_mbit".into(), flow: Some("up".into()), at: BTreeMap::new() };
    let places = along_key(&pick, "rtt", &all).unwrap();
    let numbers: Vec<_> = places.iter().map(|p| (p.at, p.value, p.low, p.high)).collect();
    assert_eq!(numbers, [(0.0, 8.0, 7.0, 9.0), (64.0, 3.0, 3.0, 3.0), (256.0, 1.5, 1.0, 2.0)]);
}

#[test]
fn what_is_divided_by_may_be_a_sum() {
    let text = format!(
        "test = 'ratio'\nof = {}\nover = {}\nplus = {}\nat_least = 0.5",
        at(0),
        at(64),
        at(256)
    );
    let judged = judged(&claim(&text), &runs(&[[2.0, 3.0, 1.0], [4.0, 3.0, 1.0], [3.0, 3.0, 1.0]]));
    assert_eq!(judged.number, Some(0.75));
}

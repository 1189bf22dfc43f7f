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

#[test]
fn a_value_is_the_median_of_the_repeats_and_spreads_over_them() {
    let claim = claim(&format!("test = 'value'\nof = {}\nat_least = 2\nat_most = 4", at(64)));
    let verdict = judge(&claim, &runs(&[[9.0, 3.0, 1.0], [9.0, 5.0, 1.0], [9.0, 2.0, 1.0]]));
    assert_eq!(verdict.number, Some(3.0));
    assert_eq!(verdict.spread, Some((2.0, 5.0)));
    assert_eq!(verdict.outcome, Outcome::Reproduced);
}

#[test]
fn a_value_outside_tells_by_how_much_and_on_which_side() {
    let runs = runs(&[[9.0, 3.0, 1.0]]);
    let least = claim(&format!("test = 'value'\nof = {}\nat_least = 3.5", at(64)));
    let most = claim(&format!("test = 'value'\nof = {}\nat_most = 2", at(64)));
    assert_eq!(judge(&least, &runs).outcome, Outcome::NotReproduced { by: -0.5 });
    assert_eq!(judge(&most, &runs).outcome, Outcome::NotReproduced { by: 1.0 });
    assert_eq!(judge(&most, &runs).spread, None, "one repeat has no spread");
}

#[test]
fn a_metric_of_the_run_needs_no_flow() {
    let claim =
        claim("test = 'value'\nof = { metric = 'sum_mbit', where = { rtt = 0 } }\nat_least = 18");
    assert_eq!(judge(&claim, &runs(&[[9.0, 3.0, 1.0]])).outcome, Outcome::Reproduced);
}

#[test]
fn a_ratio_divides_the_medians() {
    let claim =
        claim(&format!("test = 'ratio'\nof = {}\nover = {}\nat_most = 0.5", at(256), at(0)));
    let verdict = judge(&claim, &runs(&[[8.0, 3.0, 2.0], [8.0, 3.0, 4.0]]));
    assert_eq!(verdict.number, Some(3.0 / 8.0));
    assert_eq!(verdict.spread, Some((0.25, 0.5)));
}

#[test]
fn a_ratio_over_nothing_is_no_verdict() {
    let claim = claim(&format!("test = 'ratio'\nof = {}\nover = {}\nat_least = 1", at(0), at(64)));
    let verdict = judge(&claim, &runs(&[[8.0, 0.0, 2.0]]));
    assert_eq!(verdict.outcome, Outcome::NotRun { why: "a division by zero".to_owned() });
}

#[test]
fn a_trend_is_a_rank_correlation_of_the_medians() {
    let claim = claim(&format!("test = 'trend'\nof = {{ {UP} }}\nalong = 'rtt'\nat_most = -0.9"));
    let falling = judge(&claim, &runs(&[[9.0, 3.0, 1.0], [7.0, 3.0, 2.0]]));
    assert_eq!(
        (falling.number.map(|n| n.round()), falling.outcome),
        (Some(-1.0), Outcome::Reproduced)
    );
    let rising = judge(&claim, &runs(&[[1.0, 3.0, 9.0]]));
    assert!(matches!(rising.outcome, Outcome::NotReproduced { by } if by > 1.8));
    let flat = judge(&claim, &runs(&[[3.0; 3]]));
    assert!(matches!(flat.outcome, Outcome::NotRun { why } if why.contains("does not vary")));
}

#[test]
fn two_places_make_no_trend() {
    let claim = claim(&format!("test = 'trend'\nof = {{ {UP} }}\nalong = 'rtt'\nat_most = 0"));
    let verdict = judge(&claim, &runs(&[[9.0, 3.0, 1.0]])[..2]);
    assert_eq!(
        verdict.outcome,
        Outcome::NotRun { why: "2 values of rtt make no trend".to_owned() }
    );
}

#[test]
fn a_ratio_everywhere_is_decided_by_its_worst_place() {
    let run = "{ metric = 'sum_mbit' }";
    let bounds = |bounds: &str| {
        let claim = claim(&format!(
            "test = 'ratio-everywhere'\nof = {{ {UP} }}\nover = {run}\nalong = 'rtt'\n{bounds}"
        ));
        let mut runs = runs(&[[9.0, 3.0, 1.0]]);
        runs[1].run.insert("sum_mbit".to_owned(), 10.0);
        runs[2].run.insert("sum_mbit".to_owned(), 1.25);
        let verdict = judge(&claim, &runs);
        (verdict.number.unwrap(), verdict.outcome)
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
fn outcomes_are_counted_over_all_runs_that_are_meant() {
    let claim = claim(&format!(
        "test = 'outcomes'\nof = {}\nfrom = 2\nto = 4\nat_least = 0.2\nat_most = 0.8",
        at(64)
    ));
    let verdict = judge(&claim, &runs(&[[9.0, 3.0, 3.0], [9.0, 5.0, 3.0], [9.0, 2.0, 3.0]]));
    assert_eq!(verdict.number, Some(2.0 / 3.0));
    assert_eq!(verdict.spread, None);
    assert_eq!(verdict.outcome, Outcome::Reproduced);
}

#[test]
fn what_was_not_run_is_no_failure() {
    let claim = claim(&format!("test = 'value'\nof = {}\nat_least = 2", at(128)));
    let verdict = judge(&claim, &runs(&[[9.0, 3.0, 1.0]]));
    assert_eq!(verdict.outcome, Outcome::NotRun { why: "no run at rtt = 128".to_owned() });
    assert_eq!(verdict.number, None);
    let claim = self::claim("test = 'value'\nof = { metric = 'air_busy' }\nat_least = 2");
    let verdict = judge(&claim, &runs(&[[9.0, 3.0, 1.0]]));
    assert!(matches!(verdict.outcome, Outcome::NotRun { why } if why.contains("air_busy")));
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
    let verdict = judge(&claim(&text), &runs(&[[2.0, 3.0, 1.0], [4.0, 3.0, 1.0], [3.0, 3.0, 1.0]]));
    assert_eq!(verdict.number, Some(0.75));
    assert_eq!(verdict.spread, Some((0.5, 1.0)));
}

//! What is drawn, what becomes of a point, and what is said of numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::draw::{self, Loss};
use super::judge::{self, Criterion, Judgement, Verdict};
use super::numbers::Numbers;
use super::results::AtPoint;
use super::{Algorithm, Grid, Half, Point, Results, point, table};

const SENDERS: &str = include_str!("../../../../experiments/grid/senders.toml");

fn senders() -> Grid {
    Grid::parse(Path::new("senders.toml"), SENDERS).unwrap()
}

fn refused(from: &str, to: &str) -> String {
    assert!(SENDERS.contains(from), "{from}");
    let text = SENDERS.replacen(from, to, 1);
    format!("{:#}", Grid::parse(Path::new("x.toml"), &text).unwrap_err())
}

#[test]
fn the_same_seed_draws_the_same_points_and_more_points_leave_them_as_they_are() {
    let grid = senders();
    let points = draw::points(&grid, 130);
    assert_eq!(points, draw::points(&grid, 130));
    assert_eq!(points[..60], draw::points(&grid, 60), "a prefix");
    let other = Grid { seed: grid.seed + 1, ..grid };
    assert_ne!(points, draw::points(&other, 130));
}

#[test]
fn halves_share_no_point_and_real_kernels_get_a_tenth_of_the_reported_one() {
    let points = draw::points(&senders(), 3000);
    let of = |half| points.iter().filter(|point| point.half == half).count();
    let (train, report) = (of(Half::Train), of(Half::Report));
    assert_eq!(train + report, 3000);
    assert!((1400..1600).contains(&train), "{train}");
    assert!(points.iter().all(|point| !point.real || point.half == Half::Report));
    let real = points.iter().filter(|point| point.real).count();
    assert!((100..200).contains(&real), "{real} of {report}");
    let numbers: BTreeSet<u32> = points.iter().map(|point| point.number).collect();
    assert_eq!(numbers.len(), 3000);
}

#[test]
fn every_kind_and_every_part_of_a_range_is_drawn_equally_often() {
    let points = draw::points(&senders(), 60);
    let count = |is: &dyn Fn(&Point) -> bool| points.iter().filter(|point| is(point)).count();
    for kind in ["shallow", "bdp", "bloated", "codel", "fq-codel"] {
        assert_eq!(count(&|point| point.queue == kind), 12, "{kind}");
    }
    let losses = ["none", "random", "rare-weak-moments", "frequent-weak-moments", "policer"];
    for kind in losses {
        assert_eq!(count(&|point| point.losses == kind), 12, "{kind}");
    }
    for kind in ["none", "cubic", "bbr"] {
        assert_eq!(count(&|point| point.competitor == kind), 20, "{kind}");
    }
    for kind in ["bulk", "short", "on-off"] {
        assert_eq!(count(&|point| point.flows == kind), 20, "{kind}");
    }
    // Log-uniform: half of the points below the geometric mean of the ends.
    assert_eq!(count(&|point| point.rate_mbit < 500f64.sqrt()), 30);
    assert!((4..=8).contains(&count(&|point| point.rtt_ms == 0.0)), "a tenth at 0 ms");
    let terminals: BTreeSet<u32> = points.iter().map(|point| point.terminals).collect();
    assert_eq!(terminals, (1..=12).collect());
}

#[test]
fn points_lie_within_the_space_and_run_long_enough_to_settle() {
    for point in draw::points(&senders(), 600) {
        assert!((1..=12).contains(&point.terminals));
        assert!((0.0..=512.0).contains(&point.rtt_ms) && (1.0..=500.0).contains(&point.rate_mbit));
        assert!(point.seconds * 1e3 >= 40.0 * point.rtt_ms, "{}", point.describe());
        assert!((5.0..=600.0).contains(&point.seconds), "{}", point.describe());
        match point.loss {
            Loss::Random { share } => assert!((0.001..=0.02).contains(&share)),
            Loss::Policer { mbit, .. } => assert!(mbit <= point.rate_mbit),
            Loss::WeakMoments { every_ms, lasts_ms, .. } => assert!(lasts_ms < every_ms),
            Loss::None => {}
        }
    }
}

#[test]
fn every_point_becomes_a_scenario_for_every_algorithm_with_the_same_links() {
    let grid = senders();
    for at in draw::points(&grid, 120) {
        let mut links = Vec::new();
        for algorithm in grid.algorithms.values() {
            let scenario = point::scenario(&at, algorithm, at.seed).unwrap();
            assert_eq!(scenario.flows.len() as u32, at.flows());
            let sender = &scenario.flows["t1"].sender.congestion;
            assert_eq!(sender.as_deref(), Some(algorithm.algorithm.as_str()));
            if let Some(rival) = &at.competes {
                assert_eq!(scenario.flows["rival"].sender.congestion.as_ref(), Some(rival));
            }
            links.push(scenario.links);
        }
        assert!(links.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn an_algorithm_of_the_command_line_has_parameters_and_sysctls() {
    let (name, mine) =
        Algorithm::parse("mine=steady,backoff=0,target=70,net.ipv4.tcp_steady_gain=2048").unwrap();
    assert_eq!((name.as_str(), mine.algorithm.as_str()), ("mine", "steady"));
    let at = &draw::points(&senders(), 1)[0];
    let scenario = point::scenario(at, &mine, 1).unwrap();
    let sysctl = &scenario.hosts["t1"].sysctl;
    assert_eq!(sysctl["ipv4.tcp_steady_backoff"], "0");
    assert_eq!(sysctl["ipv4.tcp_steady_target"], "70");
    assert_eq!(sysctl["ipv4.tcp_steady_gain"], "2048", "a sysctl goes before the action");
    for wrong in ["mine", "=steady", "mine=", "mine=steady,backoff"] {
        assert!(Algorithm::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_wrong_file_is_refused_with_line_key_and_remedy() {
    let error = refused("subject = \"steady\"", "subject = \"stedy\"");
    assert!(error.contains("`judge.subject`: there is no algorithm \"stedy\""), "{error}");
    assert!(error.contains("did you mean `steady`?") && error.starts_with("x.toml:"), "{error}");
    let error = refused("rtt_ms = [0, 512]", "rtt_ms = [512, 0]");
    assert!(error.contains("`space.rtt_ms`: 512 to 0 is no range within 0 to 10000"), "{error}");
    let error = refused("repeats = 3", "repeat = 3");
    assert!(error.contains("did you mean `repeats`?"), "{error}");
    let error = refused("kind = \"policer\"", "kind = \"police\"");
    assert!(error.contains("policer"), "{error}");
    let error = refused("bdp = { bdp = [0.8, 1.25] }", "bdp = {}");
    assert!(error.contains("give `bdp` or `discipline`"), "{error}");
    let error = refused(
        "bbr = { algorithm = \"bbr\" }\nsteady",
        "bbr = { algorithm = \"bbr\", action = { cap = 9 } }\nsteady",
    );
    assert!(error.contains("only `steady` has parameters"), "{error}");
}

/// Each algorithm with so many Mbit/s, and a competitor with so many, at every point.
fn made_up(points: &[Point], of: impl Fn(&Point, &str) -> (f64, f64, f64)) -> Results {
    let grid = senders();
    let at = |point: &Point| {
        let runs = grid.algorithms.keys().map(|name| {
            let (goodput_mbit, competitor, queue_p50_ms) = of(point, name);
            let competitor_mbit = point.competes.as_ref().map(|_| competitor);
            let numbers =
                Numbers { goodput_mbit, competitor_mbit, queue_p50_ms, ..Numbers::default() };
            (name.clone(), vec![Some(numbers); grid.runs_of(name) as usize])
        });
        AtPoint { point: point.clone(), runs: runs.collect::<BTreeMap<_, _>>() }
    };
    Results {
        command: String::new(),
        kernels: vec!["6.12".to_owned()],
        engine: String::new(),
        points: points.iter().map(at).collect(),
        half: Some(Half::Train),
        failures: Vec::new(),
        interrupted: false,
        grid,
    }
}

fn criterion<'a>(judgement: &'a Judgement, part: &str) -> &'a Criterion {
    let all = &judgement.criteria;
    all.iter().find(|it| it.text.contains(part)).unwrap_or_else(|| panic!("{part}: {all:?}"))
}

#[test]
fn a_subject_that_is_as_good_as_the_best_meets_the_bounds() {
    let points = draw::points(&senders(), 240);
    let results = made_up(&points, |point, name| match name {
        "steady" if point.has_weak_moments() => (12.0, 9.0, 1.0),
        "steady" => (9.9, 9.0, 1.0),
        "bbr" => (10.0, 1.0, 5.0),
        _ => (3.0, 9.0, 30.0),
    });
    let judgement = judge::judge(&results);
    for criterion in judgement.criteria.iter().filter(|it| it.wanted.is_some()) {
        assert_eq!(criterion.verdict(), Some(Verdict::Met), "{criterion:?}");
    }
    let beside = criterion(&judgement, "the same beside bbr");
    assert!(beside.number < 1.0 && beside.verdict().is_none(), "it is shown, not judged");
    assert!(judgement.at.iter().all(|at| at.best == "bbr"));
}

#[test]
fn a_subject_that_is_as_good_only_where_nothing_is_lost_fails() {
    let points = draw::points(&senders(), 240);
    let results = made_up(&points, |point, name| match name {
        "steady" if point.loss != Loss::None => (3.0, 9.0, 8.0),
        "steady" | "bbr" => (10.0, 9.0, 5.0),
        _ => (3.0, 9.0, 30.0),
    });
    let judgement = judge::judge(&results);
    let goodput = criterion(&judgement, "points where goodput");
    assert_eq!(goodput.verdict(), Some(Verdict::NotMet));
    assert!((goodput.number - 0.2).abs() < 0.01, "{goodput:?}");
    assert_eq!(criterion(&judgement, "weak moments").verdict(), Some(Verdict::NotMet));
    assert_eq!(criterion(&judgement, "standing queue").verdict(), Some(Verdict::NotMet));
    let text = table::markdown(&results, &judgement);
    assert!(text.contains("not met") && text.contains("| losses | random | 48 | 0 |"), "{text}");
}

#[test]
fn a_competitor_is_owed_no_more_than_it_gets_beside_its_own_kind() {
    let points = draw::points(&senders(), 240);
    let alone = |point: &Point| 0.1 * point.capacity_mbit() / f64::from(point.flows());
    let results = made_up(&points, |point, name| match name {
        "steady" => (9.0, 0.9 * alone(point), 1.0),
        "bbr" => (9.0, 0.1 * alone(point), 1.0),
        _ => (9.0, alone(point), 1.0),
    });
    let judgement = judge::judge(&results);
    let kept = criterion(&judgement, "competing cubic");
    assert_eq!((kept.points, kept.verdict()), (80, Some(Verdict::Met)));
    let at = judgement.at.iter().find_map(|at| at.competitor).unwrap();
    assert!((at - 0.9).abs() < 1e-9, "{at}");
    assert_eq!(criterion(&judgement, "the same beside bbr").number, 0.0);
}

#[test]
fn a_yardstick_that_starves_a_competitor_does_not_count_in_the_fair_ratio() {
    let points = draw::points(&senders(), 240);
    let results = made_up(&points, |_, name| match name {
        "bbr" => (10.0, 0.001, 1.0),
        _ => (5.0, 0.01, 1.0),
    });
    let judgement = judge::judge(&results);
    for (at, point) in judgement.at.iter().zip(&points) {
        assert_eq!(at.goodput, 0.5);
        let is_cubic = point.competes.as_deref() == Some("cubic");
        assert_eq!(at.fair_goodput, if is_cubic { 1.0 } else { 0.5 }, "{at:?}");
    }
}

#[test]
fn what_chance_does_to_the_best_alone_is_shown_beside_the_subject() {
    let points = draw::points(&senders(), 60);
    let mut results =
        made_up(&points, |_, name| (if name == "cubic" { 1.0 } else { 4.0 }, 1.0, 1.0));
    assert_eq!(results.points[0].runs["bbr"].len(), 6, "a yardstick runs twice as often");
    assert_eq!(results.points[0].runs["steady"].len(), 3);
    for at in &mut results.points[..15] {
        for run in at.runs.get_mut("bbr").unwrap()[3..].iter_mut().flatten() {
            run.goodput_mbit = 2.0;
        }
    }
    let judgement = judge::judge(&results);
    assert_eq!(criterion(&judgement, "points where goodput").number, 1.0, "the first are compared");
    assert_eq!(criterion(&judgement, "the best itself").number, 0.75);
    assert_eq!(judgement.at[0].again, Some(0.5));
}

#[test]
fn a_point_without_a_number_is_left_out_and_said_so() {
    let points = draw::points(&senders(), 60);
    let mut results = made_up(&points, |_, _| (1.0, 1.0, 1.0));
    results.points[3].runs.get_mut("bbr").unwrap().fill(None);
    let judgement = judge::judge(&results);
    assert_eq!(judgement.at.len(), 59);
    assert!(table::markdown(&results, &judgement).contains("1 points are left out"));
}

#[test]
fn numbers_of_before_are_taken_only_where_nothing_differs() {
    let points = draw::points(&senders(), 60);
    let results = made_up(&points, |_, _| (1.0, 1.0, 1.0));
    let mut grid = senders();
    assert!(results.known((&grid, ""), &points[0], "bbr").is_some());
    assert!(results.known((&grid, "another"), &points[0], "bbr").is_none(), "another engine");
    let elsewhere = Point { rtt_ms: 1.5, ..points[0].clone() };
    assert!(results.known((&grid, ""), &elsewhere, "bbr").is_none(), "another point");
    grid.repeats = 4;
    assert!(results.known((&grid, ""), &points[0], "bbr").is_none(), "too few repeats");
    grid.repeats = 2;
    assert_eq!(results.known((&grid, ""), &points[0], "bbr").map(<[_]>::len), Some(4), "twice 2");
    grid.algorithms.get_mut("bbr").unwrap().algorithm = "reno".to_owned();
    assert!(results.known((&grid, ""), &points[0], "bbr").is_none(), "another algorithm");
}

//! What is counted of guards.

use std::collections::BTreeMap;
use std::path::Path;

use transom_guard::Hurt;

use super::file::Under;
use super::guarded::{self, Guarded, Row};
use super::harm::{Bound, Fate};
use super::numbers::Numbers;
use super::results::AtPoint;
use super::{Grid, Point, Results, draw, guarded_table, point};

const FILE: &str = include_str!("../../../../experiments/grid/guard.toml");

fn grid() -> Grid {
    Grid::parse(Path::new("guard.toml"), FILE).unwrap().with_guards()
}

fn refused(from: &str, to: &str) -> String {
    assert!(FILE.contains(from), "{from}");
    let text = FILE.replacen(from, to, 1);
    format!("{:#}", Grid::parse(Path::new("x.toml"), &text).unwrap_err())
}

#[test]
fn each_policy_runs_without_the_guard_and_under_it_and_one_under_the_control() {
    let grid = grid();
    let guard = grid.guard.as_ref().unwrap();
    let at = &draw::points(&grid, 1)[0];
    let settings = |name: &str| {
        let scenario = point::scenario(at, &grid.algorithms[name], 1).unwrap();
        scenario.hosts["t1"].guard.as_ref().map(|guard| guard.settings)
    };
    for policy in &guard.policies {
        assert_eq!(settings(policy), None, "{policy}");
        assert_eq!(settings(&Under::Guard.of(policy)), Some(Default::default()));
    }
    assert_eq!(settings(&guard.before), None);
    let wide = settings(&Under::WideBounds.of(&guard.control)).unwrap();
    assert!(wide.on && wide.loss == 1.0 && wide.share == 0.0, "{wide:?}");
    assert_eq!(grid.clone().with_guards(), grid, "once is enough");
}

#[test]
fn what_is_no_policy_is_refused_by_its_name() {
    let error = refused("policies = [\"steady\"", "policies = [\"stedy\"");
    assert!(error.contains("did you mean `steady`?"), "{error}");
    let error = refused("policies = [\"steady\"", "policies = [\"cubic\"");
    assert!(error.contains("\"cubic\" is no policy"), "{error}");
    let error = refused("before = \"cubic\"", "before = \"steady\"");
    assert!(error.contains("is a policy itself"), "{error}");
    let error = refused("control = \"target-70\"", "control = \"target-7\"");
    assert!(error.contains("is none of `policies`"), "{error}");
}

#[test]
fn the_bounds_of_the_page_are_those_of_the_policy() {
    let with = |settings: &str| FILE.replacen("[guard]", &format!("[guard]\n{settings}"), 1);
    let text = with("settings = { after = \"2s\", share = 0 }");
    let grid = Grid::parse(Path::new("x.toml"), &text).unwrap();
    let bounds = grid.guard.as_ref().unwrap().bounds().unwrap();
    assert_eq!((bounds.after.as_secs(), bounds.share), (2, 0.0));
    let at = &draw::points(&grid, 1)[0];
    let of_run = point::scenario(at, &grid.with_guards().algorithms["target-70, guarded"], 1);
    assert_eq!(of_run.unwrap().hosts["t1"].guard.as_ref().unwrap().settings, bounds);
    let made_up = made_up_of(&text, |_, _| (Fate::Kept, 0.1));
    assert!(made_up.1.contains("or 2.2 s for a queue"), "{}", made_up.1);
    assert_eq!(row(&made_up.0, "target-70, guarded").share.harmful, 0, "no share is asked");
    let wrong = Grid::parse(Path::new("x.toml"), &with("settings = { share = 2 }")).unwrap_err();
    assert!(format!("{wrong:#}").contains("`guard.settings`: share = 2"), "{wrong:#}");
}

/// Every terminal with this fate under each guard, and a competitor with this part of its share
/// without the guard.
fn made_up(of: impl Fn(&Point, &str) -> (Fate, f64)) -> Guarded {
    made_up_of(FILE, of).0
}

/// The same of a file, with its page.
fn made_up_of(file: &str, of: impl Fn(&Point, &str) -> (Fate, f64)) -> (Guarded, String) {
    let grid = Grid::parse(Path::new("guard.toml"), file).unwrap().with_guards();
    let points = draw::points(&grid, 60);
    let at = |point: &Point| {
        let equal = point.capacity_mbit() / f64::from(point.flows());
        let runs = grid.algorithms.keys().map(|name| {
            let (fate, part) = of(point, name);
            let competitor_mbit = point.competes.as_ref().map(|_| 0.5 * part * equal);
            let guarded = vec![fate; point.terminals as usize];
            let numbers = Numbers { competitor_mbit, guarded, ..Numbers::default() };
            (name.clone(), vec![Some(numbers); grid.runs_of(name) as usize])
        });
        AtPoint { point: point.clone(), runs: runs.collect::<BTreeMap<_, _>>() }
    };
    let results = Results {
        command: String::new(),
        kernels: vec!["6.12".to_owned()],
        engine: String::new(),
        points: points.iter().map(at).collect(),
        half: None,
        failures: Vec::new(),
        interrupted: false,
        grid,
    };
    let guarded = guarded::judge(&results).unwrap();
    let text = guarded_table::markdown(&results, &guarded);
    assert!(text.contains("| target-70, wide bounds |"), "{text}");
    (guarded, text)
}

fn row<'a>(guarded: &'a Guarded, name: &str) -> &'a Row {
    guarded.rows.iter().find(|row| row.policy == name).unwrap_or_else(|| panic!("{name}"))
}

fn caught(round_trips: f64) -> Fate {
    let seconds = round_trips * 0.2;
    Fate::Caught { bound: Bound::Queue, seconds, round_trips, at_s: 5.0 }
}

#[test]
fn withdrawals_are_counted_by_bound_and_by_how_long_they_took() {
    let guarded = made_up(|point, name| match name {
        "target-70, guarded" if point.number % 2 == 0 => (caught(9.0), 1.0),
        "target-70, guarded" => (caught(30.0), 1.0),
        "target-500, guarded" => (Fate::Missed { bound: Bound::Loss }, 1.0),
        _ => (Fate::Kept, 1.0),
    });
    let row70 = row(&guarded, "target-70, guarded");
    assert_eq!((row70.queue.harmful, row70.queue.withdrawn), (row70.terminals, row70.terminals));
    assert!(row70.queue.in_time > 0 && row70.queue.in_time < row70.terminals);
    assert_eq!(row70.queue.round_trips.unwrap().1, 30.0);
    let row500 = row(&guarded, "target-500, guarded");
    assert_eq!((row500.loss.harmful, row500.loss.withdrawn), (row500.terminals, 0));
    let kept = row(&guarded, "steady, guarded");
    assert_eq!((kept.inside, kept.alarms), (kept.terminals, 0));
}

#[test]
fn a_withdrawal_without_harm_is_an_alarm_unless_a_competitor_starves() {
    let alarm = Fate::Alarm { hurt: Hurt::Share, at_s: 3.0 };
    let fair = made_up(|_, name| (if name.ends_with("guarded") { alarm } else { Fate::Kept }, 1.0));
    let of = row(&fair, "target-70, guarded");
    assert_eq!((of.alarms, of.share.harmful), (of.terminals, 0));
    let starved = made_up(|_, name| match name {
        "target-70" => (Fate::Kept, 0.1),
        "target-70, guarded" => (alarm, 1.0),
        _ => (Fate::Kept, 1.0),
    });
    let of = row(&starved, "target-70, guarded");
    assert!(of.share.harmful > 0 && of.share.withdrawn == of.share.harmful, "{of:?}");
    assert_eq!(of.alarms + of.share.withdrawn, of.terminals, "no competitor, no excuse");
    let (points, [without, with, before]) = starved.effects[1].shares;
    assert!(points > 0 && without < 0.2 && with > 0.9 && before > 0.9, "{:?}", starved.effects);
}

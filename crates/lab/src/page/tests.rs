use std::fs;

use super::*;
use crate::compare::compare;
use crate::made_up;

fn folder(quick: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    made_up::results(folder.path(), quick);
    folder
}

fn page(folder: &Path) -> String {
    fs::read_to_string(write(&Results::read(folder).unwrap()).unwrap()).unwrap()
}

#[test]
fn the_page_tells_all_and_needs_nothing_else() {
    let folder = folder(false);
    let page = page(folder.path());
    for words in [
        "A made-up &lt;experiment&gt;",
        "Is all of it on the page?",
        "It is above thirty",
        ">not reproduced, 22.0 below<",
        ">reproduced<",
        ">undecided with 2 repeats, the number is within<",
        ">calibrated (reproduced)<",
        "Not counted: the rate was chosen to give it",
        "Control &quot;a path that carries next to nothing&quot; fails as it must: 0.0500 (0.0500 to 0.0500)",
        "the paper",
        "It was never run.",
        "Linux 6.18",
        "trace-a.parquet",
        "2 of 4 claims reproduced, 1 undecided, 1 calibrated and not counted",
        "6 runs",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<svg ").count(), 4);
    for outside in ["<script", "<link rel=\"stylesheet", "src=", "http://", "https://"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn figures_are_files_too_and_draw_what_was_measured() {
    let folder = folder(false);
    page(folder.path());
    for n in 1..=4 {
        let svg = fs::read_to_string(folder.path().join(format!("figure-{n}.svg"))).unwrap();
        let png = fs::read(folder.path().join(format!("figure-{n}.png"))).unwrap();
        assert!(svg.contains("<style>") && svg.contains("xmlns"), "figure {n}");
        assert!(png.starts_with(b"\x89PNG"), "figure {n}");
    }
    let window = fs::read_to_string(folder.path().join("figure-2.svg")).unwrap();
    assert!(window.contains(">retransmit<") && !window.contains(">timeout<"));
    let by_rtt = fs::read_to_string(folder.path().join("figure-1.svg")).unwrap();
    assert!(by_rtt.contains("stroke-dasharray") && by_rtt.contains(">the paper<"));
}

#[test]
fn every_number_of_every_run_is_in_the_csv() {
    let folder = folder(false);
    page(folder.path());
    let csv = fs::read_to_string(folder.path().join("runs.csv")).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 5);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let column = rows[0].iter().position(|name| *name == "up.goodput_mbit").unwrap();
    assert_eq!(rows[1..].iter().map(|row| row[column]).collect::<Vec<_>>(), ["9", "10", "6", "7"]);
}

#[test]
fn claims_about_points_that_were_not_run_say_so() {
    let folder = folder(true);
    let results = Results::read(folder.path()).unwrap();
    let text = table(&results);
    assert!(text.contains("not run: no run at path.rtt_ms = 0"), "{text}");
    assert!(text.contains("0 of 0 claims reproduced, 4 not run, 1 calibrated"), "{text}");
}

#[test]
fn the_verdicts_are_there_for_programs() {
    let folder = folder(false);
    page(folder.path());
    let text = fs::read_to_string(folder.path().join("claims.json")).unwrap();
    let claims: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let outcomes: Vec<_> = claims.iter().map(|claim| claim["outcome"].as_str().unwrap()).collect();
    let expected = ["reproduced", "not_reproduced", "undecided", "reproduced", "reproduced"];
    assert_eq!(outcomes, expected);
    assert_eq!((&claims[1]["by"], &claims[1]["repeats"]), (&(-22.0).into(), &2.into()));
    assert!(claims[0]["interval"][0].as_f64().unwrap() < claims[0]["number"].as_f64().unwrap());
    assert_eq!(claims[3]["calibrated"], "the rate was chosen to give it");
    let control = &claims[4]["controls"][0];
    assert_eq!(control["control"], "a path that carries next to nothing");
    assert_eq!(control["outcome"], "not_reproduced");
}

#[test]
fn a_run_that_is_not_finished_is_left_out() {
    let folder = folder(false);
    fs::remove_file(folder.path().join("runs/rtt-ms-0/1/measured.json")).unwrap();
    let results = Results::read(folder.path()).unwrap();
    let runs: Vec<_> = results.runs.iter().map(|run| (&*run.slug, run.measured.repeat)).collect();
    assert_eq!(runs, [("rtt-ms-0", 2), ("rtt-ms-64", 1), ("rtt-ms-64", 2)]);
}

#[test]
fn a_repeat_that_lacks_a_point_is_none_of_the_form() {
    let folder = folder(false);
    fs::remove_file(folder.path().join("runs/rtt-ms-0/1/measured.json")).unwrap();
    let document = folder.path().join("results.md");
    markdown::write(&[folder.path()], &document).unwrap();
    let text = fs::read_to_string(document).unwrap();
    assert!(text.contains(": 1 of 2 repeats with all points."), "{text}");
}

#[test]
fn a_control_stands_for_none_of_its_points_that_it_was_not_run_at() {
    let folder = folder(false);
    let above_one = "text = \"It is above one\"\n";
    let fails = "fails_under = [\"a path that carries next to nothing\"]\n";
    // It now changes both points, and was run at one.
    let text = made_up::EXPERIMENT.replace(above_one, &format!("{above_one}{fails}"));
    fs::write(folder.path().join("experiment.toml"), text).unwrap();
    let verdicts = Results::read(folder.path()).unwrap().verdicts();
    let why = "no run at path.rtt_ms = 64".to_owned();
    assert_eq!(verdicts[0].controls[0].judged.outcome, Outcome::NotRun { why });
}

#[test]
fn folders_stand_beside_one_another() {
    let (one, two) = (folder(false), folder(true));
    let page = compare(&[one.path(), two.path()]).unwrap();
    for folder in [&one, &two] {
        assert!(page.contains(&folder.path().display().to_string()));
    }
    assert!(page.contains("9.50 <small>9.00 to 10.0</small>"), "the goodput at RTT 0");
    assert_eq!(page.matches("<svg ").count(), 8);
}

#[test]
fn other_folders_are_refused_by_name() {
    let empty = tempfile::tempdir().unwrap();
    let text = format!("{:#}", Results::read(empty.path()).unwrap_err());
    assert!(text.contains("it has no experiment.toml"), "{text}");
    fs::write(empty.path().join("experiment.toml"), made_up::EXPERIMENT).unwrap();
    let text = format!("{:#}", Results::read(empty.path()).unwrap_err());
    assert!(text.ends_with("has no finished run"), "{text}");
    assert!(compare(&[]).is_err());
}

#[test]
fn the_document_says_when_and_in_which_form_it_was_measured() {
    for (quick, form) in [(false, "in full (2 repeats)"), (true, "only the short form (`--quick`)")]
    {
        let folder = folder(quick);
        let document = folder.path().join("results.md");
        markdown::write(&[folder.path()], &document).unwrap();
        let text = fs::read_to_string(document).unwrap();
        let day = "Measured on 2026-11-22 with transom 0.1.0: ";
        assert!(text.contains(&format!("{day}{form}.")), "{text}");
    }
}

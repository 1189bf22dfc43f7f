use transom_testbed::{SmallDisk, needs_root};

use super::*;

const TEXT: &str = r#"
title = "t"
source = "s"
question = "q"
duration_s = 5
repeats = 2
[air]
[hosts.phone]
profile = "ht-03a"
[hosts.server]
profile = "server"
[flows.up]
from = "phone"
to = "server"
[sweep]
"path.rtt_ms" = [0, 16]
"#;

fn loaded(text: &str) -> Loaded {
    crate::experiment::parse(Path::new("bench.toml"), text.to_owned()).expect("an experiment")
}

fn order<'a>(loaded: &'a Loaded, directory: &Path) -> Order<'a> {
    Order {
        loaded,
        quick: false,
        directory: directory.to_owned(),
        seed: None,
        repeats: None,
        precision: None,
        means: Means::Real { backend: Backend::Emulator, pcap: false },
        fresh: false,
        command: "transom lab run bench".into(),
        transom: "transom".into(),
        makers: Makers::default(),
    }
}

fn runs_of(order: &Order<'_>) -> Vec<Run> {
    order.runs(&order.points()).unwrap()
}

/// Makes every run of the order look finished.
fn finish(order: &Order<'_>) {
    for run in runs_of(order) {
        fs::create_dir_all(&run.directory).unwrap();
        let report = Report { fingerprint: run.fingerprint.clone(), ..Report::default() };
        report.write(&run.directory).unwrap();
        fs::write(run.measured(), "{}").unwrap();
    }
}

fn finished(order: &Order<'_>) -> Vec<bool> {
    runs_of(order).iter().map(|run| run.finished().is_some()).collect()
}

#[test]
fn every_point_runs_once_before_any_runs_again() {
    let loaded = loaded(TEXT);
    let runs = runs_of(&order(&loaded, Path::new("r")));
    let all: Vec<_> = runs.iter().map(|run| (run.point.label(), run.repeat)).collect();
    let expected = [("0", 1), ("16", 1), ("0", 2), ("16", 2)];
    assert_eq!(all, expected.map(|(rtt, n)| (format!("path.rtt_ms = {rtt}"), n)));
}

#[test]
fn no_two_runs_have_the_same_seed_and_the_first_seed_changes_all() {
    let loaded = loaded(TEXT);
    let mut order = order(&loaded, Path::new("r"));
    let mut seeds: Vec<u64> = runs_of(&order).iter().map(|run| run.seed).collect();
    order.seed = Some(2);
    seeds.extend(runs_of(&order).iter().map(|run| run.seed));
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 8);
}

#[test]
fn claims_can_be_edited_without_a_new_run_but_hosts_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let first = loaded(TEXT);
    finish(&order(&first, folder.path()));
    let claim = "[[claims]]\ntext = \"c\"\ntest = \"value\"\nof = { metric = \"sum_mbit\" }\nover_all = true\nat_least = 1\n";
    let claimed = loaded(&(TEXT.to_owned() + claim));
    assert_eq!(finished(&order(&claimed, folder.path())), [true; 4]);
    let changed =
        loaded(&TEXT.replace("profile = \"ht-03a\"", "profile = \"ht-03a\"\nalgorithm = \"reno\""));
    assert_eq!(finished(&order(&changed, folder.path())), [false; 4]);
}

#[test]
fn numbers_of_an_earlier_state_of_the_file_do_not_stand_beside_the_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let first = loaded(TEXT);
    finish(&order(&first, folder.path()));
    // One repeat is wanted now, but the page would find the second one's numbers, too.
    let changed = loaded(&TEXT.replace("duration_s = 5", "duration_s = 6"));
    let once = Order { repeats: Some(1), ..order(&changed, folder.path()) };
    prepare(&once, &once.points()).unwrap();
    for run in runs_of(&order(&first, folder.path())) {
        assert!(!run.measured().exists(), "{}", run.name());
    }
}

/// In virtual time nothing else is made before the runs.
#[test]
fn a_full_disk_is_told_and_leaves_no_folder_and_earlier_results_as_they_were() {
    needs_root!();
    let disk = SmallDisk::mount(256);
    let first = loaded(TEXT);
    let means = || Means::Virtual { engine: "no-simulator".into(), jobs: 1, quiet: true };
    let there = disk.path().join("there");
    prepare(&order(&first, &there), &[]).unwrap();
    disk.fill("filler", 0);
    for folder in [disk.path().join("new/bench"), there.clone()] {
        let order = Order { means: means(), ..order(&first, &folder) };
        let refusal = format!("{:#}", run(&order, &|| false).unwrap_err());
        assert!(
            refusal.contains("No space left") && refusal.contains("experiment.toml"),
            "{refusal}"
        );
    }
    assert!(!disk.path().join("new").exists());
    assert_eq!(fs::read_to_string(there.join("experiment.toml")).unwrap(), TEXT);
}

#[test]
fn fewer_repeats_and_a_smaller_sweep_forget_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let first = loaded(TEXT);
    finish(&order(&first, folder.path()));
    let once = Order { repeats: Some(1), ..order(&first, folder.path()) };
    prepare(&once, &once.points()).unwrap();
    assert_eq!(finished(&order(&first, folder.path())), [true; 4]);
    let smaller = loaded(&TEXT.replace("[0, 16]", "[16]"));
    let narrow = order(&smaller, folder.path());
    prepare(&narrow, &narrow.points()).unwrap();
    assert_eq!(finished(&order(&smaller, folder.path())), [true; 2]);
    assert!(folder.path().join("old/runs/rtt-ms-0/2/measured.json").exists(), "set aside");
}

#[test]
fn fresh_forgets_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(TEXT);
    let order = Order { fresh: true, ..order(&loaded, folder.path()) };
    finish(&order);
    prepare(&order, &order.points()).unwrap();
    assert_eq!(finished(&order), [false; 4]);
}

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
        pcap: false,
        backend: Backend::Emulator,
        fresh: false,
        command: "transom lab run bench".into(),
        transom: "transom".into(),
        makers: Makers::default(),
    }
}

/// Makes every run of the order look finished.
fn finish(order: &Order<'_>) {
    for run in order.runs().unwrap() {
        fs::create_dir_all(&run.directory).unwrap();
        let report = Report { fingerprint: run.fingerprint.clone(), ..Report::default() };
        report.write(&run.directory).unwrap();
        fs::write(run.measured(), "{}").unwrap();
    }
}

fn finished(order: &Order<'_>) -> Vec<bool> {
    order.runs().unwrap().iter().map(|run| run.finished().is_some()).collect()
}

#[test]
fn every_point_runs_once_before_any_runs_again() {
    let loaded = loaded(TEXT);
    let runs = order(&loaded, Path::new("r")).runs().unwrap();
    let all: Vec<_> = runs.iter().map(|run| (run.point.label(), run.repeat)).collect();
    let expected = [("0", 1), ("16", 1), ("0", 2), ("16", 2)];
    assert_eq!(all, expected.map(|(rtt, n)| (format!("path.rtt_ms = {rtt}"), n)));
}

#[test]
fn no_two_runs_have_the_same_seed_and_the_first_seed_changes_all() {
    let loaded = loaded(TEXT);
    let mut order = order(&loaded, Path::new("r"));
    let mut seeds: Vec<u64> = order.runs().unwrap().iter().map(|run| run.seed).collect();
    order.seed = Some(2);
    seeds.extend(order.runs().unwrap().iter().map(|run| run.seed));
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
    prepare(&once).unwrap();
    for run in order(&first, folder.path()).runs().unwrap() {
        assert!(!run.measured().exists(), "{}", run.name());
    }
}

#[test]
fn fewer_repeats_and_a_smaller_sweep_forget_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let first = loaded(TEXT);
    finish(&order(&first, folder.path()));
    prepare(&Order { repeats: Some(1), ..order(&first, folder.path()) }).unwrap();
    assert_eq!(finished(&order(&first, folder.path())), [true; 4]);
    let smaller = loaded(&TEXT.replace("[0, 16]", "[16]"));
    prepare(&order(&smaller, folder.path())).unwrap();
    assert_eq!(finished(&order(&smaller, folder.path())), [true; 2]);
    assert!(folder.path().join("old/runs/rtt-ms-0/2/measured.json").exists(), "set aside");
}

#[test]
fn fresh_forgets_what_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(TEXT);
    let order = Order { fresh: true, ..order(&loaded, folder.path()) };
    finish(&order);
    prepare(&order).unwrap();
    assert_eq!(finished(&order), [false; 4]);
}

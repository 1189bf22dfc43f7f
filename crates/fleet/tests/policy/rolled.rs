//! A roll-out from its first host to its end, in a time of our own: rows as the shipper lands them,
//! the real DuckDB, and the program itself for each step.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use transom_rollout::{Known, Turn};
use transom_testbed::write_script;

use crate::environment;
use crate::program::{Operator, said};
use crate::rows::{self, Ended};
use crate::shown;

const START: u64 = 1_800_000_000;
const WINDOW: u64 = 600;
const HOSTS: u64 = 30;

/// A fleet whose hosts lose one segment in a hundred, a little more or less, and `factor` times as
/// many while they have a generation.
struct Fleet {
    operator: Operator,
    duckdb: PathBuf,
    factor: u32,
    /// How many hosts have had the generation at some time.
    reached: Vec<bool>,
    written: u64,
    /// By host and hour.
    rows: BTreeMap<(u64, u64), Vec<Ended>>,
    /// That is said to be the first host.
    first: &'static str,
    /// Hosts that have the generation have no rows.
    is_silent: bool,
    /// Rows of earlier windows are removed when new ones come, but those from before the roll-out.
    forgets: bool,
    /// Steps keep sums there.
    state: Option<PathBuf>,
}

fn name(host: u64) -> String {
    format!("web-{host}")
}

impl Fleet {
    /// `None` where DuckDB cannot be had. It has been there for half an hour.
    fn new(factor: u32) -> Option<Fleet> {
        let duckdb = environment::engines()?.with_file_name("duckdb");
        let mut fleet = Fleet {
            operator: Operator::new(),
            duckdb,
            factor,
            reached: vec![false; HOSTS as usize],
            written: 0,
            rows: BTreeMap::new(),
            first: "web-7",
            is_silent: false,
            forgets: false,
            state: None,
        };
        for window in 1..=3 {
            fleet.rows(START - window * WINDOW, |_| false);
        }
        Some(fleet)
    }

    fn publish(&self, more: &[&str]) -> Result<String, String> {
        let start = START.to_string();
        let shares = ["--shares", "25%,100%", "--windows", "2"];
        let words = [&["--first", self.first, "--now", &start][..], &shares[..]].concat();
        said(&mut self.operator.publish(&[&words[..], more].concat()))
    }

    /// The rows of a window.
    fn rows(&mut self, begins_s: u64, has: impl Fn(&str) -> bool) {
        self.written += 1;
        for host in 0..HOSTS {
            let has = has(&name(host));
            self.reached[host as usize] |= has;
            if has && self.is_silent {
                continue;
            }
            let scatter = ((host * 7 + self.written * 13) % 11) as u32;
            let again = (15 + scatter) * if has { self.factor } else { 1 };
            let at_s = begins_s + 300;
            let ended = self.rows.entry((host, at_s / 3600)).or_default();
            ended.push((at_s, 2000, again));
            rows::write(&self.operator.path("fleet"), &name(host), ended);
        }
    }

    /// The rows of a window of the roll-out, in which each host does what it is told.
    fn live(&mut self, window: u64) {
        if self.forgets && window > 0 {
            self.rows.clear();
            fs::remove_dir_all(self.operator.path("fleet/connections")).unwrap();
        }
        let state = self.operator.place().under_way().unwrap();
        let at_s = START + window * WINDOW + 120;
        let waves = state.generation.waves.clone();
        let is_told = |host: &str| {
            let turn = state.current.turn(&waves, host, at_s, &mut Known::default());
            turn == Turn::Have(1)
        };
        self.rows(START + window * WINDOW, is_told);
    }

    /// A step at this time since the start.
    fn step(&self, seconds: u64) -> Result<String, String> {
        let now = (START + seconds).to_string();
        let mut step = self.operator.signed("step", &["--lag", "30s", "--now", &now]);
        if let Some(folder) = &self.state {
            step.arg("--state").arg(folder);
        }
        said(step.env("TRANSOM_DUCKDB", &self.duckdb))
    }

    /// A window and a step after it, again and again until a step says one of these; what it said,
    /// and when.
    fn until(&mut self, words: &[&str]) -> (String, u64) {
        for window in 0..60 {
            self.live(window);
            let seconds = (window + 1) * WINDOW + 60;
            let told = self.step(seconds).unwrap();
            print!("{told}");
            if words.iter().any(|word| told.contains(word)) {
                return (told, START + seconds);
            }
        }
        panic!("none of {words:?}");
    }

    fn share(&self) -> f64 {
        self.reached.iter().filter(|it| **it).count() as f64 / HOSTS as f64
    }

    fn have(&self, generation: Option<u64>, now_s: u64) -> usize {
        let has = |host| self.operator.host_has(&name(host), now_s) == generation;
        (0..HOSTS).filter(|host| has(*host)).count()
    }
}

const ENDS: [&str; 2] = ["takes it back", "all hosts have it"];

#[test]
fn a_policy_that_doubles_losses_is_taken_back_by_a_step_before_all_have_it() {
    let Some(mut fleet) = Fleet::new(2) else { return };
    print!("{}", fleet.publish(&["--expected", "loss=-30%..-10%"]).unwrap());
    let (told, now_s) = fleet.until(&ENDS);
    assert!(told.contains("generation 2 takes it back: all hosts have nothing"), "{told}");
    assert!(told.contains("gate loss of generation 1 found +"), "{told}");
    assert!(fleet.share() < 0.5, "{}", fleet.share());
    assert_eq!(fleet.have(None, now_s), HOSTS as usize);
    let status = said(&mut fleet.operator.status(&[])).unwrap();
    println!("{status}");
    assert!(status.contains("generation 2 (no policy): all hosts have it"), "{status}");
    assert!(status.contains("because: gate loss of generation 1 found"), "{status}");
    shown::beside_what_was_expected(&fleet.operator, &fleet.duckdb);
    // The control: a gate that tolerates everything lets the same policy through.
    let mut blind = Fleet::new(2).unwrap();
    blind.publish(&["--gate", "loss = retransmitted / data_segments_sent, higher, 1e6"]).unwrap();
    let (told, now_s) = blind.until(&ENDS);
    assert!(told.contains("wave 3 is over: all hosts have it"), "{told}");
    assert_eq!((blind.share(), blind.have(Some(1), now_s)), (1.0, HOSTS as usize));
}

#[test]
fn a_harmless_policy_reaches_all_and_is_then_only_renewed() {
    let Some(mut fleet) = Fleet::new(1) else { return };
    fleet.state = Some(fleet.operator.folder.path().to_owned());
    fleet.publish(&[]).unwrap();
    let kept = |fleet: &Fleet| {
        said(&mut fleet.operator.status(&["--state", &fleet.operator.text("")])).unwrap()
    };
    assert!(
        kept(&fleet).ends_with("no sums of it are kept there: the next step reads all its rows\n")
    );
    let (told, now_s) = fleet.until(&["is good: the next one has 100 %", ENDS[0]]);
    let sums = kept(&fleet);
    let windows = (now_s - 60 - START) / WINDOW + 3;
    let line = format!("  gate loss: {HOSTS} hosts, {} windows\n", HOSTS * windows);
    assert!(sums.contains("are kept up to 2027-") && sums.ends_with(&line), "{sums}");
    assert!(told.contains("wave 2 is good"), "{told}");
    let status = said(&mut fleet.operator.status(&[])).unwrap();
    println!("{status}");
    assert!(status.contains("wave 3 of 3 (100 %)") && status.contains("found: "), "{status}");
    // No rows come any more: in the last wave nobody is asked for them.
    let mut seconds = now_s - START;
    for _ in 0..6 {
        seconds += WINDOW;
        let told = fleet.step(seconds).unwrap();
        assert!(!told.contains("no host has rows"), "{told}");
    }
    let status = said(&mut fleet.operator.status(&[])).unwrap();
    assert!(status.contains("generation 1: all hosts have it"), "{status}");
    assert_eq!(fleet.step(seconds + 60).unwrap(), "generation 1: nothing is due\n");
    assert!(fleet.step(seconds + 900).unwrap().contains("the lease is renewed"));
    assert_eq!(fleet.have(Some(1), START + seconds + 901), HOSTS as usize);
}

#[test]
fn without_rows_no_lease_is_renewed_and_every_host_goes_back_by_itself() {
    let Some(mut fleet) = Fleet::new(1) else { return };
    fleet.publish(&[]).unwrap();
    fleet.live(0);
    assert!(fleet.step(660).unwrap().contains("the lease is renewed until"));
    let before = fleet.operator.place().under_way().unwrap().current;
    for seconds in [1300, 2000, 4200] {
        let told = fleet.step(seconds).unwrap();
        assert!(told.contains("no host has rows from"), "{told}");
        assert!(!told.contains("is renewed until"), "{told}");
    }
    assert_eq!(fleet.operator.place().under_way().unwrap().current, before, "nothing was written");
    // Both in windows in which the first host has it.
    assert_eq!(fleet.have(Some(1), START + 3000), 1);
    assert_eq!(fleet.have(Some(1), START + 4800), 0);
    let refused = fleet.step(4260).unwrap_err();
    assert!(refused.contains("the lease of generation 1 ended at"), "{refused}");
    // Then another may be published.
    let later = (START + 4300).to_string();
    let words = ["--first", "web-7", "--now", &later];
    let told = said(&mut fleet.operator.publish(&words)).unwrap();
    assert!(told.contains("generation 2 is published"), "{told}");
}

#[test]
fn a_policy_with_which_no_connection_ends_stays_with_its_first_host_and_ends_with_its_lease() {
    let Some(mut fleet) = Fleet::new(1) else { return };
    fleet.is_silent = true;
    fleet.publish(&[]).unwrap();
    let (told, now_s) = fleet.until(&["is held: while they have it", "is good"]);
    assert!(
        told.contains("wave 1 is held: while they have it, 1 of 1 hosts (web-7) have no"),
        "{told}"
    );
    assert!(told.contains("rows for gate loss") && told.contains("have the same --host"), "{told}");
    assert!(!told.contains("is renewed until"), "{told}");
    assert_eq!(fleet.reached.iter().filter(|it| **it).count(), 1);
    let held = fleet.operator.place().under_way().unwrap().current;
    let mut seconds = now_s - START;
    while START + seconds + WINDOW < held.ends_s() {
        seconds += WINDOW;
        assert!(fleet.step(seconds).unwrap().contains("is held: while they have it"));
    }
    assert_eq!(fleet.operator.place().under_way().unwrap().current, held, "nothing was written");
    assert!(
        fleet.step(seconds + WINDOW).unwrap_err().contains("the lease of generation 1 ended at")
    );
    // Nor does a name that no host has reach anybody else.
    let mut misspelt = Fleet::new(1).unwrap();
    misspelt.first = "web-77";
    misspelt.publish(&[]).unwrap();
    let (told, _) = misspelt.until(&["is held: while they have it", "is good"]);
    assert!(told.contains("1 of 1 hosts (web-77) have no rows"), "{told}");
    assert_eq!(misspelt.share(), 0.0);
}

#[test]
fn a_step_that_cannot_ask_changes_nothing_and_says_what_is_lacking() {
    let Some(mut fleet) = Fleet::new(1) else { return };
    assert!(fleet.step(0).unwrap_err().contains("has no policy: `transom-fleet policy publish`"));
    fleet.publish(&[]).unwrap();
    fleet.live(0);
    fleet.duckdb = "/nonexistent".into();
    let before = fleet.operator.place().under_way().unwrap().current;
    let refused = fleet.step(660).unwrap_err();
    assert!(refused.contains("asking for gate loss: no program `/nonexistent`"), "{refused}");
    assert_eq!(fleet.operator.place().under_way().unwrap().current, before);
}

/// The real DuckDB, which also writes down what it is asked.
fn told_duckdb(fleet: &Fleet) -> (PathBuf, PathBuf) {
    let (path, log) = (fleet.operator.path("duckdb"), fleet.operator.path("asked.sql"));
    let text = format!(
        "#!/bin/sh\ntee -a '{}' | exec '{}' \"$@\"\n",
        log.display(),
        fleet.duckdb.display()
    );
    write_script(&path, &text);
    (path, log)
}

/// How many hours of objects were read for how many answers.
fn hours_read(log: &std::path::Path) -> (usize, usize) {
    let text = fs::read_to_string(log).unwrap();
    (text.matches("/hour=").count(), text.matches("CREATE TEMP TABLE answer").count())
}

#[test]
fn where_sums_are_kept_a_step_reads_the_rows_of_new_windows_only() {
    let Some(mut whole) = Fleet::new(2) else { return };
    let log;
    (whole.duckdb, log) = told_duckdb(&whole);
    whole.publish(&[]).unwrap();
    let (told, now_s) = whole.until(&ENDS);
    assert!(told.contains("takes it back"), "{told}");
    let (all, answers) = hours_read(&log);
    // Of another fleet all other rows are removed before each step: the end is the same.
    let mut short = Fleet::new(2).unwrap();
    let log;
    (short.duckdb, log) = told_duckdb(&short);
    (short.forgets, short.state) = (true, Some(short.operator.folder.path().to_owned()));
    short.publish(&[]).unwrap();
    assert_eq!(short.until(&ENDS), (told.clone(), now_s));
    let (read, answers_of_short) = hours_read(&log);
    assert_eq!(answers_of_short, answers);
    // The hour of a window and the one before it, since objects lie where they begin.
    assert!(read <= 2 * answers && all > read, "{read} of {all} hours for {answers} answers");
    // The control: without the sums it cannot say what it says with them, and says that.
    let mut blind = Fleet::new(2).unwrap();
    blind.forgets = true;
    blind.publish(&[]).unwrap();
    let (told, _) = blind.until(&[&ENDS[..], &["is held: while they have it"]].concat());
    assert!(told.contains("1 of 1 hosts (web-7) have no rows for gate loss"), "{told}");
}

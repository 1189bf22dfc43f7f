//! Without `--once`: it goes on, and tells how it goes.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use transom_testbed::fresh_port;

use crate::faults::set_times;
use crate::place::{Folder, ended, ship};
use crate::s3::ship_to;
use crate::spool::Spool;

pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The metrics, when all of `lines` are among them.
pub fn when_told(file: &Path, lines: &[&str]) -> String {
    for _ in 0..1200 {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if lines.iter().all(|wanted| text.lines().any(|line| line == *wanted)) {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{lines:?} did not come: {}", std::fs::read_to_string(file).unwrap_or_default());
}

#[test]
fn what_comes_later_goes_too_and_metrics_say_how_much() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let metrics = spool.path().join("ship.prom");
    spool.finish(1, 10);
    let child = ship(spool.path(), &to.address())
        .arg("--metrics")
        .arg(&metrics)
        .stderr(Stdio::null())
        .spawn();
    let _running = Running(child.unwrap());
    let first =
        ["transom_ship_rows_total{table=\"connections\"} 10", "transom_ship_waiting_files 0"];
    when_told(&metrics, &first);
    let damaged = spool.path().join("decisions-20261123T121001Z-000002.parquet");
    std::fs::write(damaged, "torn").unwrap();
    spool.finish(2, 5);
    let text = when_told(
        &metrics,
        &["transom_ship_rows_total{table=\"connections\"} 15", "transom_ship_refused_files 1"],
    );
    assert!(text.contains("transom_ship_files_total{table=\"agent\"} 2"), "{text}");
    assert!(text.contains("# HELP transom_ship_rows Rows that landed"), "{text}");
    assert_eq!(to.cookies().len(), 15);
}

#[test]
fn metrics_that_cannot_be_written_are_named_before_anything_goes() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 1);
    let mut command = ship(spool.path(), &to.address());
    let (good, said) = ended(command.arg("--once").args(["--metrics", "/no/such/x.prom"]));
    assert!(!good && said.contains("/no/such/x.prom"), "{said}");
    assert!(to.objects().is_empty());
}

/// The unit names one, and what `fleet.env` says comes after.
#[test]
fn of_two_files_for_metrics_the_later_one_is_meant() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let [first, second] = ["first.prom", "second.prom"].map(|name| spool.path().join(name));
    let mut command = ship(spool.path(), &to.address());
    command.arg("--once").arg("--metrics").arg(&first).arg("--metrics").arg(&second);
    let (good, said) = ended(&mut command);
    assert!(good, "{said}");
    assert!(!first.exists() && second.exists());
}

/// A store that cannot be reached.
fn ship_to_nowhere(spool: &Spool, metrics: &Path) -> Running {
    let mut command = ship_to(fresh_port(), spool, "s3://tables");
    Running(command.arg("--metrics").arg(metrics).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn when_nothing_waited_last_is_not_told_before_it_is_known_and_not_forgotten_by_a_restart() {
    let spool = Spool::new(1);
    spool.finish(1, 10);
    let metrics = spool.path().join("ship.prom");
    let in_vain = ["transom_ship_waiting_files 3"];
    let first = ship_to_nowhere(&spool, &metrics);
    let text = when_told(&metrics, &in_vain);
    assert!(!text.contains("transom_ship_last_look"), "{text}");
    drop(first);
    let earlier = "transom_ship_last_look_timestamp_seconds 1700000000.5";
    std::fs::write(&metrics, format!("{earlier}\n")).unwrap();
    let _second = ship_to_nowhere(&spool, &metrics);
    when_told(&metrics, &[&in_vain[..], &[earlier]].concat());
}

#[test]
fn what_was_told_stays_while_a_start_after_an_outage_waits_for_its_moment() {
    let (spool, to) = (Spool::new(1), Folder::new());
    set_times(&spool.finish(1, 10), SystemTime::now() - Duration::from_secs(86_400));
    let metrics = spool.path().join("ship.prom");
    let refused = "transom_ship_troubles_total{refusal=\"denied\"} 1\n";
    std::fs::write(&metrics, refused).unwrap();
    let mut command = ship(spool.path(), &to.address());
    let mut child = command.arg("--metrics").arg(&metrics).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let _running = Running(child);
    let mut said = said.lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("3 files wait; the first goes in")));
    assert_eq!(std::fs::read_to_string(&metrics).unwrap(), refused);
}

//! What a shipper tells Prometheus, minute by minute, and when its alert makes something of that.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use tokio::task::LocalSet;
use transom_fleet::bucket::{self, Bucket};
use transom_fleet::ship::{Said, Shipper};
use transom_testbed::needs;

use crate::counted::{Counted, Way};
use crate::crowd::{PERIOD, START, make};
use crate::stopped::Stopped;

const MINUTE: Duration = Duration::from_secs(60);
const MINUTES: u32 = 240;

/// Each series with its values, as they are scraped each minute of four hours. `backlog` journals are
/// there at the start, and the agent finishes another one every five minutes.
fn told(way: Way, backlog: u32) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let [made, spool] = ["made", "spool"].map(|name| folder.path().join(name));
    [&made, &spool].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let mut files = make(1, backlog + MINUTES / 5 + 1, &made).unwrap().into_values();
    let mut finish = |journals: u32| {
        for name in files.by_ref().take(journals as usize).flatten() {
            fs::hard_link(made.join(&name), spool.join(&name)).unwrap();
        }
    };
    finish(backlog);
    let clock = Arc::new(Stopped::at(START, 1));
    let store = Arc::new(Counted::new(Arc::new(InMemory::new()), clock.clone()).over(way));
    let bucket = Bucket { store, address: "s3://tables".into() };
    let said = Said { labels: None, agent_config: "/nonexistent".into() };
    let metrics = folder.path().join("ship.prom");
    let (host, spread) = ("web-1".to_owned(), 2 * PERIOD);
    let shipper =
        Shipper::open(&spool, &spool, bucket, host, spread, said, Some(metrics.clone())).unwrap();
    let mut shipper = shipper.with_clock(clock.clone());
    let (runtime, local) = (bucket::runtime().unwrap(), LocalSet::new());
    let runs = local.spawn_local(async move { shipper.forever().await });
    let mut series: BTreeMap<String, String> = BTreeMap::new();
    for minute in 1..=MINUTES {
        finish(u32::from(minute.is_multiple_of(5)));
        local.block_on(&runtime, clock.pass_until(START + minute * MINUTE));
        let text = fs::read_to_string(&metrics).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let values = series.entry(name.to_owned());
            let values = values.or_insert_with(|| "_ ".repeat(minute as usize - 1));
            let _ = write!(values, "{value} ");
        }
    }
    assert!(!runs.is_finished());
    series
}

fn of_instance(series: &str, instance: &str) -> String {
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let more = if labels == "}" { "" } else { "," };
    format!("{name}{{instance=\"{instance}\"{more}{labels}")
}

/// In an outage a shipper tries at its own pace; where each object takes minutes, one round lasts for
/// hours.
#[test]
fn an_outage_is_told_after_half_an_hour_and_a_slow_way_on_which_files_land_is_none() {
    needs!("promtool");
    let away: Way = |now, _| {
        let is_away = (60 * MINUTE..180 * MINUTE).contains(&(now - START));
        (!is_away).then_some(Duration::ZERO)
    };
    let often_refused: Way = |_, nth| nth.is_multiple_of(3).then_some(Duration::ZERO);
    let slow: Way = |_, _| Some(4 * MINUTE);
    let mut tests =
        "rule_files: [rules.yml]\ntests:\n  - interval: 1m\n    input_series:\n".to_owned();
    for (host, way, backlog) in
        [("away", away, 0), ("often_refused", often_refused, 0), ("slow", slow, 30)]
    {
        for (series, values) in told(way, backlog) {
            let series = of_instance(&series, host);
            let _ = write!(tests, "      - series: '{series}'\n        values: {values}\n");
        }
    }
    tests.push_str("    promql_expr_test:\n");
    for (minute, fires) in
        [(59, false), (85, false), (100, true), (179, true), (195, false), (239, false)]
    {
        let firing = "ALERTS{alertname=\"TransomShipStuck\",alertstate=\"firing\"}";
        let expected = if fires { "[{labels: '{instance=\"away\"}', value: 1}]" } else { "[]" };
        let _ = write!(
            tests,
            "      - expr: count by (instance) ({firing})\n        eval_time: {minute}m\n        \
             exp_samples: {expected}\n"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
    let rules = fleet.args(["dashboard", "--rules"]).output().unwrap();
    fs::write(folder.path().join("rules.yml"), rules.stdout).unwrap();
    let file = folder.path().join("tests.yml");
    fs::write(&file, tests).unwrap();
    let output = Command::new("promtool").args(["test", "rules"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

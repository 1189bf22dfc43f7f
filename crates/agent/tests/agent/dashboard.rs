//! Each query of the dashboard and of the alert rules is executed: Prometheus scrapes an agent
//! whose machine has connections that lose segments, are refused, and are reset.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use transom_testbed::{
    NATIVE, Path, Prometheus, fresh_port, needs, needs_root, python_with, skip,
    troubled_connections, wait_for,
};

use crate::running::{Agent, Spool};

fn of_repository(file: &str) -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn dashboard() -> PathBuf {
    of_repository("packaging/grafana/transom.json")
}

fn rules() -> PathBuf {
    of_repository("packaging/prometheus/transom.rules.yml")
}

/// As Grafana asks them, with a value for each of its variables.
fn queries_of_panels() -> Vec<String> {
    let text = fs::read_to_string(dashboard()).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = [("$__rate_interval", "20s"), ("$__range", "60s"), ("$instance", ".*")];
    let queries = targets.map(|target| {
        let expr = target["expr"].as_str().unwrap().to_owned();
        variables.iter().fold(expr, |expr, (variable, value)| expr.replace(variable, value))
    });
    let queries: Vec<String> = queries.collect();
    assert!(queries.len() > 30 && !queries.iter().any(|query| query.contains('$')), "{queries:?}");
    queries
}

/// As Prometheus read them. With `bool` a comparison has an answer where it is false, too.
fn queries_of_rules(prometheus: &Prometheus) -> Vec<String> {
    let groups = prometheus.get("rules")["groups"].clone();
    let rules = groups.as_array().unwrap().iter().flat_map(|group| {
        group["rules"].as_array().unwrap().iter().map(|rule| rule["query"].as_str().unwrap())
    });
    let compared = |query: &str| {
        [" > ", " < ", " == "].iter().fold(query.to_owned(), |query, comparison| {
            query.replace(comparison, &format!("{comparison}bool "))
        })
    };
    let queries: Vec<String> = rules.map(compared).collect();
    assert!(queries.len() > 10 && queries.iter().all(|query| query.contains("bool")));
    queries
}

#[test]
fn each_query_of_dashboard_and_rules_has_data() {
    needs_root!();
    needs!("prometheus");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let port = fresh_port();
    let agent = Agent::start(&spool.path, &format!("metrics = \"127.0.0.1:{port}\"\n"));
    let native = Prometheus::with_rules(port, &[NATIVE], Some(&rules()));
    let classic = Prometheus::start(port, &[]);
    let mut queries = queries_of_panels();
    queries.extend(queries_of_rules(&native));
    for prometheus in [&native, &classic] {
        let mut without = queries.clone();
        wait_for("data of each query", || {
            troubled_connections(&path);
            without.retain(|query| !prometheus.has_data(query));
            // Shown only if they never have any.
            eprintln!("without data so far: {without:#?}");
            without.is_empty()
        });
    }
    let causes = "sum by (type) (rate(transom_tcp_retransmitted_segments_total[60s])) > 0";
    assert!(native.has_data(causes), "the losses were counted");
    // The control: what nobody serves is found.
    let (made, up) = ("transom_tcp_rtt_seconds", "up{job=\"transom\"} == bool 0");
    let typo = queries.iter().find(|query| query.contains(made)).unwrap().replace("_rtt_", "_rrt_");
    assert!(!native.has_data(&typo), "{typo}");
    assert!(queries.iter().any(|query| query == up), "{queries:#?}");
    assert!(!native.has_data(&up.replace("transom", "another")));
    let groups = native.get("rules")["groups"].clone();
    for rule in groups.as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap()) {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    agent.stop();
}

fn promtool(words: &[&str], file: &FilePath) -> Output {
    Command::new("promtool").args(words).arg(file).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat()
}

/// The tests of the rules, and rules in which `find` is `replace`.
fn tested_with(find: &str, replace: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(rules()).unwrap();
    assert!(text.contains(find), "{find}");
    fs::write(folder.path().join("transom.rules.yml"), text.replace(find, replace)).unwrap();
    let tests = folder.path().join("alerts.yml");
    fs::copy(FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/alerts.yml"), &tests)
        .unwrap();
    promtool(&["test", "rules"], &tests)
}

/// At each scrape of five minutes: whether `query` says that an upload of 1 Gbit/s, of which a row
/// comes every five minutes, has 125 MB/s.
fn says_how_fast_an_upload_is(query: &str) -> bool {
    let scrapes = (0..240).map(|n| (1 + n / 20) as f64 * 37.5e9);
    let values: Vec<String> = scrapes.map(|bytes| bytes.to_string()).collect();
    let moments: Vec<Value> = (0..20)
        .map(|n| {
            let is_right = format!("abs(({query}) / 125e6 - 1) < bool 0.01");
            let right = json!([{ "labels": "{workload=\"upload\"}", "value": 1 }]);
            json!({ "expr": is_right, "eval_time": format!("{}s", 1807 + 15 * n), "exp_samples": right })
        })
        .collect();
    let series = "transom_tcp_acknowledged_bytes_total{instance=\"a\", workload=\"upload\"}";
    let test = json!({
        "interval": "15s",
        "input_series": [{ "series": series, "values": values.join(" ") }],
        "promql_expr_test": moments,
    });
    holds(&json!({ "evaluation_interval": "1m", "tests": [test] }), "groups: []")
}

/// Whether what `tests` expect, of these rules or of expressions, is so.
fn holds(tests: &Value, rules: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests.yml");
    fs::write(folder.path().join("rules.yml"), rules).unwrap();
    fs::write(&file, tests.to_string()).unwrap();
    let tested = promtool(&["test", "rules"], &file);
    let said = said(&tested);
    assert!(tested.status.success() || said.contains("FAILED"), "{said}");
    tested.status.success()
}

/// Rows of connections with 15 segments/s, of which 5 % are retransmitted, written at any moment of five
/// minutes and up to a walk late: whether `rules` tell of all of them, all the time.
fn tells_of_long_connections(rules: &str, scrape_s: u64) -> bool {
    const ROW_S: u64 = 300;
    let phases: Vec<u64> = (0..ROW_S).step_by(35).collect();
    // It rises by this much with each row that a scrape finds.
    let series = |labels: &str, phase: u64, by: u64| {
        let late_s = |row: u64| [0, 10, 3, 10, 0, 7][row as usize % 6];
        let rows =
            |at_s: u64| (0..).take_while(|row| phase + ROW_S * row + late_s(*row) <= at_s).count();
        let scrapes = (0..=7200).step_by(scrape_s as usize);
        let values: Vec<String> =
            scrapes.map(|at_s| (rows(at_s) as u64 * by).to_string()).collect();
        let labels = format!("instance=\"a\", workload=\"{phase}\"{labels}");
        (labels, values.join(" "))
    };
    let segments = phases.iter().map(|&phase| {
        let (labels, values) = series("", phase, 4500);
        json!({ "series": format!("transom_tcp_data_segments_total{{{labels}}}"), "values": values })
    });
    let retransmitted = phases.iter().map(|&phase| {
        let (labels, values) = series(", type=\"fast\"", phase, 225);
        let series = format!("transom_tcp_retransmitted_segments_total{{{labels}}}");
        json!({ "series": series, "values": values })
    });
    let firing = "count(ALERTS{alertname=\"TransomRetransmissions\", alertstate=\"firing\"})";
    let all = json!([{ "labels": "{}", "value": phases.len() }]);
    let moments: Vec<Value> = (2400..7200)
        .step_by(50)
        .map(|at_s| json!({ "expr": firing, "eval_time": format!("{at_s}s"), "exp_samples": all }))
        .collect();
    let test = json!({
        "interval": format!("{scrape_s}s"),
        "input_series": segments.chain(retransmitted).collect::<Vec<_>>(),
        "promql_expr_test": moments,
    });
    // Rules are not evaluated in the moment of a scrape.
    holds(
        &json!({ "rule_files": ["rules.yml"], "evaluation_interval": "50s", "tests": [test] }),
        rules,
    )
}

#[test]
fn a_long_connection_that_retransmits_is_told_of_without_a_break() {
    needs!("promtool");
    let rules = fs::read_to_string(rules()).unwrap();
    for scrape_s in [15, 60] {
        assert!(tells_of_long_connections(&rules, scrape_s), "{scrape_s}");
        // The control: over the time of two rows and no more.
        assert!(!tells_of_long_connections(&rules.replace("[12m]", "[10m]"), scrape_s));
    }
}

#[test]
fn a_long_upload_is_shown_as_fast_as_it_is_at_every_moment() {
    needs!("promtool");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard()).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let sent = panels.iter().find(|panel| panel["title"] == "Sent").unwrap();
    let interval = sent["interval"].as_str().expect("one of its own");
    let query = sent["targets"][0]["expr"].as_str().unwrap().replace("$instance", ".*");
    // As Grafana makes it: the panel's interval and the time between two scrapes, which is 15 s, or
    // four times that where it is longer.
    let over = |window: &str| query.replace("$__rate_interval", window);
    assert!(says_how_fast_an_upload_is(&over(&format!("{interval}15s"))));
    // The control: as it would be without the panel's interval.
    assert!(!says_how_fast_an_upload_is(&over("60s")));
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    needs!("promtool");
    let checked = promtool(&["check", "rules"], &rules());
    assert!(checked.status.success(), "{}", said(&checked));
    let tested = tested_with("groups", "groups");
    assert!(tested.status.success(), "{}", said(&tested));
    // The control: a threshold out of reach, and one that everything exceeds.
    for (find, replace) in
        [("> 0.03", "> 30"), ("> 0.03", "> 0.00001"), ("job=\"transom\"", "job=\"t\"")]
    {
        let broken = tested_with(find, replace);
        assert!(!broken.status.success() && said(&broken).contains("alertname:"), "{replace}");
    }
    // Each has a case in which it fires, and one in which it does not.
    let tests = include_str!("alerts.yml");
    let rules = fs::read_to_string(rules()).unwrap();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    for name in names {
        let cases: Vec<&str> =
            tests.split("alertname: ").filter(|case| case.starts_with(name)).collect();
        let silent = cases.iter().filter(|case| case.contains("exp_alerts: []")).count();
        assert!(silent >= 1 && cases.len() > silent, "{name}: {cases:?}");
    }
}

/// Grafana's own description of a dashboard, as its makers publish it for Python, keeps all of ours:
/// nothing has a name or a place that it does not know.
#[test]
fn grafanas_schema_has_every_field_of_the_dashboard() {
    let python =
        match python_with("grafana_foundation_sdk", FilePath::new(env!("CARGO_TARGET_TMPDIR"))) {
            Ok(python) => python,
            Err(reason) => return skip("grafana_foundation_sdk", &reason),
        };
    let script = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/agent/read_by_grafana.py");
    let unknown = |file: &FilePath| {
        let output = Command::new(&python).arg(&script).arg(file).output().unwrap();
        (output.status.success(), said(&output))
    };
    assert_eq!(unknown(&dashboard()), (true, String::new()));
    // The control: a misspelt field is found.
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.json");
    let text = fs::read_to_string(dashboard()).unwrap();
    fs::write(&broken, text.replacen("\"fillOpacity\"", "\"filOpacity\"", 1)).unwrap();
    let (is_known, said) = unknown(&broken);
    assert!(!is_known && said.contains("filOpacity"), "{said}");
}

//! `transom-fleet dashboard`: each query of it, and of its rules, is executed. Prometheus scrapes an
//! agent, and a node exporter that has the metrics of a shipper which met trouble.

use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use transom_fleet::policy::place::Place;
use transom_rollout::{Judged, signing_key};
use transom_testbed::{
    NATIVE, Path, Prometheus, Talking, find_program, fresh_port, needs, needs_root, python_with,
    skip, troubled_connections, wait_for,
};

use crate::running::{Running, when_told};
use crate::s3::{Server, ship_to};
use crate::spool::Spool;
use crate::troubled::{Trouble, Troubled};

/// Into this folder.
fn written(folder: &FilePath) -> (PathBuf, PathBuf) {
    let write = |name: &str, more: &[&str]| {
        let path = folder.join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        let output = command.arg("dashboard").args(more).arg("-o").arg(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        path
    };
    (write("fleet.json", &[]), write("fleet.rules.yml", &["--rules"]))
}

/// As Grafana asks them, with a value for each of its variables.
fn queries_of_panels(dashboard: &FilePath) -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = [("$__rate_interval", "20s"), ("$__range", "60s"), ("$host", "127.0.0.1")];
    let queries = targets.map(|target| {
        let expr = target["expr"].as_str().unwrap().to_owned();
        variables.iter().fold(expr, |expr, (variable, value)| expr.replace(variable, value))
    });
    let queries: Vec<String> = queries.collect();
    assert!(queries.len() > 25 && !queries.iter().any(|query| query.contains('$')), "{queries:?}");
    queries
}

/// As Prometheus read them. With `bool` a comparison has an answer where it is false, too.
fn queries_of_rules(prometheus: &Prometheus) -> Vec<String> {
    let groups = prometheus.get("rules")["groups"].clone();
    let rules =
        groups.as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let queries: Vec<String> =
        rules.map(|rule| rule["query"].as_str().unwrap().replace(" > ", " >bool ")).collect();
    assert!(queries.len() == 10 && queries.iter().all(|query| query.contains("bool")));
    queries
}

/// A shipper that landed files, was asked for patience, and was then refused for good.
fn troubled_shipper(server: &Server, metrics: &FilePath) {
    let spool = Spool::new(1);
    spool.finish(1, 10);
    // The agent needed the room.
    fs::remove_file(&spool.finish(2, 10)[0]).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let end = is_over.clone();
    let way = Troubled::before(server.port, move |n| match n {
        _ if end.load(Ordering::SeqCst) => Trouble::Denied,
        0 => Trouble::Slower,
        _ => Trouble::None,
    });
    let mut command = ship_to(way.port, &spool, "s3://tables/fleet");
    let mut child =
        Running(command.arg("--metrics").arg(metrics).stderr(Stdio::null()).spawn().unwrap());
    when_told(metrics, &["transom_ship_rows_total{table=\"connections\"} 10"]);
    when_told(metrics, &["transom_ship_given_up_rows_total{table=\"connections\"} 10"]);
    is_over.store(true, Ordering::SeqCst);
    spool.finish(3, 10);
    assert!(!child.0.wait().unwrap().success());
    when_told(metrics, &["transom_ship_troubles_total{refusal=\"denied\"} 1"]);
}

/// A roll-out in which a gate found something: its steps and a host that follows tell of it.
fn rolled_out(folder: &FilePath, textfiles: &FilePath) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::create_dir(path("fleet")).unwrap();
    fs::write(path("far.toml"), "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { cap = 100 }\n")
        .unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let [to, key] = [format!("file://{}", path("fleet")), path("fleet.key")];
    run(&["policy", "key", &key]);
    run(&["policy", "publish", &path("far.toml"), "--to", &to, "--key", &key, "--first", "web-1"]);
    let secret = signing_key(&fs::read_to_string(&key).unwrap()).unwrap();
    let public = secret.verifying_key();
    let place = Place::open(&to, Some(secret), vec![public]).unwrap();
    let state = place.under_way().unwrap();
    let mut judged = state.current.clone();
    judged.progress.judged = vec![Judged {
        gate: "loss".into(),
        change: Some((-0.02, 0.03, 0.08)),
        chance_of_mean: 0.4,
        chance_of_hosts: 0.7,
        ..Judged::default()
    }];
    place.swap(Some(&state.last()), &judged).unwrap();
    let [step, follow] =
        ["step.prom", "follow.prom"].map(|name| textfiles.join(name).to_str().unwrap().to_owned());
    run(&["policy", "step", "--to", &to, "--key", &key, "--metrics", &step]);
    run(&["follow", "--from", &to, "--to", &path("copies"), "--once", "--metrics", &follow]);
    let told = |file: &str, line: &str| {
        let text = fs::read_to_string(file).unwrap();
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    };
    told(&step, "transom_policy_gate_change_ratio{gate=\"loss\",of=\"mean\"} 0.03");
    told(&step, "transom_policy_gate_chance_ratio{gate=\"loss\",of=\"hosts\"} 0.7");
    told(&step, "transom_policy_wave 1");
    told(&follow, "transom_follow_generation 1");
    let ends = format!("{:?}", judged.ends_s() as f64);
    told(&step, &format!("transom_policy_lease_end_timestamp_seconds {ends}"));
    told(&follow, &format!("transom_follow_lease_end_timestamp_seconds {ends}"));
}

fn agent(folder: &FilePath, port: u16) -> Talking {
    let config = folder.join("agent.toml");
    fs::write(&config, format!("metrics = \"127.0.0.1:{port}\"\n")).unwrap();
    let mut command = Command::new(find_program("transom-agent").unwrap());
    command.arg("--config").arg(config).arg("--spool").arg(folder.join("spool"));
    Talking::start(command.stdin(Stdio::null()), "rows of connections go to")
}

fn node_exporter(textfiles: &FilePath, port: u16) -> Talking {
    let mut command = Command::new("prometheus-node-exporter");
    command
        .args(["--collector.disable-defaults", "--collector.textfile"])
        .arg(format!("--collector.textfile.directory={}", textfiles.display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Talking::start(&mut command, "Listening on")
}

#[test]
fn each_query_of_the_fleets_dashboard_and_rules_has_data() {
    needs_root!();
    needs!("prometheus", "prometheus-node-exporter", "transom-agent");
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (dashboard, rules) = written(folder.path());
    let textfiles = folder.path().join("textfiles");
    fs::create_dir(&textfiles).unwrap();
    troubled_shipper(&server, &textfiles.join("ship.prom"));
    rolled_out(folder.path(), &textfiles);
    let path = Path::new(Duration::from_millis(5));
    let ports = [fresh_port(), fresh_port()];
    let mut agent = agent(folder.path(), ports[0]);
    let _exporter = node_exporter(&textfiles, ports[1]);
    let jobs = [("transom", ports[0]), ("node", ports[1])];
    let prometheus = Prometheus::of_jobs(&jobs, &[NATIVE], Some(&rules));
    let mut queries = queries_of_panels(&dashboard);
    queries.extend(queries_of_rules(&prometheus));
    let mut without = queries.clone();
    wait_for("data of each query", || {
        troubled_connections(&path);
        without.retain(|query| !prometheus.has_data(query));
        // Shown only if they never have any.
        eprintln!("without data so far: {without:#?}");
        without.is_empty()
    });
    // Both programs are of one machine, whatever their ports are.
    let of = |series: &str| queries.iter().find(|query| query.contains(series)).unwrap();
    for series in ["transom_ship_waiting_files", "transom_agent_cpu"] {
        let other = of(series).replace("127.0.0.1", "127.0.0.2");
        assert!(prometheus.has_data(of(series)) && !prometheus.has_data(&other), "{other}");
        // The control: what nobody serves is found.
        assert!(!prometheus.has_data(&of(series).replace("transom_", "trasnom_")));
    }
    let groups = prometheus.get("rules")["groups"].clone();
    for rule in groups.as_array().unwrap().iter().flat_map(|g| g["rules"].as_array().unwrap()) {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    assert!(agent.end(2).success());
}

/// The tests of the rules, and rules in which `find` is `replace`.
fn tested_with(find: &str, replace: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let (_, rules) = written(folder.path());
    let text = fs::read_to_string(&rules).unwrap();
    assert!(text.contains(find), "{find}");
    fs::write(&rules, text.replace(find, replace)).unwrap();
    let tests = folder.path().join("alerts.yml");
    fs::write(&tests, include_str!("alerts.yml")).unwrap();
    let output = Command::new("promtool").args(["test", "rules"]).arg(&tests).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn alerts_of_shippers_fire_when_they_should_and_only_then() {
    needs!("promtool");
    let (good, said) = tested_with("groups", "groups");
    assert!(good, "{said}");
    // The control: a threshold out of reach, one that everything exceeds, and passing troubles as lasting.
    for (find, replace) in [
        ("> 3600", "> 36000000"),
        ("> 0.01", "> 0"),
        ("!= 0", "!= -1"),
        ("!~", "=~"),
        ("> -600", "> -6000"),
        ("> 1200", "> 36000000"),
        ("> 1800", "> 600"),
    ] {
        let (good, said) = tested_with(find, replace);
        assert!(!good && said.contains("alertname:"), "{replace}: {said}");
    }
}

#[test]
fn grafanas_schema_has_every_field_of_the_fleets_dashboard() {
    let python =
        match python_with("grafana_foundation_sdk", FilePath::new(env!("CARGO_TARGET_TMPDIR"))) {
            Ok(python) => python,
            Err(reason) => return skip("grafana_foundation_sdk", &reason),
        };
    let folder = tempfile::tempdir().unwrap();
    let (dashboard, _) = written(folder.path());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../agent/tests/agent/read_by_grafana.py");
    let unknown = |file: &FilePath| {
        let output = Command::new(&python).arg(script).arg(file).output().unwrap();
        (
            output.status.success(),
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        )
    };
    assert_eq!(unknown(&dashboard), (true, String::new()));
    // The control: a misspelt field is found.
    let text = fs::read_to_string(&dashboard).unwrap();
    fs::write(&dashboard, text.replacen("\"regex\"", "\"regexp\"", 1)).unwrap();
    let (is_known, said) = unknown(&dashboard);
    assert!(!is_known && said.contains("regexp"), "{said}");
}

#[test]
fn a_file_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (dashboard, _) = written(folder.path());
    let ended = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        let output = command.args(["dashboard", "-o"]).arg(&dashboard).args(more).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (good, said) = ended(&[]);
    assert!(!good && said.contains("fleet.json"), "{said}");
    assert!(ended(&["--force"]).0);
}

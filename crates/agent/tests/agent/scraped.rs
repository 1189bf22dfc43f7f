//! Debian's Prometheus scrapes a running agent: with native histograms, and as the control without.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use transom_testbed::{
    NATIVE, Namespace, Path, Prometheus, fresh_port, needs, needs_root, pair, send_and_wait,
    wait_for,
};

use crate::running::{Agent, Spool, own_metric, scraped};

/// Both ends of 10 connections whose RTT is 300 ms, from a program with a hostile name.
fn slow_connections(path: &Path) {
    let names = ["x\"} 1\n", "\\", "{a=\"b\"}"];
    std::thread::scope(|scope| {
        for n in 0..10 {
            let upload = || {
                let (mut client, mut server) = pair(path);
                send_and_wait(&mut client, &mut server, 20_000);
            };
            std::thread::Builder::new()
                .name(names[n % names.len()].into())
                .spawn_scoped(scope, upload)
                .unwrap();
        }
    });
}

fn both_ends_of_ten(path: &Path, spool: &Spool) -> Vec<f64> {
    let mut times: Vec<f64> = [&path.left, &path.right]
        .into_iter()
        .flat_map(|end: &Namespace| spool.connections(end.inode()))
        .filter_map(|row| row.srtt_us)
        .map(|us| f64::from(us) / 1e6)
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn prometheus_has_native_histograms_of_what_the_traffic_was() {
    needs_root!();
    needs!("prometheus");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(150)));
    let port = fresh_port();
    let config = format!("metrics = \"127.0.0.1:{port}\"\nfile_seconds = 1\n");
    let agent = Agent::start(&spool.path, &config);
    let native = Prometheus::start(port, &[NATIVE]);
    let classic = Prometheus::start(port, &[]);
    slow_connections(&path);
    wait_for("all rows to be in files", || both_ends_of_ten(&path, &spool).len() == 20);
    // Other connections of the machine are counted, too: these are the ones above 0.2 s.
    let slow = "histogram_fraction(0.2, 1, transom_tcp_rtt_seconds) \
                * histogram_count(transom_tcp_rtt_seconds)";
    wait_for("a native histogram of them", || native.value(slow).is_some_and(|n| n > 19.5));
    let times = both_ends_of_ten(&path, &spool);
    let top = native.value("histogram_quantile(1, transom_tcp_rtt_seconds)").unwrap();
    assert!(top >= times[19] * 0.999, "{top} of {times:?}");
    let count = native.value("histogram_count(transom_tcp_rtt_seconds)").unwrap();
    let sum = native.value("histogram_sum(transom_tcp_rtt_seconds)").unwrap();
    assert!(count >= 20.0 && sum >= times.iter().sum::<f64>() * 0.999, "{count}, {sum}");
    assert_eq!(native.value("transom_tcp_rtt_seconds_bucket{le=\"+Inf\"}"), None);
    // The control: the same agent, scraped as text.
    let classic_count = "transom_tcp_rtt_seconds_bucket{le=\"+Inf\"}";
    wait_for("a classic one", || classic.value(classic_count).is_some_and(|n| n >= 20.0));
    assert_eq!(classic.value("histogram_count(transom_tcp_rtt_seconds)"), None);
    for prometheus in [&native, &classic] {
        assert_eq!(prometheus.value("up{job=\"transom\"}"), Some(1.0));
        let series = prometheus.value("count({__name__=~\"transom_.*\"})").unwrap();
        assert!((20.0..=300.0).contains(&series), "{series} series");
        let moved = "sum(transom_tcp_acknowledged_bytes_total)";
        assert!(prometheus.value(moved).is_some_and(|bytes| bytes >= 200_000.0));
    }
    agent.stop();
}

#[test]
fn promtool_has_no_complaint_about_what_a_client_without_wishes_gets() {
    needs_root!();
    needs!("promtool");
    let (spool, port) = (Spool::new(), fresh_port());
    let agent = Agent::start(&spool.path, &format!("metrics = \"127.0.0.1:{port}\"\n"));
    wait_for("the agent's own metrics", || own_metric(port, "transom_agent_level").is_some());
    let answer = scraped(port);
    agent.stop();
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();
    let complaint = complaint_of_promtool(text);
    assert_eq!(complaint, "");
    // The control: a counter whose family is called as in OpenMetrics.
    let counter = "transom_agent_lost_rows";
    assert!(text.contains(&format!("# HELP {counter}_total ")), "{text}");
    let changed = text.replace(&format!(" {counter}_total "), &format!(" {counter} "));
    assert!(complaint_of_promtool(&changed).contains(counter));
}

fn complaint_of_promtool(text: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

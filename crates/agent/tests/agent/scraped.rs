//! Debian's Prometheus scrapes a running agent: with native histograms, and as the control without.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use transom_testbed::{
    Namespace, Path, Talking, fresh_port, needs, needs_root, pair, send_and_wait, wait_for,
};

use crate::running::{Agent, Spool};

const NATIVE: &str = "--enable-feature=native-histograms";

/// In this machine's network namespace, on the loopback device.
struct Prometheus {
    _program: Talking,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Prometheus {
    fn start(agent: u16, more: &[&str]) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let port = fresh_port();
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "scrape_configs:\n- job_name: transom\n  scrape_interval: 1s\n  static_configs:\n  \
             - targets: ['127.0.0.1:{agent}']\n"
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(more);
        let program = Talking::start(&mut command, "Server is ready");
        Prometheus { _program: program, _folder: folder, port }
    }

    /// The number of the only series of the answer; none: no series.
    fn value(&self, query: &str) -> Option<f64> {
        let mut escaped = String::new();
        for byte in query.bytes() {
            write!(escaped, "%{byte:02x}").unwrap();
        }
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        // A test that fails must not hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/v1/query?query={escaped} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().unwrap();
        assert!(series.len() <= 1, "{query}: {answer}");
        Some(series.first()?["value"][1].as_str().unwrap().parse().unwrap())
    }
}

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

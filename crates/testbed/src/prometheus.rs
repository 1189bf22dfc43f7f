//! Debian's Prometheus, scraping an agent once a second.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::sockets::fresh_port;
use crate::talking::Talking;
use serde_json::Value;

pub const NATIVE: &str = "--enable-feature=native-histograms";

/// In this machine's network namespace, on the loopback device.
pub struct Prometheus {
    _program: Talking,
    _folder: tempfile::TempDir,
    port: u16,
}

impl Prometheus {
    pub fn start(agent: u16, more: &[&str]) -> Prometheus {
        Prometheus::with_rules(agent, more, None)
    }

    pub fn with_rules(agent: u16, more: &[&str], rules: Option<&Path>) -> Prometheus {
        Prometheus::of_jobs(&[("transom", agent)], more, rules)
    }

    /// Each job has a target of its name at a port of this machine.
    pub fn of_jobs(jobs: &[(&str, u16)], more: &[&str], rules: Option<&Path>) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        let port = fresh_port();
        let config = folder.path().join("prometheus.yml");
        let mut text = "global:\n  evaluation_interval: 1s\nscrape_configs:\n".to_owned();
        for (job, port) in jobs {
            let targets = format!("static_configs: [{{targets: ['127.0.0.1:{port}']}}]");
            writeln!(text, "- job_name: {job}\n  scrape_interval: 1s\n  {targets}").unwrap();
        }
        if let Some(rules) = rules {
            writeln!(text, "rule_files: ['{}']", rules.canonicalize().unwrap().display()).unwrap();
        }
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

    /// What its API answers at this path.
    pub fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        // A test that fails must not hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET /api/v1/{path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body).unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The numbers of all series of the answer.
    pub fn values(&self, query: &str) -> Vec<f64> {
        let mut escaped = String::new();
        for byte in query.bytes() {
            write!(escaped, "%{byte:02x}").unwrap();
        }
        let answer = self.get(&format!("query?query={escaped}"));
        let series = answer["result"].as_array().unwrap();
        series.iter().map(|one| one["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }

    /// At least one series with a number.
    pub fn has_data(&self, query: &str) -> bool {
        self.values(query).iter().any(|value| !value.is_nan())
    }

    /// The number of the only series of the answer; none: no series.
    pub fn value(&self, query: &str) -> Option<f64> {
        let values = self.values(query);
        assert!(values.len() <= 1, "{query}: {values:?}");
        values.first().copied()
    }
}

//! Scenarios of two hosts, and what the program makes of them.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use transom_analysis::Recording;
use transom_emulator::log::Log;
use transom_emulator::plan::{Direction, Path, Plan, Port, Side};
use transom_event::{Event, Kind};
use transom_scenario::{Flow, FlowOutcome, Host, Outcome, Scenario, Traffic, trace_file};
use transom_trace::Reader;

pub struct Ran {
    folder: TempDir,
    pub output: Output,
}

/// Hosts `a` and `b`, `rtt_ms` apart, and a flow `f` from `a` to `b`; the way there has this rate
/// and a queue of 100 packets.
pub fn scenario(mbit: f64, rtt_ms: f64, traffic: Traffic) -> Scenario {
    let mut scenario =
        Scenario { seed: 1, most_seconds: 60.0, record: true, ..Scenario::default() };
    for (number, name, side) in [(1, "a", Side::Near), (2, "b", Side::Far)] {
        let addresses =
            vec![[10, 77, 0, number].into(), format!("fd77::{number}").parse().unwrap()];
        let host = Host { addresses, ..Host::default() };
        scenario.hosts.insert(name.to_owned(), host);
        scenario.links.ports.push(Port { name: name.into(), mac: [2, 0, 0, 0, 0, number], side });
    }
    let up = Direction { rate_mbit: Some(mbit), queue_packets: Some(100), ..Direction::default() };
    let path = Path { rtt_ms, up, ..Path::default() };
    scenario.links = Plan { path, ..scenario.links };
    let flow = Flow { from: "a".into(), to: "b".into(), traffic, ..Flow::default() };
    scenario.flows.insert("f".to_owned(), flow);
    scenario
}

pub fn seconds(seconds: f64) -> Traffic {
    Traffic::Bulk { seconds: Some(seconds), bytes: None }
}

pub fn bytes(bytes: u64) -> Traffic {
    Traffic::Bulk { seconds: None, bytes: Some(bytes) }
}

pub fn flow(scenario: &mut Scenario) -> &mut Flow {
    scenario.flows.get_mut("f").unwrap()
}

pub fn host<'a>(scenario: &'a mut Scenario, name: &str) -> &'a mut Host {
    scenario.hosts.get_mut(name).unwrap()
}

pub fn run(scenario: &Scenario) -> Ran {
    run_text(&serde_json::to_string(scenario).unwrap())
}

/// What `transom-simulate check` says of it, if that is no good.
pub fn checked(scenario: &Scenario) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.json");
    fs::write(&file, serde_json::to_string(scenario).unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transom-simulate"));
    let output = command.arg("check").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

pub fn run_text(text: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.json");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_transom-simulate"))
        .arg("run")
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("out"))
        .output()
        .unwrap();
    Ran { folder, output }
}

impl Ran {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("out").join(name)
    }

    pub fn complaint(&self) -> String {
        assert!(!self.output.status.success(), "it should have failed");
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> T {
        let stderr = String::from_utf8_lossy(&self.output.stderr);
        assert!(self.output.status.success(), "{stderr}");
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub fn outcome(&self) -> Outcome {
        self.json(Outcome::FILE)
    }

    /// Of the flow `f`, which must have gone well.
    pub fn flow(&self) -> FlowOutcome {
        let outcome = self.outcome();
        assert_eq!(outcome.failures, []);
        outcome.flows["f"].clone()
    }

    pub fn links(&self) -> Log {
        self.json("emulator.json")
    }

    pub fn events(&self, host: &str) -> Vec<Event> {
        Reader::open(self.path(&trace_file(host))).unwrap().map(Result::unwrap).collect()
    }

    pub fn count(&self, host: &str, kind: Kind) -> usize {
        self.events(host).iter().filter(|event| event.kind == kind).count()
    }

    pub fn recording(&self, host: &str) -> Recording {
        let mut recording = Recording::default();
        for event in self.events(host) {
            recording.push(&event);
        }
        recording
    }
}

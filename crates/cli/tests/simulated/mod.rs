//! Recordings of a sender in virtual time, for tests of what is done with them.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use transom_lab::simulated::engine;
use transom_scenario::{Flow, Host, Scenario, Socket, Traffic};

const TRANSOM: &str = env!("CARGO_BIN_EXE_transom");
pub const SECONDS: f64 = 8.0;

/// A sender with this algorithm, 8 Mbit/s and 40 ms away from its receiver.
pub fn scenario(algorithm: &str, seed: u64) -> Scenario {
    let mut scenario: Scenario = serde_json::from_value(serde_json::json!({
        "seed": seed, "most_seconds": SECONDS, "record": true,
        "links": { "path": { "rtt_ms": 40.0, "up": { "rate_mbit": 8.0, "queue_packets": 20 } } },
    }))
    .expect("a scenario");
    for (number, name) in [(1, "sender"), (2, "receiver"), (3, "other")] {
        let address: IpAddr = [10, 77, 0, number].into();
        let host = Host { addresses: vec![address], gso_max_segs: 1, ..Host::default() };
        scenario.hosts.insert(name.to_owned(), host);
        let side = if number == 2 { "far" } else { "near" };
        let port =
            serde_json::json!({ "name": name, "mac": [2, 0, 0, 0, 0, number], "side": side });
        scenario.links.ports.push(serde_json::from_value(port).expect("a port"));
    }
    scenario.flows.insert("flow".into(), flow("sender", 5201, algorithm));
    scenario
}

pub fn bulk(seconds: f64) -> Traffic {
    Traffic::Bulk { seconds: Some(seconds), bytes: None }
}

pub fn flow(from: &str, port: u16, algorithm: &str) -> Flow {
    Flow {
        from: from.into(),
        to: "receiver".into(),
        port,
        traffic: bulk(SECONDS),
        sender: Socket { congestion: Some(algorithm.into()), ..Socket::default() },
        ..Flow::default()
    }
}

/// The sender's trace of it.
pub fn recorded(scenario: &Scenario, folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = engine::find(Path::new(TRANSOM), &path).expect("the engine");
    engine::simulate(&program, scenario, folder, &|| true).expect("it runs").expect("an outcome");
    folder.join("trace-sender.parquet")
}

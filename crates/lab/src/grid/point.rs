//! A point with an algorithm, as an experiment and as a scenario.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};
use transom_emulator::Stream;
use transom_scenario::{Scenario, Traffic};

use super::draw::{Loss, Point, Sends};
use super::file::{Algorithm, Grid, STEADY};
use crate::experiment::{Loaded, parse};
use crate::simulated;

/// Hosts: terminals are `t1`, `t2`, …; the competitor's host and flow have one name.
pub const RIVAL: &str = "rival";
const SERVER: &str = "server";
/// The swept key of an experiment that compares algorithms.
pub const COMPARED: &str = "algorithm";

/// Of an answer to a short flow.
const ANSWER: u64 = 200;
/// More transfers than any point has time for.
const ENDLESS: u64 = 1_000_000_000;
/// Flows begin within so long of each other, s.
pub(super) const STARTS_S: f64 = 1.0;
/// Buffers hold so many times what the path and its queue hold, as the kernel counts memory: they
/// are never what limits a flow.
const BUFFERS: f64 = 6.0;
/// Linux's own largest buffer, and the largest that its sysctls take, bytes.
const BUFFER_BYTES: (f64, f64) = (6_291_456.0, 1_073_741_824.0);
/// MCS of 802.11n's air at 40 MHz, by the most that the path may have, Mbit/s: the path, not the
/// air, is the bottleneck while nothing fades, as far as there is such an MCS.
const MCS: [(f64, i64); 4] = [(20.0, 7), (50.0, 15), (90.0, 23), (f64::INFINITY, 31)];
/// Packets that wait in a station for the air.
const STATION_QUEUE: i64 = 1000;

/// Of a terminal: its host and flow.
pub fn terminal(number: u32) -> String {
    format!("t{number}")
}

/// As an experiment file would have it, with bulk flows.
///
/// # Errors
/// If the lab cannot have it; the algorithm's parameters, for example, are none.
pub fn experiment(point: &Point, algorithm: &Algorithm) -> Result<Loaded> {
    let mut tree = tree(point)?;
    let hosts = tree.get_mut("hosts").and_then(Value::as_table_mut).into_iter().flatten();
    for (name, host) in hosts {
        if let (true, Value::Table(host)) = (is_terminal(name), host) {
            host.extend(treatment(algorithm));
        }
    }
    loaded(point, &tree)
}

/// An experiment that sweeps the algorithms, which all meet the same chance.
///
/// # Errors
/// As [`experiment`].
pub fn compared(grid: &Grid, point: &Point) -> Result<Loaded> {
    let mut tree = tree(point)?;
    let case = |(name, algorithm): (&String, &Algorithm)| {
        let hosts = (1..=point.terminals).map(terminal);
        let hosts: Table = hosts.map(|host| (host, treatment(algorithm).into())).collect();
        let set = table([("hosts", hosts.into())]);
        Value::Table(table([("name", name.as_str().into()), ("set", set.into())]))
    };
    let cases: Vec<Value> = grid.algorithms.iter().map(case).collect();
    tree.insert("sweep".into(), table([(COMPARED, cases.into())]).into());
    tree.insert("paired".into(), vec![Value::from(COMPARED)].into());
    tree.insert("repeats".into(), i64::from(grid.repeats).into());
    loaded(point, &tree)
}

fn is_terminal(host: &str) -> bool {
    host != RIVAL && host != SERVER
}

fn loaded(point: &Point, tree: &Table) -> Result<Loaded> {
    let name = format!("grid-point-{}.toml", point.number);
    parse(Path::new(&name), toml::to_string(tree)?)
        .with_context(|| format!("point {}", point.number))
}

/// Everything but the algorithm of the terminals.
fn tree(point: &Point) -> Result<Table> {
    let mut tree = table([
        ("title", format!("Point {} of a grid", point.number).into()),
        ("source", point.describe().into()),
        ("question", "How do the algorithms do here?".into()),
        ("duration_s", point.seconds.into()),
        ("repeats", 1.into()),
        ("seed", (point.seed as i64).into()),
        ("record", false.into()),
        ("path", path(point)?.into()),
    ]);
    if point.has_weak_moments() {
        let air = [("standard", Value::from("n")), ("channel_mhz", 40.into())];
        tree.insert("air".into(), table(air).into());
    }
    let (mut hosts, mut flows) = (Table::new(), Table::new());
    let bytes = Value::Integer(buffer(point));
    let buffers = table([("send_buffer", bytes.clone()), ("receive_buffer", bytes)]);
    let mut starts = Stream::new(point.seed, "grid.starts");
    let mut flow = |from: &str| {
        let start = (starts.uniform() * STARTS_S * 1e3).round() / 1e3;
        let keys = [("from", Value::from(from)), ("to", SERVER.into()), ("start_s", start.into())];
        flows.insert(from.to_owned(), table(keys).into());
    };
    for name in (1..=point.terminals).map(terminal) {
        let mut host = buffers.clone();
        host.extend(access(point, true));
        flow(&name);
        hosts.insert(name, host.into());
    }
    if let Some(rival) = &point.competes {
        let mut host = buffers.clone();
        host.extend(access(point, false));
        host.insert("algorithm".into(), rival.as_str().into());
        flow(RIVAL);
        hosts.insert(RIVAL.into(), host.into());
    }
    hosts.insert(SERVER.into(), buffers.into());
    tree.extend(table([("hosts", hosts.into()), ("flows", flows.into())]));
    Ok(tree)
}

fn table<const N: usize>(keys: [(&str, Value); N]) -> Table {
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn path(point: &Point) -> Result<Table> {
    let mut up = table([("rate_mbit", point.rate_mbit.into())]);
    if let Some(packets) = point.queue_packets {
        up.insert("queue_packets".into(), i64::from(packets).into());
    }
    if let Some(discipline) = &point.discipline {
        up.insert("discipline".into(), Value::try_from(discipline)?);
    }
    if let Loss::Policer { mbit, burst_bytes } = point.loss {
        up.insert("police_mbit".into(), mbit.into());
        up.insert("police_burst_bytes".into(), (burst_bytes as i64).into());
    }
    Ok(table([("rtt_ms", point.rtt_ms.into()), ("up", up.into())]))
}

/// Between a host and the bottleneck.
fn access(point: &Point, suffers: bool) -> Table {
    match point.loss {
        Loss::Random { share } if suffers => {
            let up = table([("loss", share.into())]);
            table([("link", table([("up", up.into())]).into())])
        }
        Loss::WeakMoments { every_ms, lasts_ms, errors } => {
            let (_, mcs) = MCS.iter().find(|(most, _)| point.rate_mbit <= *most).unwrap_or(&MCS[3]);
            let mut station =
                table([("mcs", (*mcs).into()), ("queue_packets", STATION_QUEUE.into())]);
            if suffers {
                let fading = table([
                    ("every_ms", every_ms.into()),
                    ("lasts_ms", lasts_ms.into()),
                    ("errors_up", errors.into()),
                    ("errors_down", errors.into()),
                ]);
                station.insert("fading".into(), fading.into());
            }
            table([("station", station.into())])
        }
        _ => Table::new(),
    }
}

/// What makes a host send with the algorithm.
fn treatment(algorithm: &Algorithm) -> Table {
    let name = algorithm.algorithm.as_str();
    let mut host = Table::new();
    if name == STEADY {
        host.insert("policy".into(), policy(algorithm).into());
    } else {
        host.insert("algorithm".into(), name.into());
    }
    if !algorithm.sysctl.is_empty() {
        let all = algorithm.sysctl.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
        host.insert("sysctl".into(), Value::Table(all.collect()));
    }
    host
}

/// The policy of a host with `steady`.
pub(super) fn policy(algorithm: &Algorithm) -> Table {
    let mut action = algorithm.action.clone();
    action.insert("algorithm".into(), algorithm.algorithm.as_str().into());
    let every = table([("rtt", "0ms..".into())]);
    let rule = table([("match", every.into()), ("action", action.into())]);
    let guard = algorithm.guard.clone().unwrap_or_else(|| table([("on", false.into())]));
    table([("guard", guard.into()), ("rule", Value::Array(vec![rule.into()]))])
}

fn buffer(point: &Point) -> i64 {
    let product = point.capacity_mbit() * 1e3 / 8.0 * point.rtt_ms;
    let queue = f64::from(point.queue_packets.unwrap_or(1000)) * 1500.0;
    (BUFFERS * (product + queue)).clamp(BUFFER_BYTES.0, BUFFER_BYTES.1) as i64
}

/// One run of it. Flows send until it ends, and what is under way then has not arrived.
///
/// # Errors
/// As [`experiment`], and what of it cannot be simulated.
pub fn scenario(point: &Point, algorithm: &Algorithm, seed: u64) -> Result<Scenario> {
    let loaded = experiment(point, algorithm)?;
    let mut scenario = simulated::scenario("grid", &loaded.experiment, seed)
        .with_context(|| format!("point {}", point.number))?;
    scenario.most_seconds = point.seconds + STARTS_S;
    for (name, flow) in &mut scenario.flows {
        let lasts = scenario.most_seconds + STARTS_S;
        flow.traffic = match (&point.traffic, name == RIVAL) {
            (Sends::Short { bytes, think_s }, false) => {
                // A request begins a connection: what iperf exchanges before it has no place.
                (flow.greeting, flow.send_timeout_s) = (None, None);
                let (request, think_s) = (*bytes, *think_s);
                Traffic::Requests { request, response: ANSWER, think_s, count: ENDLESS }
            }
            (Sends::OnOff { on_s, off_s }, false) => {
                Traffic::OnOff { on_s: *on_s, off_s: *off_s, seconds: lasts }
            }
            _ => Traffic::Bulk { seconds: Some(lasts), bytes: None },
        };
    }
    scenario.check().context("the scenario made of it")?;
    Ok(scenario)
}

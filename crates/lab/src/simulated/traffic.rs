//! What iperf does in a real run, as a flow of a scenario.

use transom_scenario::{Flow, Greeting, Protocol, Socket, Traffic};

use super::policy;
use crate::experiment::{self, Experiment, Over, Tool};
use crate::{flows, hosts};

/// Bytes of iperf's datagrams, if the flow names none: a full Ethernet frame with IPv4 and room
/// for options (iperf 2), or what a TCP segment with timestamps carries (iperf3).
const DATAGRAMS: [(Tool, u32); 2] = [(Tool::Iperf, 1470), (Tool::Iperf3, 1448)];
/// What iperf sends of UDP, if it is not told: 1 Mbit/s.
const UDP_MBIT: f64 = 1.0;
/// iperf 2 waits in a write for half of its interval of reports (`-i 1`), also when its time is over.
const PATIENCE_S: f64 = 0.5;
/// What iperf 2.1 exchanges before its data: the client's settings, and the server's version.
const GREETING: Greeting = Greeting { bytes: 60, answer: 28 };
/// Writes that follow one another faster are one: a list of small ones would fill the memory.
const CLOSEST_S: f64 = 1e-3;

pub(super) fn flow(
    experiment: &Experiment,
    flow: &experiment::Flow,
    port: u16,
) -> Result<Flow, String> {
    let chosen = algorithm(experiment, flow, port)?;
    let buffers =
        Socket { send_buffer: flow.buffer, receive_buffer: flow.buffer, ..Socket::default() };
    let is_udp = flow.protocol == experiment::Protocol::Udp;
    let is_iperf_2 = !is_udp && flow.tool == Tool::Iperf;
    Ok(Flow {
        from: flow.from.clone(),
        to: flow.to.clone(),
        port,
        protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
        reverse: flow.reverse,
        over_cellular: flow.over == Over::Cellular,
        start_s: flow.start_s,
        connections: flow.connections.unwrap_or(1),
        traffic: traffic(experiment, flow),
        sender: Socket { congestion: (!is_udp).then_some(chosen), ..buffers.clone() },
        receiver: buffers,
        write_bytes: flow.write.filter(|_| !is_udp),
        greeting: is_iperf_2.then_some(GREETING),
        send_timeout_s: is_iperf_2.then_some(PATIENCE_S),
        ..Flow::default()
    })
}

/// Congestion control of a flow.
///
/// # Errors
/// If that is not settled before it starts.
pub(super) fn algorithm(
    experiment: &Experiment,
    flow: &experiment::Flow,
    port: u16,
) -> Result<String, String> {
    let given = policy::treatment(experiment, flow, port)?.algorithm;
    let own = || hosts::algorithm(experiment, &flow.from).to_owned();
    Ok(given.or_else(|| flow.algorithm.clone()).unwrap_or_else(own))
}

fn traffic(experiment: &Experiment, flow: &experiment::Flow) -> Traffic {
    let seconds = flows::duration(experiment, flow);
    // iperf3 takes whole seconds only.
    let seconds = if flow.tool == Tool::Iperf3 { seconds.ceil() } else { seconds };
    let size =
        DATAGRAMS.iter().find(|(tool, _)| *tool == flow.tool).map_or(1470, |(_, size)| *size);
    match (flow.protocol, flow.rate_mbit) {
        (experiment::Protocol::Udp, rate) => Traffic::Constant {
            mbit: rate.unwrap_or(UDP_MBIT),
            datagram: flow.write.unwrap_or(size),
            seconds,
        },
        (experiment::Protocol::Tcp, None) => Traffic::Bulk { seconds: Some(seconds), bytes: None },
        (experiment::Protocol::Tcp, Some(mbit)) => Traffic::Writes {
            writes: paced(mbit, flow.writes().unwrap_or(experiment::WRITE), seconds),
        },
    }
}

/// Writes of one size at a rate (iperf `-b`), for so many seconds; small ones together.
fn paced(mbit: f64, bytes: u32, seconds: f64) -> Vec<(f64, u64)> {
    let bytes_a_second = mbit * 1e6 / 8.0;
    let whole = (seconds * bytes_a_second / f64::from(bytes)).ceil().max(1.0) as u64;
    let together = (CLOSEST_S * bytes_a_second / f64::from(bytes)).floor().max(1.0) as u64;
    let write = |n: u64| {
        let before = n * together;
        let at = (before * u64::from(bytes)) as f64 / bytes_a_second;
        (at, (whole - before).min(together) * u64::from(bytes))
    };
    (0..whole.div_ceil(together)).map(write).collect()
}

//! A model with another setting as something that can be simulated.

use std::collections::BTreeMap;
use std::net::IpAddr;

use transom_emulator::plan::{
    self, Direction, LONGEST_MS, Plan, Port, RATES_MBIT, SMALLEST_BURST, Side,
};
use transom_scenario::{
    Flow, Host, LEAST_IPV6_MTU, MOST_SECONDS, MTUS, Route, Scenario, Socket, Traffic,
};

use crate::change::{Change, Steady};
use crate::model::{Model, Program};

/// Of the hosts, the recorded flow, and the one that competes with it.
pub const SENDER: &str = "sender";
pub const RECEIVER: &str = "receiver";
const OTHER: &str = "other";
const FIRST: &str = "first";
pub const FLOW: &str = "flow";
pub const COMPETITOR: &str = "competitor";

/// Bytes of an Ethernet header, which a device sends, too.
const ETHERNET: f64 = 14.0;
/// Every link carries so much in one piece, IPv4 and IPv6, bytes; smaller packets are the doing of a
/// small MSS.
const LEAST_MTUS: [u32; 2] = [576, LEAST_IPV6_MTU];
/// Headers of IPv4 and IPv6, with that of TCP, and the smallest TCP_MAXSEG, bytes.
const HEADERS: [u32; 2] = [40, 60];
const LEAST_MSS: u32 = 88;
/// What is lost more often never arrives.
const MOST_LOSS: f64 = 0.9;
/// A transfer that ends by itself gets so many times the time that it took, and so many s.
const PATIENCE: (f64, f64) = (8.0, 30.0);
/// How long the acknowledgement of the last of several writes is waited for, round trips.
const LATER_RTTS: f64 = 9.0;
/// The first meeting of both ends is over after so many s and round trips.
const FIRST_MEETING_S: f64 = 0.5;
const FIRST_MEETING_RTTS: f64 = 6.0;
/// How long a competing flow lasts at least, s.
const COMPETES_S: f64 = 10.0;

/// What is simulated of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// The recorded flow alone.
    Alone,
    /// Beside a CUBIC flow that sends all it can; the recorded one does so, too.
    Competing,
}

pub fn scenario(model: &Model, change: &Change, scene: Scene, seed: u64) -> Scenario {
    let model = &change.lifted(model);
    let mut hosts = BTreeMap::new();
    let mut ports = Vec::new();
    let mut add = |name: &str, number: u8, side: Side, host: Host| {
        let address = match model.ipv6 {
            true => IpAddr::from([0xfd00, 0x77, 0, 0, 0, 0, 0, u16::from(number)]),
            false => IpAddr::from([10, 77, 0, number]),
        };
        hosts.insert(name.to_owned(), Host { addresses: vec![address], mtu: mtu(model), ..host });
        ports.push(Port { name: name.to_owned(), mac: [2, 0, 0, 0, 0, number], side });
    };
    add(SENDER, 1, Side::Near, sender(model, change));
    add(RECEIVER, 2, Side::Far, Host { gro: model.receiver.gro, ..Host::default() });
    let seconds = most_seconds(model, scene);
    let mut flows = BTreeMap::new();
    let start_s = match change.cap.or(model.sender.cap) {
        None => 0.0,
        Some(_) => {
            flows.insert(FIRST.to_owned(), first_meeting(model));
            FIRST_MEETING_S + FIRST_MEETING_RTTS * rtt_s(model)
        }
    };
    let flow = Flow { start_s, traffic: traffic(model, scene), ..flow(model, change) };
    flows.insert(FLOW.to_owned(), flow);
    if scene == Scene::Competing {
        add(OTHER, 3, Side::Near, Host { gso_max_segs: 1, ..Host::default() });
        let congestion = Some("cubic".to_owned());
        let competitor = Flow {
            from: OTHER.to_owned(),
            to: RECEIVER.to_owned(),
            port: 5202,
            ipv6: model.ipv6,
            start_s,
            traffic: Traffic::Bulk { seconds: Some(seconds), bytes: None },
            sender: Socket { congestion, ..Socket::default() },
            ..Flow::default()
        };
        flows.insert(COMPETITOR.to_owned(), competitor);
    }
    Scenario {
        seed,
        most_seconds: (start_s + seconds).min(MOST_SECONDS),
        wall_ns: 0,
        record: true,
        links: Plan { seed, path: path(model), ports, ..Plan::default() },
        hosts,
        flows,
    }
}

/// A connection of one byte. The kernel clamps cwnd by a route's metric only where it remembers the
/// destination from an earlier connection.
fn first_meeting(model: &Model) -> Flow {
    Flow {
        from: SENDER.to_owned(),
        to: RECEIVER.to_owned(),
        port: 5203,
        ipv6: model.ipv6,
        traffic: Traffic::Bulk { seconds: None, bytes: Some(1) },
        ..Flow::default()
    }
}

/// How long a simulation lasts from the recorded flow's start on, s.
pub fn most_seconds(model: &Model, scene: Scene) -> f64 {
    match (scene, &model.program) {
        (Scene::Competing, _) => model.seconds.clamp(COMPETES_S, 3.0 * COMPETES_S),
        // A recording begins when the handshake ends.
        (_, Program::Endless) => model.seconds.max(0.01) + rtt_s(model),
        // The last write may be acknowledged later than in the recording.
        (_, Program::Writes { .. }) => model.seconds + LATER_RTTS * rtt_s(model),
        _ => (model.seconds * PATIENCE.0).max(PATIENCE.1),
    }
}

// What a trace leaves open may lie where nothing can be simulated: the nearest that can be stands
// for it.

fn mbit(rate: f64) -> f64 {
    (rate * 8e-6).clamp(*RATES_MBIT.start(), *RATES_MBIT.end())
}

fn rtt_s(model: &Model) -> f64 {
    model.path.rtt_s.value.clamp(0.0, LONGEST_MS / 1e3)
}

fn mtu(model: &Model) -> u32 {
    (model.packet as u32).clamp(LEAST_MTUS[usize::from(model.ipv6)], *MTUS.end())
}

/// Where packets are smaller than any link makes them.
fn small_mss(model: &Model) -> Option<u32> {
    let packet = model.packet as u32;
    let mss = packet.saturating_sub(HEADERS[usize::from(model.ipv6)]).max(LEAST_MSS);
    (packet < mtu(model)).then_some(mss)
}

fn path(model: &Model) -> plan::Path {
    let path = &model.path;
    // Losses in rows need arrivals between the rows.
    let most = path.loss_burst.map_or(MOST_LOSS, |burst| MOST_LOSS * burst / (1.0 + burst));
    let mut up = Direction {
        loss: path.loss.value.clamp(0.0, most),
        loss_burst: path.loss_burst,
        rate_mbit: Some(mbit(path.rate.value)),
        queue_packets: Some(path.queue.value.round().max(1.0) as u32),
        ..Direction::default()
    };
    if let Some(policer) = &path.policer {
        (up.rate_mbit, up.queue_packets) = (None, None);
        up.police_mbit = Some(mbit(policer.rate.value));
        let burst = policer.burst.value.round() as u64;
        up.police_burst_bytes = Some(burst.max(SMALLEST_BURST).max(mtu(model).into()));
    }
    let down =
        Direction { loss: path.ack_loss.value.clamp(0.0, MOST_LOSS), ..Direction::default() };
    plan::Path { rtt_ms: rtt_s(model) * 1e3, up, down }
}

fn sender(model: &Model, change: &Change) -> Host {
    let sender = &model.sender;
    let device = sender.device.as_ref().map(|device| device.value);
    let mut sysctl = change.sysctl.clone();
    sysctl.extend(change.steady.into_iter().flat_map(Steady::sysctls));
    Host {
        device_mbit: device.map(|rate| mbit(rate) * (model.packet + ETHERNET) / model.packet),
        gso_max_segs: sender.gso_segments,
        sysctl,
        route: Route {
            initcwnd: change.initial_window.or(sender.initial_window),
            cwnd: change.cap.or(sender.cap),
            ..Route::default()
        },
        ..Host::default()
    }
}

fn flow(model: &Model, change: &Change) -> Flow {
    let (sender, receiver) = (&model.sender, &model.receiver);
    let congestion = change.algorithm.clone().unwrap_or_else(|| sender.algorithm.clone());
    Flow {
        from: SENDER.to_owned(),
        to: RECEIVER.to_owned(),
        ipv6: model.ipv6,
        sender: Socket {
            congestion: Some(congestion).filter(|name| !name.is_empty()),
            send_buffer: sender.send_buffer,
            max_pacing_rate: sender.pacing,
            mss: small_mss(model),
            ..Socket::default()
        },
        receiver: Socket {
            // The kernel leaves the clamp alone only where the program has set the buffer.
            receive_buffer: receiver.window.as_ref().map(|window| {
                // It offers whole segments: with half of one more it does not miss the last.
                (window.value + model.packet / 2.0) as u32
            }),
            window_clamp: receiver.window.as_ref().map(|window| window.value as u32),
            ..Socket::default()
        },
        read_mbit: receiver.reads.as_ref().map(|reads| mbit(reads.value)),
        ..Flow::default()
    }
}

fn traffic(model: &Model, scene: Scene) -> Traffic {
    match (scene, &model.program) {
        (Scene::Competing, _) | (_, Program::Endless) => {
            Traffic::Bulk { seconds: Some(most_seconds(model, scene)), bytes: None }
        }
        (_, Program::Bytes { bytes }) => Traffic::Bulk { seconds: None, bytes: Some(*bytes) },
        // A flow's time counts from its connect(), that of a recording from the handshake's end.
        (_, Program::Writes { writes }) => Traffic::Writes {
            writes: writes.iter().map(|(at_s, bytes)| (at_s + rtt_s(model), *bytes)).collect(),
        },
        (_, Program::Requests { request, response, think_s, count }) => Traffic::Requests {
            request: *request,
            response: *response,
            think_s: think_s.max(0.0),
            count: *count,
        },
    }
}

//! The cases on which two kernels, or two settings, are compared: what RFC 9743 asks of a congestion
//! control algorithm, and what a change of TCP's loss recovery shows in.

use std::net::IpAddr;

use transom_emulator::Stream;
use transom_emulator::plan::{Discipline, Kind, Path, Port, Side};
use transom_scenario::{Flow, Host, Scenario, Traffic};

use super::measures::Measure;

/// One situation.
pub struct Case {
    pub name: &'static str,
    /// What it shows, one line.
    pub about: &'static str,
    pub scenario: fn(u64) -> Scenario,
    pub measures: &'static [Measure],
}

const PACKET: f64 = 1500.0;

/// How far a seed's round trip is from the case's, at most.
const VARIED: f64 = 0.1;

/// Hosts send to `r` over one path. Round trip and starts vary with the seed: two flows in step, or a
/// window that just fits, would make a difference out of nothing.
struct Net(Scenario, Stream);

impl Net {
    /// The queue in bandwidth-delay products.
    fn new(seed: u64, mbit: f64, rtt_ms: f64, queue: f64) -> Net {
        let mut scenario =
            Scenario { seed, most_seconds: 120.0, record: true, ..Scenario::default() };
        let path = &mut scenario.links.path;
        let mut chance = Stream::new(seed, "suite");
        path.rtt_ms = rtt_ms * (1.0 + VARIED * (2.0 * chance.uniform() - 1.0));
        path.up.rate_mbit = Some(mbit);
        let product = mbit * 1e6 * rtt_ms * 1e-3 / 8.0 / PACKET;
        path.up.queue_packets = Some((product * queue).ceil().max(4.0) as u32);
        let mut net = Net(scenario, chance);
        net.host("r", Side::Far);
        net
    }

    fn host(&mut self, name: &str, side: Side) {
        let number = self.0.hosts.len() as u8 + 1;
        let addresses: Vec<IpAddr> = vec![[10, 77, 0, number].into()];
        self.0.hosts.insert(name.to_owned(), Host { addresses, ..Host::default() });
        let mac = [2, b't', b'x', 0, 0, number];
        self.0.links.ports.push(Port { name: name.to_owned(), mac, side });
    }

    /// A flow from a host of its own, which has its name; it begins up to one round trip later.
    fn flow(mut self, name: &str, start_s: f64, traffic: Traffic) -> Net {
        self.host(name, Side::Near);
        let port = 5000 + self.0.hosts.len() as u16;
        let (from, to) = (name.to_owned(), "r".to_owned());
        let start_s = start_s + self.1.uniform() * self.0.links.path.rtt_ms * 1e-3;
        let flow = Flow { from, to, port, start_s, traffic, ..Flow::default() };
        self.0.flows.insert(name.to_owned(), flow);
        self
    }

    /// The same with a link of its own that adds to the round trip.
    fn far_flow(self, name: &str, more_rtt_ms: f64, traffic: Traffic) -> Net {
        let mut net = self.flow(name, 0.0, traffic);
        let link = Path { rtt_ms: more_rtt_ms, ..Path::default() };
        net.0.links.access_links.insert(name.to_owned(), link);
        net
    }

    fn congestion(mut self, flow: &str, algorithm: &str) -> Net {
        if let Some(flow) = self.0.flows.get_mut(flow) {
            flow.sender.congestion = Some(algorithm.to_owned());
        }
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Path)) -> Net {
        change(&mut self.0.links.path);
        self
    }

    /// FQ-CoDel in front of the bottleneck, which marks, and hosts that use ECN.
    fn fq_codel(mut self) -> Net {
        self.0.links.path.up.discipline = Some(Discipline::of(Kind::FqCodel));
        for host in self.0.hosts.values_mut() {
            host.sysctl.insert("ipv4.tcp_ecn".to_owned(), "1".to_owned());
        }
        self
    }
}

fn bulk(seconds: f64) -> Traffic {
    Traffic::Bulk { seconds: Some(seconds), bytes: None }
}

fn requests(response: u64, think_s: f64, count: u64) -> Traffic {
    Traffic::Requests { request: 200, response, think_s, count }
}

/// Small writes all the time, a larger one each second.
fn frames(seconds: u32) -> Traffic {
    let small = (0..seconds * 20).map(|n| (f64::from(n) * 0.05, 3_000));
    let large = (0..seconds).map(|n| (f64::from(n), 100_000));
    let mut writes: Vec<(f64, u64)> = small.chain(large).collect();
    writes.sort_by(|a, b| a.0.total_cmp(&b.0));
    Traffic::Writes { writes }
}

/// Of one bulk flow.
const ONE: &[Measure] = &[
    Measure::Goodput("f"),
    Measure::Retransmitted("f"),
    Measure::Rtt95("f"),
    Measure::QueueDelay95,
];
const BULK_OF_LOSS: &[Measure] =
    &[Measure::Goodput("f"), Measure::Retransmitted("f"), Measure::Timeouts("f")];
const SHORT: &[Measure] =
    &[Measure::Completion50("f"), Measure::Completion95("f"), Measure::Timeouts("f")];
const TWO: &[Measure] = &[Measure::Share("f"), Measure::Jain, Measure::Sum, Measure::QueueDelay95];

/// In the order in which they are shown.
pub const CASES: &[Case] = &[
    Case {
        name: "bulk",
        about: "one flow, 50 Mbit/s, 40 ms, queue of one bandwidth-delay product (BDP)",
        scenario: |seed| Net::new(seed, 50.0, 40.0, 1.0).flow("f", 0.0, bulk(20.0)).0,
        measures: ONE,
    },
    Case {
        name: "shallow",
        about: "the same with a queue of a tenth of a BDP",
        scenario: |seed| Net::new(seed, 50.0, 40.0, 0.1).flow("f", 0.0, bulk(20.0)).0,
        measures: ONE,
    },
    Case {
        name: "bufferbloat",
        about: "10 Mbit/s, 40 ms, queue of eight BDP (RFC 9743, 5.1.2)",
        scenario: |seed| Net::new(seed, 10.0, 40.0, 8.0).flow("f", 0.0, bulk(30.0)).0,
        measures: ONE,
    },
    Case {
        name: "long-fat",
        about: "200 Mbit/s, 150 ms, queue of one BDP: does the window grow fast enough",
        scenario: |seed| Net::new(seed, 200.0, 150.0, 1.0).flow("f", 0.0, bulk(20.0)).0,
        measures: ONE,
    },
    Case {
        name: "loss-0.1",
        about: "20 Mbit/s, 50 ms, 0.1 % random loss (RFC 9743, 5.1.3)",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 50.0, 1.0).flow("f", 0.0, bulk(30.0));
            net.with(|path| path.up.loss = 0.001).0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "loss-3",
        about: "10 Mbit/s, 30 ms, 3 % random loss",
        scenario: |seed| {
            let net = Net::new(seed, 10.0, 30.0, 1.0).flow("f", 0.0, bulk(30.0));
            net.with(|path| path.up.loss = 0.03).0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "burst-loss",
        about: "20 Mbit/s, 50 ms, 1 % loss in bursts of 8 packets",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 50.0, 1.0).flow("f", 0.0, bulk(30.0));
            net.with(|path| (path.up.loss, path.up.loss_burst) = (0.01, Some(8.0))).0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "ack-loss",
        about: "20 Mbit/s, 50 ms, 10 % of the ACKs lost",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 50.0, 1.0).flow("f", 0.0, bulk(30.0));
            net.with(|path| path.down.loss = 0.1).0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "reordering",
        about: "20 Mbit/s, 40 ms, 2 % of the packets held back by 10 ms",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 40.0, 1.0).flow("f", 0.0, bulk(20.0));
            net.with(|path| (path.up.reorder, path.up.reorder_ms) = (0.02, 10.0)).0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "policer",
        about: "a policer of 10 Mbit/s with a burst of 50 kB, 40 ms",
        scenario: |seed| {
            let net = Net::new(seed, 100.0, 40.0, 1.0).flow("f", 0.0, bulk(20.0));
            let burst = Some(50_000);
            net.with(|path| {
                (path.up.police_mbit, path.up.police_burst_bytes) = (Some(10.0), burst);
            })
            .0
        },
        measures: BULK_OF_LOSS,
    },
    Case {
        name: "short-flows",
        about: "100 requests for 30 kB, 20 Mbit/s, 60 ms (RFC 9743, 5.1.5)",
        scenario: |seed| {
            Net::new(seed, 20.0, 60.0, 1.0).flow("f", 0.0, requests(30_000, 0.2, 100)).0
        },
        measures: SHORT,
    },
    Case {
        name: "short-loss",
        about: "the same with 2 % of the packets lost each way: tail losses",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 60.0, 1.0).flow("f", 0.0, requests(30_000, 0.2, 200));
            net.with(|path| (path.up.loss, path.down.loss) = (0.02, 0.02)).0
        },
        measures: SHORT,
    },
    Case {
        name: "short-beside-bulk",
        about: "uploads of 100 kB beside a bulk flow in one queue of two BDP, 20 Mbit/s, 40 ms",
        scenario: |seed| {
            let uploads =
                Traffic::Requests { request: 100_000, response: 1, think_s: 0.5, count: 25 };
            let net = Net::new(seed, 20.0, 40.0, 2.0);
            net.flow("bulk", 0.0, bulk(40.0)).flow("f", 5.0, uploads).0
        },
        measures: &[
            Measure::Completion50("f"),
            Measure::Completion95("f"),
            Measure::Goodput("bulk"),
        ],
    },
    Case {
        name: "app-limited",
        about: "a program that writes 60 kB/s evenly and 100 kB each second, 20 Mbit/s, 80 ms",
        scenario: |seed| Net::new(seed, 20.0, 80.0, 1.0).flow("f", 0.0, frames(20)).0,
        measures: &[Measure::Goodput("f"), Measure::Retransmitted("f"), Measure::QueueDelay95],
    },
    Case {
        name: "rtt-fairness",
        about: "two flows, RTT 20 and 100 ms, one queue (RFC 9743, 5.1.4)",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 20.0, 2.0).flow("f", 0.0, bulk(60.0));
            net.far_flow("far", 80.0, bulk(60.0)).0
        },
        measures: TWO,
    },
    Case {
        name: "latecomer",
        about: "two equal flows, the second begins 10 s later, 20 Mbit/s, 40 ms",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 40.0, 1.0).flow("f", 10.0, bulk(50.0));
            net.flow("first", 0.0, bulk(60.0)).0
        },
        measures: TWO,
    },
    Case {
        name: "beside-cubic",
        about: "beside a flow of CUBIC (RFC 9743, 5.2), 20 Mbit/s, 40 ms, one BDP",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 40.0, 1.0).flow("f", 0.0, bulk(60.0));
            net.flow("other", 0.0, bulk(60.0)).congestion("other", "cubic").0
        },
        measures: TWO,
    },
    Case {
        name: "beside-bbr",
        about: "beside a flow of BBR, 20 Mbit/s, 40 ms, one BDP",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 40.0, 1.0).flow("f", 0.0, bulk(60.0));
            net.flow("other", 0.0, bulk(60.0)).congestion("other", "bbr").0
        },
        measures: TWO,
    },
    Case {
        name: "codel-ecn",
        about: "FQ-CoDel with ECN, two flows, 20 Mbit/s, 40 ms",
        scenario: |seed| {
            let net = Net::new(seed, 20.0, 40.0, 1.0).flow("f", 0.0, bulk(30.0));
            net.flow("other", 0.0, bulk(30.0)).fq_codel().0
        },
        measures: TWO,
    },
    Case {
        name: "incast",
        about: "12 hosts send 64 kB at once into a queue of 32 packets, 100 Mbit/s, 1 ms",
        scenario: |seed| {
            let net = Net::new(seed, 100.0, 1.0, 1.0);
            let one = Traffic::Bulk { seconds: None, bytes: Some(64 << 10) };
            let all = (0..12).fold(net, |net, n| net.flow(&format!("f{n}"), 0.0, one.clone()));
            all.with(|path| path.up.queue_packets = Some(32)).0
        },
        measures: &[Measure::Last, Measure::Jain],
    },
];

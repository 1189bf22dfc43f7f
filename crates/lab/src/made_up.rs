//! A folder of results that was never run, for tests: one sender whose window goes up and down.

use std::fs;
use std::path::Path;

use transom_event::{Body, CaState, Event, Kind, Open, Place, Raw, State, TcpState};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

use crate::experiment::parse;
use crate::sweep::points;

pub const EXPERIMENT: &str = r#"
title = "A made-up <experiment>"
source = "a test"
question = "Is all of it on the page?"
duration_s = 4
repeats = 2
differs = ["It was never run."]

[hosts.a]
[hosts.b]
[flows.up]
from = "a"
to = "b"
[sweep]
path.rtt_ms = [0, 64]
[quick]
sweep.path.rtt_ms = [64]

[[published]]
name = "the paper"
pick = { metric = "goodput_mbit", flow = "up" }
along = "path.rtt_ms"
at = [0, 64]
values = [7, 5]

[[figures]]
title = "By RTT"
kind = "sweep"
along = "path.rtt_ms"
unit = "Mbit/s"
curves = [{ name = "ours", pick = { metric = "goodput_mbit", flow = "up" } }]
[[figures]]
title = "Window"
kind = "time"
quantity = "cwnd"
where = { path.rtt_ms = 64 }
greatest = { metric = "goodput_mbit", flow = "up" }
[[figures]]
title = "Throughput"
kind = "time"
quantity = "throughput"
[[figures]]
title = "Bars"
kind = "bars"
unit = "Mbit/s"
curves = [{ name = "all", pick = { metric = "sum_mbit" } }]

[[claims]]
text = "It is above one"
test = "value"
of = { metric = "goodput_mbit", flow = "up" }
over_all = true
at_least = 1
[[claims]]
text = "It is above thirty"
test = "value"
of = { metric = "goodput_mbit", flow = "up" }
over_all = true
at_least = 30
published = 31
[[claims]]
text = "It is between nine and ten"
test = "value"
of = { metric = "goodput_mbit", flow = "up", where = { path.rtt_ms = 0 } }
at_least = 9
at_most = 10
[[claims]]
text = "It is the rate that was put in"
test = "value"
of = { metric = "goodput_mbit", flow = "up", where = { path.rtt_ms = 0 } }
at_least = 1
calibrated = "the rate was chosen to give it"
[[claims]]
text = "At RTT 0 it is above one"
test = "value"
of = { metric = "goodput_mbit", flow = "up", where = { path.rtt_ms = 0 } }
at_least = 1
fails_under = ["a path that carries next to nothing"]
[[controls]]
name = "a path that carries next to nothing"
set = { path.up.rate_mbit = 0.05 }
"#;

pub const MSS: u32 = 1000;
const PORT: u16 = 5001;
const MS: u64 = 1_000_000;

fn event(time_ns: u64, kind: Kind, aux: [u32; 2], body: Body) -> Event {
    Event { time_ns, cookie: 7, tgid: 1, cpu: 0, kind, place: Place::RcvEstablished, aux, body }
}

fn state(cwnd: u32, acked: u32, ca: CaState) -> Body {
    Body::State(State {
        cwnd,
        ssthresh: i32::MAX as u32,
        snd_una: acked,
        snd_nxt: acked + cwnd * MSS,
        packets_out: cwnd,
        srtt_us: 20_000,
        mss: MSS as u16,
        ca_state: ca as u8,
        tcp_state: TcpState::Established as u8,
        ..State::default()
    })
}

/// An ACK each 10 ms: the window grows by one each time from 10 to 40 segments, a segment is lost
/// and it goes on from 20. Four falls in all.
pub fn events() -> Vec<Event> {
    let mut open = Open { remote_port: PORT, family: 2, ..Open::default() };
    open.local_addr[..4].copy_from_slice(&[10, 77, 0, 1]);
    open.remote_addr[..4].copy_from_slice(&[10, 77, 0, 2]);
    let mut events = vec![event(MS, Kind::Open, [0, 0], Body::Open(open))];
    let (mut cwnd, mut acked, mut now) = (10, 0, 2 * MS);
    for _ in 0..4 {
        while cwnd < 40 {
            events.push(event(now, Kind::Ack, [MSS * cwnd, 0], state(cwnd, acked, CaState::Open)));
            acked += MSS * cwnd;
            cwnd += 1;
            now += 10 * MS;
        }
        let recovery = state(cwnd, acked, CaState::Recovery);
        let entered = [CaState::Open as u32, CaState::Recovery as u32];
        events.push(event(now, Kind::CaState, entered, recovery));
        events.push(event(now, Kind::Retransmit, [1 << 8, 0], recovery));
        now += 10 * MS;
        cwnd = 20;
        let left = [CaState::Recovery as u32, CaState::Open as u32];
        events.push(event(now, Kind::CaState, left, state(cwnd, acked, CaState::Open)));
        now += MS;
    }
    events.push(event(now, Kind::Close, [0, 0], state(cwnd, acked, CaState::Open)));
    events
}

/// A run's folder without its measurement.
pub fn run(folder: &Path, mbit: f64) {
    fs::create_dir_all(folder).unwrap();
    let trace = folder.join("trace-a.parquet");
    let mut writer = Writer::create(&trace, &Meta::default(), WriterOptions::default()).unwrap();
    let events = events();
    events.iter().for_each(|event| writer.push(&Raw::from(event)).unwrap());
    let end_ns = events.last().unwrap().time_ns;
    writer.finish(Footer { end_ns, ..Footer::default() }).unwrap();
    let flows = r#"{"up": {"port": 5001, "from": "a", "to": "b", "from_addr": "10.77.0.1",
        "to_addr": "10.77.0.2"}}"#;
    fs::write(folder.join("flows.json"), flows).unwrap();
    let iperf = format!("[  1] 0.0000-4.0000 sec  100 KBytes  {mbit} Mbits/sec\n");
    fs::write(folder.join("iperf-up.server.txt"), iperf).unwrap();
    let log = transom_emulator::log::Log::default();
    fs::write(folder.join("emulator.json"), serde_json::to_vec(&log).unwrap()).unwrap();
}

/// A whole folder: each point and repeat has a goodput of its own, the control what its path lets
/// through.
pub fn results(folder: &Path, quick: bool) {
    let loaded = parse("made-up.toml".as_ref(), EXPERIMENT.to_owned()).unwrap();
    fs::write(folder.join("experiment.toml"), EXPERIMENT).unwrap();
    let manifest = r#"{"experiment": "made-up", "machine": {"kernel": "Linux 6.18"},
        "started": "2026-11-22T10:00:00Z", "quick": QUICK,
        "programs": [{"name": "transom", "version": "0.1.0"}, {"name": "iperf", "version": "2.1"}]}"#;
    let manifest = manifest.replace("QUICK", &quick.to_string());
    fs::write(folder.join("manifest.json"), manifest).unwrap();
    for (n, point) in points(&loaded, quick).iter().enumerate() {
        for repeat in 1..=point.experiment.repeats {
            let run = folder.join(point.folder()).join(repeat.to_string());
            let free = 8.0 - 3.0 * n as f64 + f64::from(repeat);
            self::run(&run, point.experiment.path.up.rate_mbit.unwrap_or(free));
            let mut measured = crate::measure::measure(&run, &point.experiment).unwrap();
            measured.point = point.values.clone();
            measured.repeat = repeat;
            measured.seed = point.seed(repeat);
            let text = serde_json::to_vec(&measured).unwrap();
            fs::write(run.join("measured.json"), text).unwrap();
        }
    }
}

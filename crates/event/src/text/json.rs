//! One JSON object an event; every number under its name.

use serde_json::{Map, Value, json as obj};

use super::Utc;
use crate::fields::{self, fields};
use crate::{Body, CaState, Event, Open, State, TcpState};

/// What an event itself does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The connection, as its last `open`, `owner` or `algorithm` event had it.
    pub connection: Option<&'a Open>,
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME, ns; without it there is no wall time.
    pub realtime_offset_ns: Option<i64>,
}

fn named<T: std::fmt::Display>(known: Option<T>, number: u32) -> Value {
    known.map_or_else(|| Value::from(number), |name| Value::from(name.to_string()))
}

fn put(map: &mut Map<String, Value>, fields: Value) {
    if let Value::Object(fields) = fields {
        map.extend(fields);
    }
}

fn state(s: &State) -> Value {
    obj!({
        "cwnd": s.cwnd, "ssthresh": s.ssthresh_set(), "clamp": s.clamp_set(),
        "snd_una": s.snd_una, "snd_nxt": s.snd_nxt, "rcv_nxt": s.rcv_nxt,
        "snd_wnd": s.snd_wnd, "rcv_wnd": s.rcv_wnd,
        "packets_out": s.packets_out, "sacked_out": s.sacked_out,
        "lost_out": s.lost_out, "retrans_out": s.retrans_out,
        "rto_us": s.rto_us, "srtt_us": s.srtt_us, "mdev_us": s.mdev(),
        "min_rtt_us": s.min_rtt(),
        "send_queue": s.send_queue, "recv_queue": s.recv_queue, "unsent": s.unsent,
        "delivered": s.delivered, "pacing_rate": s.pacing(), "mss": s.mss,
        "ca_state": named(s.ca(), s.ca_state.into()),
        "tcp_state": named(s.tcp(), s.tcp_state.into()),
        "cwnd_limited": s.has(crate::flags::CWND_LIMITED),
        "app_limited": s.has(crate::flags::APP_LIMITED),
        "chrono": s.chrono().name(),
        "after": s.has(crate::flags::AFTER),
        "paced": s.has(crate::flags::PACED),
        "in_slow_start": s.has(crate::flags::IN_SLOW_START),
        "ecn": s.has(crate::flags::ECN),
        "backoff": s.backoff,
        "send_buffer": s.send_buffer_bytes(),
        "write_blocked": s.is_write_blocked(),
    })
}

/// Which connection it is; what every row of a trace has.
fn connection(o: &Open) -> Value {
    let ends = o.endpoints();
    obj!({
        "local_addr": ends.local.ip().to_string(), "local_port": ends.local.port(),
        "remote_addr": ends.remote.ip().to_string(), "remote_port": ends.remote.port(),
        "program": o.program(), "algorithm": o.algorithm(),
    })
}

fn open(o: &Open) -> Value {
    obj!({
        "netns": o.netns, "ifindex": o.ifindex, "family": o.family, "cgroup": o.cgroup,
        "mptcp": o.mptcp().map(|token| token.0),
    })
}

fn sack(event: &Event, s: &crate::Sack) -> Value {
    let blocks: Vec<Value> = s.blocks[..fields::sack_blocks(event.aux)]
        .iter()
        .map(|[left, right]| obj!({ "left_edge": left, "right_edge": right }))
        .collect();
    obj!({
        "sack_blocks": blocks, "cwnd": s.cwnd,
        "ssthresh": (s.ssthresh < i32::MAX as u32).then_some(s.ssthresh), "snd_una": s.snd_una,
        "snd_nxt": s.snd_nxt, "packets_out": s.packets_out,
        "sacked_out": s.sacked_out, "lost_out": s.lost_out,
        "retrans_out": s.retrans_out,
        "ca_state": named(CaState::from_number(s.ca_state.into()), s.ca_state.into()),
        "tcp_state": named(TcpState::from_number(s.tcp_state.into()), s.tcp_state.into()),
    })
}

/// The event as a JSON object, under the names of the columns of a trace.
pub fn value(event: &Event, context: Context<'_>) -> Value {
    let mut map = Map::new();
    if let Some(offset) = context.realtime_offset_ns {
        let us = (event.time_ns as i64).saturating_add(offset).div_euclid(1000);
        map.insert("time_utc".to_owned(), Utc::from_us(us).to_string().into());
    }
    put(
        &mut map,
        obj!({
            "time_ns": event.time_ns, "kind": event.kind.name(), "place": event.place.name(),
            "cookie": event.cookie, "tgid": event.tgid, "cpu": event.cpu,
        }),
    );
    if let Some(o) = event.open().or(context.connection) {
        put(&mut map, connection(o));
    }
    for (name, said) in fields(event) {
        let said = match said {
            fields::Value::Number(number) => number.into(),
            fields::Value::Flag(flag) => flag.into(),
            fields::Value::Word(word) => word.into(),
        };
        map.insert(name.to_owned(), said);
    }
    match &event.body {
        Body::None => {}
        Body::State(s) => put(&mut map, state(s)),
        Body::Open(o) => put(&mut map, open(o)),
        Body::Sack(s) => put(&mut map, sack(event, s)),
    }
    Value::Object(map)
}

/// One line of JSON, without its newline.
pub fn json(event: &Event, context: Context<'_>) -> String {
    value(event, context).to_string()
}

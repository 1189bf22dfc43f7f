//! One JSON object an event; every number under its name.

use serde_json::{Map, Value, json as obj};

use crate::{
    Body, CaState, Direction, Event, Kind, LossCause, Open, Origin, RtoCause, State, TcpState,
};

fn named<T: std::fmt::Display>(known: Option<T>, number: u32) -> Value {
    known.map_or_else(|| Value::from(number), |name| Value::from(name.to_string()))
}

fn put(map: &mut Map<String, Value>, fields: Value) {
    if let Value::Object(fields) = fields {
        map.extend(fields);
    }
}

fn details(event: &Event) -> Value {
    let [a, b] = event.aux;
    match event.kind {
        Kind::Open => obj!({ "origin": named(Origin::from_number(a), a) }),
        Kind::Close => obj!({ "errno": a }),
        Kind::State => obj!({
            "old": named(TcpState::from_number(a), a), "new": named(TcpState::from_number(b), b)
        }),
        Kind::Ack => obj!({ "acked": a, "cwnd_before": b }),
        Kind::Send => obj!({ "bytes": a, "segments": b }),
        Kind::Retransmit => {
            let (reason, segments) = event.retransmit();
            obj!({ "reason": named(reason, a & 0xff), "segments": segments, "seq": b })
        }
        Kind::DupAck => obj!({ "in_a_row": a, "with_sack": b == 1 }),
        Kind::Sack => obj!({ "d_sack": b == 1 }),
        Kind::Rto => obj!({ "in_a_row": a, "cause": named(RtoCause::from_number(b), b) }),
        Kind::LocalCongestion => obj!({ "reason": a, "bytes": b }),
        Kind::CaState => obj!({
            "old": named(CaState::from_number(a), a), "new": named(CaState::from_number(b), b)
        }),
        Kind::Reset => obj!({ "direction": named(Direction::from_number(a), a), "reason": b }),
        Kind::ZeroWindow => obj!({ "direction": named(Direction::from_number(a), a) }),
        Kind::Clamp => obj!({ "old": a, "new": b }),
        Kind::Action => {
            let action = event.action();
            obj!({
                "algorithm": action.algorithm.name(), "cap": action.cap,
                "initial_window": action.initial_window, "rule": action.rule,
                "reason": action.reason.map(|reason| reason.name()),
            })
        }
        Kind::Lost => obj!({ "cause": named(LossCause::from_number(a), a), "count": b }),
        Kind::Owner => obj!({ "old_tgid": a }),
        Kind::Algorithm | Kind::Sample => obj!({}),
    }
}

fn state(s: &State) -> Value {
    obj!({
        "cwnd": s.cwnd, "ssthresh": s.ssthresh_set(), "clamp": s.clamp_set(),
        "snd_una": s.snd_una, "snd_nxt": s.snd_nxt, "rcv_nxt": s.rcv_nxt,
        "snd_wnd": s.snd_wnd, "rcv_wnd": s.rcv_wnd,
        "packets_out": s.packets_out, "sacked_out": s.sacked_out,
        "lost_out": s.lost_out, "retrans_out": s.retrans_out,
        "rto_us": s.rto_us, "srtt_us": s.srtt_us, "rttvar_us": s.rttvar_us,
        "min_rtt_us": s.min_rtt(),
        "send_queue": s.send_queue, "recv_queue": s.recv_queue, "unsent": s.unsent,
        "delivered": s.delivered, "pacing_rate": s.pacing(), "mss": s.mss,
        "ca_state": named(s.ca(), s.ca_state.into()),
        "tcp_state": named(s.tcp(), s.tcp_state.into()),
        "cwnd_limited": s.has(crate::flags::CWND_LIMITED),
        "app_limited": s.has(crate::flags::APP_LIMITED),
        "chrono": s.chrono().name(),
        "after": s.has(crate::flags::AFTER),
        "backoff": s.backoff,
        "send_buffer": s.send_buffer_bytes(),
        "write_blocked": s.is_write_blocked(),
    })
}

fn open(o: &Open) -> Value {
    let ends = o.endpoints();
    obj!({
        "local": ends.local.to_string(), "remote": ends.remote.to_string(),
        "netns": o.netns, "ifindex": o.ifindex, "cgroup": o.cgroup,
        "program": o.program(), "algorithm": o.algorithm(),
        "mptcp": o.mptcp().map(|token| token.0),
    })
}

/// The event as a JSON object.
pub fn value(event: &Event) -> Value {
    let mut map = Map::new();
    put(
        &mut map,
        obj!({
            "time_ns": event.time_ns, "kind": event.kind.name(), "where": event.place.name(),
            "cookie": event.cookie, "tgid": event.tgid, "cpu": event.cpu,
        }),
    );
    put(&mut map, details(event));
    match &event.body {
        Body::None => {}
        Body::State(s) => put(&mut map, state(s)),
        Body::Open(o) => put(&mut map, open(o)),
        Body::Sack(s) => {
            let n = (event.aux[0] as usize).min(4);
            put(
                &mut map,
                obj!({
                    "blocks": s.blocks[..n], "cwnd": s.cwnd, "snd_una": s.snd_una,
                    "snd_nxt": s.snd_nxt, "packets_out": s.packets_out,
                    "sacked_out": s.sacked_out, "lost_out": s.lost_out,
                    "retrans_out": s.retrans_out,
                }),
            );
        }
    }
    Value::Object(map)
}

/// One line of JSON, without its newline.
pub fn json(event: &Event) -> String {
    value(event).to_string()
}

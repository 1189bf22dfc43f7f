//! The table once, for pipes and scripts: as text, or as one JSON object.

use serde_json::{Map, Value, json};
use transom_event::text::{Context, value};
use transom_event::{Action, CaState, Event, Kind, Place, State, TcpState};

use super::app::Status;
use super::column::Column;
use super::connection::Connection;
use super::family::Family;
use super::model::Model;
use super::numbers::{self, aligned};
use super::order::{Filter, Order};
use super::theme::Theme;

/// Every column but the curve, as wide as its widest cell; nothing is cut.
pub fn table(model: &Model, order: Order, filter: &Filter, theme: Theme) -> String {
    let columns: Vec<Column> = Column::sortable().filter(|&c| c != Column::Rate).collect();
    let mut rows = vec![columns.iter().map(|c| c.title().to_owned()).collect::<Vec<_>>()];
    for family in order.apply(model, filter) {
        for row in family.rows() {
            let cell =
                |column: &Column| family.cell(row, *column, model.now_ns(), usize::MAX, theme).0;
            rows.push(columns.iter().map(cell).collect());
        }
    }
    let width = |i: usize| rows.iter().map(|row| numbers::columns(&row[i])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for ((cell, column), width) in row.iter().zip(&columns).zip(&widths) {
            line.push_str(&aligned(cell, *width, column.is_right_aligned()));
            line.push(' ');
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// One object: time, event rate, losses, and every connection with the names and units of
/// `transom log --format json` plus what only a stretch of time can tell.
pub fn object(model: &Model, status: &Status, order: Order, filter: &Filter) -> Value {
    let now_ns = model.now_ns();
    let families = order.apply(model, filter);
    let connections: Vec<Value> =
        families.iter().flat_map(|family| &family.0).map(|c| connection(c, now_ns)).collect();
    let multipath: Vec<Value> = families.iter().filter_map(|f| multipath(f, now_ns)).collect();
    let lost: Map<String, Value> =
        status.lost.iter().map(|(cause, count)| (cause.to_string(), json!(count))).collect();
    json!({
        "time_ns": now_ns,
        "events": model.events(),
        "events_per_second": model.event_rate(),
        "lost": lost,
        "note": status.note,
        "connections_seen": model.len(),
        "connections_not_kept": model.not_kept(),
        "connections": connections,
        "multipath": multipath,
    })
}

/// What the subflows of a Multipath TCP connection do in all; nothing for other connections.
fn multipath(family: &Family, now_ns: u64) -> Option<Value> {
    let subflows = &family.0;
    let token = subflows[0].mptcp()?;
    let sum = |of: fn(&Connection) -> u64| subflows.iter().map(|c| of(c)).sum::<u64>();
    let rates = subflows.iter().map(|c| c.rates(now_ns));
    let (up, down) = rates.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    Some(json!({
        "mptcp": token,
        "subflows": subflows.iter().map(|c| c.cookie).collect::<Vec<_>>(),
        "up_bytes_per_second": up,
        "down_bytes_per_second": down,
        "acked_bytes": sum(|c| c.live.acked()),
        "received_bytes": sum(|c| c.live.received()),
        "retransmitted": sum(|c| c.counts.retransmitted),
        "rtos": sum(|c| c.counts.rtos),
    }))
}

fn connection(c: &Connection, now_ns: u64) -> Value {
    let (up, down) = c.rates(now_ns);
    let ends = c.endpoints();
    let mut map = c.state.map_or_else(Map::new, |state| state_fields(&state));
    let own = json!({
        "cookie": c.cookie,
        "program": c.open.map(|open| open.program()),
        "tgid": c.tgid,
        "local": ends.map(|ends| ends.local.to_string()),
        "remote": ends.map(|ends| ends.remote.to_string()),
        "netns": c.open.map(|open| open.netns),
        "algorithm": c.open.map(|open| open.algorithm()),
        "mptcp": c.mptcp(),
        "tcp_state": c.tcp().map(TcpState::name),
        "ca_state": c.ca().map(CaState::name),
        "polled": c.sampled,
        "in_flight": c.state.map(|state| state.in_flight()),
        "limited_by": c.limit(now_ns),
        "up_bytes_per_second": up,
        "down_bytes_per_second": down,
        "acked_bytes": c.live.acked(),
        "received_bytes": c.live.received(),
        "events": c.counts.events,
        "retransmitted": c.counts.retransmitted,
        "retransmitted_last_second": c.retransmitted_lately(now_ns),
        "rtos": c.counts.rtos,
        "dup_acks": c.counts.dup_acks,
        "sacks": c.counts.sacks,
        "local_congestion": c.counts.local_congestion,
        "zero_windows": c.counts.zero_windows,
        "resets": c.counts.resets,
        "last_action": c.last_action.as_ref().map(|mark| Action::from_aux(mark.aux).to_string()),
    });
    if let Value::Object(own) = own {
        map.extend(own);
    }
    Value::Object(map)
}

/// The state under the names of the event format, which are public already.
fn state_fields(state: &State) -> Map<String, Value> {
    let event = Event {
        time_ns: 0,
        cookie: 0,
        tgid: 0,
        cpu: 0,
        kind: Kind::Sample,
        place: Place::SockDiag,
        aux: [0, 0],
        body: transom_event::Body::State(*state),
    };
    let Value::Object(mut fields) = value(&event, Context::default()) else { return Map::new() };
    for head in ["time_ns", "kind", "place", "cpu"] {
        fields.remove(head);
    }
    fields
}

//! A recording → qlog 0.3 (draft-ietf-quic-qlog-main-schema-04, -quic-events-03), which qvis reads:
//! a trace per connection.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use transom_analysis::{
    Analysis, Connection, Mark, Point, Recording, analyse_connection, is_timeout,
};
use transom_event::{
    Body, CaState, Endpoints, Kind, Origin as Seen, RetransmitReason, State, fields, flags,
};

use crate::origin::Origin;
use crate::packets::{Packets, ranges};
use crate::phrase::phrase;

/// Writes the whole file; the number of connections that it has no trace of, because nothing but
/// their addresses was recorded.
///
/// # Errors
/// Those of `to`.
pub fn write(recording: &Recording, origin: &Origin, mut to: impl Write) -> io::Result<u64> {
    let head = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON",
        "title": format!("{} on {}", origin.program, origin.host),
        "description": origin.remark(),
    });
    let head = head.to_string();
    let has_events = |connection: &&Connection| !connection.points.is_empty();
    let traces: Vec<&Connection> = recording.connections.iter().filter(has_events).collect();
    to.write_all(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    // A file has at least one trace or does not have the list.
    if !traces.is_empty() {
        to.write_all(b",\"traces\":[")?;
        for (at, connection) in traces.iter().enumerate() {
            to.write_all(if at == 0 { b"\n" } else { b",\n" })?;
            trace(connection, recording, origin, &mut to)?;
        }
        to.write_all(b"\n]")?;
    }
    to.write_all(b"}\n")?;
    to.flush()?;
    Ok((recording.connections.len() - traces.len()) as u64)
}

fn trace(
    connection: &Connection,
    recording: &Recording,
    origin: &Origin,
    to: &mut impl Write,
) -> io::Result<()> {
    let analysis = analyse_connection(connection, recording);
    let start_ns = recording.start_ns;
    let wall_ns = start_ns.cast_signed().saturating_add(origin.realtime_offset_ns);
    let head = json!({
        "title": title(connection),
        "description": analysis.verdict.text(),
        "vantage_point": { "name": origin.host, "type": side(connection) },
        "common_fields": {
            "protocol_type": ["TCP"],
            "time_format": "relative",
            "reference_time": wall_ns as f64 / 1e6,
        },
    });
    let head = head.to_string();
    to.write_all(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    to.write_all(b",\"events\":[")?;
    let mut log = Log { to, start_ns, written: 0 };
    events(connection, &analysis, &mut log)?;
    log.to.write_all(b"\n]}")
}

fn title(connection: &Connection) -> String {
    let name = match connection.endpoints() {
        Some(ends) => ends.to_string(),
        None => format!("cookie {}", connection.cookie),
    };
    format!("{name} {} {}", connection.program(), connection.algorithm()).trim().to_owned()
}

/// Which end was recorded, where the recording saw the handshake.
fn side(connection: &Connection) -> &'static str {
    match connection.origin {
        Some(Seen::Connect) => "client",
        Some(Seen::Accept) => "server",
        _ => "unknown",
    }
}

/// The list of events of a trace.
struct Log<'a, W> {
    to: &'a mut W,
    start_ns: u64,
    written: u64,
}

impl<W: Write> Log<'_, W> {
    fn put(&mut self, time_ns: u64, name: &str, data: &Value) -> io::Result<()> {
        let since = time_ns.cast_signed() - self.start_ns.cast_signed();
        let event = json!({ "time": since as f64 / 1e6, "name": name, "data": data });
        let comma = if self.written == 0 { "\n" } else { ",\n" };
        self.written += 1;
        write!(self.to, "{comma}{event}")
    }
}

/// What is written of a connection, in the order of time.
enum Item<'a> {
    Mark(&'a Mark),
    Point(&'a Point),
}

fn events(
    connection: &Connection,
    analysis: &Analysis,
    log: &mut Log<'_, impl Write>,
) -> io::Result<()> {
    // Points have the state; of the marks these are not among them.
    let without_state =
        |mark: &&Mark| matches!(mark.kind, Kind::Open | Kind::Owner | Kind::Algorithm | Kind::Sack);
    let marks = connection.marks.iter().filter(without_state);
    let mut items: Vec<(u64, Item)> = marks.map(|mark| (mark.time_ns, Item::Mark(mark))).collect();
    items.extend(connection.points.iter().map(|point| (point.time_ns, Item::Point(point))));
    // Stable: the blocks of a segment come before its ACK.
    items.sort_by_key(|(time_ns, _)| *time_ns);
    let mut follower = Follower::default();
    for (time_ns, item) in items {
        match item {
            Item::Mark(mark) => follower.mark(mark, analysis.ends, log)?,
            Item::Point(point) => follower.point(time_ns, point, log)?,
        }
    }
    Ok(())
}

/// What is remembered from one event of a connection to the next.
#[derive(Default)]
struct Follower {
    packets: Packets,
    /// Numbers that SACK blocks have covered, until the ACK that carried them.
    sacked: Vec<u64>,
    metrics: Map<String, Value>,
    congestion: Option<&'static str>,
}

impl Follower {
    fn mark(
        &mut self,
        mark: &Mark,
        ends: Option<Endpoints>,
        log: &mut Log<'_, impl Write>,
    ) -> io::Result<()> {
        if let Some(sack) = mark.sack() {
            let skipped = usize::from(fields::is_d_sack(mark.aux));
            for &block in &sack.blocks[..fields::sack_blocks(mark.aux)][skipped..] {
                self.sacked.extend(self.packets.acknowledge_block(block));
            }
            return Ok(());
        }
        let origin = fields::origin(mark.aux);
        match (mark.kind, ends, origin) {
            (Kind::Open, Some(ends), Some(Seen::Connect | Seen::Accept)) => {
                let is_client = origin == Some(Seen::Connect);
                let (source, destination) = match is_client {
                    true => (ends.local, ends.remote),
                    false => (ends.remote, ends.local),
                };
                let data = json!({
                    "ip_version": if source.is_ipv4() { "v4" } else { "v6" },
                    "src_ip": source.ip().to_string(), "src_port": source.port(),
                    "dst_ip": destination.ip().to_string(), "dst_port": destination.port(),
                    "protocol": "TCP",
                });
                log.put(mark.time_ns, "connectivity:connection_started", &data)
            }
            _ => inform(mark.time_ns, phrase(mark.kind, mark.place, mark.aux, &mark.body), log),
        }
    }

    fn point(
        &mut self,
        time_ns: u64,
        point: &Point,
        log: &mut Log<'_, impl Write>,
    ) -> io::Result<()> {
        match point.kind {
            Kind::Send => self.sent(point, log)?,
            Kind::Ack => self.acknowledged(point, log)?,
            Kind::Retransmit => self.retransmitted(point, log)?,
            Kind::Rto if is_timeout(point.aux) => {
                let data = json!({ "event_type": "expired", "timer_type": "pto" });
                log.put(time_ns, "recovery:loss_timer_updated", &data)?;
            }
            Kind::CaState | Kind::DupAck | Kind::Sample => {}
            kind => {
                let body = Body::State(point.state);
                inform(time_ns, phrase(kind, point.place, point.aux, &body), log)?;
            }
        }
        self.congestion(point, log)?;
        self.metrics(time_ns, &point.state, log)
    }

    fn sent(&mut self, point: &Point, log: &mut Log<'_, impl Write>) -> io::Result<()> {
        let (bytes, segments) = fields::sent(point.aux);
        let s = &point.state;
        let seq = if s.has(flags::AFTER) { s.snd_nxt.wrapping_sub(bytes) } else { s.snd_nxt };
        for sent in self.packets.send(seq, bytes, segments, s.mss.into()) {
            let data = json!({
                "header": header(sent.number),
                // The trace does not have the lengths of headers.
                "raw": { "length": sent.bytes, "payload_length": sent.bytes },
            });
            log.put(point.time_ns, "transport:packet_sent", &data)?;
        }
        Ok(())
    }

    fn acknowledged(&mut self, point: &Point, log: &mut Log<'_, impl Write>) -> io::Result<()> {
        let s = &point.state;
        let una = match s.has(flags::AFTER) {
            true => s.snd_una,
            false => s.snd_una.wrapping_add(fields::acked_bytes(point.aux)),
        };
        let mut numbers = std::mem::take(&mut self.sacked);
        numbers.extend(self.packets.acknowledge(una));
        let mut data = json!({ "header": { "packet_type": "unknown" } });
        if !numbers.is_empty() {
            let ranges = ranges(numbers).into_iter();
            let ranges: Vec<[u64; 2]> = ranges.map(|range| [range.start, range.end - 1]).collect();
            data["frames"] = json!([{ "frame_type": "ack", "acked_ranges": ranges }]);
        }
        log.put(point.time_ns, "transport:packet_received", &data)
    }

    fn retransmitted(&mut self, point: &Point, log: &mut Log<'_, impl Write>) -> io::Result<()> {
        let (reason, segments) = fields::retransmit(point.aux);
        let [lost_by, sent_by] = match reason {
            Some(RetransmitReason::Fast) => [None, Some("retransmit_reordered")],
            Some(RetransmitReason::Rto | RetransmitReason::SlowStart) => {
                [Some("pto_expired"), Some("retransmit_timeout")]
            }
            Some(RetransmitReason::Tlp) => [None, Some("pto_probe")],
            Some(RetransmitReason::Syn) | None => [None, None],
        };
        // A probe is sent before the loss is known.
        let is_loss = reason != Some(RetransmitReason::Tlp);
        for (before, now) in self.packets.resend(fields::retransmitted_seq(point.aux), segments) {
            if let Some(before) = before.filter(|_| is_loss) {
                let data = triggered(json!({ "header": header(before) }), lost_by);
                log.put(point.time_ns, "recovery:packet_lost", &data)?;
            }
            let data = triggered(json!({ "header": header(now) }), sent_by);
            log.put(point.time_ns, "transport:packet_sent", &data)?;
        }
        Ok(())
    }

    fn congestion(&mut self, point: &Point, log: &mut Log<'_, impl Write>) -> io::Result<()> {
        let ca = match point.kind {
            Kind::CaState => fields::ca_states(point.aux)[1],
            _ => point.state.ca(),
        };
        let new = match ca {
            Some(CaState::Cwr) => "cwr",
            Some(CaState::Recovery) => "recovery",
            Some(CaState::Loss) => "loss",
            Some(CaState::Open | CaState::Disorder) => {
                match point.state.has(flags::IN_SLOW_START) {
                    true => "slow_start",
                    false => "congestion_avoidance",
                }
            }
            None => return Ok(()),
        };
        if self.congestion == Some(new) {
            return Ok(());
        }
        let data = match self.congestion.replace(new) {
            Some(old) => json!({ "old": old, "new": new }),
            None => json!({ "new": new }),
        };
        log.put(point.time_ns, "recovery:congestion_state_updated", &data)
    }

    /// What has changed since the event before.
    fn metrics(
        &mut self,
        time_ns: u64,
        state: &State,
        log: &mut Log<'_, impl Write>,
    ) -> io::Result<()> {
        let mut changed = Map::new();
        for (name, value) in metrics(state) {
            if self.metrics.get(name) != Some(&value) {
                self.metrics.insert(name.to_owned(), value.clone());
                changed.insert(name.to_owned(), value);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        log.put(time_ns, "recovery:metrics_updated", &Value::Object(changed))
    }
}

/// The metrics of qlog: windows in bytes, times in ms, the pacing rate in bit/s.
fn metrics(state: &State) -> impl Iterator<Item = (&'static str, Value)> {
    let bytes = |segments: u32| u64::from(segments) * u64::from(state.mss);
    let number = |value: Option<u64>| value.map(Value::from);
    let ms = |us: Option<u32>| us.map(|us| Value::from(f64::from(us) / 1000.0));
    let metrics = [
        ("min_rtt", ms(state.min_rtt())),
        ("smoothed_rtt", ms((state.srtt_us > 0).then_some(state.srtt_us))),
        ("rtt_variance", ms(state.mdev().filter(|_| state.srtt_us > 0))),
        ("pto_count", number(Some(state.backoff.into()))),
        ("congestion_window", number(Some(bytes(state.cwnd)))),
        ("bytes_in_flight", number(Some(bytes(state.in_flight())))),
        ("ssthresh", number(state.ssthresh_set().map(bytes))),
        ("packets_in_flight", number(Some(state.in_flight().into()))),
        ("pacing_rate", number(state.pacing().map(|rate| rate.saturating_mul(8)))),
    ];
    metrics.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// TCP has no types of packets.
fn header(number: u64) -> Value {
    json!({ "packet_type": "unknown", "packet_number": number })
}

fn triggered(mut data: Value, trigger: Option<&str>) -> Value {
    if let Some(trigger) = trigger {
        data["trigger"] = trigger.into();
    }
    data
}

/// What qlog has no event for.
fn inform(time_ns: u64, message: String, log: &mut Log<'_, impl Write>) -> io::Result<()> {
    log.put(time_ns, "generic:info", &json!({ "message": message }))
}

//! /metrics: counters of connections by workload, distributions, and the agent's own state. The
//! number of series is bounded whatever happens: workloads beyond the first are `other`.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use transom_spool::{Connection, RowKind};

/// Workloads with a name of their own: 16 × 6 counters, 12 verdicts, 9 endings, three histograms
/// and the agent's own are fewer than 300 series.
const WORKLOADS: usize = 16;
const OTHER: &str = "other";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Workload {
    workload: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByVerdict {
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByEnd {
    ended: &'static str,
}

type Count<L> = Family<L, Counter>;
type Real = Gauge<f64, AtomicU64>;

pub struct Metrics {
    registry: Registry,
    workloads: HashSet<String>,
    connections: Count<Workload>,
    failed: Count<Workload>,
    sent: Count<Workload>,
    received: Count<Workload>,
    segments: Count<Workload>,
    retransmitted: Count<Workload>,
    verdicts: Count<ByVerdict>,
    ends: Count<ByEnd>,
    rtt: Histogram,
    handshake: Histogram,
    duration: Histogram,
    own: Own,
}

/// What the agent says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnState {
    pub level: u8,
    pub tracked: u64,
    pub untracked: u64,
    pub lost_rows: u64,
    pub lost_decisions: u64,
    pub cpu_seconds: f64,
    pub cpu_share: f64,
    pub resident: u64,
    pub spool: u64,
    pub unwritable: bool,
}

#[derive(Default)]
struct Own {
    level: Gauge,
    tracked: Gauge,
    untracked: Counter,
    lost_rows: Counter,
    lost_decisions: Counter,
    cpu: Counter<f64, AtomicU64>,
    cpu_share: Real,
    resident: Gauge,
    spool: Gauge,
    unwritable: Gauge,
}

impl Metrics {
    pub fn new() -> Metrics {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 4.0, 9));
        let metrics = Metrics {
            registry: Registry::default(),
            workloads: HashSet::new(),
            connections: Family::default(),
            failed: Family::default(),
            sent: Family::default(),
            received: Family::default(),
            segments: Family::default(),
            retransmitted: Family::default(),
            verdicts: Family::default(),
            ends: Family::default(),
            rtt: seconds(),
            handshake: seconds(),
            duration: Histogram::new(exponential_buckets(0.01, 8.0, 8)),
            own: Own::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let mut registry = Registry::with_prefix("transom");
        let tcp = registry.sub_registry_with_prefix("tcp");
        tcp.register("connections", "Connections that ended", self.connections.clone());
        tcp.register("connections_failed", "Connections never established", self.failed.clone());
        let bytes = |tcp: &mut Registry, name, help, of: &Count<Workload>| {
            tcp.register_with_unit(name, help, Unit::Bytes, of.clone());
        };
        bytes(tcp, "acknowledged", "Payload that peers acknowledged", &self.sent);
        bytes(tcp, "received", "Payload received", &self.received);
        tcp.register("data_segments", "Data segments sent", self.segments.clone());
        tcp.register(
            "retransmitted_segments",
            "Segments retransmitted",
            self.retransmitted.clone(),
        );
        tcp.register("verdicts", "Ended connections by what held them back", self.verdicts.clone());
        tcp.register("ends", "Connections by how they ended", self.ends.clone());
        let seconds = |tcp: &mut Registry, name, help, of: &Histogram| {
            tcp.register_with_unit(name, help, Unit::Seconds, of.clone());
        };
        seconds(tcp, "rtt", "Smoothed RTT of connections when they ended", &self.rtt);
        seconds(tcp, "handshake", "SYN to established, of connections made here", &self.handshake);
        seconds(tcp, "duration", "Of connections that ended", &self.duration);
        self.own.register(registry.sub_registry_with_prefix("agent"));
        self.registry = registry;
        self
    }

    fn workload(&mut self, row: &Connection) -> Workload {
        let name = row.unit.as_ref().or(row.program.as_ref()).map_or("", |name| name);
        let known = self.workloads.contains(name);
        if !known && self.workloads.len() < WORKLOADS - 1 && !name.is_empty() && name != OTHER {
            self.workloads.insert(name.to_owned());
        } else if !known {
            return Workload { workload: OTHER.into() };
        }
        Workload { workload: name.to_owned() }
    }

    /// A row that was written; interim ones are only parts.
    pub fn count(&mut self, row: &Connection) {
        if row.kind == RowKind::Interim {
            return;
        }
        let workload = self.workload(row);
        self.ends.get_or_create(&ByEnd { ended: row.ended.name() }).inc();
        self.verdicts.get_or_create(&ByVerdict { verdict: row.verdict.name() }).inc();
        let add = |family: &Count<Workload>, number: u64| {
            family.get_or_create(&workload).inc_by(number);
        };
        add(&self.retransmitted, row.retransmitted.into());
        if row.kind == RowKind::Failed {
            add(&self.failed, 1);
            return;
        }
        add(&self.connections, 1);
        add(&self.sent, row.bytes_acked);
        add(&self.received, row.bytes_received);
        add(&self.segments, row.data_segments_sent.into());
        let seconds = |histogram: &Histogram, us: Option<u64>| {
            if let Some(us) = us {
                histogram.observe(us as f64 / 1e6);
            }
        };
        seconds(&self.rtt, row.srtt_us.map(u64::from));
        seconds(&self.handshake, row.handshake_us);
        seconds(&self.duration, row.duration_us);
    }

    pub fn set_own(&mut self, state: &OwnState) {
        self.own.set(state);
    }

    /// As `/metrics` serves it: OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A String takes whatever is written.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl Own {
    fn register(&self, agent: &mut Registry) {
        agent.register("level", "Level of detail: 1, 0; -1 less than either", self.level.clone());
        agent.register("tracked_connections", "Remembered now", self.tracked.clone());
        agent.register("untracked_connections", "Not remembered", self.untracked.clone());
        agent.register("lost_rows", "Rows of connections lost", self.lost_rows.clone());
        agent.register("lost_decisions", "Decisions lost", self.lost_decisions.clone());
        agent.register_with_unit("cpu", "Of agent and probes", Unit::Seconds, self.cpu.clone());
        agent.register("cpu_ratio", "Of one CPU, in the last minute", self.cpu_share.clone());
        agent.register_with_unit("resident", "Memory", Unit::Bytes, self.resident.clone());
        agent.register_with_unit("spool", "On disk", Unit::Bytes, self.spool.clone());
        agent.register("unwritable", "1: the spool cannot be written", self.unwritable.clone());
    }

    fn set(&self, state: &OwnState) {
        self.level.set(if state.level == 255 { -1 } else { state.level.into() });
        self.tracked.set(state.tracked as i64);
        self.cpu_share.set(state.cpu_share);
        self.resident.set(state.resident as i64);
        self.spool.set(state.spool as i64);
        self.unwritable.set(state.unwritable.into());
        let to = |counter: &Counter, value: u64| {
            counter.inc_by(value.saturating_sub(counter.get()));
        };
        to(&self.untracked, state.untracked);
        to(&self.lost_rows, state.lost_rows);
        to(&self.lost_decisions, state.lost_decisions);
        self.cpu.inc_by((state.cpu_seconds - self.cpu.get()).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_spool::{Cause, Ended};

    #[test]
    fn whatever_the_programs_are_called_the_series_stay_below_300() {
        let mut metrics = Metrics::new();
        for n in 0..3000u32 {
            let row = Connection {
                program: Some(format!("program-{n}").into()),
                kind: RowKind::ALL[n as usize % 3],
                ended: Ended::ALL[n as usize % Ended::ALL.len()],
                verdict: Cause::ALL[n as usize % Cause::ALL.len()],
                srtt_us: Some(n),
                ..Connection::default()
            };
            metrics.count(&row);
        }
        let text = metrics.text();
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!((100..300).contains(&series), "{series} series");
        assert!(text.contains("transom_tcp_connections_total{workload=\"other\"}"));
        assert!(text.contains("workload=\"program-0\""));
    }

    #[test]
    fn a_unit_names_a_workload_before_its_program_does() {
        let mut metrics = Metrics::new();
        let row = Connection {
            program: Some("nginx".into()),
            unit: Some("web.service".into()),
            bytes_acked: 1500,
            ..Connection::default()
        };
        metrics.count(&row);
        let text = metrics.text();
        let wanted = "transom_tcp_acknowledged_bytes_total{workload=\"web.service\"} 1500";
        assert!(text.contains(wanted), "{text}");
    }
}

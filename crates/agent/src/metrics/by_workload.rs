//! The counters that each workload has. They are looked for once, since every row of the workload
//! adds to all of them.

use std::collections::HashMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use transom_metrics::agent as define;
use transom_spool::RowKind;

use super::moved::Moved;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Workload {
    workload: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Retransmission {
    workload: String,
    r#type: &'static str,
}

/// OpenTelemetry's values of `network.tcp.retransmit.type`, one for level 0, and one for connections
/// that were never established.
const TYPES: [&str; 5] = ["fast", "timeout", "tail_loss_probe", "unknown", define::SYN];

type Count<L> = Family<L, Counter>;

#[derive(Default)]
pub struct ByWorkload {
    connections: Count<Workload>,
    failed: Count<Workload>,
    acknowledged: Count<Workload>,
    received: Count<Workload>,
    data_segments: Count<Workload>,
    timeouts: Count<Workload>,
    retransmitted: Count<Retransmission>,
    found: HashMap<String, Series>,
}

/// Those of one workload. It has both of the first two, so that one can be divided by the other.
struct Series {
    connections: Counter,
    failed: Counter,
    acknowledged: Counter,
    received: Counter,
    data_segments: Counter,
    timeouts: Counter,
    retransmitted: [Counter; TYPES.len()],
}

impl ByWorkload {
    pub fn register(&self, to: &mut Registry) {
        define::CONNECTIONS.register(to, self.connections.clone());
        define::FAILED.register(to, self.failed.clone());
        define::ACKNOWLEDGED.register(to, self.acknowledged.clone());
        define::RECEIVED.register(to, self.received.clone());
        define::DATA_SEGMENTS.register(to, self.data_segments.clone());
        define::RETRANSMITTED.register(to, self.retransmitted.clone());
        define::TIMEOUTS.register(to, self.timeouts.clone());
    }

    /// A row of this workload, and what the connection moved since its last one.
    pub fn count(&mut self, workload: &str, kind: RowKind, moved: &Moved) {
        if !self.found.contains_key(workload) {
            let series = self.series(workload);
            self.found.insert(workload.to_owned(), series);
        }
        let Some(series) = self.found.get(workload) else { return };
        if kind == RowKind::End {
            series.connections.inc();
        } else if kind == RowKind::Failed {
            series.failed.inc();
        }
        series.acknowledged.inc_by(moved.acknowledged);
        series.received.inc_by(moved.received);
        series.data_segments.inc_by(moved.data_segments);
        series.timeouts.inc_by(moved.timeouts);
        let by_type = [moved.fast, moved.timeout, moved.tail_loss_probe, moved.unknown, moved.syn];
        for (counter, number) in series.retransmitted.iter().zip(by_type) {
            counter.inc_by(number);
        }
    }

    fn series(&self, workload: &str) -> Series {
        let label = Workload { workload: workload.to_owned() };
        let of = |family: &Count<Workload>| family.get_or_create(&label).clone();
        let of_type = |r#type| {
            let label = Retransmission { workload: workload.to_owned(), r#type };
            self.retransmitted.get_or_create(&label).clone()
        };
        Series {
            connections: of(&self.connections),
            failed: of(&self.failed),
            acknowledged: of(&self.acknowledged),
            received: of(&self.received),
            data_segments: of(&self.data_segments),
            timeouts: of(&self.timeouts),
            retransmitted: TYPES.map(of_type),
        }
    }

    /// Its series end.
    pub fn remove(&mut self, workload: &str) {
        self.found.remove(workload);
        for r#type in TYPES {
            let workload = workload.to_owned();
            self.retransmitted.remove(&Retransmission { workload, r#type });
        }
        let gone = Workload { workload: workload.to_owned() };
        let families = [&self.connections, &self.failed, &self.acknowledged, &self.received];
        for family in families.into_iter().chain([&self.data_segments, &self.timeouts]) {
            family.remove(&gone);
        }
    }
}

//! /metrics: counters of connections by workload, distributions, and the agent's own state. The
//! number of series is bounded whatever happens: workloads beyond the first are `other`.

#[cfg(test)]
mod alerts;
mod by_workload;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod generated;
mod moved;
pub mod older;
#[cfg(test)]
mod page;
mod records;
mod workloads;

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use prometheus_client::encoding::{EncodeLabelSet, prometheus_protobuf, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{
    Histogram, NativeHistogramConfig, exponential_buckets,
};
use prometheus_client::registry::Registry;
use transom_spool::{Connection, Decided, RowKind};

use by_workload::ByWorkload;
use moved::LastRows;
use transom_metrics::agent as define;
use workloads::Workloads;

use crate::raw::RawRow;
use crate::watch::Found;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByLimit {
    limit: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByVerdict {
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByDecision {
    decision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByEnd {
    ended: String,
}

/// What limited a busy connection.
const LIMITS: [&str; 3] = ["receive_window", "send_buffer", "none"];

type Count<L> = Family<L, Counter>;
type Real = Gauge<f64, AtomicU64>;
type RealCount = Counter<f64, AtomicU64>;

pub struct Metrics {
    registry: Registry,
    workloads: Workloads,
    last_rows: LastRows,
    /// Rows of a cgroup that was not looked for yet.
    unnamed: Vec<RawRow>,
    by_workload: ByWorkload,
    spurious: Counter,
    decisions: Count<ByDecision>,
    busy: [RealCount; LIMITS.len()],
    verdicts: Count<ByVerdict>,
    ends: Count<ByEnd>,
    rtt: Histogram,
    handshake: Histogram,
    duration: Histogram,
    connection_acknowledged: Histogram,
    connection_received: Histogram,
    own: Own,
}

/// What the agent says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnState {
    pub level: u8,
    pub configured_level: u8,
    pub tracked: u64,
    pub untracked: u64,
    pub lost_rows: u64,
    pub lost_decisions: u64,
    pub recorded: u64,
    pub chosen: u64,
    pub not_chosen: u64,
    pub events: u64,
    pub lost_events: u64,
    pub level_changes: u64,
    pub cpu_seconds: f64,
    pub cpu_share: f64,
    pub resident: u64,
    pub spool: u64,
    pub unwritable: bool,
    /// Before this agent.
    pub gap_seconds: f64,
    pub gap_connections: u64,
}

#[derive(Default)]
struct Own {
    level: Gauge,
    configured_level: Gauge,
    tracked: Gauge,
    untracked: Counter,
    lost_rows: Counter,
    lost_decisions: Counter,
    recorded: Gauge,
    chosen: Counter,
    not_chosen: Counter,
    events: Counter,
    lost_events: Counter,
    level_changes: Counter,
    cpu: RealCount,
    cpu_share: Real,
    resident: Gauge,
    spool: Gauge,
    unwritable: Gauge,
    gap: Real,
    gap_connections: Gauge,
}

/// With native buckets (each 9 % wider than the one before; twice as wide, and again, where it
/// takes more than 160), and for scrapers without them nine classic ones.
fn histogram(first: f64, factor: f64) -> Histogram {
    let native = NativeHistogramConfig::default().max_buckets(160);
    Histogram::new_classic_and_native(exponential_buckets(first, factor, 9), native)
}

/// 1/4096 s to 16 s. One second, after which an unanswered SYN is sent again, is a bound, so that
/// no percentile between two bounds is above it where every handshake took less.
fn of_delays() -> Histogram {
    histogram(1.0 / 4096.0, 4.0)
}

/// 100 bytes to 1.7 GB.
fn of_bytes() -> Histogram {
    histogram(100.0, 8.0)
}

impl Metrics {
    pub fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::default(),
            workloads: Workloads::default(),
            last_rows: LastRows::default(),
            unnamed: Vec::new(),
            by_workload: ByWorkload::default(),
            spurious: Counter::default(),
            decisions: Family::default(),
            busy: Default::default(),
            verdicts: Family::default(),
            ends: Family::default(),
            rtt: of_delays(),
            handshake: of_delays(),
            // 10 ms to 2 days.
            duration: histogram(0.01, 8.0),
            connection_acknowledged: of_bytes(),
            connection_received: of_bytes(),
            own: Own::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let mut to = Registry::default();
        self.by_workload.register(&mut to);
        define::SPURIOUS.register(&mut to, self.spurious.clone());
        // A rate needs a first value.
        for decided in Decided::ALL {
            drop(self.decisions.get_or_create(&ByDecision { decision: decided.name() }));
        }
        define::DECISIONS.register(&mut to, self.decisions.clone());
        let busy: Family<ByLimit, RealCount> = Family::default();
        self.busy = LIMITS.map(|limit| busy.get_or_create(&ByLimit { limit }).clone());
        define::BUSY.register(&mut to, busy);
        define::VERDICTS.register(&mut to, self.verdicts.clone());
        define::ENDS.register(&mut to, self.ends.clone());
        define::RTT.register(&mut to, self.rtt.clone());
        define::HANDSHAKE.register(&mut to, self.handshake.clone());
        define::DURATION.register(&mut to, self.duration.clone());
        let acknowledged = self.connection_acknowledged.clone();
        define::CONNECTION_ACKNOWLEDGED.register(&mut to, acknowledged);
        define::CONNECTION_RECEIVED.register(&mut to, self.connection_received.clone());
        self.own.register(&mut to);
        self.registry = to;
        self
    }

    /// A row of this unit or program. Series of a workload that lost its place end.
    fn count(&mut self, row: &Connection, name: &str) {
        self.count_at(row, name, Instant::now());
    }

    fn count_at(&mut self, row: &Connection, name: &str, now: Instant) {
        let place = self.workloads.place(name, now);
        if let Some(gone) = &place.removed {
            self.by_workload.remove(gone);
        }
        let moved = self.last_rows.more(row);
        self.by_workload.count(place.label, row.kind, &moved);
        self.spurious.inc_by(moved.spurious);
        let by_limit = [moved.receive_window_us, moved.send_buffer_us, moved.otherwise_busy_us];
        for (counter, us) in self.busy.iter().zip(by_limit) {
            counter.inc_by(seconds(us));
        }
        if row.kind == RowKind::Interim {
            return;
        }
        let ended = row.ended.name().replace(' ', "_");
        self.ends.get_or_create(&ByEnd { ended }).inc();
        self.verdicts.get_or_create(&ByVerdict { verdict: row.verdict.name() }).inc();
        if row.kind == RowKind::End {
            self.observe(row);
        }
    }

    /// Whether the next look is to say whom it finds.
    pub fn wants_roll_call(&mut self) -> bool {
        self.last_rows.wants_roll_call(Instant::now())
    }

    pub fn looked(&mut self, found: &Found) {
        self.last_rows.looked(found);
    }

    fn count_decision(&self, decided: Decided) {
        self.decisions.get_or_create(&ByDecision { decision: decided.name() }).inc();
    }

    fn observe(&self, row: &Connection) {
        let times = [
            (&self.rtt, row.srtt_us.map(u64::from)),
            (&self.handshake, row.handshake_us),
            (&self.duration, row.duration_us),
        ];
        for (histogram, us) in times {
            if let Some(us) = us {
                histogram.observe(seconds(us));
            }
        }
        self.connection_acknowledged.observe(row.bytes_acked as f64);
        self.connection_received.observe(row.bytes_received as f64);
    }

    pub fn set_own(&mut self, state: &OwnState) {
        self.own.set(state);
    }

    /// OpenMetrics: classic histograms.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // A String takes whatever is written.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// `io.prometheus.client.MetricFamily`, each with its length before it: native histograms.
    pub fn protobuf(&self) -> Vec<u8> {
        // A vector takes whatever is written.
        prometheus_protobuf::encode_to_vec(&self.registry).unwrap_or_default()
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl Own {
    fn register(&self, to: &mut Registry) {
        define::LEVEL.register(to, self.level.clone());
        define::CONFIGURED_LEVEL.register(to, self.configured_level.clone());
        define::TRACKED.register(to, self.tracked.clone());
        define::UNTRACKED.register(to, self.untracked.clone());
        define::LOST_ROWS.register(to, self.lost_rows.clone());
        define::LOST_DECISIONS.register(to, self.lost_decisions.clone());
        define::RECORDED.register(to, self.recorded.clone());
        define::CHOSEN.register(to, self.chosen.clone());
        define::NOT_CHOSEN.register(to, self.not_chosen.clone());
        define::EVENTS.register(to, self.events.clone());
        define::LOST_EVENTS.register(to, self.lost_events.clone());
        define::LEVEL_CHANGES.register(to, self.level_changes.clone());
        define::CPU.register(to, self.cpu.clone());
        define::CPU_RATIO.register(to, self.cpu_share.clone());
        define::RESIDENT.register(to, self.resident.clone());
        define::SPOOL.register(to, self.spool.clone());
        define::UNWRITABLE.register(to, self.unwritable.clone());
        define::GAP.register(to, self.gap.clone());
        define::GAP_CONNECTIONS.register(to, self.gap_connections.clone());
    }

    fn set(&self, state: &OwnState) {
        self.level.set(if state.level == 255 { -1 } else { state.level.into() });
        self.configured_level.set(state.configured_level.into());
        self.tracked.set(state.tracked as i64);
        self.recorded.set(state.recorded as i64);
        self.cpu_share.set(state.cpu_share);
        self.resident.set(state.resident as i64);
        self.spool.set(state.spool as i64);
        self.unwritable.set(state.unwritable.into());
        self.gap.set(state.gap_seconds);
        self.gap_connections.set(state.gap_connections as i64);
        let to = |counter: &Counter, value: u64| {
            counter.inc_by(value.saturating_sub(counter.get()));
        };
        to(&self.untracked, state.untracked);
        to(&self.lost_rows, state.lost_rows);
        to(&self.lost_decisions, state.lost_decisions);
        to(&self.chosen, state.chosen);
        to(&self.not_chosen, state.not_chosen);
        to(&self.events, state.events);
        to(&self.lost_events, state.lost_events);
        to(&self.level_changes, state.level_changes);
        self.cpu.inc_by((state.cpu_seconds - self.cpu.get()).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{
        Metric as Sample, MetricFamily, MetricType,
    };
    use std::collections::BTreeSet;
    use transom_metrics::{Definition, Kind};
    use transom_spool::{Cause, Ended};

    /// Rows of every kind, end and verdict, of so many programs; the first ones connect twice.
    fn busy_machine(programs: u32, name: impl Fn(u32) -> String) -> Metrics {
        let mut metrics = Metrics::new();
        for n in (0..programs).chain(0..programs.min(40)) {
            let row = Connection {
                cookie: n.into(),
                kind: RowKind::ALL[n as usize % 3],
                ended: Ended::ALL[n as usize % Ended::ALL.len()],
                verdict: Cause::ALL[n as usize % Cause::ALL.len()],
                srtt_us: Some(1 << (n % 31)),
                handshake_us: Some(u64::from(n) << (n % 31)),
                duration_us: Some(1 << (n % 60)),
                bytes_acked: 1 << (n % 60),
                bytes_received: 1 << (n % 50),
                retransmitted: n,
                retransmitted_by_recovery: Some(n / 3),
                ..Connection::default()
            };
            metrics.count(&row, &name(n));
        }
        metrics
    }

    fn families(metrics: &Metrics) -> Vec<MetricFamily> {
        prometheus_protobuf::encode(&metrics.registry).unwrap()
    }

    fn series_of_text(metrics: &Metrics) -> usize {
        metrics.text().lines().filter(|line| !line.starts_with('#')).count()
    }

    #[test]
    fn whatever_the_programs_are_called_the_series_stay_below_300() {
        let hostile =
            ["\"", "\\", "\n", "}", "{a=\"b\"} 1\n# EOF", "é😀", "\u{fffd}", "\u{0}", " "];
        let names: [&dyn Fn(u32) -> String; 2] = [&|n| format!("program-{n}"), &|n| {
            format!("{}{n}", hostile[n as usize % hostile.len()])
        }];
        for name in names {
            let metrics = busy_machine(5000, name);
            let series = series_of_text(&metrics);
            assert!((200..=300).contains(&series), "{series} series");
            let native: usize = families(&metrics).iter().map(|family| family.metric.len()).sum();
            assert!(native < series, "{native} of {series}");
            assert!(metrics.text().contains("transom_tcp_connections_total{workload=\"other\"}"));
        }
    }

    #[test]
    fn a_name_cannot_add_a_line_or_a_label() {
        let evil = "x\"} 1\nforged{a=\"b\\";
        let metrics = busy_machine(1, |_| evil.into());
        let text = metrics.text();
        assert!(text.contains(r#"{workload="x\"} 1\nforged{a=\"b\\"}"#), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
        assert_eq!(text.matches("# EOF").count(), 1);
    }

    #[test]
    fn every_metric_has_its_definition_and_no_other_is_served() {
        let served = families(&busy_machine(100, |n| n.to_string()));
        let mut names: BTreeSet<String> = BTreeSet::new();
        for family in &served {
            let definition = define::ALL.iter().find(|d| d.series() == family.name);
            let definition = definition.unwrap_or_else(|| panic!("{} is undefined", family.name));
            let kind = match definition.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            assert_eq!(family.r#type, i32::from(kind), "{}", family.name);
            let labels: Vec<&str> =
                family.metric[0].label.iter().map(|label| label.name.as_str()).collect();
            assert_eq!(labels, definition.labels, "{}", family.name);
            names.insert(family.name.clone());
        }
        let defined: BTreeSet<String> = define::ALL.iter().map(Definition::series).collect();
        assert_eq!(names, defined);
    }

    fn histogram_of(metrics: &Metrics, definition: &Definition) -> Sample {
        let served = families(metrics);
        served.into_iter().find(|f| f.name == definition.series()).unwrap().metric.remove(0)
    }

    #[test]
    fn histograms_have_native_buckets_that_stay_few() {
        let metrics = busy_machine(5000, |n| n.to_string());
        for definition in define::ALL.iter().filter(|d| d.kind == Kind::Histogram) {
            let sample = histogram_of(&metrics, definition).histogram.unwrap();
            let native = sample.positive_delta.len();
            assert!((10..=160).contains(&native), "{}: {native}", definition.name);
            let mut bucket = 0;
            let counts = sample.positive_delta.iter().map(|delta| {
                bucket += delta;
                bucket as u64
            });
            assert_eq!(counts.sum::<u64>() + sample.zero_count, sample.sample_count);
            assert_eq!(sample.bucket.last().unwrap().cumulative_count, sample.sample_count);
        }
    }

    /// A percentile of classic buckets may be anywhere between two bounds.
    #[test]
    fn handshakes_above_the_threshold_of_the_alert_and_below_it_share_no_bucket() {
        let sample = histogram_of(&busy_machine(1, |n| n.to_string()), &define::HANDSHAKE);
        let buckets = sample.histogram.unwrap().bucket;
        let bounds: Vec<f64> = buckets.iter().map(|bucket| bucket.upper_bound).collect();
        assert!(bounds.contains(&alerts::SLOW_HANDSHAKE), "{bounds:?}");
    }

    #[test]
    fn series_of_a_workload_that_lost_its_place_end() {
        let mut metrics = busy_machine(40, |n| n.to_string());
        let before = series_of_text(&metrics);
        let tomorrow = Instant::now() + std::time::Duration::from_secs(25 * 3600);
        metrics.count_at(&Connection::default(), "new", tomorrow);
        assert_eq!(series_of_text(&metrics), before);
        assert!(metrics.text().contains("workload=\"new\""));
    }
}

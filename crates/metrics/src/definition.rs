//! What a metric is: its name, unit and labels, and where its number comes from.

use prometheus_client::registry::{Metric, Registry, Unit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Base units only, as Prometheus asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    One,
    Bytes,
    Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Without unit and `_total`.
    pub name: &'static str,
    pub kind: Kind,
    pub base: Base,
    pub labels: &'static [&'static str],
    /// It rises with interim rows, too: every five minutes for each connection that goes on.
    pub by_interim_rows: bool,
    /// Without a full stop, which the encoders add.
    pub help: &'static str,
    /// Where the number comes from.
    pub source: &'static str,
    /// OpenTelemetry's name, with its attributes; empty: it proposes none.
    pub otel: &'static str,
}

impl Definition {
    /// As queries name it.
    pub fn series(&self) -> String {
        let unit = self.unit().map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
        let total = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("{}{unit}{total}", self.name)
    }

    pub fn register(&self, to: &mut Registry, metric: impl Metric) {
        match self.unit() {
            Some(unit) => to.register_with_unit(self.name, self.help, unit, metric),
            None => to.register(self.name, self.help, metric),
        }
    }

    fn unit(&self) -> Option<Unit> {
        match self.base {
            Base::One => None,
            Base::Bytes => Some(Unit::Bytes),
            Base::Seconds => Some(Unit::Seconds),
        }
    }
}

pub(crate) const PLAIN: Definition = Definition {
    name: "",
    kind: Kind::Gauge,
    base: Base::One,
    labels: &[],
    by_interim_rows: false,
    help: "",
    source: "",
    otel: "",
};

pub(crate) const COUNTED: Definition = Definition { kind: Kind::Counter, ..PLAIN };

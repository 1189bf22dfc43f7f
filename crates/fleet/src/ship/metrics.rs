//! What is told to Prometheus: a file for the text collector of its node exporter, since nothing
//! listens on the hosts of a fleet.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use anyhow::Result;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use transom_metrics::ship as define;
use transom_output::note;

use super::files::Waiting;
use crate::text_collector;

type Label = [(&'static str, &'static str); 1];

pub struct Metrics {
    path: PathBuf,
    registry: Registry,
    files: Family<Label, Counter>,
    rows: Family<Label, Counter>,
    bytes: Counter,
    given_up: Family<Label, Counter>,
    waiting: Gauge,
    oldest: Gauge<f64, AtomicU64>,
    aside: Gauge,
    troubles: Family<Label, Counter>,
    /// Registered when it is known: 0 is a time, too.
    success: Option<Gauge<f64, AtomicU64>>,
    is_refused: bool,
}

impl Metrics {
    /// # Errors
    /// The file could not be written.
    pub fn at(path: PathBuf) -> Result<Metrics> {
        text_collector::try_out(&path)?;
        let before = text_collector::told(&path, &define::LAST_LOOK).filter(|at_s| *at_s > 0.0);
        let mut metrics = Metrics {
            path,
            registry: Registry::default(),
            files: Family::default(),
            rows: Family::default(),
            bytes: Counter::default(),
            given_up: Family::default(),
            waiting: Gauge::default(),
            oldest: Gauge::default(),
            aside: Gauge::default(),
            troubles: Family::default(),
            success: None,
            is_refused: false,
        };
        metrics.register();
        if let Some(at_s) = before {
            metrics.succeeded(at_s);
        }
        Ok(metrics)
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        define::FILES.register(to, self.files.clone());
        define::ROWS.register(to, self.rows.clone());
        define::BYTES.register(to, self.bytes.clone());
        define::GIVEN_UP.register(to, self.given_up.clone());
        define::WAITING.register(to, self.waiting.clone());
        define::OLDEST.register(to, self.oldest.clone());
        define::REFUSED.register(to, self.aside.clone());
        define::TROUBLES.register(to, self.troubles.clone());
    }

    fn succeeded(&mut self, at_s: f64) {
        let register = || {
            let gauge = Gauge::default();
            define::LAST_LOOK.register(&mut self.registry, gauge.clone());
            gauge
        };
        self.success.get_or_insert_with(register).set(at_s);
    }

    pub fn landed(&mut self, table: &'static str, rows: u64, bytes: u64) {
        self.files.get_or_create(&[("table", table)]).inc();
        self.rows.get_or_create(&[("table", table)]).inc_by(rows);
        self.bytes.inc_by(bytes);
    }

    pub fn given_up(&mut self, table: &'static str, rows: u64) {
        self.given_up.get_or_create(&[("table", table)]).inc_by(rows);
    }

    pub fn trouble(&mut self, kind: &'static str) {
        self.troubles.get_or_create(&[("refusal", kind)]).inc();
    }

    /// After each look at the spool, and each trouble.
    pub fn look(&mut self, waiting: &[Waiting], aside: usize) {
        self.waiting.set(i64::try_from(waiting.len()).unwrap_or(i64::MAX));
        self.oldest
            .set(waiting.iter().filter_map(Waiting::age).max().unwrap_or_default().as_secs_f64());
        self.aside.set(i64::try_from(aside).unwrap_or(i64::MAX));
        if waiting.is_empty() {
            self.succeeded(text_collector::now_s());
        }
        // Rows are worth more than what is told of them: it goes on, and says so once.
        match self.write() {
            Ok(()) => self.is_refused = false,
            Err(error) if !self.is_refused => {
                note!("{error:#}; files go on landing");
                self.is_refused = true;
            }
            Err(_) => {}
        }
    }

    fn write(&self) -> Result<()> {
        text_collector::write(&self.path, &self.registry)
    }
}

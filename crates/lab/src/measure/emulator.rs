//! What the emulator's log says of a whole run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use transom_emulator::log::Log;

/// The metrics of `metrics::RUN_METRICS` that are the emulator's.
pub fn numbers(path: &Path) -> Result<BTreeMap<String, f64>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let log: Log =
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
    let mut numbers = BTreeMap::from([
        ("lateness_p99_ms".to_owned(), log.lateness.p99_ms),
        ("emulator_cpu_s".to_owned(), log.cpu_s),
        ("receive_drops".to_owned(), log.totals.receive_drops as f64),
        ("sending_queue_drops".to_owned(), log.totals.sending_queue_drops as f64),
    ]);
    if let Some(air) = log.air {
        let up: u64 = air.stations.iter().map(|station| station.retry_drops).sum();
        let share = air.collisions as f64 / air.accesses.max(1) as f64;
        numbers.insert("air_busy".to_owned(), air.busy_share);
        numbers.insert("collisions".to_owned(), share);
        numbers.insert("air_drops_up".to_owned(), up as f64);
        numbers.insert("air_drops_down".to_owned(), air.access_point.retry_drops as f64);
    }
    Ok(numbers)
}

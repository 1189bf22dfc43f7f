//! What a run cost in CPU time.

use std::path::Path;

use anyhow::{Context, Result};

use crate::flows::cpu::{FILE, Spent};
use crate::flows::waiting::Waited;
use crate::metrics::Measured;

/// Puts the metrics that are of CPU time; a folder from before them has none. `gbit`: what all flows
/// received, at `sum_mbit` while all of them sent.
pub fn put(run_dir: &Path, sum_mbit: f64, gbit: f64, measured: &mut Measured) -> Result<()> {
    let path = run_dir.join(FILE);
    let Ok(bytes) = std::fs::read(&path) else { return Ok(()) };
    let spent: Spent =
        serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?;
    if let Some(machine) = spent.machine {
        measured.run.insert("cpu_busy".to_owned(), machine.busy_s / machine.all_s);
        let meanwhile = sum_mbit * machine.seconds / 1e3;
        if meanwhile > 0.0 {
            measured.run.insert("cpu_s_per_gbit".to_owned(), machine.busy_s / meanwhile);
        }
    }
    let programs =
        spent.flows.values().map(|programs| programs.from_s + programs.to_s).sum::<f64>();
    let all_told = spent.flows.len() == measured.flows.len();
    if let Some(emulator) = measured.run.get("emulator_cpu_s").filter(|_| gbit > 0.0 && all_told) {
        let own = (emulator + programs) / gbit;
        measured.run.insert("cpu_own_s_per_gbit".to_owned(), own);
    }
    let waited = |it: Option<Waited>| it.map(|it| it.waited);
    let both = spent.flows.values().flat_map(|it| [it.from_waited, it.to_waited]);
    if let Some(longest) = both.filter_map(waited).reduce(f64::max) {
        measured.run.insert("cpu_wait".to_owned(), longest);
    }
    if let Some(longest) = waited(spent.receiving) {
        measured.run.insert("cpu_receiving_wait".to_owned(), longest);
    }
    for (name, programs) in spent.flows {
        let Some(numbers) = measured.flows.get_mut(&name) else { continue };
        let each = [
            ("cpu_from_s", Some(programs.from_s)),
            ("cpu_to_s", Some(programs.to_s)),
            ("cpu_from_wait", waited(programs.from_waited)),
            ("cpu_to_wait", waited(programs.to_waited)),
        ];
        let known = each.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        numbers.extend(known);
    }
    Ok(())
}

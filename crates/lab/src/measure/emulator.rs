//! What the emulator's log says of a whole run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use transom_emulator::log::{DirectionLog, Log, QueueDelay};

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
    let stages: Vec<DirectionLog> = stages(&log).copied().collect();
    let longest = |of: fn(&QueueDelay) -> f64| {
        stages.iter().map(|stage| of(&stage.queue_delay)).fold(0.0, f64::max)
    };
    let marks: u64 = stages.iter().map(|stage| stage.marked).sum();
    let dropped = log.totals.path_queue_drops + log.totals.outage_drops;
    numbers.insert("queue_drops".to_owned(), dropped as f64);
    numbers.insert("aqm_drops".to_owned(), log.totals.aqm_drops as f64);
    numbers.insert("ecn_marks".to_owned(), marks as f64);
    numbers.insert("queue_delay_ms".to_owned(), longest(|delay| delay.mean_ms));
    numbers.insert("queue_delay_p95_ms".to_owned(), longest(|delay| delay.p95_ms));
    if let Some(air) = log.air {
        let up: u64 = air.stations.iter().map(|station| station.retry_drops).sum();
        let share = air.collisions as f64 / air.accesses.max(1) as f64;
        numbers.insert("air_busy".to_owned(), air.busy_share);
        numbers.insert("collisions".to_owned(), share);
        let senders = || air.stations.iter().chain([&air.access_point]);
        let frames: u64 = senders().map(|sender| sender.frames).sum();
        let transmissions: u64 = senders().map(|sender| sender.transmissions).sum();
        if transmissions > 0 {
            let mean = frames as f64 / transmissions as f64;
            numbers.insert("frames_per_transmission".to_owned(), mean);
        }
        numbers.insert("air_drops_up".to_owned(), up as f64);
        numbers.insert("air_drops_down".to_owned(), air.access_point.retry_drops as f64);
    }
    Ok(numbers)
}

/// Of all links, the air aside.
fn stages(log: &Log) -> impl Iterator<Item = &DirectionLog> {
    let cellular = log.cellular.iter().flat_map(|host| [&host.up, &host.down]);
    let further = log.stages.iter().map(|stage| &stage.log);
    [&log.up, &log.down].into_iter().chain(cellular).chain(further)
}

#[cfg(test)]
mod tests {
    use transom_emulator::log::StageLog;

    use super::*;

    #[test]
    fn what_queues_did_is_summed_over_all_links_and_their_longest_wait_is_taken() {
        let queue_delay = |mean_ms| QueueDelay { mean_ms, ..QueueDelay::default() };
        let stage = |marked, mean_ms| DirectionLog {
            marked,
            queue_delay: queue_delay(mean_ms),
            ..DirectionLog::default()
        };
        let further = StageLog { name: "a link up".into(), log: stage(2, 7.0) };
        let mut log = Log { up: stage(1, 5.0), stages: vec![further], ..Log::default() };
        (log.totals.aqm_drops, log.totals.path_queue_drops, log.totals.outage_drops) = (4, 3, 2);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, serde_json::to_string(&log).unwrap()).unwrap();
        let numbers = numbers(file.path()).unwrap();
        assert_eq!((numbers["ecn_marks"], numbers["queue_delay_ms"]), (3.0, 7.0));
        assert_eq!((numbers["aqm_drops"], numbers["queue_drops"]), (4.0, 5.0));
    }
}

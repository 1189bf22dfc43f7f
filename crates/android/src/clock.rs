//! The device's clocks beside the host's.
//!
//! The host asks, the device reads its clocks, the host hears the answer. The device read them
//! between the two, so their offset is known to half of that time; of many round trips the least
//! one counts.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::call::Next;
use crate::program::Installed;
use crate::recording::Lying;

/// More of them find no shorter one (docs/android.md).
const ROUND_TRIPS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(10);

/// Both clocks at one moment, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub boottime: i64,
    pub realtime: i64,
    /// How long reading took.
    pub took: i64,
}

fn ns(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

impl Reading {
    pub fn now() -> Reading {
        let before = ns(ClockId::Boottime);
        let realtime = ns(ClockId::Realtime);
        let took = ns(ClockId::Boottime) - before;
        Reading { boottime: before + took / 2, realtime, took }
    }

    pub fn line(self) -> String {
        format!("{} {} {}", self.boottime, self.realtime, self.took)
    }

    fn of_line(line: &str) -> Option<Reading> {
        let numbers: Option<Vec<i64>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        match numbers?.as_slice() {
            &[boottime, realtime, took] => Some(Reading { boottime, realtime, took }),
            _ => None,
        }
    }
}

/// How far the device's clocks are ahead of the host's, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Device's CLOCK_BOOTTIME minus the host's, ns.
    pub boottime: i64,
    /// Device's CLOCK_REALTIME minus the host's, ns.
    pub realtime: i64,
    /// Both are known to plus or minus this, ns.
    pub error: i64,
    /// The least round trip, ns.
    pub round_trip: i64,
    /// When: the host's CLOCK_BOOTTIME, ns.
    pub at: i64,
}

impl Relation {
    /// From the host's clocks when it asked and when it had the answer.
    fn of(asked: Reading, device: Reading, heard: Reading) -> Relation {
        let round_trip = heard.boottime - asked.boottime;
        let middle = asked.boottime + round_trip / 2;
        let host_realtime = asked.realtime + round_trip / 2;
        Relation {
            boottime: device.boottime - middle,
            realtime: device.realtime - host_realtime,
            error: (round_trip + device.took + asked.took + heard.took + 1) / 2,
            round_trip,
            at: middle,
        }
    }

    /// Asks the device.
    ///
    /// # Errors
    /// It is lost.
    pub fn measure(installed: &Installed) -> Result<Relation> {
        let mut call = installed.device.call(&installed.script(&["clock".to_owned()]))?;
        let mut least: Option<Relation> = None;
        for _ in 0..ROUND_TRIPS {
            let asked = Reading::now();
            call.tell("?").context("asking the device for its time")?;
            let line = match call.next(PATIENCE)? {
                Next::Out(line) => line,
                Next::Err(line) => bail!("the device does not tell its time: {line}"),
                Next::Ended(code) => bail!("the device tells no time: exit code {code}"),
                Next::Silent => bail!("the device has told no time for {PATIENCE:?}"),
            };
            let heard = Reading::now();
            let device = Reading::of_line(&line)
                .with_context(|| format!("the device told as its time '{line}'"))?;
            let relation = Relation::of(asked, device, heard);
            if least.is_none_or(|least| relation.error < least.error) {
                least = Some(relation);
            }
        }
        call.close_input();
        least.context("no round trip")
    }

    fn as_json(&self) -> Value {
        json!({
            "host_boottime_ns": self.at,
            "boottime_offset_ns": self.boottime,
            "realtime_offset_ns": self.realtime,
            "error_ns": self.error,
            "round_trip_ns": self.round_trip,
        })
    }

    fn of_json(value: &Value) -> Option<Relation> {
        let number = |key: &str| value[key].as_i64();
        Some(Relation {
            boottime: number("boottime_offset_ns")?,
            realtime: number("realtime_offset_ns")?,
            error: number("error_ns")?,
            round_trip: number("round_trip_ns")?,
            at: number("host_boottime_ns")?,
        })
    }

    /// `the device's wall clock is 12.345 ms ahead of this host's, ± 0.187 ms`.
    pub fn words(&self) -> String {
        let side = match self.realtime {
            offset if offset.abs() <= self.error => "this host's".to_owned(),
            offset if offset < 0 => format!("{} behind this host's", time(-offset)),
            offset => format!("{} ahead of this host's", time(offset)),
        };
        format!(
            "the device's wall clock is {side}, ± {} (half of the least of {ROUND_TRIPS} round trips)",
            time(self.error),
        )
    }
}

fn time(ns: i64) -> String {
    match ns {
        0..10_000_000_000 => format!("{:.3} ms", ns as f64 / 1e6),
        _ => format!("{:.3} s", ns as f64 / 1e9),
    }
}

/// The clocks when a recording began and when it was fetched, as far as this host was there.
#[derive(Clone, Debug, Default)]
pub struct Relations {
    pub before: Option<Relation>,
    pub after: Option<Relation>,
    /// Whether the device was restarted in between: its boot clock is then another one, and the
    /// recording's times are not of that.
    pub restarted: bool,
}

impl Relations {
    /// How fast the device's boot clock runs away from the host's, ppm, and how well that is known.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        let (before, after) = (self.before?, self.after.filter(|_| !self.restarted)?);
        let time = (after.at - before.at) as f64;
        if time <= 0.0 {
            return None;
        }
        let drift = (after.boottime - before.boottime) as f64 / time * 1e6;
        Some((drift, (after.error + before.error) as f64 / time * 1e6))
    }

    /// What goes beside the trace: docs/android.md explains it.
    pub fn as_json(&self, serial: &str, lying: &Lying) -> Value {
        let thousandths = |ppm: f64| (ppm * 1e3).round() / 1e3;
        let (drift, error) = self.drift_ppm().unzip();
        let mut after = self.after.map(|relation| relation.as_json());
        if let Some(after) = after.as_mut().filter(|_| self.restarted) {
            after["boottime_offset_ns"] = Value::Null;
        }
        json!({
            "device": serial,
            "device_boot_id": lying.boot_id(),
            "clock_step_s": lying.done().map(|done| &done["clock_step_s"]),
            "host_boot_id": host_boot_id(),
            "before": self.before.map(|relation| relation.as_json()),
            "after": after,
            "drift_ppm": drift.map(thousandths),
            "drift_error_ppm": error.map(thousandths),
        })
    }
}

/// A relation as the device keeps it with a recording, and which boot of which host it is of.
pub fn note_of(relation: &Relation) -> Value {
    json!({ "host_boot_id": host_boot_id(), "relation": relation.as_json() })
}

/// The relation in such a note, if it is of this host as it runs now.
pub fn of_note(note: &Value) -> Option<Relation> {
    let ours = note["host_boot_id"].as_str() == Some(host_boot_id().as_str());
    if ours { Relation::of_json(&note["relation"]) } else { None }
}

fn host_boot_id() -> String {
    boot_id().unwrap_or_default()
}

/// # Errors
/// There is no /proc.
pub fn boot_id() -> Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("boot_id")?;
    ensure!(!text.is_empty(), "no boot_id");
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(boottime: i64, realtime: i64) -> Reading {
        Reading { boottime, realtime, took: 0 }
    }

    #[test]
    fn the_true_offset_is_within_the_error_however_unequal_the_ways_are() {
        const AHEAD: i64 = 5_000_000;
        for (there, back) in [(0, 1_000_000), (1_000_000, 0), (300_000, 700_000), (1, 2)] {
            let asked = reading(1_000, 900_000);
            let device = reading(1_000 + there + AHEAD, 900_000 + there - AHEAD);
            let heard = reading(1_000 + there + back, 900_000 + there + back);
            let relation = Relation::of(asked, device, heard);
            assert!((relation.boottime - AHEAD).abs() <= relation.error, "{relation:?}");
            assert!((relation.realtime + AHEAD).abs() <= relation.error, "{relation:?}");
            assert!(relation.error <= (there + back) / 2 + 1, "{relation:?}");
        }
    }

    #[test]
    fn the_drift_is_what_the_offset_changed_by() {
        let at = |at, boottime| Relation { boottime, realtime: 0, error: 1_000, round_trip: 0, at };
        let after = Some(at(10_000_000_000, 250_000));
        let relations = Relations { before: Some(at(0, 150_000)), after, restarted: false };
        let (drift, error) = relations.drift_ppm().unwrap();
        assert!((drift - 10.0).abs() < 1e-9 && (error - 0.2).abs() < 1e-9, "{drift} {error}");
        let restarted = Relations { restarted: true, ..relations };
        assert_eq!(restarted.drift_ppm(), None, "two boots have two clocks");
    }

    #[test]
    fn an_offset_within_the_error_is_none() {
        let said = |realtime| {
            Relation { boottime: 0, realtime, error: 200_000, round_trip: 0, at: 0 }.words()
        };
        assert!(said(-150_000).contains("clock is this host's, ± 0.200 ms"), "{}", said(-150_000));
        assert!(said(-2_500_000).contains("2.500 ms behind this host's"), "{}", said(-2_500_000));
        assert!(said(70_000_000_000).contains("70.000 s ahead of"), "{}", said(70_000_000_000));
    }

    #[test]
    fn what_the_device_keeps_is_read_back_on_this_host_only() {
        let relation = Relation { boottime: -7, realtime: 8, error: 9, round_trip: 10, at: 11 };
        let mut note = note_of(&relation);
        assert_eq!(of_note(&note), Some(relation));
        note["host_boot_id"] = "another".into();
        assert_eq!(of_note(&note), None);
    }

    #[test]
    fn a_line_of_the_device_is_read_back() {
        let now = Reading::now();
        assert_eq!(Reading::of_line(&now.line()), Some(now));
        assert_eq!(Reading::of_line("1 2"), None);
    }
}

//! The table `recording` of the configuration, and what the kernel is told of it.

use std::hash::Hasher;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use siphasher::sip128::{Hasher128, SipHasher24};
use transom_machine::cgroup;
use transom_machine::workload::Workload;

use super::condition::Condition;
use super::watch_list::{self, Watch};
use crate::raw::{RawChoice, WATCHES};

/// Before a share of the time says something.
const LEAST_BUSY_US: u32 = 1_000_000;
const DAY_US: i64 = 86_400_000_000;

/// Each key of the table, with what it is without it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recording {
    /// Share of the connections that are recorded, chosen by a hash of both ends.
    pub sample: f64,
    /// 32 hexadecimal digits; machines with the same ones choose the same connections.
    pub sample_key: Option<String>,
    /// At a time.
    pub connections: u32,
    /// MiB of traces in the spool.
    pub mib: u64,
    /// Hours that traces are kept.
    pub hours: u64,
    /// Timeouts of a connection; 0: not a reason.
    pub timeouts: u32,
    /// Share of the data segments.
    pub retransmitted: f64,
    pub handshake_ms: u64,
    /// Share of the time that data waited.
    pub peer_limited: f64,
    /// Segments that this machine's own queue or device refused.
    pub refusals: u32,
    /// Over the columns of a row.
    pub condition: Option<String>,
    pub watch: Vec<Watched>,
}

/// An entry of the watch list; all that is said must hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    pub program: Option<String>,
    pub unit: Option<String>,
    pub port: Option<u16>,
    /// Of the peer.
    pub prefix: Option<String>,
    pub until: toml::value::Datetime,
    /// That of the unit, where it runs.
    #[serde(skip)]
    pub cgroup: Option<u64>,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            sample: 0.0,
            sample_key: None,
            connections: 256,
            mib: 256,
            hours: 72,
            timeouts: 2,
            retransmitted: 0.02,
            handshake_ms: 1000,
            peer_limited: 0.5,
            refusals: 3,
            condition: None,
            watch: Vec::new(),
        }
    }
}

impl Recording {
    /// # Errors
    /// A value is out of its range, or not understood: which, and what is.
    pub fn check(&self) -> Result<()> {
        let shares = [
            ("sample", self.sample),
            ("retransmitted", self.retransmitted),
            ("peer_limited", self.peer_limited),
        ];
        for (name, value) in shares {
            ensure!(
                (0.0..=1.0).contains(&value),
                "recording.{name} = {value}: give a share from 0 to 1"
            );
        }
        let ranges = [
            ("connections", u64::from(self.connections), 1, 16_384),
            ("mib", self.mib, 1, 1 << 20),
            ("hours", self.hours, 1, 24 * 365),
            ("handshake_ms", self.handshake_ms, 0, 3_600_000),
        ];
        for (name, value, least, most) in ranges {
            ensure!(
                (least..=most).contains(&value),
                "recording.{name} = {value}: give a number from {least} to {most}"
            );
        }
        ensure!(
            self.watch.len() <= WATCHES,
            "recording.watch has {} entries: give at most {WATCHES}",
            self.watch.len()
        );
        self.shared_key()?;
        self.condition()?;
        for watched in &self.watch {
            Watch::of(watched)?;
        }
        Ok(())
    }

    /// # Errors
    /// It is not understood: where.
    pub fn condition(&self) -> Result<Option<Condition>> {
        let of = |text: &String| {
            Condition::parse(text).with_context(|| format!("recording.condition = \"{text}\""))
        };
        self.condition.as_ref().map(of).transpose()
    }

    fn shared_key(&self) -> Result<Option<[u8; 16]>> {
        let Some(text) = &self.sample_key else { return Ok(None) };
        let key = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
        let key = key.context(
            "recording.sample_key: give 32 hexadecimal digits, the same on all machines that are \
             to choose the same connections: openssl rand -hex 16",
        )?;
        Ok(Some(key.to_be_bytes()))
    }

    /// A unit that runs now has a cgroup; it has another one when it is started again.
    pub fn find_cgroups(&mut self) {
        for watched in &mut self.watch {
            let Some(unit) = &watched.unit else { continue };
            let found = Workload::Unit(unit.clone()).cgroup().and_then(|path| cgroup::id(&path));
            watched.cgroup = found.ok();
        }
    }

    /// What the kernel is told at this time.
    pub fn choice(
        &self,
        on: bool,
        own_key: &[u8; 16],
        us_per_jiffy: u32,
        wall_us: i64,
    ) -> RawChoice {
        let key = self.shared_key().ok().flatten().unwrap_or(*own_key);
        let mut choice = RawChoice {
            sample_below: below(self.sample),
            sample_key: key_of_day(&key, wall_us.div_euclid(DAY_US)),
            handshake_ns: self.handshake_ms * 1_000_000,
            on: on.into(),
            most: self.connections,
            timeouts: self.timeouts,
            refusals: self.refusals,
            retransmitted_ppm: (self.retransmitted * 1e6) as u32,
            peer_limited_ppm: (self.peer_limited * 1e6) as u32,
            least_busy: LEAST_BUSY_US / us_per_jiffy.max(1),
            snapshots: self.condition.is_some().into(),
            ..RawChoice::default()
        };
        let hold = watch_list::hold(&self.watch, wall_us);
        for (slot, watch) in choice.watch.iter_mut().zip(hold) {
            *slot = watch;
            choice.watches += 1;
        }
        choice
    }
}

/// Numbers below it are in the sample.
fn below(share: f64) -> u64 {
    if share >= 1.0 { u64::MAX } else { (share * 2f64.powi(64)) as u64 }
}

/// Another one each day (UTC), so that no connection of a program that reconnects from the same
/// port is chosen for ever.
fn key_of_day(key: &[u8; 16], day: i64) -> [u64; 2] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(&day.to_le_bytes());
    let hash = hasher.finish128();
    [hash.h1, hash.h2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let settings: Recording = toml::from_str(text).unwrap();
        format!("{:#}", settings.check().unwrap_err())
    }

    #[test]
    fn a_mistake_is_named_with_what_is_possible() {
        assert!(refusal("sample = 2").contains("recording.sample = 2: give a share from 0 to 1"));
        assert!(refusal("sample_key = 'secret'").contains("openssl rand -hex 16"));
        assert!(refusal("hours = 0").contains("recording.hours = 0"));
        assert!(refusal("condition = 'rtt > 3'").contains("rtt"));
        let endless = toml::from_str::<Recording>("[[watch]]\nport = 80").unwrap_err().to_string();
        assert!(endless.contains("until"), "{endless}");
    }

    #[test]
    fn the_key_is_the_same_on_all_machines_and_another_one_each_day() {
        let settings: Recording =
            toml::from_str("sample = 0.5\nsample_key = '000102030405060708090a0b0c0d0e0f'")
                .unwrap();
        let at = |own: u8, wall_us: i64| settings.choice(true, &[own; 16], 4000, wall_us);
        assert_eq!(at(1, 5).sample_key, at(2, DAY_US - 1).sample_key);
        assert_ne!(at(1, 5).sample_key, at(1, DAY_US).sample_key);
        let own = Recording { sample_key: None, ..settings };
        let key = |own_key: u8| own.choice(true, &[own_key; 16], 4000, 5).sample_key;
        assert_ne!(key(1), key(2));
    }

    #[test]
    fn a_share_of_the_numbers_is_a_share_of_the_connections() {
        assert_eq!((below(0.0), below(1.0)), (0, u64::MAX));
        assert_eq!(below(0.5), 1 << 63);
    }
}

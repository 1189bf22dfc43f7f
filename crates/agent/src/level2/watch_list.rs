//! The watch list: connections that are recorded until a time that each entry names.

use anyhow::{Context, Result, anyhow, ensure};
use chrono::DateTime;
use transom_event::Prefix;

use super::settings::Watched;
use crate::raw::RawWatch;

/// An entry, understood.
pub struct Watch {
    raw: RawWatch,
    until_us: i64,
}

impl Watch {
    /// # Errors
    /// What it says cannot be: which, and what can.
    pub fn of(watched: &Watched) -> Result<Watch> {
        let mut raw = RawWatch {
            cgroup: watched.cgroup.unwrap_or(0),
            port: watched.port.unwrap_or(0),
            port_counts: watched.port.is_some().into(),
            ..RawWatch::default()
        };
        ensure!(
            watched.program.is_some()
                || watched.unit.is_some()
                || watched.port.is_some()
                || watched.prefix.is_some(),
            "an entry of recording.watch says nothing: give program, unit, port or prefix"
        );
        ensure!(watched.port != Some(0), "recording.watch: port 0 is none");
        if let Some(program) = &watched.program {
            let bytes = program.as_bytes();
            ensure!(
                (1..16).contains(&bytes.len()),
                "recording.watch: program = \"{program}\": the kernel's names have 1 to 15 bytes"
            );
            let mut comm = [0; 16];
            comm[..bytes.len()].copy_from_slice(bytes);
            (raw.comm, raw.comm_mask) = (bytemuck::cast(comm), u64::MAX);
        }
        if let Some(prefix) = &watched.prefix {
            let parsed: Prefix =
                prefix.parse().map_err(|error| anyhow!("recording.watch: prefix: {error}"))?;
            let (family, address) = parsed.family_and_bytes();
            (raw.family, raw.family_counts) = (family, 1);
            raw.address = bytemuck::cast(address);
            raw.address_mask = bytemuck::cast(mask(parsed.length));
        }
        Ok(Watch { raw, until_us: until_us(&watched.until)? })
    }
}

/// As many leading ones.
fn mask(bits: u8) -> [u8; 16] {
    let ones = |byte: u8| bits.saturating_sub(8 * byte).min(8);
    std::array::from_fn(|byte| !(0xff_u16 >> ones(byte as u8)) as u8)
}

fn until_us(until: &toml::value::Datetime) -> Result<i64> {
    let time = DateTime::parse_from_rfc3339(&until.to_string()).ok().with_context(|| {
        format!(
            "recording.watch: until = {until}: give date, time and zone, as 2026-11-24T12:00:00Z"
        )
    })?;
    Ok(time.timestamp_micros())
}

/// What is possible, and perhaps not meant: entries whose time is over or whose unit does not run.
pub fn doubts(list: &[Watched], wall_us: i64) -> Vec<String> {
    let doubt = |watched: &Watched| {
        let Watched { until, .. } = watched;
        if until_us(until).is_ok_and(|until_us| until_us <= wall_us) {
            return Some(format!(
                "an entry of recording.watch ended at {until}, and chooses nothing"
            ));
        }
        let unit = watched.unit.as_ref().filter(|_| watched.cgroup.is_none())?;
        Some(format!("recording.watch: {unit} does not run: its entry waits until it does"))
    };
    list.iter().filter_map(doubt).collect()
}

/// The entries that hold at this time. That of a unit that does not run holds for nothing.
pub fn hold(list: &[Watched], wall_us: i64) -> impl Iterator<Item = RawWatch> {
    let runs = |watched: &&Watched| watched.unit.is_none() || watched.cgroup.is_some();
    let understood = list.iter().filter(runs).filter_map(|watched| Watch::of(watched).ok());
    understood.filter(move |watch| wall_us < watch.until_us).map(|watch| watch.raw)
}

#[cfg(test)]
mod tests {
    use super::super::settings::Recording;
    use super::*;

    fn list(text: &str) -> Vec<Watched> {
        toml::from_str::<Recording>(text).unwrap().watch
    }

    #[test]
    fn an_entry_holds_until_its_time_and_no_longer() {
        let list = list("[[watch]]\nport = 443\nuntil = 1970-01-01T01:00:00+00:30");
        let holds = |us: i64| hold(&list, us).count();
        assert_eq!((holds(0), holds(1_799_999_999), holds(1_800_000_000)), (1, 1, 0));
        assert_eq!(hold(&list, 0).next().unwrap().port, 443);
    }

    #[test]
    fn a_mask_has_as_many_ones_as_its_prefix() {
        for bits in 0..=128 {
            let expected = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            assert_eq!(u128::from_be_bytes(mask(bits)), expected);
        }
    }

    #[test]
    fn a_unit_that_does_not_run_holds_for_nothing() {
        let mut list = list("[[watch]]\nunit = 'no-such.service'\nuntil = 2100-01-01T00:00:00Z");
        assert_eq!(hold(&list, 0).count(), 0);
        list[0].cgroup = Some(7);
        assert_eq!(hold(&list, 0).next().unwrap().cgroup, 7);
    }

    #[test]
    fn an_entry_that_chooses_nothing_is_told() {
        let mut list = list("[[watch]]\nunit = 'no-such.service'\nuntil = 1970-01-01T00:00:01Z");
        let told = |list: &[Watched], us| doubts(list, us).join("\n");
        assert!(told(&list, 0).contains("no-such.service does not run"));
        assert!(told(&list, 1_000_000).contains("ended at 1970-01-01T00:00:01Z"));
        list[0].cgroup = Some(7);
        assert_eq!(told(&list, 0), "");
    }

    #[test]
    fn an_entry_that_cannot_be_is_named() {
        let refusal = |text: &str| {
            let text = format!("[[watch]]\nuntil = 2100-01-01T00:00:00Z\n{text}");
            Watch::of(&list(&text)[0]).err().unwrap().to_string()
        };
        assert!(refusal("").contains("says nothing"));
        assert!(refusal("program = 'longer-than-16-bytes'").contains("1 to 15"));
        assert!(refusal("prefix = '10.0.0.0/40'").contains("/40"));
        let local = list("[[watch]]\nport = 1\nuntil = 2026-11-24T12:00:00");
        assert!(Watch::of(&local[0]).err().unwrap().to_string().contains("zone"));
    }
}

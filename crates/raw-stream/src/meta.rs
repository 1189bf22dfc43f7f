//! What a trace file says about itself: key/value pairs, the same in both formats.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use transom_event::LossCause;

/// Version of the columns and of the metadata. A reader refuses a higher one;
/// new columns and keys do not raise it, a changed meaning does.
pub const FORMAT_VERSION: u32 = 2;

const PREFIX: &str = "transom.";
const EXTRA: &str = "transom.extra.";
const LOST: &str = "transom.lost.";
const FORMAT: &str = "transom.format";

/// Where, when and how a trace was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Version of the program that recorded.
    pub transom_version: String,
    /// `uname -r`.
    pub kernel: String,
    pub host: String,
    /// `/proc/sys/kernel/random/boot_id`: cookies and times compare only within one boot.
    pub boot_id: String,
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME at the start, ns: add it to `time_ns` for wall time.
    pub realtime_offset_ns: i64,
    pub command_line: String,
    /// The filters, as the user wrote them.
    pub filters: String,
    /// Which probe and tier gave which events.
    pub probes: String,
    /// Size of the ring buffer, bytes.
    pub ring_bytes: u64,
    /// Length of a jiffy of that kernel, µs; 0 = not known.
    pub us_per_jiffy: u32,
    /// Anything else worth keeping.
    pub extra: BTreeMap<String, String>,
}

/// What is only known at the end of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Rows of the file. The writer fills it in.
    pub events: u64,
    /// Events that could not be recorded, by cause.
    pub lost: BTreeMap<LossCause, u64>,
    /// End of the recording, CLOCK_BOOTTIME, ns.
    pub end_ns: u64,
    /// How far the wall clock was moved while it ran, ns: the column `time_utc` does not follow.
    pub clock_step_ns: i64,
}

impl Meta {
    /// The fields that this machine and this process tell; the rest is left empty.
    pub fn of_this_machine() -> Meta {
        let proc = |name: &str| {
            fs::read_to_string(format!("/proc/sys/kernel/{name}"))
                .map(|text| text.trim().to_owned())
                .unwrap_or_default()
        };
        Meta {
            transom_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: proc("osrelease"),
            host: proc("hostname"),
            boot_id: proc("random/boot_id"),
            realtime_offset_ns: realtime_offset_ns(),
            command_line: command_line(),
            ..Meta::default()
        }
    }

    /// How far apart two `ack` of a connection are at least, as [`Meta::filters`] has it: `rate=10ms`,
    /// or 0 where each is recorded. One for each round trip is told apart by no fixed time.
    pub fn told_apart_ns(&self) -> u64 {
        let rate =
            self.filters.split(' ').filter_map(|word| word.strip_prefix("rate=")).next_back();
        let units = [("ns", 1e0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        let ns = |rate: &str| {
            let (number, unit) = units
                .iter()
                .find_map(|(unit, ns)| Some((rate.strip_suffix(unit)?.parse::<f64>().ok()?, ns)))?;
            Some((number * unit) as u64)
        };
        rate.and_then(ns).unwrap_or(0)
    }

    pub fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = vec![(FORMAT.to_owned(), FORMAT_VERSION.to_string())];
        let mut put = |key: &str, value: String| pairs.push((format!("{PREFIX}{key}"), value));
        put("version", self.transom_version.clone());
        put("kernel", self.kernel.clone());
        put("host", self.host.clone());
        put("boot_id", self.boot_id.clone());
        put("realtime_offset_ns", self.realtime_offset_ns.to_string());
        put("command_line", self.command_line.clone());
        put("filters", self.filters.clone());
        put("probes", self.probes.clone());
        put("ring_bytes", self.ring_bytes.to_string());
        put("us_per_jiffy", self.us_per_jiffy.to_string());
        pairs.extend(self.extra.iter().map(|(k, v)| (format!("{EXTRA}{k}"), v.clone())));
        pairs
    }

    /// Reads the pairs back.
    ///
    /// # Errors
    /// If they are of a version that this program does not know.
    pub fn from_pairs(pairs: &BTreeMap<String, String>) -> Result<Meta> {
        // Another program that saves a trace may leave its metadata out.
        let format = pairs.get(FORMAT).map_or("1", String::as_str);
        let version: u32 =
            format.parse().with_context(|| format!("format version {format:?} is not a number"))?;
        if version > FORMAT_VERSION {
            bail!(
                "it is of format {version}, this program reads up to {FORMAT_VERSION}; \
                 use a newer transom"
            );
        }
        let text = |key: &str| pairs.get(&format!("{PREFIX}{key}")).cloned().unwrap_or_default();
        Ok(Meta {
            transom_version: text("version"),
            kernel: text("kernel"),
            host: text("host"),
            boot_id: text("boot_id"),
            realtime_offset_ns: text("realtime_offset_ns").parse().unwrap_or_default(),
            command_line: text("command_line"),
            filters: text("filters"),
            probes: text("probes"),
            ring_bytes: text("ring_bytes").parse().unwrap_or_default(),
            us_per_jiffy: text("us_per_jiffy").parse().unwrap_or_default(),
            extra: pairs
                .iter()
                .filter_map(|(k, v)| Some((k.strip_prefix(EXTRA)?.to_owned(), v.clone())))
                .collect(),
        })
    }
}

/// Whether the pairs are those of a file that `transom` wrote.
pub fn are_ours(pairs: &BTreeMap<String, String>) -> bool {
    pairs.contains_key(FORMAT)
}

impl Footer {
    pub fn pairs(&self) -> Vec<(String, String)> {
        let mut pairs = vec![
            (format!("{PREFIX}complete"), "true".to_owned()),
            (format!("{PREFIX}events"), self.events.to_string()),
            (format!("{PREFIX}end_ns"), self.end_ns.to_string()),
            (format!("{PREFIX}clock_step_ns"), self.clock_step_ns.to_string()),
        ];
        pairs.extend(self.lost.iter().map(|(cause, n)| (format!("{LOST}{cause}"), n.to_string())));
        pairs
    }

    /// The footer, if the recording came to its end.
    pub fn from_pairs(pairs: &BTreeMap<String, String>) -> Option<Footer> {
        let number = |key: &str| pairs.get(&format!("{PREFIX}{key}"))?.parse().ok();
        if pairs.get(&format!("{PREFIX}complete"))? != "true" {
            return None;
        }
        Some(Footer {
            events: number("events")?,
            end_ns: number("end_ns")?,
            clock_step_ns: pairs
                .get(&format!("{PREFIX}clock_step_ns"))
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            lost: pairs
                .iter()
                .filter_map(|(k, v)| {
                    Some((LossCause::from_name(k.strip_prefix(LOST)?)?, v.parse().ok()?))
                })
                .collect(),
        })
    }
}

/// A file may have a name that is no text: what of it is none is written as the character for that.
fn command_line() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// CLOCK_REALTIME minus CLOCK_BOOTTIME now, ns.
pub fn realtime_offset_ns() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    let ns = |id| {
        let t = clock_gettime(id);
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    };
    ns(ClockId::Realtime) - ns(ClockId::Boottime)
}

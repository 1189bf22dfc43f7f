//! What the agent is told: a file, and flags that stand above it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use transom_output::{in_plain_words, note};

use crate::addresses::Addresses;
use crate::level2::Recording;

/// Where it is looked for.
pub const PATH: &str = "/etc/transom/agent.toml";

/// Each key of the file, with what it is without it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folder for what is kept.
    pub spool: PathBuf,
    /// MiB that may lie there.
    pub spool_mib: u64,
    /// Hours that decisions are kept.
    pub decisions_hours: u64,
    /// Seconds until a file is finished.
    pub file_seconds: u64,
    /// Seconds between two rows of a connection that goes on.
    pub interim_seconds: u64,
    /// Seconds between two looks at all connections.
    pub look_seconds: u64,
    /// 0: one row per connection; 1: and rare decisions; 2: and chosen connections, event by event.
    pub level: u8,
    /// Share of one CPU that agent and probes may take on average.
    pub cpu: f64,
    /// Connections that are remembered at once.
    pub connections: u32,
    pub addresses: Addresses,
    /// How the kernel is asked.
    pub source: Source,
    /// Where /metrics is served; none: nowhere.
    #[serde(deserialize_with = "metrics")]
    pub metrics: Option<SocketAddr>,
    /// Level 2.
    pub recording: Recording,
}

/// Where /metrics is served.
///
/// # Errors
/// It is no address with a port.
pub fn metrics_address(text: &str) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        anyhow!("'{text}' is no address and port: give them in numbers, as 127.0.0.1:9464")
    })
}

fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    metrics_address(&text).map(Some).map_err(D::Error::custom)
}

/// What the file is to have there, where the parser's word for it says too little.
fn with_what_is_wanted(said: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u8", "expected a whole number of 0 or more"),
        ("expected u16", "expected a whole number from 1 to 65535"),
        ("expected u32", "expected a whole number of 0 or more"),
        ("expected struct Recording", "expected a table: [recording]"),
        ("expected a sequence", "expected entries: [[recording.watch]]"),
        ("missing field `until`", "an entry needs its end, as until = 2026-11-24T12:00:00Z"),
        ("expected a TOML datetime", "expected a time with its zone, as 2026-11-24T12:00:00Z"),
    ];
    let found = WORDS.iter().find(|(word, _)| said.ends_with(word));
    let said = said.replace("unknown variant", "unknown value");
    in_plain_words(&found.map_or(said.clone(), |(word, plain)| said.replace(word, plain)))
}

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The probes; where the kernel refuses them, sock_diag.
    Auto,
    Probes,
    /// Without BPF.
    SockDiag,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            spool: "/var/lib/transom/spool".into(),
            spool_mib: 1024,
            decisions_hours: 72,
            file_seconds: 300,
            interim_seconds: 300,
            look_seconds: 10,
            level: 1,
            cpu: 0.01,
            connections: 131_072,
            addresses: Addresses::Prefix,
            source: Source::Auto,
            metrics: None,
            recording: Recording::default(),
        }
    }
}

impl Config {
    /// The file; the one at [`PATH`] may be missing.
    ///
    /// # Errors
    /// It cannot be read, or says what is not possible: with line and remedy.
    pub fn read(named: Option<&Path>) -> Result<Config> {
        let path = named.unwrap_or(Path::new(PATH));
        let text = match transom_output::text_of(path) {
            Ok(text) => text,
            Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let config = toml::from_str::<Config>(&text)
            .map_err(|error| anyhow!(with_what_is_wanted(error.to_string().trim_end())))
            .with_context(|| path.display().to_string())?;
        config.check().with_context(|| path.display().to_string())?;
        Ok(config)
    }

    /// # Errors
    /// A value is out of its range: which, and the range.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.spool.as_os_str().is_empty(), "spool = \"\": give a folder");
        let ranges = [
            ("spool_mib", self.spool_mib, 1, 1 << 20),
            ("decisions_hours", self.decisions_hours, 1, 24 * 365),
            ("file_seconds", self.file_seconds, 1, 3600),
            ("interim_seconds", self.interim_seconds, 1, 86_400),
            ("look_seconds", self.look_seconds, 1, 3600),
            ("level", self.level.into(), 0, 2),
            ("connections", self.connections.into(), 1, 1 << 20),
        ];
        for (name, value, least, most) in ranges {
            ensure!(
                (least..=most).contains(&value),
                "{name} = {value}: give a number from {least} to {most}"
            );
        }
        if !(0.0001..=1.0).contains(&self.cpu) {
            bail!("cpu = {}: give a share of one CPU from 0.0001 to 1", self.cpu);
        }
        self.recording.check()
    }

    /// This one as far as an agent that runs with `running` can take it, and the keys that it
    /// cannot change.
    pub fn over(self, running: &Config) -> (Config, Vec<&'static str>) {
        let taken = Config {
            spool: running.spool.clone(),
            level: running.level,
            interim_seconds: running.interim_seconds,
            source: running.source,
            metrics: running.metrics,
            ..self.clone()
        };
        let differ = [
            ("spool", self.spool != taken.spool),
            ("level", self.level != taken.level),
            ("interim_seconds", self.interim_seconds != taken.interim_seconds),
            ("source", self.source != taken.source),
            ("metrics", self.metrics != taken.metrics),
        ];
        let kept = differ.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
        (taken, kept.collect())
    }

    /// Of a disk smaller than `spool_mib` the spool takes a part, so that its oldest files go and
    /// the newest rows have room. What others have there counts as free: who fills a disk does not
    /// make the agent remove its files.
    #[must_use]
    pub fn within(self, disk: u64) -> Config {
        let most = ((disk >> 20) * 3 / 4).max(1);
        if self.spool_mib <= most {
            return self;
        }
        note!(
            "the spool keeps to {most} MiB, three quarters of its disk: spool_mib = {} is more",
            self.spool_mib
        );
        Config { spool_mib: most, ..self }
    }

    pub fn interim(&self) -> Duration {
        Duration::from_secs(self.interim_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn refusal(text: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("agent.toml");
        fs::write(&file, text).unwrap();
        let said = format!("{:#}", Config::read(Some(&file)).unwrap_err());
        // A name that is drawn may have any letters.
        said.replace(&directory.path().display().to_string(), "")
    }

    #[test]
    fn an_empty_file_is_the_default() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Config::read(Some(file.path())).unwrap(), Config::default());
    }

    #[test]
    fn a_mistake_is_named_with_its_line_or_its_range() {
        let unknown = refusal("level = 1\nspol = \"x\"\n");
        assert!(unknown.contains("line 2") && unknown.contains("spol"), "{unknown}");
        assert!(unknown.ends_with('`'), "what comes after it is on its last line: {unknown}");
        let range = refusal("level = 7\n");
        assert!(range.contains("level = 7: give a number from 0 to 2"), "{range}");
        assert!(refusal("cpu = 0.0\n").contains("cpu = 0"));
        assert!(refusal("spool = ''\n").contains("give a folder"));
        let nowhere = refusal("metrics = \"localhost:9464\"\n");
        assert!(nowhere.contains("line 1") && nowhere.contains("as 127.0.0.1:9464"), "{nowhere}");
    }

    #[test]
    fn what_is_expected_is_said_without_the_names_of_types() {
        for (text, expected) in [
            ("level = 'two'", "cannot be the text \"two\": give a whole number of 0 or more"),
            ("spool_mib = -1", "cannot be -1: give a whole number that is not negative"),
            ("spool_mib = 99999999999999999999", "cannot be 99999999999999999999: give"),
            ("cpu = 'little'", "cannot be the text \"little\": give a number"),
            ("recording = 3", "cannot be 3: give a table: [recording]"),
            ("[recording]\nwatch = 3", "cannot be 3: give entries: [[recording.watch]]"),
            ("[[recording.watch]]\nport = 'https'", "from 1 to 65535"),
            ("[[recording.watch]]\nuntil = 'tomorrow'", "give a time with its zone, as 2026-11-24"),
            ("[[recording.watch]]\nport = 443", "needs its end, as until = 2026-11-24T12:00:00Z"),
            ("addresses = 'none'", "unknown value `none`, expected `prefix` or `full`"),
        ] {
            let said = refusal(text);
            assert!(said.contains(expected), "{text}: {said}");
            assert!(!said.contains("u8") && !said.contains("64") && !said.contains("struct"));
        }
    }

    #[test]
    fn a_disk_that_is_smaller_than_the_limit_lowers_it() {
        let of = |disk| Config::default().within(disk).spool_mib;
        assert_eq!([of(1 << 40), of(2 << 30), of(1 << 30)], [1024, 1024, 768]);
        assert_eq!([of(8 << 20), of(1 << 20), of(0)], [6, 1, 1]);
    }

    #[test]
    fn a_file_that_was_named_must_be_there() {
        let refusal = Config::read(Some(Path::new("/no/such.toml"))).unwrap_err();
        assert!(format!("{refusal:#}").contains("/no/such.toml"));
    }
}

//! The file of names that `transom names` fills and `--names` reads: a line for each address.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result, anyhow, bail};
use transom_output::{bytes_up_to, note};

/// The first line, so that no other file is taken for a cache and replaced.
const HEAD: &str = "# transom names 1: ADDRESS NAME SECONDS-SINCE-1970; no name: -";

/// Names are not shown any longer: an address may have another owner.
pub const SHOWN: Duration = Duration::from_secs(30 * 24 * 3600);
/// A name is asked for again. The resolver does not pass on the time that a DNS server gave.
pub const FRESH: Duration = Duration::from_secs(24 * 3600);
/// The same where there was none: the resolver does not distinguish it from a server that is down.
const NONE_FRESH: Duration = Duration::from_secs(3600);
/// The longest asked for are dropped beyond so many.
const MOST: usize = 50_000;
/// That many take less.
const MOST_MIB: u64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nothing: it has none.
    pub name: Option<String>,
    /// Seconds since 1970.
    pub asked: u64,
}

impl Entry {
    /// None where the clock was set back since.
    pub fn age(&self) -> Duration {
        Duration::from_secs(now().saturating_sub(self.asked))
    }

    pub fn is_fresh(&self) -> bool {
        self.age() < if self.name.is_some() { FRESH } else { NONE_FRESH }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache(pub BTreeMap<IpAddr, Entry>);

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Letters, digits, and what else names of hosts have: nothing that a terminal obeys.
pub fn is_host_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= 253 && text != "-" && text.chars().all(is_part)
}

impl Cache {
    /// What the file holds; nothing if there is none. Lines that are damaged are named and left out.
    ///
    /// # Errors
    /// It cannot be read, or is another file.
    pub fn read(path: &Path) -> Result<Option<Cache>> {
        let bytes = match bytes_up_to(path, MOST_MIB) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read {}: name another file", path.display()));
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        let (cache, damaged) = Cache::parse(&text)
            .with_context(|| format!("{}: remove it, or name another file", path.display()))?;
        if let Some(first) = damaged.first() {
            note!(
                "transom: {}: {} damaged, left out, the first in line {first}",
                path.display(),
                transom_analysis::units::count(damaged.len() as u64, "line is", "lines are"),
            );
        }
        Ok(Some(cache))
    }

    /// Also the numbers of the lines that are damaged.
    fn parse(text: &str) -> Result<(Cache, Vec<usize>)> {
        let mut lines = text.lines().zip(1..);
        // An empty file is what a full disk may leave.
        if lines.next().is_some_and(|(line, _)| line != HEAD) {
            bail!("it is no cache of names: those begin with '{HEAD}'");
        }
        let (mut cache, mut damaged) = (Cache::default(), Vec::new());
        for (line, number) in lines.filter(|(line, _)| !line.starts_with('#')) {
            match Cache::entry(line) {
                Some((address, entry)) => drop(cache.0.insert(address, entry)),
                None => damaged.push(number),
            }
        }
        Ok((cache, damaged))
    }

    fn entry(line: &str) -> Option<(IpAddr, Entry)> {
        let [address, name, asked] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let name = match name {
            "-" => None,
            name if is_host_name(name) => Some(name.to_owned()),
            _ => return None,
        };
        Some((address.parse().ok()?, Entry { name, asked: asked.parse().ok()? }))
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for (address, Entry { name, asked }) in &self.0 {
            // A String takes whatever is written.
            let _ = writeln!(text, "{address} {} {asked}", name.as_deref().unwrap_or("-"));
        }
        text
    }

    /// Those that are young enough to be shown.
    pub fn names(&self) -> HashMap<IpAddr, String> {
        let shown = self.0.iter().filter(|(_, entry)| entry.age() < SHOWN);
        shown.filter_map(|(address, entry)| Some((*address, entry.name.clone()?))).collect()
    }

    fn drop_old(&mut self) {
        self.0.retain(|_, entry| entry.age() < SHOWN);
        if self.0.len() > MOST {
            let mut times: Vec<u64> = self.0.values().map(|entry| entry.asked).collect();
            times.sort_unstable();
            let oldest = times[times.len() - MOST];
            self.0.retain(|_, entry| entry.asked >= oldest);
        }
    }

    /// Replaces the file at once; only its owner may read it.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn write(mut self, path: &Path) -> Result<()> {
        self.drop_old();
        let write = || -> std::io::Result<()> {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(self.text().as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            Ok(())
        };
        write().with_context(|| {
            format!("cannot write {}: name another file with --cache", path.display())
        })
    }
}

/// $XDG_CACHE_HOME, or its usual place.
///
/// # Errors
/// There is no home.
pub fn usual() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let folder =
        folder.context("no HOME is set: name the file of names, with --cache or --names=FILE")?;
    Ok(folder.join("transom/names"))
}

/// With sudo: that of the user who called it, if root has none.
///
/// # Errors
/// As [`usual`].
pub fn to_read() -> Result<PathBuf> {
    let own = usual()?;
    if own.exists() {
        return Ok(own);
    }
    let theirs = home_behind_sudo().map(|home| home.join(".cache/transom/names"));
    Ok(theirs.filter(|path| path.exists()).unwrap_or(own))
}

fn home_behind_sudo() -> Option<PathBuf> {
    let user = std::env::var("SUDO_UID").ok()?;
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = fields
        .filter(|fields| fields.get(2) == Some(&&*user))
        .find_map(|fields| fields.get(5).copied());
    home.map(PathBuf::from)
}

pub fn missing(path: &Path) -> Error {
    anyhow!("there is no {}: `transom names resolve` makes it", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(name: &str, age: Duration) -> Entry {
        let name = (name != "-").then(|| name.to_owned());
        Entry { name, asked: now() - age.as_secs() }
    }

    fn cache(entries: &[(&str, Entry)]) -> Cache {
        let entries =
            entries.iter().map(|(address, entry)| (address.parse().unwrap(), entry.clone()));
        Cache(entries.collect())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/folder/names");
        let day = Duration::from_secs(24 * 3600);
        let all =
            cache(&[("192.0.2.1", entry("server.example", day)), ("2001:db8::1", entry("-", day))]);
        all.clone().write(&path).unwrap();
        assert_eq!(Cache::read(&path).unwrap(), Some(all));
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Cache::read(&folder.path().join("none")).unwrap(), None);
    }

    #[test]
    fn old_names_are_neither_shown_nor_kept_and_are_asked_for_again() {
        let old = entry("old.example", SHOWN + Duration::from_secs(1));
        let stale = entry("stale.example", FRESH + Duration::from_secs(1));
        let none = entry("-", NONE_FRESH + Duration::from_secs(1));
        let later = Entry { name: Some("later.example".into()), asked: now() + 1000 };
        assert!(!stale.is_fresh() && !none.is_fresh());
        assert!(entry("-", Duration::ZERO).is_fresh() && later.is_fresh());
        let mut all = cache(&[("192.0.2.1", old), ("192.0.2.2", stale), ("192.0.2.3", none)]);
        let names: Vec<String> = all.names().into_values().collect();
        assert_eq!(names, ["stale.example"]);
        all.drop_old();
        assert_eq!(all.0.len(), 2);
    }

    #[test]
    fn a_damaged_line_costs_its_name_and_another_file_is_refused() {
        let text = format!(
            "{HEAD}\n192.0.2.1 a.example 7\n192.0.2.2 b.example\nx y 7\n192.0.2.3 \u{1b}[2J 7\n"
        );
        let (cache, damaged) = Cache::parse(&text).unwrap();
        assert_eq!((cache.0.len(), damaged), (1, vec![3, 4, 5]));
        assert!(Cache::parse("root:x:0:0\n").is_err());
        assert_eq!(Cache::parse("").unwrap().0, Cache::default());
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_only_names_of_hosts_come_of_it(text in ".*", rest in "(?s).{0,200}") {
            let _ = Cache::parse(&text);
            let (cache, _) = Cache::parse(&format!("{HEAD}\n{rest}")).unwrap();
            prop_assert!(cache.0.values().filter_map(|it| it.name.as_deref()).all(is_host_name));
        }
    }
}

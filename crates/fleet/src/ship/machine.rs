//! What this machine is, as far as a program without privileges can read it. What it cannot is
//! null: rows of connections are worth more than what is said of their machine.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;
use serde::Deserialize;
use transom_link::netlink::{Address, Netlink};
use transom_output::text_of;
use transom_spool::{HostRow, Table, Text, Time, VERSION, list, prefix};

use super::files;

/// What the operator says of it.
pub struct Said {
    pub labels: Option<Text>,
    /// The agent's configuration, for the one key `addresses`.
    pub agent_config: PathBuf,
}

/// Of the agent's configuration, which it checks itself.
#[derive(Deserialize)]
struct AgentConfig {
    addresses: Option<String>,
}

impl Said {
    fn is_full(&self) -> bool {
        let text = text_of(&self.agent_config).unwrap_or_default();
        let config = toml::from_str::<AgentConfig>(&text);
        config.is_ok_and(|config| config.addresses.as_deref() == Some("full"))
    }
}

/// 32 hexadecimal digits, as the agent writes it.
pub fn boot() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(boot.trim().replace('-', ""))
}

pub fn row(time: Time, spool: &Path, said: &Said) -> HostRow {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_str().ok().map(Text::from);
    let memory = rustix::system::sysinfo();
    let agent = newest_footer(spool);
    let own = own_addresses().unwrap_or_default();
    HostRow {
        time,
        kernel: text(uname.release()),
        architecture: text(uname.machine()),
        cpus: fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()
            .and_then(|text| count(&text)),
        memory: Some(memory.totalram as u64 * u64::from(memory.mem_unit)),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        agent_version: agent.as_ref().and_then(version),
        source: agent.as_ref().and_then(source),
        prefixes: joined(own.iter().map(|ip| prefix(*ip))),
        addresses: said.is_full().then(|| joined(own.iter().map(IpAddr::to_string))).flatten(),
        labels: said.labels.clone(),
        congestion_control: setting("ipv4/tcp_congestion_control").map(Text::from),
        default_qdisc: setting("core/default_qdisc").map(Text::from),
        tcp_rmem_max: number("ipv4/tcp_rmem"),
        tcp_wmem_max: number("ipv4/tcp_wmem"),
        tcp_notsent_lowat: number("ipv4/tcp_notsent_lowat"),
        tcp_ecn: number("ipv4/tcp_ecn"),
        tcp_mtu_probing: number("ipv4/tcp_mtu_probing"),
        tcp_sack: number("ipv4/tcp_sack"),
        tcp_slow_start_after_idle: number("ipv4/tcp_slow_start_after_idle"),
        tcp_timestamps: number("ipv4/tcp_timestamps"),
        tcp_window_scaling: number("ipv4/tcp_window_scaling"),
        somaxconn: number("core/somaxconn"),
    }
}

fn setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc/sys/net").join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// The last one: of a least, a default and a largest size that is the largest.
fn number(name: &str) -> Option<u64> {
    setting(name)?.split_whitespace().last()?.parse().ok()
}

/// How many CPUs a list as `0-3,7` has (cpuset(7)).
fn count(list: &str) -> Option<u64> {
    let of = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').map(of).sum()
}

/// Those under which peers know it; temporary ones change by themselves.
fn own_addresses() -> Result<Vec<IpAddr>> {
    let all = Address::all(&mut Netlink::open()?)?;
    let own = all.into_iter().map(|(_, address)| address);
    let lasting = own.filter(|address| address.is_usable() && !address.is_temporary());
    Ok(lasting.map(|address| address.ip).filter(|ip| !ip.is_loopback()).collect())
}

fn joined(texts: impl Iterator<Item = String>) -> Option<Text> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.dedup();
    (!texts.is_empty()).then(|| texts.join(" ").into())
}

/// Of the newest file of connections: what wrote it is known without reading its rows.
fn newest_footer(spool: &Path) -> Option<ParquetMetaData> {
    let files = list(spool).ok()?;
    let of_connections = |name: &transom_spool::FileName| name.table() == Table::Connections;
    let (_, path, _) = files.into_iter().rev().find(|(name, ..)| of_connections(name))?;
    ParquetMetaDataReader::new().parse_and_finish(&files::open(&path).ok()?).ok()
}

fn version(footer: &ParquetMetaData) -> Option<Text> {
    let pairs = footer.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == VERSION)?.value.as_deref().map(Text::from)
}

/// If all rows have one.
fn source(footer: &ParquetMetaData) -> Option<Text> {
    let columns = footer.row_groups().iter().flat_map(|group| group.columns());
    let mut bounds = Vec::new();
    for column in columns.filter(|column| column.column_path().string() == "source") {
        let Some(Statistics::ByteArray(of)) = column.statistics() else { return None };
        bounds.extend([of.min_opt()?.as_utf8().ok()?, of.max_opt()?.as_utf8().ok()?]);
    }
    let first = *bounds.first()?;
    bounds.iter().all(|bound| *bound == first).then(|| first.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use transom_spool::{Connection, Source, write};

    fn footer(sources: &[Source]) -> ParquetMetaData {
        let rows =
            sources.iter().map(|source| Connection { source: *source, ..Default::default() });
        let mut file = Vec::new();
        write(&mut file, rows, &[(VERSION, "0.1.0".into())], &mut || ()).unwrap();
        ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(file)).unwrap()
    }

    #[test]
    fn what_the_agent_is_comes_from_the_footer_of_a_file() {
        let of = footer(&[Source::SockDiag, Source::SockDiag]);
        assert_eq!(
            (version(&of).as_deref(), source(&of).as_deref()),
            (Some("0.1.0"), Some("sock_diag"))
        );
        assert_eq!(source(&footer(&[Source::Probes])).as_deref(), Some("probes"));
        assert_eq!(source(&footer(&[Source::Probes, Source::SockDiag])), None);
        assert_eq!(source(&footer(&[])), None);
    }

    #[test]
    fn cpus_are_counted_in_ranges() {
        assert_eq!(
            ["0", "0-3", "0-3,7\n", "2-1", "x"].map(count),
            [Some(1), Some(4), Some(5), None, None]
        );
    }

    #[test]
    fn addresses_are_written_only_where_the_agent_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let agent_config = folder.path().join("agent.toml");
        let said = Said { labels: None, agent_config: agent_config.clone() };
        assert!(!said.is_full(), "without a configuration");
        for (text, full) in [
            ("addresses = \"full\"\ncpu = 0.02", true),
            ("addresses = \"prefix\"", false),
            ("addresses = \"full\"\nnonsense", false),
        ] {
            fs::write(&agent_config, text).unwrap();
            assert_eq!(said.is_full(), full, "{text}");
        }
    }
}

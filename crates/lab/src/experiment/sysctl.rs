//! Names of sysctls. As with sysctl(8), `ipv4.tcp_sack` and `ipv4/tcp_sack` are the same: the first
//! separator of a name says which of the two it is, and the other may then stand inside a part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, de};
use toml::{Table, Value};

use super::raw::leaves;

/// With dots between the parts, as `sysctl -a` writes it.
pub fn canonical(name: &str) -> String {
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'/') => swapped(name),
        _ => name.to_owned(),
    }
}

/// The file of a canonical name.
pub fn path(name: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(swapped(name))
}

fn swapped(name: &str) -> String {
    let other = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(other).collect()
}

/// Gives every sysctl of every host its canonical name. A swept one stands in tables of its parts,
/// and goes before what the host says itself.
pub fn flatten(tree: &mut Table) {
    let Some(Value::Table(hosts)) = tree.get_mut("hosts") else { return };
    for (_, host) in hosts.iter_mut() {
        let Some(Value::Table(sysctls)) = host.get_mut("sysctl") else { continue };
        let (tables, plain): (Vec<_>, Vec<_>) =
            std::mem::take(sysctls).into_iter().partition(|(_, value)| value.is_table());
        let swept = leaves(&tables.into_iter().collect());
        let all = plain.into_iter().chain(swept);
        sysctls.extend(all.map(|(name, value)| (canonical(&name), value)));
    }
}

/// Numbers and truth values as the kernel reads them.
pub fn values<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Integer(number) => Ok((name, number.to_string())),
        Value::Boolean(yes) => Ok((name, u8::from(yes).to_string())),
        other => Err(de::Error::custom(format!(
            "`{name}` cannot be {other}: write the value as text, such as \"4096 16384 65536\""
        ))),
    };
    Table::deserialize(deserializer)?.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_write_a_name_are_one() {
        assert_eq!(canonical("ipv4.tcp_sack"), "ipv4.tcp_sack");
        assert_eq!(canonical("ipv4/tcp_sack"), "ipv4.tcp_sack");
        assert_eq!(canonical("ipv4/conf/eth0.100/forwarding"), "ipv4.conf.eth0/100.forwarding");
        let file = Path::new("/proc/sys/net/ipv4/conf/eth0.100/forwarding");
        assert_eq!(path("ipv4.conf.eth0/100.forwarding"), file);
    }

    #[test]
    fn a_swept_sysctl_goes_before_the_hosts_own() {
        let mut tree: Table =
            "[hosts.a.sysctl]\n'ipv4/tcp_sack' = '1'\nipv4.tcp_sack = 0\n'ipv4.tcp_ecn' = true"
                .parse()
                .unwrap();
        flatten(&mut tree);
        let sysctls = tree["hosts"]["a"]["sysctl"].clone();
        let values = values(sysctls).unwrap();
        let expected = [("ipv4.tcp_ecn", "1"), ("ipv4.tcp_sack", "0")];
        assert_eq!(values, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }
}

//! Profiles of hosts: what a phone or server of the papers is on this bench.

use std::sync::LazyLock;

use toml::{Table, Value};

use super::sysctl;

/// `profiles.toml`, with the reason of every number.
pub const TEXT: &str = include_str!("../../profiles.toml");

static PROFILES: LazyLock<Table> =
    LazyLock::new(|| TEXT.parse().expect("a test reads the profiles"));

pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.keys().map(String::as_str)
}

/// The keys that a profile gives a host, but for the words about it.
fn of(name: &str) -> Option<Table> {
    let mut profile = PROFILES.get(name)?.as_table()?.clone();
    profile.remove("about");
    Some(profile)
}

/// Puts the profile of each host under what the file says itself.
pub fn merge(tree: &mut Table) {
    sysctl::flatten(tree);
    let Some(Value::Table(hosts)) = tree.get_mut("hosts") else { return };
    for (_, host) in hosts.iter_mut() {
        let Value::Table(host) = host else { continue };
        let name = host.get("profile").and_then(Value::as_str);
        if let Some(mut profile) = name.and_then(of) {
            overlay(&mut profile, host);
            *host = profile;
        }
    }
}

/// Tables key by key, everything else as a whole.
pub fn overlay(under: &mut Table, over: &Table) {
    for (key, value) in over {
        match (under.get_mut(key), value) {
            (Some(Value::Table(under)), Value::Table(over)) => overlay(under, over),
            _ => drop(under.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Host;

    #[test]
    fn every_profile_is_a_host() {
        assert_eq!(
            names().collect::<Vec<_>>(),
            ["ht-03a", "laptop", "nexus-s", "sapphire", "server"]
        );
        for name in names() {
            let host = Value::Table(of(name).unwrap()).try_into::<Host>();
            assert!(host.is_ok(), "{name}: {host:?}");
        }
    }

    #[test]
    fn the_file_goes_before_the_profile_key_by_key() {
        let mut tree: Table =
            "[hosts.a]\nprofile = 'nexus-s'\nstation.phy_mbit = 6".parse().unwrap();
        merge(&mut tree);
        let host: Host = tree["hosts"]["a"].clone().try_into().unwrap();
        let profile: Host = Value::Table(of("nexus-s").unwrap()).try_into().unwrap();
        assert_eq!(host.station.as_ref().unwrap().phy_mbit, 6);
        assert_eq!(host.driver, profile.driver);
        let queue = |host: &Host| host.station.as_ref().unwrap().queue_packets;
        assert_eq!(queue(&host), queue(&profile));
    }
}

//! Which ports the host uses, or might.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;

use anyhow::{Context, Result};

/// Ports are claimed in blocks of so many.
pub(crate) const BLOCK: u16 = 256;
/// Below are ports for which a privilege is needed.
pub(crate) const LEAST: u16 = 1024;
/// Below the host's range we go down to here: further down are the well-known servers.
const LEAST_CHOSEN: u16 = 16384;

const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

/// The ports that the host picks from by itself.
pub(crate) fn host_range() -> Result<RangeInclusive<u16>> {
    let text = read(RANGE)?;
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(last))) => Ok(first..=last),
        _ => anyhow::bail!("{RANGE} says {text:?}"),
    }
}

/// The ports that it does not pick all the same.
pub(crate) fn reserved() -> Result<BTreeSet<u16>> {
    let text = read(RESERVED)?;
    parse_list(text.trim()).with_context(|| format!("{RESERVED} says {text:?}"))
}

fn parse_list(text: &str) -> Option<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        ports.extend(first.parse().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(ports)
}

/// Ports that some socket of the host has.
pub(crate) fn used() -> BTreeSet<u16> {
    let tables = ["tcp", "tcp6", "udp", "udp6"].map(sockets);
    tables.iter().flat_map(|text| text.lines().skip(1).filter_map(local_port)).collect()
}

/// Whether all connections of the host that have the port are over, and in TIME-WAIT. Where there is
/// none at all, somebody has bound it who does not listen yet.
pub(crate) fn has_only_waiting(port: u16) -> bool {
    let tables = ["tcp", "tcp6"].map(sockets);
    let lines = tables.iter().flat_map(|text| text.lines().skip(1));
    let mut of_it = lines.filter(|line| local_port(line) == Some(port)).peekable();
    of_it.peek().is_some() && of_it.all(is_waiting)
}

/// Of the calling thread's namespace, which need not be the process's. No IPv6, no table.
fn sockets(table: &str) -> String {
    fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
}

/// The fourth column, the state: `TCP_TIME_WAIT`.
fn is_waiting(line: &str) -> bool {
    line.split_whitespace().nth(3) == Some("06")
}

/// `  0: 0100007F:0CEA 00000000:0000 0A …`: the second column's port.
fn local_port(line: &str) -> Option<u16> {
    let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

/// Where so many blocks in a row fit outside the host's range: above it, upwards, then below it,
/// downwards.
pub(crate) fn candidates(host: &RangeInclusive<u16>, blocks: u16) -> Vec<u16> {
    let block = u32::from(BLOCK);
    let size = u32::from(blocks) * block;
    let above = (u32::from(*host.end()) + 1).next_multiple_of(block);
    let below = u32::from(*host.start()) / block * block;
    let up = (above..).step_by(BLOCK.into()).take_while(|first| first + size <= 65536);
    let down = (1..)
        .map(|back| below.saturating_sub(size + (back - 1) * block))
        .take_while(|&first| first >= u32::from(LEAST_CHOSEN));
    up.chain(down).map(|first| first as u16).collect()
}

/// Where so many blocks in a row fit at all.
pub(crate) fn everywhere(blocks: u16) -> Vec<u16> {
    let last = 65536 - u32::from(blocks) * u32::from(BLOCK);
    (u32::from(LEAST_CHOSEN)..=last).step_by(BLOCK.into()).map(|first| first as u16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_above_the_hosts_range_come_first_then_those_below() {
        let places = candidates(&(32768..=60999), 16);
        assert_eq!(places[..3], [61184, 61440, 28672]);
        assert_eq!(places.last(), Some(&16384));
        let distinct: BTreeSet<_> = places.iter().collect();
        assert_eq!(distinct.len(), places.len());
        for first in places {
            let last = first + (16 * 256 - 1);
            assert!(last < 32768 || first > 60999, "{first}-{last}");
        }
    }

    #[test]
    fn a_host_that_picks_from_everywhere_leaves_no_room() {
        assert_eq!(candidates(&(1024..=65535), 1), []);
    }

    #[test]
    fn lists_of_ports_are_read_as_the_kernel_writes_them() {
        let ports = parse_list("8080,9000-9002").expect("a list");
        assert_eq!(ports.into_iter().collect::<Vec<_>>(), [8080, 9000, 9001, 9002]);
        assert_eq!(parse_list(""), Some(BTreeSet::new()));
        assert_eq!(parse_list("80-"), None);
    }

    #[test]
    fn the_local_port_of_a_socket_is_found() {
        let line = "   1: 00000000000000000000000000000000:1F90 0000:0000 0A 00000000";
        assert_eq!(local_port(line), Some(8080));
        assert_eq!(local_port("garbage"), None);
        assert!(!is_waiting(line));
        assert!(is_waiting("   2: 0100007F:1F90 0100007F:C0DE 06 00000000"));
    }
}

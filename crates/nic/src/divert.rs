//! Keeps the host's own stack away from packets for our addresses and ports, and says which packets
//! those are: `bpf/divert.bpf.c`, one instance an interface.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, Object};
use transom_machine::objects::{self, map, per_cpu_sum, program_fd};

use crate::Interface;
use crate::hook::{Attach, Hook};

/// Protocols with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Tcp,
    Udp,
}

/// Packets since it was attached; one that GRO has put together counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kept from the host.
    pub diverted: u64,
    /// Fragments that overtook the first of their packet: the host got them, too, and drops them
    /// after 30 seconds (`net.ipv4.ipfrag_time`).
    pub late_fragments: u64,
}

/// Attached to an interface's ingress until it is dropped or the process ends.
pub struct Divert {
    // Detached before the programs and maps go.
    hook: Hook,
    object: Object,
}

impl Divert {
    /// Loads and attaches it, with no address and no port yet.
    ///
    /// # Errors
    /// No CAP_BPF or CAP_NET_ADMIN; a kernel older than 5.10 or without BPF; the interface is gone.
    pub fn attach(interface: &Interface, way: Attach) -> Result<Divert> {
        let index = interface.index;
        let load = || -> Result<Divert> {
            let object = objects::divert::open()?.load().context(
                "the kernel did not accept the program: it needs the privileges CAP_BPF and \
                 CAP_NET_ADMIN (run as root)",
            )?;
            let hook = Hook::attach(program_fd(&object, "divert")?, index, way)?;
            Ok(Divert { hook, object })
        };
        load().with_context(|| {
            format!("keeping the host away from our packets on {}", interface.name)
        })
    }

    /// Nothing is left if the process is killed. Otherwise (before Linux 6.6) the next start of one
    /// removes what is left.
    pub fn dies_with_the_process(&self) -> bool {
        self.hook.is_link()
    }

    /// # Errors
    /// More than 64 addresses.
    pub fn add_address(&mut self, address: IpAddr) -> Result<()> {
        map(&self.object, "addresses")?
            .update(&key(address), &[1], MapFlags::ANY)
            .with_context(|| format!("adding the address {address}"))
    }

    /// # Errors
    /// It was not added.
    pub fn remove_address(&mut self, address: IpAddr) -> Result<()> {
        map(&self.object, "addresses")?
            .delete(&key(address))
            .with_context(|| format!("removing the address {address}"))
    }

    /// From now on the stack receives what is for these local ports, at all of the addresses.
    ///
    /// # Errors
    /// The kernel refuses (out of memory).
    pub fn add_ports(&mut self, transport: Transport, ports: RangeInclusive<u16>) -> Result<()> {
        self.change_ports(transport, ports, |word, bits| word | bits)
    }

    /// # Errors
    /// As `add_ports`.
    pub fn remove_ports(&mut self, transport: Transport, ports: RangeInclusive<u16>) -> Result<()> {
        self.change_ports(transport, ports, |word, bits| word & !bits)
    }

    fn change_ports(
        &mut self,
        transport: Transport,
        ports: RangeInclusive<u16>,
        change: impl Fn(u64, u64) -> u64,
    ) -> Result<()> {
        let map = map(&self.object, "ports")?;
        for (word, bits) in words(transport, &ports) {
            let key = word.to_ne_bytes();
            let before = map.lookup(&key, MapFlags::ANY)?.context("no such port")?;
            let before = u64::from_ne_bytes(before[..8].try_into()?);
            map.update(&key, &change(before, bits).to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }

    /// # Errors
    /// The kernel refuses.
    pub fn counts(&self) -> Result<Counts> {
        let map = map(&self.object, "counters")?;
        Ok(Counts { diverted: per_cpu_sum(&map, 0)?, late_fragments: per_cpu_sum(&map, 1)? })
    }

    /// For the socket that is to get these packets.
    pub(crate) fn filter(&self) -> Result<BorrowedFd<'_>> {
        program_fd(&self.object, "pick")
    }
}

/// IPv4 as ::ffff:a.b.c.d.
fn key(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The words of the map that hold these ports, and the bits in each.
fn words(transport: Transport, ports: &RangeInclusive<u16>) -> Vec<(u32, u64)> {
    let base = match transport {
        Transport::Tcp => 0,
        Transport::Udp => 1024,
    };
    let mut words: Vec<(u32, u64)> = Vec::new();
    for port in ports.clone() {
        let word = base + u32::from(port) / 64;
        let bit = 1 << (port % 64);
        match words.last_mut() {
            Some((last, bits)) if *last == word => *bits |= bit,
            _ => words.push((word, bit)),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_one_bit() {
        assert_eq!(words(Transport::Tcp, &(0..=0)), [(0, 1)]);
        assert_eq!(words(Transport::Udp, &(65535..=65535)), [(2047, 1 << 63)]);
        assert_eq!(words(Transport::Tcp, &(62..=65)), [(0, 3 << 62), (1, 3)]);
        assert_eq!(words(Transport::Tcp, &(0..=65535)).len(), 1024);
        assert!(words(Transport::Tcp, &(0..=65535)).iter().all(|&(_, bits)| bits == u64::MAX));
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn an_empty_range_has_no_words() {
        assert_eq!(words(Transport::Tcp, &(5..=4)), []);
    }
}

//! An interface of the host as one of the library: raw IP towards the library, the link's header put
//! on and taken off here.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transom_link::{behind, ethernet};
use transom_netstack::{Nic, NicParameters, Transmitted};
use transom_nic::{Kind, Nic as _, PacketNic, Path, Received, VnetHeader};

use crate::neighbours::{Hop, Hops};
use crate::unreachable::{self, Why};

/// Packets that wait for one neighbour, as many as Linux keeps of 2 KiB each (`unres_qlen`).
const MOST_WAITING: usize = 100;

pub struct Card {
    pub nic: PacketNic,
    /// None where there is no link header.
    pub hops: Option<Hops>,
    /// Frames and bytes since the last look.
    arrived: (u64, u64),
    /// Packets whose next station the host is asking for. Nothing else waits for them.
    waiting: HashMap<IpAddr, VecDeque<Packet>>,
    /// Errors of ICMP that the library is to receive.
    errors: VecDeque<Vec<u8>>,
}

struct Packet {
    header: VnetHeader,
    protocol: u16,
    bytes: Vec<u8>,
}

/// The library has it and we keep it, too: its ports change while it runs.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Card>>);

impl Shared {
    pub fn new(path: &Path, nic: PacketNic) -> anyhow::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(Card::new(path, nic)?))))
    }

    /// Another interface of the host behind the library's same one.
    pub fn replace(&self, path: &Path, nic: PacketNic) -> anyhow::Result<()> {
        *self.card() = Card::new(path, nic)?;
        Ok(())
    }

    /// There is one thread, so the lock is always free.
    pub fn card(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames and bytes that have come since the last call.
    pub fn take_arrived(&self) -> (u64, u64) {
        std::mem::take(&mut self.card().arrived)
    }

    /// There is something to receive that no frame announces.
    pub fn has_errors(&self) -> bool {
        !self.card().errors.is_empty()
    }

    /// What the library is to know of it.
    pub fn parameters(&self, name: String) -> NicParameters {
        let card = self.card();
        let offloads = card.nic.offloads();
        NicParameters {
            name,
            link: transom_netstack::Link::RawIp,
            mtu: card.nic.mtu().min(65535),
            checksum: offloads.checksum,
            tso: offloads.tso4 && offloads.tso6,
            uso: offloads.uso,
            queue: None,
        }
    }
}

impl Nic for Shared {
    fn transmit(&mut self, header: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        self.card().transmit(header, parts)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        self.card().receive(buffer)
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.card().nic.descriptor().as_raw_fd())
    }
}

impl Card {
    fn new(path: &Path, nic: PacketNic) -> anyhow::Result<Self> {
        let ethernet = matches!(nic.kind(), Kind::Ethernet { .. });
        let hops = ethernet.then(|| Hops::new(path)).transpose()?;
        let (waiting, errors) = (HashMap::new(), VecDeque::new());
        Ok(Self { nic, hops, arrived: (0, 0), waiting, errors })
    }

    /// The host knows something new of this neighbour: what waits for it goes, or comes back.
    pub fn heard_of(&mut self, neighbour: IpAddr) {
        let Some(hops) = &mut self.hops else { return };
        hops.forget(neighbour);
        if !self.waiting.contains_key(&neighbour) {
            return;
        }
        let hop = hops.decided(neighbour);
        if hop == Hop::Asking(neighbour) {
            return;
        }
        for packet in self.waiting.remove(&neighbour).unwrap_or_default() {
            match hop {
                Hop::Station(station) => {
                    let parts = [IoSlice::new(&packet.bytes)];
                    self.send(station, packet.protocol, packet.header, &parts);
                }
                Hop::None(why) => self.return_error(&packet.bytes, why),
                Hop::Asking(_) => {}
            }
        }
    }

    fn wait_for(&mut self, neighbour: IpAddr, packet: Packet) {
        let waiting = self.waiting.entry(neighbour).or_default();
        if waiting.len() == MOST_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(packet);
    }

    fn return_error(&mut self, packet: &[u8], why: Why) {
        if self.errors.len() < MOST_WAITING {
            self.errors.extend(unreachable::answer(packet, why));
        }
    }

    fn transmit(&mut self, header: VnetHeader, parts: &[IoSlice<'_>]) -> Transmitted {
        let Some(hops) = &mut self.hops else {
            return told(self.nic.transmit(&header.with_link_header(0), parts));
        };
        let Some((destination, protocol)) = destination(parts) else { return Transmitted::Taken };
        match hops.of(destination) {
            Hop::Station(station) => self.send(station, protocol, header, parts),
            Hop::Asking(next) => {
                self.wait_for(next, Packet { header, protocol, bytes: joined(parts) });
                Transmitted::Taken
            }
            Hop::None(why) => {
                self.return_error(&joined(parts), why);
                Transmitted::Taken
            }
        }
    }

    fn send(
        &mut self,
        station: [u8; 6],
        protocol: u16,
        header: VnetHeader,
        parts: &[IoSlice<'_>],
    ) -> Transmitted {
        let Kind::Ethernet { mac } = self.nic.kind() else { return Transmitted::Taken };
        let ethernet = ethernet::header(station, mac, protocol);
        let header = header.with_link_header(ethernet::HEADER as u16);
        told(behind(&ethernet, parts, |all| self.nic.transmit(&header, all)))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<(usize, VnetHeader)> {
        if let Some(error) = self.errors.pop_front() {
            buffer.get_mut(..error.len())?.copy_from_slice(&error);
            return Some((error.len(), VnetHeader::default()));
        }
        let Received::Frame { header, length } = self.nic.receive(buffer) else { return None };
        self.arrived.0 += 1;
        self.arrived.1 += length as u64;
        if self.hops.is_none() {
            return Some((length, header));
        }
        let length = length.saturating_sub(ethernet::HEADER);
        buffer.copy_within(ethernet::HEADER..ethernet::HEADER + length, 0);
        Some((length, header.without_link_header(ethernet::HEADER as u16)))
    }
}

fn told(sent: transom_nic::Transmitted) -> Transmitted {
    match sent {
        transom_nic::Transmitted::Full => Transmitted::Full,
        // A loss is left to TCP, which retransmits.
        _ => Transmitted::Taken,
    }
}

fn joined(parts: &[IoSlice<'_>]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.iter().copied()).collect()
}

/// Where a packet goes, and its EtherType; None: no packet of IP, or what the library says of itself
/// to a group: the host speaks for the addresses of both.
fn destination(parts: &[IoSlice<'_>]) -> Option<(IpAddr, u16)> {
    let mut beginning = [0; ethernet::LONGEST_IP + ROUTER_ALERT + 1];
    let packet = transom_link::beginning(parts, &mut beginning);
    let (ip, protocol) = ethernet::destination(packet)?;
    let of_its_own = match ip {
        IpAddr::V4(_) => i32::from(packet[9]) == libc::IPPROTO_IGMP,
        IpAddr::V6(_) => icmpv6_type(packet).is_some_and(is_of_the_link),
    };
    (!ip.is_multicast() || !of_its_own).then_some((ip, protocol))
}

/// Bytes of the header that MLD has before its messages (RFC 3810, 5).
const ROUTER_ALERT: usize = 8;

/// Of a packet of IPv6.
fn icmpv6_type(packet: &[u8]) -> Option<u8> {
    let (next, at) = match i32::from(packet[6]) {
        libc::IPPROTO_HOPOPTS if packet.get(41) == Some(&0) => (packet[40], ROUTER_ALERT),
        _ => (packet[6], 0),
    };
    let kind = packet.get(ethernet::LONGEST_IP + at)?;
    (i32::from(next) == libc::IPPROTO_ICMPV6).then_some(*kind)
}

/// MLD (RFC 2710, 3810) and neighbour discovery (RFC 4861); an echo request is the program's.
fn is_of_the_link(icmpv6_type: u8) -> bool {
    matches!(icmpv6_type, 130..=137 | 143)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use transom_link::ethernet::{IPV4, IPV6};

    use super::*;

    const ECHO_REQUEST: u8 = 128;
    const MLD_REPORT: u8 = 131;
    const ROUTER_SOLICITATION: u8 = 133;
    const SOLICITATION: u8 = 135;
    const MLD2_REPORT: u8 = 143;

    #[test]
    fn the_destination_is_read_across_parts_and_what_is_said_to_groups_of_itself_has_none() {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[16..].copy_from_slice(&[192, 0, 2, 7]);
        let parts = [IoSlice::new(&packet[..3]), IoSlice::new(&packet[3..])];
        assert_eq!(destination(&parts), Some(("192.0.2.7".parse().unwrap(), IPV4)));
        packet[16] = 224;
        packet[9] = libc::IPPROTO_UDP as u8;
        assert_eq!(
            destination(&[IoSlice::new(&packet)]),
            Some(("224.0.2.7".parse().unwrap(), IPV4))
        );
        packet[9] = libc::IPPROTO_IGMP as u8;
        assert_eq!(destination(&[IoSlice::new(&packet)]), None);
        assert_eq!(destination(&[IoSlice::new(&packet[..19])]), None);
        assert_eq!(destination(&[]), None);
        let mut packet = [0; 48];
        packet[0] = 0x60;
        packet[24..40].copy_from_slice(&"2001:db8::9".parse::<Ipv6Addr>().unwrap().octets());
        packet[6] = libc::IPPROTO_ICMPV6 as u8;
        packet[40] = SOLICITATION;
        assert_eq!(
            destination(&[IoSlice::new(&packet)]),
            Some(("2001:db8::9".parse().unwrap(), IPV6))
        );
        packet[24] = 0xff;
        assert_eq!(destination(&[IoSlice::new(&packet)]), None);
        packet[6] = libc::IPPROTO_UDP as u8;
        assert_eq!(
            destination(&[IoSlice::new(&packet)]),
            Some(("ff01:db8::9".parse().unwrap(), IPV6))
        );
    }

    #[test]
    fn what_a_program_sends_to_all_on_the_link_leaves_and_mld_and_neighbour_discovery_do_not() {
        let all: Ipv6Addr = "ff02::1".parse().unwrap();
        let leaves = |next: i32, beginning: &[u8]| {
            let mut packet = vec![0; 40];
            packet[0] = 0x60;
            packet[6] = next as u8;
            packet[24..].copy_from_slice(&all.octets());
            packet.extend(beginning);
            destination(&[IoSlice::new(&packet)]).is_some()
        };
        // The router alert, then ICMPv6.
        let behind = |kind| [libc::IPPROTO_ICMPV6 as u8, 0, 5, 2, 0, 0, 1, 0, kind];
        for (kind, expected) in [
            (ECHO_REQUEST, true),
            (MLD_REPORT, false),
            (ROUTER_SOLICITATION, false),
            (SOLICITATION, false),
            (MLD2_REPORT, false),
        ] {
            assert_eq!(leaves(libc::IPPROTO_ICMPV6, &[kind]), expected, "type {kind}");
            assert_eq!(leaves(libc::IPPROTO_HOPOPTS, &behind(kind)), expected, "behind {kind}");
        }
        assert!(leaves(libc::IPPROTO_HOPOPTS, &[libc::IPPROTO_UDP as u8, 0, 5, 2, 0, 0, 1, 0]));
    }
}

//! What the gateway of a cellular network does: a cellular host's packets have no link header, all
//! others have Ethernet's.

use std::collections::BTreeMap;
use std::net::IpAddr;

use transom_link::ethernet;

use crate::plan::{Plan, Side};

/// For addresses without a host. No port has this one, so the network counts the packet as
/// undeliverable.
const NOBODY: [u8; 6] = [0; 6];

#[derive(Debug)]
pub(crate) struct Gateway {
    /// The MAC addresses of those ports that have raw IP.
    raw: Vec<Option<[u8; 6]>>,
    owners: BTreeMap<IpAddr, [u8; 6]>,
}

impl Gateway {
    pub fn new(plan: &Plan) -> Gateway {
        let raw = plan.ports.iter();
        let raw = raw.map(|port| matches!(port.side, Side::Cellular(_)).then_some(port.mac));
        Gateway { raw: raw.collect(), owners: plan.owners.clone() }
    }

    /// The Ethernet header that a packet from this port lacks.
    pub fn put_header(&self, port: usize, packet: &[u8], frame: &mut Vec<u8>) {
        let Some(own) = self.raw[port] else { return };
        // What is not IP goes without: the network counts it as malformed or undeliverable.
        let Some((to, protocol)) = ethernet::destination(packet) else { return };
        let owner = self.owners.get(&to).unwrap_or(&NOBODY);
        frame.extend_from_slice(&ethernet::header(*owner, own, protocol));
    }

    /// What of a frame this port's interface takes.
    pub fn without_header<'a>(&self, port: usize, frame: &'a [u8]) -> &'a [u8] {
        match self.raw[port] {
            Some(_) => frame.get(ethernet::HEADER..).unwrap_or_default(),
            None => frame,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::plan::{Path, Port};

    fn gateway() -> Gateway {
        let port = |number: u8, side| Port {
            name: number.to_string(),
            mac: [2, 0, 0, 0, 0, number],
            side,
        };
        let ports = vec![port(0, Side::Far), port(1, Side::Cellular(Path::default()))];
        let owners = ["10.77.0.2", "fd77::2"].map(|ip| (ip.parse().unwrap(), [2, 0, 0, 0, 0, 0]));
        Gateway::new(&Plan { ports, owners: owners.into(), ..Plan::default() })
    }

    fn header(packet: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        gateway().put_header(1, packet, &mut frame);
        frame
    }

    #[test]
    fn a_packet_of_either_family_is_sent_to_who_has_its_destination() {
        let mut packet = [0; 40];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 77, 0, 2]);
        assert_eq!(header(&packet), [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x08, 0x00]);
        packet[0] = 0x60;
        packet[24..].copy_from_slice(&"fd77::2".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(header(&packet), [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    }

    #[test]
    fn what_nobody_has_goes_to_nobody_and_what_is_no_packet_has_no_header() {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        assert_eq!(header(&packet)[..6], NOBODY);
        assert!(header(&packet[..19]).is_empty() && header(&[0x50; 40]).is_empty());
        assert!(header(&[]).is_empty());
    }

    #[test]
    fn frames_of_ethernet_stay_as_they_are() {
        let mut frame = Vec::new();
        gateway().put_header(0, &[0x45; 40], &mut frame);
        assert!(frame.is_empty());
        assert_eq!(gateway().without_header(0, &[7; 60]).len(), 60);
        assert_eq!(gateway().without_header(1, &[7; 60]).len(), 46);
        assert_eq!(gateway().without_header(1, &[7; 3]).len(), 0);
    }
}

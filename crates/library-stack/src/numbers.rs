//! The numbers of interfaces. A program knows the host's, from netlink and `if_nametoindex`; here its
//! paths have other ones. So they are exchanged wherever one is named: in addresses of link scope, in
//! options of sockets and in ancillary data.

use std::net::{SocketAddr, SocketAddrV6};
use std::ops::Range;

use transom_supervisor::Address;

/// Its number is the same everywhere, as is that of none: 0.
const LOOPBACK: u32 = 1;
/// No interface has this number.
const NO_INTERFACE: u32 = i32::MAX as u32;

/// Each path's interface: its number on the host, and here.
pub struct Numbers(pub Vec<(u32, u32)>);

#[derive(Clone, Copy)]
pub enum Way {
    /// From the program to the library.
    Inwards,
    /// From the library to the program.
    Outwards,
}

impl Numbers {
    fn of(&self, number: u32, way: Way) -> u32 {
        let found = |from: fn(&(u32, u32)) -> u32| self.0.iter().find(|pair| from(pair) == number);
        match (number, way) {
            (0 | LOOPBACK, _) => number,
            (_, Way::Inwards) => found(|pair| pair.0).map_or(NO_INTERFACE, |pair| pair.1),
            (_, Way::Outwards) => found(|pair| pair.1).map_or(number, |pair| pair.0),
        }
    }

    pub fn address(&self, mut v6: SocketAddrV6, way: Way) -> Address {
        v6.set_scope_id(self.of(v6.scope_id(), way));
        SocketAddr::V6(v6).into()
    }

    /// The value of a socket's option; of one that names no interface it stays as it is.
    pub fn option(&self, level: i32, name: i32, value: &mut [u8], way: Way) {
        if is_ancillary(level, name) {
            return self.control(value, way);
        }
        let Some((at, order)) = in_option(level, name) else { return };
        self.exchange(value.get_mut(at), order, way);
    }

    /// Whole `struct cmsghdr`s.
    pub fn control(&self, control: &mut [u8], way: Way) {
        let mut rest = control;
        while let Some(length) = rest.first_chunk().map(|length| usize::from_ne_bytes(*length)) {
            let (Some(level), Some(kind)) = (int(rest, 8), int(rest, 12)) else { return };
            if !(HEADER..=rest.len()).contains(&length) {
                return;
            }
            let data = &mut rest[HEADER..length];
            if let Some(at) = in_message(level, kind) {
                self.exchange(data.get_mut(at), Order::Ours, way);
            }
            let next = length.next_multiple_of(size_of::<usize>()).min(rest.len());
            rest = &mut rest[next..];
        }
    }

    fn exchange(&self, field: Option<&mut [u8]>, order: Order, way: Way) {
        let Some(field) = field.and_then(|field| field.first_chunk_mut::<4>()) else { return };
        *field = match order {
            Order::Ours => self.of(u32::from_ne_bytes(*field), way).to_ne_bytes(),
            Order::Network => self.of(u32::from_be_bytes(*field), way).to_be_bytes(),
        };
    }
}

/// Options whose value is ancillary data: of the packet that opened a connection.
const IP_PKTOPTIONS: (i32, i32) = (libc::IPPROTO_IP, 9);
const IPV6_2292PKTOPTIONS: (i32, i32) = (libc::IPPROTO_IPV6, 6);

fn is_ancillary(level: i32, name: i32) -> bool {
    matches!((level, name), IP_PKTOPTIONS | IPV6_2292PKTOPTIONS)
}

/// Whether the value of this option may name an interface. Most do not, and no time is spent on them.
pub fn may_be_in(level: i32, name: i32) -> bool {
    is_ancillary(level, name) || in_option(level, name).is_some()
}

/// `sizeof(struct cmsghdr)`.
const HEADER: usize = 16;

#[derive(Clone, Copy)]
enum Order {
    Ours,
    Network,
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|four| i32::from_ne_bytes(*four))
}

fn four(at: usize) -> Range<usize> {
    at..at + 4
}

/// Where the value of an option has it; one that is too short for it has none, as the
/// `struct in_addr` and `struct ip_mreq` that IPv4 takes as well.
fn in_option(level: i32, name: i32) -> Option<(Range<usize>, Order)> {
    /// `linux/in.h`: `MCAST_JOIN_GROUP` to `MCAST_MSFILTER`, with the number at their beginning.
    const GROUPS: std::ops::RangeInclusive<i32> = 42..=48;
    const SO_BINDTOIFINDEX: i32 = 62;
    const IPV6_UNICAST_IF: i32 = 76;
    const IP_UNICAST_IF: i32 = 50;
    let at = match (level, name) {
        (libc::SOL_SOCKET, SO_BINDTOIFINDEX) => 0,
        (libc::IPPROTO_IP, IP_UNICAST_IF) | (libc::IPPROTO_IPV6, IPV6_UNICAST_IF) => {
            return Some((four(0), Order::Network));
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, name) if GROUPS.contains(&name) => 0,
        // `struct ip_mreqn`.
        (
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_IF | libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP,
        ) => 8,
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => 0,
        // `struct ipv6_mreq`, `struct in6_pktinfo`.
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_ADD_MEMBERSHIP
            | libc::IPV6_DROP_MEMBERSHIP
            | IPV6_JOIN_ANYCAST
            | IPV6_LEAVE_ANYCAST
            | libc::IPV6_PKTINFO,
        ) => 16,
        _ => return None,
    };
    Some((four(at), Order::Ours))
}

const IPV6_JOIN_ANYCAST: i32 = 27;
const IPV6_LEAVE_ANYCAST: i32 = 28;
const IPV6_2292PKTINFO: i32 = 2;

/// Where ancillary data has it: `struct in_pktinfo`, `struct in6_pktinfo`.
fn in_message(level: i32, kind: i32) -> Option<Range<usize>> {
    match (level, kind) {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => Some(four(0)),
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO | IPV6_2292PKTINFO) => Some(four(16)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path is 7 on the host and 2 here.
    fn numbers() -> Numbers {
        Numbers(vec![(7, 2), (2, 3)])
    }

    fn number(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four"))
    }

    #[test]
    fn an_interface_has_the_host_s_number_outside_and_ours_inside() {
        let all = numbers();
        for (host, ours) in [(7, 2), (2, 3), (1, 1), (0, 0)] {
            assert_eq!(all.of(host, Way::Inwards), ours);
            assert_eq!(all.of(ours, Way::Outwards), host);
        }
        assert_eq!(
            all.of(9, Way::Inwards),
            NO_INTERFACE,
            "an interface of the host that is no path"
        );
    }

    #[test]
    fn options_that_name_an_interface_get_its_other_number() {
        let cases = [
            (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, 4, 0),
            (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, 20, 16),
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, 12, 8),
            (libc::IPPROTO_IP, libc::IP_MULTICAST_IF, 12, 8),
            (libc::IPPROTO_IP, 42, 136, 0),
            (libc::SOL_SOCKET, 62, 4, 0),
        ];
        for (level, name, length, at) in cases {
            let mut value = vec![0; length];
            value[at..at + 4].copy_from_slice(&7u32.to_ne_bytes());
            let before = value.clone();
            numbers().option(level, name, &mut value, Way::Inwards);
            assert_eq!(number(&value, at), 2, "option {name} of {level}");
            numbers().option(level, name, &mut value, Way::Outwards);
            assert_eq!(value, before, "option {name} of {level}");
        }
    }

    #[test]
    fn a_number_in_the_order_of_the_network_is_read_so() {
        let mut value = 7u32.to_be_bytes();
        numbers().option(libc::IPPROTO_IP, 50, &mut value, Way::Inwards);
        assert_eq!(value, 2u32.to_be_bytes());
    }

    /// An IPv4 address in the place of the structure with a number is left alone, and other options.
    #[test]
    fn what_names_no_interface_stays() {
        for (level, name) in
            [(libc::IPPROTO_IP, libc::IP_MULTICAST_IF), (libc::IPPROTO_IP, libc::IP_TOS)]
        {
            let mut value = [7, 0, 0, 0, 7, 0, 0, 0];
            numbers().option(level, name, &mut value, Way::Inwards);
            assert_eq!(value, [7, 0, 0, 0, 7, 0, 0, 0]);
        }
    }

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn ancillary_data_names_it_wherever_it_stands() {
        let mut v6 = vec![0; 20];
        v6[16..].copy_from_slice(&7u32.to_ne_bytes());
        let mut control = message(libc::IPPROTO_IP, libc::IP_TTL, &7i32.to_ne_bytes());
        let second = control.len() + HEADER;
        control.extend(message(
            libc::IPPROTO_IP,
            libc::IP_PKTINFO,
            &[7, 0, 0, 0, 9, 9, 9, 9, 8, 8, 8, 8],
        ));
        let third = control.len() + HEADER + 16;
        control.extend(message(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &v6));
        numbers().control(&mut control, Way::Inwards);
        assert_eq!(
            [number(&control, HEADER), number(&control, second), number(&control, third)],
            [7, 2, 2]
        );
    }

    #[test]
    fn any_bytes_are_taken() {
        for length in 0..200 {
            for first in 0..64usize {
                let mut bytes: Vec<u8> = (0..length).map(|n| (n * 31 + length) as u8).collect();
                if let Some(its) = bytes.first_chunk_mut() {
                    *its = first.to_ne_bytes();
                }
                numbers().control(&mut bytes, Way::Inwards);
                for (level, name) in [(libc::IPPROTO_IPV6, 20), (libc::IPPROTO_IP, 48)] {
                    numbers().option(level, name, &mut bytes, Way::Outwards);
                }
            }
        }
    }
}

//! A multicast group with a filter of sources. `getsockopt` gives as many of them as its value asks
//! for, however short that is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOOPBACK_INTERFACE: u32 = 1;
const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_INCLUDE: u32 = 1;
/// `struct group_filter` up to its sources, and one of them.
const HEAD: usize = 144;
const SOURCE: usize = 128;
/// `struct ip_msfilter` up to its sources.
const IP_HEAD: usize = 16;
/// More sources than there are.
const MANY: u32 = 1000;

/// With as many sources as a kernel allows at first.
pub struct SourceFilter {
    group: IpAddr,
    sources: Vec<IpAddr>,
}

impl SourceFilter {
    pub fn of_ipv4() -> Self {
        let sources = (1..=10).map(|n| Ipv4Addr::new(192, 0, 2, n).into()).collect();
        Self { group: Ipv4Addr::new(232, 1, 1, 1).into(), sources }
    }

    pub fn of_ipv6() -> Self {
        let sources = (1..=64).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into());
        Self {
            group: Ipv6Addr::new(0xff31, 0, 0, 0, 0, 0, 0, 1).into(),
            sources: sources.collect(),
        }
    }

    pub fn family(&self) -> i32 {
        if self.group.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
    }

    fn level(&self) -> i32 {
        if self.group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
    }

    /// `struct group_req`, with which `struct group_filter` begins.
    fn membership(&self) -> Vec<u8> {
        [&[LOOPBACK_INTERFACE, 0].map(u32::to_ne_bytes).concat()[..], &storage(self.group)].concat()
    }

    fn head(&self, number: u32) -> Vec<u8> {
        let mut head = self.membership();
        head.extend(MCAST_INCLUDE.to_ne_bytes());
        head.extend(number.to_ne_bytes());
        head
    }

    /// Level, name and value of the options that give a datagram socket this filter.
    pub fn options(&self) -> [(i32, i32, Vec<u8>); 2] {
        let mut filter = self.head(self.sources.len() as u32);
        self.sources.iter().for_each(|source| filter.extend(storage(*source)));
        [
            (self.level(), MCAST_JOIN_GROUP, self.membership()),
            (self.level(), libc::MCAST_MSFILTER, filter),
        ]
    }

    /// The sources are told where there is room for them; where there is not, no memory beside the value
    /// changes. `get` asks the socket that has this filter (level, name, value).
    pub fn assert_told_within_the_value(
        &self,
        mut get: impl FnMut(i32, i32, &mut [u8]) -> Result<usize, i32>,
    ) {
        let number = self.sources.len();
        let mut whole = self.head(number as u32);
        whole.resize(HEAD + number * SOURCE, 0);
        assert_eq!(get(self.level(), libc::MCAST_MSFILTER, &mut whole), Ok(whole.len()));
        assert_eq!(&whole[HEAD..HEAD + SOURCE], storage(self.sources[0]));
        let mut short = vec![(libc::MCAST_MSFILTER, self.head(MANY), HEAD)];
        if let IpAddr::V4(group) = self.group {
            // struct ip_msfilter
            let words = [MCAST_INCLUDE, MANY].map(u32::to_ne_bytes).concat();
            let addresses = [group.octets(), Ipv4Addr::LOCALHOST.octets()].concat();
            short.push((libc::IP_MSFILTER, [addresses, words].concat(), IP_HEAD));
        }
        for (name, head, length) in short {
            let mut memory = vec![0xca; HEAD + MANY as usize * SOURCE];
            memory[..length].copy_from_slice(&head);
            let got = get(self.level(), name, &mut memory[..length]);
            let beside = memory[length..].iter().filter(|byte| **byte != 0xca).count();
            assert_eq!(beside, 0, "option {name}: {beside} bytes were written behind the value");
            assert_eq!(got, Err(libc::EINVAL), "option {name}");
        }
    }
}

/// `struct sockaddr_storage`
fn storage(address: IpAddr) -> [u8; SOURCE] {
    let mut bytes = [0; SOURCE];
    match address {
        IpAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.octets());
        }
    }
    bytes
}

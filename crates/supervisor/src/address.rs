//! Socket addresses: the kernel's bytes, and what people read.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// `sizeof(struct sockaddr_storage)`: no address is longer.
pub const CAPACITY: usize = 128;

/// The bytes of a `struct sockaddr_*`, as system calls take and give them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address {
    bytes: [u8; CAPACITY],
    len: u8,
}

impl Address {
    /// Longer than any address: cut to `CAPACITY`.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let len = bytes.len().min(CAPACITY);
        let mut address = Self::default();
        address.bytes[..len].copy_from_slice(&bytes[..len]);
        address.len = len as u8;
        address
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// No address: an unnamed socket, the source of a stream's bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `AF_INET`, `AF_INET6`, …; `AF_UNSPEC` for what is too short to have a family.
    pub fn family(&self) -> i32 {
        match self.as_bytes() {
            [low, high, ..] => i32::from(u16::from_ne_bytes([*low, *high])),
            _ => libc::AF_UNSPEC,
        }
    }

    /// As `bind` takes it: no family, and no host, is any host of IPv4.
    pub fn bound_to(&self) -> Option<SocketAddr> {
        let bytes = self.as_bytes();
        if self.family() == libc::AF_UNSPEC && bytes.len() >= 16 && bytes[4..8] == [0; 4] {
            let port = u16::from_be_bytes([bytes[2], bytes[3]]);
            return Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        }
        self.ip()
    }

    /// `None`: another family than IPv4 and IPv6, or too short for its own.
    pub fn ip(&self) -> Option<SocketAddr> {
        let bytes = self.as_bytes();
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        match self.family() {
            libc::AF_INET => {
                let host: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
                Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(host), port)))
            }
            libc::AF_INET6 => {
                let flow = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
                let host: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                // Programs from before RFC 3493 have no such field.
                let scope = bytes.get(24..28).and_then(|scope| scope.first_chunk());
                let scope = u32::from_ne_bytes(scope.copied().unwrap_or_default());
                let host = Ipv6Addr::from(host);
                Some(SocketAddr::V6(SocketAddrV6::new(host, port, flow, scope)))
            }
            _ => None,
        }
    }
}

impl Default for Address {
    fn default() -> Self {
        Self { bytes: [0; CAPACITY], len: 0 }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 28];
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address.ip() {
            IpAddr::V4(host) => {
                bytes[4..8].copy_from_slice(&host.octets());
                (libc::AF_INET, 16)
            }
            IpAddr::V6(host) => {
                bytes[8..24].copy_from_slice(&host.octets());
                (libc::AF_INET6, 28)
            }
        };
        if let SocketAddr::V6(v6) = address {
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
        }
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        Self::from_bytes(&bytes[..len])
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match (self.ip(), self.len) {
            (Some(address), _) => write!(f, "{address}"),
            (None, 0) => f.write_str("-"),
            (None, _) => write!(f, "family {}", self.family()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_of_another_family_is_not_read_as_ip() {
        let mut bytes = [0u8; 110];
        bytes[0] = libc::AF_UNIX as u8;
        let address = Address::from_bytes(&bytes);
        assert_eq!((address.family(), address.ip()), (libc::AF_UNIX, None));
    }

    proptest! {
        #[test]
        fn ipv4_survives_the_way_to_bytes_and_back(host: [u8; 4], port: u16) {
            let address = SocketAddr::from((host, port));
            prop_assert_eq!(Address::from(address).ip(), Some(address));
        }

        #[test]
        fn ipv6_survives_with_flow_and_scope(host: u128, port: u16, flow in 0u32..1 << 20, scope: u32) {
            let address =
                SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from_bits(host), port, flow, scope));
            prop_assert_eq!(Address::from(address).ip(), Some(address));
        }

        #[test]
        fn any_bytes_are_an_address_that_gives_them_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let address = Address::from_bytes(&bytes);
            prop_assert_eq!(address.as_bytes(), &bytes[..bytes.len().min(CAPACITY)]);
            let shown = address.to_string();
            prop_assert!(!shown.is_empty());
            if bytes.len() < 8 {
                prop_assert_eq!(address.ip(), None);
            }
        }
    }
}

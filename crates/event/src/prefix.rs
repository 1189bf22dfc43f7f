//! Address prefixes, of filters and of policies.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address prefix such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub addr: IpAddr,
    /// Bits.
    pub length: u8,
}

/// Bits before an IPv4 address in IPv6.
const MAPPED: u8 = 96;

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.length)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (addr, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr.parse().map_err(|_| not_an_address(addr))?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => match text.parse() {
                Ok(bits) if bits <= most => bits,
                _ => {
                    return Err(format!("'/{text}' is no prefix length: that is 0 to {most} bits"));
                }
            },
        };
        Ok(match addr {
            IpAddr::V6(v6) => Prefix::of_ipv6(v6, length),
            IpAddr::V4(_) => Prefix { addr, length },
        })
    }
}

/// `ss` and `ip` print addresses of link scope with the interface behind them.
fn not_an_address(text: &str) -> String {
    match text.split_once('%') {
        Some((addr, interface)) if addr.parse::<Ipv6Addr>().is_ok() => format!(
            "'{text}' has an interface in it, which is asked for by itself: write {addr}, and \
             --interface {interface} where there is this option"
        ),
        _ => format!("'{text}' is no IP address; write one like 192.0.2.0/24 or 2001:db8::/32"),
    }
}

impl Prefix {
    /// Connections to addresses such as ::ffff:192.0.2.1 are IPv4, and so is what names them.
    fn of_ipv6(addr: Ipv6Addr, length: u8) -> Prefix {
        match (addr.to_ipv4_mapped(), length.checked_sub(MAPPED)) {
            (Some(v4), Some(length)) => Prefix { addr: v4.into(), length },
            _ => Prefix { addr: addr.into(), length },
        }
    }

    /// `10.6`, `10.6.`, `2001:db8` and `2001:db8:`, the first parts of an address.
    pub fn beginning(text: &str) -> Option<Prefix> {
        if text.contains('.') {
            let parts = text.strip_suffix('.').unwrap_or(text).split('.');
            let parts: Vec<u8> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
            let mut bytes = [0; 4];
            let length = 8 * parts.len() as u8;
            bytes[..3].get_mut(..parts.len())?.copy_from_slice(&parts);
            return Some(Prefix { addr: Ipv4Addr::from(bytes).into(), length });
        }
        let parts =
            text.contains(':').then(|| text.strip_suffix(':').unwrap_or(text).split(':'))?;
        let parts = parts.map(|part| u16::from_str_radix(part, 16).ok());
        let parts: Vec<u16> = parts.collect::<Option<_>>()?;
        let mut groups = [0; 8];
        groups[..7].get_mut(..parts.len())?.copy_from_slice(&parts);
        Some(Prefix::of_ipv6(Ipv6Addr::from(groups), 16 * parts.len() as u8))
    }

    /// The prefix of one address, as a packet has it.
    pub fn whole(addr: IpAddr) -> Prefix {
        let addr = addr.to_canonical();
        Prefix { addr, length: if addr.is_ipv4() { 32 } else { 128 } }
    }

    /// The same without the bits of a host in it, which routes refuse.
    pub fn network(&self) -> Prefix {
        let host = |bits: u32| bits - u32::from(self.length);
        let addr = match self.addr {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(host(u32::BITS)).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(host(u128::BITS)).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
        };
        Prefix { addr, length: self.length }
    }

    /// Whether this address begins with it.
    pub fn holds(&self, addr: IpAddr) -> bool {
        self.meets(&Prefix::whole(addr))
    }

    /// Whether one of them lies in the other.
    pub fn meets(&self, other: &Prefix) -> bool {
        let same = match (self.addr, other.addr) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.length.min(other.length).into()
    }

    /// As `bpf/match.h` has it: the kernel's number of the family, and the address from the first
    /// byte on.
    pub fn family_and_bytes(&self) -> (u16, [u8; 16]) {
        const AF_INET: u16 = 2;
        const AF_INET6: u16 = 10;
        match self.addr {
            IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (AF_INET, bytes)
            }
            IpAddr::V6(v6) => (AF_INET6, v6.octets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_a_length_is_one_address() {
        assert_eq!("192.0.2.1".parse::<Prefix>().unwrap().length, 32);
        assert_eq!("::1".parse::<Prefix>().unwrap().length, 128);
    }

    #[test]
    fn an_ipv4_address_within_ipv6_is_the_ipv4_address() {
        let same = |text: &str| text.parse::<Prefix>().unwrap().to_string();
        assert_eq!(same("::ffff:192.0.2.1"), "192.0.2.1/32");
        assert_eq!(same("::ffff:192.0.2.0/120"), "192.0.2.0/24");
        assert_eq!(same("::ffff:0:0/96"), "0.0.0.0/0");
        assert_eq!(same("::/0"), "::/0", "IPv6 alone");
        assert_eq!(same("::192.0.2.1"), "::c000:201/128", "another form, which no socket has");
    }

    #[test]
    fn a_network_has_no_bits_of_a_host() {
        for (text, network) in [
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("10.31.255.1/12", "10.16.0.0/12"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("192.0.2.7/0", "0.0.0.0/0"),
            ("2001:db8:ffff::7/33", "2001:db8:8000::/33"),
            ("2001:db8::7", "2001:db8::7/128"),
            ("2001:db8::7/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().network().to_string(), network, "{text}");
        }
    }

    #[test]
    fn an_address_is_held_by_what_it_begins_with() {
        let holds = |prefix: &str, addr: &str| {
            prefix.parse::<Prefix>().unwrap().holds(addr.parse().unwrap())
        };
        for (prefix, addr) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.16.0.0/12", "10.31.255.1"),
            ("0.0.0.0/0", "192.0.2.1"),
            ("192.0.2.1", "::ffff:192.0.2.1"),
            ("::/0", "2001:db8::1"),
            ("2001:db8::1/32", "2001:db8:ffff::"),
        ] {
            assert!(holds(prefix, addr), "{prefix} {addr}");
        }
        for (prefix, addr) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.16.0.0/12", "10.32.0.1"),
            ("192.0.2.1", "192.0.2.0"),
            ("::/0", "192.0.2.1"),
            ("2001:db8::/33", "2001:db8:ffff::"),
        ] {
            assert!(!holds(prefix, addr), "{prefix} {addr}");
        }
    }

    #[test]
    fn the_first_parts_of_an_address_are_a_prefix_of_their_length() {
        let beginning = |text: &str| Prefix::beginning(text).map(|prefix| prefix.to_string());
        for (text, prefix) in [
            ("10.6", "10.6.0.0/16"),
            ("10.6.", "10.6.0.0/16"),
            ("10.", "10.0.0.0/8"),
            ("192.0.2", "192.0.2.0/24"),
            ("2001:db8", "2001:db8::/32"),
            ("2001:0DB8:", "2001:db8::/32"),
            ("0:0:0:0:0:ffff:c000:", "192.0.0.0/16"),
        ] {
            assert_eq!(beginning(text).as_deref(), Some(prefix), "{text}");
        }
        for none in ["10", "1.2.3.4", "1.2.3.4.", "300.1.", "2001", "::1:", "1:2:3:4:5:6:7:8:"] {
            assert_eq!(beginning(none), None, "{none}");
        }
    }

    #[test]
    fn a_bad_prefix_is_named_in_the_error() {
        assert!("10.0.0.0/33".parse::<Prefix>().unwrap_err().contains("/33"));
        assert!("ten".parse::<Prefix>().unwrap_err().contains("'ten'"));
        let named = "fe80::1%wlan0/64".parse::<Prefix>().unwrap_err();
        assert!(named.contains("write fe80::1, and --interface wlan0"), "{named}");
        assert!("ten%wlan0".parse::<Prefix>().unwrap_err().contains("no IP address"));
    }
}

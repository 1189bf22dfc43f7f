//! What a row has of an address by default.

use std::net::{IpAddr, Ipv6Addr};

use transom_event::Prefix;

/// /24 or /48: what networks are commonly announced as.
pub fn prefix(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// An address as a packet has it: programs that listen for both families call an IPv4 peer
/// `::ffff:192.0.2.1`.
///
/// # Errors
/// It is none.
pub fn address(text: &str) -> Result<IpAddr, std::net::AddrParseError> {
    text.parse().map(|address: IpAddr| address.to_canonical())
}

/// `192.0.2.7`, `192.0.2.0/24`, or the beginning of an address, as `192.0` and `2001:db8:`; `None`: it
/// is none of them.
pub(crate) fn range(text: &str) -> Option<Prefix> {
    if let Ok(prefix) = text.parse::<Prefix>() {
        // No packet has an address within `::ffff:0:0/96`: it is IPv4.
        let is_ipv4 = prefix.addr.to_canonical() != prefix.addr;
        return Some(prefix).filter(|_| !is_ipv4);
    }
    Prefix::beginning(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_leaves_the_host_out() {
        assert_eq!(prefix("192.0.2.77".parse().unwrap()), "192.0.2.0/24");
        assert_eq!(prefix("2001:db8:1:2::7".parse().unwrap()), "2001:db8:1::/48");
    }

    #[test]
    fn a_range_is_an_address_a_prefix_or_the_beginning_of_one() {
        let meets = |a: &str, b: &str| {
            let (a, b) = (range(a).unwrap(), range(b).unwrap());
            assert_eq!(a.meets(&b), b.meets(&a));
            a.meets(&b)
        };
        assert!(meets("10.61.", "10.61.2.0/24") && !meets("10.61.", "10.6.1.0/24"));
        assert!(meets("10.61.2.77/16", "10.61.9.1") && !meets("10.61.2.77/16", "10.62.2.77"));
        assert!(meets("0.0.0.0/0", "10.61.9.1") && !meets("0.0.0.0/0", "2001:db8::1"));
        assert!(meets("2001:DB8:", "2001:db8:7::1") && !meets("2001:db8:", "2001:db80::1"));
        assert!(meets("2001:0db8:0:0::1", "2001:db8::1"));
        assert!(
            meets("::ffff:10.61.2.1", "10.61.2.1") && meets("::ffff:10.0.0.0/104", "10.61.2.1")
        );
        assert!(meets("10.6", "10.6.1.0/24") && !meets("10.6", "10.61.2.0/24"));
        for none in ["10.0.0.0/33", "10.0.0.0/", "1.2.3.4.", "::1:", "::ffff:1.2.3.4/90"] {
            assert_eq!(range(none), None, "{none}");
        }
    }
}

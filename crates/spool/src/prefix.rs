//! What a row has of an address by default.

use std::net::{IpAddr, Ipv6Addr};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_leaves_the_host_out() {
        assert_eq!(prefix("192.0.2.77".parse().unwrap()), "192.0.2.0/24");
        assert_eq!(prefix("2001:db8:1:2::7".parse().unwrap()), "2001:db8:1::/48");
    }
}

//! Networks: the addresses that begin with the same bits.

use std::net::IpAddr;

/// Whether the first `prefix` bits are the same.
pub fn same_network(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let differ = |a: u128, b: u128, width: u8| {
        let host = u32::from(width.saturating_sub(prefix));
        (a ^ b).checked_shr(host).unwrap_or(0) != 0
    };
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            !differ(u128::from(a.to_bits()), u128::from(b.to_bits()), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => !differ(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::same_network;

    #[test]
    fn a_network_is_what_the_first_bits_say() {
        for (a, b, prefix, same) in [
            ("192.0.2.1", "192.0.2.200", 24, true),
            ("192.0.2.1", "192.0.3.1", 24, false),
            ("192.0.2.1", "192.0.3.1", 23, true),
            ("192.0.2.1", "198.51.100.1", 0, true),
            ("192.0.2.1", "192.0.2.2", 32, false),
            ("2001:db8::1", "2001:db8::2", 64, true),
            ("2001:db8::1", "2001:db9::1", 32, false),
            ("2001:db8::1", "2001:db9::1", 0, true),
            ("192.0.2.1", "2001:db8::1", 0, false),
        ] {
            let of = |text: &str| text.parse().expect("an address");
            assert_eq!(same_network(of(a), of(b), prefix), same, "{a} {b} /{prefix}");
        }
    }
}

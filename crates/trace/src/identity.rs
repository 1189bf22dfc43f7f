//! Addresses and names of an `open` event as text, and back without loss.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const AF_INET6: u16 = 10;

/// An address as people write it; IPv4-mapped IPv6 is written as IPv4, `family` tells them apart.
pub(crate) fn address(bytes: &[u8; 16], family: u16) -> IpAddr {
    if family == AF_INET6 {
        let v6 = Ipv6Addr::from(*bytes);
        return v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4);
    }
    IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
}

pub(crate) fn address_bytes(text: &str, family: u16) -> Option<[u8; 16]> {
    match (text.parse().ok()?, family) {
        (IpAddr::V6(v6), _) => Some(v6.octets()),
        (IpAddr::V4(v4), AF_INET6) => Some(v4.to_ipv6_mapped().octets()),
        (IpAddr::V4(v4), _) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&v4.octets());
            Some(bytes)
        }
    }
}

/// A name of the kernel, up to its NUL. What is not UTF-8, is a control
/// character or a backslash is written `\xNN`, because any program may choose any bytes.
pub(crate) fn name(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let mut text = String::with_capacity(end);
    for chunk in bytes[..end].utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

pub(crate) fn name_bytes(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut at = 0;
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let (byte, next) = if first == b'\\' {
            let digits = std::str::from_utf8(tail.strip_prefix(b"x")?.get(..2)?).ok()?;
            (u8::from_str_radix(digits, 16).ok()?, &tail[3..])
        } else {
            (first, tail)
        };
        *bytes.get_mut(at)? = byte;
        at += 1;
        rest = next;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_name_comes_back(mut bytes: [u8; 16]) {
            if let Some(end) = bytes.iter().position(|&b| b == 0) {
                bytes[end..].fill(0);
            }
            prop_assert_eq!(name_bytes(&name(&bytes)), Some(bytes));
        }

        #[test]
        fn every_ipv6_address_comes_back(bytes: [u8; 16]) {
            let text = address(&bytes, AF_INET6).to_string();
            prop_assert_eq!(address_bytes(&text, AF_INET6), Some(bytes));
        }

        #[test]
        fn no_text_is_too_strange_for_a_name(text: String) {
            let _ = name_bytes(&text);
        }
    }

    #[test]
    fn no_character_that_a_terminal_obeys_is_written() {
        let mut bytes = [0; 16];
        bytes[..9].copy_from_slice("a\x1b\x7f\u{9b}2Jé".as_bytes());
        assert_eq!(name(&bytes), "a\\x1b\\x7f\\xc2\\x9b2Jé");
    }

    #[test]
    fn a_mapped_address_is_written_as_ipv4_and_stays_ipv6() {
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
        assert_eq!(address(&mapped, AF_INET6).to_string(), "10.0.0.1");
        assert_eq!(address_bytes("10.0.0.1", AF_INET6), Some(mapped));
    }

    #[test]
    fn a_name_too_long_or_badly_escaped_is_refused() {
        assert_eq!(name_bytes("seventeen letters"), None);
        assert_eq!(name_bytes("\\x4"), None);
        assert_eq!(name_bytes("\\n41"), None);
    }
}

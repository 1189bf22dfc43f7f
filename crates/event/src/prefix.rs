//! Address prefixes, of filters and of policies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address prefix such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub addr: IpAddr,
    /// Bits.
    pub length: u8,
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.length)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (addr, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr.parse().map_err(|_| {
            format!("'{addr}' is no IP address; write one like 192.0.2.0/24 or 2001:db8::/32")
        })?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => match text.parse() {
                Ok(bits) if bits <= most => bits,
                _ => return Err(format!("'/{text}' is no prefix length from 0 to {most}")),
            },
        };
        Ok(Prefix { addr, length })
    }
}

impl Prefix {
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
    fn a_bad_prefix_is_named_in_the_error() {
        assert!("10.0.0.0/33".parse::<Prefix>().unwrap_err().contains("/33"));
        assert!("ten".parse::<Prefix>().unwrap_err().contains("'ten'"));
    }
}

//! The addresses of a network interface. Asked of the kernel and not read from /sys, which may show
//! another network namespace than ours.

use std::ffi::{CStr, CString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail};

/// What the kernel says of an interface.
#[derive(Default)]
struct Known {
    addresses: Vec<IpAddr>,
    hardware: Vec<u8>,
}

fn ask(name: &str) -> Result<Known> {
    let mut list = std::ptr::null_mut();
    // SAFETY: getifaddrs fills `list` or fails.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(std::io::Error::last_os_error()).context("listing addresses");
    }
    let (mut known, mut at) = (Known::default(), list);
    while !at.is_null() {
        // SAFETY: the list is valid until freeifaddrs below.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        // SAFETY: names end with 0.
        let its = unsafe { CStr::from_ptr(entry.ifa_name) };
        if its.to_bytes() == name.as_bytes() {
            // SAFETY: an address is null or as long as its family says.
            unsafe { known.learn(entry.ifa_addr) };
        }
    }
    // SAFETY: from getifaddrs, and no longer used.
    unsafe { libc::freeifaddrs(list) };
    known.addresses.sort_by_key(|address| !address.is_ipv4());
    Ok(known)
}

impl Known {
    /// # Safety
    /// `from` is null or points to an address as long as its family says.
    unsafe fn learn(&mut self, from: *const libc::sockaddr) {
        // SAFETY: as the caller says.
        unsafe {
            match from.as_ref().map(|address| i32::from(address.sa_family)) {
                Some(libc::AF_INET) => {
                    let v4 = from.cast::<libc::sockaddr_in>().read_unaligned();
                    let bits = u32::from_be(v4.sin_addr.s_addr);
                    self.addresses.push(Ipv4Addr::from(bits).into());
                }
                Some(libc::AF_INET6) => {
                    let v6 = from.cast::<libc::sockaddr_in6>().read_unaligned();
                    self.addresses.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
                }
                Some(libc::AF_PACKET) => {
                    let link = from.cast::<libc::sockaddr_ll>().read_unaligned();
                    let length = usize::from(link.sll_halen).min(link.sll_addr.len());
                    self.hardware = link.sll_addr[..length].to_vec();
                }
                _ => {}
            }
        }
    }
}

/// All addresses of the interface, v4 first.
pub fn addresses(name: &str) -> Result<Vec<IpAddr>> {
    Ok(ask(name)?.addresses)
}

/// The hardware address of an interface; empty if it has none.
pub fn hardware_address(name: &str) -> Vec<u8> {
    ask(name).map(|known| known.hardware).unwrap_or_default()
}

/// As `ip` writes it.
pub fn hardware_text(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// The number by which netlink names the interface.
pub fn number(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with 0.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|&number| number != 0)
}

/// All addresses, of which there has to be one.
pub fn some_addresses(name: &str) -> Result<Vec<IpAddr>> {
    let all = addresses(name)?;
    if all.is_empty() {
        bail!("there is no interface '{name}' with an address here: see `ip address`");
    }
    Ok(all)
}

/// Whether there is one, with a v4 address: our multicast group needs it.
pub fn check(name: &str) -> Result<()> {
    if !some_addresses(name)?.iter().any(IpAddr::is_ipv4) {
        bail!(
            "'{name}' has no IPv4 address, which finding the others on the network needs: give it \
             one, or go through a router with --connect"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_the_loopback_address() {
        assert!(addresses("lo").unwrap().contains(&Ipv4Addr::LOCALHOST.into()));
        assert_eq!(hardware_address("lo"), [0; 6]);
        assert!(addresses("no-such").unwrap().is_empty());
        assert!(check("no-such").unwrap_err().to_string().contains("no-such"));
    }
}

//! The addresses of a network interface.

use std::ffi::CStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, bail};

/// All addresses of the interface, v4 first.
pub fn addresses(name: &str) -> Result<Vec<IpAddr>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: getifaddrs fills `list` or fails.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(std::io::Error::last_os_error()).context("listing addresses");
    }
    let (mut found, mut at) = (Vec::new(), list);
    while !at.is_null() {
        // SAFETY: the list is valid until freeifaddrs below.
        let entry = unsafe { &*at };
        at = entry.ifa_next;
        // SAFETY: names end with 0.
        let its = unsafe { CStr::from_ptr(entry.ifa_name) };
        if its.to_bytes() == name.as_bytes() {
            // SAFETY: an address is null or as long as its family says.
            found.extend(unsafe { address(entry.ifa_addr) });
        }
    }
    // SAFETY: from getifaddrs, and no longer used.
    unsafe { libc::freeifaddrs(list) };
    found.sort_by_key(|address| !address.is_ipv4());
    Ok(found)
}

/// # Safety
/// `from` is null or points to an address as long as its family says.
unsafe fn address(from: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller says.
    unsafe {
        match i32::from(from.as_ref()?.sa_family) {
            libc::AF_INET => {
                let v4 = from.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let v6 = from.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

/// The hardware address of an interface, or nothing.
pub fn hardware_address(name: &str) -> String {
    let read = fs::read_to_string(format!("/sys/class/net/{name}/address"));
    read.unwrap_or_default().trim().to_owned()
}

/// Whether there is one, with a v4 address: our multicast group needs it.
pub fn check(name: &str) -> Result<()> {
    let addresses = addresses(name)?;
    if addresses.is_empty() {
        bail!("there is no interface '{name}' with an address here: see `ip address`");
    }
    if !addresses.iter().any(IpAddr::is_ipv4) {
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
        assert!(addresses("no-such").unwrap().is_empty());
        assert!(check("no-such").unwrap_err().to_string().contains("no-such"));
    }
}

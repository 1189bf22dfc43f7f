//! What the kernel does only for a thread with a privilege.
//!
//! The stack carries calls out with our privileges, which are not the program's: it may have given
//! them up (a server's workers), or run as another user.

use std::fs;

use crate::address::Address;
use crate::errno::{Errno, Result};

/// `linux/capability.h`.
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;

/// Not in `libc`: `linux/in.h`.
const IP_IPSEC_POLICY: i32 = 16;
const IP_XFRM_POLICY: i32 = 17;
/// More than this priority is the administrator's.
const HIGHEST_PRIORITY: i32 = 6;

const FIRST_FREE_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// The privileges of which one is needed, and what the kernel says without.
type Needed = (&'static [u32], Errno);

pub fn for_socket(tid: i32, kind: i32) -> Result<()> {
    check(tid, (kind == libc::SOCK_RAW).then_some((&[CAP_NET_RAW], Errno(libc::EPERM))))
}

pub fn for_bind(tid: i32, address: &Address) -> Result<()> {
    let port = address.ip().map_or(0, |ip| ip.port());
    let privileged = port != 0 && port < first_free_port();
    check(tid, privileged.then_some((&[CAP_NET_BIND_SERVICE], Errno(libc::EACCES))))
}

pub fn for_option(tid: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
    check(tid, needed_for_option(level, name, value))
}

fn needed_for_option(level: i32, name: i32, value: &[u8]) -> Option<Needed> {
    const ADMIN: &[u32] = &[CAP_NET_ADMIN];
    const RAW_OR_ADMIN: &[u32] = &[CAP_NET_RAW, CAP_NET_ADMIN];
    let number = value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let capabilities = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DEBUG) if number != 0 => {
            return Some((ADMIN, Errno(libc::EACCES)));
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE | libc::SO_SNDBUFFORCE)
        | (libc::IPPROTO_TCP, libc::TCP_REPAIR)
        | (libc::IPPROTO_IP, IP_IPSEC_POLICY | IP_XFRM_POLICY) => ADMIN,
        (libc::SOL_SOCKET, libc::SO_MARK) => RAW_OR_ADMIN,
        (libc::SOL_SOCKET, libc::SO_PRIORITY) if !(0..=HIGHEST_PRIORITY).contains(&number) => {
            RAW_OR_ADMIN
        }
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT) if number != 0 => RAW_OR_ADMIN,
        (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT) if number != 0 => RAW_OR_ADMIN,
        (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS | libc::IPV6_DSTOPTS | libc::IPV6_RTHDRDSTOPTS)
            if !value.is_empty() =>
        {
            &[CAP_NET_RAW]
        }
        _ => return None,
    };
    Some((capabilities, Errno(libc::EPERM)))
}

fn check(tid: i32, needed: Option<Needed>) -> Result<()> {
    match needed {
        Some((capabilities, errno)) if !has_any(tid, capabilities) => Err(errno),
        _ => Ok(()),
    }
}

/// Over the network, which belongs to our user namespace: privileges in one below it do not count.
fn has_any(tid: i32, capabilities: &[u32]) -> bool {
    let of_user = |task: &str| fs::read_link(format!("/proc/{task}/ns/user")).ok();
    let ours = of_user("thread-self");
    if ours.is_none() || of_user(&tid.to_string()) != ours {
        return false;
    }
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let effective = effective(&status);
    capabilities.iter().any(|capability| effective >> capability & 1 != 0)
}

/// `CapEff: 000001ffffffffff` of proc_pid_status(5).
fn effective(status: &str) -> u64 {
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or(0)
}

fn first_free_port() -> u16 {
    let text = fs::read_to_string(FIRST_FREE_PORT).unwrap_or_default();
    text.trim().parse().unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_administrator_s_is_known_by_its_value_too() {
        let number = |number: i32| number.to_ne_bytes();
        let needs = |level, name, value: i32| needed_for_option(level, name, &number(value));
        let refused = |needed: Option<Needed>| needed.map(|(_, errno)| errno.0);
        assert_eq!(refused(needs(libc::SOL_SOCKET, libc::SO_MARK, 0)), Some(libc::EPERM));
        assert_eq!(refused(needs(libc::SOL_SOCKET, libc::SO_PRIORITY, 7)), Some(libc::EPERM));
        assert_eq!(refused(needs(libc::SOL_SOCKET, libc::SO_PRIORITY, 6)), None);
        assert_eq!(refused(needs(libc::SOL_SOCKET, libc::SO_DEBUG, 1)), Some(libc::EACCES));
        assert_eq!(refused(needs(libc::IPPROTO_IP, libc::IP_TRANSPARENT, 0)), None);
        assert_eq!(refused(needs(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)), None);
    }

    #[test]
    fn effective_privileges_are_read_from_the_status() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000000400\n"), 1 << CAP_NET_BIND_SERVICE);
        assert_eq!(effective("Name:\tx\n"), 0);
    }
}

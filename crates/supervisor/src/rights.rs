//! What the kernel does only for a thread with a privilege.
//!
//! The stack carries calls out with our privileges, which are not the program's: it may have given
//! them up (a server's workers), or run as another user.

use std::fmt::Display;
use std::fs::{self, File};
use std::path::PathBuf;

use crate::address::Address;
use crate::errno::{Errno, Result};
use crate::namespace;

/// `linux/capability.h`.
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;

/// Not in `libc`: `linux/in.h`, `linux/in6.h`, `asm-generic/socket.h`.
const IP_IPSEC_POLICY: i32 = 16;
const IP_XFRM_POLICY: i32 = 17;
const IPV6_IPSEC_POLICY: i32 = 34;
const IPV6_XFRM_POLICY: i32 = 35;
const IPV6_2292HOPOPTS: i32 = 3;
const IPV6_2292DSTOPTS: i32 = 4;
const SO_TXTIME: i32 = 61;
pub const SO_BINDTOIFINDEX: i32 = 62;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
const SO_RCVMARK: i32 = 75;
/// What every socket has.
const USUAL_BUDGET: i32 = 8;
/// More than this priority is the administrator's.
const HIGHEST_PRIORITY: i32 = 6;

const FIRST_FREE_PORT: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
const GROUPS_THAT_PING: &str = "/proc/sys/net/ipv4/ping_group_range";

/// `sizeof(struct cmsghdr)`.
const CMSG_HEADER: usize = 16;

/// The privileges of which one is needed, and what the kernel says without.
type Needed = (&'static [u32], Errno);

pub fn for_socket(tid: i32, kind: i32, protocol: i32) -> Result<()> {
    check(tid, (kind == libc::SOCK_RAW).then_some((&[CAP_NET_RAW], Errno(libc::EPERM))))?;
    let is_icmp = matches!(protocol, libc::IPPROTO_ICMP | libc::IPPROTO_ICMPV6);
    if kind == libc::SOCK_DGRAM && is_icmp && !may_ping(tid) {
        return Err(Errno(libc::EACCES));
    }
    Ok(())
}

pub fn for_bind(tid: i32, address: &Address) -> Result<()> {
    let port = address.bound_to().map_or(0, |ip| ip.port());
    let privileged = port != 0 && port < first_free_port();
    check(tid, privileged.then_some((&[CAP_NET_BIND_SERVICE], Errno(libc::EACCES))))
}

pub fn for_option(tid: i32, level: i32, name: i32, value: &[u8]) -> Result<()> {
    check(tid, needed_for_option(level, name, value))
}

/// Whether it may do to the network what only an administrator may.
pub fn may_administer(tid: i32) -> bool {
    has_any(tid, &[CAP_NET_ADMIN])
}

/// Whether it puts the socket on a device.
pub fn is_of_the_device(level: i32, name: i32) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX)
}

/// Where it is on one already.
pub fn for_another_device(tid: i32) -> Result<()> {
    check(tid, Some((&[CAP_NET_RAW], Errno(libc::EPERM))))
}

/// Of an interface of a network namespace, or of ours.
pub fn for_change(tid: i32, of: Option<&File>) -> Result<()> {
    let Some(network) = of else {
        return check(tid, Some((&[CAP_NET_ADMIN], Errno(libc::EPERM))));
    };
    let own = user_namespace(tid);
    let counts = own.is_some_and(|own| namespace::owners(network).any(|owner| owner == own));
    match counts && has_effective(tid, &[CAP_NET_ADMIN]) {
        true => Ok(()),
        false => Err(Errno(libc::EPERM)),
    }
}

/// Ancillary data of a message: some say of one message what an option says of all.
pub fn for_message(tid: i32, control: &[u8]) -> Result<()> {
    messages(control)
        .try_for_each(|(level, name, value)| check(tid, needed_for_message(level, name, value)))
}

fn needed_for_message(level: i32, name: i32, value: &[u8]) -> Option<Needed> {
    match (level, name) {
        (libc::IPPROTO_IPV6, IPV6_2292HOPOPTS | IPV6_2292DSTOPTS) => {
            Some((&[CAP_NET_RAW], Errno(libc::EPERM)))
        }
        (libc::SOL_SOCKET, libc::SO_MARK | libc::SO_PRIORITY)
        | (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS | libc::IPV6_DSTOPTS | libc::IPV6_RTHDRDSTOPTS) => {
            needed_for_option(level, name, value)
        }
        _ => None,
    }
}

/// Level, type and content of each; what is no whole message, the stack refuses.
fn messages(control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let (header, _) = rest.split_at_checked(CMSG_HEADER)?;
        let len = usize::from_ne_bytes(*header.first_chunk()?);
        let number =
            |at: usize| Some(i32::from_ne_bytes(header.get(at..)?.first_chunk().copied()?));
        let (level, name) = (number(8)?, number(12)?);
        let value = rest.get(CMSG_HEADER..len)?;
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
        Some((level, name, value))
    })
}

fn needed_for_option(level: i32, name: i32, value: &[u8]) -> Option<Needed> {
    const ADMIN: &[u32] = &[CAP_NET_ADMIN];
    const RAW_OR_ADMIN: &[u32] = &[CAP_NET_RAW, CAP_NET_ADMIN];
    let number = value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let has_second = value.len() >= 8;
    let capabilities = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_DEBUG) if number != 0 => {
            return Some((ADMIN, Errno(libc::EACCES)));
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE | libc::SO_SNDBUFFORCE)
        | (libc::IPPROTO_TCP, libc::TCP_REPAIR)
        | (libc::IPPROTO_IP, IP_IPSEC_POLICY | IP_XFRM_POLICY)
        | (libc::IPPROTO_IPV6, IPV6_IPSEC_POLICY | IPV6_XFRM_POLICY) => ADMIN,
        // `struct sock_txtime`: the clock comes first.
        (libc::SOL_SOCKET, SO_TXTIME) if has_second && number != libc::CLOCK_MONOTONIC => ADMIN,
        (libc::SOL_SOCKET, libc::SO_BUSY_POLL | SO_PREFER_BUSY_POLL) if number > 0 => ADMIN,
        (libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET) if number > USUAL_BUDGET => ADMIN,
        (libc::SOL_SOCKET, libc::SO_MARK | SO_RCVMARK) => RAW_OR_ADMIN,
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
    let ours = user_namespace("thread-self");
    ours.is_some() && user_namespace(tid) == ours && has_effective(tid, capabilities)
}

fn user_namespace(task: impl Display) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{task}/ns/user")).ok()
}

fn has_effective(tid: i32, capabilities: &[u32]) -> bool {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let effective = effective(&status);
    capabilities.iter().any(|capability| effective >> capability & 1 != 0)
}

/// `CapEff: 000001ffffffffff` of proc_pid_status(5).
fn effective(status: &str) -> u64 {
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    field.and_then(|field| u64::from_str_radix(field.trim(), 16).ok()).unwrap_or(0)
}

/// `net.ipv4.ping_group_range` has one of its groups.
fn may_ping(tid: i32) -> bool {
    let range = fs::read_to_string(GROUPS_THAT_PING).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    has_group_in(&status, &range)
}

/// `Gid: real effective saved filesystem` and `Groups: …` of proc_pid_status(5).
fn has_group_in(status: &str, range: &str) -> bool {
    let mut bounds = range.split_whitespace().filter_map(|word| word.parse::<u32>().ok());
    let (Some(first), Some(last)) = (bounds.next(), bounds.next()) else { return false };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let effective = field("Gid:").and_then(|groups| groups.split_whitespace().nth(1));
    let others = field("Groups:").unwrap_or_default().split_whitespace();
    let mut all = effective.into_iter().chain(others).filter_map(|word| word.parse().ok());
    all.any(|group: u32| (first..=last).contains(&group))
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
    fn what_a_message_asks_for_is_looked_at_like_an_option() {
        let message = |level: i32, name: i32, value: &[u8]| {
            let len = CMSG_HEADER + value.len();
            let mut bytes = len.to_ne_bytes().to_vec();
            bytes.extend(level.to_ne_bytes());
            bytes.extend(name.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(len.next_multiple_of(8), 0);
            bytes
        };
        let needed = |control: &[u8]| {
            messages(control)
                .any(|(level, name, value)| needed_for_message(level, name, value).is_some())
        };
        let ttl = message(libc::IPPROTO_IP, libc::IP_TTL, &7i32.to_ne_bytes());
        let mark = message(libc::SOL_SOCKET, libc::SO_MARK, &7i32.to_ne_bytes());
        assert!(!needed(&ttl) && !needed(&[]));
        assert!(needed(&mark) && needed(&[&ttl[..], &mark].concat()));
        assert!(needed(&message(libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, &[0; 8])));
        assert!(!needed(&message(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &1i32.to_ne_bytes())));
        // What says that it is longer than all, or shorter than its header, is none.
        assert!(!needed(&[&[0xff; 8][..], &mark[8..]].concat()));
        assert!(!needed(&[&[0; 8][..], &mark[8..]].concat()));
    }

    #[test]
    fn who_may_ping_is_in_one_of_the_groups() {
        let status = "Name:\tx\nGid:\t5\t1000\t5\t5\nGroups:\t4 2000 \n";
        assert!(has_group_in(status, "0\t2147483647\n"));
        assert!(has_group_in(status, "1000\t1000\n") && has_group_in(status, "2000\t3000\n"));
        assert!(!has_group_in(status, "5\t5\n"), "the real group does not count");
        assert!(!has_group_in(status, "1\t0\n"), "nobody may");
        assert!(!has_group_in("", "0\t1\n") && !has_group_in(status, ""));
    }

    #[test]
    fn effective_privileges_are_read_from_the_status() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000000400\n"), 1 << CAP_NET_BIND_SERVICE);
        assert_eq!(effective("Name:\tx\n"), 0);
    }
}

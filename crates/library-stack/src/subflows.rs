//! The subflows of an MPTCP connection, from `getsockopt(SOL_MPTCP)`: linux/mptcp.h.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use transom_netstack::{Kernel, SocketId};
use transom_supervisor::{Address, PathStatus, tcp_info};

const SOL_MPTCP: i32 = 284;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;

/// `struct mptcp_subflow_data`: its own size, number of subflows, size of an entry in the kernel,
/// and as we have it.
const HEADER: usize = 16;
/// `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const ADDRESS: usize = 128;
const ADDRESSES: usize = 2 * ADDRESS;
/// Of a `struct tcp_info`, as far as `tcp_info::path` reads.
const INFO: usize = 232;
/// linux/mptcp.h: MPTCP_PM_ADDR_MAX, and the first one.
const MOST: usize = 9;

/// Empty: not an MPTCP connection, or one that fell back to TCP. Who opened the first subflow opens the
/// others: a client listens on no port to which its server could open one.
pub fn of(kernel: &mut Kernel, socket: SocketId, accepted: bool) -> Vec<PathStatus> {
    let Some(infos) = entries(kernel, socket, MPTCP_TCPINFO, INFO) else { return Vec::new() };
    let Some(names) = entries(kernel, socket, MPTCP_SUBFLOW_ADDRS, ADDRESSES) else {
        return Vec::new();
    };
    infos
        .iter()
        .zip(&names)
        .map(|(info, names)| {
            let (local, remote) = names.split_at(ADDRESS);
            tcp_info::path(info, accepted, name(local), name(remote))
        })
        .collect()
}

fn entries(
    kernel: &mut Kernel,
    socket: SocketId,
    option: i32,
    size: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut value = vec![0; HEADER + MOST * size];
    value[..4].copy_from_slice(&(HEADER as u32).to_ne_bytes());
    value[12..16].copy_from_slice(&(size as u32).to_ne_bytes());
    kernel.getsockopt(socket, SOL_MPTCP, option, &mut value).ok()?;
    let number = u32::from_ne_bytes(value[4..8].try_into().ok()?) as usize;
    Some(value[HEADER..].chunks_exact(size).take(number).map(<[u8]>::to_vec).collect())
}

/// A subflow over IPv4 of a socket of IPv6 is shown as what it is.
fn name(bytes: &[u8]) -> Address {
    let address = Address::from_bytes(bytes);
    let Some(ip) = address.ip() else { return Address::default() };
    let plain = match ip.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    match plain {
        IpAddr::V4(v4) if v4 == Ipv4Addr::UNSPECIFIED => Address::default(),
        IpAddr::V6(v6) if v6 == Ipv6Addr::UNSPECIFIED => Address::default(),
        plain => SocketAddr::new(plain, ip.port()).into(),
    }
}

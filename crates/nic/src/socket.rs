//! The system calls that packet sockets need and no crate wraps.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has.
    let done = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// PACKET_STATISTICS: packets dropped since the last call.
pub(crate) fn drops(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: two integers, for which zero is a value.
    let mut stats: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &mut length,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(u64::from(stats.tp_drops)) }
}

/// A packet socket's address: the interface, and for sending what the packet is.
pub(crate) fn link_address(index: u32, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: integers only.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    address
}

pub(crate) fn bind(socket: impl AsFd, address: &libc::sockaddr_ll) -> io::Result<()> {
    // SAFETY: the address is whole, and its length is given.
    let done = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn send(
    socket: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    to: &libc::sockaddr_ll,
) -> io::Result<usize> {
    // SAFETY: zeroes mean absent.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_name = std::ptr::from_ref(to).cast_mut().cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: address and parts outlive the call; `IoSlice` is laid out as `iovec`.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// A packet as it came: its length, which may exceed the room there was, and what the kernel says
/// of it (`tp_status` of PACKET_AUXDATA; 0 without).
pub(crate) struct Arrived {
    pub length: usize,
    pub status: u32,
}

/// Room for one control message with PACKET_AUXDATA, aligned as one.
#[repr(C, align(8))]
struct Control([u8; 64]);

pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [IoSliceMut<'_>]) -> io::Result<Arrived> {
    let mut control = Control([0; 64]);
    // SAFETY: zeroes mean absent.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = into.as_mut_ptr().cast();
    message.msg_iovlen = into.len() as _;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: parts and control outlive the call; `IoSliceMut` is laid out as `iovec`.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if length < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Arrived { length: length as usize, status: status(&message) })
}

fn status(message: &libc::msghdr) -> u32 {
    // SAFETY: the kernel has filled the control buffer, whose length it gave; only a message of the
    // right kind and size is read.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(message);
        if first.is_null()
            || (*first).cmsg_level != libc::SOL_PACKET
            || (*first).cmsg_type != libc::PACKET_AUXDATA
            || ((*first).cmsg_len as usize)
                < libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32) as usize
        {
            return 0;
        }
        libc::CMSG_DATA(first).cast::<libc::tpacket_auxdata>().read_unaligned().tp_status
    }
}

//! The host's own sockets as a stack: what interposition alone costs, and what the tests run on.

use std::fs;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::address::{Address, CAPACITY};
use crate::errno::{Errno, Result};
use crate::stack::{PathStatus, PollFd, Received, SocketId, Stack};
use crate::system::{self, Epoll};
use crate::tcp_info;

const WATCHED: u32 =
    (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// Sockets of the network namespace that this process lives in. A `SocketId` is a descriptor.
pub struct HostStack {
    epoll: Epoll,
    poll_fds: [PollFd; 1],
}

impl HostStack {
    pub fn new() -> Result<Self> {
        let epoll = Epoll::new()?;
        let poll_fds = [PollFd { fd: epoll.raw(), events: libc::EPOLLIN as u32 }];
        Ok(Self { epoll, poll_fds })
    }

    fn adopt(&self, fd: OwnedFd) -> Result<SocketId> {
        self.epoll.add(fd.as_raw_fd(), WATCHED, fd.as_raw_fd() as u64)?;
        Ok(SocketId(fd.into_raw_fd() as u64))
    }
}

fn raw(socket: SocketId) -> RawFd {
    socket.0 as RawFd
}

fn borrowed<'a>(socket: SocketId) -> BorrowedFd<'a> {
    // SAFETY: the supervisor names a socket only between its making and its `close`.
    unsafe { BorrowedFd::borrow_raw(raw(socket)) }
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut u32) -> i32;

fn name(socket: SocketId, call: NameCall) -> Result<Address> {
    let mut bytes = [0u8; CAPACITY];
    let mut len = bytes.len() as u32;
    // SAFETY: pointer and length are those of `bytes`.
    Errno::check(unsafe { call(raw(socket), bytes.as_mut_ptr().cast(), &mut len) }.into())?;
    Ok(Address::from_bytes(&bytes[..(len as usize).min(CAPACITY)]))
}

impl Stack for HostStack {
    fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Result<SocketId> {
        let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = system::owned(unsafe { libc::socket(domain, kind, protocol) }.into())?;
        self.adopt(fd)
    }

    fn bind(&mut self, socket: SocketId, address: &[u8]) -> Result<()> {
        system::bind(borrowed(socket), address)
    }

    fn connect(&mut self, socket: SocketId, address: &[u8]) -> Result<()> {
        system::connect(borrowed(socket), address)
    }

    fn listen(&mut self, socket: SocketId, backlog: i32) -> Result<()> {
        // SAFETY: no pointers.
        Errno::check(unsafe { libc::listen(raw(socket), backlog) }.into()).map(drop)
    }

    fn accept(&mut self, socket: SocketId) -> Result<(SocketId, Address)> {
        let mut bytes = [0u8; CAPACITY];
        let mut len = bytes.len() as u32;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: pointer and length are those of `bytes`.
        let fd = system::owned(
            unsafe { libc::accept4(raw(socket), bytes.as_mut_ptr().cast(), &mut len, flags) }
                .into(),
        )?;
        Ok((self.adopt(fd)?, Address::from_bytes(&bytes[..(len as usize).min(CAPACITY)])))
    }

    fn shutdown(&mut self, socket: SocketId, how: i32) -> Result<()> {
        system::shutdown(borrowed(socket), how)
    }

    fn close(&mut self, socket: SocketId) {
        // SAFETY: `adopt` gave its ownership away into this number.
        drop(unsafe { OwnedFd::from_raw_fd(raw(socket)) });
    }

    fn send(
        &mut self,
        socket: SocketId,
        data: &[IoSlice],
        flags: i32,
        destination: Option<&[u8]>,
        control: &[u8],
    ) -> Result<usize> {
        system::send_message(borrowed(socket), data, flags, destination, control)
    }

    fn recv(
        &mut self,
        socket: SocketId,
        data: &mut [IoSliceMut],
        flags: i32,
        message: Option<&mut Received>,
    ) -> Result<usize> {
        system::receive_message(borrowed(socket), data, flags, message)
    }

    fn getsockopt(
        &mut self,
        socket: SocketId,
        level: i32,
        name: i32,
        value: &mut [u8],
    ) -> Result<usize> {
        system::get_option(borrowed(socket), level, name, value)
    }

    fn setsockopt(&mut self, socket: SocketId, level: i32, name: i32, value: &[u8]) -> Result<()> {
        system::set_option(borrowed(socket), level, name, value)
    }

    fn ioctl(&mut self, socket: SocketId, request: u32, argument: &mut [u8]) -> Result<()> {
        // SAFETY: the argument has the length that belongs to the request.
        let asked =
            unsafe { libc::ioctl(raw(socket), libc::Ioctl::from(request), argument.as_mut_ptr()) };
        Errno::check(asked.into()).map(drop)
    }

    fn interfaces(&mut self, socket: SocketId, list: Option<&mut [u8]>) -> Result<usize> {
        #[repr(C)]
        struct Request {
            len: i32,
            list: *mut u8,
        }
        let mut request = match list {
            Some(list) => Request { len: list.len() as i32, list: list.as_mut_ptr() },
            None => Request { len: 0, list: ptr::null_mut() },
        };
        // SAFETY: `struct ifconf`: the list is as long as said.
        let asked =
            unsafe { libc::ioctl(raw(socket), libc::SIOCGIFCONF as libc::Ioctl, &raw mut request) };
        Errno::check(asked.into()).map(|_| request.len.max(0) as usize)
    }

    fn sysctl(&mut self, name: &str) -> String {
        fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/"))).unwrap_or_default()
    }

    fn getsockname(&mut self, socket: SocketId) -> Result<Address> {
        name(socket, libc::getsockname)
    }

    fn getpeername(&mut self, socket: SocketId) -> Result<Address> {
        name(socket, libc::getpeername)
    }

    fn poll(&mut self, socket: SocketId) -> u32 {
        // The bits of poll and epoll are the same numbers.
        crate::pair::events(borrowed(socket)) as u16 as u32
    }

    fn turn(&mut self, ready: &mut Vec<SocketId>) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        loop {
            let Ok(got) = self.epoll.wait(&mut events, Some(Duration::ZERO)) else { return };
            ready.extend(events[..got].iter().map(|event| SocketId(event.u64)));
            if got < events.len() {
                return;
            }
        }
    }

    fn deadline(&mut self) -> Option<Duration> {
        None
    }

    fn poll_fds(&self) -> &[PollFd] {
        &self.poll_fds
    }

    fn paths(&mut self, socket: SocketId, accepted: bool) -> Vec<PathStatus> {
        let (Ok(local), Ok(remote)) = (self.getsockname(socket), self.getpeername(socket)) else {
            return Vec::new();
        };
        let mut bytes = [0; 256];
        match self.getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes) {
            Ok(len) => vec![tcp_info::path(&bytes[..len], accepted, local, remote)],
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use transom_testbed::SourceFilter;

    use super::*;

    #[test]
    fn the_sources_of_a_group_stay_within_the_value() {
        for filter in [SourceFilter::of_ipv4(), SourceFilter::of_ipv6()] {
            let mut stack = HostStack::new().expect("an epoll set");
            let socket = stack.socket(filter.family(), libc::SOCK_DGRAM, 0).expect("a socket");
            for (level, name, value) in filter.options() {
                stack.setsockopt(socket, level, name, &value).expect("a filter");
            }
            filter.assert_told_within_the_value(|level, name, value| {
                stack.getsockopt(socket, level, name, value).map_err(|errno| errno.0)
            });
            stack.close(socket);
        }
    }
}

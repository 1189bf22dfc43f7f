//! `ioctl` on sockets: queues, times and interfaces are the stack's. All other requests
//! (`FIONBIO`, `SIOCATMARK`, …) run natively on the program's end.

use std::os::fd::{AsFd, BorrowedFd};

use super::{Answer, drivers};
use crate::errno::{Errno, Result};
use crate::memory::Memory;
use crate::namespace::{self, Visit};
use crate::notify::Call;
use crate::rights;
use crate::socket::State;
use crate::supervisor::Supervisor;
use crate::system;

/// `linux/sockios.h`, `asm-generic/ioctls.h`.
pub const SIOCATMARK: u32 = 0x8905;
const FIONREAD: u32 = 0x541b;
pub const SIOCOUTQ: u32 = 0x5411;
const SIOCOUTQNSD: u32 = 0x894b;
const SIOCGIFCONF: u32 = 0x8912;
/// `SIOCGSTAMP_OLD`, `SIOCGSTAMPNS_OLD`, and both as `_NEW`.
const TIMES: [u32; 4] = [0x8906, 0x8907, 0x8010_8906, 0x8010_8907];
/// `SIOCGIFFLAGS`, `ADDR`, `DSTADDR`, `BRDADDR`, `NETMASK`, `METRIC`, `MTU`, `TXQLEN`.
const OF_INTERFACES: [u32; 8] = [0x8913, 0x8915, 0x8917, 0x8919, 0x891b, 0x891d, 0x8921, 0x8942];
/// `SIOCGIFFLAGS`, `DSTADDR`, `BRDADDR`.
const OF_LINKS: [u32; 3] = [0x8913, 0x8917, 0x8919];
/// What only the host tells: names and numbers (`SIOCGIFNAME`, `SIOCGIFINDEX`), which programs also have
/// from netlink, and addresses of hardware (`SIOCGIFHWADDR`), which a stack's interfaces may lack.
const OF_THE_HOST: [u32; 3] = [0x8910, 0x8933, 0x8927];
/// What the host's interfaces and neighbours are, asked by a datagram socket: its descriptor is in a
/// namespace without any. That of a stream is in the program's own, where the kernel answers.
const SIOCETHTOOL: u32 = 0x8946;
const SIOCGARP: u32 = 0x8954;

/// `SIOCSIFFLAGS`, `ADDR`, `DSTADDR`, `BRDADDR`, `NETMASK`, `METRIC`, `MTU`, `NAME`, `HWADDR`,
/// `HWBROADCAST`, `TXQLEN`, and `SIOCDIFADDR`.
const CHANGES: [u32; 12] = [
    0x8914, 0x8916, 0x8918, 0x891a, 0x891c, 0x891e, 0x8922, 0x8923, 0x8924, 0x8937, 0x8943, 0x8936,
];
/// Of them, those that name the interface by its number on a socket of IPv6 (`struct in6_ifreq`):
/// `SIOCSIFADDR`, `SIOCSIFDSTADDR`, `SIOCDIFADDR`.
const BY_NUMBER_IN_IPV6: [u32; 3] = [0x8916, 0x8918, 0x8936];

/// `sizeof(struct timeval)`, `sizeof(struct ifreq)`, `sizeof(struct ifconf)`.
const TIME_BYTES: usize = 16;
const INTERFACE_BYTES: usize = 40;
const LIST_BYTES: usize = 16;
/// `sizeof(struct arpreq)`.
const NEIGHBOUR_BYTES: usize = 68;
/// More than any host's interfaces need.
const MAX_LIST: usize = 1024 * 1024;

/// The requests that the filter brings to us.
pub fn served() -> impl Iterator<Item = u32> {
    let others = [FIONREAD, SIOCOUTQ, SIOCOUTQNSD, SIOCGIFCONF, SIOCETHTOOL, SIOCGARP];
    others.into_iter().chain(TIMES).chain(OF_INTERFACES).chain(OF_THE_HOST).chain(CHANGES)
}

impl Supervisor<'_> {
    pub(super) fn ioctl(&mut self, key: u64, theirs: BorrowedFd, call: &Call) -> Result<Answer> {
        let (request, at) = (call.args[1] as u32, call.args[2]);
        let memory = Memory(call.tid);
        match request {
            _ if CHANGES.contains(&request) => self.change(key, call)?,
            FIONREAD => memory.write_int(at, self.unread(key, theirs)?)?,
            SIOCOUTQ | SIOCOUTQNSD => memory.write_int(at, self.unsent(key, request)?)?,
            SIOCGIFCONF => self.list_interfaces(key, memory, at)?,
            SIOCETHTOOL => return self.ask_driver(key, memory, at),
            SIOCGARP => {
                let mut neighbour = [0; NEIGHBOUR_BYTES];
                memory.read(at, &mut neighbour)?;
                system::ask_about_interface(request, &mut neighbour)?;
                memory.write(at, &neighbour)?;
            }
            _ => {
                let times = TIMES.contains(&request);
                let mut argument = [0; INTERFACE_BYTES];
                let argument = &mut argument[..if times { TIME_BYTES } else { INTERFACE_BYTES }];
                if !times {
                    memory.read(at, argument)?;
                }
                self.ask_about(key, request, argument)?;
                memory.write(at, argument)?;
            }
        }
        Ok(Answer::Value(0))
    }

    fn ask_driver(&mut self, key: u64, memory: Memory, at: u64) -> Result<Answer> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        if socket.kind != libc::SOCK_DGRAM {
            return Ok(Answer::Native);
        }
        let mut interface = [0; INTERFACE_BYTES];
        memory.read(at, &mut interface)?;
        drivers::ask(SIOCETHTOOL, &mut interface, memory)?;
        Ok(Answer::Value(0))
    }

    /// Of an interface of the namespace that the program is in, whatever one the descriptor is in.
    fn change(&mut self, key: u64, call: &Call) -> Result<()> {
        let (request, at) = (call.args[1] as u32, call.args[2]);
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        if socket.domain == libc::AF_INET6 && BY_NUMBER_IN_IPV6.contains(&request) {
            // The number may be the stack's or the host's.
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut change = [0; INTERFACE_BYTES];
        Memory(call.tid).read(at, &mut change)?;
        let elsewhere = namespace::of_thread(call.tid).map_err(|_| Errno(libc::EPERM))?;
        rights::for_change(call.tid, elsewhere.as_ref())?;
        let home = namespace::own()?;
        let _visit = elsewhere.as_ref().map(|to| Visit::begin(to, &home)).transpose()?;
        system::ask_about_interface(request, &mut change)
    }

    /// The program sees all interfaces of the host (netlink); what the stack does not know of one is
    /// the host's to tell. The descriptor of a datagram socket is in a namespace without any.
    fn ask_about(&mut self, key: u64, request: u32, argument: &mut [u8]) -> Result<()> {
        if OF_THE_HOST.contains(&request) {
            return system::ask_about_interface(request, argument);
        }
        if OF_LINKS.contains(&request) {
            return self.ask_about_link(key, request, argument);
        }
        match self.ask(key, request, argument) {
            Err(Errno(libc::ENODEV)) if OF_INTERFACES.contains(&request) => {
                system::ask_about_interface(request, argument)
            }
            other => other,
        }
    }

    /// What kind of link it is, the host knows: to a stack it may be but a way out.
    fn ask_about_link(&mut self, key: u64, request: u32, argument: &mut [u8]) -> Result<()> {
        let mut by_host = argument.to_vec();
        let asked = system::ask_about_interface(request, &mut by_host);
        let by_stack = self.ask(key, request, argument);
        // The loopback device is the stack's own.
        let is_loopback = argument.starts_with(b"lo\0");
        if asked.is_ok() && !(is_loopback && by_stack.is_ok()) {
            argument.copy_from_slice(&by_host);
            return Ok(());
        }
        by_stack
    }

    fn ask(&mut self, key: u64, request: u32, argument: &mut [u8]) -> Result<()> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        self.stack.ioctl(socket.id, request, argument)
    }

    fn number(&mut self, key: u64, request: u32) -> Result<i32> {
        let mut number = [0; 4];
        self.ask(key, request, &mut number)?;
        Ok(i32::from_ne_bytes(number))
    }

    /// Bytes that the program can read; of datagrams, the first one's.
    fn unread(&mut self, key: u64, theirs: BorrowedFd) -> Result<i32> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        match &socket.state {
            State::Connected(stream) => {
                let here = stream.held_for_program() + system::unread(theirs)?;
                Ok(here as i32 + self.number(key, FIONREAD)?)
            }
            State::Datagram(_) | State::Ended(_) => Ok(system::unread(theirs)? as i32),
            State::Listening(_) => Err(Errno(libc::EINVAL)),
            State::Fresh | State::Connecting(_) => Ok(0),
        }
    }

    /// Bytes that the peer has not acknowledged, or that were not sent.
    fn unsent(&mut self, key: u64, request: u32) -> Result<i32> {
        let socket = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?;
        let here = match (&socket.state, &socket.ours) {
            (State::Connected(stream), Some(ours)) => {
                stream.held_for_stack() + system::unread(ours.as_fd())?
            }
            (State::Listening(_), _) => return Err(Errno(libc::EINVAL)),
            (State::Fresh | State::Connecting(_), _) => return Ok(0),
            _ => 0,
        };
        Ok(here as i32 + self.number(key, request)?)
    }

    /// `struct ifconf` holds a length and a pointer; without a pointer the length is asked for.
    fn list_interfaces(&mut self, key: u64, memory: Memory, at: u64) -> Result<()> {
        let mut asked = [0; LIST_BYTES];
        memory.read(at, &mut asked)?;
        let (len, pointer) = asked.split_at(8);
        let len = i32::from_ne_bytes([len[0], len[1], len[2], len[3]]);
        let pointer = u64::from_ne_bytes(pointer.try_into().expect("half of 16"));
        let room = usize::try_from(len).unwrap_or(0).min(MAX_LIST);
        let id = self.sockets.get(&key).ok_or(Errno(libc::EBADF))?.id;
        let filled = if pointer == 0 {
            self.stack.interfaces(id, None)?
        } else {
            let mut list = vec![0; room];
            let filled = self.stack.interfaces(id, Some(&mut list))?.min(room);
            memory.write(pointer, &list[..filled])?;
            filled
        };
        memory.write_int(at, filled as i32)
    }
}

//! The UDP sockets behind each datagram descriptor of the program: our end and the program's.
//!
//! The program's end is a real UDP socket, so that `poll`, `send` and `recv` on it do what they do on
//! any other: refuse to send without a destination or too much, report errors of the network. Its
//! only peer is our end. Both live on the loopback device of a network namespace of their own, where
//! nobody else can send to them; without the privilege for one, on that of ours.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::address::Address;
use crate::errno::{Errno, Result};
use crate::namespace::{self, Visit};
use crate::system;

/// What waits for the program: more than the kernel's default, as packets wait in the stack no more.
const PROGRAM_BUFFER: i32 = 512 * 1024;
/// What waits for us. Loopback does not slow a sender down, so this holds a burst.
const OUR_BUFFER: i32 = 8 * 1024 * 1024;

/// All hosts of 127.0.0.0/8 but the network and broadcast addresses are there.
const HOSTS: u32 = (1 << 24) - 2;
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 60000;
/// Ports that somebody else has, where the device is not ours alone.
const ATTEMPTS: usize = 1000;

/// The two ends and where they are bound.
pub struct Ends {
    pub ours: OwnedFd,
    pub theirs: OwnedFd,
    pub wire: Wire,
}

/// Where the loopback device is.
enum Place {
    Alone { outside: File, inside: File },
    Shared,
}

pub struct Loopback {
    /// Made for the first socket: most programs have none.
    place: Option<Place>,
    next: u32,
}

impl Default for Loopback {
    /// Another supervisor that shares the device begins elsewhere.
    fn default() -> Self {
        Self { place: None, next: std::process::id().wrapping_mul(0x9e37) }
    }
}

impl Loopback {
    pub fn open(&mut self) -> Result<Ends> {
        let visit = self.place.get_or_insert_with(Place::find).visit()?;
        let made = (0..ATTEMPTS).find_map(|_| {
            self.next = self.next.wrapping_add(1);
            match ends(self.next) {
                Err(Errno(libc::EADDRINUSE)) => None,
                made => Some(made),
            }
        });
        drop(visit);
        made.unwrap_or(Err(Errno(libc::ENOBUFS)))
    }
}

impl Place {
    fn find() -> Self {
        Self::new().unwrap_or(Self::Shared)
    }

    fn new() -> Result<Self> {
        let outside = namespace::own()?;
        // SAFETY: no pointers.
        Errno::check(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into())?;
        let visit = Visit::ending_in(&outside);
        system::bring_up(c"lo")?;
        let inside = namespace::own()?;
        drop(visit);
        Ok(Self::Alone { outside, inside })
    }

    /// Sockets that are made until it is dropped are on this device.
    fn visit(&self) -> Result<Option<Visit<'_>>> {
        let Self::Alone { outside, inside } = self else { return Ok(None) };
        Visit::begin(inside, outside).map(Some)
    }
}

fn ends(number: u32) -> Result<Ends> {
    let host = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 0, 1)) + number % HOSTS);
    let port = (FIRST_PORT + 2 * (number % (PORTS / 2))) as u16;
    let at = |port| Address::from(SocketAddr::from((host, port)));
    let wire = Wire { program: at(port), supervisor: at(port + 1) };
    let (theirs, ours) = (system::udp_socket()?, system::udp_socket()?);
    system::bind(theirs.as_fd(), wire.program.as_bytes())?;
    system::bind(ours.as_fd(), wire.supervisor.as_bytes())?;
    system::connect(ours.as_fd(), wire.program.as_bytes())?;
    for name in [libc::IP_RECVTTL, libc::IP_RECVTOS] {
        system::set_option(theirs.as_fd(), libc::IPPROTO_IP, name, &1i32.to_ne_bytes())?;
    }
    system::set_receive_buffer(theirs.as_fd(), PROGRAM_BUFFER);
    system::set_receive_buffer(ours.as_fd(), OUR_BUFFER);
    Ok(Ends { ours, theirs, wire })
}

/// The program wants room for so many bytes.
pub fn make_room(theirs: BorrowedFd, bytes: i32) {
    system::set_receive_buffer(theirs, bytes.max(PROGRAM_BUFFER));
}

/// Where the two ends of a datagram socket are bound.
#[derive(Clone, Debug)]
pub struct Wire {
    program: Address,
    supervisor: Address,
}

impl Wire {
    /// The program's socket has a peer from now on: its end can be written to.
    pub fn connect(&self, theirs: BorrowedFd) -> Result<()> {
        system::connect(theirs, self.supervisor.as_bytes())
    }

    /// It has none.
    pub fn disconnect(&self, theirs: BorrowedFd) -> Result<()> {
        let nobody = (libc::AF_UNSPEC as libc::sa_family_t).to_ne_bytes();
        system::connect(theirs, &[&nobody[..], &[0; 14]].concat())
    }

    /// Gives the program's end an error of the network, as the kernel gives it to any UDP socket:
    /// what is sent to our end is refused while that listens to itself alone (RFC 1122, section
    /// 4.1.3.1).
    pub fn refuse(&self, ours: BorrowedFd, theirs: BorrowedFd) -> Result<()> {
        system::connect(ours, self.supervisor.as_bytes())?;
        // An error that is there already would be the answer, and no packet be sent.
        let sent = self.probe(theirs).or_else(|_| self.probe(theirs));
        system::connect(ours, self.program.as_bytes())?;
        sent
    }

    fn probe(&self, theirs: BorrowedFd) -> Result<()> {
        system::send_message(theirs, &[], 0, Some(self.supervisor.as_bytes()), &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair;

    #[test]
    fn the_program_s_end_is_a_udp_socket_without_a_destination() {
        let Ends { ours, theirs, wire } = Loopback::default().open().unwrap();
        assert_eq!(system::send(theirs.as_fd(), b"early", 0), Err(Errno(libc::EDESTADDRREQ)));
        wire.connect(theirs.as_fd()).unwrap();
        assert_eq!(system::send(theirs.as_fd(), b"data", 0), Ok(4));
        assert_eq!(system::recv(ours.as_fd(), &mut [0; 8], 0), Ok(4));
        wire.disconnect(theirs.as_fd()).unwrap();
        assert_eq!(system::send(theirs.as_fd(), b"late", 0), Err(Errno(libc::EDESTADDRREQ)));
        assert_eq!(system::send(ours.as_fd(), b"to the unconnected", 0), Ok(18));
        assert_eq!(system::recv(theirs.as_fd(), &mut [0; 32], 0), Ok(18));
    }

    #[test]
    fn a_refusal_is_an_error_of_the_program_s_end_and_loses_nothing() {
        let Ends { ours, theirs, wire } = Loopback::default().open().unwrap();
        wire.connect(theirs.as_fd()).unwrap();
        system::send(theirs.as_fd(), b"before", 0).unwrap();
        for _ in 0..3 {
            wire.refuse(ours.as_fd(), theirs.as_fd()).unwrap();
            assert_eq!(pair::events(theirs.as_fd()), libc::POLLERR | libc::POLLOUT);
        }
        assert_eq!(system::recv(theirs.as_fd(), &mut [0; 8], 0), Err(Errno(libc::ECONNREFUSED)));
        assert_eq!(pair::events(theirs.as_fd()), libc::POLLOUT);
        system::send(theirs.as_fd(), b"after", 0).unwrap();
        assert_eq!(system::recv(ours.as_fd(), &mut [0; 8], 0), Ok(6));
        assert_eq!(system::recv(ours.as_fd(), &mut [0; 8], 0), Ok(5));
        assert_eq!(system::recv(ours.as_fd(), &mut [0; 8], 0), Err(Errno(libc::EAGAIN)));
    }

    #[test]
    fn we_come_back_from_the_namespace_of_the_ends() {
        let before = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let mut loopback = Loopback::default();
        let (_one, _two) = (loopback.open().unwrap(), loopback.open().unwrap());
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), before);
    }
}

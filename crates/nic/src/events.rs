//! Changes of the host's interfaces, addresses, routes and neighbours, as the kernel reports them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::Result;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, recv};

use crate::interface::{Route, from_link};
use crate::neighbour::from_neighbour;
use transom_link::netlink::{Address, Message, messages, route_socket};

/// Bits of linux/rtnetlink.h's groups.
const GROUPS: u32 = 1 << (libc::RTNLGRP_LINK - 1)
    | 1 << (libc::RTNLGRP_NEIGH - 1)
    | 1 << (libc::RTNLGRP_IPV4_IFADDR - 1)
    | 1 << (libc::RTNLGRP_IPV6_IFADDR - 1)
    | 1 << (libc::RTNLGRP_IPV4_ROUTE - 1)
    | 1 << (libc::RTNLGRP_IPV6_ROUTE - 1);

/// One change; `index` is the interface's, which a new name does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something about the interface, perhaps nothing new.
    Link {
        index: u32,
        name: String,
        up: bool,
        running: bool,
        mtu: u32,
    },
    /// Deleted, or moved to another network namespace.
    Gone {
        index: u32,
    },
    AddressAdded {
        index: u32,
        ip: IpAddr,
    },
    AddressRemoved {
        index: u32,
        ip: IpAddr,
    },
    /// A default route over it came or went.
    Gateway {
        index: u32,
    },
    /// `mac`: None if it is not known, or no longer.
    Neighbour {
        index: u32,
        ip: IpAddr,
        mac: Option<[u8; 6]>,
    },
    /// Events were lost because they were not fetched in time: read the tables again.
    Overrun,
}

/// Non-blocking; no privilege is needed.
#[derive(Debug)]
pub struct InterfaceEvents {
    socket: OwnedFd,
    waiting: VecDeque<Event>,
    buffer: Vec<u8>,
}

impl InterfaceEvents {
    /// Of the network namespace of the calling thread.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn open() -> Result<InterfaceEvents> {
        let socket = route_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, GROUPS)?;
        Ok(InterfaceEvents { socket, waiting: VecDeque::new(), buffer: vec![0; 1 << 16] })
    }

    /// Readable when there may be an event.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Iterator for InterfaceEvents {
    type Item = Event;

    /// None: nothing for now. Call it until then each time the descriptor is readable.
    fn next(&mut self) -> Option<Event> {
        while self.waiting.is_empty() {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let told = messages(&self.buffer[..length]);
                    self.waiting.extend(told.iter().filter_map(|(_, message)| event(message)));
                }
                Err(Errno::NOBUFS) => self.waiting.push_back(Event::Overrun),
                Err(_) => return None,
            }
        }
        self.waiting.pop_front()
    }
}

fn event(message: &Message) -> Option<Event> {
    match message.kind {
        // Bridges report their ports as links of another family.
        libc::RTM_NEWLINK if message.u8(0) == 0 => {
            let link = from_link(message);
            let (index, name, mtu) = (link.index, link.name, link.mtu);
            Some(Event::Link { index, name, up: link.up, running: link.running, mtu })
        }
        libc::RTM_DELLINK if message.u8(0) == 0 => Some(Event::Gone { index: message.u32(4) }),
        libc::RTM_NEWADDR => {
            Address::of_message(message).map(|(index, a)| Event::AddressAdded { index, ip: a.ip })
        }
        libc::RTM_DELADDR => {
            Address::of_message(message).map(|(index, a)| Event::AddressRemoved { index, ip: a.ip })
        }
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
            let default = Route::of(message).filter(|route| route.prefix == 0);
            default.map(|route| Event::Gateway { index: route.over })
        }
        libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
            let (index, ip, mac) = from_neighbour(message)?;
            let mac = mac.filter(|_| message.kind == libc::RTM_NEWNEIGH);
            Some(Event::Neighbour { index, ip, mac })
        }
        _ => None,
    }
}

//! How messages get to the others.
//!
//! By multicast a message crosses the air once, however many listen; a session with each other
//! terminal, as Zenoh's peers have, costs each of ten terminals several times the 5 kbit/s that we
//! allow ourselves. So multicast is the usual way on one network, and Zenoh the way beyond it.

use std::sync::mpsc::{Sender, SyncSender};

use anyhow::Result;
use transom_peers::seal::MOST_SEALED;

use crate::multicast::Multicast;
use crate::over_zenoh::OverZenoh;

/// Messages that wait to be looked at, at most. More are dropped: newer ones will come.
pub const WAITING: usize = 2048;

/// What the daemon's loop waits for.
pub enum Event {
    Message(Vec<u8>),
    /// Somebody asks for the state.
    Asked(Sender<String>),
}

/// Where the others are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// On the network of this interface.
    Multicast { interface: String },
    /// There too, but with a Zenoh session to each.
    Peers { interface: String },
    /// Behind these Zenoh routers: `udp/192.0.2.1:7447`.
    Routers(Vec<String>),
}

impl Way {
    /// The same on another interface.
    pub fn on(&self, interface: &str) -> Way {
        let interface = interface.to_owned();
        match self {
            Way::Multicast { .. } => Way::Multicast { interface },
            Way::Peers { .. } => Way::Peers { interface },
            Way::Routers(endpoints) => Way::Routers(endpoints.clone()),
        }
    }

    pub fn say(&self) -> String {
        match self {
            Way::Multicast { .. } => "by multicast".into(),
            Way::Peers { .. } => "over Zenoh, peer to peer".into(),
            Way::Routers(endpoints) => format!("through {}", endpoints.join(", ")),
        }
    }
}

pub enum Link {
    Multicast(Multicast),
    Zenoh(Box<OverZenoh>),
}

impl Link {
    /// Opens it and hands what is heard on the topic to `events`.
    ///
    /// # Errors
    /// When the interface or the endpoints cannot be used.
    pub fn open(way: &Way, topic: &str, events: SyncSender<Event>) -> Result<Link> {
        Ok(match way {
            Way::Multicast { interface } => {
                Link::Multicast(Multicast::open(interface, topic, events)?)
            }
            _ => Link::Zenoh(Box::new(OverZenoh::open(way, topic, events)?)),
        })
    }

    pub fn send(&self, message: &[u8]) -> Result<()> {
        match self {
            Link::Multicast(link) => link.send(message),
            Link::Zenoh(link) => link.send(message),
        }
    }

    /// Whether it still reaches the network it was opened on.
    pub fn is_alive(&self) -> bool {
        match self {
            Link::Multicast(link) => link.is_alive(),
            Link::Zenoh(link) => link.is_alive(),
        }
    }

    /// Messages heard of other groups or access points; routers deliver only ours.
    pub fn others(&self) -> u64 {
        match self {
            Link::Multicast(link) => link.others(),
            Link::Zenoh(_) => 0,
        }
    }

    pub fn close(self) {
        match self {
            Link::Multicast(link) => drop(link),
            Link::Zenoh(link) => link.close(),
        }
    }
}

/// Hands a message on, if it can be one and the loop is not behind.
pub fn deliver(events: &SyncSender<Event>, message: &[u8]) {
    if message.len() <= MOST_SEALED {
        let _ = events.try_send(Event::Message(message.to_vec()));
    }
}

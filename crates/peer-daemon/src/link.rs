//! How messages reach the others.
//!
//! By multicast a message crosses the air once, however many terminals listen. A session with each
//! other terminal, as Zenoh's peers have, costs each of ten terminals several times the 5 kbit/s
//! that we allow ourselves. So multicast is the usual way on one network, and Zenoh beyond it.

use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use transom_peers::seal::Seal;
use transom_peers::{Drops, Sieve};

use crate::multicast::Multicast;
use crate::over_zenoh::OverZenoh;

/// Messages that wait for the loop, at most. More are dropped: newer ones will follow.
pub const WAITING: usize = 2048;

/// What the daemon's loop waits for.
pub enum Event {
    Message(Vec<u8>),
    /// A status command asks for the state.
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
    /// Opens it and hands what is received on the topic to `inlet`.
    ///
    /// # Errors
    /// When the interface or the endpoints cannot be used.
    pub fn open(way: &Way, topic: &str, inlet: Arc<Inlet>) -> Result<Link> {
        Ok(match way {
            Way::Multicast { interface } => {
                Link::Multicast(Multicast::open(interface, topic, inlet)?)
            }
            _ => Link::Zenoh(Box::new(OverZenoh::open(way, topic, inlet)?)),
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

    /// What was dropped before it reached the inlet; routers deliver only messages of our group.
    ///
    /// # Errors
    /// The kernel's counts cannot be read.
    pub fn early(&self) -> Result<Early> {
        match self {
            Link::Multicast(link) => link.early(),
            Link::Zenoh(_) => Ok(Early::default()),
        }
    }

    /// Why forgeries are not dropped in the kernel, though they could be on this link.
    pub fn unfiltered(&self) -> Option<String> {
        match self {
            Link::Multicast(link) => link.unfiltered(),
            Link::Zenoh(_) => None,
        }
    }

    pub fn close(self) {
        match self {
            Link::Multicast(link) => drop(link),
            Link::Zenoh(link) => link.close(),
        }
    }
}

/// What was dropped before it reached the inlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Early {
    /// Datagrams of other groups, access points or programs.
    pub others: u64,
    pub drops: Drops,
}

/// Where messages come in, from whichever thread receives them. What strangers send ends here at
/// the latest, before it can displace what members send.
pub struct Inlet {
    events: SyncSender<Event>,
    sieve: Mutex<Sieve>,
    started: Instant,
}

impl Inlet {
    pub fn new(seal: Seal, events: SyncSender<Event>) -> Arc<Inlet> {
        let sieve = Mutex::new(Sieve::new(seal));
        Arc::new(Inlet { events, sieve, started: Instant::now() })
    }

    fn sieve(&self) -> MutexGuard<'_, Sieve> {
        self.sieve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a message on, if it is one of a member and the loop is not behind.
    pub fn take(&self, message: &[u8]) {
        if self.sieve().sift(self.started.elapsed(), message).is_ok() {
            let _ = self.events.try_send(Event::Message(message.to_vec()));
        }
    }

    /// What was dropped here.
    pub fn drops(&self) -> Drops {
        self.sieve().drops()
    }

    /// The key of the marks that are checked here.
    pub fn mark_key(&self) -> [u8; 16] {
        self.sieve().mark_key()
    }
}

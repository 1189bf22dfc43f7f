//! How messages get to the others.
//!
//! By multicast a message crosses the air once, however many listen; a session with each other
//! terminal, as Zenoh's peers have, costs each of ten terminals several times the 5 kbit/s that we
//! allow ourselves. So multicast is the usual way on one network, and Zenoh the way beyond it.

use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use transom_peers::seal::Seal;
use transom_peers::{Counters, Sieve};

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
    /// Opens it and hands what is heard on the topic to `inlet`.
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

/// Where messages come in, from whichever thread hears them. What strangers send ends here, before
/// it can stand in the way of what members say.
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

    /// What the group heard, and what did not get so far.
    pub fn counters(&self, heard: Counters) -> Counters {
        self.sieve().counters(heard)
    }
}

//! How messages get to the others: Zenoh, by multicast on the network at hand, or through routers.
//!
//! By multicast a message crosses the air once, however many listen; a session with each other
//! terminal would cost each of them more than the 5 kbit/s that we allow ourselves.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Sender, SyncSender, TrySendError};

use anyhow::{Result, anyhow};
use zenoh::bytes::ZBytes;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Config, Session, Wait};

/// A link-local group, so that no switch and no router holds it back or carries it on. The port is
/// not one of Zenoh's own, so that its other users are not disturbed.
pub const GROUP: &str = "224.0.0.224";
pub const PORT: u16 = 7450;
/// All our topics begin with it, and it with our version.
const TOPICS: &str = "transom1";
/// Messages that wait to be looked at, at most; more are dropped, and counted by their senders'
/// counters only.
pub const WAITING: usize = 2048;
/// Zenoh's own greetings, which also tell a newcomer's counter; 72 bytes each.
const JOIN_INTERVAL_MS: u32 = 1500;
/// A router that went is noticed after this time.
const LEASE_MS: u32 = 4000;

/// What the daemon's loop waits for.
pub enum Event {
    Message(Vec<u8>),
    /// Somebody asks for the state.
    Asked(Sender<String>),
}

/// Where the others are.
#[derive(Clone, Debug)]
pub enum Way {
    /// On the network of this interface.
    Multicast { interface: String },
    /// Behind these routers: `udp/192.0.2.1:7447`.
    Routers(Vec<String>),
}

pub struct Link {
    session: Session,
    topic: String,
    way: Way,
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("Zenoh: {error}")
}

fn set(config: &mut Config, key: &str, value: &serde_json::Value) -> Result<()> {
    config.insert_json5(key, &value.to_string()).map_err(failed)
}

fn config(way: &Way) -> Result<Config> {
    use serde_json::json;
    let mut config = Config::default();
    // Neither looks for strangers nor lets itself be found: who belongs to us uses our group.
    set(&mut config, "scouting/multicast/enabled", &json!(false))?;
    set(&mut config, "scouting/gossip/enabled", &json!(false))?;
    set(&mut config, "transport/link/tx/lease", &json!(LEASE_MS))?;
    match way {
        Way::Multicast { interface } => {
            let endpoint = format!("udp/{GROUP}:{PORT}#iface={interface}");
            set(&mut config, "mode", &json!("peer"))?;
            set(&mut config, "listen/endpoints", &json!([endpoint]))?;
            set(&mut config, "listen/exit_on_failure", &json!(true))?;
            set(&mut config, "transport/multicast/join_interval", &json!(JOIN_INTERVAL_MS))?;
            set(
                &mut config,
                "transport/multicast/max_sessions",
                &json!(transom_peers::MOST_REMEMBERED),
            )?;
        }
        Way::Routers(endpoints) => {
            set(&mut config, "mode", &json!("client"))?;
            set(&mut config, "connect/endpoints", &json!(endpoints))?;
            // A router that is not there yet will be found when it is.
            set(&mut config, "connect/timeout_ms", &json!(-1))?;
            set(&mut config, "connect/exit_on_failure", &json!(false))?;
            set(&mut config, "connect/retry/period_max_ms", &json!(2000))?;
        }
    }
    Ok(config)
}

impl Link {
    /// Opens it and hands what is heard on the topic to `events`.
    ///
    /// # Errors
    /// When the endpoints cannot be used.
    pub fn open(way: Way, topic: &str, events: SyncSender<Event>) -> Result<Link> {
        let topic = format!("{TOPICS}/{topic}");
        let session = zenoh::open(config(&way)?).wait().map_err(failed)?;
        session
            .declare_subscriber(&topic)
            .callback(move |sample| {
                let message = sample.payload().to_bytes().into_owned();
                if message.len() > transom_peers::seal::MOST_SEALED {
                    return;
                }
                // Full: the loop is behind, and newer messages will come.
                match events.try_send(Event::Message(message)) {
                    Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
                }
            })
            .background()
            .wait()
            .map_err(failed)?;
        Ok(Link { session, topic, way })
    }

    pub fn send(&self, message: Vec<u8>) -> Result<()> {
        self.session
            .put(&self.topic, ZBytes::from(message))
            .congestion_control(CongestionControl::Drop)
            .priority(Priority::default())
            .express(true)
            .wait()
            .map_err(failed)
    }

    /// Whether it still hears. Zenoh gives a multicast group up at the first datagram that it
    /// cannot read, and anybody can send one; then its socket is gone and we have to open anew.
    pub fn is_alive(&self) -> bool {
        match self.way {
            Way::Multicast { .. } => !self.session.is_closed() && has_socket(PORT).unwrap_or(true),
            Way::Routers(_) => !self.session.is_closed(),
        }
    }

    pub fn close(self) {
        let _ = self.session.close().wait();
    }
}

/// Whether this process has a UDP socket on a port.
fn has_socket(port: u16) -> std::io::Result<bool> {
    let mut inodes = Vec::new();
    for file in fs::read_dir("/proc/self/fd")?.flatten() {
        // A descriptor may close while we look.
        if let Ok(metadata) = fs::metadata(file.path()) {
            inodes.push(metadata.ino());
        }
    }
    let table = fs::read_to_string("/proc/self/net/udp")?;
    let wanted = format!(":{port:04X}");
    Ok(table.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let here = words.get(1).is_some_and(|address| address.ends_with(&wanted));
        let inode = words.get(9).and_then(|inode| inode.parse().ok());
        here && inode.is_some_and(|inode: u64| inodes.contains(&inode))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_ours_is_found_as_long_as_it_is_there() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(has_socket(port).unwrap());
        drop(socket);
        assert!(!has_socket(port).unwrap());
    }

    #[test]
    fn both_ways_are_configurations_that_zenoh_takes() {
        config(&Way::Multicast { interface: "eth0".into() }).unwrap();
        config(&Way::Routers(vec!["udp/192.0.2.1:7447".into()])).unwrap();
        assert!(config(&Way::Routers(vec!["nonsense".into()])).is_err());
    }
}

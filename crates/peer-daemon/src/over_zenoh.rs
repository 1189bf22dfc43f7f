//! Messages over Zenoh: through routers to where multicast does not reach, or to each peer.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

use crate::interface;
use crate::link::{Inlet, Way};
use transom_output::note;

/// All our topics begin with it, and it with our version.
const TOPICS: &str = "transom1";
/// A router that went is noticed after this time, ms.
const LEASE_MS: u32 = 4000;

pub struct OverZenoh {
    /// Empty until a router is found.
    session: Arc<OnceLock<Session>>,
    topic: String,
    opening: JoinHandle<()>,
}

pub fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("Zenoh: {error}")
}

pub fn set(config: &mut Config, key: &str, value: &Value) -> Result<()> {
    config.insert_json5(key, &value.to_string()).map_err(failed)
}

fn config(way: &Way) -> Result<Config> {
    let mut config = Config::default();
    set(&mut config, "scouting/gossip/enabled", &json!(false))?;
    set(&mut config, "transport/link/tx/lease", &json!(LEASE_MS))?;
    match way {
        Way::Multicast { interface } | Way::Peers { interface } => {
            let address = interface::addresses(interface)?.into_iter().next();
            let address = address.ok_or_else(|| anyhow!("'{interface}' has no address"))?;
            // Over UDP, so that no ACKs are sent for what may be lost.
            let endpoint = format!("udp/{}", std::net::SocketAddr::new(address, 0));
            set(&mut config, "mode", &json!("peer"))?;
            set(&mut config, "listen/endpoints", &json!([endpoint]))?;
            set(&mut config, "scouting/multicast/interface", &json!(interface))?;
            set(&mut config, "scouting/multicast/autoconnect_strategy", &json!("greater-zid"))?;
        }
        Way::Routers(endpoints) => {
            set(&mut config, "mode", &json!("client"))?;
            set(&mut config, "scouting/multicast/enabled", &json!(false))?;
            set(&mut config, "connect/endpoints", &json!(endpoints))?;
            // A router that is not there yet will be found when it is.
            set(&mut config, "connect/timeout_ms", &json!(-1))?;
            set(&mut config, "connect/exit_on_failure", &json!(false))?;
            let retry = json!({
                "period_init_ms": 500, "period_max_ms": 2000, "period_increase_factor": 2,
            });
            set(&mut config, "connect/retry", &retry)?;
        }
    }
    Ok(config)
}

fn open(config: Config, topic: &str, inlet: Arc<Inlet>) -> Result<Session> {
    let session = zenoh::open(config).wait().map_err(failed)?;
    session
        .declare_subscriber(topic)
        .callback(move |sample| inlet.take(&sample.payload().to_bytes()))
        .background()
        .wait()
        .map_err(failed)?;
    Ok(session)
}

impl OverZenoh {
    /// Opens it behind our back: a client of Zenoh waits there for a router.
    pub fn open(way: &Way, topic: &str, inlet: Arc<Inlet>) -> Result<OverZenoh> {
        let topic = format!("{TOPICS}/{topic}");
        let config = config(way)?;
        let session = Arc::new(OnceLock::new());
        let opening = std::thread::spawn({
            let (session, topic) = (session.clone(), topic.clone());
            move || match open(config, &topic, inlet) {
                Ok(opened) => drop(session.set(opened)),
                Err(error) => note!("transom peer: {error:#}"),
            }
        });
        Ok(OverZenoh { session, topic, opening })
    }

    /// As long as nobody is reached, nothing is sent.
    pub fn send(&self, message: &[u8]) -> Result<()> {
        let Some(session) = self.session.get() else { return Ok(()) };
        session
            .put(&self.topic, ZBytes::from(message.to_vec()))
            .congestion_control(CongestionControl::Drop)
            .express(true)
            .wait()
            .map_err(failed)
    }

    pub fn is_alive(&self) -> bool {
        match self.session.get() {
            Some(session) => !session.is_closed(),
            None => !self.opening.is_finished(),
        }
    }

    pub fn close(self) {
        if let Some(session) = self.session.get() {
            let _ = session.close().wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_configurations_that_zenoh_takes() {
        config(&Way::Peers { interface: "lo".into() }).unwrap();
        config(&Way::Routers(vec!["udp/192.0.2.1:7447".into()])).unwrap();
        assert!(config(&Way::Routers(vec!["nonsense".into()])).is_err());
    }
}

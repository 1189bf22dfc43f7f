//! The hosts of a situation and the path between them: an experiment of the lab.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};
use transom_lab::experiment::{Loaded, parse};
use transom_lab::hosts::{Backend, Place, Topology, Wish, namespace};
use transom_lab::run::Carrier;

use crate::catalogue::Situation;
use crate::policy;

const SENDER: &str = "sender";
const RECEIVER: &str = "receiver";
const OTHER: &str = "other";

/// The port of the recorded connection, and that of the competing one.
pub const PORT: u16 = 5201;
pub const OTHER_PORT: u16 = 5202;

pub struct Network {
    topology: Topology,
    carrier: Option<Carrier>,
    ipv6: bool,
}

impl Network {
    pub fn put_up(situation: &Situation) -> Result<Network> {
        let loaded = experiment(situation)?;
        let wish = Wish {
            lab: &loaded.name,
            command: "situations",
            experiment: &loaded.experiment,
            backend: Backend::Emulator,
            pcap: false,
        };
        let mut topology = Topology::put_up(&wish)?;
        let carrier = Some(Carrier::start(&wish, &mut topology, situation.seed())?);
        Ok(Network { topology, carrier, ipv6: situation.ipv6 })
    }

    fn place(&self, host: &str) -> Result<&Place> {
        self.topology.place(host)
    }

    pub fn sender(&self) -> Result<&str> {
        Ok(&self.place(SENDER)?.namespace)
    }

    pub fn receiver(&self) -> Result<&str> {
        Ok(&self.place(RECEIVER)?.namespace)
    }

    pub fn other(&self) -> Result<&str> {
        Ok(&self.place(OTHER)?.namespace)
    }

    fn address(&self, host: &str) -> Result<IpAddr> {
        let place = self.place(host)?;
        Ok(if self.ipv6 { place.v6.into() } else { place.v4.into() })
    }

    pub fn listens(&self, port: u16) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.address(RECEIVER)?, port))
    }

    /// The receiver has no way to the sender, and takes nothing from it either, without a word.
    pub fn cut(&self) -> Result<()> {
        self.route("add")
    }

    pub fn heal(&self) -> Result<()> {
        self.route("del")
    }

    fn route(&self, what: &str) -> Result<()> {
        let sender = self.address(SENDER)?.to_string();
        let status = Command::new("ip")
            .args(["-n", self.receiver()?, "route", what, "blackhole", &sender])
            .status()
            .context("running ip")?;
        ensure!(status.success(), "ip route {what} blackhole {sender}: {status}");
        Ok(())
    }

    /// How late the emulator was, ms, at its 99th percentile.
    pub fn take_down(mut self) -> Result<f64> {
        let carrier = self.carrier.take().context("it runs until it is taken down")?;
        let log = carrier.stop()?.context("the emulator has a log")?;
        Ok(log.lateness.p99_ms)
    }
}

/// A file in `/run/netns`.
pub fn netns(name: &str) -> PathBuf {
    namespace::path(name)
}

fn experiment(situation: &Situation) -> Result<Loaded> {
    let mut hosts = Table::new();
    let mut sender = situation.sender.clone();
    let first = situation.send.algorithm_before.as_ref().or(situation.send.algorithm.as_ref());
    if let Some(name) = first.filter(|name| *name != policy::STEADY) {
        sender.insert("algorithm".into(), Value::from(name.clone()));
    }
    hosts.insert(SENDER.into(), Value::Table(sender));
    hosts.insert(RECEIVER.into(), Value::Table(situation.receiver.clone()));
    let mut flows = Table::new();
    let mut flow = |name: &str, from: &str| {
        let ends = [("from", from), ("to", RECEIVER)];
        let table = ends.map(|(key, host)| (key.to_owned(), Value::from(host)));
        flows.insert(name.into(), Value::Table(table.into_iter().collect()));
    };
    flow("flow", SENDER);
    if let Some(competing) = &situation.competing {
        let algorithm = ("algorithm".to_owned(), Value::from(competing.algorithm.clone()));
        hosts.insert(OTHER.into(), Value::Table(Table::from_iter([algorithm])));
        flow("other", OTHER);
    }
    let mut file = Table::new();
    for key in ["title", "source", "question"] {
        file.insert(key.into(), Value::from(situation.name.clone()));
    }
    file.insert("duration_s".into(), Value::from(situation.seconds));
    file.insert("repeats".into(), Value::from(1));
    file.insert("path".into(), Value::Table(situation.path.clone()));
    file.insert("hosts".into(), Value::Table(hosts));
    file.insert("flows".into(), Value::Table(flows));
    let text = toml::to_string(&file).context("writing the experiment")?;
    parse(Path::new(&format!("situation-{}.toml", situation.name)), text)
}

//! Real hosts around the emulator: one network namespace a port of the plan, with a TAP in it.
//!
//! Everything goes when its value is dropped, also when a test fails.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use transom_emulator::log::Log;
use transom_emulator::plan::{Air, Path, Plan, Port, Side};
use transom_emulator::{Running, start};
use transom_link::tun::{self, Frames};
use transom_testbed::Namespace;

const INTERFACE: &str = "eth0";

/// Hosts named `h0`, `h1`, … on these sides.
pub fn plan(seed: u64, air: Option<Air>, path: Path, sides: Vec<Side>) -> Plan {
    let ports = sides.into_iter().enumerate().map(|(index, side)| Port {
        name: format!("h{index}"),
        mac: [2, 0, 0, 0, 0, index as u8],
        side,
    });
    Plan { seed, air, path, ports: ports.collect(), ..Plan::default() }
}

/// The emulator, running, with a host at each port.
pub struct Hosts {
    // Stopped before the namespaces go, so that closing TAPs is not mistaken for losing them.
    running: Option<Running>,
    namespaces: Vec<Option<Namespace>>,
}

impl Hosts {
    pub fn start(plan: &Plan) -> Result<Hosts> {
        Hosts::start_with_queues(plan, 1000)
    }

    /// `tap_queue`: packets that wait in the hosts' kernels for the emulator to read them.
    pub fn start_with_queues(plan: &Plan, tap_queue: u32) -> Result<Hosts> {
        let number = plan.ports.len();
        let mut namespaces = Vec::new();
        let mut taps = Vec::new();
        for (index, port) in plan.ports.iter().enumerate() {
            let namespace = Namespace::new(&index.to_string());
            taps.push(namespace.inside(|| tun::open(INTERFACE, Frames::Ethernet))?);
            let address = port.mac.map(|byte| format!("{byte:02x}")).join(":");
            namespace.sysctl("net/ipv6/conf/all/disable_ipv6", "1");
            namespace
                .ip(&format!("link set {INTERFACE} address {address} txqueuelen {tap_queue} up"));
            namespace.ip(&format!("addr add {}/24 dev {INTERFACE}", ip(index)));
            for other in (0..number).filter(|other| *other != index) {
                let mac = plan.ports[other].mac.map(|byte| format!("{byte:02x}")).join(":");
                namespace.ip(&format!("neigh add {} lladdr {mac} dev {INTERFACE}", ip(other)));
            }
            namespaces.push(Some(namespace));
        }
        Ok(Hosts { running: Some(start(plan, taps)?), namespaces })
    }

    /// A program in the namespace of a host.
    pub fn command(&self, host: usize, program: &str) -> Command {
        self.namespace(host).command(program)
    }

    pub fn udp(&self, host: usize, port: u16) -> Result<UdpSocket> {
        Ok(self.namespace(host).inside(|| UdpSocket::bind((ip(host), port)))?)
    }

    pub fn namespace(&self, host: usize) -> &Namespace {
        self.namespaces[host].as_ref().expect("it was not removed")
    }

    pub fn remove(&mut self, host: usize) {
        self.namespaces[host] = None;
    }

    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs until it is stopped")
    }

    pub fn stop(mut self) -> Result<Log> {
        self.running.take().context("it runs until it is stopped")?.stop()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.running = None;
    }
}

pub fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host as u8 + 1)
}

pub fn at(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from((ip(host), port))
}

/// Runs it to its end, with what it printed; failure is an error that quotes it.
pub fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

/// A program in the background, ended when this is dropped.
pub struct Background(pub Child);

impl Background {
    pub fn start(command: &mut Command) -> Result<Background> {
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        Ok(Background(child))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

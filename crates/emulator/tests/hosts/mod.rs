//! Real hosts around the emulator: one network namespace a port of the plan, with a TAP in it.
//!
//! Everything goes when its value is dropped, also when a test fails; what a killed run left
//! behind goes when the next one starts.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use transom_emulator::log::Log;
use transom_emulator::plan::{Air, Path, Plan, Port, Side};
use transom_emulator::{Running, open_tap, start};

const INTERFACE: &str = "eth0";

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Leaves the test, and says why, where it cannot run.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !$crate::hosts::is_root() {
            eprintln!("skipped: network namespaces and TAP interfaces need root");
            return;
        }
    };
}

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
    namespaces: Vec<Namespace>,
}

impl Hosts {
    /// `prefix`: what the namespaces' names begin with.
    pub fn start(prefix: &str, plan: &Plan) -> Result<Hosts> {
        Hosts::start_with_queues(prefix, plan, 1000)
    }

    /// `tap_queue`: packets that wait in the hosts' kernels for the emulator to read them.
    pub fn start_with_queues(prefix: &str, plan: &Plan, tap_queue: u32) -> Result<Hosts> {
        remove_stale(prefix)?;
        // Tests of one process run side by side.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let run = STARTED.fetch_add(1, Ordering::Relaxed);
        let number = plan.ports.len();
        let mut namespaces = Vec::new();
        let mut taps = Vec::new();
        for (index, port) in plan.ports.iter().enumerate() {
            let name = format!("{prefix}-{}-{run}-{index}", std::process::id());
            let namespace = Namespace::create(name)?;
            taps.push(namespace.inside(|| open_tap(INTERFACE))??);
            let address = port.mac.map(|byte| format!("{byte:02x}")).join(":");
            let mut script = format!(
                "link set lo up\nlink set {INTERFACE} address {address} txqueuelen {tap_queue} up\n\
                 addr add {}/24 dev {INTERFACE}\n",
                ip(index)
            );
            for other in (0..number).filter(|other| *other != index) {
                let mac = plan.ports[other].mac.map(|byte| format!("{byte:02x}")).join(":");
                script += &format!("neigh add {} lladdr {mac} dev {INTERFACE}\n", ip(other));
            }
            namespace
                .inside(|| std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"))??;
            namespace.configure(&script)?;
            namespaces.push(namespace);
        }
        Ok(Hosts { running: Some(start(plan, taps)?), namespaces })
    }

    /// A program in the namespace of a host.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.namespaces[host].path())).arg(program);
        command
    }

    /// Runs `work` on a thread inside the namespace: sockets made there stay there.
    pub fn inside<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
        self.namespaces[host].inside(work)
    }

    pub fn udp(&self, host: usize, port: u16) -> Result<UdpSocket> {
        let socket = self.inside(host, || UdpSocket::bind((ip(host), port)))??;
        Ok(socket)
    }

    /// Of the namespaces.
    pub fn names(&self) -> Vec<String> {
        self.namespaces.iter().map(|namespace| namespace.name.clone()).collect()
    }

    pub fn remove(&mut self, host: usize) -> Result<()> {
        self.namespaces[host].remove()
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

struct Namespace {
    name: String,
    gone: bool,
}

impl Namespace {
    fn create(name: String) -> Result<Namespace> {
        run(Command::new("ip").args(["netns", "add", &name]))?;
        Ok(Namespace { name, gone: false })
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    fn configure(&self, script: &str) -> Result<()> {
        let mut child = Command::new("ip")
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .context("starting ip")?;
        std::io::Write::write_all(
            &mut child.stdin.take().context("ip has no standard input")?,
            script.as_bytes(),
        )?;
        ensure!(child.wait()?.success(), "ip refused:\n{script}");
        Ok(())
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = self.path();
        let namespace: OwnedFd = File::open(&path).with_context(|| path)?.into();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || -> Result<T> {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .context("entering a namespace")?;
                Ok(work())
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    fn remove(&mut self) -> Result<()> {
        self.gone = true;
        run(Command::new("ip").args(["netns", "del", &self.name])).map(drop)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.gone
            && let Err(error) = self.remove()
        {
            eprintln!("{error:#}");
        }
    }
}

/// Namespaces of this prefix whose process is no more.
fn remove_stale(prefix: &str) -> Result<()> {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(&format!("{prefix}-")) else { continue };
        let pid = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            run(Command::new("ip").args(["netns", "del", &name]))?;
        }
    }
    Ok(())
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

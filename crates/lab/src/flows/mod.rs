//! Flows: iperf's own programs, at both ends, from the first listener to the last byte.

pub mod cpu;
pub mod launch;
mod listening;
pub mod process;
mod programs;
pub mod waiting;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::experiment::{Experiment, Flow, Over, Protocol, Stack, Tool};
use crate::hosts::{self, Place, Topology};
use cpu::{Programs, Spent, Window};
use process::{LOOK, Process};
use waiting::{Receiving, Waiting};

/// iperf's own port; each flow has one from here on.
pub const FIRST_PORT: u16 = 5001;
/// After its time, a client still empties its send buffer and fetches the server's report, s.
pub(crate) const MARGIN_S: f64 = 15.0;
/// How long a server may take to listen, and to end after its client.
const SERVER_TIME: Duration = Duration::from_secs(10);

/// A flow's place in the network, as `flows.json` has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    pub port: u16,
    pub from: String,
    pub to: String,
    pub from_addr: Ipv4Addr,
    pub to_addr: Ipv4Addr,
}

/// Ports in the order of the flows' names.
///
/// # Errors
/// If a flow names a host that is not there.
pub fn assign(experiment: &Experiment, places: &[Place]) -> Result<BTreeMap<String, Assigned>> {
    let address = |name: &str, host: &str, over: Over| {
        let place = places.iter().find(|place| place.host == host);
        let place = place.with_context(|| format!("flow '{name}': there is no host '{host}'"))?;
        Ok::<_, anyhow::Error>(cellular(place, over).unwrap_or(place.v4))
    };
    let flows = experiment.flows.iter().enumerate();
    flows
        .map(|(index, (name, flow))| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            ensure!(
                !name.is_empty() && name.chars().all(plain),
                "'{name}' is no name for a flow: use letters, digits, - and _"
            );
            let assigned = Assigned {
                port: FIRST_PORT + index as u16,
                from: flow.from.clone(),
                to: flow.to.clone(),
                from_addr: address(name, &flow.from, flow.over)?,
                to_addr: address(name, &flow.to, flow.over)?,
            };
            Ok((name.clone(), assigned))
        })
        .collect()
}

/// A host's second address, if a flow is to use it.
fn cellular(place: &Place, over: Over) -> Option<Ipv4Addr> {
    place.cellular.as_ref().filter(|_| over == Over::Cellular).map(|it| it.v4)
}

/// When the last flow ends, s after the start.
pub fn last_end(experiment: &Experiment) -> f64 {
    let ends = experiment.flows.values().map(|flow| flow.start_s + duration(experiment, flow));
    ends.fold(0.0, f64::max)
}

/// When the first one starts.
fn first_start(experiment: &Experiment) -> f64 {
    experiment.flows.values().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min)
}

/// How long a flow sends, s.
pub(crate) fn duration(experiment: &Experiment, flow: &Flow) -> f64 {
    flow.duration_s.unwrap_or(experiment.duration_s)
}

/// Both ends of one flow.
struct Ends<'a> {
    name: &'a str,
    flow: &'a Flow,
    assigned: &'a Assigned,
    server: Process,
    client: Option<Process>,
    /// Of the programs of `server` and `client`, while the flow sends.
    server_waits: Waiting,
    client_waits: Waiting,
    /// When the client must be through.
    deadline: Option<Instant>,
    /// When it was.
    done: Option<Instant>,
    failed: bool,
}

/// All flows of a run.
pub struct Traffic<'a> {
    experiment: &'a Experiment,
    topology: &'a Topology,
    /// The program, for those that run on the library.
    transom: &'a Path,
    directory: &'a Path,
    ends: Vec<Ends<'a>>,
    window: Window,
    receiving: Receiving,
    longest_gap_s: f64,
    /// What went wrong, one sentence a flow.
    pub failures: Vec<String>,
}

impl<'a> Traffic<'a> {
    /// Starts the servers and waits until they listen.
    ///
    /// # Errors
    /// If a program cannot be started at all.
    pub fn prepare(
        experiment: &'a Experiment,
        topology: &'a Topology,
        assigned: &'a BTreeMap<String, Assigned>,
        transom: &'a Path,
        directory: &'a Path,
    ) -> Result<Traffic<'a>> {
        let (from_s, to_s) = (first_start(experiment), last_end(experiment));
        let mut traffic = Traffic {
            experiment,
            topology,
            transom,
            directory,
            ends: Vec::new(),
            window: Window::new(from_s, to_s),
            receiving: Receiving::new(from_s, to_s),
            longest_gap_s: 0.0,
            failures: Vec::new(),
        };
        for (name, flow) in &experiment.flows {
            let assigned = &assigned[name];
            let words = programs::server(flow, assigned);
            let server = traffic.start(flow.listens(), name, "server", flow, words)?;
            let end_s = flow.start_s + duration(experiment, flow);
            let waits = |is_new| Waiting::new(flow.start_s, end_s, is_new);
            traffic.ends.push(Ends {
                name,
                flow,
                assigned,
                server,
                client: None,
                server_waits: waits(false),
                client_waits: waits(true),
                deadline: None,
                done: None,
                failed: false,
            });
        }
        for index in 0..traffic.ends.len() {
            if let Some(fault) = traffic.ends[index].wait_for_listener()? {
                traffic.fail(index, &fault);
            }
        }
        Ok(traffic)
    }

    fn start(
        &self,
        host: &str,
        name: &str,
        end: &str,
        flow: &Flow,
        program: Vec<String>,
    ) -> Result<Process> {
        let ending = if flow.tool == Tool::Iperf { "txt" } else { "json" };
        let output = self.directory.join(format!("iperf-{name}.{end}.{ending}"));
        let place = self.topology.place(host)?;
        let trace = self.experiment.record.then(|| launch::trace(self.directory, host, name));
        let words =
            launch::words(self.transom, self.experiment, place, flow, trace.as_deref(), program);
        Process::start(Some(&place.namespace), &words, &output)
    }

    /// Lets every flow send in its time and end; programs that fail, die or hang are noted in
    /// `failures`, and the other flows go on. `tick` hears the seconds since the start and says
    /// whether to go on. Returns whether all came to their end.
    ///
    /// # Errors
    /// If a program cannot be started or waited for.
    pub fn run(&mut self, tick: &mut dyn FnMut(f64) -> bool) -> Result<bool> {
        let (began, mut looked_s) = (Instant::now(), 0.0);
        loop {
            let seconds = began.elapsed().as_secs_f64();
            self.longest_gap_s = self.longest_gap_s.max(seconds - looked_s);
            looked_s = seconds;
            self.window.look(seconds);
            self.receiving.look(seconds);
            if !tick(seconds) {
                return Ok(false);
            }
            let mut left = false;
            for index in 0..self.ends.len() {
                self.look_after(index, seconds)?;
                left |= !self.ends[index].is_over()?;
            }
            if !left {
                return Ok(true);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// CPU time of the machine while the flows sent, and of programs that have ended.
    pub fn spent(&self) -> Spent {
        let programs = |ends: &Ends<'_>| {
            let server = (ends.server.cpu()?, ends.server_waits.of_longest());
            let client = (ends.client.as_ref()?.cpu()?, ends.client_waits.of_longest());
            let ((from_s, from_waited), (to_s, to_waited)) = match ends.flow.reverse {
                true => (server, client),
                false => (client, server),
            };
            Some((ends.name.to_owned(), Programs { from_s, to_s, from_waited, to_waited }))
        };
        let flows = self.ends.iter().filter_map(programs).collect();
        Spent {
            machine: self.window.machine(),
            receiving: self.receiving.of_longest(),
            longest_gap_s: self.longest_gap_s,
            flows,
        }
    }

    fn look_after(&mut self, index: usize, seconds: f64) -> Result<()> {
        let ends = &mut self.ends[index];
        ends.server_waits.look(seconds, ends.server.pid());
        if let Some(client) = &ends.client {
            ends.client_waits.look(seconds, client.pid());
        }
        if ends.failed || ends.done.is_some() && self.ends[index].is_over()? {
            return Ok(());
        }
        if self.ends[index].client.is_none() {
            let ends = &self.ends[index];
            if seconds < ends.flow.start_s {
                return Ok(());
            }
            let time = duration(self.experiment, ends.flow);
            let of_host = hosts::algorithm(self.experiment, &ends.flow.from);
            let algorithm = ends.flow.algorithm.as_deref().unwrap_or(of_host);
            let opens = ends.flow.opens();
            // The library has been given that path alone.
            let of_kernel = self.experiment.hosts[opens].stack == Stack::Host;
            let from = cellular(self.topology.place(opens)?, ends.flow.over).filter(|_| of_kernel);
            let words = programs::client(ends.flow, ends.assigned, time, algorithm, from);
            let client = self.start(opens, ends.name, "client", ends.flow, words)?;
            let ends = &mut self.ends[index];
            ends.client = Some(client);
            ends.deadline = Some(Instant::now() + Duration::from_secs_f64(time + MARGIN_S));
        }
        if let Some(fault) = self.ends[index].fault()? {
            self.fail(index, &fault);
        }
        Ok(())
    }

    fn fail(&mut self, index: usize, fault: &str) {
        let ends = &mut self.ends[index];
        self.failures.push(format!("flow '{}': {fault}", ends.name));
        ends.failed = true;
        for process in [Some(&mut ends.server), ends.client.as_mut()].into_iter().flatten() {
            if matches!(process.ended(), Ok(None)) {
                process.signal(libc::SIGKILL);
            }
        }
    }
}

impl Ends<'_> {
    fn wait_for_listener(&mut self) -> Result<Option<String>> {
        let deadline = Instant::now() + SERVER_TIME;
        // iperf3 talks TCP first, also of UDP.
        let udp = self.flow.protocol == Protocol::Udp && self.flow.tool == Tool::Iperf;
        while !listening::listens(self.server.pid(), self.assigned.port, udp) {
            if let Some(status) = self.server.ended()? {
                let fault = self.server.fault(status);
                return Ok(Some(fault.unwrap_or_else(|| self.ended_early())));
            }
            if Instant::now() > deadline {
                return Ok(Some(format!(
                    "'{}' did not listen within {} s; {}",
                    self.server.words,
                    SERVER_TIME.as_secs(),
                    self.server.said()
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    fn ended_early(&self) -> String {
        format!("'{}' ended before its client came; {}", self.server.words, self.server.said())
    }

    /// Both ends are through, well or not.
    fn is_over(&mut self) -> Result<bool> {
        Ok(self.failed || self.done.is_some() && self.server.ended()?.is_some())
    }

    /// What is wrong with either end now.
    fn fault(&mut self) -> Result<Option<String>> {
        let now = Instant::now();
        let Some(client) = &mut self.client else { return Ok(None) };
        if self.done.is_none() {
            match client.ended()? {
                Some(status) => match client.fault(status) {
                    Some(fault) => return Ok(Some(fault)),
                    None => self.done = Some(now),
                },
                None if self.deadline.is_some_and(|deadline| now > deadline) => {
                    return Ok(Some(hung(client, "its time and 15 s more")));
                }
                None => {}
            }
        }
        if let Some(status) = self.server.ended()? {
            return Ok(self.server.fault(status));
        }
        match self.done {
            Some(at) if at + SERVER_TIME < now => {
                Ok(Some(hung(&self.server, "10 s after its client's end")))
            }
            _ => Ok(None),
        }
    }
}

fn hung(process: &Process, when: &str) -> String {
    format!("'{}' still ran after {when} and was killed; {}", process.words, process.said())
}

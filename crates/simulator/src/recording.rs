//! The kernel's events as a trace file of each host.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use transom_event::Raw;
use transom_netstack::{EVENT_BYTES, Events};
use transom_scenario::{Scenario, trace_file};
use transom_trace::{Footer, Meta, Writer, WriterOptions};

use crate::kernels::Kernels;
use crate::world::{START, World};

type Records = Arc<Mutex<Vec<[u8; EVENT_BYTES]>>>;

pub struct Recording {
    /// Of each kernel.
    records: Vec<Records>,
    spare: Vec<[u8; EVENT_BYTES]>,
    /// In the order of the scenario's hosts.
    writers: Vec<Writer>,
    /// Which host has which address, as an event has it.
    owners: HashMap<[u8; 16], usize>,
    /// Of a connection, by kernel and cookie: its host.
    hosts: HashMap<(usize, u64), usize>,
}

impl Recording {
    pub fn start(world: &mut World, scenario: &Scenario, folder: &Path) -> Result<Recording> {
        let mut records = Vec::new();
        let mut writers = Vec::new();
        for name in scenario.hosts.keys() {
            let path = folder.join(trace_file(name));
            let meta = meta(scenario, world, name);
            writers.push(
                Writer::create(&path, &meta, WriterOptions::default())
                    .with_context(|| format!("writing {}", path.display()))?,
            );
        }
        for kernel in &mut world.kernels.0 {
            let given = Records::default();
            records.push(given.clone());
            let events: Events = Box::new(move |record| {
                given.lock().unwrap_or_else(PoisonError::into_inner).push(*record);
            });
            kernel.trace(Some(events)).context("tracing")?;
        }
        let owners = owners(scenario);
        Ok(Recording { records, spare: Vec::new(), writers, owners, hosts: HashMap::new() })
    }

    /// Writes what has happened since the last call.
    pub fn drain(&mut self) -> Result<()> {
        let mut spare = std::mem::take(&mut self.spare);
        for kernel in 0..self.records.len() {
            std::mem::swap(
                &mut *self.records[kernel].lock().unwrap_or_else(PoisonError::into_inner),
                &mut spare,
            );
            for record in spare.drain(..) {
                let raw = Raw::from_bytes(&record)?;
                let host = self.host_of(kernel, &raw);
                self.writers[host].push(&raw)?;
            }
        }
        self.spare = spare;
        Ok(())
    }

    /// A connection's first event has its addresses. What is of no connection goes to the first host.
    fn host_of(&mut self, kernel: usize, raw: &Raw) -> usize {
        if let Some(host) = self.hosts.get(&(kernel, raw.head.cookie)) {
            return *host;
        }
        let is_open = raw.head.kind == transom_event::Kind::Open as u8;
        let owner = is_open.then(|| self.owners.get(&raw.open().local_addr)).flatten().copied();
        if let Some(host) = owner {
            self.hosts.insert((kernel, raw.head.cookie), host);
        }
        owner.unwrap_or(0)
    }

    pub fn finish(mut self, kernels: &mut Kernels, end_ns: u64) -> Result<()> {
        for kernel in &mut kernels.0 {
            kernel.trace(None).context("tracing")?;
        }
        self.drain()?;
        for writer in self.writers {
            writer.finish(Footer { end_ns, ..Footer::default() })?;
        }
        Ok(())
    }
}

fn owners(scenario: &Scenario) -> HashMap<[u8; 16], usize> {
    let mut owners = HashMap::new();
    for (index, host) in scenario.hosts.values().enumerate() {
        let cellular = host.cellular.iter().flat_map(|it| &it.addresses);
        for address in host.addresses.iter().chain(cellular) {
            let mut bytes = [0; 16];
            match address {
                std::net::IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
                std::net::IpAddr::V6(v6) => bytes = v6.octets(),
            }
            owners.insert(bytes, index);
        }
    }
    owners
}

fn meta(scenario: &Scenario, world: &World, host: &str) -> Meta {
    Meta {
        transom_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: world.release(host).to_owned(),
        host: host.to_owned(),
        boot_id: format!("simulated-{:016x}", scenario.seed),
        realtime_offset_ns: scenario.wall_ns as i64 - START as i64,
        command_line: "transom-simulate".to_owned(),
        probes: "the library's tracepoints".to_owned(),
        us_per_jiffy: world.us_per_jiffy,
        extra: [("time".to_owned(), "virtual".to_owned())].into(),
        ..Meta::default()
    }
}

//! Which connections are recorded. Values of one key are alternatives; all
//! keys that are given must hold. Decided in the kernel (`bpf/filter.h`).

use std::path::PathBuf;

use anyhow::{Result, bail};
use transom_event::Prefix;
use transom_machine::processes::process_of;
use transom_machine::{cgroup, namespace};

use crate::settings::FilterSettings;

/// Values of one key at most (`FILTER_MAX`).
pub const MAX_VALUES: usize = 16;

/// The filters of `record`, `log`, `top` and `journal`.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Processes whose connections are wanted; empty with `by_process`: none yet.
    pub pids: Vec<u32>,
    pub by_process: bool,
    /// Children of those processes too.
    pub children: bool,
    /// Directory of a cgroup (v2), with all below it.
    pub cgroup: Option<PathBuf>,
    /// Network namespace: a name of `ip netns`, a pid, or a path.
    pub netns: Option<String>,
    /// Of this namespace, or of `netns`.
    pub interface: Option<String>,
    /// Either end.
    pub ports: Vec<u16>,
    pub local_ports: Vec<u16>,
    pub remote_ports: Vec<u16>,
    pub local: Vec<Prefix>,
    pub remote: Vec<Prefix>,
}

fn put_ports(key: &str, ports: &[u16], to: &mut [u16; MAX_VALUES], count: &mut u32) -> Result<()> {
    if ports.len() > MAX_VALUES {
        bail!("{} values for {key}: at most {MAX_VALUES} can be given", ports.len());
    }
    to[..ports.len()].copy_from_slice(ports);
    *count = ports.len() as u32;
    Ok(())
}

macro_rules! put_prefixes {
    ($key:literal, $from:expr, $to:expr, $count:expr) => {{
        if $from.len() > MAX_VALUES {
            bail!("{} values for {}: at most {MAX_VALUES} can be given", $from.len(), $key);
        }
        for (prefix, slot) in $from.iter().zip($to.iter_mut()) {
            (slot.family, slot.addr) = prefix.family_and_bytes();
            slot.length = prefix.length.into();
        }
        $count = $from.len() as u32;
    }};
}

impl Filter {
    /// The form the kernel side takes.
    pub(crate) fn settings(&self) -> Result<FilterSettings> {
        let mut to = FilterSettings {
            by_process: u32::from(self.by_process || !self.pids.is_empty()),
            follow_children: u32::from(self.children),
            ..FilterSettings::default()
        };
        if let Some(path) = &self.cgroup {
            to.cgroup = cgroup::id(path)?;
        }
        let netns = self.netns.as_deref().map(namespace::path).transpose()?;
        if let Some(path) = &netns {
            to.netns = namespace::inode(path)?;
        }
        if let Some(name) = &self.interface {
            (to.netns, to.ifindex) = namespace::interface(name, netns.as_deref())?;
        }
        put_ports("--port", &self.ports, &mut to.port, &mut to.ports)?;
        put_ports("--local-port", &self.local_ports, &mut to.local_port, &mut to.local_ports)?;
        put_ports("--remote-port", &self.remote_ports, &mut to.remote_port, &mut to.remote_ports)?;
        put_prefixes!("--local", self.local, to.local_prefix, to.local_prefixes);
        put_prefixes!("--remote", self.remote, to.remote_prefix, to.remote_prefixes);
        for pid in &self.pids {
            match process_of(*pid) {
                None => bail!("there is no process {pid}"),
                Some(process) if process != *pid => {
                    bail!("{pid} is a thread of process {process}: give {process}")
                }
                Some(_) => {}
            }
        }
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_values_than_the_kernel_side_holds_are_refused() {
        let filter = Filter { ports: (0..17).collect(), ..Filter::default() };
        assert!(filter.settings().unwrap_err().to_string().contains("at most 16"));
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let filter = Filter { pids: vec![u32::MAX], ..Filter::default() };
        assert!(filter.settings().unwrap_err().to_string().contains("4294967295"));
    }

    /// As `ps -L` and `top -H` show them.
    #[test]
    fn a_thread_is_refused_with_the_number_of_its_process() {
        let of = |pid: u32| Filter { pids: vec![pid], ..Filter::default() }.settings();
        let process = std::process::id();
        assert!(of(process).is_ok());
        let (thread, refusal) = std::thread::scope(|scope| {
            let another = scope.spawn(|| {
                let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                (thread, of(thread).unwrap_err().to_string())
            });
            another.join().unwrap()
        });
        assert_eq!(refusal, format!("{thread} is a thread of process {process}: give {process}"));
    }
}

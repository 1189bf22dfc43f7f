//! Which connections are recorded. Values of one key are alternatives; all
//! keys that are given must hold. Decided in the kernel (`bpf/filter.h`).

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::settings::FilterSettings;

/// Values of one key at most (`FILTER_MAX`).
pub const MAX_VALUES: usize = 16;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// An address prefix such as `10.0.0.0/8`, `2001:db8::/32` or `192.0.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub addr: IpAddr,
    /// Bits.
    pub length: u8,
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.addr, self.length)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let (addr, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr.parse().map_err(|_| {
            format!("'{addr}' is no IP address; write one like 192.0.2.0/24 or 2001:db8::/32")
        })?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => match text.parse() {
                Ok(bits) if bits <= most => bits,
                _ => return Err(format!("'/{text}' is no prefix length from 0 to {most}")),
            },
        };
        Ok(Prefix { addr, length })
    }
}

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
    pub interface: Option<String>,
    /// Either end.
    pub ports: Vec<u16>,
    pub local_ports: Vec<u16>,
    pub remote_ports: Vec<u16>,
    pub local: Vec<Prefix>,
    pub remote: Vec<Prefix>,
}

/// Where cgroup v2 is mounted, from /proc/self/mountinfo.
pub fn cgroup2_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup2 ").then(|| PathBuf::from(left.split(' ').nth(4).unwrap_or("")))
    })
}

/// The file that stands for a network namespace given by name, pid or path.
pub fn netns_path(text: &str) -> Result<PathBuf> {
    let candidates = if text.contains('/') {
        vec![PathBuf::from(text)]
    } else if text.parse::<u32>().is_ok() {
        vec![PathBuf::from(format!("/proc/{text}/ns/net"))]
    } else {
        vec![Path::new("/run/netns").join(text)]
    };
    match candidates.into_iter().find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => bail!(
            "there is no network namespace '{text}': give a name that `ip netns` lists, a process id, or a path"
        ),
    }
}

/// Inode number of a network namespace.
pub fn netns_inode(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    u32::try_from(metadata.ino()).with_context(|| format!("{} is no namespace", path.display()))
}

/// Number of an interface; in another namespace if `netns` is given.
pub fn interface_index(name: &str, netns: Option<&Path>) -> Result<u32> {
    let read = || {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
        Ok::<_, anyhow::Error>(text.trim().parse()?)
    };
    let index = match netns {
        None => read(),
        Some(path) => crate::namespace::inside(path, || {
            rustix::net::netdevice::name_to_index(
                rustix::net::socket(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::DGRAM,
                    None,
                )?,
                name,
            )
            .map_err(Into::into)
        })?,
    };
    index.with_context(|| format!("there is no interface '{name}' here: see `ip link`"))
}

fn cgroup_settings(path: &Path, to: &mut FilterSettings) -> Result<()> {
    let mount = cgroup2_mount()
        .context("cgroup v2 is not mounted, so connections cannot be told apart by cgroup")?;
    let full = if path.is_dir() {
        path.to_owned()
    } else {
        mount.join(path.strip_prefix("/").unwrap_or(path))
    };
    let full = full.canonicalize().with_context(|| {
        format!("there is no cgroup '{}' below {}", path.display(), mount.display())
    })?;
    let below = full.strip_prefix(&mount).map_err(|_| {
        anyhow::anyhow!(
            "'{}' is no cgroup v2: it must lie below {}",
            path.display(),
            mount.display()
        )
    })?;
    to.cgroup = fs::metadata(&full)?.ino();
    to.cgroup_level = below.components().count() as u32;
    Ok(())
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
            match prefix.addr {
                IpAddr::V4(v4) => {
                    slot.addr[..4].copy_from_slice(&v4.octets());
                    slot.family = AF_INET;
                }
                IpAddr::V6(v6) => {
                    slot.addr = v6.octets();
                    slot.family = AF_INET6;
                }
            }
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
            cgroup_settings(path, &mut to)?;
        }
        let netns = self.netns.as_deref().map(netns_path).transpose()?;
        if let Some(path) = &netns {
            to.netns = netns_inode(path)?;
        }
        if let Some(name) = &self.interface {
            to.ifindex = interface_index(name, netns.as_deref())?;
        }
        put_ports("--port", &self.ports, &mut to.port, &mut to.ports)?;
        put_ports("--local-port", &self.local_ports, &mut to.local_port, &mut to.local_ports)?;
        put_ports("--remote-port", &self.remote_ports, &mut to.remote_port, &mut to.remote_ports)?;
        put_prefixes!("--local", self.local, to.local_prefix, to.local_prefixes);
        put_prefixes!("--remote", self.remote, to.remote_prefix, to.remote_prefixes);
        for pid in &self.pids {
            if !Path::new(&format!("/proc/{pid}")).exists() {
                bail!("there is no process {pid}");
            }
        }
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_without_a_length_is_one_address() {
        assert_eq!("192.0.2.1".parse::<Prefix>().unwrap().length, 32);
        assert_eq!("::1".parse::<Prefix>().unwrap().length, 128);
    }

    #[test]
    fn a_bad_prefix_is_named_in_the_error() {
        assert!("10.0.0.0/33".parse::<Prefix>().unwrap_err().contains("/33"));
        assert!("ten".parse::<Prefix>().unwrap_err().contains("'ten'"));
    }

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
}

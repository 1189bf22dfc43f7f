//! What a cgroup is called: its path, and what systemd, Kubernetes and container runtimes say in it.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_machine::cgroup;
use transom_spool::Text;

/// A cgroup may go before its last connection ends; its name is kept for a while.
const KEPT: usize = 8192;

/// Digits of a container's identity, as `docker ps` shows them.
const SHORT: usize = 12;

/// Names that a path contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub path: Option<Text>,
    pub unit: Option<Text>,
    pub pod: Option<Text>,
    pub container: Option<Text>,
}

impl Names {
    pub fn of(path: &str) -> Names {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        Names {
            path: (!parts.is_empty()).then(|| path.into()),
            unit: unit(&parts).map(Text::from),
            pod: parts.iter().rev().find_map(|part| pod(part)).map(Text::from),
            container: parts.iter().rev().find_map(|part| container(part)).map(Text::from),
        }
    }
}

/// The innermost service or scope; a slice is only a place.
fn unit<'a>(parts: &[&'a str]) -> Option<&'a str> {
    let is_unit = |part: &&&str| {
        [".service", ".scope", ".socket", ".mount"].iter().any(|kind| part.ends_with(kind))
    };
    parts.iter().rev().find(is_unit).copied()
}

/// `kubepods-burstable-pod12345678_1234_….slice`, or `pod12345678-1234-…`.
fn pod(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let at = part.rfind("pod").filter(|&at| at == 0 || part[..at].ends_with('-'))?;
    let uid = part[at + 3..].replace('_', "-");
    let is_uid = uid.len() == 36
        && uid.chars().enumerate().all(|(n, c)| match n {
            8 | 13 | 18 | 23 => c == '-',
            _ => c.is_ascii_hexdigit(),
        });
    is_uid.then_some(uid)
}

/// 64 hexadecimal digits, alone or after the runtime's name: `docker-….scope`, `cri-containerd-…`.
fn container(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit(['-', ':']).next().unwrap_or(part);
    let is_id = id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| &id[..SHORT])
}

/// Finds cgroups by the kernel's number.
pub struct Cgroups {
    mount: Option<PathBuf>,
    known: HashMap<u64, Arc<Names>>,
    /// A number that a walk over all cgroups did not find.
    unknown: Arc<Names>,
    walks: u32,
}

impl Cgroups {
    pub fn new() -> Cgroups {
        let mut cgroups = Cgroups {
            mount: cgroup::mount(),
            known: HashMap::new(),
            unknown: Arc::default(),
            walks: 0,
        };
        cgroups.walk();
        cgroups
    }

    /// From now on one walk may look for new cgroups again.
    pub fn next_second(&mut self) {
        self.walks = 0;
    }

    /// What the cgroup with this number is called, while it exists and a while longer.
    pub fn names(&mut self, id: u64) -> Arc<Names> {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        if id != 0 && self.walks == 0 {
            self.walks += 1;
            self.walk();
            // One that is gone is not looked for again.
            self.known.entry(id).or_insert_with(|| self.unknown.clone());
        }
        self.known.get(&id).unwrap_or(&self.unknown).clone()
    }

    /// The same as an earlier run of the agent noted it.
    pub fn note(&mut self, id: u64, path: &str) {
        self.known.entry(id).or_insert_with(|| Arc::new(Names::of(path)));
    }

    fn walk(&mut self) {
        let Some(mount) = self.mount.clone() else { return };
        if self.known.len() > KEPT {
            self.known.clear();
        }
        let mut left = vec![mount.clone()];
        while let Some(directory) = left.pop() {
            if let Ok(metadata) = fs::metadata(&directory) {
                let path = format!("/{}", below(&directory, &mount).display());
                self.known.entry(metadata.ino()).or_insert_with(|| Arc::new(Names::of(&path)));
            }
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            left.extend(
                entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()),
            );
        }
    }
}

fn below<'a>(directory: &'a Path, mount: &Path) -> &'a Path {
    directory.strip_prefix(mount).unwrap_or(directory)
}

/// Names of interfaces of this network namespace.
pub fn interface(index: u32) -> Option<String> {
    let udp =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .ok()?;
    rustix::net::netdevice::index_to_name(udp, index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> (Option<String>, Option<String>, Option<String>) {
        let names = Names::of(path);
        let text = |text: Option<Text>| text.map(|text| text.to_string());
        (text(names.unit), text(names.pod), text(names.container))
    }

    #[test]
    fn a_service_is_named_by_its_unit() {
        let unit = |path| names(path).0;
        assert_eq!(unit("/system.slice/nginx.service").as_deref(), Some("nginx.service"));
        let scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope";
        assert_eq!(unit(scope).as_deref(), Some("run-7.scope"));
        assert_eq!(unit("/system.slice"), None);
    }

    #[test]
    fn a_pod_is_named_by_its_uid_with_either_driver_of_cgroups() {
        let uid = "0f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8";
        let id = "ab".repeat(32);
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
            uid.replace('-', "_")
        );
        let cgroupfs = format!("/kubepods/besteffort/pod{uid}/{id}");
        for path in [systemd, cgroupfs] {
            let (_, pod, container) = names(&path);
            assert_eq!(pod.as_deref(), Some(uid), "{path}");
            assert_eq!(container.as_deref(), Some("abababababab"), "{path}");
        }
    }

    #[test]
    fn a_container_of_docker_and_one_of_podman() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/machine.slice/libpod-{id}.scope"),
        ] {
            assert_eq!(names(&path).2.as_deref(), Some("0123456789ab"), "{path}");
        }
        assert_eq!(names("/system.slice/podman.service").2, None);
        assert_eq!(names("/kubepods.slice").1, None);
    }

    #[test]
    fn the_cgroup_of_this_process_is_found_by_its_number() {
        let Some(mount) = cgroup::mount() else { return };
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        let Ok(metadata) = fs::metadata(mount.join(path.trim_start_matches('/'))) else { return };
        let found = Cgroups::new().names(metadata.ino());
        assert_eq!(
            found.path.as_deref().map(|p| p.trim_end_matches('/')),
            Some(path.trim_end_matches('/')).filter(|p| !p.is_empty())
        );
    }
}

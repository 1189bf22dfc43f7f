//! What a cgroup is called: its path, and what systemd, Kubernetes and container runtimes say in it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use transom_machine::{cgroup, workload};
use transom_output::plain;
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
        // Whoever may make a cgroup may call it anything.
        let path = &*plain(path);
        let found = workload::Names::of(path);
        Names {
            path: (path != "/").then(|| path.into()),
            unit: found.unit.map(Text::from),
            pod: found.pod.map(|uid| uid.replace('_', "-").into()),
            container: found.container.map(|id| id[..SHORT].into()),
        }
    }

    /// What its connections are counted under: the unit. But the scope of a container is called by
    /// its identity, which is another one after each start.
    pub fn workload(&self) -> Option<&str> {
        let is_identity =
            |unit: &str| self.container.as_deref().is_some_and(|id| unit.contains(id));
        self.unit.as_deref().filter(|unit| !is_identity(unit))
    }
}

/// Finds cgroups by the kernel's number.
pub struct Cgroups {
    mount: Option<PathBuf>,
    known: HashMap<u64, Arc<Names>>,
    /// A number that a walk over all cgroups did not find.
    unknown: Arc<Names>,
    /// Numbers that the next walk looks for: there was one in this second.
    waiting: HashSet<u64>,
    has_walked: bool,
}

impl Cgroups {
    pub fn new() -> Cgroups {
        Cgroups::of(cgroup::mount())
    }

    fn of(mount: Option<PathBuf>) -> Cgroups {
        let mut cgroups = Cgroups { mount, ..Cgroups::of_journal() };
        cgroups.walk();
        cgroups
    }

    #[cfg(test)]
    pub fn below(folder: &Path) -> Cgroups {
        Cgroups::of(Some(folder.to_owned()))
    }

    /// Only those that are noted.
    pub fn of_journal() -> Cgroups {
        Cgroups {
            mount: None,
            known: HashMap::new(),
            unknown: Arc::default(),
            waiting: HashSet::new(),
            has_walked: false,
        }
    }

    /// One walk looks for all that wait, and the next new one need not.
    pub fn next_second(&mut self) {
        if !self.waiting.is_empty() {
            self.look();
        }
        self.has_walked = false;
    }

    /// What the cgroup with this number is called, while it exists and a while longer.
    pub fn names(&mut self, id: u64) -> Arc<Names> {
        self.found(id).unwrap_or_else(|| self.unknown.clone())
    }

    /// The same; `None`: it is not looked for before the next second, since another one was in this.
    pub fn found(&mut self, id: u64) -> Option<Arc<Names>> {
        if let Some(known) = self.known.get(&id) {
            return Some(known.clone());
        }
        if id == 0 || self.mount.is_none() {
            return Some(self.unknown.clone());
        }
        self.waiting.insert(id);
        if !mem::replace(&mut self.has_walked, true) {
            self.look();
        }
        self.known.get(&id).cloned()
    }

    /// What is gone by now is not looked for again.
    fn look(&mut self) {
        self.walk();
        for id in mem::take(&mut self.waiting) {
            self.known.entry(id).or_insert_with(|| self.unknown.clone());
        }
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
    let name = rustix::net::netdevice::index_to_name(udp, index).ok()?;
    Some(plain(&name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_as_docker_shows_it_and_a_pod_as_kubectl_does() {
        let id = "0123456789abcdef".repeat(4);
        let path =
            format!("/kubepods-pod0f0a1b2c_3d4e_5f60_7182_93a4b5c6d7e8.slice/docker-{id}.scope");
        let names = Names::of(&path);
        assert_eq!(names.container.as_deref(), Some("0123456789ab"));
        assert_eq!(names.pod.as_deref(), Some("0f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8"));
        assert_eq!(Names::of("/").path, None);
    }

    #[test]
    fn a_name_that_a_journal_says_late_holds_from_then_on() {
        let mut cgroups = Cgroups::of_journal();
        assert_eq!(cgroups.names(7), Arc::default());
        cgroups.note(7, "/system.slice/nginx.service");
        assert_eq!(cgroups.names(7).unit.as_deref(), Some("nginx.service"));
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

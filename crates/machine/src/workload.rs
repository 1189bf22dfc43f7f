//! What people call the programs on a machine: systemd's units, containers, Kubernetes' pods. All
//! of them are cgroups, and their names are in the paths.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cgroup;

/// Where the kubelet keeps the logs of pods: NAMESPACE_NAME_UID.
const POD_LOGS: &str = "/var/log/pods";

/// Fewer digits could be any container.
const LEAST_DIGITS: usize = 6;

/// Names that the path of a cgroup contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names<'a> {
    /// The innermost service or scope; a slice is only a place.
    pub unit: Option<&'a str>,
    /// UID of the pod, as its directory writes it: with `-` or `_`.
    pub pod: Option<&'a str>,
    /// All 64 digits.
    pub container: Option<&'a str>,
}

impl<'a> Names<'a> {
    pub fn of(path: &'a str) -> Names<'a> {
        let inside_out = || path.rsplit('/').filter(|part| !part.is_empty());
        let is_unit = |part: &&str| {
            [".service", ".scope", ".socket", ".mount"].iter().any(|kind| part.ends_with(kind))
        };
        Names {
            unit: inside_out().find(is_unit),
            pod: inside_out().find_map(pod),
            container: inside_out().find_map(container),
        }
    }
}

/// `kubepods-burstable-pod12345678_1234_….slice`, or `pod12345678-1234-…`; of a static pod 32
/// digits without a line between.
fn pod(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let at = part.rfind("pod").filter(|&at| at == 0 || part[..at].ends_with('-'))?;
    let uid = &part[at + 3..];
    let digits = uid.chars().filter(char::is_ascii_hexdigit).count();
    let lines = uid.chars().filter(|c| matches!(c, '-' | '_')).count();
    let is_uid = digits == 32 && digits + lines == uid.len() && matches!(lines, 0 | 4);
    is_uid.then_some(uid)
}

/// 64 hexadecimal digits, alone or after the runtime's name: `docker-….scope`, `cri-containerd-…`.
/// Not `libpod-conmon-…` and `crio-conmon-…`, where the process is that watches the container.
fn container(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (before, id) = part.rsplit_once(['-', ':']).unwrap_or(("", part));
    let is_id = id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit());
    (is_id && !before.ends_with("conmon")).then_some(id)
}

/// As a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `nginx.service`; without a suffix a service.
    Unit(String),
    /// The first digits of its identity.
    Container(String),
    /// NAMESPACE/NAME, or a UID.
    Pod(String),
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Unit(name) => write!(f, "unit '{name}'"),
            Workload::Container(id) => write!(f, "container '{id}'"),
            Workload::Pod(name) => write!(f, "pod '{name}'"),
        }
    }
}

impl Workload {
    /// The cgroup of all its processes, as a path below the mount.
    ///
    /// # Errors
    /// There is none of this name, or more than one: which.
    pub fn cgroup(&self) -> Result<PathBuf> {
        self.find(&cgroup::needed_mount()?, Path::new(POD_LOGS))
    }

    fn find(&self, mount: &Path, pod_logs: &Path) -> Result<PathBuf> {
        let wanted = self.wanted(pod_logs)?;
        let mut found = Vec::new();
        let mut left = vec![PathBuf::from("/")];
        while let Some(below) = left.pop() {
            if wanted.matches(&below) {
                // What is inside belongs to it.
                found.push(below);
                continue;
            }
            let directory = mount.join(below.strip_prefix("/").unwrap_or(&below));
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let is_directory = |e: &fs::DirEntry| e.file_type().is_ok_and(|kind| kind.is_dir());
            left.extend(entries.filter(is_directory).map(|e| below.join(e.file_name())));
        }
        found.sort();
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => bail!("there is no {self}: {}", self.remedy()),
            several => {
                let list: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
                bail!("{self} is in several cgroups, give one with --cgroup: {}", list.join(" "))
            }
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Workload::Unit(_) => "`systemctl list-units --type service` lists those that run",
            Workload::Container(_) => "give the first digits that `docker ps` or `crictl ps` shows",
            Workload::Pod(_) => "give NAMESPACE/NAME of a pod on this machine, or its UID",
        }
    }

    fn wanted(&self, pod_logs: &Path) -> Result<Wanted> {
        match self {
            Workload::Unit(name) if name.contains('.') => Ok(Wanted::Unit(name.clone())),
            Workload::Unit(name) => Ok(Wanted::Unit(format!("{name}.service"))),
            Workload::Container(id) => {
                let is_id = id.len() >= LEAST_DIGITS && id.chars().all(|c| c.is_ascii_hexdigit());
                if !is_id {
                    bail!(
                        "'{id}' is no container: give {LEAST_DIGITS} or more digits of its identity"
                    );
                }
                Ok(Wanted::Container(id.to_ascii_lowercase()))
            }
            Workload::Pod(name) => match name.split_once('/') {
                None => Ok(Wanted::Pods(vec![bare(name)])),
                Some((namespace, name)) => pods(namespace, name, pod_logs).map(Wanted::Pods),
            },
        }
    }
}

enum Wanted {
    Unit(String),
    Container(String),
    /// Bare UIDs.
    Pods(Vec<String>),
}

impl Wanted {
    /// Whether this is the directory of the thing itself, not one inside.
    fn matches(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        match self {
            Wanted::Unit(unit) => name == unit,
            Wanted::Container(id) => container(name).is_some_and(|found| found.starts_with(id)),
            Wanted::Pods(uids) => pod(name).is_some_and(|found| uids.contains(&bare(found))),
        }
    }
}

/// A UID without what stands between its digits.
fn bare(uid: &str) -> String {
    uid.chars().filter(char::is_ascii_hexdigit).map(|c| c.to_ascii_lowercase()).collect()
}

/// UIDs of the pods of this name, from the directories of their logs: no server is asked.
fn pods(namespace: &str, name: &str, logs: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(logs).with_context(|| {
        format!("finding a pod by its name needs the kubelet's {}", logs.display())
    })?;
    let wanted = format!("{namespace}_{name}_");
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|found| found.strip_prefix(&wanted).map(bare)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f0a1b2c-3d4e-5f60-7182-93a4b5c6d7e8";

    fn id(two: &str) -> String {
        two.repeat(32)
    }

    #[test]
    fn a_service_is_named_by_its_unit() {
        let unit = |path| Names::of(path).unit;
        assert_eq!(unit("/system.slice/nginx.service"), Some("nginx.service"));
        let scope = "/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope";
        assert_eq!(unit(scope), Some("run-7.scope"));
        assert_eq!(unit("/system.slice"), None);
    }

    #[test]
    fn a_pod_is_named_by_its_uid_with_either_driver_of_cgroups() {
        let id = id("ab");
        let written = UID.replace('-', "_");
        let systemd =
            format!("/kubepods.slice/kubepods-pod{written}.slice/cri-containerd-{id}.scope");
        let cgroupfs = format!("/kubepods/besteffort/pod{UID}/{id}");
        assert_eq!(Names::of(&systemd).pod, Some(&*written));
        assert_eq!(Names::of(&cgroupfs).pod, Some(UID));
        assert_eq!(Names::of(&systemd).container, Some(&*id));
        assert_eq!(Names::of(&cgroupfs).container, Some(&*id));
        assert_eq!(Names::of("/kubepods.slice/kubepods-burstable.slice").pod, None);
    }

    #[test]
    fn containers_of_docker_and_podman_have_their_identity_in_the_path() {
        let id = id("c1");
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/machine.slice/libpod-{id}.scope"),
        ] {
            assert_eq!(Names::of(&path).container, Some(&*id), "{path}");
        }
        for watcher in ["libpod-conmon", "crio-conmon"] {
            let path = format!("/machine.slice/{watcher}-{id}.scope");
            assert_eq!(Names::of(&path).container, None, "{path}");
        }
        assert_eq!(Names::of("/system.slice/podman.service").container, None);
    }

    /// A tree of cgroups, and logs of one pod.
    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (mount, logs) = (root.path().join("cgroup"), root.path().join("pods"));
        let pod = format!("kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_"));
        for path in [
            "system.slice/nginx.service/worker".to_owned(),
            "system.slice/getty@tty1.service".to_owned(),
            "user.slice/one/getty@tty1.service".to_owned(),
            format!("{pod}/cri-containerd-{}.scope", id("ab")),
            format!("{pod}/cri-containerd-{}.scope", id("ac")),
            format!("machine.slice/libpod-{}.scope", id("c1")),
            format!("machine.slice/libpod-conmon-{}.scope", id("c1")),
        ] {
            fs::create_dir_all(mount.join(path)).unwrap();
        }
        fs::create_dir_all(logs.join(format!("shop_cart-0_{UID}"))).unwrap();
        (root, mount, logs)
    }

    fn found(workload: Workload) -> Result<String> {
        let (_root, mount, logs) = tree();
        Ok(workload.find(&mount, &logs)?.display().to_string())
    }

    #[test]
    fn each_is_found_by_the_name_that_people_use() {
        let unit = found(Workload::Unit("nginx".into())).unwrap();
        assert_eq!(unit, "/system.slice/nginx.service");
        let pod = found(Workload::Pod("shop/cart-0".into())).unwrap();
        assert!(pod.ends_with(".slice") && pod.contains("0f0a1b2c"), "{pod}");
        assert_eq!(found(Workload::Pod(UID.into())).unwrap(), pod);
        let container = found(Workload::Container("abAbab".into())).unwrap();
        assert!(container.contains("abababab"), "{container}");
        let of_podman = found(Workload::Container("c1c1c1".into())).unwrap();
        assert!(of_podman.starts_with("/machine.slice/libpod-c1c1"), "{of_podman}");
    }

    #[test]
    fn what_is_not_there_or_there_twice_is_said() {
        let refusal = |workload| found(workload).unwrap_err().to_string();
        assert!(refusal(Workload::Unit("apache2".into())).contains("there is no unit 'apache2'"));
        let twice = refusal(Workload::Unit("getty@tty1.service".into()));
        assert!(twice.contains("/system.slice/getty@tty1.service /user.slice/one/"), "{twice}");
        assert!(refusal(Workload::Container("ab".into())).contains("6 or more digits"));
        assert!(refusal(Workload::Pod("shop/till".into())).contains("there is no pod"));
    }

    #[test]
    fn without_the_kubelets_logs_a_pod_has_no_name() {
        let nowhere = Path::new("/no/such/pods");
        let refusal = Workload::Pod("a/b".into()).find(Path::new("/"), nowhere).unwrap_err();
        assert!(refusal.to_string().contains("/no/such/pods"));
    }
}

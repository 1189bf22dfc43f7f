//! Control groups, version 2.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// How to get one where there is none: beside the hierarchies of version 1, if there are any.
pub fn remedy() -> &'static str {
    remedy_beside(&mounts())
}

fn remedy_beside(mounts: &str) -> &'static str {
    let mut places = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    match places.any(|place| place.starts_with("/sys/fs/cgroup")) {
        true => "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
        false => "mount -t cgroup2 none /sys/fs/cgroup",
    }
}

/// Where cgroup v2 is mounted, from /proc/self/mountinfo.
pub fn mount() -> Option<PathBuf> {
    mounts().lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right.starts_with("cgroup2 ").then(|| PathBuf::from(left.split(' ').nth(4).unwrap_or("")))
    })
}

/// The same, where nothing can be done without.
///
/// # Errors
/// It is not mounted; the message names the remedy.
pub fn needed_mount() -> Result<PathBuf> {
    mount().with_context(|| format!("no cgroup v2 is mounted: {}", remedy()))
}

/// The number by which the kernel knows the cgroup with this path, below the mount or in the file
/// system. In a cgroup namespace, too, where paths begin somewhere within the machine's tree.
///
/// # Errors
/// There is no such cgroup, or no cgroup v2 at all.
pub fn id(path: &Path) -> Result<u64> {
    ensure!(
        !path.as_os_str().is_empty(),
        "a cgroup without a name: give a path such as /user.slice"
    );
    let mount = needed_mount()?;
    let below = mount.join(path.strip_prefix("/").unwrap_or(path));
    let full = if below.is_dir() { below } else { path.to_owned() };
    let Ok(full) = full.canonicalize() else {
        bail!("there is no cgroup '{}' below {}: see systemd-cgls", path.display(), mount.display())
    };
    if !full.starts_with(&mount) {
        bail!("'{}' is no cgroup v2: it must lie below {}", path.display(), mount.display())
    }
    Ok(fs::metadata(&full)?.ino())
}

/// What the cgroups of this process let it and all beside it have of the machine's memory, in bytes.
pub fn memory_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    least_memory(&mount()?, Path::new(path))
}

/// A limit holds for all below it, too.
fn least_memory(mount: &Path, path: &Path) -> Option<u64> {
    let limit = |cgroup: &Path| {
        let text = fs::read_to_string(mount.join(cgroup).join("memory.max")).ok()?;
        text.trim().parse().ok()
    };
    path.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_is_mounted_beside_version_1_or_where_nothing_is() {
        let sysfs = "21 28 0:20 / /sys rw - sysfs sysfs rw\n";
        assert!(remedy_beside(sysfs).ends_with(" /sys/fs/cgroup"));
        let version_1 = "30 21 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                         31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert!(remedy_beside(&[sysfs, version_1].concat()).ends_with(" /sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_path_below_the_mount_and_the_whole_path_name_the_same_cgroup() {
        let Some(mount) = mount() else { return };
        assert_eq!(id(&mount).unwrap(), id(Path::new("/")).unwrap());
    }

    #[test]
    fn the_least_of_the_limits_on_the_way_up_holds() {
        let mount = tempfile::tempdir().unwrap();
        let path = Path::new("kubepods/pod/container");
        fs::create_dir_all(mount.path().join(path)).unwrap();
        let least = || least_memory(mount.path(), path);
        assert_eq!(least(), None, "no controller of memory");
        for (cgroup, limit, expected) in [
            ("kubepods/pod/container", "max\n", None),
            ("kubepods", "68719476736\n", Some(64 << 30)),
            ("kubepods/pod", "536870912\n", Some(512 << 20)),
            ("kubepods/pod/container", "1073741824\n", Some(512 << 20)),
            ("", "268435456\n", Some(256 << 20)),
        ] {
            fs::write(mount.path().join(cgroup).join("memory.max"), limit).unwrap();
            assert_eq!(least(), expected, "{cgroup}: {limit}");
        }
    }

    #[test]
    fn what_is_no_cgroup_is_named() {
        if mount().is_none() {
            return;
        }
        let refusal = |path: &str| id(Path::new(path)).unwrap_err().to_string();
        assert!(refusal("").contains("without a name"));
        assert!(refusal("/no-such").contains("'/no-such'"));
        assert!(refusal("/proc").contains("'/proc' is no cgroup v2"));
    }
}

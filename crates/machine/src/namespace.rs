//! Network namespaces: which there are, what they are called, and doing something inside one.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Where `ip netns` keeps the names.
pub const NAMES: &str = "/run/netns";

/// This process's own.
const OWN: &str = "/proc/self/ns/net";

/// Runs `work` on a thread of its own that has entered the namespace.
///
/// # Errors
/// The namespace is gone or must not be entered.
///
/// # Panics
/// As `work` does.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T> {
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<T> {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("entering {}", path.display()))?;
            Ok(work())
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The file that stands for a network namespace given by name, process id or path.
///
/// # Errors
/// There is none.
pub fn path(text: &str) -> Result<PathBuf> {
    let path = if text.contains('/') {
        PathBuf::from(text)
    } else if text.parse::<u32>().is_ok() {
        PathBuf::from(format!("/proc/{text}/ns/net"))
    } else {
        Path::new(NAMES).join(text)
    };
    const REMEDY: &str = "give a name that `ip netns` lists, a process id, or a path";
    match kind(&path) {
        Ok(Some(kind)) if kind == libc::CLONE_NEWNET => Ok(path),
        Ok(_) => bail!("'{text}' is no network namespace: {REMEDY}"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no network namespace '{text}': {REMEDY}")
        }
        Err(error) => Err(error).with_context(|| format!("cannot open the namespace '{text}'")),
    }
}

/// Which kind of namespace a file stands for, as a flag of `clone`; `None` if it is another file.
fn kind(path: &Path) -> io::Result<Option<i32>> {
    const NSFS_MAGIC: u64 = 0x6e73_6673;
    // ioctl_ns(2): _IO(0xb7, 3)
    const NS_GET_NSTYPE: libc::Ioctl = 0xb703;
    // A pipe or device is not opened: that could wait, or do something.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    if rustix::fs::fstatfs(&file)?.f_type as u64 != NSFS_MAGIC {
        return Ok(None);
    }
    // SAFETY: this request takes no argument.
    let kind = unsafe { libc::ioctl(file.as_raw_fd(), NS_GET_NSTYPE) };
    if kind < 0 { Err(io::Error::last_os_error()) } else { Ok(Some(kind)) }
}

/// Inode number of a network namespace.
///
/// # Errors
/// There is no such file.
pub fn inode(path: &Path) -> Result<u32> {
    let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    u32::try_from(metadata.ino()).with_context(|| format!("{} is no namespace", path.display()))
}

/// Inode number of this process's own; 0, as the programs read it, where the kernel has none.
///
/// # Errors
/// It cannot be read.
pub fn own() -> Result<u32> {
    own_at(Path::new(OWN))
}

fn own_at(path: &Path) -> Result<u32> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        _ => inode(path),
    }
}

/// One path for each network namespace that a process lives in or that has a
/// name, by inode number, and this process's own. Namespaces may go while we look.
pub fn all() -> HashMap<u64, PathBuf> {
    let of_processes = pids().map(of_process);
    at(of_processes.chain(named(Path::new(NAMES))))
}

/// What has a name. A name stays as an empty file where nothing was mounted on it, or the mount
/// went with the one who made it: `ip netns add` that was killed leaves such.
fn named(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| matches!(kind(path), Ok(Some(libc::CLONE_NEWNET))))
}

fn at(paths: impl Iterator<Item = PathBuf>) -> HashMap<u64, PathBuf> {
    let mut found = HashMap::new();
    for path in paths {
        if let Ok(metadata) = fs::metadata(&path) {
            found.entry(metadata.ino()).or_insert(path);
        }
    }
    if let Ok(own) = own() {
        found.entry(own.into()).or_insert_with(|| PathBuf::from(OWN));
    }
    found
}

/// Processes that live in the namespace with this number.
pub fn processes(inode: u64) -> Vec<i32> {
    let lives_there = |pid: &i32| fs::metadata(of_process(*pid)).is_ok_and(|m| m.ino() == inode);
    pids().filter(lives_there).collect()
}

fn of_process(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// An interface as a connection names its own: the inode number of the namespace, this process's
/// if `netns` is not given, and the number of the interface, which is another one elsewhere.
///
/// # Errors
/// There is no such interface.
pub fn interface(name: &str, netns: Option<&Path>) -> Result<(u32, u32)> {
    Ok((netns.map_or_else(own, inode)?, interface_index(name, netns)?))
}

/// Number of an interface; in another namespace if `netns` is given.
///
/// # Errors
/// There is no such interface.
pub fn interface_index(name: &str, netns: Option<&Path>) -> Result<u32> {
    // Sockets of all families answer it, and this one is left to services that have no network.
    let ask = || {
        let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None)?;
        netdevice::name_to_index(socket, name)
    };
    let index = match netns {
        None => ask(),
        Some(path) => inside(path, ask)?,
    };
    index.with_context(|| match index {
        Err(Errno::NODEV) => format!("there is no interface '{name}' here: see `ip link`"),
        _ => format!("asking for the interface '{name}'"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_network_namespaces_has_number_0() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("net");
        assert_eq!(own_at(&file).unwrap(), 0);
        fs::write(&file, "").unwrap();
        assert_ne!(own_at(&file).unwrap(), 0);
    }

    #[test]
    fn a_name_without_a_namespace_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::os::unix::fs::symlink(OWN, &own).unwrap();
        std::os::unix::fs::symlink("/proc/self/ns/mnt", folder.path().join("mounts")).unwrap();
        fs::write(folder.path().join("left"), "").unwrap();
        assert_eq!(named(folder.path()).collect::<Vec<_>>(), [own]);
    }

    #[test]
    fn the_own_one_is_there_even_where_no_other_can_be_seen() {
        let found = at(std::iter::empty());
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [u64::from(own().unwrap())]);
    }
}

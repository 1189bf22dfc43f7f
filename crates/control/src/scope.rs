//! Whose connections we act on, and where that is noted: a directory in a
//! bpffs of our own, so that what a killed process changed can be taken back.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use transom_machine::lock::{self, RUN};
use transom_machine::{bpffs, namespace};

/// All network namespaces, or one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// A name of `ip netns`, a process id or a path.
    pub netns: Option<String>,
    /// Inode number of the namespace; 0 = all.
    pub inode: u32,
}

impl Scope {
    /// # Errors
    /// When there is no such namespace.
    pub fn new(netns: Option<&str>) -> Result<Scope> {
        let inode = match netns {
            None => 0,
            Some(name) => namespace::inode(&namespace::path(name)?)?,
        };
        Ok(Scope { netns: netns.map(str::to_owned), inode })
    }

    fn name(&self) -> String {
        match self.inode {
            0 => "all".into(),
            inode => format!("netns-{inode}"),
        }
    }

    /// Where the pins of this scope are.
    pub fn pins(&self) -> PathBuf {
        own_bpffs().join(self.name())
    }

    /// Only one process at a time acts in a scope: it holds the byte of the
    /// scope's number in one file for all, so that no file is left behind.
    ///
    /// # Errors
    /// When another one does, with its number.
    pub fn lock(&self) -> Result<File> {
        let path = Path::new(RUN).join("tune.lock");
        let file = lock::open(&path).with_context(|| format!("opening {}", path.display()))?;
        let byte = |command| {
            // SAFETY: all zero is a lock of nothing.
            let mut lock: libc::flock = unsafe { std::mem::zeroed() };
            lock.l_type = libc::F_WRLCK as _;
            lock.l_whence = libc::SEEK_SET as _;
            lock.l_start = self.inode.into();
            lock.l_len = 1;
            // SAFETY: the kernel reads and writes one `struct flock`.
            let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) };
            (result == 0).then_some(lock)
        };
        if byte(libc::F_SETLK).is_none() {
            let holder = byte(libc::F_GETLK).map_or(0, |lock| lock.l_pid);
            bail!("process {holder} tunes these connections already: stop it first");
        }
        Ok(file)
    }

    /// The directory of pins, with a bpffs below it.
    ///
    /// # Errors
    /// When bpffs cannot be mounted.
    pub fn prepare(&self) -> Result<PathBuf> {
        let _alone = alone()?;
        let mount = own_bpffs();
        fs::create_dir_all(&mount).with_context(|| format!("creating {}", mount.display()))?;
        bpffs::mount(&mount)?;
        sweep(&mount)?;
        let pins = self.pins();
        fs::create_dir_all(&pins).with_context(|| format!("creating {}", pins.display()))?;
        Ok(pins)
    }

    /// Removes the pins, and the bpffs if no other scope has any.
    ///
    /// # Errors
    /// When a pin cannot be removed.
    pub fn forget(&self) -> Result<()> {
        let _alone = alone()?;
        let (pins, mount) = (self.pins(), own_bpffs());
        if !pins.exists() {
            return Ok(());
        }
        remove(&pins)?;
        if scopes(&mount)?.is_empty() {
            crate::steady::withdraw()?;
            // Busy only if somebody looks into it just now: then the next one does it.
            let _ = bpffs::unmount(&mount);
            let _ = fs::remove_dir(&mount);
        }
        Ok(())
    }
}

fn own_bpffs() -> PathBuf {
    Path::new(RUN).join("bpf")
}

/// The registration of `steady`, which all scopes share.
pub(crate) fn steady_pin() -> PathBuf {
    own_bpffs().join(crate::steady::NAME)
}

/// The same where the kernel has no links for algorithms.
pub(crate) fn steady_map_pin() -> PathBuf {
    own_bpffs().join("steady-map")
}

/// Held while pins come and go, whatever the scope.
pub(crate) fn alone() -> Result<File> {
    let path = Path::new(RUN).join("pins.lock");
    lock::hold(&path).with_context(|| format!("locking {}", path.display()))
}

fn scopes(mount: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(mount)?.flatten().map(|entry| entry.path());
    Ok(entries.filter(|path| path.is_dir()).collect())
}

fn remove(pins: &Path) -> Result<()> {
    for entry in fs::read_dir(pins)? {
        let path = entry?.path();
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(fs::remove_dir(pins)?)
}

/// Namespaces go without a word, and their numbers are given to new ones,
/// which must not inherit what was set.
fn sweep(mount: &Path) -> Result<()> {
    let alive = namespace::all();
    for pins in scopes(mount)? {
        let name = pins.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inode = name.strip_prefix("netns-").and_then(|number| number.parse().ok());
        if inode.is_some_and(|inode: u64| !alive.contains_key(&inode)) {
            remove(&pins)?;
        }
    }
    Ok(())
}

//! Whose connections we act on, and where that is noted: a directory in a
//! bpffs of our own, so that what a killed process changed can be taken back.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytemuck::pod_read_unaligned;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use transom_machine::lock;
use transom_machine::{bpffs, namespace};

use crate::contract::{RULES, RawRule};

/// Rules that outlive their process, in a scope's directory.
pub(crate) const RULES_PIN: &str = "rules";
/// How long a lock is waited for: the guard of rules that were set by hand takes it at each look.
const WAITS: Duration = Duration::from_secs(2);

/// Another process tunes the same connections; says which.
#[derive(Debug)]
pub(crate) struct Held(String);

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Held {}

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

    pub fn is_all(&self) -> bool {
        self.inode == 0
    }

    /// The namespaces that there are, each a scope.
    pub fn each_namespace() -> Vec<Scope> {
        let all = namespace::all().into_iter();
        let scopes = all.filter_map(|(inode, path)| {
            let netns = Some(path.display().to_string());
            Some(Scope { netns, inode: u32::try_from(inode).ok()? })
        });
        scopes.collect()
    }

    /// Those namespaces for which something is noted in our bpffs.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn noted() -> Result<Vec<Scope>> {
        let has_pins = |scope: &Scope| scope.pins().exists();
        Ok(Scope::each_namespace().into_iter().filter(has_pins).collect())
    }

    /// Rules that were set by hand and are in force.
    pub fn rules(&self) -> Vec<RawRule> {
        let Ok(map) = MapHandle::from_pinned_path(self.pins().join(RULES_PIN)) else {
            return Vec::new();
        };
        let read = |n: u32| map.lookup(&n.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        let rules = (0..RULES as u32).map_while(read);
        let rules = rules.filter(|bytes| bytes.len() == size_of::<RawRule>());
        rules
            .map(|bytes| pod_read_unaligned(&bytes))
            .take_while(|r: &RawRule| r.used != 0)
            .collect()
    }

    /// Only one process at a time acts on a connection: it holds the byte of the
    /// scope's number in one file for all, so that no file is left behind. A scope of
    /// one namespace shares byte 0 with its like; that of all has it alone.
    ///
    /// # Errors
    /// [`Held`] when another one does, with its number; or the file cannot be opened.
    pub fn lock(&self) -> Result<File> {
        let file = lock_file("tune.lock")?;
        let until = Instant::now() + WAITS;
        loop {
            let all = if self.is_all() { libc::F_WRLCK } else { libc::F_RDLCK };
            let holder = match taken(&file, 0, all) {
                Some(holder) if self.is_all() => format!(
                    "process {holder} tunes connections: stop it first, or name another network \
                     namespace with --netns"
                ),
                Some(holder) => format!(
                    "process {holder} tunes the connections of all network namespaces: stop it \
                     first"
                ),
                None if self.is_all() => return Ok(file),
                None => match taken(&file, self.inode, libc::F_WRLCK) {
                    None => return Ok(file),
                    Some(holder) => {
                        format!("process {holder} tunes these connections already: stop it first")
                    }
                },
            };
            if Instant::now() > until {
                bail!(Held(holder));
            }
            std::thread::sleep(WAITS / 100);
        }
    }

    /// The process that tunes connections of this scope, if one does: it has [`Scope::lock`].
    ///
    /// # Errors
    /// When the file of locks cannot be opened.
    pub fn holder(&self) -> Result<Option<i32>> {
        let file = lock_file("tune.lock")?;
        let all = if self.is_all() { libc::F_WRLCK } else { libc::F_RDLCK };
        let one = || holder(&file, self.inode, libc::F_WRLCK).filter(|_| !self.is_all());
        Ok(holder(&file, 0, all).or_else(one))
    }

    /// Held by the one process that guards what was set by hand; none if there is one already.
    ///
    /// # Errors
    /// When the file of locks cannot be opened.
    pub fn guard(&self) -> Result<Option<File>> {
        let file = lock_file("guard.lock")?;
        Ok(taken(&file, self.inode, libc::F_WRLCK).is_none().then_some(file))
    }

    /// # Errors
    /// When rules that were set by hand in another scope reach the same connections.
    pub fn overlaps(&self) -> Result<()> {
        let all = Scope::default();
        if !self.is_all() && all.pins().join(RULES_PIN).exists() {
            bail!(
                "`transom tune set` is in force in all network namespaces: `transom tune clear` \
                 first"
            );
        }
        let others = if self.is_all() { Scope::noted()? } else { Vec::new() };
        match others.iter().find(|other| other.pins().join(RULES_PIN).exists()) {
            Some(other) => {
                bail!("`transom tune set` is in force in {other}: `transom tune clear` first")
            }
            None => Ok(()),
        }
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

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.netns {
            Some(name) => write!(f, "the network namespace {name}"),
            None if self.is_all() => f.write_str("all network namespaces"),
            None => write!(f, "the network namespace {}", self.inode),
        }
    }
}

fn lock_file(name: &str) -> Result<File> {
    let path = lock::run().join(name);
    lock::open(&path).with_context(|| format!("opening {}", path.display()))
}

/// Takes one byte of a file, or says which process has it.
fn taken(file: &File, byte: u32, kind: libc::c_int) -> Option<i32> {
    match ask(file, libc::F_SETLK, byte, kind) {
        Some(_) => None,
        None => Some(holder(file, byte, kind).unwrap_or(0)),
    }
}

/// Which process has a byte of a file, so that this lock could not be had.
fn holder(file: &File, byte: u32, kind: libc::c_int) -> Option<i32> {
    let found = ask(file, libc::F_GETLK, byte, kind)?;
    (i32::from(found.l_type) != libc::F_UNLCK).then_some(found.l_pid)
}

fn ask(file: &File, command: libc::c_int, byte: u32, kind: libc::c_int) -> Option<libc::flock> {
    // SAFETY: all zero is a lock of nothing.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    lock.l_start = byte.into();
    lock.l_len = 1;
    // SAFETY: the kernel reads and writes one `struct flock`.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) };
    (result == 0).then_some(lock)
}

fn own_bpffs() -> PathBuf {
    lock::run().join("bpf")
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
    let path = lock::run().join("pins.lock");
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

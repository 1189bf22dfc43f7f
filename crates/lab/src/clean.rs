//! What labs have made, and taking it down: by the lab itself, or after its death by the next.
//!
//! Each lab describes itself in a file of [`DIRECTORY`] before it makes anything. A lab whose
//! process is gone (number and start time) is dead, and any other may clear it away.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use transom_control::Scope;
use transom_machine::lock;

use crate::hosts::{Place, namespace};
use crate::run::peers;

/// A directory that does not outlive a boot, as network namespaces do not.
pub const DIRECTORY: &str = "/run/transom/lab";
/// How long processes of a lab may take to go after SIGKILL.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// A lab, as its file describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lab {
    /// Name of the experiment; only one lab of a name lives at a time.
    pub id: String,
    pub owner: Process,
    /// What the owner does, for people.
    pub command: String,
    pub hosts: Vec<Place>,
    /// Names of all its namespaces.
    pub namespaces: Vec<String>,
    /// Their numbers, as they are made: what has another number is not the lab's.
    pub inodes: Vec<u64>,
}

/// A process that cannot be mistaken for a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// Clock ticks after boot (`/proc/PID/stat`, field 22).
    pub started: u64,
}

impl Process {
    pub fn this() -> Result<Process> {
        let pid = std::process::id() as i32;
        let started = started(pid).context("reading /proc/self/stat")?;
        Ok(Process { pid, started })
    }

    pub fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may itself hold blanks and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let state = rest.split_whitespace().next()?;
    // A zombie holds nothing any more.
    if state == "Z" {
        return None;
    }
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// The file of a lab of ours. It stays until [`Registered::gone`]: what cannot be taken down now is
/// left to the next.
#[derive(Debug)]
pub struct Registered {
    path: PathBuf,
    pub lab: Lab,
}

impl Registered {
    /// `between` is a namespace besides those of the hosts.
    ///
    /// # Errors
    /// If a lab of this name lives, or the file cannot be written.
    pub fn new(
        id: &str,
        command: &str,
        hosts: Vec<Place>,
        between: Option<String>,
    ) -> Result<Registered> {
        fs::create_dir_all(DIRECTORY).with_context(|| format!("creating {DIRECTORY}"))?;
        let path = Path::new(DIRECTORY).join(format!("{id}.json"));
        let (id, command, owner) = (id.to_owned(), command.to_owned(), Process::this()?);
        let of_hosts = hosts.iter().map(|place| place.namespace.clone());
        let namespaces = of_hosts.chain(between).collect();
        let lab = Lab { id, owner, command, hosts, namespaces, inodes: Vec::new() };
        match write(&path, |fresh| fs::hard_link(fresh, &path), &lab) {
            Ok(()) => Ok(Registered { path, lab }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "a lab '{}' is up already{}: wait for its end or end it",
                lab.id,
                read(&path).map(|lab| format!(" (process {})", lab.owner.pid)).unwrap_or_default()
            ),
            Err(error) => Err(error).with_context(|| format!("writing {}", path.display())),
        }
    }

    /// Makes the namespaces, and notes the number of each before it has its name.
    ///
    /// # Errors
    /// The first that cannot be made; those made until then stay.
    pub fn make(&mut self) -> Result<()> {
        for name in self.lab.namespaces.clone() {
            namespace::add(&name, |inode| {
                self.lab.inodes.push(inode);
                write(&self.path, |fresh| fs::rename(fresh, &self.path), &self.lab)
                    .with_context(|| format!("writing {}", self.path.display()))
            })?;
        }
        Ok(())
    }

    /// All is taken down.
    pub fn gone(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes beside `path` first, so that a file that is there is whole.
fn write(path: &Path, put: impl FnOnce(&Path) -> io::Result<()>, lab: &Lab) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let result = fs::write(&fresh, serde_json::to_vec_pretty(lab)?).and_then(|()| put(&fresh));
    let _ = fs::remove_file(&fresh);
    result
}

fn read(path: &Path) -> Option<Lab> {
    serde_json::from_reader(File::open(path).ok()?).ok()
}

/// All labs that have a file, dead ones too.
pub fn labs() -> Vec<Lab> {
    let files = fs::read_dir(DIRECTORY).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut labs: Vec<Lab> = files
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter_map(|path| read(&path))
        .collect();
    labs.sort_by(|a, b| a.id.cmp(&b.id));
    labs
}

/// Clears away what dead labs left; returns their names.
///
/// # Errors
/// If a namespace of a dead lab cannot be removed.
pub fn dead_labs() -> Result<Vec<String>> {
    let mut cleared = Vec::new();
    // Two must not clear one, and the second then a live one of the same name.
    if !Path::new(DIRECTORY).is_dir() {
        return Ok(cleared);
    }
    let Ok(_lock) = lock::hold(&Path::new(DIRECTORY).join("lock")) else { return Ok(cleared) };
    for lab in labs().into_iter().filter(|lab| !lab.owner.lives()) {
        take_down(&lab).with_context(|| format!("clearing away the dead lab '{}'", lab.id))?;
        let _ = fs::remove_file(Path::new(DIRECTORY).join(format!("{}.json", lab.id)));
        cleared.push(lab.id);
    }
    Ok(cleared)
}

/// Ends what runs in a lab's namespaces and removes them. A name that means another namespace than
/// the lab has made is left alone.
///
/// # Errors
/// The first namespace that cannot be removed, after all were tried.
pub fn take_down(lab: &Lab) -> Result<()> {
    let mut result = Ok(());
    // Those that have no number yet were not begun.
    for (name, &made) in lab.namespaces.iter().zip(&lab.inodes) {
        let Some(inode) = namespace::inode(name) else {
            // A name without a namespace behind it is left of one cut short.
            result = result.and(namespace::delete(name));
            continue;
        };
        if inode != made {
            continue;
        }
        end_processes(inode);
        // What a daemon that was killed could not remove.
        let _ = std::fs::remove_file(peers::socket(inode));
        // Before its number may be another's.
        forget_tuning(inode);
        result = result.and(namespace::delete(name));
    }
    result
}

/// What `tune` noted of a namespace: who was killed in it took nothing back, and the connections are
/// gone. What cannot be removed now, the next `tune` does.
fn forget_tuning(inode: u64) {
    let Ok(inode) = u32::try_from(inode) else { return };
    let scope = Scope { netns: None, inode };
    if scope.pins().exists() && matches!(scope.holder(), Ok(None)) {
        let _ = scope.forget();
    }
}

fn end_processes(inode: u64) {
    let deadline = Instant::now() + LAST_BREATH;
    loop {
        let left = transom_machine::namespace::processes(inode);
        let own = std::process::id() as i32;
        let left: Vec<i32> = left.into_iter().filter(|&pid| pid != own).collect();
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in left {
            // SAFETY: a plain system call; the process lives in a namespace that is ours alone.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_is_not_another_of_its_number() {
        let this = Process::this().unwrap();
        assert!(this.lives());
        assert!(!Process { started: this.started + 1, ..this }.lives());
    }

    #[test]
    fn a_process_that_was_never_there_does_not_live() {
        assert!(!Process { pid: i32::MAX, started: 1 }.lives());
    }
}

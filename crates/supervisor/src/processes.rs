//! Which socket a number means in a process of the program.
//!
//! `dup`, `fork` and `SCM_RIGHTS` move descriptors without telling us, so a number alone says
//! nothing: each call fetches the descriptor itself and asks it for its cookie.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::errno::{Errno, Result};
use crate::system;

/// Beyond this many threads we forget all and begin anew: some have long ended.
const REMEMBERED: usize = 1024;

#[derive(Default)]
pub struct Processes {
    /// A pidfd of each thread that has called. It never comes to mean another thread: once ended,
    /// it answers `ESRCH`.
    threads: HashMap<i32, OwnedFd>,
    /// The kernel has no pidfds of threads (before 6.9): those of processes could come to mean
    /// another one's thread, so they are not remembered.
    only_processes: bool,
}

impl Processes {
    /// A copy of the program's descriptor.
    pub fn descriptor(&mut self, tid: i32, fd: RawFd) -> Result<OwnedFd> {
        if let Some(thread) = self.threads.get(&tid) {
            match get(thread, fd) {
                Err(Errno(libc::ESRCH)) => drop(self.threads.remove(&tid)),
                other => return other,
            }
        }
        let thread = self.open(tid)?;
        let descriptor = get(&thread, fd);
        if !self.only_processes {
            if self.threads.len() >= REMEMBERED {
                self.threads.clear();
            }
            self.threads.insert(tid, thread);
        }
        descriptor
    }

    fn open(&mut self, tid: i32) -> Result<OwnedFd> {
        if !self.only_processes {
            match pidfd_open(tid, libc::PIDFD_THREAD) {
                Err(Errno(libc::EINVAL)) => self.only_processes = true,
                other => return other,
            }
        }
        pidfd_open(process_of(tid).ok_or(Errno(libc::ESRCH))?, 0)
    }

    /// `FD_CLOEXEC` of the program's number, which a copy of the descriptor does not tell.
    pub fn is_close_on_exec(&self, tid: i32, fd: RawFd) -> bool {
        let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
    }

    /// Looks for the socket in all threads that have called: a program's end of a pair, of which we
    /// hold no copy.
    pub fn find(&mut self, inode: u64, cookie: u64) -> Option<OwnedFd> {
        let name = format!("socket:[{inode}]");
        let threads: Vec<i32> = self.threads.keys().copied().collect();
        for tid in threads {
            let Ok(numbers) = fs::read_dir(format!("/proc/{tid}/fd")) else { continue };
            for entry in numbers.flatten() {
                if fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == &*name)
                    && let Some(fd) = entry.file_name().to_str().and_then(|s| s.parse().ok())
                    && let Ok(found) = self.descriptor(tid, fd)
                    && system::cookie(found.as_fd()) == Ok(cookie)
                {
                    return Some(found);
                }
            }
        }
        None
    }
}

fn pidfd_open(pid: i32, flags: u32) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    system::owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) })
}

/// As `pidfd_getfd(2)`: needs the right to trace the process.
pub fn get(process: &OwnedFd, fd: RawFd) -> Result<OwnedFd> {
    // SAFETY: no pointers.
    system::owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// A process by its ID, for descriptors that are fetched once.
pub fn open(pid: i32) -> Result<OwnedFd> {
    pidfd_open(pid, 0)
}

/// The thread group that a thread belongs to.
fn process_of(tid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

//! Which socket a number means in a process of the program.
//!
//! `dup`, `fork` and `SCM_RIGHTS` move descriptors without telling us, so a number alone says
//! nothing: each call fetches the descriptor itself and asks it for its cookie.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::errno::{Errno, Result};
use crate::system;

/// Beyond this many threads we forget all and begin anew: some have long ended. Fewer where we may
/// have few descriptors: three of four are for sockets.
const REMEMBERED: usize = 1024;

/// So many of our last descriptors are for one call alone: a copy of the program's, and what is read
/// of it (`/proc`).
const UNREMEMBERED: usize = 12;

pub struct Processes {
    /// So many threads are remembered.
    room: usize,
    /// Each thread that has called, and its pidfd, which never comes to mean another thread: once
    /// ended, it answers `ESRCH`.
    threads: HashMap<i32, Option<OwnedFd>>,
    /// The kernel has no pidfds of threads (before 6.9): those of processes could come to mean
    /// another one's thread, so they are not remembered.
    only_processes: bool,
}

impl Default for Processes {
    fn default() -> Self {
        let room = REMEMBERED.min(system::most_descriptors() / 4);
        Self { room, threads: HashMap::new(), only_processes: false }
    }
}

impl Processes {
    /// A copy of the program's descriptor.
    pub fn descriptor(&mut self, tid: i32, fd: RawFd) -> Result<OwnedFd> {
        if let Some(Some(thread)) = self.threads.get(&tid) {
            match get(thread, fd) {
                Err(Errno(libc::ESRCH)) => drop(self.threads.remove(&tid)),
                other => return other,
            }
        }
        let thread = self.open(tid)?;
        let descriptor = get(&thread, fd)?;
        if self.threads.len() >= self.room {
            self.threads.clear();
        }
        // The kernel gives the lowest number that is free.
        let is_last = descriptor.as_raw_fd() as usize + UNREMEMBERED >= system::most_descriptors();
        if is_last {
            self.threads.values_mut().for_each(|thread| *thread = None);
        }
        let is_remembered = !is_last && !self.only_processes;
        self.threads.insert(tid, is_remembered.then_some(thread));
        Ok(descriptor)
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

    /// Looks for the socket in all threads that have called, and then in all processes of the program:
    /// a child may do nothing but read what it has inherited. It is a program's end of a pair, of which
    /// we hold no copy.
    pub fn find(&mut self, inode: u64, cookie: u64) -> Option<OwnedFd> {
        let callers: Vec<i32> = self.threads.keys().copied().collect();
        let found = callers.iter().find_map(|&tid| self.find_in(tid, inode, cookie));
        found.or_else(|| descendants().iter().find_map(|&pid| self.find_in(pid, inode, cookie)))
    }

    fn find_in(&mut self, tid: i32, inode: u64, cookie: u64) -> Option<OwnedFd> {
        let name = format!("socket:[{inode}]");
        let is_it = |entry: &fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == &*name)
        };
        let numbers = fs::read_dir(format!("/proc/{tid}/fd")).ok()?.flatten();
        numbers.filter(is_it).find_map(|entry| {
            let fd = entry.file_name().to_str()?.parse().ok()?;
            // Not remembered: it may never call.
            let found = self.open(tid).and_then(|thread| get(&thread, fd)).ok()?;
            (system::cookie(found.as_fd()) == Ok(cookie)).then_some(found)
        })
    }
}

/// The processes of the program. All of the host, where the kernel does not list children: of the
/// others we get no descriptor, or it is another one.
fn descendants() -> Vec<i32> {
    if !lists_children() {
        let own = std::process::id() as i32;
        return numbers_in("/proc").into_iter().filter(|pid| *pid != own).collect();
    }
    left_of_program()
}

/// `CONFIG_PROC_CHILDREN`.
fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// The processes of the program, as far as the kernel lists children.
pub fn left_of_program() -> Vec<i32> {
    let own = std::process::id() as i32;
    let mut found = children(own);
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid));
        next += 1;
    }
    found
}

fn children(pid: i32) -> Vec<i32> {
    let listed = numbers_in(&format!("/proc/{pid}/task")).into_iter().flat_map(|tid| {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
        let list = list.unwrap_or_default();
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
    });
    listed.collect()
}

/// The names in a folder that are numbers.
fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    /// A child that has our descriptors, and does nothing until it is killed.
    fn child() -> i32 {
        // SAFETY: the child makes one system call.
        unsafe {
            match libc::fork() {
                0 => {
                    libc::pause();
                    libc::_exit(0)
                }
                pid => pid,
            }
        }
    }

    #[test]
    fn a_socket_is_found_in_a_process_that_has_never_called() {
        let _child = forks::one();
        let socket = system::udp_socket().unwrap();
        let (cookie, inode) =
            (system::cookie(socket.as_fd()).unwrap(), system::inode(socket.as_fd()).unwrap());
        let pid = child();
        drop(socket);
        let mut processes = Processes::default();
        let found = processes.find(inode, cookie);
        let other = processes.find(inode, cookie + 1);
        // SAFETY: the child of above.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        assert_eq!(found.map(|found| system::cookie(found.as_fd())), Some(Ok(cookie)));
        assert!(other.is_none());
    }
}

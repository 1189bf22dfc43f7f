//! The running library: its loop, its files.

use std::ffi::{CString, c_int};
use std::time::Duration;

use crate::boot::{Host, Running};
use crate::error::{Error, Result, check};
use crate::host::Hosts;
use crate::netlink::Netlink;
use crate::socket::{SocketId, Sockets};
use crate::sys::{self, Library};

/// Rounds of "frames came, run" within one turn: an endless stream of frames must not keep the
/// owner from its other work.
const ROUNDS: usize = 16;

/// For a file of `/proc` at first, bytes: enough for all but the tables of thousands of sockets.
const PROC_ROOM: usize = 1 << 20;

/// A kernel of our own, in this process.
///
/// Invariant: the library runs only within methods, which have `&mut self`, and calls back into
/// its host then; methods hold no reference into it while they call the library.
pub struct Kernel {
    running: Running,
    pub(crate) sockets: Sockets,
    pub(crate) netlink: Netlink,
    pub(crate) hosts: Hosts,
    /// The clock's time at which the library wants to run again.
    next: u64,
}

// SAFETY: nothing in the library or here is bound to a thread; `&mut self` keeps calls apart. What
// the host gave (clock, console) is Send; NICs are used under `&mut self` only, and are asked to be
// Send in `add_nic`'s bound.
unsafe impl Send for Kernel {}

impl Kernel {
    pub(crate) fn new(running: Running) -> Self {
        let next = 0;
        let (sockets, netlink, hosts) = Default::default();
        Self { running, sockets, netlink, hosts, next }
    }

    pub(crate) fn library(&self) -> &'static Library {
        self.running.library()
    }

    pub(crate) fn host(&self) -> *mut Host {
        self.running.host
    }

    /// Hands over frames that wait at the interfaces and runs the library until nothing is due.
    /// Adds the sockets whose state has changed since the last turn: [`Kernel::poll`] tells how.
    /// True: interfaces still have frames; come again soon.
    pub fn turn(&mut self, ready: &mut Vec<SocketId>) -> bool {
        let mut more = true;
        let mut rounds = 0;
        while more && rounds < ROUNDS {
            more = self.receive_frames();
            self.run();
            rounds += 1;
        }
        self.take_ready(ready);
        more
    }

    /// The same, but frames stay at the interfaces for a later turn.
    pub fn turn_without_frames(&mut self, ready: &mut Vec<SocketId>) {
        self.run();
        self.take_ready(ready);
    }

    /// Keeps the kernel's tick (4 ms) also while nothing is due: cheaper for an owner that simulates
    /// time and turns thousands of times in a tick of it.
    pub fn keep_tick(&mut self, on: bool) {
        // SAFETY: the library is booted.
        unsafe { self.library().keep_tick(c_int::from(on)) };
    }

    fn run(&mut self) {
        // SAFETY: the library is booted, and `&mut self` makes this the only call.
        self.next = unsafe { self.library().run() };
    }

    fn take_ready(&mut self, ready: &mut Vec<SocketId>) {
        // SAFETY: no library call is under way.
        let named = unsafe { &mut (*self.host()).ready };
        named.sort_unstable();
        named.dedup();
        ready.extend(named.drain(..).filter_map(|cookie| self.sockets.id_of(cookie)));
    }

    /// The time of the clock at which [`Kernel::turn`] is wanted at the latest; `None`: not before
    /// something happens. Good until the next operation.
    pub fn deadline(&self) -> Option<u64> {
        (self.next != sys::NEVER).then_some(self.next)
    }

    /// The same, from now on.
    pub fn time_left(&mut self) -> Option<Duration> {
        let deadline = self.deadline()?;
        Some(Duration::from_nanos(deadline.saturating_sub(self.now())))
    }

    /// The clock.
    pub fn now(&mut self) -> u64 {
        // SAFETY: no library call is under way.
        let clock = unsafe { &mut (*self.host()).clock };
        clock.now()
    }

    /// A file below `/proc`, all of it: `net/snmp`, `sys/net/ipv4/tcp_rmem`.
    ///
    /// # Errors
    /// `ENOENT`, and what the file says.
    pub fn read_proc(&mut self, path: &str) -> Result<String> {
        let path = CString::new(path).map_err(|_| Error::new(libc::EINVAL, "path"))?;
        let mut room = PROC_ROOM;
        loop {
            let mut text = vec![0u8; room];
            // SAFETY: path and buffer are good for the call.
            let n = unsafe {
                self.library().proc_read(path.as_ptr(), text.as_mut_ptr().cast(), text.len())
            };
            let n = check(n, "reading a file of /proc")?;
            if n < room {
                text.truncate(n);
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            // It may go on. Nothing has changed when it is read once more.
            room *= 2;
        }
    }

    /// # Errors
    /// `ENOENT`, `EINVAL`, and what else the file says.
    pub fn write_proc(&mut self, path: &str, text: &str) -> Result<()> {
        let path = CString::new(path).map_err(|_| Error::new(libc::EINVAL, "path"))?;
        // SAFETY: path and text are good for the call.
        let n =
            unsafe { self.library().proc_write(path.as_ptr(), text.as_ptr().cast(), text.len()) };
        check(n, "writing a file of /proc").map(drop)
    }

    /// A sysctl by its name with dots: `net.ipv4.tcp_congestion_control`.
    ///
    /// # Errors
    /// `ENOENT`: there is none of this name.
    pub fn sysctl(&mut self, name: &str) -> Result<String> {
        self.read_proc(&sysctl_path(name)).map(|text| text.trim_end().to_owned())
    }

    /// # Errors
    /// `ENOENT`: there is none of this name; `EINVAL`: not such a value.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<()> {
        self.write_proc(&sysctl_path(name), value)
    }
}

fn sysctl_path(name: &str) -> String {
    format!("sys/{}", name.replace('.', "/"))
}

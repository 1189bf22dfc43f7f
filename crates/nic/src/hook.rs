//! The place on an interface's ingress where the host's packets of ours are dropped.
//!
//! A TCX link (Linux 6.6) dies with the process. Before, a clsact filter does the same and stays
//! after a `kill -9`; the next start finds it by its number, which a lock of the process would
//! guard if it still lived, and removes it.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::libbpf_sys;
use libbpf_rs::query::ProgInfoIter;
use rustix::io::Errno;

use crate::claim::Lock;
use crate::netlink::Netlink;

/// Of our filters: a number that nobody is known to use (tc numbers them from 49152 down).
const PRIORITY: u32 = 84;
/// Processes at once on one interface, where there is no TCX.
const SLOTS: u32 = 64;
/// In a filter's handle: the clsact qdisc was not there before.
const MADE_QDISC: u32 = 1 << 16;
/// linux/pkt_sched.h
const TC_H_MAJ_CLSACT: u32 = 0xffff_0000;
const TC_H_MIN_INGRESS: u32 = 0xfff2;
const TC_H_MIN_EGRESS: u32 = 0xfff3;
/// As the program is called in `bpf/divert.bpf.c`.
const PROGRAM: &str = "divert";

/// Which way to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// A link where the kernel has it, else a filter.
    #[default]
    Best,
    Link,
    Filter,
}

/// Attached as long as it lives.
pub(crate) enum Hook {
    Link { _link: OwnedFd },
    Filter { _filter: Filter },
}

impl Hook {
    pub(crate) fn attach(program: BorrowedFd<'_>, index: u32, way: Attach) -> Result<Hook> {
        if way != Attach::Filter {
            match link(program, index) {
                Ok(link) => return Ok(Hook::Link { _link: link }),
                // Before 6.6 the kernel does not know this type of attachment.
                Err(Errno::INVAL | Errno::OPNOTSUPP) if way == Attach::Best => {}
                Err(error) => return Err(error).context("attaching to the interface's ingress"),
            }
        }
        Ok(Hook::Filter { _filter: Filter::attach(program, index)? })
    }

    pub(crate) fn is_link(&self) -> bool {
        matches!(self, Hook::Link { .. })
    }
}

fn link(program: BorrowedFd<'_>, index: u32) -> Result<OwnedFd, Errno> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        // First of all programs: another one may end the walk by accepting a packet.
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: descriptor, interface and options are valid for the call.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            index as i32,
            libbpf_sys::BPF_TCX_INGRESS,
            &raw const options,
        )
    };
    if fd < 0 {
        return Err(Errno::from_raw_os_error(-fd));
    }
    // SAFETY: a new descriptor, nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A clsact filter, removed when dropped.
pub(crate) struct Filter {
    index: u32,
    handle: u32,
    _lock: Lock,
}

impl Filter {
    fn attach(program: BorrowedFd<'_>, index: u32) -> Result<Filter> {
        let mut free = None;
        for slot in 1..=SLOTS {
            // Taken: another process of ours is at work there.
            let Some(lock) = Lock::take(&format!("divert/{index}/{slot}"))? else { continue };
            remove_stale(index, slot)?;
            free.get_or_insert((slot, lock));
        }
        let Some((slot, lock)) = free else {
            bail!("{SLOTS} processes already use this interface")
        };
        let mut place = place(index, libbpf_sys::BPF_TC_INGRESS);
        // SAFETY: the hook is whole.
        let made = match unsafe { libbpf_sys::bpf_tc_hook_create(&raw mut place) } {
            0 => true,
            error if error == -libc::EEXIST => false,
            error => bail!(
                "making a clsact qdisc: {}; it needs the privilege CAP_NET_ADMIN (run as root)",
                io::Error::from_raw_os_error(-error)
            ),
        };
        let handle = if made { slot | MADE_QDISC } else { slot };
        let mut filter = filter(handle);
        filter.prog_fd = program.as_raw_fd();
        // SAFETY: hook and options are whole, the program is open.
        result(unsafe { libbpf_sys::bpf_tc_attach(&raw const place, &raw mut filter) })
            .context("adding a filter to the interface's ingress")?;
        Ok(Filter { index, handle, _lock: lock })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and the filter with it.
        let _ = remove(self.index, self.handle);
    }
}

fn place(index: u32, point: libbpf_sys::bpf_tc_attach_point) -> libbpf_sys::bpf_tc_hook {
    libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as libbpf_sys::size_t,
        ifindex: index as i32,
        attach_point: point,
        ..Default::default()
    }
}

fn filter(handle: u32) -> libbpf_sys::bpf_tc_opts {
    libbpf_sys::bpf_tc_opts {
        sz: size_of::<libbpf_sys::bpf_tc_opts>() as libbpf_sys::size_t,
        handle,
        priority: PRIORITY,
        ..Default::default()
    }
}

fn result(code: i32) -> io::Result<()> {
    if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(()) }
}

/// What a killed process left in this slot.
fn remove_stale(index: u32, slot: u32) -> Result<()> {
    for handle in [slot, slot | MADE_QDISC] {
        let place = place(index, libbpf_sys::BPF_TC_INGRESS);
        let mut found = filter(handle);
        // SAFETY: hook and options are whole.
        if unsafe { libbpf_sys::bpf_tc_query(&raw const place, &raw mut found) } < 0 {
            continue;
        }
        let id = found.prog_id;
        let ours = ProgInfoIter::default().any(|info| info.id == id && info.name == PROGRAM);
        ensure!(
            ours,
            "the interface has a filter of priority {PRIORITY} and handle {handle:#x} that is not \
             ours: remove it (tc filter del)"
        );
        remove(index, handle).context("removing the filter that a killed process left")?;
    }
    Ok(())
}

/// The filter, and the qdisc if it came with the filter and nobody else has filters there.
fn remove(index: u32, handle: u32) -> Result<()> {
    let here = place(index, libbpf_sys::BPF_TC_INGRESS);
    let filter = filter(handle);
    // SAFETY: hook and options are whole.
    result(unsafe { libbpf_sys::bpf_tc_detach(&raw const here, &raw const filter) })?;
    if handle & MADE_QDISC != 0 && is_empty(index)? {
        let mut qdisc = place(index, libbpf_sys::BPF_TC_INGRESS | libbpf_sys::BPF_TC_EGRESS);
        // SAFETY: the hook is whole.
        result(unsafe { libbpf_sys::bpf_tc_hook_destroy(&raw mut qdisc) })?;
    }
    Ok(())
}

/// No filter on the interface's ingress and egress.
fn is_empty(index: u32) -> Result<bool> {
    let mut netlink = Netlink::open()?;
    for parent in [TC_H_MAJ_CLSACT | TC_H_MIN_INGRESS, TC_H_MAJ_CLSACT | TC_H_MIN_EGRESS] {
        // struct tcmsg: family and padding, interface, handle, parent, info
        let body = [0, index, 0, parent, 0].map(u32::to_ne_bytes).concat();
        if !netlink.dump(libc::RTM_GETTFILTER, &body)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

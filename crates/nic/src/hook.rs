//! The hook on an interface's ingress that drops the stack's packets before the host sees them.
//!
//! A TCX link (Linux 6.6) dies with the process. Before, a clsact filter does the same ([`crate::clsact`]).

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::libbpf_sys;
use rustix::io::Errno;

use crate::clsact::Filter;

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
    // SAFETY: a new descriptor, owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

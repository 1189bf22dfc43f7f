//! Hosts: network namespaces of one kernel, each with interfaces, addresses, routes and sysctls of its
//! own. Memory, time and randomness they share.

use std::ptr;

use crate::error::{Result, check};
use crate::kernel::Kernel;
use crate::sys;

/// A host of a [`Kernel`]; the default is the one that is there from the boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostId(pub(crate) usize);

/// The namespaces beside the first, and which is in use.
#[derive(Default)]
pub(crate) struct Hosts {
    added: Vec<*mut sys::LinuxNet>,
    pub in_use: HostId,
}

impl Kernel {
    /// # Errors
    /// `ENOMEM`.
    pub fn add_host(&mut self) -> Result<HostId> {
        let mut made = ptr::null_mut();
        // SAFETY: `made` is good for the call.
        check(unsafe { self.library().net_add(&mut made) } as isize, "adding a host")?;
        self.hosts.added.push(made);
        Ok(HostId(self.hosts.added.len()))
    }

    /// Sockets, interfaces, addresses, routes and files of `/proc` are those of this host from now on.
    /// Sockets and interfaces that are there already stay what they are.
    pub fn use_host(&mut self, host: HostId) {
        if host == self.hosts.in_use {
            return;
        }
        let net = host.0.checked_sub(1).map_or(ptr::null_mut(), |at| self.hosts.added[at]);
        // SAFETY: the namespace lives as long as the kernel.
        unsafe { self.library().net_use(net) };
        self.hosts.in_use = host;
    }
}

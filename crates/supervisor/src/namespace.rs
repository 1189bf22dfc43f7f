//! Network namespaces: ours, that of the datagrams' ends, and those of programs.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::errno::{Errno, Result};
use crate::system;

/// linux/nsfs.h.
const NS_GET_USERNS: libc::Ioctl = 0xb701;
const NS_GET_PARENT: libc::Ioctl = 0xb702;

/// The one that this thread is in.
pub fn own() -> Result<File> {
    Ok(File::open("/proc/thread-self/ns/net")?)
}

/// The one that a thread is in, if it is not ours.
pub fn of_thread(tid: i32) -> Result<Option<File>> {
    let theirs = File::open(format!("/proc/{tid}/ns/net"))?;
    let (there, here) = (theirs.metadata()?, own()?.metadata()?);
    let is_ours = (there.dev(), there.ino()) == (here.dev(), here.ino());
    Ok((!is_ours).then_some(theirs))
}

/// A stay in another namespace, which ends in this one.
pub struct Visit<'a>(&'a File);

impl<'a> Visit<'a> {
    pub fn begin(to: &File, home: &'a File) -> Result<Self> {
        enter(to)?;
        Ok(Visit(home))
    }

    /// Of a thread that is there already.
    pub fn ending_in(home: &'a File) -> Self {
        Visit(home)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        // The stack's own sockets must not come to lie where the program's ends are.
        enter(self.0).expect("the way back into the supervisor's network namespace");
    }
}

fn enter(namespace: &File) -> Result<()> {
    // SAFETY: no pointers.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    Errno::check(entered.into()).map(drop)
}

/// The user namespace that a network belongs to, and those above it, as far as we see them: privileges
/// in one of them count for the network (user_namespaces(7)). By names such as `user:[4026531837]`.
pub fn owners(network: &File) -> impl Iterator<Item = PathBuf> {
    let owner = related(network.as_raw_fd(), NS_GET_USERNS).ok();
    let all = std::iter::successors(owner, |of| related(of.as_raw_fd(), NS_GET_PARENT).ok());
    all.filter_map(|user| fs::read_link(format!("/proc/self/fd/{}", user.as_raw_fd())).ok())
}

fn related(namespace: i32, how: libc::Ioctl) -> Result<OwnedFd> {
    // SAFETY: no pointers; what is given is a new descriptor.
    system::owned(unsafe { libc::ioctl(namespace, how) }.into())
}

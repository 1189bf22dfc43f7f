//! BPF iterators: programs that the kernel runs over its tables when a file is read.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, libbpf_sys};

use crate::namespace;

/// Runs the iterator once and returns what it wrote. It looks at the network namespace of the
/// thread that opens it: this thread's, or the one named.
///
/// # Errors
/// The namespace is gone, or the kernel refuses.
pub fn run(link: &Link, inside: Option<&Path>) -> Result<Vec<u8>> {
    let descriptor = link.as_fd().as_raw_fd();
    let open = move || -> Result<File> {
        // SAFETY: the caller keeps `link`, and so its descriptor, until we return.
        let iterator = unsafe { libbpf_sys::bpf_iter_create(descriptor) };
        if iterator < 0 {
            return Err(std::io::Error::last_os_error()).context("opening a BPF iterator");
        }
        // SAFETY: the kernel has just given us this descriptor.
        Ok(unsafe { File::from_raw_fd(iterator) })
    };
    let mut file = match inside {
        None => open(),
        Some(path) => namespace::inside(path, open)?,
    }?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("running a BPF iterator")?;
    Ok(bytes)
}

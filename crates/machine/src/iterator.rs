//! BPF iterators: programs that the kernel runs over its tables when a file is read.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, libbpf_sys};

use crate::namespace;

/// Each goes on for a million objects: more than a machine has.
const MOST_READS: u32 = 1000;

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
    read_all(&mut file).context("running a BPF iterator")
}

/// After a million objects of which none wrote anything the kernel says EAGAIN, and goes on from
/// there when it is read again (MAX_ITER_OBJECTS in kernel/bpf/bpf_iter.c).
fn read_all(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..MOST_READS {
        match from.read_to_end(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            ended => return ended.map(|_| bytes),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says EAGAIN before each of its bytes.
    struct Millions(u8);

    impl Read for Millions {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.0 -= 1;
            match self.0 {
                0 => Ok(0),
                left if left % 2 == 1 => Err(ErrorKind::WouldBlock.into()),
                left => {
                    to[0] = left;
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn a_walk_goes_on_where_the_kernel_paused_it() {
        assert_eq!(read_all(&mut Millions(6)).unwrap(), [4, 2]);
    }

    #[test]
    fn one_that_never_ends_is_given_up() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, _to: &mut [u8]) -> std::io::Result<usize> {
                Err(ErrorKind::WouldBlock.into())
            }
        }
        assert_eq!(read_all(&mut Endless).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}

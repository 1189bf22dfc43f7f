//! BPF iterators: programs that the kernel runs over its tables when a file is read.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, libbpf_sys};

use crate::namespace;

/// Each goes on for a million objects: more than a machine has.
const MOST_PAUSES: u32 = 1000;

/// Bytes that are read at once where the reader does nothing in between.
const STEP: usize = 32 << 10;

/// Runs the iterator once and returns what it wrote. It looks at the network namespace of the
/// thread that opens it: this thread's, or the one named.
///
/// # Errors
/// The namespace is gone, or the kernel refuses.
pub fn run(link: &Link, inside: Option<&Path>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let keep = |more: &[u8]| {
        bytes.extend_from_slice(more);
        Ok(())
    };
    run_in_steps(link, inside, STEP, keep)?;
    Ok(bytes)
}

/// The same, with a pause whenever it has written so many bytes, in which `each` takes them.
///
/// # Errors
/// As [`run`], and those of `each`.
pub fn run_in_steps(
    link: &Link,
    inside: Option<&Path>,
    step: usize,
    each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
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
    read_all(&mut file, step, each)
}

/// After a million objects of which none wrote anything the kernel says EAGAIN, and goes on from
/// there when it is read again (MAX_ITER_OBJECTS in kernel/bpf/bpf_iter.c).
fn read_all(
    from: &mut impl Read,
    step: usize,
    mut each: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut bytes = vec![0; step];
    let mut paused = 0;
    while paused < MOST_PAUSES {
        match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(read) => each(&bytes[..read])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => paused += 1,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("running a BPF iterator"),
        }
    }
    Err(std::io::Error::from(ErrorKind::TimedOut)).context("running a BPF iterator")
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
        let mut steps = Vec::new();
        let each = |more: &[u8]| {
            steps.push(more.to_vec());
            Ok(())
        };
        read_all(&mut Millions(6), 8, each).unwrap();
        assert_eq!(steps, [[4], [2]]);
    }

    #[test]
    fn one_that_never_ends_is_given_up() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, _to: &mut [u8]) -> std::io::Result<usize> {
                Err(ErrorKind::WouldBlock.into())
            }
        }
        let error = read_all(&mut Endless, 8, |_| Ok(())).unwrap_err();
        let error = error.downcast_ref::<std::io::Error>().expect("of the reader");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}

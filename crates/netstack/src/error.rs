//! Errors are the kernel's numbers.

use std::{fmt, io};

/// An error number of the library, with what was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// `EAGAIN`, `ECONNREFUSED`, …: positive, as in `libc`.
    pub errno: i32,
    /// What failed: `connect`, `boot`, …
    pub what: &'static str,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(errno: i32, what: &'static str) -> Self {
        Self { errno, what }
    }

    /// It may succeed later: `EAGAIN` or `EINPROGRESS`.
    pub fn would_block(&self) -> bool {
        matches!(self.errno, libc::EAGAIN | libc::EINPROGRESS)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::from_raw_os_error(error.errno)
    }
}

/// The library's convention: negative is an error.
pub(crate) fn check(result: isize, what: &'static str) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::new(-result as i32, what))
}

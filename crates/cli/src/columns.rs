//! The width of the terminal that somebody reads.

use std::os::fd::AsFd;

/// Columns of a terminal; None where it is none, or does not tell.
pub fn columns(out: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

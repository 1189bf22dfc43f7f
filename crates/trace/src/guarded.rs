//! The boundary to libraries that may panic on bytes they did not expect.

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};

use anyhow::{Result, bail};
use transom_output::{note, unfinished};

const CORRUPT: &str = "its bytes are corrupt";

thread_local! {
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The files that were opened, for a build that cannot come back from a panic.
static OPENED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes which file the next calls are about.
pub(crate) fn opened(path: &Path) {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = path.display().to_string();
    if !opened.contains(&name) {
        opened.push(name);
    }
}

/// Calls a decoder of `arrow` or `parquet`; a panic becomes an error. Both
/// index and slice by numbers of the file in places, and a corrupt file is the
/// user's trouble, not a bug to print a backtrace for. The decoder must not be
/// used again after an error.
///
/// In a build that aborts on a panic (`make dist`), the error is said here, and the program ends
/// as it does after any error.
///
/// # Errors
/// Those of the decoder, or it panicked.
pub fn call<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !INSIDE.get() {
                print(info);
            } else if cfg!(panic = "abort") {
                end();
            }
        }));
    });
    INSIDE.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    INSIDE.set(false);
    match result {
        Ok(result) => result,
        Err(_) => bail!(CORRUPT),
    }
}

fn end() -> ! {
    let names = OPENED.lock().unwrap_or_else(PoisonError::into_inner).join(" or ");
    note!("transom: cannot read {names} as a trace: {CORRUPT}");
    unfinished::discard();
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_that_panics_is_an_error_and_the_next_one_is_called() {
        let bytes = [0_u8; 2];
        let panics = |at: usize| call(|| Ok(bytes[at]));
        assert_eq!(panics(7).unwrap_err().to_string(), CORRUPT);
        assert_eq!(panics(1).unwrap(), 0);
    }
}

//! The boundary to libraries that may panic on bytes they did not expect.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use anyhow::{Result, bail};

thread_local! {
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Calls a decoder of `arrow` or `parquet`; a panic becomes an error. Both
/// index and slice by numbers of the file in places, and a corrupt file is the
/// user's trouble, not a bug to print a backtrace for. The decoder must not be
/// used again after an error.
pub(crate) fn call<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !INSIDE.get() {
                print(info);
            }
        }));
    });
    INSIDE.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    INSIDE.set(false);
    match result {
        Ok(result) => result,
        Err(_) => bail!("its bytes are corrupt"),
    }
}

//! Files under way, for an end without unwinding: the programs of `make dist` abort when they panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static NOTED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that has another name when it is whole.
pub(crate) fn note(temporary: &Path) {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).push(temporary.to_owned());
}

/// Removes what has not got its name.
pub fn discard() {
    for file in NOTED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // A whole one has gone from there already.
        let _ = fs::remove_file(file);
    }
}

/// A panic leaves no unfinished file, whether it unwinds or not.
pub fn discard_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        discard();
        print(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, Replace};

    #[test]
    fn what_is_under_way_goes_and_what_is_whole_stays() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        Output::write_all_to(&whole, &[], Replace::Never, b"x").unwrap();
        let under_way = Output::open(&folder.path().join("half"), &[], Replace::Never).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        discard();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left, [whole]);
        drop(under_way);
    }
}

//! Files under way, for an end without unwinding: the programs of `make dist` abort when they panic.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

/// Files that have another name when they are whole.
struct Noted(Mutex<Vec<PathBuf>>);

static NOTED: Noted = Noted(Mutex::new(Vec::new()));

impl Noted {
    fn note(&self, temporary: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(temporary.to_owned());
    }

    fn discard(&self) {
        for file in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A whole one has gone from there already.
            let _ = fs::remove_file(file);
        }
    }
}

pub(crate) fn note(temporary: &Path) {
    NOTED.note(temporary);
}

/// Removes what has not got its name.
pub fn discard() {
    NOTED.discard();
}

/// Removes files of a folder that have such names, if whoever wrote them was killed: one that is
/// under way holds the lock of its file ([`lock`]).
pub fn remove_left(folder: &Path, is_unfinished: impl Fn(&[u8]) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_unfinished(entry.file_name().as_encoded_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|file| lock(&file))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Says that a file is under way, as long as it is open; whether nobody else says so. Where a file
/// system has no locks, what a killed process left stays.
pub fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
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

    #[test]
    fn what_is_under_way_goes_and_what_is_whole_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [half, temporary, whole] =
            ["half", "temporary", "whole"].map(|it| folder.path().join(it));
        let noted = Noted(Mutex::new(Vec::new()));
        for file in [&half, &temporary] {
            fs::write(file, "x").unwrap();
            noted.note(file);
        }
        fs::rename(&temporary, &whole).unwrap();
        noted.discard();
        assert!(!half.exists() && whole.exists());
    }
}

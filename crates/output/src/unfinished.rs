//! Files under way, for an end without unwinding: the programs of `make dist` abort when they panic.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// That somebody removes what was left, and what was not, is a moment's chance.
const MOST_TRIES: u32 = 100;

/// Files that have another name when they are whole.
struct Noted(Mutex<Vec<PathBuf>>);

static NOTED: Noted = Noted(Mutex::new(Vec::new()));

impl Noted {
    fn files(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, temporary: &Path) {
        self.files().push(temporary.to_owned());
    }

    fn discard(&self) {
        for file in self.files().drain(..) {
            // A whole one has gone from there already.
            let _ = fs::remove_file(file);
        }
    }
}

/// Notes a file until it has got its name, or is no more.
pub(crate) struct UnderWay(PathBuf);

impl UnderWay {
    pub(crate) fn note(temporary: &Path) -> UnderWay {
        NOTED.note(temporary);
        UnderWay(temporary.to_owned())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        NOTED.files().retain(|file| *file != self.0);
    }
}

/// Removes what has not got its name.
pub fn discard() {
    NOTED.discard();
}

/// Removes files of a folder that have such names, if whoever wrote them was killed: one that is
/// under way holds the lock of its file ([`begin`]).
pub fn remove_left(folder: &Path, is_unfinished: impl Fn(&[u8]) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_unfinished(entry.file_name().as_encoded_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && File::open(entry.path()).is_ok_and(|file| lock(&file).is_ok())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// A file that is under way as long as it is open, made by `make`; another one if somebody takes the
/// first for one that was left, before it has its lock. Where a file system has no locks, what a killed
/// process left stays.
///
/// # Errors
/// Those of `make`, or it is always taken.
pub fn begin<P: AsRef<Path>>(
    mut make: impl FnMut() -> io::Result<(File, P)>,
) -> io::Result<(File, P)> {
    for _ in 0..MOST_TRIES {
        let (file, path) = make()?;
        if holds(&file, path.as_ref()) {
            return Ok((file, path));
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Who has the lock removes the file as soon as that is done: then it is gone, or ours.
fn holds(file: &File, path: &Path) -> bool {
    for _ in 0..MOST_TRIES {
        match lock(file) {
            Err(Errno::WOULDBLOCK) => thread::sleep(Duration::from_millis(10)),
            _ => return path.exists(),
        }
    }
    false
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
    fn what_is_whole_or_was_given_up_is_not_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let remembered =
            || NOTED.files().iter().filter(|file| file.starts_with(folder.path())).count();
        let path = folder.path().join("answers");
        for n in 0..1000 {
            let output = Output::open(&path, &[], Replace::Always).unwrap();
            assert_eq!(remembered(), 1);
            if n % 2 == 0 {
                output.finish().unwrap();
            }
        }
        assert_eq!(remembered(), 0);
    }

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

    /// Begins a file at once with somebody who removes what was left, after `then` was done with the
    /// first file; how often one was made.
    fn begun_while(then: impl Fn(&Path)) -> u32 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("under way");
        let mut made = 0;
        let (file, _) = begin(|| {
            let file = File::create_new(&path)?;
            made += 1;
            if made == 1 {
                then(&path);
            }
            Ok((file, &path))
        })
        .unwrap();
        remove_left(folder.path(), |_| true);
        assert!(path.exists(), "it is under way");
        drop(file);
        remove_left(folder.path(), |_| true);
        assert!(!path.exists(), "it was left");
        made
    }

    #[test]
    fn a_file_that_is_taken_for_left_before_it_has_its_lock_is_made_again() {
        assert_eq!(begun_while(|_| {}), 1, "nobody took it");
        assert_eq!(begun_while(|path| remove_left(path.parent().unwrap(), |_| true)), 2);
        let removed_soon = |path: &Path| {
            let (path, file) = (path.to_owned(), File::open(path).unwrap());
            lock(&file).unwrap();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                fs::remove_file(path).unwrap();
                drop(file);
            });
        };
        assert_eq!(begun_while(removed_soon), 2, "it had been opened, and was not removed yet");
    }
}

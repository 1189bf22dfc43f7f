//! The folder of results, until there is something in it to keep.

use std::fs;
use std::path::{Path, PathBuf};

use transom_output::folders;

/// Folders that were not there, the innermost first. They go again unless they are kept.
pub(super) struct Begun(Vec<PathBuf>);

impl Begun {
    /// To be asked before the folder is made.
    pub fn of(directory: &Path) -> Begun {
        Begun(folders::not_there(directory).collect())
    }

    /// There are runs, or will be.
    pub fn stays(&mut self) {
        self.0.clear();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some((directory, above)) = self.0.split_first() else { return };
        let _ = fs::remove_dir_all(directory);
        for folder in above {
            // One into which somebody else put something stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

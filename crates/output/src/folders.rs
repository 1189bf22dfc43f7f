//! Folders that a program makes and may have to take away again.

use std::path::{Path, PathBuf};

/// This folder and those above it that are not there, the innermost first: ask before they are made.
pub fn not_there(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let all = folder.ancestors().filter(|folder| *folder != Path::new(""));
    all.take_while(|folder| !folder.exists()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_ends_where_something_is() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        assert!(not_there(&inner).eq([inner.clone(), outer]));
        assert_eq!(not_there(folder.path()).count(), 0);
        assert!(
            not_there(Path::new("no-such/folder"))
                .eq(["no-such/folder", "no-such"].map(PathBuf::from))
        );
    }
}

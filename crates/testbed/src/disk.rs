//! A file system that is soon full.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// In memory, and of the size that it was made with.
pub struct SmallDisk(TempDir);

impl SmallDisk {
    pub fn mount(kilobytes: u32) -> SmallDisk {
        let directory = tempfile::tempdir().expect("a directory");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "small"])
            .arg(directory.path())
            .status();
        assert!(status.expect("mount").success());
        SmallDisk(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves room for so many bytes, in a file of this name.
    pub fn fill(&self, name: &str, but: u64) {
        let mut file = File::create(self.path().join(name)).expect("a file");
        while file.write_all(&[0; 1024]).is_ok() {}
        let all = file.metadata().expect("its size").len();
        file.set_len(all.saturating_sub(but)).expect("a shorter file");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

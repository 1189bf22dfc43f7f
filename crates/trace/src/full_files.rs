//! The full files of a rotation: they become Parquet one after another, and the oldest go. Nobody
//! waits for that while the recording runs: who waits does not empty the rings.

use std::collections::VecDeque;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};

use crate::Finished;
use crate::writer::Ended;

pub(crate) struct FullFiles {
    /// How many of them are kept.
    keep: usize,
    /// Done; the oldest first, as below.
    done: VecDeque<Finished>,
    packing: Option<Packing>,
    /// Streams whose turn has not come.
    waiting: VecDeque<Ended>,
}

/// One on its way to Parquet; none if its stream was moved away meanwhile.
struct Packing {
    thread: JoinHandle<Result<Option<Finished>>>,
    /// It goes as soon as it is done.
    is_too_old: bool,
}

impl FullFiles {
    pub fn new(keep: usize) -> FullFiles {
        FullFiles { keep, done: VecDeque::new(), packing: None, waiting: VecDeque::new() }
    }

    /// Takes one more; the oldest go, without being packed first.
    ///
    /// # Errors
    /// If one before could not become Parquet, or one cannot be removed.
    pub fn push(&mut self, ended: Ended) -> Result<()> {
        self.waiting.push_back(ended);
        self.take_packed()?;
        self.remove_oldest()?;
        self.proceed()
    }

    /// Goes on with the next if the one before is done.
    ///
    /// # Errors
    /// Those of [`FullFiles::push`].
    pub fn proceed(&mut self) -> Result<()> {
        self.take_packed()?;
        if self.packing.is_none()
            && let Some(ended) = self.waiting.pop_front()
        {
            let thread = std::thread::spawn(move || pack(ended));
            self.packing = Some(Packing { thread, is_too_old: false });
        }
        Ok(())
    }

    fn take_packed(&mut self) -> Result<()> {
        match self.packing.take_if(|packing| packing.thread.is_finished()) {
            Some(packing) => self.take(packing),
            None => Ok(()),
        }
    }

    fn take(&mut self, packing: Packing) -> Result<()> {
        let packed = packing.thread.join().map_err(|_| anyhow!("converting a full file failed"))?;
        match packed? {
            Some(file) if packing.is_too_old => remove(&file.path),
            file => {
                self.done.extend(file);
                Ok(())
            }
        }
    }

    fn remove_oldest(&mut self) -> Result<()> {
        let packing = |files: &FullFiles| files.packing.iter().filter(|it| !it.is_too_old).count();
        while self.done.len() + packing(self) + self.waiting.len() > self.keep {
            if let Some(file) = self.done.pop_front() {
                remove(&file.path)?;
            } else if let Some(packing) = self.packing.as_mut().filter(|it| !it.is_too_old) {
                packing.is_too_old = true;
            } else if let Some(ended) = self.waiting.pop_front() {
                remove(ended.path())?;
            }
        }
        Ok(())
    }

    /// All that are kept, and the last one, which was being written until now.
    ///
    /// # Errors
    /// If one of them cannot become Parquet: it, and those after it, stay streams.
    pub fn finish(mut self, last: Ended) -> Result<Vec<Finished>> {
        if let Some(packing) = self.packing.take() {
            self.take(packing)?;
        }
        for ended in std::mem::take(&mut self.waiting) {
            self.done.extend(pack(ended)?);
        }
        self.done.push_back(last.pack()?);
        Ok(self.done.into())
    }
}

fn pack(ended: Ended) -> Result<Option<Finished>> {
    let path = ended.path().to_owned();
    match ended.pack() {
        // Whoever moved it away has a stream, which every command reads.
        Err(_) if !path.exists() => Ok(None),
        packed => packed.map(Some),
    }
}

/// Removes a file; one that was moved away is gone already.
pub(crate) fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}, an older file", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Footer, Meta, Writer, WriterOptions};
    use std::path::PathBuf;
    use std::sync::mpsc;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn ended(&self, name: &str) -> Ended {
            let writer =
                Writer::create(self.path(name), &Meta::default(), WriterOptions::default());
            writer.unwrap().end(Footer::default()).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.0.path()).unwrap();
            let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
            let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
            names.sort();
            names
        }
    }

    fn folder() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_conversion_that_takes_its_time_holds_nothing_up_and_is_the_only_one() {
        let (folder, mut files) = (folder(), FullFiles::new(1));
        let (go_on, told) = mpsc::channel::<()>();
        let first = folder.ended("0");
        let slow = move || {
            let _ = told.recv();
            pack(first)
        };
        files.packing = Some(Packing { thread: std::thread::spawn(slow), is_too_old: false });
        for name in ["1", "2", "3"] {
            files.push(folder.ended(name)).unwrap();
        }
        assert_eq!(folder.names(), ["0", "3"], "what is too old goes, even if it is no Parquet");
        assert_eq!(files.waiting.len(), 1);
        drop(go_on);
        let packed = files.finish(folder.ended("4")).unwrap();
        let paths: Vec<_> = packed.into_iter().map(|file| file.path).collect();
        assert_eq!(paths, [folder.path("3"), folder.path("4")]);
        assert_eq!(folder.names(), ["3", "4"]);
    }

    #[test]
    fn files_that_are_moved_away_do_not_end_the_recording() {
        let (folder, mut files) = (folder(), FullFiles::new(1));
        files.push(folder.ended("0")).unwrap();
        while files.done.is_empty() {
            files.proceed().unwrap();
        }
        fs::remove_file(folder.path("0")).unwrap();
        for name in ["1", "2"] {
            files.push(folder.ended(name)).unwrap();
            fs::remove_file(folder.path(name)).unwrap();
        }
        files.finish(folder.ended("3")).unwrap();
    }

    #[test]
    fn what_is_not_kept_is_not_converted() {
        let (folder, mut files) = (folder(), FullFiles::new(0));
        files.push(folder.ended("0")).unwrap();
        assert!(files.packing.is_none());
        assert!(folder.names().is_empty());
    }
}

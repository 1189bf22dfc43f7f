//! The bounded log that stays in the kernel, and its file in bpffs.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use libbpf_rs::{Link, Object};
use transom_machine::bpffs;
use transom_machine::objects::{self, map, map_mut, program};

use crate::session::{MonitorOptions, add_processes, attach, refuse_if_hopeless, resize};
use crate::settings::Settings;
use crate::survey::Survey;
use crate::{existing, fit};

/// Entries when nothing is said, as on the papers' phone.
pub const DEFAULT_ENTRIES: u32 = 50_000;

/// Most entries: about 1.5 GB of kernel memory.
pub const MOST_ENTRIES: u32 = 10_000_000;

/// The pin that says the mount of bpffs is ours to undo.
const MOUNTED_BY_US: &str = "mounted_by_transom";

/// The file to `cat`. It is pinned last, so a journal without it is a torso.
const FILE: &str = "tcp";

/// A journal below a directory of bpffs.
pub struct Journal {
    directory: PathBuf,
    mount: PathBuf,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal { directory: Path::new(bpffs::PATH).join("transom"), mount: bpffs::PATH.into() }
    }
}

impl Journal {
    /// What to `cat`.
    pub fn file(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    pub fn is_installed(&self) -> bool {
        self.file().exists()
    }

    /// Loads the probes and leaves them in the kernel, with the file to read.
    ///
    /// # Errors
    /// When there is a journal already, a privilege or kernel feature is
    /// missing, or a filter is wrong; nothing is then left behind.
    pub fn install(&self, options: &MonitorOptions, entries: u32) -> Result<()> {
        if self.is_installed() {
            bail!("{} exists already: `transom journal remove` first", self.file().display());
        }
        if entries == 0 || entries > MOST_ENTRIES {
            bail!("a journal of {entries} entries cannot be: give 1 to {MOST_ENTRIES}");
        }
        let mut survey = Survey::take();
        refuse_if_hopeless(&survey)?;
        // What an install that was killed left behind.
        self.remove()?;
        let mut object = load(&mut survey, options, entries)?;
        let result = self.pin(&mut object, &survey, options);
        if result.is_err() {
            self.remove()?;
        }
        result
    }

    fn pin(&self, object: &mut Object, survey: &Survey, options: &MonitorOptions) -> Result<()> {
        let mounted = bpffs::mount(&self.mount)?;
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("creating {}", self.directory.display()))?;
        if mounted {
            map_mut(object, "losses")?.pin(self.directory.join(MOUNTED_BY_US))?;
        }
        add_processes(object, &options.filter.pids)?;
        for (name, mut link) in attach(object, &[])? {
            link.pin(self.directory.join(&name)).with_context(|| format!("pinning {name}"))?;
        }
        if options.existing {
            // Its log keeps the last events, whoever reads.
            existing::report(object, survey, &options.filter, 1 << 15, &mut || Ok(()))?;
        }
        print_link(object)?.pin(self.file()).context("pinning the journal's file")?;
        Ok(())
    }

    /// Takes the journal out of the kernel. Returns whether there was one.
    ///
    /// # Errors
    /// When a pin cannot be removed, for instance without root.
    pub fn remove(&self) -> Result<bool> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            // Without root, bpffs does not tell whether there is one.
            other => other.with_context(|| format!("removing {}", self.directory.display()))?,
        };
        let ours = self.directory.join(MOUNTED_BY_US);
        let mounted_by_us = ours.exists();
        for entry in entries {
            let path = entry?.path();
            if path != ours {
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        if mounted_by_us {
            fs::remove_file(&ours)?;
        }
        fs::remove_dir(&self.directory)?;
        // bpffs has files of its own, with a dot, which no pin may have.
        let others = fs::read_dir(&self.mount)?
            .flatten()
            .any(|entry| !entry.file_name().to_string_lossy().contains('.'));
        if mounted_by_us && !others {
            bpffs::unmount(&self.mount)?;
        }
        Ok(true)
    }
}

/// Its programs and maps, not attached to anything.
pub(crate) fn load(survey: &mut Survey, options: &MonitorOptions, entries: u32) -> Result<Object> {
    let prepare = |survey: &Survey| {
        let mut open = objects::journal::open()?;
        let settings =
            Settings { journal_capacity: entries.into(), ..Settings::new(survey, options)? };
        settings.put_into(&mut open)?;
        resize(&mut open, "entries", entries)?;
        Ok(open)
    };
    fit::load(survey, &[], &["print_journal"], prepare)
        .context("the kernel did not accept the journal's probes")
}

fn print_link(object: &Object) -> Result<Link> {
    let entries = map(object, "entries")?;
    Ok(program(object, "print_journal")?.attach_iter(entries.as_fd())?)
}

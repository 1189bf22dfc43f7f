//! What a campaign has done so far, in its manifest and its summary.

use std::path::Path;

use anyhow::Result;

use super::Summary;
use crate::manifest::Manifest;

pub(super) struct Ledger<'a> {
    pub manifest: Manifest,
    pub summary: Summary,
    pub directory: &'a Path,
}

impl Ledger<'_> {
    /// A run that has its numbers, though perhaps the machine was too busy.
    pub fn finished(&mut self, late: bool) -> Result<()> {
        self.summary.finished += 1;
        self.summary.late += u32::from(late);
        self.keep()
    }

    pub fn failed(&mut self, why: String) -> Result<()> {
        self.summary.failures.push(why);
        self.keep()
    }

    pub fn keep(&mut self) -> Result<()> {
        let Summary { runs, finished, late, failures, left_out, .. } = &self.summary;
        self.manifest.runs = *runs;
        self.manifest.finished = *finished;
        self.manifest.late = *late;
        self.manifest.failures.clone_from(failures);
        self.manifest.left_out.clone_from(left_out);
        self.manifest.write(self.directory)
    }
}

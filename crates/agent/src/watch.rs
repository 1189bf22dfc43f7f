//! What the daemon asks of the kernel, whichever way it is asked.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use transom_machine::ProgramStats;

use crate::level2::Chooser;
use crate::raw::{Counts, RawChoice, RawRow};

/// Whom a look found.
#[derive(Debug, Default)]
pub struct Found {
    pub cookies: Vec<u64>,
    /// Network namespaces that exist and could not be entered: of connections there it says nothing.
    pub not_entered: HashSet<u32>,
}

/// Where records of connections come from.
pub trait Watch {
    /// Waits until something came, at most so long, and returns what came.
    ///
    /// # Errors
    /// Of the kernel.
    fn wait(&mut self, at_most: Duration) -> Result<Vec<u8>>;

    /// Gives back the memory of what [`Watch::wait`] returned.
    fn reuse(&mut self, bytes: Vec<u8>);

    /// Looks at every connection of every network namespace once, and says whom it found where
    /// that is asked for.
    ///
    /// # Errors
    /// The kernel refuses.
    fn look(&mut self, found: Option<&mut Found>) -> Result<()>;

    fn counts(&self) -> Counts;

    /// Runs and time of the programs, where the kernel counts them.
    fn stats(&self) -> Vec<ProgramStats>;

    /// Whether the kernel takes level 1.
    fn has_level_1(&self) -> bool;

    /// Level 1 on or off; what is not attached costs nothing.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_level_1(&mut self, on: bool) -> Result<()>;

    /// What level 2 needs of the kernel, where it can have it.
    fn chooser(&self) -> Option<Chooser> {
        None
    }

    /// Which connections are recorded from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_choice(&mut self, _choice: &RawChoice) -> Result<()> {
        Ok(())
    }

    /// This connection, too: the next look takes it.
    ///
    /// # Errors
    /// The kernel refuses.
    fn choose(&mut self, _cookie: u64) -> Result<()> {
        Ok(())
    }

    /// Rows that were asked for to be looked at, not kept, since the last call.
    fn snapshots(&mut self) -> Vec<RawRow> {
        Vec::new()
    }

    /// How many connections may be remembered from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    fn set_most(&mut self, most: u32) -> Result<()>;

    /// Takes down what was attached, and returns what came until then.
    ///
    /// # Errors
    /// Of the kernel.
    fn last(&mut self) -> Result<Vec<u8>>;
}

//! What the daemon asks of the kernel, whichever way it is asked.

use std::time::Duration;

use anyhow::Result;
use transom_machine::ProgramStats;

use crate::raw::Counts;

/// Where records of connections come from.
pub trait Watch {
    /// Waits until something came, at most so long, and returns what came.
    ///
    /// # Errors
    /// Of the kernel.
    fn wait(&mut self, at_most: Duration) -> Result<Vec<u8>>;

    /// Gives back the memory of what [`Watch::wait`] returned.
    fn reuse(&mut self, bytes: Vec<u8>);

    /// Looks at every connection of every network namespace once.
    ///
    /// # Errors
    /// The kernel refuses.
    fn look(&mut self) -> Result<()>;

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

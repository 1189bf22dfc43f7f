//! What runs a scenario.

use anyhow::Result;
use transom_analysis::Recording;
use transom_scenario::{Outcome, Scenario};

/// Runs scenarios; several at once, from several threads.
pub trait Simulator: Sync {
    /// What came of it, and what the host that sends the flow recorded.
    ///
    /// # Errors
    /// If it could not be run.
    fn run(&self, scenario: &Scenario) -> Result<(Outcome, Recording)>;
}

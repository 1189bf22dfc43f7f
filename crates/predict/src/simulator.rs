//! What runs a scenario.

use std::time::Duration;

use anyhow::Result;
use transom_analysis::Recording;
use transom_scenario::{Outcome, Scenario};

/// Runs scenarios; several at once, from several threads.
pub trait Simulator: Sync {
    /// What came of it, and what the host that sends the flow recorded; none: it was not over within
    /// that time, and was ended.
    ///
    /// # Errors
    /// If it could not be run.
    fn run(&self, scenario: &Scenario, within: Duration) -> Result<Option<(Outcome, Recording)>>;
}

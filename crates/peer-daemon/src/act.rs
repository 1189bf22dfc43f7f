//! What is done to connections, and its undoing.

use std::collections::BTreeSet;

use anyhow::Result;
use transom_peers::{Opening, Treatment};

/// A lever on connections, named by their cookies.
pub trait Act {
    /// Gives connections this treatment; the default one takes back all that was done before.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn treat(&mut self, orders: &[(u64, Treatment)]) -> Result<()>;

    /// From now on new connections get these when their handshake ends.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn open_with(&mut self, _: &[Opening]) -> Result<()> {
        Ok(())
    }

    /// The air is now behind this interface: new connections get nothing until
    /// [`Act::open_with`] is called again.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn move_to(&mut self, _interface: &str) -> Result<()> {
        Ok(())
    }

    /// What connections got that way, of those that are there.
    ///
    /// # Errors
    /// When the kernel refuses to be looked at.
    fn opened(&mut self) -> Result<Vec<(u64, Treatment)>> {
        Ok(Vec::new())
    }

    /// Connections from which the guard keeps `steady` away, because it hurts their path. While the
    /// air is not `full`, losses are more likely its own.
    ///
    /// # Errors
    /// When the kernel refuses to be looked at.
    fn withdrawn(&mut self, _full: bool) -> Result<BTreeSet<u64>> {
        Ok(BTreeSet::new())
    }

    /// Takes back all that was done.
    ///
    /// # Errors
    /// When something is left.
    fn undo(&mut self) -> Result<()>;
}

/// Does nothing, for `--dry-run`.
pub struct Rehearsal;

impl Act for Rehearsal {
    fn treat(&mut self, _: &[(u64, Treatment)]) -> Result<()> {
        Ok(())
    }

    fn undo(&mut self) -> Result<()> {
        Ok(())
    }
}

//! What is done to connections, and its undoing.

use std::collections::{BTreeMap, BTreeSet};

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

/// What is in force, and what changes are worth the trouble.
#[derive(Default)]
pub struct InForce(BTreeMap<u64, Treatment>);

impl InForce {
    pub fn of(&self, cookie: u64) -> Treatment {
        self.0.get(&cookie).copied().unwrap_or_default()
    }

    /// What has to be done so that `wanted` holds. A cap that differs by less than an eighth stays.
    pub fn orders(
        &self,
        wanted: impl IntoIterator<Item = (u64, Treatment)>,
    ) -> Vec<(u64, Treatment)> {
        let differs = |(cookie, treatment): &(u64, Treatment)| {
            let now = self.of(*cookie);
            let near = match (now.cap, treatment.cap) {
                (Some(now), Some(cap)) => now.abs_diff(cap) <= now / 8,
                (now, cap) => now == cap,
            };
            now.algorithm != treatment.algorithm || !near
        };
        wanted.into_iter().filter(differs).collect()
    }

    pub fn done(&mut self, orders: &[(u64, Treatment)]) {
        for (cookie, treatment) in orders {
            if treatment.is_none() {
                self.0.remove(cookie);
            } else {
                self.0.insert(*cookie, *treatment);
            }
        }
    }

    pub fn forget(&mut self, cookie: u64) {
        self.0.remove(&cookie);
    }
}

#[cfg(test)]
mod tests {
    use transom_peers::Algorithm;

    use super::*;

    fn capped(cap: u32) -> Treatment {
        Treatment { algorithm: Algorithm::Default, cap: Some(cap) }
    }

    #[test]
    fn only_what_differs_enough_is_done() {
        let mut in_force = InForce::default();
        in_force.done(&[(1, capped(80)), (2, capped(80))]);
        let steady = Treatment { algorithm: Algorithm::Steady, cap: Some(80) };
        let wanted = [(1, capped(88)), (2, capped(95)), (3, Treatment::default()), (4, steady)];
        assert_eq!(in_force.orders(wanted), [(2, capped(95)), (4, steady)]);
    }

    #[test]
    fn what_is_taken_back_is_no_longer_in_force() {
        let mut in_force = InForce::default();
        in_force.done(&[(1, capped(80))]);
        assert_eq!(in_force.orders([(1, Treatment::default())]), [(1, Treatment::default())]);
        in_force.done(&[(1, Treatment::default())]);
        assert!(in_force.of(1).is_none());
    }
}

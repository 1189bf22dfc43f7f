//! What was done to this terminal's connections, and what is left to do.

use std::collections::BTreeMap;

use crate::report::Treatment;

/// What is in force, and what changes are worth the trouble.
#[derive(Clone, Debug, Default)]
pub struct InForce(BTreeMap<u64, Treatment>);

impl InForce {
    pub fn of(&self, cookie: u64) -> Treatment {
        self.0.get(&cookie).copied().unwrap_or_default()
    }

    /// What has to be done so that `wanted` holds. A cap that differs by less than the smallest
    /// correction that the group decides, a 64th, stays.
    pub fn orders(
        &self,
        wanted: impl IntoIterator<Item = (u64, Treatment)>,
    ) -> Vec<(u64, Treatment)> {
        let differs = |(cookie, treatment): &(u64, Treatment)| {
            let now = self.of(*cookie);
            let near = match (now.cap, treatment.cap) {
                (Some(now), Some(cap)) => u64::from(now.abs_diff(cap)) * 64 < u64::from(now),
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
    use super::*;
    use crate::decide;
    use crate::report::{Algorithm, Flow, Report, TerminalId};
    use crate::rules::{Rules, Share};

    fn capped(cap: u32) -> Treatment {
        Treatment { algorithm: Algorithm::Default, cap: Some(cap) }
    }

    #[test]
    fn only_what_differs_enough_is_done() {
        let mut in_force = InForce::default();
        in_force.done(&[(1, capped(80)), (2, capped(80))]);
        let steady = Treatment { algorithm: Algorithm::Steady, cap: Some(80) };
        let wanted = [(1, capped(81)), (2, capped(82)), (3, Treatment::default()), (4, steady)];
        assert_eq!(in_force.orders(wanted), [(2, capped(82)), (4, steady)]);
    }

    /// What the group decides in small steps must not be too small to be done.
    #[test]
    fn every_correction_of_a_cap_is_done() {
        let rules =
            Rules { share: Share { air_mbit: Some(20.0), ..Share::default() }, ..Rules::default() };
        let report = |terminal: u8, goodput_kbit, cap| Report {
            terminal: TerminalId([terminal; 8]),
            name: String::new(),
            class: 10,
            rules: 0,
            air_kbit: 0,
            leaving: false,
            dry_run: false,
            flows: vec![Flow {
                id: 1,
                cwnd: cap,
                ssthresh: None,
                srtt_us: 300_000,
                min_rtt_us: 60_000,
                mss: 1448,
                goodput_kbit,
                losses: 0,
                unsteady: 0,
                hungry: true,
                unstable: false,
                treatment: capped(cap),
            }],
        };
        for cap in 11..60 {
            let mut in_force = InForce::default();
            in_force.done(&[(1, capped(cap))]);
            let verdict = decide(&rules, &[report(1, 14_000, cap), report(2, 6_000, cap)]);
            let wanted = verdict.decisions[0].flows[0].treatment;
            assert!(wanted.cap < Some(cap), "{cap}: {wanted:?}");
            assert_eq!(in_force.orders([(1, wanted)]), [(1, wanted)], "{cap}");
        }
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

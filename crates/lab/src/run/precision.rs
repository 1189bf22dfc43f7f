//! How many repeats a claim needs until its number is known well enough. Only virtual time is cheap
//! enough for that.

use anyhow::Result;

use super::campaign::Order;
use crate::claims::{Judged, is_meant};
use crate::experiment::{Claim, Experiment};
use crate::page::Results;
use crate::sweep::Point;

/// Repeats grow by no more than this factor at once: a deviation of few repeats is a guess.
const MOST_GROWTH: u32 = 4;

/// Gives the points of claims that are not precise enough more repeats; whether any got some.
pub(super) fn more(order: &Order<'_>, points: &mut [Point]) -> Result<bool> {
    let experiment = &order.loaded.experiment;
    if order.quick || !experiment.claims.iter().any(|it| wanted(order, experiment, it).is_some()) {
        return Ok(false);
    }
    let verdicts = Results::read(&order.directory)?.verdicts();
    let mut grown = false;
    for (claim, verdict) in experiment.claims.iter().zip(verdicts) {
        let Some(precision) = wanted(order, experiment, claim) else { continue };
        for point in points.iter_mut().filter(|it| it.control.is_none() && is_picked(claim, it)) {
            let repeats = &mut point.experiment.repeats;
            let needed = needed(&verdict.judged, *repeats, precision);
            let needed = needed.min(experiment.most_repeats);
            grown |= needed > *repeats;
            *repeats = needed.max(*repeats);
        }
    }
    Ok(grown)
}

fn wanted(order: &Order<'_>, experiment: &Experiment, claim: &Claim) -> Option<f64> {
    order.precision.or(claim.precision).or(experiment.precision)
}

fn is_picked(claim: &Claim, point: &Point) -> bool {
    claim.picks().iter().any(|pick| is_meant(pick, &point.values))
}

/// The repeats after which the interval is about as narrow as wanted: its width falls with the root
/// of their number.
fn needed(judged: &Judged, repeats: u32, precision: f64) -> u32 {
    let Some(number) = judged.number else { return repeats };
    let most = repeats.saturating_mul(MOST_GROWTH);
    let Some((low, high)) = judged.interval else { return most };
    let half = (high - low) / 2.0;
    if half <= precision * number.abs() {
        return repeats;
    }
    let ratio = half / (precision * number.abs());
    let needed = f64::from(repeats) * ratio * ratio;
    (needed.ceil().min(f64::from(most)) as u32).max(repeats + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Outcome;

    fn judged(number: f64, interval: Option<(f64, f64)>) -> Judged {
        let outcome = Outcome::Undecided { inside: true };
        Judged { outcome, number: Some(number), interval, repeats: 4 }
    }

    #[test]
    fn an_interval_that_is_narrow_enough_needs_no_more() {
        assert_eq!(needed(&judged(10.0, Some((9.9, 10.1))), 4, 0.02), 4);
        assert_eq!(needed(&judged(-10.0, Some((-10.1, -9.9))), 4, 0.02), 4);
        assert_eq!(needed(&judged(0.0, Some((0.0, 0.0))), 4, 0.02), 4, "always 0");
    }

    #[test]
    fn one_that_is_half_as_wide_needs_four_times_as_many_and_none_more_than_that_at_once() {
        assert_eq!(needed(&judged(10.0, Some((9.71, 10.29))), 4, 0.02), 9);
        assert_eq!(needed(&judged(10.0, Some((5.0, 15.0))), 4, 0.02), 16);
        assert_eq!(needed(&judged(0.0, Some((-1.0, 1.0))), 4, 0.02), 16, "no relative width");
        assert_eq!(needed(&judged(10.0, Some((9.799, 10.201))), 4, 0.02), 5, "one more at least");
    }

    #[test]
    fn one_repeat_has_no_interval_and_needs_some_and_a_claim_that_was_not_run_none() {
        assert_eq!(needed(&judged(10.0, None), 1, 0.02), 4);
        let nothing = Judged { number: None, ..judged(0.0, None) };
        assert_eq!(needed(&nothing, 3, 0.02), 3);
    }
}

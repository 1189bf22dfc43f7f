//! Whether each claim can be decided, by numbers that it names.

use std::collections::BTreeSet;

use super::Found;
use crate::claims::LEAST_OF_TREND;
use crate::experiment::{Claim, Experiment, Test};

impl Found {
    pub(super) fn claim(&mut self, experiment: &Experiment, at: &str, claim: &Claim) {
        let before = self.0.len();
        let parts = match &claim.test {
            Test::Ratio { .. } => vec!["of", "over", "plus"],
            Test::RatioEverywhere { .. } => vec!["of", "over"],
            _ => vec!["of"],
        };
        for (part, pick) in parts.iter().zip(claim.picks()) {
            self.pick(experiment, &format!("{at}.{part}"), pick);
        }
        if let Some(along) = claim.along() {
            self.along(experiment, &format!("{at}.along"), along);
            let values = experiment.sweep.get(along).map_or(LEAST_OF_TREND, Vec::len);
            if matches!(claim.test, Test::Trend { .. }) && values < LEAST_OF_TREND {
                let what = format!("{values} values of \"{along}\" make no trend");
                let remedy = "use the test \"ratio\", or sweep three values or more";
                self.add(format!("{at}.along"), what, remedy);
            }
        }
        self.bounds(at, claim);
        self.precision(format!("{at}.precision"), claim.precision);
        // A key that is misspelt is no key that was left out.
        if self.0.len() == before {
            self.pools(experiment, at, claim);
        }
        if claim.calibrated.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
            let remedy = "say in a sentence which number was put in";
            self.add(format!("{at}.calibrated"), "gives no reason", remedy);
        }
    }

    fn bounds(&mut self, at: &str, claim: &Claim) {
        let (from, to) = match claim.test {
            Test::Outcomes { from, to, .. } => (Some(from), Some(to)),
            _ => (None, None),
        };
        let numbers = [
            ("from", from),
            ("to", to),
            ("at_least", claim.at_least),
            ("at_most", claim.at_most),
            ("published", claim.published),
        ];
        for (key, number) in numbers {
            if let Some(number) = number.filter(|number| !number.is_finite()) {
                let remedy = "give a number, or remove the key";
                self.add(format!("{at}.{key}"), format!("{number} is no bound"), remedy);
            }
        }
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            self.add(format!("{at}.from"), format!("{from} is above `to`, {to}"), "swap them");
        }
        match (claim.at_least, claim.at_most) {
            (None, None) => self.add(
                at,
                "a claim that nothing could refute",
                "say what the number must be: `at_least`, `at_most`, or both",
            ),
            (Some(least), Some(most)) if least > most => {
                let what = format!("{least} is above `at_most`, {most}");
                self.add(format!("{at}.at_least"), what, "swap them");
            }
            _ => {}
        }
    }

    /// A pick that names no value of a swept key means all of them together.
    fn pools(&mut self, experiment: &Experiment, at: &str, claim: &Claim) {
        let swept = experiment.sweep.iter().filter(|(_, values)| values.len() > 1);
        let pooled: BTreeSet<&str> = swept
            .map(|(key, _)| key.as_str())
            .filter(|key| claim.along() != Some(*key))
            .filter(|key| claim.picks().iter().any(|pick| !pick.at.contains_key(*key)))
            .collect();
        let key = format!("{at}.over_all");
        if claim.over_all && pooled.is_empty() {
            self.add(key, "nothing is pooled: the picks name every swept key", "remove it");
        } else if !claim.over_all && !pooled.is_empty() {
            let names = pooled.into_iter().collect::<Vec<_>>().join("\", \"");
            let what = format!("names no value of the swept key \"{names}\"");
            let remedy = "add it to `where`, or pool all of them with `over_all = true`";
            self.add(at, what, remedy);
        }
    }
}

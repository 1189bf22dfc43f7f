//! Numbers with the interval in which simulations found them.

use std::cmp::Ordering;

use serde::Serialize;

/// Replays unless it is told otherwise.
pub(crate) const REPLAYS: usize = 6;

/// Of so many runs the spread is no more than a guess.
pub(crate) const FEW: usize = 3;

/// An interval of this width predicts nothing.
const WIDE: f64 = 6.0;

/// The upper one of the two in the middle, where there are two.
pub(crate) fn median<T: Copy + PartialOrd>(mut values: Vec<T>) -> Option<T> {
    let middle = values.len() / 2;
    let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(Ordering::Equal);
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, order).1)
}

/// A number with the interval in which the simulations found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Median; and where one more value lies with 95 %, if their logarithms are normal.
    pub(crate) fn of(values: Vec<f64>) -> Interval {
        let chance = student(values.len());
        Interval::spread(values, chance)
    }

    /// Median; and how far replays are known to reach. That few are nothing to judge by must not
    /// make anything match: they reach no further beyond their spread than a full number would, and
    /// fewer than three no further than they were seen.
    pub(crate) fn reach(values: Vec<f64>) -> Interval {
        let count = values.len();
        if count >= FEW {
            return Interval::spread(values, student(count.max(REPLAYS)));
        }
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(low, high), &it| (low.min(it), high.max(it)));
        Interval { low: low.min(high), high, ..Interval::of(values) }
    }

    /// `chance`: so many standard deviations.
    fn spread(mut values: Vec<f64>, chance: f64) -> Interval {
        values.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
            return Interval::default();
        };
        let middle = values.len() / 2;
        let value = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        let n = values.len() as f64;
        if low <= 0.0 {
            return Interval { value, low, high };
        }
        if n < 2.0 {
            return Interval { value, low: value / MODEL.exp(), high: value * MODEL.exp() };
        }
        let mean = values.iter().map(|it| it.ln()).sum::<f64>() / n;
        let variance = values.iter().map(|it| (it.ln() - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let chance = chance * (variance * (1.0 + 1.0 / n)).sqrt();
        let width = chance.hypot(MODEL).exp();
        Interval { value, low: value / width, high: value * width }
    }

    /// Median of counts; and where one more lies with 95 %. Counts of few events spread by their
    /// square roots, 0 among them.
    pub(crate) fn of_counts(values: &[f64]) -> Interval {
        let n = values.len() as f64;
        let Interval { value, .. } = Interval::of(values.to_vec());
        let roots = || values.iter().map(|it| it.sqrt());
        let mean = roots().sum::<f64>() / n.max(1.0);
        let variance = roots().map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let chance = student(values.len()) * (variance * (1.0 + 1.0 / n.max(1.0))).sqrt();
        let width = chance.hypot(0.5 * MODEL * value.sqrt());
        let [low, high] = [-width, width].map(|it| (value.sqrt() + it).max(0.0).powi(2));
        Interval { value, low, high }
    }

    /// Of counts: at least as wide as the other one.
    pub(crate) fn as_wide_as_count(self, other: Interval) -> Interval {
        let Interval { value, low, high } = self;
        let [below, above] = [other.low, other.high].map(|end| end.sqrt() - other.value.sqrt());
        let root = |by: f64| (value.sqrt() + by).max(0.0).powi(2);
        Interval { value, low: low.min(root(below)), high: high.max(root(above)) }
    }

    /// At least as wide as the other one, relatively.
    pub(crate) fn as_wide_as(self, other: Interval) -> Interval {
        let Interval { value, low, high } = self;
        let [below, above] = [other.low, other.high].map(|end| end / other.value.max(1e-9));
        Interval { value, low: low.min(value * below), high: high.max(value * above) }
    }

    /// With an error of its own that has nothing to do with the spread, in logarithms.
    pub(crate) fn off_by(self, error: f64) -> Interval {
        let Interval { value, low, high } = self;
        if low <= 0.0 {
            return self;
        }
        let beyond = |times: f64| times.ln().hypot(error).exp();
        Interval { value, low: value / beyond(value / low), high: value * beyond(high / value) }
    }

    /// Where either is.
    pub(crate) fn or(self, other: Interval) -> Interval {
        let Interval { value, low, high } = self;
        Interval { value, low: low.min(other.low), high: high.max(other.high) }
    }

    /// No further than what is possible, which few values leave far behind.
    pub(crate) fn within(self, least: f64, most: f64) -> Interval {
        let Interval { value, low, high } = self;
        Interval { value, low: low.max(least.min(value)), high: high.min(most.max(value)) }
    }

    /// Of a gain: it may be better or worse, by any factor.
    pub(crate) fn tells_nothing(&self) -> bool {
        let is_better_or_worse = self.low > 1.0 || self.high < 1.0;
        self.high > WIDE * self.low && !is_better_or_worse
    }

    pub(crate) fn scaled(self, by: f64) -> Interval {
        Interval { value: self.value * by, low: self.low * by, high: self.high * by }
    }
}

/// What replays differ from recordings even where nothing is left to chance, relatively.
const MODEL: f64 = 0.02;

/// 97.5 % of Student's distribution for a mean of so many values.
fn student(values: usize) -> f64 {
    const OF: [f64; 9] = [12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    OF.get(values.saturating_sub(2)).copied().unwrap_or(2.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_runs_leave_no_number_of_13_digits() {
        let counts = [5.0, 50.0];
        let of_counts = Interval::of_counts(&counts);
        assert!(of_counts.low == 0.0 && of_counts.high < 5_000.0, "{of_counts:?}");
        let by_logarithms = Interval::of(counts.to_vec());
        assert!(by_logarithms.high > 1e10, "the control: {by_logarithms:?}");
    }

    #[test]
    fn counts_with_a_zero_among_them_reach_beyond_what_was_seen() {
        let counts = Interval::of_counts(&[0.0, 2.0, 4.0]);
        assert!(counts.high > 4.0, "{counts:?}");
        assert_eq!(
            Interval::of(vec![0.0, 2.0, 4.0]).high,
            4.0,
            "the control: logarithms have no 0"
        );
        assert_eq!(Interval::of_counts(&[0.0, 0.0]), Interval::default());
        assert_eq!(Interval::of_counts(&[]), Interval::default());
    }

    #[test]
    fn an_error_adds_to_the_spread_as_what_is_independent_of_it_does() {
        let Interval { value, low, high } = Interval::of(vec![10.0; 6]).off_by(0.1);
        let both = MODEL.hypot(0.1).exp();
        assert!(value == 10.0 && (low - 10.0 / both).abs() < 1e-9, "{low}");
        assert!((high - 10.0 * both).abs() < 1e-9 && high > 11.0, "{high}");
        let same = Interval { value: 10.0, low: 9.0, high: 12.0 };
        let Interval { low, high, .. } = same.off_by(0.0);
        assert!((low - 9.0).abs() < 1e-9 && (high - 12.0).abs() < 1e-9, "the control");
    }

    #[test]
    fn many_equal_counts_are_as_sure_as_the_model_is() {
        let Interval { value, low, high } = Interval::of_counts(&[100.0; 6]);
        assert!(value == 100.0 && (97.9..98.1).contains(&low) && (101.9..102.1).contains(&high));
    }
}

//! 95 % confidence intervals of what repeats measured.
//!
//! The repeats of an experiment are independent replications: each has its own seeds. Of a number
//! that every repeat gives, the interval is Student's of the mean (A. M. Law, Simulation Modeling
//! and Analysis, "independent replications"); of a share of the repeats it is the exact one of the
//! binomial distribution (C. J. Clopper and E. S. Pearson, Biometrika 26, 1934).

/// Two-sided quantiles of Student's t, 95 %, for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same of the normal distribution.
const NORMAL: f64 = 1.959_964;
/// What either end of an exact interval leaves outside.
const TAIL: f64 = 0.025;

/// Of the mean; none below two values. Values that are all equal have an interval of no width.
pub fn of_mean(values: &[f64]) -> Option<(f64, f64)> {
    let mean = crate::measure::mean(values)?;
    let deviation = crate::measure::deviation(values)?;
    let half = student(values.len() - 1) * deviation / (values.len() as f64).sqrt();
    Some((mean - half, mean + half))
}

fn student(freedom: usize) -> f64 {
    STUDENT.get(freedom - 1).copied().unwrap_or_else(|| {
        // Cornish and Fisher's expansion, exact to four digits from here on.
        let (z, n) = (NORMAL, freedom as f64);
        z + (z.powi(3) + z) / (4.0 * n)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
    })
}

/// Of the share that `inside` of `all` trials estimate; none of no trial.
pub fn of_share(inside: usize, all: usize) -> Option<(f64, f64)> {
    if all == 0 {
        return None;
    }
    let at_most = |share: f64, most: usize| (0..=most).map(|k| chance(k, all, share)).sum::<f64>();
    // Each end is the share at which so few, or so many, are just unlikely enough.
    let low = match inside {
        0 => 0.0,
        k => bisect(|share| 1.0 - at_most(share, k - 1) < TAIL),
    };
    let high = match inside {
        k if k == all => 1.0,
        k => bisect(|share| at_most(share, k) > TAIL),
    };
    Some((low, high))
}

/// Of the median: from one of the values to another (order statistics; none below six values, whose
/// extremes do not enclose it surely enough).
pub fn of_median(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut below = 0.0;
    let outside = (0..sorted.len()).take_while(|k| {
        below += chance(*k, sorted.len(), 0.5);
        below <= TAIL
    });
    let first = outside.count().checked_sub(1)?;
    Some((*sorted.get(first)?, *sorted.get(sorted.len() - 1 - first)?))
}

/// Of `k` successes in `n` trials.
fn chance(k: usize, n: usize, share: f64) -> f64 {
    let ways: f64 = (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum();
    (ways + k as f64 * share.ln() + (n - k) as f64 * (1.0 - share).ln()).exp()
}

/// Where between 0 and 1 `below` ends to hold.
fn bisect(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if below(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(interval: Option<(f64, f64)>, low: f64, high: f64) {
        let (l, h) = interval.unwrap();
        assert!((l - low).abs() < 1e-3 && (h - high).abs() < 1e-3, "{l} to {h}");
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // Worked by hand: mean 3, deviation 1, t of 2 degrees 4.303.
        near(of_mean(&[2.0, 3.0, 4.0]), 3.0 - 4.303 / 3f64.sqrt(), 3.0 + 4.303 / 3f64.sqrt());
        assert_eq!(of_mean(&[3.0]), None, "one value has none");
        assert_eq!(of_mean(&[3.0, 3.0]), Some((3.0, 3.0)));
    }

    #[test]
    fn beyond_the_table_the_quantile_goes_on_towards_the_normal_one() {
        assert!((student(31) - 2.0395).abs() < 1e-3);
        assert!((student(100) - 1.9840).abs() < 1e-3);
        assert!((student(999) - 1.9623).abs() < 1e-3);
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // Tables of the sign test: of 10 values the second and the ninth, of 6 the extremes.
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(of_median(&values), Some((2.0, 9.0)));
        assert_eq!(of_median(&values[..6]), Some((1.0, 6.0)));
        assert_eq!(of_median(&values[..5]), None);
    }

    #[test]
    fn the_interval_of_a_share_is_that_of_clopper_and_pearson() {
        near(of_share(10, 10), 0.6915, 1.0);
        near(of_share(0, 10), 0.0, 0.3085);
        near(of_share(5, 10), 0.1871, 0.8129);
        near(of_share(2, 3), 0.0943, 0.9916);
        assert_eq!(of_share(0, 0), None);
    }
}

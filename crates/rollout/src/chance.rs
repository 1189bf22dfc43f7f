//! Tails of the two distributions that gates ask for.

/// Degrees of freedom: fewer than most hosts have windows, so that tails are heavier than theirs.
const FREEDOM: u32 = 16;
/// Standard errors on each side of an interval of 95 %.
pub(crate) const STUDENT_95: f64 = 2.12;

/// One-sided tail of Student's t (Abramowitz and Stegun 26.7.4).
pub(crate) fn student_tail(t: f64) -> f64 {
    let angle = (t / f64::from(FREEDOM).sqrt()).atan();
    let (mut term, mut series) = (1.0, 1.0);
    for even in (2..FREEDOM).step_by(2) {
        term *= angle.cos().powi(2) * f64::from(even - 1) / f64::from(even);
        series += term;
    }
    ((1.0 - angle.sin() * series) / 2.0).clamp(1e-15, 1.0)
}

/// How likely `least` or more of `of` events are that each have this probability.
pub(crate) fn at_least(least: usize, of: usize, each: f64) -> f64 {
    // Below the mean it is likely, and its terms may be too small for a number.
    if least == 0 || (least as f64) < of as f64 * each {
        return 1.0;
    }
    // From the term of `least` upwards: each is the one before times a ratio.
    let (n, odds) = (of as f64, each / (1.0 - each));
    let log_term = (0..least).map(|k| ((n - k as f64) / (k as f64 + 1.0)).ln()).sum::<f64>()
        + least as f64 * each.ln()
        + (n - least as f64) * (-each).ln_1p();
    let mut term = log_term.exp();
    let mut sum = term;
    for k in least..of {
        term *= odds * (n - k as f64) / (k as f64 + 1.0);
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_student_is_that_of_the_tables() {
        for (t, tail) in [(0.0, 0.5), (1.746, 0.05), (2.583, 0.01), (3.686, 0.001)] {
            assert!((student_tail(t) - tail).abs() < tail * 2e-3, "{t}: {}", student_tail(t));
        }
        assert!((1e-15..1e-14).contains(&student_tail(30.0)));
        assert!((student_tail(STUDENT_95) - 0.025).abs() < 1e-4);
    }

    #[test]
    fn the_tail_of_a_binomial_is_its_sum() {
        assert!((at_least(1, 10, 0.1) - (1.0 - 0.9f64.powi(10))).abs() < 1e-12);
        assert!((at_least(2, 2, 0.5) - 0.25).abs() < 1e-12);
        assert!((at_least(2, 100, 1e-6) - 4.95e-9).abs() < 1e-12);
        assert!((at_least(3, 10, 0.2) - 0.322_200_473).abs() < 1e-8);
        // What is expected is no surprise.
        assert_eq!(
            (at_least(0, 5, 0.3), at_least(3, 5, 1.0), at_least(400, 490, 0.999)),
            (1.0, 1.0, 1.0)
        );
    }
}

//! The few statistics that metrics and claims need.

/// The middle value, of an even number the mean of both; none of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample; none below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Jain's index of fairness: 1 if all have the same, 1/n if one has all.
/// (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.)
pub fn jain(values: &[f64]) -> f64 {
    let sum = values.iter().sum::<f64>();
    let squares = values.iter().map(|value| value * value).sum::<f64>();
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}

/// Pearson's r of two lists of the same length; none if one of them does not vary.
pub fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let deviations = || a.iter().zip(b).map(|(a, b)| (a - mean_a, b - mean_b));
    let product = deviations().map(|(a, b)| a * b).sum::<f64>();
    let (square_a, square_b) =
        deviations().fold((0.0, 0.0), |(x, y), (a, b)| (x + a * a, y + b * b));
    (square_a > 0.0 && square_b > 0.0).then(|| product / (square_a * square_b).sqrt())
}

/// Spearman's rank correlation: Pearson's r of the ranks, ties sharing their mean rank.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    pearson(&ranks(a), &ranks(b))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: f64| {
        let below = values.iter().filter(|&&other| other < value).count();
        let equal = values.iter().filter(|&&other| other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(|&value| rank(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one_alone() {
        assert_eq!(jain(&[2.0, 2.0]), 1.0);
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
    }

    #[test]
    fn correlations_know_their_signs() {
        let (up, down) = ([1.0, 2.0, 3.0], [9.0, 4.0, 1.0]);
        assert!((pearson(&up, &up).unwrap() - 1.0).abs() < 1e-12);
        assert!((spearman(&up, &down).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(pearson(&up, &[5.0; 3]), None);
    }

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(ranks(&[1.0, 5.0, 5.0, 9.0]), [1.0, 2.5, 2.5, 4.0]);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(deviation(&[1.0]), None);
        assert!((deviation(&[1.0, 3.0]).unwrap() - 2f64.sqrt()).abs() < 1e-12);
    }
}

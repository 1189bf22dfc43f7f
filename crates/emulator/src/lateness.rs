//! A histogram of times: 32 buckets an octave, so quantiles are within 3 %.

use crate::log::Lateness;
use crate::packet::Nanos;

const BITS: u32 = 5;

#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// As many as the longest time so far needs.
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: Nanos,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram::default()
    }

    pub fn add(&mut self, time: Nanos) {
        let bucket = bucket(time);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.sum += u128::from(time);
        self.max = self.max.max(time);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    pub fn max(&self) -> Nanos {
        self.max
    }

    pub fn summary(&self) -> Lateness {
        let ms = |nanos: Nanos| nanos as f64 / 1e6;
        Lateness {
            packets: self.total,
            p50_ms: ms(self.quantile(0.5)),
            p99_ms: ms(self.quantile(0.99)),
            max_ms: ms(self.max),
        }
    }

    /// The upper end of the bucket that holds this share of all.
    pub fn quantile(&self, share: f64) -> Nanos {
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return upper_end(index).min(self.max);
            }
        }
        self.max
    }
}

/// Values below 2^BITS have a bucket each; above, the leading BITS + 1 bits choose it.
fn bucket(value: Nanos) -> usize {
    let octave = (Nanos::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    ((octave as usize) << BITS) + (value >> octave) as usize
}

fn upper_end(bucket: usize) -> Nanos {
    let octave = (bucket >> BITS).saturating_sub(1) as u32;
    let leading = (bucket - ((octave as usize) << BITS)) as u128;
    u64::try_from(((leading + 1) << octave) - 1).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Histogram, bucket, upper_end};

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|us| histogram.add(us * 1000));
        let summary = histogram.summary();
        assert_eq!(summary.packets, 1000);
        assert!((summary.p50_ms / 0.5 - 1.0).abs() < 0.04, "{summary:?}");
        assert!((summary.p99_ms / 0.99 - 1.0).abs() < 0.04, "{summary:?}");
        assert_eq!(summary.max_ms, 1.0);
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        assert_eq!(Histogram::new().summary(), crate::log::Lateness::default());
    }

    proptest! {
        #[test]
        fn a_bucket_ends_at_most_a_32nd_above_its_values(value: u64) {
            let end = upper_end(bucket(value));
            prop_assert!(end >= value);
            prop_assert!(end - value <= value / 32);
        }
    }
}

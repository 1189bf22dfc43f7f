//! Samples of the RTT by size, as the kernel side counts them (`bpf/agent.h`): two buckets per
//! doubling. Few bytes per connection, and a quantile that is off by a fifth at most.

/// As TX_RTT_BUCKETS.
pub const BUCKETS: usize = 32;
/// Below 1 << this many microseconds lies the first bucket.
const FIRST_SHIFT: u32 = 6;
/// With fewer samples a quantile says nothing.
const LEAST: u32 = 5;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSamples(pub [u8; BUCKETS]);

impl RttSamples {
    /// As `sample` of bpf/agent_row.h; 0 is no sample. Where a bucket is full, all lose half: they
    /// keep their shares, and what is new counts.
    pub fn add(&mut self, us: u32) {
        let log = (us >> FIRST_SHIFT).checked_ilog2();
        let bucket = log.map_or(0, |log| 1 + 2 * log + (us >> (log + FIRST_SHIFT - 1) & 1));
        let bucket = (bucket as usize).min(BUCKETS - 1);
        if us == 0 {
            return;
        }
        if self.0[bucket] == u8::MAX {
            self.0 = self.0.map(|number| number / 2);
        }
        self.0[bucket] += 1;
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|&n| u32::from(n)).sum()
    }

    /// The RTT that this share of the samples does not exceed, µs: the middle of its bucket.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        let count = self.count();
        if count < LEAST {
            return None;
        }
        let wanted = (f64::from(count) * share).ceil().max(1.0) as u32;
        let mut seen = 0;
        let bucket = self.0.iter().position(|&n| {
            seen += u32::from(n);
            seen >= wanted
        })?;
        Some(middle(bucket as u32))
    }
}

fn middle(bucket: u32) -> u32 {
    let (low, high) = bounds(bucket);
    low + (high - low) / 2
}

/// From, and up to but without, µs.
fn bounds(bucket: u32) -> (u32, u32) {
    if bucket == 0 {
        return (0, 1 << FIRST_SHIFT);
    }
    let start = |bucket: u32| {
        let (doubling, half) = ((bucket - 1) / 2, (bucket - 1) % 2);
        (1 << (FIRST_SHIFT + doubling)) + half * (1 << (FIRST_SHIFT + doubling - 1))
    };
    (start(bucket), start(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sample_is_counted_in_the_bucket_that_has_it(us in 1u32..10_000_000) {
            let mut samples = RttSamples::default();
            samples.add(us);
            let bucket = samples.0.iter().position(|&n| n == 1).unwrap() as u32;
            let (low, high) = bounds(bucket);
            prop_assert!(low <= us && (us < high || bucket == BUCKETS as u32 - 1));
            prop_assert_eq!(samples.count(), 1);
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bucket in 0..BUCKETS as u32 - 1 {
            assert_eq!(bounds(bucket).1, bounds(bucket + 1).0, "bucket {bucket}");
        }
        assert_eq!(bounds(1), (64, 96));
        assert_eq!(bounds(2), (96, 128));
    }

    #[test]
    fn what_is_new_counts_however_long_the_connection_is() {
        let mut samples = RttSamples::default();
        let mut feed = |number: u32, us: u32| (0..number).for_each(|_| samples.add(us));
        // Of each ten samples one is slow.
        for _ in 0..600 {
            feed(9, 20_000);
            feed(1, 90_000);
        }
        let quick = Some(middle(17));
        assert_eq!((samples.quantile(0.5), samples.quantile(0.85)), (quick, quick));
        let mut feed = |number: u32, us: u32| (0..number).for_each(|_| samples.add(us));
        feed(600, 90_000);
        assert!(samples.quantile(0.5) > Some(80_000), "{samples:?}");
    }

    #[test]
    fn four_samples_are_too_few() {
        let mut samples = RttSamples::default();
        samples.0[3] = 4;
        assert_eq!(samples.quantile(0.5), None);
        samples.0[3] = 5;
        assert_eq!(samples.quantile(0.5), Some(160));
    }

    proptest! {
        #[test]
        fn a_larger_share_is_never_a_shorter_time(counts in prop::array::uniform32(0u8..9), a in 0.0..1.0, b in 0.0..1.0) {
            let samples = RttSamples(counts);
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(samples.quantile(low) <= samples.quantile(high));
        }
    }
}

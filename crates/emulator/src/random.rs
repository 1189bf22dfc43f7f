//! Random numbers: a stream of its own for each element, so that what one draws
//! never depends on what another has drawn, nor on the time.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// What one element draws from; the same for the same seed and name on every machine.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    pub fn new(seed: u64, element: &str) -> Stream {
        // FNV-1a over the name, started from the seed: near seeds and names part at once.
        let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = element
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Stream(Pcg64Mcg::seed_from_u64(mixed))
    }

    /// For a hash: any number.
    pub fn key(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with this probability; draws exactly one number.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Exponentially distributed with this mean, at most 37 times it.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Uniform in 0..=`window`, which is a power of two less one, as contention windows are.
    pub fn within(&mut self, window: u32) -> u32 {
        debug_assert!((window + 1).is_power_of_two());
        (self.0.next_u64() >> 32) as u32 & window
    }

    /// 0 ≤ x < 1: the upper 53 bits fill a double exactly.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    fn drawn(seed: u64, element: &str) -> Vec<bool> {
        let mut stream = Stream::new(seed, element);
        (0..64).map(|_| stream.chance(0.5)).collect()
    }

    #[test]
    fn the_same_seed_and_element_draw_the_same() {
        assert_eq!(drawn(7, "path.up.loss"), drawn(7, "path.up.loss"));
    }

    #[test]
    fn another_seed_or_element_draws_otherwise() {
        assert_ne!(drawn(7, "path.up.loss"), drawn(8, "path.up.loss"));
        assert_ne!(drawn(7, "path.up.loss"), drawn(7, "path.down.loss"));
    }

    #[test]
    fn a_probability_is_kept() {
        let mut stream = Stream::new(1, "test");
        let hits = (0..1_000_000).filter(|_| stream.chance(0.002)).count();
        assert!((1_860..=2_140).contains(&hits), "{hits} of 2000, more than 3 deviations off");
    }

    #[test]
    fn exponential_times_keep_their_mean_and_have_no_memory() {
        let mut stream = Stream::new(1, "test");
        let times: Vec<f64> = (0..200_000).map(|_| stream.exponential(3.0)).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((mean / 3.0 - 1.0).abs() < 0.01, "{mean}");
        let longer = times.iter().filter(|time| **time > 3.0).count() as f64;
        let share = longer / times.len() as f64;
        assert!((share * std::f64::consts::E - 1.0).abs() < 0.02, "{share} above the mean");
    }

    #[test]
    fn backoffs_are_uniform_over_the_window() {
        let mut stream = Stream::new(1, "test");
        let mut counts = [0_u32; 16];
        (0..160_000).for_each(|_| counts[stream.within(15) as usize] += 1);
        assert!(counts.iter().all(|count| (9_600..=10_400).contains(count)), "{counts:?}");
    }
}

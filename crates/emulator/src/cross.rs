//! Cross traffic: packets that take room and rate of one stage, and reach nobody.

use crate::packet::Nanos;
use crate::plan::{self, Arrivals};
use crate::random::Stream;

#[derive(Clone, Debug)]
pub(crate) struct Cross {
    pub bytes: u64,
    gap: f64,
    poisson: bool,
    /// Means of the times on and off, ns.
    on_off: Option<(f64, f64)>,
    /// Until when it is on.
    on_until: Nanos,
    next: Nanos,
    random: Stream,
}

impl Cross {
    pub fn new(asked: &plan::Cross, random: Stream) -> Cross {
        let nanos = |ms: f64| ms * 1e6;
        let on_off = asked.on_ms.zip(asked.off_ms).map(|(on, off)| (nanos(on), nanos(off)));
        let bytes = u64::from(asked.bytes());
        let gap = bytes as f64 * 8_000.0 / asked.rate_mbit;
        let poisson = asked.arrivals == Arrivals::Poisson;
        let mut cross =
            Cross { bytes, gap, poisson, on_off, on_until: Nanos::MAX, next: 0, random };
        if let Some((on, _)) = on_off {
            cross.on_until = cross.random.exponential(on) as Nanos;
        }
        cross.step();
        cross
    }

    /// When its next packet comes.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// That packet has come.
    pub fn step(&mut self) {
        let gap = if self.poisson { self.random.exponential(self.gap) } else { self.gap };
        self.next += (gap.round() as Nanos).max(1);
        let Some((on, off)) = self.on_off else { return };
        while self.next >= self.on_until {
            // What of the gap is left goes on when it is on again.
            let rest = self.next - self.on_until;
            let begins = self.on_until + self.random.exponential(off) as Nanos;
            self.next = begins + rest;
            self.on_until = begins + 1 + self.random.exponential(on) as Nanos;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of the packets in 200 s.
    fn times(asked: plan::Cross) -> Vec<Nanos> {
        let mut cross = Cross::new(&asked, Stream::new(1, "test"));
        let mut times = Vec::new();
        while cross.next() < 200_000_000_000 {
            times.push(cross.next());
            cross.step();
        }
        times
    }

    fn asked(arrivals: Arrivals) -> plan::Cross {
        plan::Cross { rate_mbit: 6.0, arrivals, ..plan::Cross::default() }
    }

    /// Variance over squared mean of the gaps: 0 where all are equal, 1 of a Poisson stream.
    fn dispersion(times: &[Nanos]) -> f64 {
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64 / mean.powi(2)
    }

    #[test]
    fn both_kinds_keep_their_rate() {
        // 500 packets of 1500 bytes a second.
        for (arrivals, scatter) in [(Arrivals::Constant, 0.0), (Arrivals::Poisson, 1.0)] {
            let times = times(asked(arrivals));
            assert!((times.len() as f64 / 100_000.0 - 1.0).abs() < 0.01, "{}", times.len());
            assert!((dispersion(&times) - scatter).abs() < 0.03, "{}", dispersion(&times));
        }
    }

    #[test]
    fn on_and_off_leave_their_share_of_the_rate() {
        let (on_ms, off_ms) = (Some(30.0), Some(90.0));
        let times = times(plan::Cross { on_ms, off_ms, ..asked(Arrivals::Poisson) });
        assert!((times.len() as f64 / 25_000.0 - 1.0).abs() < 0.05, "{}", times.len());
        assert!(dispersion(&times) > 5.0, "{}", dispersion(&times));
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

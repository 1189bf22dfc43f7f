//! Fades of one station's link: Gilbert's two states in time instead of packets, each held for an
//! exponentially distributed time (Gilbert, "Capacity of a burst-noise channel", 1960; Elliott,
//! "Estimates of error rates for codes on burst-noise channels", 1963, for errors that are not
//! certain in the bad state).
//!
//! The state depends on the seed and the time alone, not on what is sent: two runs with the same
//! seed fade at the same moments, whatever their TCPs do.

use crate::packet::Nanos;
use crate::plan;
use crate::random::Stream;

#[derive(Clone, Debug)]
pub(crate) struct Fading {
    apart: f64,
    lasts: f64,
    begins: Nanos,
    ends: Nanos,
    random: Stream,
}

impl Fading {
    /// The first fade comes after the first time apart: time 0 is never in one.
    pub fn new(fading: &plan::Fading, random: Stream) -> Fading {
        let nanos = |ms: f64| ms * 1e6;
        let (apart, lasts) = (nanos(fading.every_ms - fading.lasts_ms), nanos(fading.lasts_ms));
        let mut fading = Fading { apart, lasts, begins: 0, ends: 0, random };
        fading.next();
        fading
    }

    /// Whether the link is in a fade; times asked for never go back.
    pub fn at(&mut self, now: Nanos) -> bool {
        while now >= self.ends {
            self.next();
        }
        now >= self.begins
    }

    fn next(&mut self) {
        self.begins = self.ends + self.random.exponential(self.apart) as Nanos;
        self.ends = self.begins + 1 + self.random.exponential(self.lasts) as Nanos;
    }
}

#[cfg(test)]
mod tests {
    use super::Fading;
    use crate::packet::Nanos;
    use crate::plan;
    use crate::random::Stream;

    const STEP: Nanos = 1_000_000;

    fn states(every_ms: f64, lasts_ms: f64, steps: u64) -> Vec<bool> {
        let plan = plan::Fading { every_ms, lasts_ms, errors_up: 1.0, errors_down: 1.0 };
        let mut fading = Fading::new(&plan, Stream::new(1, "test"));
        (0..steps).map(|step| fading.at(step * STEP)).collect()
    }

    #[test]
    fn fades_come_as_often_and_last_as_long_as_asked() {
        let states = states(2_000.0, 300.0, 20_000_000);
        let faded = states.iter().filter(|faded| **faded).count() as f64;
        let fades = states.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((fades / 10_000.0 - 1.0).abs() < 0.05, "{fades} fades");
        assert!((faded / fades / 300.0 - 1.0).abs() < 0.05, "{} ms", faded / fades);
    }

    #[test]
    fn the_state_does_not_depend_on_how_often_it_is_asked_for() {
        let plan =
            plan::Fading { every_ms: 50.0, lasts_ms: 20.0, errors_up: 1.0, errors_down: 1.0 };
        let mut seldom = Fading::new(&plan, Stream::new(1, "test"));
        let often = states(50.0, 20.0, 10_000);
        for step in (0..10_000).step_by(97) {
            assert_eq!(seldom.at(step as u64 * STEP), often[step], "at {step} ms");
        }
    }

    #[test]
    fn the_beginning_is_never_in_a_fade() {
        assert!(!states(10.0, 9.0, 1)[0]);
    }
}

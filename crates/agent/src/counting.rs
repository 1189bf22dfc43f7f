//! What the probes cost, from samples: while the kernel counts the time of BPF programs, each run of each program of
//! the machine takes about 0.1 µs more, so it is asked to for a part of the time only.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use libbpf_rs::libbpf_sys;

/// One sample in each. What comes every few whole seconds is then met at all its moments in turn.
const PERIOD: Duration = Duration::from_millis(5_309);
const SAMPLE: Duration = Duration::from_millis(500);

pub struct Counting {
    works: bool,
    counts: Option<OwnedFd>,
    samples: Samples,
}

impl Counting {
    /// Where the kernel refuses, the cost of probes is not known and taken as none.
    pub fn begin() -> Counting {
        let works = counted_by_kernel().is_some() || asked_by_others();
        Counting { works, counts: None, samples: Samples::new(Instant::now()) }
    }

    pub fn works(&self) -> bool {
        self.works
    }

    /// To be called often; `counted` is what the kernel has counted until now.
    pub fn tend(&mut self, counted: impl Fn() -> Duration) {
        let now = Instant::now();
        if !self.samples.is_due(now) {
            return;
        }
        if self.samples.begun.is_some() {
            self.samples.end(now, counted());
            self.counts = None;
        } else {
            self.counts = counted_by_kernel();
            self.samples.begin(Instant::now(), counted());
        }
    }

    /// Of all the time until now.
    pub fn probes(&self) -> Duration {
        self.samples.estimate(Instant::now())
    }
}

/// While the descriptor is open, the kernel counts runs and time of BPF programs.
fn counted_by_kernel() -> Option<OwnedFd> {
    // SAFETY: it takes a number and returns a descriptor or an error.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: the kernel has just given us this descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// For the whole machine.
fn asked_by_others() -> bool {
    let asked = std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled");
    asked.is_ok_and(|text| text.trim() == "1")
}

/// Each sample stands for the time until the next one.
struct Samples {
    next: Instant,
    /// The one that is being taken: since when, and what was counted by then.
    begun: Option<(Instant, Duration)>,
    until: Instant,
    total: Duration,
    /// CPU time in time, by the last one.
    share: f64,
}

impl Samples {
    fn new(now: Instant) -> Samples {
        Samples { next: now, begun: None, until: now, total: Duration::ZERO, share: 0.0 }
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.begun {
            Some((begun, _)) => now >= begun + SAMPLE,
            None => now >= self.next,
        }
    }

    fn begin(&mut self, now: Instant, counted: Duration) {
        self.total = self.estimate(now);
        self.until = now;
        // A machine that slept meanwhile is not asked for all that was missed.
        self.next = (self.next + PERIOD).max(now + PERIOD / 2);
        self.begun = Some((now, counted));
    }

    fn end(&mut self, now: Instant, counted: Duration) {
        let Some((begun, before)) = self.begun.take() else { return };
        let took = now.duration_since(begun).max(Duration::from_micros(1));
        let spent = counted.saturating_sub(before);
        self.share = spent.as_secs_f64() / took.as_secs_f64();
        self.total += spent;
        self.until = now;
    }

    /// It never falls: what was taken for the time after a sample stays, whatever the next one says.
    fn estimate(&self, now: Instant) -> Duration {
        match self.begun {
            Some(_) => self.total,
            None => self.total + now.duration_since(self.until).mul_f64(self.share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each 100 ms at a machine whose probes cost what `share` says of each moment, in seconds:
    /// how much was estimated of what was spent, and for which part of the time it was asked.
    fn look_for(seconds: f64, share: impl Fn(f64) -> f64) -> (f64, f64) {
        let start = Instant::now();
        let mut samples = Samples::new(start);
        let (mut spent, mut sampled) = (0.0, 0.0);
        for tick in 0..(seconds * 10.0) as u32 {
            let now = start + Duration::from_millis(100) * tick;
            if samples.is_due(now) {
                let counted = Duration::from_secs_f64(spent);
                match samples.begun {
                    Some(_) => samples.end(now, counted),
                    None => samples.begin(now, counted),
                }
            }
            sampled += f64::from(u8::from(samples.begun.is_some())) * 0.1;
            spent += share(f64::from(tick) * 0.1) * 0.1;
        }
        let estimate = samples.estimate(start + Duration::from_secs_f64(seconds)).as_secs_f64();
        (estimate / spent.max(1e-9), sampled / seconds)
    }

    #[test]
    fn a_steady_cost_is_told_from_a_tenth_of_the_time() {
        let (ratio, sampled) = look_for(100.0, |_| 0.004);
        assert!((ratio - 1.0).abs() < 0.001, "{ratio}");
        assert!((0.08..0.13).contains(&sampled), "{sampled}");
    }

    #[test]
    fn what_comes_with_the_rhythm_of_the_samples_is_met_as_often_as_it_comes() {
        for begins in [0.0, 1.7, 4.0] {
            let burst = |at: f64| f64::from(u8::from((at - begins).rem_euclid(5.0) < 1.0)) * 0.02;
            let (ratio, _) = look_for(600.0, burst);
            assert!((0.8..1.25).contains(&ratio), "from second {begins} of each five: {ratio}");
        }
    }

    #[test]
    fn what_others_had_counted_outside_of_the_samples_is_not_taken_for_more() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut samples = Samples::new(start);
        samples.begin(at(1), Duration::from_secs(100));
        samples.end(at(2), Duration::from_millis(100_010));
        samples.begin(at(6), Duration::from_secs(200));
        samples.end(at(7), Duration::from_millis(200_010));
        assert_eq!(samples.estimate(at(7)).as_millis(), 60);
    }

    #[test]
    fn periods_that_were_slept_through_are_not_made_up_for() {
        let start = Instant::now();
        let mut samples = Samples::new(start);
        let later = start + Duration::from_secs(3600);
        samples.begin(later, Duration::ZERO);
        samples.end(later + SAMPLE, Duration::ZERO);
        assert!(!samples.is_due(later + SAMPLE));
        assert!(samples.is_due(later + PERIOD / 2));
    }
}

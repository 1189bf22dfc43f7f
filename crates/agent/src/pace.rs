//! Work that can wait is spread over time: a thread works for a moment and rests in between, so
//! that nobody notices it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cost::of_thread;

/// CPU time between two rests.
const MOMENT: Duration = Duration::from_millis(1);

/// Said when the work cannot wait any longer.
#[derive(Clone, Default)]
pub struct Hurry(Arc<(Mutex<bool>, Condvar)>);

impl Hurry {
    pub fn say(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    fn rest(&self, time: Duration) {
        let said = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_timeout_while(said, time, |said| !*said));
    }
}

/// How fast the thread that owns it works.
pub struct Pace {
    /// Of one CPU.
    share: f64,
    /// There are no rests after it.
    until: Instant,
    begun: Duration,
    worked: Duration,
    hurry: Hurry,
}

impl Pace {
    /// `work`, as far as it is known, takes `time`.
    pub fn spread(work: Duration, time: Duration, hurry: Hurry) -> Pace {
        let share = work.as_secs_f64() / time.as_secs_f64().max(1e-9);
        let (share, until) = (share.clamp(0.001, 1.0), Instant::now() + time);
        Pace { share, until, begun: of_thread(), worked: of_thread(), hurry }
    }

    pub fn without_rests() -> Pace {
        Pace::spread(Duration::ZERO, Duration::ZERO, Hurry::default())
    }

    /// To be called often; rests when it is time to.
    pub fn step(&mut self) {
        let worked = of_thread() - self.worked;
        if worked < MOMENT {
            return;
        }
        let rest = worked.mul_f64(1.0 / self.share - 1.0);
        self.hurry.rest(rest.min(self.until.saturating_duration_since(Instant::now())));
        self.worked = of_thread();
    }

    /// CPU time since the work began.
    pub fn worked(&self) -> Duration {
        of_thread() - self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(pace: &mut Pace, time: Duration) {
        while pace.worked() < time {
            std::hint::black_box((0..1000).sum::<u64>());
            pace.step();
        }
    }

    #[test]
    fn work_takes_the_time_that_it_was_given() {
        let (ms, begun) = (Duration::from_millis, Instant::now());
        work(&mut Pace::spread(ms(10), ms(300), Hurry::default()), ms(10));
        assert!(begun.elapsed() > ms(200), "{:?}", begun.elapsed());
    }

    #[test]
    fn more_work_than_was_known_of_has_no_rests_in_the_end() {
        let (ms, begun) = (Duration::from_millis, Instant::now());
        work(&mut Pace::spread(Duration::from_nanos(1), ms(100), Hurry::default()), ms(20));
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }

    #[test]
    fn in_a_hurry_it_does_not_rest() {
        let hurry = Hurry::default();
        let mut pace =
            Pace::spread(Duration::from_millis(10), Duration::from_secs(3600), hurry.clone());
        hurry.say();
        let begun = Instant::now();
        work(&mut pace, Duration::from_millis(10));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

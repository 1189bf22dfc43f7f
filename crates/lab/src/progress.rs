//! How far a campaign of runs is, on a terminal with the time that is left, elsewhere line by line.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use transom_output::{note, plain};

/// What a run costs besides its flows, s, until one has been measured.
pub const FIRST_GUESS: f64 = 2.0;

pub struct Progress {
    bar: ProgressBar,
    /// Seconds of flows still to run, with the present one.
    left: f64,
    runs_left: u32,
    /// Measured cost of the runs besides their flows, s.
    extra: Vec<f64>,
    done: f64,
}

impl Progress {
    /// `flows` is how long the flows of all runs last together, s.
    pub fn new(flows: f64, runs: u32) -> Progress {
        Progress { bar: bar(), left: flows, runs_left: runs, extra: Vec::new(), done: 0.0 }
    }

    /// Seconds that remain, `into` seconds into the present run.
    fn remaining(&self, into: f64) -> f64 {
        (self.left + f64::from(self.runs_left) * self.extra() - into).max(0.0)
    }

    fn extra(&self) -> f64 {
        match self.extra.len() {
            0 => FIRST_GUESS,
            n => self.extra.iter().sum::<f64>() / n as f64,
        }
    }

    /// `into` seconds into the run that `what` names.
    pub fn show(&mut self, what: &str, into: f64) {
        let remaining = self.remaining(into);
        let whole = self.done + into + remaining;
        self.bar.set_position((1000.0 * (self.done + into) / whole.max(1.0)) as u64);
        self.bar.set_message(format!("{} left  {}", clock(remaining), plain(what)));
    }

    /// A run that took `took` in all, `flows` seconds of it with traffic, is over; an attempt that
    /// will be repeated is not `finished`.
    pub fn ran(&mut self, took: Duration, flows: f64, finished: bool) {
        self.done += took.as_secs_f64();
        self.extra.push((took.as_secs_f64() - flows).max(0.0));
        if finished {
            self.left -= flows;
            self.runs_left = self.runs_left.saturating_sub(1);
        }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| note!("{line}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Runs side by side in virtual time: what is left takes as long for each of its seconds as what is
/// done.
pub struct SideBySide {
    bar: ProgressBar,
    began: Instant,
    /// Seconds of flows, of all runs and of those that are over.
    all: f64,
    done: f64,
}

impl SideBySide {
    pub fn new(flows: f64) -> SideBySide {
        SideBySide { bar: bar(), began: Instant::now(), all: flows, done: 0.0 }
    }

    pub fn show(&self) {
        let share = self.done / self.all.max(f64::MIN_POSITIVE);
        self.bar.set_position((1000.0 * share) as u64);
        let left = remaining(self.began.elapsed(), share);
        self.bar.set_message(left.map(|left| format!("{} left", clock(left))).unwrap_or_default());
    }

    /// A run with so many seconds of flows is over.
    pub fn ran(&mut self, flows: f64) {
        self.done += flows;
        self.show();
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| note!("{line}"));
    }
}

impl Drop for SideBySide {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds that are left when this share is done; none before anything is.
fn remaining(elapsed: Duration, share: f64) -> Option<f64> {
    (share > 0.0).then(|| elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share)
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {percent:>3}%  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// `48 s`, `12 min`, `1 h 05 min`.
pub fn clock(seconds: f64) -> String {
    match seconds.round() as u64 {
        s @ 0..100 => format!("{s} s"),
        s @ 100..3570 => format!("{} min", (s + 30) / 60),
        s => format!("{} h {:02} min", (s + 30) / 3600, (s + 30) / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_what_runs_really_cost() {
        let mut progress = Progress::new(40.0, 4);
        assert_eq!(progress.remaining(0.0), 40.0 + 4.0 * FIRST_GUESS);
        progress.ran(Duration::from_secs(11), 10.0, true);
        assert_eq!(progress.remaining(0.0), 33.0);
        assert_eq!(progress.remaining(5.0), 28.0);
    }

    #[test]
    fn an_attempt_that_will_be_repeated_brings_the_end_no_nearer() {
        let mut progress = Progress::new(20.0, 2);
        progress.ran(Duration::from_secs(13), 10.0, false);
        assert_eq!(progress.remaining(0.0), 26.0);
    }

    #[test]
    fn side_by_side_what_is_left_follows_what_is_done() {
        assert_eq!(remaining(Duration::from_secs(10), 0.25), Some(30.0));
        assert_eq!(remaining(Duration::from_secs(10), 1.0), Some(0.0));
        assert_eq!(remaining(Duration::from_secs(10), 0.0), None);
    }

    #[test]
    fn times_have_the_unit_that_people_would_use() {
        assert_eq!(clock(48.2), "48 s");
        assert_eq!(clock(720.0), "12 min");
        assert_eq!(clock(3900.0), "1 h 05 min");
    }
}

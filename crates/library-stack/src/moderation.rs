//! When frames are looked for less often. A stream of 100 Mbit/s brings one each 120 us, and each
//! would wake us: an interface with interrupts of its own moderates them, a packet socket does not.
//!
//! Only where nobody waits for the single frame: a stream of large ones, one close behind the other,
//! and not so fast that several come at once anyway. Requests and their replies are no such stream.

use std::time::{Duration, Instant};

/// So long frames gather, which is what an acknowledgement may come later by.
const HOLD: Duration = Duration::from_micros(500);
/// A longer silence ends the stream.
const SILENCE: Duration = Duration::from_millis(2);
/// Large, on the average.
const LARGE: u64 = 600;
/// So many times in a row before anything is held.
const STREAM: u32 = 16;
/// What comes at once needs no gathering: 1 Gbit/s has so much in the time of a hold.
const PLENTY: u64 = 64 << 10;

#[derive(Default)]
pub struct Moderation {
    in_a_row: u32,
    last: Option<Instant>,
    until: Option<Instant>,
}

impl Moderation {
    /// So many frames and bytes were there this time.
    pub fn saw(&mut self, now: Instant, frames: u64, bytes: u64) {
        if frames == 0 {
            return;
        }
        let close = self.last.is_some_and(|last| now.duration_since(last) < SILENCE);
        let streams = bytes >= frames * LARGE && bytes < PLENTY;
        self.in_a_row = if close && streams { self.in_a_row.saturating_add(1) } else { 0 };
        self.last = Some(now);
        self.until = (self.in_a_row >= STREAM).then(|| now + HOLD);
    }

    /// How long to look away from the interfaces; None: look.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `number` turns, so far apart, with so many frames of so many bytes each; is it held then?
    fn held_after(number: u32, apart_us: u64, frames: u64, each: u64) -> bool {
        let (mut moderation, mut now) = (Moderation::default(), Instant::now());
        for _ in 0..number {
            now += Duration::from_micros(apart_us);
            moderation.saw(now, frames, frames * each);
        }
        moderation.left(now).is_some()
    }

    #[test]
    fn a_stream_of_single_large_frames_is_gathered() {
        assert!(held_after(20, 120, 1, 1500));
        assert!(held_after(20, 500, 4, 1500));
    }

    #[test]
    fn the_first_frames_of_one_are_not() {
        assert!(!held_after(10, 120, 1, 1500));
    }

    #[test]
    fn requests_and_replies_are_not() {
        assert!(!held_after(1000, 100, 1, 120));
    }

    #[test]
    fn slow_ones_are_not() {
        assert!(!held_after(1000, 5_000, 1, 1500));
    }

    #[test]
    fn what_comes_in_plenty_is_not() {
        assert!(!held_after(1000, 100, 2, 40_000));
    }

    #[test]
    fn a_hold_ends_and_the_next_begins_with_the_next_frames() {
        let (mut moderation, mut now) = (Moderation::default(), Instant::now());
        for _ in 0..20 {
            now += Duration::from_micros(120);
            moderation.saw(now, 1, 1500);
        }
        assert_eq!(moderation.left(now), Some(HOLD));
        now += HOLD;
        assert_eq!(moderation.left(now), None);
        moderation.saw(now, 4, 6000);
        assert_eq!(moderation.left(now), Some(HOLD));
    }
}

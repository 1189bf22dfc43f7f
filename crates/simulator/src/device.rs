//! A device that is slower than its link: it takes one frame at a time, and what the kernel sends
//! meanwhile waits in the kernel's own queue, where it may be refused.

use transom_emulator::Nanos;
use transom_netstack::{Frame, NicId};

#[derive(Debug)]
pub struct Device {
    pub nic: NicId,
    timing: Timing,
    sending: Option<(Nanos, Frame)>,
}

impl Device {
    /// `burst`: bytes that it passes on at once after a pause; none: a frame leaves when its last
    /// bit does.
    pub fn new(nic: NicId, mbit: f64, burst: Option<u32>) -> Device {
        Device { nic, timing: Timing::new(mbit, burst), sending: None }
    }

    /// The kernel gives it a frame; it gives one only when the one before is through.
    pub fn take(&mut self, now: Nanos, frame: Frame) {
        debug_assert!(self.sending.is_none(), "the kernel waits for wake_nic");
        self.sending = Some((self.timing.leaves(now, frame.size()), frame));
    }

    /// When it is through with the frame that it sends.
    pub fn free_at(&self) -> Option<Nanos> {
        self.sending.as_ref().map(|(at, _)| *at)
    }

    /// The frame that is through by now.
    pub fn sent(&mut self, now: Nanos) -> Option<Frame> {
        self.sending.take_if(|(at, _)| *at <= now).map(|(_, frame)| frame)
    }
}

/// When frames leave.
#[derive(Debug)]
struct Timing {
    nanos_per_byte: f64,
    /// How long the bucket takes to fill; 0: there is none.
    depth: Nanos,
    /// When the bucket was empty, as far as what it holds now tells.
    empty_at: Nanos,
}

impl Timing {
    fn new(mbit: f64, burst: Option<u32>) -> Timing {
        let nanos_per_byte = 8_000.0 / mbit;
        let depth = (f64::from(burst.unwrap_or(0)) * nanos_per_byte).round() as Nanos;
        // It begins full, and time begins at 0.
        Timing { nanos_per_byte, depth, empty_at: 0 }
    }

    fn leaves(&mut self, now: Nanos, bytes: usize) -> Nanos {
        let lasts = (bytes as f64 * self.nanos_per_byte).round() as Nanos;
        if self.depth == 0 {
            return now + lasts;
        }
        // Shifted by the depth, so that a full bucket at time 0 was not empty before it.
        let now = now + self.depth;
        self.empty_at = self.empty_at.max(now - self.depth);
        let leaves = now.max(self.empty_at + lasts);
        self.empty_at += lasts;
        leaves - self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When frames of 1000 bytes, each 1 ms long, leave, which come at these times (ms).
    fn departures(burst: Option<u32>, arrivals: &[u64]) -> Vec<f64> {
        let mut timing = Timing::new(8.0, burst);
        let mut free = 0;
        let mut one = |at: &u64| {
            free = timing.leaves(free.max(*at * 1_000_000), 1000);
            free as f64 / 1e6
        };
        arrivals.iter().map(&mut one).collect()
    }

    #[test]
    fn without_a_bucket_each_frame_takes_its_time() {
        assert_eq!(departures(None, &[0, 0, 10]), [1.0, 2.0, 11.0]);
    }

    #[test]
    fn a_bucket_of_two_frames_passes_two_on_at_once_and_then_keeps_the_rate() {
        let all = departures(Some(2000), &[0, 0, 0, 0, 10, 10, 10, 10]);
        assert_eq!(all, [0.0, 0.0, 1.0, 2.0, 10.0, 10.0, 11.0, 12.0]);
    }

    #[test]
    fn a_bucket_fills_with_time_and_not_above_its_depth() {
        assert_eq!(departures(Some(2000), &[0, 0, 1, 1, 3]), [0.0, 0.0, 1.0, 2.0, 3.0]);
        let half = departures(Some(1500), &[0, 0, 0]);
        assert_eq!(half, [0.0, 0.5, 1.5]);
    }
}

//! A device that is slower than its link: it takes one frame at a time, and what the kernel sends
//! meanwhile waits in the kernel's own queue, where it may be refused.

use transom_emulator::Nanos;
use transom_netstack::{Frame, NicId};

#[derive(Debug)]
pub struct Device {
    pub nic: NicId,
    nanos_per_byte: f64,
    sending: Option<(Nanos, Frame)>,
}

impl Device {
    pub fn new(nic: NicId, mbit: f64) -> Device {
        Device { nic, nanos_per_byte: 8_000.0 / mbit, sending: None }
    }

    /// The kernel gives it a frame; it gives one only when the one before is through.
    pub fn take(&mut self, now: Nanos, frame: Frame) {
        debug_assert!(self.sending.is_none(), "the kernel waits for wake_nic");
        let lasts = (frame.size() as f64 * self.nanos_per_byte).round() as Nanos;
        self.sending = Some((now + lasts, frame));
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

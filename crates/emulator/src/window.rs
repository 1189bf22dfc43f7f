//! What one sender on the air holds for one receiver, until it is acknowledged and all before it
//! has reached the receiver or was given up (block ACK, IEEE 802.11-2016, 10.24).
//!
//! Answers are never lost here, so both ends of a block ACK agreement know the same at the end of
//! each exchange: one list serves as the sender's queue and as the receiver's reorder buffer.

use std::collections::VecDeque;

use crate::packet::Packet;

/// Sequence numbers that may be on their way: the buffer that a receiver grants at most.
const MOST_OUTSTANDING: usize = 64;

/// The first frame, if there is one, is always [`State::Waiting`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    frames: VecDeque<Frame>,
    waiting: usize,
}

#[derive(Clone, Debug)]
struct Frame {
    packet: Packet,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be sent, after so many attempts.
    Waiting { attempts: u32 },
    /// Held back by the receiver, since an earlier frame is still waiting.
    Received,
    /// The receiver learns that it need not wait for it.
    GivenUp,
}

/// What came of one frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Received { bytes: usize },
    ToBeRetried,
    GivenUp,
}

impl Window {
    pub fn push(&mut self, packet: Packet) {
        self.frames.push_back(Frame { packet, state: State::Waiting { attempts: 0 } });
        self.waiting += 1;
    }

    /// Frames that the sender still holds.
    pub fn len(&self) -> usize {
        self.waiting
    }

    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Sizes from the IP header on of the frames that may be sent now, in their order.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        self.sendable().map(|(frame, _)| frame.packet.frame.ip_bytes())
    }

    /// How many of the next so many frames were sent before.
    pub fn retries(&self, of: usize) -> usize {
        self.sendable().take(of).filter(|(_, attempts)| *attempts > 0).count()
    }

    /// The first frames that may be sent were, and `decoded` says which reached the receiver's
    /// radio. `each` hears what came of each; what the receiver hands on is added to `released`.
    pub fn conclude(
        &mut self,
        decoded: &[bool],
        most_attempts: u32,
        mut each: impl FnMut(Sent),
        released: &mut Vec<Packet>,
    ) {
        let mut decoded = decoded.iter();
        for frame in self.frames.iter_mut().take(MOST_OUTSTANDING) {
            let State::Waiting { attempts } = frame.state else { continue };
            let Some(decoded) = decoded.next() else { break };
            frame.state = match decoded {
                true => State::Received,
                false if attempts + 1 >= most_attempts => State::GivenUp,
                false => State::Waiting { attempts: attempts + 1 },
            };
            each(match frame.state {
                State::Received => Sent::Received { bytes: frame.packet.frame.ip_bytes() },
                State::GivenUp => Sent::GivenUp,
                State::Waiting { .. } => Sent::ToBeRetried,
            });
            self.waiting -= usize::from(!matches!(frame.state, State::Waiting { .. }));
        }
        let waits = |frame: &Frame| matches!(frame.state, State::Waiting { .. });
        let ready = self.frames.iter().position(waits).unwrap_or(self.frames.len());
        let ready = self.frames.drain(..ready);
        let received = ready.filter(|frame| frame.state == State::Received);
        released.extend(received.map(|frame| frame.packet));
    }

    fn sendable(&self) -> impl Iterator<Item = (&Frame, u32)> {
        self.frames.iter().take(MOST_OUTSTANDING).filter_map(|frame| match frame.state {
            State::Waiting { attempts } => Some((frame, attempts)),
            State::Received | State::GivenUp => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Sent, Window};
    use crate::packet::{Frame, Packet};

    /// Packets of 1, 2, 3… bytes, so that their sizes are their numbers.
    fn window(packets: usize) -> Window {
        let mut window = Window::default();
        for number in 1..=packets {
            window.push(Packet { frame: Frame::new(vec![0; 14 + number]), from: 0 });
        }
        window
    }

    /// What the receiver hands on after this exchange.
    fn conclude(window: &mut Window, decoded: &[bool], most_attempts: u32) -> Vec<usize> {
        let mut released = Vec::new();
        window.conclude(decoded, most_attempts, |_| (), &mut released);
        released.iter().map(|packet| packet.frame.ip_bytes()).collect()
    }

    #[test]
    fn a_missing_frame_holds_back_those_behind_it_and_is_alone_retried() {
        let mut window = window(4);
        assert_eq!(conclude(&mut window, &[true, false, true, true], 7), [1]);
        assert_eq!(window.sizes().collect::<Vec<_>>(), [2]);
        assert_eq!((window.len(), window.retries(1)), (1, 1));
        assert_eq!(conclude(&mut window, &[true], 7), [2, 3, 4]);
        assert!(window.is_empty());
    }

    #[test]
    fn the_receiver_does_not_wait_for_a_frame_that_was_given_up() {
        let mut window = window(3);
        assert_eq!(conclude(&mut window, &[false, true], 2), []);
        let mut fates = Vec::new();
        let mut released = Vec::new();
        window.conclude(&[false, true], 2, |fate| fates.push(fate), &mut released);
        assert_eq!(fates, [Sent::GivenUp, Sent::Received { bytes: 3 }]);
        assert_eq!(released.len(), 2);
        assert!(window.is_empty());
    }

    #[test]
    fn nothing_64_numbers_behind_the_first_missing_one_is_sent() {
        let mut window = window(100);
        assert_eq!(window.sizes().count(), 64);
        let mut decoded = [true; 64];
        decoded[0] = false;
        assert_eq!(conclude(&mut window, &decoded, 7), []);
        assert_eq!(window.sizes().collect::<Vec<_>>(), [1], "the buffer is full behind it");
        assert_eq!(window.len(), 37);
        assert_eq!(conclude(&mut window, &[true], 7).len(), 64);
        assert_eq!(window.sizes().count(), 36);
    }
}

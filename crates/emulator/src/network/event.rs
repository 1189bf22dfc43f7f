//! What happens later, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::air::Towards;
use crate::driver::Step;
use crate::packet::{Nanos, Packet};

/// A stage of a direction, both by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub pipe: u32,
    pub stage: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Enter(At),
    /// A packet that waits there can be served.
    Serve(At),
    /// Reached the far end of the path.
    UpEnds,
    /// Reached the near end of the path.
    DownEnds,
    /// Reached a switch by the sender's own link or path.
    AtNearSwitch,
    AtFarSwitch,
    Landed(Towards),
    /// A station's processor is done with the packet.
    Worked(usize, Step),
    Deliver(usize),
}

#[derive(Debug)]
pub(super) struct Event {
    pub at: Nanos,
    number: u64,
    /// None: the event is of a stage alone.
    pub packet: Option<Packet>,
    pub what: What,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    /// Numbers events, so that those of one moment keep their order.
    next_number: u64,
}

impl Events {
    pub fn push(&mut self, at: Nanos, what: What, packet: Option<Packet>) {
        let number = self.next_number;
        self.next_number += 1;
        self.heap.push(Reverse(Event { at, number, packet, what }));
    }

    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(event)| event.at)
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.heap.pop().map(|Reverse(event)| event)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

//! FQ-CoDel (RFC 8290): flows are hashed to queues, each with a CoDel of its own, which are served
//! by deficit round robin; queues that have just begun to hold packets go first.

use std::collections::{BTreeMap, VecDeque};

use super::codel::{Control, State};
use super::{Counts, Fifo, Limit, Waiting};
use crate::ip::Flow;
use crate::packet::Nanos;
use crate::plan::{self, Isolate};

/// RFC 8290, section 5.2: queues, and bytes of a round, as Linux has them.
const DEFAULT_QUEUES: u32 = 1024;
const DEFAULT_QUANTUM: u32 = 1514;

/// Drops from the longest queue when the limit is reached: half of it, at most so many, since
/// finding it means looking at all.
const MOST_AT_ONCE: usize = 64;

/// Of a hash that no packet had yet.
const UNUSED: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct FqCodel {
    control: Control,
    limit: Limit,
    quantum: i64,
    /// Hash → index among `queues`, which are made when they are first needed.
    slots: Vec<u32>,
    queues: Vec<Queue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
    key: u64,
    isolate: Option<Isolate>,
    /// How many of the listed queues each host has, if hosts are to share evenly.
    hosts: BTreeMap<u64, u32>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    fifo: Fifo,
    state: State,
    deficit: i64,
    /// The host whose flow made it listed.
    host: u64,
    /// It is in `new` or `old`.
    listed: bool,
}

impl FqCodel {
    /// `key`: of the hash.
    pub fn new(asked: &plan::Discipline, control: Control, limit: Limit, key: u64) -> FqCodel {
        FqCodel {
            control,
            limit,
            quantum: asked.quantum_bytes.unwrap_or(DEFAULT_QUANTUM).into(),
            slots: vec![UNUSED; asked.queues.unwrap_or(DEFAULT_QUEUES) as usize],
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            key,
            isolate: asked.isolate,
            hosts: BTreeMap::new(),
        }
    }

    pub fn enqueue(&mut self, waiting: Waiting, is_idle: bool, counts: &mut Counts) {
        let flow = waiting.flow();
        let index = self.queue_of(flow);
        self.packets += 1;
        self.bytes += waiting.bytes;
        self.queues[index as usize].fifo.push(waiting);
        if !self.queues[index as usize].listed {
            self.list(index, flow);
        }
        while !is_idle && !self.limit.holds(self.packets, self.bytes) {
            self.drop_from_longest(counts);
        }
    }

    pub fn dequeue(&mut self, now: Nanos, counts: &mut Counts) -> Option<Waiting> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let queue = &mut self.queues[index as usize];
            if queue.deficit <= 0 {
                queue.deficit += quantum(self.quantum, &self.hosts, queue.host);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = (queue.fifo.len(), queue.fifo.bytes());
            let others = self.bytes - bytes;
            let sent = queue.state.dequeue(&self.control, now, &mut queue.fifo, others, counts);
            self.packets -= packets - queue.fifo.len();
            self.bytes -= bytes - queue.fifo.bytes();
            if let Some(sent) = sent {
                queue.deficit -= sent.bytes as i64;
                return Some(sent);
            }
            list.pop_front();
            // A new queue that is empty goes behind the old ones first: otherwise a flow could
            // always be new (RFC 8290, 4.2).
            if from_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                self.unlist(index);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.packets
    }

    fn list(&mut self, index: u32, flow: Flow) {
        let host = match self.isolate {
            Some(Isolate::Source) => flow.source,
            Some(Isolate::Destination) => flow.destination,
            None => 0,
        };
        if self.isolate.is_some() {
            *self.hosts.entry(host).or_default() += 1;
        }
        let queue = &mut self.queues[index as usize];
        queue.listed = true;
        queue.host = host;
        queue.deficit = quantum(self.quantum, &self.hosts, host);
        self.new.push_back(index);
    }

    fn unlist(&mut self, index: u32) {
        let queue = &mut self.queues[index as usize];
        queue.listed = false;
        if let Some(listed) = self.hosts.get_mut(&queue.host) {
            *listed -= 1;
            if *listed == 0 {
                self.hosts.remove(&queue.host);
            }
        }
    }

    fn queue_of(&mut self, flow: Flow) -> u32 {
        let hash = flow.hash(self.key) >> 32;
        let number = self.slots.len() as u64;
        let slot = &mut self.slots[((hash * number) >> 32) as usize];
        if *slot == UNUSED {
            *slot = self.queues.len() as u32;
            self.queues.push(Queue::default());
        }
        *slot
    }

    /// From its head: the news reaches the sender soonest.
    fn drop_from_longest(&mut self, counts: &mut Counts) {
        let Some(longest) = self.queues.iter_mut().max_by_key(|queue| queue.fifo.bytes()) else {
            return;
        };
        let enough = longest.fifo.bytes() / 2;
        for _ in 0..MOST_AT_ONCE {
            let Some(dropped) = longest.fifo.pop() else { break };
            self.packets -= 1;
            self.bytes -= dropped.bytes;
            counts.drop_as_full(&dropped);
            if longest.fifo.bytes() <= enough {
                break;
            }
        }
    }
}

/// What a queue may send per turn: if hosts share evenly, its part of what its host may send.
fn quantum(whole: i64, hosts: &BTreeMap<u64, u32>, host: u64) -> i64 {
    hosts.get(&host).map_or(whole, |queues| (whole / i64::from(*queues)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::{flow_of, packet, sized};

    const MS: Nanos = 1_000_000;

    fn fq(queues: u32, packets: usize) -> FqCodel {
        let asked =
            plan::Discipline { queues: Some(queues), ..plan::Discipline::of(plan::Kind::FqCodel) };
        let control = super::super::control(&asked);
        FqCodel::new(&asked, control, Limit { packets, bytes: u64::MAX }, 1)
    }

    /// The flows of all that is sent, one packet a millisecond.
    fn drain(fq: &mut FqCodel, counts: &mut Counts) -> Vec<u16> {
        std::iter::from_fn(|| fq.dequeue(0, counts)).map(|sent| flow_of(&sent)).collect()
    }

    #[test]
    fn flows_share_by_bytes_whatever_the_sizes_of_their_packets() {
        let (mut fq, mut counts) = (fq(1024, 100_000), Counts::default());
        for _ in 0..3_000 {
            fq.enqueue(sized(1, false, 1500), false, &mut counts);
            fq.enqueue(sized(2, false, 500), false, &mut counts);
            fq.enqueue(sized(3, false, 100), false, &mut counts);
        }
        let mut bytes = [0_u64; 4];
        for _ in 0..3_000 {
            let sent = fq.dequeue(0, &mut counts).unwrap();
            bytes[usize::from(flow_of(&sent))] += sent.bytes;
        }
        let mean = bytes.iter().sum::<u64>() as f64 / 3.0;
        assert!(bytes[1..].iter().all(|b| (*b as f64 / mean - 1.0).abs() < 0.02), "{bytes:?}");
    }

    #[test]
    fn in_one_queue_there_is_no_fairness() {
        // The control of the test above.
        let (mut fq, mut counts) = (fq(1, 100_000), Counts::default());
        for _ in 0..1_000 {
            (0..9).for_each(|_| fq.enqueue(packet(1, false), false, &mut counts));
            fq.enqueue(packet(2, false), false, &mut counts);
        }
        let sent = drain(&mut fq, &mut counts);
        let second = sent[..1_000].iter().filter(|flow| **flow == 2).count();
        assert_eq!(second, 100, "as they came");
    }

    #[test]
    fn a_sparse_flow_goes_before_those_that_always_have_packets() {
        let (mut fq, mut counts) = (fq(1024, 100_000), Counts::default());
        (0..50).for_each(|_| fq.enqueue(packet(1, false), false, &mut counts));
        (0..50).for_each(|_| fq.enqueue(packet(2, false), false, &mut counts));
        (0..20).for_each(|_| drop(fq.dequeue(0, &mut counts)));
        fq.enqueue(sized(3, false, 100), false, &mut counts);
        assert_eq!(flow_of(&fq.dequeue(0, &mut counts).unwrap()), 3);
    }

    #[test]
    fn a_flow_that_empties_its_queue_each_time_does_not_stay_new() {
        let (mut fq, mut counts) = (fq(1024, 100_000), Counts::default());
        (0..500).for_each(|_| fq.enqueue(packet(1, false), false, &mut counts));
        let mut first = 0;
        for _ in 0..200 {
            // Its next packet is there as soon as the one before is sent.
            fq.enqueue(packet(2, false), false, &mut counts);
            while flow_of(&fq.dequeue(0, &mut counts).unwrap()) == 1 {
                first += 1;
            }
        }
        assert!(first >= 190, "the other flow is not starved: {first} of its packets beside 200");
    }

    #[test]
    fn what_is_too_much_is_dropped_from_the_longest_queue_at_its_head() {
        let (mut fq, mut counts) = (fq(1024, 100), Counts::default());
        (0..10).for_each(|_| fq.enqueue(packet(1, false), false, &mut counts));
        (0..90).for_each(|_| fq.enqueue(packet(2, false), false, &mut counts));
        fq.enqueue(packet(1, false), false, &mut counts);
        assert_eq!(counts.full_drops, 45, "half of the longest queue");
        let sent = drain(&mut fq, &mut counts);
        assert_eq!(sent.iter().filter(|flow| **flow == 1).count(), 11);
        assert_eq!(sent.len(), 56);
        assert_eq!(fq.len(), 0);
    }

    #[test]
    fn each_flow_has_a_codel_of_its_own() {
        let (mut fq, mut counts) = (fq(1024, 100_000), Counts::default());
        // Flow 1 stands, flow 2 never waits.
        for ms in 0..1_000 {
            let now = ms * MS;
            (0..2).for_each(|_| {
                fq.enqueue(Waiting { since: now, ..packet(1, false) }, false, &mut counts)
            });
            fq.enqueue(Waiting { since: now, ..sized(2, true, 100) }, false, &mut counts);
            (0..2).for_each(|_| drop(fq.dequeue(now, &mut counts)));
        }
        assert!(counts.aqm_drops > 10, "{counts:?}");
        assert_eq!(counts.marks, 0, "of flow 2");
    }
}

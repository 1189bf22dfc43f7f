//! CoDel (RFC 8289): packets are dropped, or marked, at the head, when the least time that packets
//! have waited stayed above `target` for an `interval`; then ever more often, by the square root of
//! their number.

use super::{Counts, Fifo, Limit, Waiting};
use crate::packet::Nanos;

/// With no more bytes than this waiting there is no standing queue: one full packet.
const LEAST_BACKLOG: u64 = 1500;

/// What all queues of one stage share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    pub target: Nanos,
    pub interval: Nanos,
    pub ecn: bool,
    /// Whatever has waited longer is marked at once.
    pub ce_threshold: Option<Nanos>,
}

/// The state of one queue, named as in RFC 8289, section 5.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// When the time waited will have been above the target for an interval.
    first_above: Option<Nanos>,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl State {
    /// The next packet to be sent; `others`: bytes that wait in other queues of the stage.
    pub fn dequeue(
        &mut self,
        control: &Control,
        now: Nanos,
        queue: &mut Fifo,
        others: u64,
        counts: &mut Counts,
    ) -> Option<Waiting> {
        let marks = counts.marks;
        let mut taken = self.take(control, now, queue, others);
        if self.dropping {
            taken = self.keep_dropping(control, now, queue, others, counts, taken);
        } else if let Some((waiting, true)) = taken {
            taken = self.act(control, counts, waiting).map_or_else(
                || self.take(control, now, queue, others),
                |marked| Some((marked, true)),
            );
            self.begin_dropping(control, now);
        }
        let (mut waiting, _) = taken?;
        if control.ce_threshold.is_some_and(|most| now.saturating_sub(waiting.since) > most)
            && counts.marks == marks
        {
            waiting.mark(counts);
        }
        Some(waiting)
    }

    fn keep_dropping(
        &mut self,
        control: &Control,
        now: Nanos,
        queue: &mut Fifo,
        others: u64,
        counts: &mut Counts,
        mut taken: Option<(Waiting, bool)>,
    ) -> Option<(Waiting, bool)> {
        loop {
            let Some((waiting, true)) = taken else {
                self.dropping = false;
                return taken;
            };
            if now < self.drop_next {
                return Some((waiting, true));
            }
            self.count = self.count.saturating_add(1);
            let marked = self.act(control, counts, waiting);
            if let Some(marked) = marked {
                self.drop_next = self.law(control, self.drop_next);
                return Some((marked, true));
            }
            taken = self.take(control, now, queue, others);
            if matches!(taken, Some((_, true))) {
                self.drop_next = self.law(control, self.drop_next);
            }
        }
    }

    /// The first drop. If the last time of dropping is not long ago, its rate goes on.
    fn begin_dropping(&mut self, control: &Control, now: Nanos) {
        self.dropping = true;
        let more = self.count.saturating_sub(self.last_count);
        let recent = now.saturating_sub(self.drop_next) < 16 * control.interval;
        self.count = if more > 1 && recent { more } else { 1 };
        self.drop_next = self.law(control, now);
        self.last_count = self.count;
    }

    /// Marks the packet, or drops it: none.
    fn act(
        &mut self,
        control: &Control,
        counts: &mut Counts,
        mut waiting: Waiting,
    ) -> Option<Waiting> {
        if control.ecn && waiting.mark(counts) {
            return Some(waiting);
        }
        counts.drop_by_aqm(&waiting);
        None
    }

    /// The packet at the head, and whether the queue has stood for an interval.
    fn take(
        &mut self,
        control: &Control,
        now: Nanos,
        queue: &mut Fifo,
        others: u64,
    ) -> Option<(Waiting, bool)> {
        let Some(waiting) = queue.pop() else {
            self.first_above = None;
            return None;
        };
        let waited = now.saturating_sub(waiting.since);
        if waited < control.target || queue.bytes() + others <= LEAST_BACKLOG {
            self.first_above = None;
            return Some((waiting, false));
        }
        let stands = match self.first_above {
            None => {
                self.first_above = Some(now + control.interval);
                false
            }
            Some(at) => now >= at,
        };
        Some((waiting, stands))
    }

    fn law(&self, control: &Control, from: Nanos) -> Nanos {
        from + (control.interval as f64 / f64::from(self.count).sqrt()).round() as Nanos
    }
}

/// One queue for all flows.
#[derive(Clone, Debug)]
pub(crate) struct Codel {
    control: Control,
    limit: Limit,
    queue: Fifo,
    state: State,
}

impl Codel {
    pub fn new(control: Control, limit: Limit) -> Codel {
        Codel { control, limit, queue: Fifo::default(), state: State::default() }
    }

    pub fn enqueue(&mut self, waiting: Waiting, is_idle: bool, counts: &mut Counts) {
        self.limit.enqueue(&mut self.queue, waiting, is_idle, counts);
    }

    pub fn dequeue(&mut self, now: Nanos, counts: &mut Counts) -> Option<Waiting> {
        self.state.dequeue(&self.control, now, &mut self.queue, 0, counts)
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;

    const MS: Nanos = 1_000_000;

    fn codel(ecn: bool) -> Codel {
        let control = Control { target: 5 * MS, interval: 100 * MS, ecn, ce_threshold: None };
        Codel::new(control, Limit { packets: 100_000, bytes: u64::MAX })
    }

    /// A packet leaves each millisecond; how long they have waited is `waited` at each moment. The
    /// moments of drops or marks, ms.
    fn schedule(codel: &mut Codel, ecn: bool, waited: impl Fn(Nanos) -> Nanos) -> Vec<u64> {
        let mut counts = Counts::default();
        let mut acted = Vec::new();
        for ms in 0..2_000 {
            let now = 10_000 * MS + ms * MS;
            // As many as can be dropped at once, all as old as asked for, and a backlog.
            codel.queue = Fifo::default();
            (0..10).for_each(|_| {
                codel.queue.push(Waiting { since: now - waited(ms) * MS, ..packet(0, ecn) })
            });
            let before = counts.aqm_drops + counts.marks;
            codel.dequeue(now, &mut counts);
            let times = counts.aqm_drops + counts.marks - before;
            acted.extend((0..times).map(|_| ms));
        }
        acted
    }

    /// RFC 8289, section 3.3: the next drop is interval / sqrt(count) after the one before.
    fn law(first: f64) -> Vec<u64> {
        let mut at = vec![first];
        for count in 1_u32.. {
            let next = at[at.len() - 1] + 100.0 / f64::from(count).sqrt();
            if next >= 2_000.0 {
                break;
            }
            at.push(next);
        }
        at.into_iter().map(|at| at.ceil() as u64).collect()
    }

    #[test]
    fn a_standing_queue_is_dropped_from_by_the_square_root_law() {
        let acted = schedule(&mut codel(false), false, |_| 20);
        assert_eq!(acted, law(100.0), "the first when the interval is over");
        assert_eq!(acted[..5], [100, 200, 271, 329, 379]);
    }

    #[test]
    fn packets_of_ecn_capable_flows_are_marked_by_the_same_law() {
        let acted = schedule(&mut codel(true), true, |_| 20);
        assert_eq!(acted, law(100.0));
    }

    #[test]
    fn a_wait_below_the_target_once_an_interval_is_no_standing_queue() {
        let acted = schedule(&mut codel(false), false, |ms| if ms % 99 == 98 { 4 } else { 20 });
        assert_eq!(acted, Vec::<u64>::new());
        let acted = schedule(&mut codel(false), false, |ms| if ms % 150 == 149 { 4 } else { 20 });
        assert!(!acted.is_empty(), "the control: once in longer than an interval");
    }

    #[test]
    fn dropping_resumes_near_the_rate_at_which_it_ended() {
        // Above the target except for 50 ms.
        let acted =
            schedule(
                &mut codel(false),
                false,
                |ms| {
                    if (1_000..1_050).contains(&ms) { 1 } else { 20 }
                },
            );
        let before: Vec<u64> = acted.iter().copied().filter(|at| *at < 1_000).collect();
        let after: Vec<u64> = acted.iter().copied().filter(|at| *at >= 1_000).collect();
        assert_eq!(after[0], 1_150, "the interval again");
        let count = before.len() as f64;
        let gap = 100.0 / (count - 1.0).sqrt();
        assert!(((after[1] - after[0]) as f64 - gap).abs() <= 1.0, "{after:?}, {gap}");
    }

    #[test]
    fn one_packet_behind_is_no_standing_queue() {
        let mut codel = codel(false);
        let mut counts = Counts::default();
        for ms in 0..1_000 {
            codel.enqueue(Waiting { since: ms * MS, ..packet(0, false) }, false, &mut counts);
            if ms > 0 {
                codel.dequeue((ms + 50) * MS, &mut counts);
            }
        }
        assert_eq!((counts.aqm_drops, codel.len()), (0, 1), "a full packet remains each time");
    }

    #[test]
    fn beyond_the_ce_threshold_everything_is_marked_whether_it_marks_instead_of_dropping_or_not() {
        for ecn in [true, false] {
            let mut codel = codel(ecn);
            codel.control.ce_threshold = Some(2 * MS);
            let mut counts = Counts::default();
            for waited in [1, 2, 3, 4] {
                codel.enqueue(
                    Waiting { since: (10 - waited) * MS, ..packet(0, true) },
                    false,
                    &mut counts,
                );
                codel.dequeue(10 * MS, &mut counts);
            }
            assert_eq!(counts.marks, 2, "ecn = {ecn}");
        }
    }
}

//! Who kept whom waiting, where both sides talk in turn.

use std::ops::Range;

use transom_event::Kind;

use crate::Limit;
use crate::evidence::Evidence;
use crate::limits::brings_data;
use crate::track::Step;

/// Waits of so many least round trips are the path's: the other side asked, or answered, at once.
const AT_ONCE_RTTS: f64 = 1.5;

/// Waits for the other side, by a program that answered sooner than it had waited.
pub(crate) struct Dialogue {
    /// How many such waits there were.
    pub turns: usize,
    /// Share of the connection's time with nothing to send until data of the other side came.
    pub awaited: f64,
    /// What had most of that.
    pub mostly: Wait,
    /// Shares of the connection's time in which the path was still carrying what had left at once, longer
    /// than the round trip that anything takes, and in which data of the other side came.
    pub carried: f64,
    pub arriving: f64,
    /// The rate of this side's data while they were carried, bit/s.
    pub rate: f64,
}

/// What a wait for data of the other side is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The round trip.
    RoundTrip,
    /// The path's rate: acknowledgements came one after the other. What comes is as slow then.
    Path,
    /// Data of the other side came: the path's rate on the way here, or that at which it writes.
    Arrival,
    /// The program on the other side.
    OtherSide,
}

impl Dialogue {
    pub fn of(evidence: &Evidence) -> Dialogue {
        let least_ns = evidence.summary.rtt.map_or(0, |rtt| u64::from(rtt.min_us) * 1000);
        let (turns, rtt_ns) = (turns(evidence.steps, least_ns), least_ns as f64);
        let is_quick = |turn: &&Turn| turn.length_ns() as f64 <= AT_ONCE_RTTS * rtt_ns;
        let is_carried =
            |turn: &&Turn| !is_quick(turn) && turn.carried_ns() as f64 > AT_ONCE_RTTS * rtt_ns;
        const WAITING: [Limit; 3] = [Limit::Application, Limit::Idle, Limit::Receiving];
        let waiting_ns =
            |times: Vec<Range<u64>>| evidence.limits.common_ns(&WAITING, times.into_iter());
        let all_ns = waiting_ns(turns.iter().map(Turn::wait).collect());
        let carried = || turns.iter().filter(is_carried);
        let path_ns =
            waiting_ns(carried().map(|turn| turn.first_ns..turn.carried_until_ns).collect());
        let quick_ns = waiting_ns(turns.iter().filter(is_quick).map(Turn::wait).collect())
            + waiting_ns(carried().map(|turn| turn.sent_ns..turn.first_ns).collect());
        let in_turns = turns.iter().map(Turn::wait);
        let receiving_ns = evidence.limits.time_ns(Limit::Receiving);
        let arrival_ns = receiving_ns - evidence.limits.common_ns(&[Limit::Receiving], in_turns);
        let other_ns = all_ns.saturating_sub(quick_ns + path_ns);
        // Both ways are slow, as a rule, where one is.
        let arrives_over_it = path_ns >= arrival_ns / 2 && path_ns >= quick_ns;
        let parts = [
            (quick_ns, Wait::RoundTrip),
            (if arrives_over_it { 0 } else { arrival_ns }, Wait::Arrival),
            (path_ns + if arrives_over_it { arrival_ns } else { 0 }, Wait::Path),
            (other_ns, Wait::OtherSide),
        ];
        let mostly = parts.into_iter().max_by_key(|(ns, _)| *ns);
        let duration_ns = evidence.summary.duration_ns.max(1) as f64;
        let bytes: u64 = carried().map(|turn| turn.carried).sum();
        let on_its_way_ns: u64 = carried().map(|turn| turn.carried_until_ns - turn.first_ns).sum();
        Dialogue {
            turns: turns.len(),
            awaited: (all_ns + arrival_ns) as f64 / duration_ns,
            mostly: mostly.map_or(Wait::OtherSide, |(_, wait)| wait),
            carried: path_ns as f64 / duration_ns,
            arriving: arrival_ns as f64 / duration_ns,
            rate: bytes as f64 * 8e9 / on_its_way_ns.max(1) as f64,
        }
    }
}

/// From what was sent to the first data that came after it, where the next was sent sooner after the last
/// of them.
#[derive(Clone, Copy, Debug)]
struct Turn {
    sent_ns: u64,
    /// The first time at which anything can have come back for it.
    first_ns: u64,
    came_ns: u64,
    /// Until when acknowledgements show that the path was carrying it, and how many bytes they are of.
    /// One that acknowledges all may have waited over there: for its timer, where it is of a single
    /// segment, or for the data that it came with.
    carried_until_ns: u64,
    carried: u64,
}

impl Turn {
    fn wait(&self) -> Range<u64> {
        self.sent_ns..self.came_ns
    }

    fn length_ns(&self) -> u64 {
        self.came_ns - self.sent_ns
    }

    fn carried_ns(&self) -> u64 {
        self.carried_until_ns - self.sent_ns
    }

    fn acknowledged(&mut self, before: &Step, by: &Step, brings_data: bool) {
        let bytes = by.acked - before.acked;
        let is_sent_at_once = bytes > u64::from(by.state().mss) && !brings_data;
        if bytes > 0 && (by.settled().outstanding() > 0 || is_sent_at_once) {
            self.carried_until_ns = by.time_ns();
            self.carried += if by.time_ns() >= self.first_ns { bytes } else { 0 };
        }
    }
}

/// Two sides that talk without regard to one another have turns by chance, and not most of the time.
fn turns(steps: &[Step], rtt_ns: u64) -> Vec<Turn> {
    let mut turns = Vec::new();
    let (mut turn, mut came_ns) = (None::<Turn>, None::<u64>);
    for (i, pair) in steps.windows(2).enumerate() {
        let (from, to) = (&pair[0], &pair[1]);
        let brings = brings_data(from, to, steps.get(i + 2));
        if let Some(turn) = turn.as_mut().filter(|_| came_ns.is_none()) {
            turn.acknowledged(from, to, brings);
            turn.came_ns = to.time_ns();
        }
        came_ns = brings.then_some(to.time_ns()).or(came_ns);
        if to.kind() != Kind::Send || to.sent <= from.sent {
            continue;
        }
        if turn.is_some() && came_ns.is_none() && was_held_back(from) {
            continue;
        }
        if let (Some(turn), Some(came_ns)) = (turn, came_ns)
            && to.time_ns() - came_ns < came_ns - turn.sent_ns
        {
            turns.push(turn);
        }
        let sent_ns = to.time_ns();
        let first_ns = sent_ns.saturating_add(rtt_ns);
        let begun =
            Turn { sent_ns, first_ns, came_ns: sent_ns, carried_until_ns: sent_ns, carried: 0 };
        (turn, came_ns) = (Some(begun), None);
    }
    turns
}

/// Whether the last piece of what was written, less than a segment, still waits: for an acknowledgement of
/// what left before (Nagle's algorithm). It is no message of its own.
fn was_held_back(step: &Step) -> bool {
    let state = step.settled();
    state.outstanding() > 0 && (1..u32::from(state.mss)).contains(&state.unsent)
}

/// From the last data of an answer to the next request of this side, where that was answered sooner than
/// it was thought about: what the other side sends in its own time was not asked for.
pub(crate) fn thoughts(steps: &[Step]) -> Vec<Range<u64>> {
    let mut thoughts = Vec::new();
    let (mut came, mut asked) = (None, None::<Range<u64>>);
    for (i, pair) in steps.windows(2).enumerate() {
        let (from, to) = (&pair[0], &pair[1]);
        if brings_data(from, to, steps.get(i + 2)) {
            let is_answer =
                |thought: &Range<u64>| to.time_ns() - thought.end < thought.end - thought.start;
            thoughts.extend(asked.take().filter(is_answer));
            came = Some(to.time_ns());
        }
        if to.kind() == Kind::Send && to.sent > from.sent {
            asked = came.take().map(|came| came..to.time_ns()).or(asked);
        }
    }
    thoughts
}

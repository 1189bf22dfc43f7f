//! Both ends of one connection, seen by two recorders, on one axis of time.
//!
//! The recorders' clocks need not agree, but traffic relates them: a byte cannot arrive before it
//! was sent, and cannot be acknowledged before it has arrived.

use serde::Serialize;

use crate::track::{Step, is_synchronized, steps};
use crate::{Analysis, Connection};

/// How far the clock of the other recorder is ahead: its time + `offset_ns` is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClockRelation {
    pub offset_ns: i64,
    pub source: ClockSource,
    /// By how much the offset may be wrong; `None` = nothing bounds it.
    pub error_ns: Option<u64>,
    /// By how much the wall clocks of both machines disagree, where traffic proves that they do.
    pub disagreement_ns: Option<u64>,
}

/// Where the offset was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// Both were recorded on one machine since it was started: it is one clock.
    SameClock,
    /// Each recorder's wall clock.
    WallClock,
    /// The segments of the connections themselves.
    Traffic,
}

/// What is known of a recorder's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderClock {
    /// Empty when not known.
    pub boot_id: String,
    /// CLOCK_REALTIME − CLOCK_BOOTTIME, ns; 0 = not known.
    pub realtime_offset_ns: i64,
}

/// The range of offsets that the traffic allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetBounds {
    pub least_ns: i64,
    pub greatest_ns: i64,
}

impl OffsetBounds {
    const ALL: OffsetBounds = OffsetBounds { least_ns: i64::MIN, greatest_ns: i64::MAX };

    fn and(self, other: OffsetBounds) -> OffsetBounds {
        OffsetBounds {
            least_ns: self.least_ns.max(other.least_ns),
            greatest_ns: self.greatest_ns.min(other.greatest_ns),
        }
    }

    fn is_bounded(&self) -> bool {
        self.least_ns > i64::MIN && self.greatest_ns < i64::MAX
    }
}

/// Whether these are the two ends of one connection.
pub fn are_both_ends(a: &Analysis, b: &Analysis) -> bool {
    let both = a.ends.zip(b.ends);
    both.is_some_and(|(a, b)| a.local == b.remote && a.remote == b.local)
}

impl ClockRelation {
    /// From both recorders' clocks and the pairs of ends that both have recorded.
    pub fn of(
        ours: &RecorderClock,
        theirs: &RecorderClock,
        pairs: &[(&Connection, &Connection)],
    ) -> ClockRelation {
        if !ours.boot_id.is_empty() && ours.boot_id == theirs.boot_id {
            return ClockRelation {
                offset_ns: 0,
                source: ClockSource::SameClock,
                error_ns: Some(0),
                disagreement_ns: None,
            };
        }
        let wall = (ours.realtime_offset_ns != 0 && theirs.realtime_offset_ns != 0)
            .then(|| theirs.realtime_offset_ns.wrapping_sub(ours.realtime_offset_ns));
        let bounds = pairs.iter().map(|(a, b)| bounds(a, b));
        let bounds = bounds.fold(OffsetBounds::ALL, OffsetBounds::and);
        relation(wall, bounds)
    }
}

fn relation(wall: Option<i64>, bounds: OffsetBounds) -> ClockRelation {
    let OffsetBounds { least_ns, greatest_ns } = bounds;
    let allowed = |offset: i64| (least_ns..=greatest_ns).contains(&offset);
    if let Some(offset_ns) = wall
        && (allowed(offset_ns) || !bounds.is_bounded())
    {
        let error = |()| offset_ns.abs_diff(least_ns).max(offset_ns.abs_diff(greatest_ns));
        return ClockRelation {
            offset_ns,
            source: ClockSource::WallClock,
            error_ns: bounds.is_bounded().then_some(()).map(error),
            disagreement_ns: None,
        };
    }
    // Where the clocks drift, no offset suits all of the traffic: the middle is wrong by the least.
    let middle = least_ns / 2 + greatest_ns / 2;
    let known = bounds.is_bounded();
    ClockRelation {
        offset_ns: if known { middle } else { 0 },
        source: ClockSource::Traffic,
        error_ns: known.then(|| least_ns.abs_diff(greatest_ns).div_ceil(2)),
        disagreement_ns: wall.filter(|_| known).map(|wall| wall.abs_diff(middle)),
    }
}

/// Which offsets the traffic of one connection allows, by both of its directions.
pub fn bounds(ours: &Connection, theirs: &Connection) -> OffsetBounds {
    let (ours, theirs) = (steps(ours), steps(theirs));
    let there = one_way(&ours, &theirs);
    let back = one_way(&theirs, &ours);
    // What ours + offset is to them is theirs − offset to us.
    let back =
        OffsetBounds { least_ns: negated(back.greatest_ns), greatest_ns: negated(back.least_ns) };
    there.and(back)
}

/// The greatest number stands for "no bound", and so does the least.
fn negated(offset_ns: i64) -> i64 {
    match offset_ns {
        i64::MAX => i64::MIN,
        i64::MIN => i64::MAX,
        bounded => -bounded,
    }
}

/// A number of the sequence space, unwrapped, and when it was reached.
type Reached = (i64, u64);

/// From the data that one side sent and the other one received.
fn one_way(sender: &[Step], receiver: &[Step]) -> OffsetBounds {
    let synchronized = |step: &&Step| is_synchronized(step.state());
    let Some(first) = sender.iter().find(synchronized) else { return OffsetBounds::ALL };
    let zero = first.state().snd_una;
    let (sent, acked) = (sent(sender, zero), acked(sender, zero));
    let mut bounds = OffsetBounds::ALL;
    let difference = |a: u64, b: u64| a.wrapping_sub(b) as i64;
    let mut position = Unwrapped::new(zero);
    let mut before: Option<Reached> = None;
    for step in receiver.iter().filter(synchronized) {
        let now = (position.follow(step.state().rcv_nxt), step.time_ns());
        if let Some(before) = before.filter(|before| before.0 < now.0) {
            // All of it had been sent when it was there.
            if let Some(&(_, time_ns)) = first_at(&sent, now.0) {
                bounds.least_ns = bounds.least_ns.max(difference(time_ns, now.1));
            }
            // Its first byte was not there yet at the event before, so not acknowledged either.
            if let Some(&(_, time_ns)) = first_at(&acked, before.0 + 1) {
                bounds.greatest_ns = bounds.greatest_ns.min(difference(time_ns, before.1));
            }
        }
        before = Some(now);
    }
    bounds
}

/// Before which times the sequence numbers had not been sent. Where a segment's own event is
/// missing, that is the time of the event before.
fn sent(steps: &[Step], zero: u32) -> Vec<Reached> {
    let mut position = Unwrapped::new(zero);
    let mut all: Vec<Reached> = Vec::new();
    let mut before_ns = 0;
    for step in steps.iter().filter(|step| is_synchronized(step.state())) {
        let met = position.follow(step.state().snd_nxt);
        let left = position.follow(step.settled().snd_nxt);
        for (number, time_ns) in [(met, before_ns), (left, step.time_ns())] {
            if all.last().is_none_or(|last| last.0 < number) {
                all.push((number, time_ns));
            }
        }
        before_ns = step.time_ns();
    }
    all
}

/// At which times the sequence numbers had been acknowledged.
fn acked(steps: &[Step], zero: u32) -> Vec<Reached> {
    let mut position = Unwrapped::new(zero);
    let mut all: Vec<Reached> = Vec::new();
    for step in steps.iter().filter(|step| is_synchronized(step.state())) {
        let number = position.follow(step.settled().snd_una);
        if all.last().is_none_or(|last| last.0 < number) {
            all.push((number, step.time_ns()));
        }
    }
    all
}

/// The first time at which `number` was reached; `None` also if that was before the recording.
fn first_at(all: &[Reached], number: i64) -> Option<&Reached> {
    let at = all.partition_point(|reached| reached.0 < number);
    all.get(at).filter(|_| at > 0)
}

/// Follows a 32-bit number beyond its wrap.
struct Unwrapped {
    last: u32,
    position: i64,
}

impl Unwrapped {
    fn new(zero: u32) -> Unwrapped {
        Unwrapped { last: zero, position: 0 }
    }

    fn follow(&mut self, number: u32) -> i64 {
        self.position += i64::from(number.wrapping_sub(self.last) as i32);
        self.last = number;
        self.position
    }
}

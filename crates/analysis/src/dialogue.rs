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
    /// Share of the connection's time with nothing to send until data of the other side came.
    pub awaited: f64,
    /// Whether most of the time of these waits was in those that took no longer than the round trip.
    pub is_of_the_path: bool,
}

impl Dialogue {
    pub fn of(evidence: &Evidence) -> Dialogue {
        let waits = waits(evidence.steps);
        let own = [Limit::Application, Limit::Idle];
        let own_ns = evidence.limits.common_ns(&own, waits.iter().cloned());
        let receiving_ns = evidence.limits.time_ns(Limit::Receiving);
        let rtt_ns = evidence.summary.rtt.map_or(0.0, |rtt| f64::from(rtt.min_us) * 1000.0);
        let lengths = || waits.iter().map(|wait| wait.end - wait.start);
        let is_short = |length: &u64| *length as f64 <= AT_ONCE_RTTS * rtt_ns;
        let (all_ns, short_ns) = (lengths().sum::<u64>(), lengths().filter(is_short).sum::<u64>());
        Dialogue {
            awaited: receiving_ns.saturating_add(own_ns) as f64
                / evidence.summary.duration_ns.max(1) as f64,
            // A few long waits may be most of the time, beside any number of short ones.
            is_of_the_path: short_ns > all_ns / 2,
        }
    }
}

/// From what was sent to the first data that came after it, where the next was sent sooner after
/// that. Two sides that talk without regard to one another have such waits by chance, and not most
/// of the time.
fn waits(steps: &[Step]) -> Vec<Range<u64>> {
    let mut waits = Vec::new();
    let (mut sent, mut came) = (None, None);
    for (i, pair) in steps.windows(2).enumerate() {
        let (from, to) = (&pair[0], &pair[1]);
        if brings_data(from, to, steps.get(i + 2)) {
            came = came.or(Some(to.time_ns()));
        }
        if to.kind() != Kind::Send || to.sent <= from.sent {
            continue;
        }
        if let (Some(sent), Some(came)) = (sent, came)
            && to.time_ns() - came < came.saturating_sub(sent)
        {
            waits.push(sent..came);
        }
        (sent, came) = (Some(to.time_ns()), None);
    }
    waits
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

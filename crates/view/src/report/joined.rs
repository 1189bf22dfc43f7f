//! Connections of which both ends were recorded, on one axis of time.

use std::collections::HashMap;

use transom_analysis::{
    Analysis, ClockRelation, ClockSource, Connection, RecorderClock, are_both_ends,
};

use super::Trace;
use super::header::{escape, plural};

/// Where a connection is: its trace, its cookie.
pub type Place = (usize, u64);

/// Which connections belong together, and where each trace's time begins on the common axis.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// The other end of a connection, both ways.
    pub others: HashMap<Place, Place>,
    /// Time 0 of the page by each trace's own clock, ns of CLOCK_BOOTTIME.
    pub origins_ns: Vec<u64>,
    pub relation: Option<ClockRelation>,
}

impl Joined {
    /// Each trace from its own begin, as for a comparison.
    pub fn apart(traces: &[Trace]) -> Joined {
        let origins_ns = traces.iter().map(|trace| trace.recording.start_ns).collect();
        Joined { origins_ns, ..Joined::default() }
    }

    /// The ends that are in these traces: in one, as over loopback, or one in each of two.
    pub fn of(traces: &[Trace]) -> Joined {
        let mut joined = Joined::apart(traces);
        let [a, .., b] = traces else {
            joined.others = pairs(traces, 0, 0, &|_, _| true);
            return joined;
        };
        // Ports are used again: the two ends must have been there at the same time, by the clocks
        // of their recorders if these are known.
        let rough = relate(a, b, &HashMap::new());
        let near = pairs(traces, 0, 1, &|ours, theirs| are_at_once(ours, theirs, &rough));
        let is_sure = !near.is_empty() && rough.source != ClockSource::Traffic;
        let others = if near.is_empty() { pairs(traces, 0, 1, &|_, _| true) } else { near };
        let relation = relate(a, b, &others);
        if !is_sure && relation.error_ns.is_none_or(|error_ns| error_ns > SLACK_NS) {
            return joined;
        }
        joined.others = pairs(traces, 0, 1, &|ours, theirs| are_at_once(ours, theirs, &relation));
        if joined.others.is_empty() {
            return joined;
        }
        let offset_ns = relation.offset_ns;
        let theirs = b.recording.start_ns.wrapping_add_signed(offset_ns);
        let origin_ns = a.recording.start_ns.min(theirs);
        joined.origins_ns = vec![origin_ns, origin_ns.wrapping_add_signed(-offset_ns)];
        joined.relation = Some(relation);
        joined
    }

    pub fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// What a reader must know of the common axis, as HTML.
    pub fn notice(&self) -> String {
        let Some(relation) = &self.relation else { return String::new() };
        let count = self.others.len() as u64 / 2;
        let text = format!(
            "Of {} both ends were recorded; their times are on one axis. {}",
            plural(count, "connection"),
            told(relation)
        );
        format!("<p class=\"notice\">{}</p>", escape(&text))
    }
}

fn are_at_once(ours: &Analysis, theirs: &Analysis, relation: &ClockRelation) -> bool {
    if relation.source == ClockSource::Traffic && relation.error_ns.is_none() {
        return true;
    }
    let slack_ns = relation.error_ns.unwrap_or(0).saturating_add(SLACK_NS);
    let begin = theirs.start_ns.wrapping_add_signed(relation.offset_ns);
    let end = begin.saturating_add(theirs.summary.duration_ns).saturating_add(slack_ns);
    let ours_end = ours.start_ns.saturating_add(ours.summary.duration_ns);
    begin.saturating_sub(slack_ns) <= ours_end && ours.start_ns <= end
}

/// What one host's clock may be ahead of another's when both are set by a time server, ns.
const SLACK_NS: u64 = 1_000_000_000;

fn relate(a: &Trace, b: &Trace, others: &HashMap<Place, Place>) -> ClockRelation {
    let clock = |trace: &Trace| RecorderClock {
        boot_id: trace.meta.boot_id.clone(),
        realtime_offset_ns: trace.meta.realtime_offset_ns,
    };
    let both = others.iter().filter(|((trace, _), _)| *trace == 0);
    let connections: Vec<(&Connection, &Connection)> = both
        .filter_map(|((_, ours), (_, theirs))| {
            Some((a.recording.connection(*ours)?, b.recording.connection(*theirs)?))
        })
        .collect();
    ClockRelation::of(&clock(a), &clock(b), &connections)
}

fn pairs(
    traces: &[Trace],
    ours: usize,
    theirs: usize,
    suits: &dyn Fn(&Analysis, &Analysis) -> bool,
) -> HashMap<Place, Place> {
    let mut others = HashMap::new();
    let (Some(a), Some(b)) = (traces.get(ours), traces.get(theirs)) else { return others };
    let mut by_ends: HashMap<_, Vec<&Analysis>> = HashMap::new();
    for analysis in &b.analyses {
        if let Some(ends) = analysis.ends {
            by_ends.entry((ends.remote, ends.local)).or_default().push(analysis);
        }
    }
    for analysis in &a.analyses {
        let Some(ends) = analysis.ends else { continue };
        let place = (ours, analysis.cookie);
        let candidates = by_ends.get(&(ends.local, ends.remote)).into_iter().flatten();
        let other = candidates
            .filter(|other| are_both_ends(analysis, other) && suits(analysis, other))
            .map(|other| (theirs, other.cookie))
            .find(|other| *other != place && !others.contains_key(other));
        if let Some(other) = other
            && !others.contains_key(&place)
        {
            others.insert(place, other);
            others.insert(other, place);
        }
    }
    others
}

fn told(relation: &ClockRelation) -> String {
    let time = |ns: u64| match ns {
        0..1_000_000 => format!("{} µs", ns.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    };
    let error = relation.error_ns.map(|error| format!("± {}", time(error)));
    match (relation.source, error) {
        (ClockSource::SameClock, _) => {
            "Both were recorded on one machine, by one clock: there is no error.".to_owned()
        }
        (ClockSource::WallClock, Some(error)) => format!(
            "B's times were brought to A's by the wall clocks of both machines; the segments' own \
             times bound the error: {error}."
        ),
        (ClockSource::WallClock, None) => {
            "B's times were brought to A's by the wall clocks of both \
             machines; nothing bounds their error."
                .to_owned()
        }
        (ClockSource::Traffic, Some(error)) => {
            let wall = relation.disagreement_ns.map_or(String::new(), |by| {
                format!(" The wall clocks of both machines differ by {}.", time(by))
            });
            format!(
                "B's times were brought to A's by the segments themselves (none arrives before it \
                 is sent), {error}.{wall}"
            )
        }
        (ClockSource::Traffic, None) => {
            "The times of both could not be related: each is from its own clock.".to_owned()
        }
    }
}

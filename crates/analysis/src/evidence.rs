//! All that a verdict is made from.

use transom_event::State;

use crate::limits::Span;
use crate::summary::median;
use crate::track::Step;
use crate::{Episode, EpisodeKind, Limit, Limits, Summary};

/// The share of time from which a second limit is worth a sentence.
pub const SECOND_SHARE: f64 = 0.2;
/// Fewer bytes than this in both directions are too little to judge by.
pub const LITTLE_BYTES: u64 = 10_000;
/// This many times more received than acknowledged makes a connection a download.
pub const DOWNLOAD_RATIO: u64 = 4;

pub(crate) struct Evidence<'a> {
    pub summary: &'a Summary,
    pub limits: &'a Limits,
    pub episodes: &'a [Episode],
    pub steps: &'a [Step<'a>],
}

impl Evidence<'_> {
    /// Median of a number of the state while this limit held; 0 when it never did.
    pub fn median_while(&self, limit: Limit, of: impl Fn(&State) -> u32) -> u32 {
        let spans: Vec<&Span> =
            self.limits.spans.iter().filter(|span| span.limit == limit).collect();
        let mut spans = spans.into_iter().peekable();
        let mut values = Vec::new();
        for step in self.steps {
            // A wait belongs to the event that ended it.
            while spans.next_if(|span| span.end_ns < step.time_ns()).is_some() {}
            let Some(span) = spans.peek() else { break };
            if span.start_ns < step.time_ns() {
                values.push(of(step.state()));
            }
        }
        median(values)
    }

    pub fn episodes(&self, wanted: impl Fn(&EpisodeKind) -> bool) -> u64 {
        self.episodes.iter().filter(|episode| wanted(&episode.kind)).count() as u64
    }

    /// Time of all episodes of a kind, ns.
    pub fn time_in(&self, wanted: impl Fn(&EpisodeKind) -> bool) -> u64 {
        let wanted = self.episodes.iter().filter(|episode| wanted(&episode.kind));
        wanted.map(Episode::length_ns).fold(0, u64::saturating_add)
    }
}

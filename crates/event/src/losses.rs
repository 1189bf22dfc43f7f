//! Events that could not be recorded: totals by cause become events, so that each loss has its time.

use std::collections::BTreeMap;

use crate::{Body, Event, Kind, LossCause, Place};

/// The totals as they were told last.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    told: BTreeMap<LossCause, u64>,
}

impl Losses {
    /// An event for each cause by which more is lost than at the last time.
    pub fn fresh(&mut self, totals: &[(LossCause, u64)], time_ns: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for &(cause, total) in totals {
            let told = self.told.entry(cause).or_default();
            if total > *told {
                events.push(Event::lost(cause, total - *told, time_ns));
                *told = total;
            }
        }
        events
    }
}

impl LossCause {
    /// Whether it counts segments that left without an event, and not events.
    pub fn counts_segments(self) -> bool {
        self == LossCause::UnseenSend
    }

    /// What it counts, in words after the number: those given, of events, or that of segments.
    pub fn told_as(self, events: &'static str) -> &'static str {
        if self.counts_segments() { "segments left unseen" } else { events }
    }
}

impl Event {
    /// So many events could not be recorded up to this time.
    pub fn lost(cause: LossCause, events: u64, time_ns: u64) -> Event {
        Event {
            time_ns,
            cookie: 0,
            tgid: 0,
            cpu: 0,
            kind: Kind::Lost,
            place: Place::Recorder,
            aux: [cause as u32, u32::try_from(events).unwrap_or(u32::MAX)],
            body: Body::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields;

    #[test]
    fn what_is_counted_in_segments_is_not_called_an_event() {
        let told: Vec<_> = LossCause::ALL.iter().map(|c| c.told_as("events were lost")).collect();
        assert_eq!(told[..4], ["events were lost"; 4]);
        assert_eq!(told[4..], ["segments left unseen"]);
    }

    #[test]
    fn what_is_lost_is_told_once() {
        let mut losses = Losses::default();
        let mut fresh = |totals: &[_]| {
            let told = losses.fresh(totals, 7).into_iter().map(|event| fields::lost(event.aux));
            told.collect::<Vec<_>>()
        };
        assert_eq!(
            fresh(&[(LossCause::Ring, 5), (LossCause::Storage, 0)]),
            [(Some(LossCause::Ring), 5)]
        );
        assert!(fresh(&[(LossCause::Ring, 5)]).is_empty());
        assert_eq!(fresh(&[(LossCause::Ring, 8)]), [(Some(LossCause::Ring), 3)]);
    }
}

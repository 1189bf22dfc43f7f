//! From when on, and until when, there was data of either side on its way: a program that writes before
//! or after that kept nothing waiting.

use std::ops::Range;

use transom_event::Kind;

use crate::Limit;
use crate::delivery::last_delivery;
use crate::evidence::Evidence;
use crate::limits::burst_ns;
use crate::track::Step;
use crate::units::time;

/// Share of the time without data, before the first and after the last, from which either is told.
const NAMED_SHARE: f64 = 0.1;

/// What keeps data here that the program has written.
pub(crate) const HELD: [Limit; 6] = [
    Limit::Cwnd,
    Limit::ReceiverWindow,
    Limit::SendBuffer,
    Limit::Pacing,
    Limit::LocalDevice,
    Limit::Repair,
];

/// Where the time lies in which the program had nothing to send, ns.
pub(crate) struct Activity {
    /// Before the first data of either side, and after the last had arrived.
    pub before_ns: u64,
    pub after_ns: u64,
    /// In between, but for the delivery of the last data.
    pub between_ns: u64,
    /// From the first data to when the last had arrived.
    pub length_ns: u64,
    /// The part of that in which TCP, the path or this machine let no more leave.
    pub held_ns: u64,
}

impl Activity {
    pub fn of(evidence: &Evidence) -> Activity {
        let active = active(evidence.steps);
        let ns = |limits: &[Limit], time: Range<u64>| {
            evidence.limits.common_ns(limits, std::iter::once(time))
        };
        const OWN: [Limit; 3] = [Limit::Application, Limit::Receiving, Limit::Idle];
        let delivery_ns = (evidence.delivery_share * evidence.summary.duration_ns as f64) as u64;
        Activity {
            before_ns: ns(&OWN, 0..active.start),
            after_ns: ns(&OWN, active.end..u64::MAX),
            between_ns: ns(&OWN, active.clone()).saturating_sub(delivery_ns),
            length_ns: active.end - active.start,
            held_ns: ns(&HELD, active),
        }
    }

    /// Before the first data and after the last.
    pub fn idle_ns(&self) -> u64 {
        self.before_ns + self.after_ns
    }

    /// `300 ms before its first data and 2.00 s after its last had arrived`
    pub fn silences(&self) -> String {
        let least_ns = NAMED_SHARE * self.idle_ns() as f64;
        let both = [
            (self.before_ns, "before its first data"),
            (self.after_ns, "after its last had arrived"),
        ];
        let told = both.into_iter().filter(|(ns, _)| *ns as f64 >= least_ns);
        let told: Vec<String> = told.map(|(ns, when)| format!("{} {when}", time(ns))).collect();
        told.join(" and ")
    }
}

fn active(steps: &[Step]) -> Range<u64> {
    let (sent, came) = (sent_ns(steps), arrivals(steps).next());
    let Some(start_ns) = sent.into_iter().chain(came).min() else { return 0..0 };
    let came_ns = arrivals(steps).next_back().unwrap_or(start_ns);
    let arrived_ns = last_delivery(steps).map_or(start_ns, |delivery| delivery.end);
    start_ns..came_ns.max(arrived_ns).max(start_ns)
}

/// Whether the first data was of this side.
pub(crate) fn asks(steps: &[Step]) -> bool {
    sent_ns(steps).is_some_and(|sent| arrivals(steps).next().is_none_or(|came| sent < came))
}

fn sent_ns(steps: &[Step]) -> Option<u64> {
    steps.iter().find(|step| step.sent > 0).map(Step::time_ns)
}

/// When data of the other side came. A segment that meets the state before shows in the next event what
/// it brought.
fn arrivals(steps: &[Step]) -> impl DoubleEndedIterator<Item = u64> {
    let early = steps.first().filter(|step| step.received > 0).map(Step::time_ns);
    let came = steps.windows(2).filter(|pair| pair[1].received > pair[0].received);
    let came = came.map(|pair| match pair[0].kind() == Kind::Ack && !pair[0].is_after() {
        true => pair[0].time_ns(),
        false => pair[1].time_ns(),
    });
    early.into_iter().chain(came)
}

/// What the program wrote, and how long it had written nothing before: ns, bytes. Writes of one burst
/// are one piece.
pub(crate) fn pieces(steps: &[Step]) -> Vec<(u64, u64)> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let mut sent_ns = None;
    for pair in steps.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        if to.sent == from.sent {
            continue;
        }
        let bytes = to.sent - from.sent;
        let wait_ns = sent_ns.map(|sent_ns| to.time_ns() - sent_ns);
        let before = from.settled();
        match wait_ns.filter(|&ns| before.unsent == 0 && ns > burst_ns(&before)) {
            Some(ns) => pieces.push((ns, bytes)),
            None => pieces.last_mut().into_iter().for_each(|(_, so_far)| *so_far += bytes),
        }
        sent_ns = Some(to.time_ns());
    }
    pieces
}

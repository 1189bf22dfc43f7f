//! Verdicts for the side that receives: what can be seen from here.

use transom_event::{Kind, State};

use crate::activity::{self, Activity};
use crate::dialogue::{Dialogue, thoughts};
use crate::evidence::Evidence;
use crate::finding::Finding;
use crate::limits::IDLE_NS;
use crate::track::{Step, is_synchronized};
use crate::units::{bytes, count, percent, rate, time};
use crate::verdict;
use crate::{Cause, EpisodeKind, Limit, WindowSide};

/// Share of the time with a full receive queue from which the reader counts as slow.
pub const SLOW_READER_SHARE: f64 = 0.2;
/// Share of the offered window in use per round trip from which it counts as the limit.
pub const WINDOW_USED_SHARE: f64 = 0.8;

/// Share of the time that this side thinks before it asks from which that is the cause.
pub const THOUGHT_SHARE: f64 = 0.5;

/// A window that is at its largest in this part of the time did not grow with what came.
const EARLY: u64 = 4;

/// The most that one arrival brings; segments that wait for the socket are joined. What an `ack`
/// has brought is seen in the event after it, so one arrival does not end a silence.
const ONE_ARRIVAL: u64 = 1 << 18;

/// What to do where no buffer makes the window larger.
pub(crate) const UNSCALED: &str = "The window field can say no more: turn on window scaling (RFC 7323; net.ipv4.tcp_window_scaling) at both ends, and look for a middlebox that removes the option.";

pub(crate) fn find(evidence: &Evidence) -> Finding {
    let summary = evidence.summary;
    let queue = Queue::of(evidence);
    let busy_ns = summary.duration_ns.saturating_sub(queue.quiet_ns).max(1) as f64;
    let full = queue.full_ns as f64 / busy_ns;
    let closed = evidence.time_in(is_closed_here);
    let closed_share = closed as f64 / busy_ns;
    if full.max(closed_share) >= SLOW_READER_SHARE {
        let zero = match closed {
            0 => String::new(),
            closed => format!(", the window closed for {}", time(closed)),
        };
        let finding = format!(
            "The program here reads slowly: its receive queue was full {} of the time{} (up to {}){zero}.",
            percent(full.max(closed_share)),
            if queue.quiet_ns > 0 { " in which data came" } else { "" },
            bytes(summary.max_recv_queue.into()),
        );
        let remedy = "Look at the program here: it does not read as fast as the data comes.";
        return Finding::new(Cause::SlowReader, full.max(closed_share), finding, Some(remedy));
    }
    let receiving = evidence.limits.share(Limit::Receiving);
    let rtt_us = summary.rtt.map_or(0, |rtt| rtt.min_us);
    let per_rtt = summary.goodput_down / 8.0 * f64::from(rtt_us) / 1e6;
    if per_rtt >= WINDOW_USED_SHARE * f64::from(summary.max_rcv_wnd) && summary.max_rcv_wnd > 0 {
        let window = summary.max_rcv_wnd;
        let most = f64::from(window) * 8e6 / f64::from(rtt_us.max(1));
        // A side that sends little measures its round trip seldom, and may have measured a long one.
        let (round_trip, most) = match most < summary.goodput_down {
            true => (String::new(), summary.goodput_down),
            false => (format!(" of {}", time(u64::from(rtt_us) * 1000)), most),
        };
        let finding = format!(
            "The window offered here, {}, is all used in each round trip{round_trip}: that caps it at {}.",
            bytes(window.into()),
            rate(most),
        );
        let remedy = match summary.rcv_wnd_at_scale {
            true => UNSCALED,
            false => {
                "Raise the receive buffer here (net.ipv4.tcp_rmem, or a larger or no SO_RCVBUF)."
            }
        };
        return Finding::new(Cause::OwnWindow, receiving, finding, Some(remedy));
    }
    if let Some(finding) = asked_late(evidence).or_else(|| mostly_silent(evidence)) {
        return finding;
    }
    let window = match summary.max_rcv_wnd {
        0 => "its window not known".to_owned(),
        window => format!("window up to {}", bytes(window.into())),
    };
    let finding = format!(
        "A download of {} at {}; the program here kept up (receive queue at most {}, {window}), so the path or the other side decides.",
        bytes(summary.received),
        rate(summary.goodput_down),
        bytes(summary.max_recv_queue.into()),
    );
    let mut finding =
        Finding::new(Cause::OtherSide, receiving, finding, Some(verdict::LIMIT_THERE));
    finding.findings.extend(in_turn(evidence));
    finding.findings.extend(maybe_own_window(evidence));
    finding
}

/// Where the connection was open for longer before and after its data than these took. Who asks lets the
/// other side wait until then.
fn mostly_silent(evidence: &Evidence) -> Option<Finding> {
    let (summary, activity) = (evidence.summary, Activity::of(evidence));
    let share = activity.idle_ns() as f64 / summary.duration_ns.max(1) as f64;
    (share > THOUGHT_SHARE).then(|| {
        let cause =
            if activity::asks(evidence.steps) { Cause::Application } else { Cause::OtherSide };
        // What came in one moment has no rate.
        let took = match activity.length_ns {
            0..1000 => "came at once".to_owned(),
            length_ns => {
                let rate = rate(summary.received as f64 * 8e9 / length_ns as f64);
                format!("took {} ({rate})", time(length_ns))
            }
        };
        let finding = format!(
            "A download of {} that {took}, and the program here kept up; for {} of the time nothing was on its way, {}.",
            bytes(summary.received),
            percent(share),
            activity.silences(),
        );
        Finding::new(cause, share, finding, None)
    })
}

/// Where answers follow requests: whether the time went by before they began to come, or while they came.
fn in_turn(evidence: &Evidence) -> Option<String> {
    let dialogue = Dialogue::of(evidence);
    let until_first = dialogue.awaited - dialogue.arriving;
    (dialogue.turns > 1).then(|| {
        format!(
            "Answers were coming for {} of the time; for {} one had been asked for and nothing of it had come.",
            percent(dialogue.arriving),
            percent(until_first),
        )
    })
}

/// Where all that was asked for had come most of the time, and the program here asked for no more.
fn asked_late(evidence: &Evidence) -> Option<Finding> {
    let (summary, thoughts) = (evidence.summary, thoughts(evidence.steps));
    let idle_ns: u64 = thoughts.iter().map(|thought| thought.end - thought.start).sum();
    let share = idle_ns as f64 / summary.duration_ns.max(1) as f64;
    let busy_ns = summary.duration_ns.saturating_sub(idle_ns).max(1);
    (share > THOUGHT_SHARE).then(|| {
        let finding = format!(
            "A download of {} at {}; for {} of the time all that was asked for had come, and the program here neither answered nor asked for more, {}. In the rest {} came.",
            bytes(summary.received),
            rate(summary.goodput_down),
            percent(share),
            count(thoughts.len() as u64, "time", "times"),
            rate(summary.received as f64 * 8e9 / busy_ns as f64),
        );
        let remedy = "Look at the program here: it takes that long to answer, or to ask for the next.";
        Finding::new(Cause::Application, share, finding, Some(remedy))
    })
}

/// What the least round trip hides: behind a queue on the path a window is used up that would suffice
/// without. The round trip in between is not known here, where little is sent.
fn maybe_own_window(evidence: &Evidence) -> Option<String> {
    let (summary, window) = (evidence.summary, evidence.summary.max_rcv_wnd);
    let used_up_us = f64::from(window) * 8e6 / summary.goodput_down.max(1.0);
    let rtt =
        summary.rtt.filter(|rtt| f64::from(rtt.median_us) >= WINDOW_USED_SHARE * used_up_us)?;
    let begun_ns = evidence.steps.first()?.time_ns();
    let is_largest = |step: &&Step| step.state().rcv_wnd >= window - window / 10;
    let largest_ns = evidence.steps.iter().find(is_largest)?.time_ns() - begun_ns;
    (window > 0 && largest_ns <= summary.duration_ns / EARLY).then(|| {
        format!(
            "But that window did not grow, and is all used if a round trip takes {} (measured here, seldom: {} to {}): its buffer would be the limit then (net.ipv4.tcp_rmem, SO_RCVBUF).",
            time((used_up_us * 1e3) as u64),
            time(u64::from(rtt.min_us) * 1000),
            time(u64::from(rtt.p95_us) * 1000),
        )
    })
}

fn is_closed_here(kind: &EpisodeKind) -> bool {
    matches!(kind, EpisodeKind::ZeroWindow { by: WindowSide::Here })
}

/// How long the receive queue was full, and how long nothing came though the window was open, ns.
struct Queue {
    full_ns: u64,
    /// Before a request, and after the last answer: that the queue is empty then says nothing of
    /// how fast the program reads.
    quiet_ns: u64,
}

impl Queue {
    /// It is full when unread data left less than three quarters of the best window and are more than
    /// that; never where no window was told.
    fn of(evidence: &Evidence) -> Queue {
        let (steps, best) = (evidence.steps, evidence.summary.max_rcv_wnd);
        let unseen_ns = unseen_ns(evidence);
        let closed = evidence.episodes.iter().filter(|episode| is_closed_here(&episode.kind));
        let mut closed = closed.peekable();
        let mut queue = Queue { full_ns: 0, quiet_ns: 0 };
        for pair in steps.windows(2) {
            let (from_ns, to_ns) = (pair[0].time_ns(), pair[1].time_ns());
            let silent_ns = (to_ns - from_ns).saturating_sub(unseen_ns);
            // Who is told that there is no room sends nothing.
            while closed.next_if(|episode| episode.end_ns <= from_ns).is_some() {}
            let is_closed = closed.peek().is_some_and(|episode| episode.start_ns < to_ns);
            if is_synchronized(pair[1].state()) && is_full(pair[1].state(), best) {
                queue.full_ns += to_ns - from_ns;
            } else if silent_ns >= IDLE_NS
                && !is_closed
                && pair[1].received.saturating_sub(pair[0].received) <= ONE_ARRIVAL
            {
                queue.quiet_ns += silent_ns;
            }
        }
        queue
    }
}

/// How long data may come without being seen, where arrivals are thinned out (`--rate`), or polled:
/// then as long as most looks are apart, whichever was late.
fn unseen_ns(evidence: &Evidence) -> u64 {
    if !evidence.summary.coverage.polled {
        return evidence.told_apart_ns;
    }
    let looks = evidence.steps.iter().filter(|step| step.kind() == Kind::Sample);
    let times: Vec<u64> = looks.map(Step::time_ns).collect();
    let mut apart: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied().unwrap_or(0)
}

/// `recv_queue` counts memory, about twice the payload (`tcp_win_from_space`).
fn is_full(state: &State, best: u32) -> bool {
    let unread = state.recv_queue / 2;
    let is_known = best > 0;
    // An algorithm that paces at what the reader takes leaves the window half open.
    let closing = state.rcv_wnd < best - best / 4 && unread >= state.rcv_wnd;
    let little = u32::from(state.mss).min(best / 2);
    is_known && state.recv_queue > 0 && (closing || state.rcv_wnd < little)
}

//! Why the path let no more through: its rate, its queue, its losses, or the window's own limits.

use crate::evidence::{Evidence, SECOND_SHARE};
use crate::finding::Finding;
use crate::losses::FEWEST_LOSSES;
use crate::units::{count, percent, rate, time};
use crate::{Cause, EpisodeKind, Limit, Summary, units};

/// Round trip over the least one from which a queue on the path counts as full. A window that
/// falls to 0.7 (RFC 9438) still fills a path whose queue holds 0.43 of it.
pub const INFLATED_RTT: f64 = 1.4;
/// Share of retransmitted segments from which losses keep the window small, however few they are.
pub const LOSS_SHARE: f64 = 0.0005;
/// Share of the time limited by cwnd in slow start from which the transfer counts as too short.
pub const SLOW_START_SHARE: f64 = 0.5;
/// Fewer segments than this waiting at a loss are no queue: a sender cannot tell it from a policer.
pub const SHORTEST_QUEUE: f64 = 3.0;
/// Share of retransmitted segments that an algorithm bears that keeps to its estimate of the path;
/// more of them are no chance, but something that drops what exceeds a rate.
const LOSS_OF_OVERLOAD: f64 = 0.05;
/// Share of the time spent waiting for timers from which they are the cause.
pub const TIMEOUT_SHARE: f64 = 0.5;
pub(crate) fn find(evidence: &Evidence, share: f64) -> Finding {
    let (cause, why, remedy) = why(evidence);
    let mut finding = Finding::new(cause, share, held(evidence, share), remedy);
    finding.findings.extend(why);
    if cause != Cause::Outage {
        finding.findings.extend(interrupted(evidence, SECOND_SHARE));
    }
    finding
}

/// Which of the limits of the path held, with its number.
fn held(evidence: &Evidence, share: f64) -> String {
    let of = |limit| evidence.limits.share(limit);
    let percent = percent(share);
    let achieved = rate(evidence.summary.goodput_up);
    if of(Limit::Repair) > of(Limit::Cwnd) + of(Limit::Pacing) {
        return format!(
            "Limited by the path {percent} of the time, mostly waiting for retransmissions ({}).",
            count(evidence.summary.timeouts, "timeout", "timeouts"),
        );
    }
    if of(Limit::Pacing) > of(Limit::Cwnd) {
        return format!(
            "Paced by {} {percent} of the time, at {}, its estimate of the path; {achieved} were achieved.",
            evidence.algorithm,
            paced_at(evidence),
        );
    }
    let window = evidence.median_while(Limit::Cwnd, |state| state.cwnd);
    let bytes = u64::from(window) * u64::from(evidence.summary.mss);
    format!(
        "Limited by the congestion window {percent} of the time: {} ({}).",
        count(window.into(), "segment", "segments"),
        ceiling(evidence, Limit::Cwnd, bytes),
    )
}

/// "64 KiB over 102 ms caps it at 5.1 Mbit/s": the most a window lets through.
pub(crate) fn ceiling(evidence: &Evidence, limit: Limit, window: u64) -> String {
    let rtt_ns = u64::from(evidence.median_while(limit, |state| state.srtt_us)) * 1000;
    if rtt_ns == 0 {
        return units::bytes(window);
    }
    let most = rate(window as f64 * 8.0e9 / rtt_ns as f64);
    format!("{} over {} caps it at {most}", units::bytes(window), time(rtt_ns))
}

/// The pacing rate while it was the limit.
pub(crate) fn paced_at(evidence: &Evidence) -> String {
    let of = |state: &transom_event::State| {
        (state.pacing().unwrap_or(0) / 125).min(u32::MAX.into()) as u32
    };
    rate(f64::from(evidence.median_while(Limit::Pacing, of)) * 1000.0)
}

type Why = (Cause, Option<String>, Option<&'static str>);

fn why(evidence: &Evidence) -> Why {
    let summary = evidence.summary;
    let saturated = evidence.episodes.iter().rev().find_map(|episode| match episode.kind {
        EpisodeKind::Saturated { cwnd, at_clamp } => Some((cwnd, at_clamp)),
        _ => None,
    });
    if let Some((cwnd, at_clamp)) = saturated {
        return saturated_at(cwnd, at_clamp);
    }
    if let Some(why) = interrupted(evidence, TIMEOUT_SHARE) {
        let remedy = "The path was interrupted: look at its radio link or its routes.";
        return (Cause::Outage, Some(why), Some(remedy));
    }
    if summary.loss_share() >= LOSS_SHARE || evidence.losses.count >= FEWEST_LOSSES {
        return losses(evidence);
    }
    let is_slow_start = |kind: &EpisodeKind| matches!(kind, EpisodeKind::SlowStart { .. });
    let opening = evidence.share_within(&[Limit::Cwnd, Limit::Pacing], is_slow_start);
    let inflated = inflation(summary) >= INFLATED_RTT;
    if opening >= SLOW_START_SHARE && !inflated {
        let why = format!(
            "It was in slow start for {} of its {}.",
            time(evidence.time_in(is_slow_start)),
            time(summary.duration_ns)
        );
        let remedy = "The transfer is too short to fill the path: reuse the connection, or raise the initial window (ip route … initcwnd).";
        return (Cause::SlowStart, Some(why), Some(remedy));
    }
    if inflated || paced_by_algorithm(evidence) {
        let losses = match summary.retransmitted.total() {
            0 => "without loss".to_owned(),
            n => format!("{} retransmitted", count(n, "segment", "segments")),
        };
        let why = format!("{}, {losses}.", beside_minimum(summary));
        return (Cause::FullPath, Some(why), Some(FULL_PATH));
    }
    (Cause::Cwnd, None, None)
}

/// An algorithm that estimates the path's rate and keeps to it.
fn paced_by_algorithm(evidence: &Evidence) -> bool {
    evidence.limits.share(Limit::Pacing) > evidence.limits.share(Limit::Cwnd)
}

fn inflation(summary: &Summary) -> f64 {
    summary.rtt.map_or(1.0, |rtt| f64::from(rtt.median_us) / f64::from(rtt.min_us.max(1)))
}

/// Time that went by without any answer, in several timeouts in a row each: how long, how often.
fn interruptions(evidence: &Evidence) -> (u64, u64) {
    let stalls = evidence.episodes.iter().filter_map(|episode| match episode.kind {
        EpisodeKind::Timeout { timeouts, stalled_ns, .. } if timeouts > 1 => Some(stalled_ns),
        _ => None,
    });
    stalls.fold((0_u64, 0), |(sum, n), stalled| (sum.saturating_add(stalled), n + 1))
}

/// The sentence about interruptions that took this share of the time or more.
fn interrupted(evidence: &Evidence, share: f64) -> Option<String> {
    let duration = evidence.summary.duration_ns;
    let (stalled, times) = interruptions(evidence);
    let is_long = times > 0 && stalled as f64 >= share * duration as f64;
    is_long.then(|| {
        format!(
            "Nothing came back for {} of its {}, in {}.",
            time(stalled),
            time(duration),
            count(times, "interruption", "interruptions"),
        )
    })
}

fn losses(evidence: &Evidence) -> Why {
    let (summary, losses) = (evidence.summary, evidence.losses);
    let seen = format!(
        "{} retransmitted ({}), {}; {}.",
        count(summary.retransmitted.total(), "segment", "segments"),
        percent(summary.loss_share()),
        count(summary.timeouts, "timeout", "timeouts"),
        beside_minimum(summary),
    );
    let segments_a_second = summary.goodput_up / 8.0 / f64::from(summary.mss.max(1));
    let queue = losses.queue(segments_a_second);
    let because = |more: String| Some(format!("{seen} {more}"));
    let inflation = if losses.follow_delay() { losses.inflation() } else { inflation(summary) };
    if inflation >= INFLATED_RTT {
        return (Cause::FullPath, Some(seen), Some(FULL_PATH));
    }
    if losses.follow_delay() && queue >= SHORTEST_QUEUE {
        let waits = time(u64::from(losses.rtt_us.saturating_sub(losses.base_us)) * 1000);
        let more = format!(
            "The {} losses come where the queue is longest ({waits}, some {queue:.0} segments): it overflows before a reduced window fills the path.",
            losses.count
        );
        return (Cause::ShallowBuffer, because(more), Some(SHALLOW_BUFFER));
    }
    let [low, flight, high] = losses.flight;
    let at = format!("{} losses at {low} to {high} segments in flight", losses.load.losses);
    if losses.follow_load() {
        let most = f64::from(flight) * f64::from(summary.mss) * 8e6;
        let more = format!(
            "They follow the load ({at}), the RTT does not: above some {} it is dropped without a queue.",
            rate(most / f64::from(losses.rtt_us.max(1)))
        );
        return (Cause::Policer, because(more), Some(POLICER));
    }
    if paced_by_algorithm(evidence) && summary.loss_share() < LOSS_OF_OVERLOAD {
        return (Cause::FullPath, Some(seen), Some(FULL_PATH));
    }
    if losses.ignore_load() && !paced_by_algorithm(evidence) {
        let more = format!("They do not follow the load ({at}).");
        return (Cause::RandomLoss, because(more), Some(RANDOM_LOSS));
    }
    if evidence.limits.share(Limit::Repair) >= TIMEOUT_SHARE {
        return (Cause::Timeouts, Some(seen), Some(TIMEOUTS));
    }
    let more = "Whether a queue overflows or chance drops them cannot be told.".to_owned();
    (Cause::UnclearLoss, because(more), Some(UNCLEAR_LOSS))
}

/// `RTT 35 ms, minimum 18 ms`: the queues of the path are what lies between.
fn beside_minimum(summary: &Summary) -> String {
    match summary.rtt {
        Some(rtt) => {
            let ns = |us: u32| time(u64::from(us) * 1000);
            format!("RTT {}, minimum {}", ns(rtt.median_us), ns(rtt.min_us))
        }
        None => "RTT not measured".to_owned(),
    }
}

const FULL_PATH: &str = "The path is full; this is its rate, and no setting here will raise it.";
const SHALLOW_BUFFER: &str = "Send more smoothly (pacing, fq) or lengthen that queue; an algorithm that bears loss (BBR) would lose more there.";
const POLICER: &str =
    "Shape to that rate here (tc, SO_MAX_PACING_RATE), so that nothing is dropped there.";
const RANDOM_LOSS: &str = "Loss at any load is not congestion: look for a bad link (radio, cable); an algorithm that bears loss (BBR) would keep a larger window.";
const UNCLEAR_LOSS: &str = "A longer recording shows it: random loss comes at any load, a queue overflows at the greatest.";
const TIMEOUTS: &str = "The path drops whole bursts or the last segments of a transfer: look at its queue and its radio link.";

fn saturated_at(cwnd: u32, at_clamp: bool) -> Why {
    if at_clamp {
        let why = format!("cwnd stood at its clamp of {cwnd} segments.");
        let remedy = "Raise or remove the clamp (TCP_WINDOW_CLAMP, a policy, route metric cwnd).";
        return (Cause::Saturated, Some(why), Some(remedy));
    }
    let why =
        format!("cwnd stayed at {cwnd} segments, without loss, though the sender would use more.");
    let remedy = "Something outside of the algorithm holds it: look for a route metric (ip route: cwnd lock) or the send buffer.";
    (Cause::Saturated, Some(why), Some(remedy))
}

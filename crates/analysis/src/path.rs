//! Why the path let no more through: its rate, its queue, its losses, or the window's own limits.

use crate::evidence::{Evidence, SECOND_SHARE};
use crate::finding::Finding;
use crate::losses::{FEWEST_LOSSES, Losses, SHORTEST_QUEUE};
use crate::units::{count, percent, rate, time};
use crate::{Cause, EpisodeKind, Limit, Rtt, Summary, units};

/// Round trip over the least one from which a queue on the path counts as full. A window that
/// falls to 0.7 (RFC 9438) still fills a path whose queue holds 0.43 of it.
pub const INFLATED_RTT: f64 = 1.4;
/// Share of retransmitted segments from which losses keep the window small, however few they are.
pub const LOSS_SHARE: f64 = 0.0005;
/// Share of the time limited by cwnd in slow start from which the transfer counts as too short.
pub const SLOW_START_SHARE: f64 = 0.5;
/// Where losses keep the mean rate far below that of the path, so many are one, if they take such a
/// share of the least round trip.
const SHORTEST_QUEUE_LOSSY: (f64, f64) = (1.0, 0.04);
/// So many segments in flight, and a delayed ACK does not make the RTT long (RFC 9293 3.8.6.3).
const MANY_IN_FLIGHT: u32 = 20;
/// So many segments waiting most of the time, and such an RTT over the least one, are a full path
/// under an algorithm that stops growing, or paces, before a queue is full.
pub const STANDING_QUEUE: f64 = 3.0;
pub const STANDING_RTT: f64 = 1.05;
/// Fewer segments than this between the least round trip and the median one are the one that a slow
/// link is busy with, and hardly another: in simulated paths that lose 5 % and more at random, such a
/// link had nothing to send for a quarter of the time or longer.
const HARDLY_A_QUEUE: f64 = 2.0;
/// Up to so many times as many timeouts that follow another as the share of lost segments explains
/// are chance: it loses what is retransmitted as easily as the rest.
const TIMEOUTS_IN_A_ROW: f64 = 2.0;
/// Share of retransmitted segments from which an algorithm that paces at its estimate of the path
/// meets something that drops what exceeds a rate, if no queue grows.
const LOSS_OF_OVERLOAD: f64 = 0.01;
/// So many reductions of cwnd for marks of the path (ECN), and more than losses, are a path that is
/// full: it says so before it drops.
const FEWEST_MARKS: u64 = 3;
/// An RTT over the least one that shows a queue while BBR probes with 5/4 of its estimate.
const PROBED_RTT: f64 = 1.1;
/// Share of the retransmitted segments that the other side had already (D-SACK, RFC 2883) from which
/// the path does not lose, but delivers late.
const NEEDLESS_SHARE: f64 = 1.0 / 3.0;
/// Share of the time that interruptions take from which they are the cause, whatever else limits.
const OUTAGE_SHARE: f64 = 1.0 / 3.0;
/// Share of the time limited by cwnd that it stands at its clamp, or flat, from which that is the
/// cause.
pub const SATURATED_SHARE: f64 = 0.5;
/// Share of the time spent waiting for timers from which they are the cause.
pub const TIMEOUT_SHARE: f64 = 0.5;
pub(crate) fn find(evidence: &Evidence, share: f64) -> Finding {
    let (cause, why, remedy) = why(evidence);
    if cause == Cause::Little {
        return Finding::new(cause, share, round_trip(evidence, share), None);
    }
    let mut finding = Finding::new(cause, share, held(evidence, share), remedy);
    let delivery = evidence.delivery_share;
    if delivery >= SECOND_SHARE && !evidence.is_mostly_delivery() {
        let more =
            format!("For {} of the time all had left and was on its way.", percent(delivery));
        finding.findings.push(more);
    }
    finding.findings.extend(why);
    finding
}

/// Where all left at once and met no queue.
fn round_trip(evidence: &Evidence, share: f64) -> String {
    format!(
        "All {} left without a wait for the path, and their delivery took {} of the {} ({}): nothing but the round trip limited it.",
        units::bytes(evidence.summary.acked),
        percent(share),
        time(evidence.summary.duration_ns),
        beside_minimum(evidence.summary),
    )
}

/// Which of the limits of the path held, with its number.
fn held(evidence: &Evidence, share: f64) -> String {
    let of = |limit| evidence.limits.share(limit);
    let percent = percent(share);
    let achieved = rate(evidence.summary.goodput_up);
    if evidence.is_mostly_delivery() {
        return format!(
            "Limited by the path {percent} of the time: for {} all had left and was on its way; {achieved} were achieved.",
            units::percent(evidence.delivery_share),
        );
    }
    if of(Limit::Repair) > of(Limit::Cwnd) + of(Limit::Pacing) {
        return format!(
            "Limited by the path {percent} of the time, mostly waiting for retransmissions ({}).",
            count(evidence.summary.timeouts, "timeout", "timeouts"),
        );
    }
    if of(Limit::Pacing) > of(Limit::Cwnd) && !estimates_rate(evidence.algorithm) {
        return format!(
            "Paced {percent} of the time, at {}, a rate made from the window and not an estimate of the path (pacing is on: {} asks for it, or an earlier algorithm or the program did); {achieved} were achieved.",
            paced_at(evidence),
            evidence.algorithm,
        );
    }
    if of(Limit::Pacing) > of(Limit::Cwnd) {
        return format!(
            "Limited by the path {percent} of the time, mostly by the rate at which {} paces, {}, its estimate of the path; {achieved} were achieved.",
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

/// "64 KiB over 102 ms caps it at 5.1 Mbit/s": the most a window lets through. One that grew while it
/// was full let more through in the end, and caps nothing.
pub(crate) fn ceiling(evidence: &Evidence, limit: Limit, window: u64) -> String {
    let rtt_ns = u64::from(evidence.median_while(limit, |state| state.srtt_us)) * 1000;
    if rtt_ns == 0 {
        return units::bytes(window);
    }
    let most = window as f64 * 8.0e9 / rtt_ns as f64;
    let caps = match most < evidence.summary.goodput_up {
        true => String::new(),
        false => format!(" caps it at {}", rate(most)),
    };
    format!("{} over {}{caps}", units::bytes(window), time(rtt_ns))
}

/// The pacing rate while it was the limit.
pub(crate) fn paced_at(evidence: &Evidence) -> String {
    let of = |state: &transom_event::State| {
        (state.pacing().unwrap_or(0) / 125).min(u32::MAX.into()) as u32
    };
    rate(f64::from(evidence.median_while(Limit::Pacing, of)) * 1000.0)
}

/// A buffer or window that is full because a queue on the path is: more of it lengthens the queue.
pub(crate) fn full_behind(evidence: &Evidence, limit: Limit, share: f64) -> Option<Finding> {
    let summary = evidence.summary;
    let flight = evidence.median_while(limit, |state| state.outstanding()) / summary.mss.max(1);
    let rtt_us = evidence.median_while(limit, |state| state.srtt_us);
    let least_us = summary.rtt.map_or(0, |rtt| rtt.min_us);
    let queued = f64::from(rtt_us) >= INFLATED_RTT * f64::from(least_us) && least_us > 0;
    (queued && flight >= MANY_IN_FLIGHT).then(|| {
        let finding = format!(
            "All of the {} is in use {} of the time, but a queue on the path holds it: {}, {} achieved.",
            limit.label(),
            percent(share),
            beside_minimum(summary),
            rate(summary.goodput_up),
        );
        Finding::new(Cause::FullPath, share, finding, Some(FULL_PATH))
    })
}

type Why = (Cause, Option<String>, Option<&'static str>);

fn why(evidence: &Evidence) -> Why {
    let uninterrupted = match saturated(evidence) {
        Some((cwnd, at_clamp)) => saturated_at(cwnd, at_clamp),
        None => why_uninterrupted(evidence),
    };
    match interrupted(evidence, outage_share(uninterrupted.0)) {
        Some(why) if !interrupts_by_chance(evidence, uninterrupted.0) => {
            (Cause::Outage, Some(why), Some(OUTAGE))
        }
        _ => uninterrupted,
    }
}

fn interrupts_by_chance(evidence: &Evidence, otherwise: Cause) -> bool {
    let summary = evidence.summary;
    let in_a_row: u64 = interruptions(evidence).map(|(_, timeouts)| u64::from(timeouts) - 1).sum();
    let expected = summary.loss_share() * summary.timeouts as f64;
    otherwise == Cause::RandomLoss && in_a_row as f64 <= TIMEOUTS_IN_A_ROW * expected
}

/// The share of time from which an interruption is the cause, whatever else is.
fn outage_share(otherwise: Cause) -> f64 {
    match otherwise {
        // Where nothing else can be mended, the interruption is what there is to say.
        Cause::FullPath | Cause::Cwnd | Cause::SlowStart | Cause::UnclearLoss => SECOND_SHARE,
        Cause::OtherSide => SECOND_SHARE,
        _ => OUTAGE_SHARE,
    }
}

/// What a download is told, unless its own requests, or its answers, were not answered for long.
pub(crate) fn unless_interrupted(evidence: &Evidence, download: Finding) -> Finding {
    let Some(why) = interrupted(evidence, outage_share(download.cause)) else { return download };
    let (stalled_ns, _) = interrupted_ns(evidence);
    let share = stalled_ns as f64 / evidence.summary.duration_ns.max(1) as f64;
    Finding::new(Cause::Outage, share, why, Some(OUTAGE))
}

/// The window that did not grow, and whether a clamp held it.
fn saturated(evidence: &Evidence) -> Option<(u32, bool)> {
    let is_flat = |kind: &EpisodeKind| matches!(kind, EpisodeKind::Saturated { .. });
    let longest = evidence.episodes.iter().filter(|episode| is_flat(&episode.kind));
    let flat = longest.max_by_key(|episode| episode.length_ns()).and_then(|stay| match stay.kind {
        EpisodeKind::Saturated { cwnd, at_clamp } => Some((cwnd, at_clamp)),
        _ => None,
    });
    let share = evidence.share_within(&[Limit::Cwnd, Limit::Pacing], is_flat);
    flat.filter(|_| share >= SATURATED_SHARE).or_else(|| {
        // Losses may end every stay there, and it comes back each time.
        let cwnd = evidence.median_while(Limit::Cwnd, |state| state.cwnd);
        let clamp = evidence.median_while(Limit::Cwnd, |state| state.clamp);
        (cwnd > 0 && cwnd >= clamp).then_some((cwnd, true))
    })
}

fn why_uninterrupted(evidence: &Evidence) -> Why {
    let summary = evidence.summary;
    if let Some(marked) = marked(evidence) {
        return match waiting(summary, |rtt| rtt.p95_us) >= STANDING_QUEUE {
            true => (Cause::FullPath, Some(marked), Some(FULL_PATH)),
            false => (Cause::Cwnd, Some(format!("{marked} {NO_QUEUE_MARKED}")), Some(MARKED)),
        };
    }
    if summary.loss_share() >= LOSS_SHARE || evidence.losses.count >= FEWEST_LOSSES {
        return losses(evidence);
    }
    if summary.timeouts > 0 && evidence.limits.share(Limit::Repair) >= TIMEOUT_SHARE {
        return (Cause::Timeouts, None, Some(TIMEOUTS));
    }
    let is_slow_start = |kind: &EpisodeKind| matches!(kind, EpisodeKind::SlowStart { .. });
    let opening = evidence.share_within(&[Limit::Cwnd, Limit::Pacing], is_slow_start);
    let (is_delivery, inflated) = (evidence.is_mostly_delivery(), is_inflated(evidence));
    if opening >= SLOW_START_SHARE && !inflated {
        let why = format!(
            "It was in slow start for {} of its {}.",
            time(evidence.time_in(is_slow_start)),
            time(summary.duration_ns)
        );
        let remedy = "The transfer is too short to fill the path: reuse the connection, or raise the initial window (ip route … initcwnd).";
        return (Cause::SlowStart, Some(why), Some(remedy));
    }
    let estimated = paced_by_estimate(evidence) && !is_delivery;
    if inflated || estimated || has_standing_queue(evidence) {
        let losses = match summary.retransmitted.data() {
            0 => "without loss".to_owned(),
            n => format!("{} retransmitted", count(n, "segment", "segments")),
        };
        let why = format!("{}, {losses}.", beside_minimum(summary));
        return (Cause::FullPath, Some(why), Some(FULL_PATH));
    }
    (if is_delivery { Cause::Little } else { Cause::Cwnd }, None, None)
}

/// The sentence about marks of the path.
fn marked(evidence: &Evidence) -> Option<String> {
    let marks = evidence.summary.congestion_marks;
    (marks >= FEWEST_MARKS && marks > evidence.losses.count as u64).then(|| {
        let times = count(marks, "time", "times");
        let rtt = beside_minimum(evidence.summary);
        format!("The path marks congestion (ECN): cwnd was reduced {times} for it; {rtt}.")
    })
}

/// An algorithm that estimates the path's rate and keeps to it.
fn paced_by_estimate(evidence: &Evidence) -> bool {
    let share = |limit| evidence.limits.share(limit);
    estimates_rate(evidence.algorithm) && share(Limit::Pacing) > share(Limit::Cwnd)
}

/// BBR of any version: it paces at the rate that it has measured, and bears losses.
fn estimates_rate(algorithm: &str) -> bool {
    algorithm.starts_with("bbr")
}

/// A queue most of the time, under an algorithm that does not let it become long.
fn has_standing_queue(evidence: &Evidence) -> bool {
    const SHORT_QUEUES: [&str; 3] = ["steady", "vegas", "bbr"];
    let short = SHORT_QUEUES.iter().any(|name| evidence.algorithm.starts_with(name));
    short
        && inflation(evidence.summary) >= STANDING_RTT
        && waiting(evidence.summary, |rtt| rtt.median_us) >= STANDING_QUEUE
}

/// Segments that wait on the path when the round trip is as long as this.
fn waiting(summary: &Summary, of: fn(&Rtt) -> u32) -> f64 {
    let waits_us = summary.rtt.map_or(0, |rtt| of(&rtt).saturating_sub(rtt.min_us));
    f64::from(waits_us) * segment_rate(summary) / 1e6
}

/// Segments acknowledged in a second.
fn segment_rate(summary: &Summary) -> f64 {
    summary.goodput_up / 8.0 / f64::from(summary.mss.max(1))
}

fn inflation(summary: &Summary) -> f64 {
    summary.rtt.map_or(1.0, |rtt| f64::from(rtt.median_us) / f64::from(rtt.min_us.max(1)))
}

/// The few round trips of a delivery vary by themselves: a queue has segments that wait in it.
fn is_inflated(evidence: &Evidence) -> bool {
    let waits = || waiting(evidence.summary, |rtt| rtt.p95_us) >= STANDING_QUEUE;
    inflation(evidence.summary) >= INFLATED_RTT && (!evidence.is_mostly_delivery() || waits())
}

/// A queue that long most of the time, also where all but the first segments met it.
fn has_long_queue(evidence: &Evidence) -> bool {
    let waits = waiting(evidence.summary, |rtt| rtt.median_us);
    inflation(evidence.summary) >= INFLATED_RTT && waits >= STANDING_QUEUE
}

/// A slow link takes its time for each segment, and longer for full ones than for those that set the
/// least round trip: that is no queue, and losses at any load are not of one.
fn is_seldom_full(evidence: &Evidence) -> bool {
    let waits = waiting(evidence.summary, |rtt| rtt.median_us);
    evidence.losses.ignore_load() && waits < HARDLY_A_QUEUE
}

/// Time that went by without any answer, in several timeouts in a row each: how long, how many.
fn interruptions(evidence: &Evidence) -> impl Iterator<Item = (u64, u32)> {
    evidence.episodes.iter().filter_map(|episode| match episode.kind {
        EpisodeKind::Timeout { timeouts, stalled_ns, .. } if timeouts > 1 => {
            Some((stalled_ns, timeouts))
        }
        _ => None,
    })
}

/// How long they took together, and how many there were.
fn interrupted_ns(evidence: &Evidence) -> (u64, u64) {
    interruptions(evidence)
        .fold((0_u64, 0), |(sum, n), (stalled_ns, _)| (sum.saturating_add(stalled_ns), n + 1))
}

/// The sentence about interruptions that took this share of the time or more.
pub(crate) fn interrupted(evidence: &Evidence, share: f64) -> Option<String> {
    let duration = evidence.summary.duration_ns;
    let (stalled, times) = interrupted_ns(evidence);
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
        count(summary.retransmitted.data(), "segment", "segments"),
        percent(summary.loss_share()),
        count(summary.timeouts, "timeout", "timeouts"),
        beside_minimum(summary),
    );
    let per_second = segment_rate(summary);
    let queue = losses.queue(per_second);
    let because = |more: String| Some(format!("{seen} {more}"));
    if losses.are_here() {
        return lost_here(evidence, &seen);
    }
    let is_full = match losses.follow_delay() {
        true => losses.inflation() >= INFLATED_RTT || has_long_queue(evidence),
        false => is_inflated(evidence) && !is_seldom_full(evidence),
    };
    if is_full {
        return (Cause::FullPath, Some(seen), Some(FULL_PATH));
    }
    if has_standing_queue(evidence) {
        return (Cause::FullPath, Some(seen), Some(FULL_PATH));
    }
    if let Some(needless) = needless(evidence) {
        return (Cause::Reordering, because(needless), Some(REORDERING));
    }
    let (least, part) = SHORTEST_QUEUE_LOSSY;
    let overflows = queue >= SHORTEST_QUEUE || queue >= least && losses.inflation() >= 1.0 + part;
    if losses.follow_delay() && overflows {
        let waits = time(u64::from(losses.rtt_us.saturating_sub(losses.base_us)) * 1000);
        let more = format!(
            "The {} losses come where the queue is longest ({waits}, some {queue:.0} segments): it overflows before a reduced window fills the path.",
            losses.count
        );
        return (Cause::ShallowBuffer, because(more), Some(SHALLOW_BUFFER));
    }
    let at = at_loads(losses);
    if losses.are_policed(per_second) {
        let most = f64::from(losses.flight[1]) * f64::from(summary.mss) * 8e6;
        let dropped_above = (most / f64::from(losses.rtt_us.max(1))).max(summary.goodput_up);
        let more = format!(
            "They follow the load ({at}), the RTT does not: above some {} it is dropped without a queue.",
            rate(dropped_above)
        );
        return (Cause::Policer, because(more), Some(POLICER));
    }
    if losses.come_behind_a_queue(per_second) && losses.inflation() >= INFLATED_RTT {
        return (Cause::FullPath, Some(seen), Some(FULL_PATH));
    }
    let is_dropped = is_dropped_without_queue(evidence);
    let are_many = summary.retransmitted.data() >= FEWEST_LOSSES as u64;
    // One of ten segments that is lost says nothing of a rate.
    if estimates_rate(evidence.algorithm) && (are_many || !is_dropped) {
        return match is_dropped {
            false => (Cause::FullPath, Some(seen), Some(FULL_PATH)),
            true => (Cause::Policer, because(NO_QUEUE.to_owned()), Some(POLICER)),
        };
    }
    if losses.ignore_load() {
        let more = format!("They do not follow the load ({at}).");
        return (Cause::RandomLoss, because(more), Some(RANDOM_LOSS));
    }
    if evidence.limits.share(Limit::Repair) >= TIMEOUT_SHARE {
        return (Cause::Timeouts, Some(seen), Some(TIMEOUTS));
    }
    let more = "Whether a queue overflows or chance drops them cannot be told.".to_owned();
    (Cause::UnclearLoss, because(more), Some(UNCLEAR_LOSS))
}

/// What this machine's own device or its queue dropped: where that overflows, the link here is the
/// bottleneck; where it drops at any load, it is not.
fn lost_here(evidence: &Evidence, seen: &str) -> Why {
    let (summary, losses) = (evidence.summary, evidence.losses);
    let refused = count(summary.local_congestion, "segment", "segments");
    let because = |more: String| {
        let here = "This machine's own device or its queue refused";
        Some(format!("{seen} {here} {refused}, most of what was lost{more}"))
    };
    if losses.ignore_load() && !losses.follow_delay() {
        // Beside others it drops when their segments fill it; BBR then has a queue all the time.
        if estimates_rate(evidence.algorithm) && has_long_queue(evidence) {
            let more = format!(
                ", behind a queue most of the time, whatever this connection had in flight ({}): others may fill it, too, and the link here is the bottleneck.",
                at_loads(losses)
            );
            return (Cause::LocalDevice, because(more), Some(OWN_QUEUE));
        }
        let more = format!(
            ", and not at the greatest loads ({}): it does not overflow.",
            at_loads(losses)
        );
        return (Cause::RandomLoss, because(more), Some(RANDOM_LOSS_HERE));
    }
    let waits = inflation(summary) >= INFLATED_RTT || has_standing_queue(evidence);
    if losses.are_of_the_load() || losses.follow_delay() || waits {
        let more = ": the link here is the bottleneck.".to_owned();
        return (Cause::LocalDevice, because(more), Some(OWN_QUEUE));
    }
    let more = ". Whether it overflows or drops by chance cannot be told.".to_owned();
    (Cause::UnclearLoss, because(more), Some(UNCLEAR_LOSS))
}

/// "7 losses at 20 to 44 segments in flight"
fn at_loads(losses: &Losses) -> String {
    let [low, _, high] = losses.flight;
    format!("{} losses at {low} to {high} segments in flight", losses.load.losses)
}

/// BBR sends more than it estimates in every cycle: that makes a queue wherever there is one.
fn is_dropped_without_queue(evidence: &Evidence) -> bool {
    let summary = evidence.summary;
    let queued = summary.rtt.is_some_and(|rtt| {
        f64::from(rtt.p95_us) >= PROBED_RTT * f64::from(rtt.min_us)
            && waiting(summary, |rtt| rtt.p95_us) >= STANDING_QUEUE
    });
    summary.loss_share() >= LOSS_OF_OVERLOAD && !queued
}

/// The sentence about segments that were retransmitted though they had arrived.
fn needless(evidence: &Evidence) -> Option<String> {
    let summary = evidence.summary;
    let repaired = summary.retransmitted.data() - summary.retransmitted.tlp;
    let many = summary.d_sacks as f64 >= NEEDLESS_SHARE * repaired as f64;
    (many && summary.d_sacks >= FEWEST_LOSSES as u64).then(|| {
        let had = count(summary.d_sacks, "segment", "segments");
        format!("The other side had {had} of them already (D-SACK): they were late, not lost.")
    })
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

pub(crate) const FULL_PATH: &str =
    "The path is full; this is its rate, and no setting here will raise it.";
const NO_QUEUE_MARKED: &str = "No queue shows in the RTT: whether the path is full and kept short of one, or marks by chance, cannot be told.";
const MARKED: &str = "Look for what marks (tc -s qdisc on the way, ecn_mark): a threshold far below a round trip's worth of data keeps cwnd small.";
pub(crate) const OWN_QUEUE: &str =
    "Lengthen the device's queue (ip link set DEV txqueuelen, tc qdisc limit) or use fq_codel.";
const SHALLOW_BUFFER: &str = "Send more smoothly (pacing, fq) or lengthen that queue; an algorithm that bears loss (BBR) would lose more there.";
const POLICER: &str =
    "Shape to that rate here (tc, SO_MAX_PACING_RATE), so that nothing is dropped there.";
const RANDOM_LOSS: &str = "Loss at any load is not congestion: look for a bad link (radio, cable); an algorithm that bears loss (BBR) would keep a larger window.";
const RANDOM_LOSS_HERE: &str = "Look at what the device's queue drops here (tc -s qdisc): netem, as tests set it, drops at any load.";
const NO_QUEUE: &str = "More is sent than arrives, and no queue grows even while the algorithm probes for a higher rate: what exceeds a rate is dropped.";
const REORDERING: &str = "The path delivers out of order by more than TCP bears: look for parallel links or radio retransmissions; net.ipv4.tcp_reordering and tcp_max_reordering are what it bears.";
const OUTAGE: &str = "The path was interrupted: look at its radio link or its routes.";
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

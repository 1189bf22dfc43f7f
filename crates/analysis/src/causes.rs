//! From shares of time to the one cause that matters, with its numbers and its remedy.

use crate::evidence::{DOWNLOAD_RATIO, Evidence, LITTLE_BYTES, SECOND_SHARE};
use crate::finding::Finding;
use crate::units::{count, rate, time};
use crate::{Cause, CollapseCause, EpisodeKind, Limit, Summary, downloads, units};

/// Smoothed RTT over minimum RTT from which a queue on the path counts as full.
pub const INFLATED_RTT: f64 = 1.5;
/// Share of segments sent again from which loss is named as what keeps the window small.
pub const LOSS_SHARE: f64 = 0.0005;
/// Share of the time in slow start from which the transfer counts as too short.
pub const SLOW_START_SHARE: f64 = 0.5;

/// The sender's limits; `idle` counts as the program's when it also sends.
const SENDER: [Limit; 7] = [
    Limit::Cwnd,
    Limit::ReceiverWindow,
    Limit::SendBuffer,
    Limit::Application,
    Limit::Pacing,
    Limit::LocalDevice,
    Limit::Repair,
];

fn share_of(evidence: &Evidence, limit: Limit) -> f64 {
    let own = evidence.limits.share(limit);
    if limit == Limit::Application { own + evidence.limits.share(Limit::Idle) } else { own }
}

pub(crate) fn find(evidence: &Evidence) -> Finding {
    let summary = evidence.summary;
    let limits = evidence.limits;
    if summary.acked + summary.received == 0 && limits.share(Limit::Handshake) > 0.5 {
        return no_answer(evidence);
    }
    if summary.received > DOWNLOAD_RATIO * summary.acked && summary.received >= LITTLE_BYTES {
        return downloads::find(evidence);
    }
    let mut ranked = SENDER.map(|limit| (share_of(evidence, limit), limit));
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(share, limit), second, ..] = ranked;
    let stalled = matches!(limit, Limit::ReceiverWindow | Limit::Repair | Limit::LocalDevice);
    if summary.acked + summary.received < LITTLE_BYTES && !stalled {
        let bytes = summary.acked + summary.received;
        let finding =
            format!("Only {bytes} B in {}: nothing held it back.", time(summary.duration_ns));
        return Finding::new(Cause::Little, share, finding, None);
    }
    if share == 0.0 {
        let finding = "Too little was seen to say what held it back.".to_owned();
        return Finding::new(Cause::Unknown, limits.share(Limit::Unknown), finding, None);
    }
    let mut finding = of_limit(evidence, limit, share);
    if second.0 >= SECOND_SHARE {
        let label = second.1.label();
        finding.findings.push(format!("Next: {label}, {} of the time.", units::percent(second.0)));
    }
    finding
}

fn no_answer(evidence: &Evidence) -> Finding {
    let (syns, share) =
        (evidence.summary.retransmitted.syn, evidence.limits.share(Limit::Handshake));
    let duration = time(evidence.summary.duration_ns);
    let finding =
        format!("The handshake did not finish in {duration}; SYN sent again {syns} times.");
    let remedy = "Is the port open, and does a firewall drop the SYN?";
    Finding::new(Cause::Handshake, share, finding, Some(remedy))
}

fn of_limit(evidence: &Evidence, limit: Limit, share: f64) -> Finding {
    match limit {
        Limit::ReceiverWindow => receiver_window(evidence, share),
        Limit::SendBuffer => send_buffer(evidence, share),
        Limit::Pacing => pacing(evidence, share),
        Limit::LocalDevice => local_device(evidence, share),
        Limit::Repair => timeouts(evidence, share),
        Limit::Cwnd => cwnd(evidence, share),
        _ => application(evidence, share),
    }
}

fn srtt_ns(evidence: &Evidence, limit: Limit) -> u64 {
    u64::from(evidence.median_while(limit, |state| state.srtt_us)) * 1000
}

/// "64 KiB over 102 ms caps it at 5.1 Mbit/s": the most a window lets through.
fn ceiling(window: u64, rtt_ns: u64) -> String {
    if rtt_ns == 0 {
        return units::bytes(window);
    }
    let most = rate(window as f64 * 8.0e9 / rtt_ns as f64);
    format!("{} over {} caps it at {most}", units::bytes(window), time(rtt_ns))
}

fn receiver_window(evidence: &Evidence, share: f64) -> Finding {
    let window = u64::from(evidence.median_while(Limit::ReceiverWindow, |state| state.snd_wnd));
    let percent = units::percent(share);
    let closed = evidence
        .time_in(|kind| matches!(kind, EpisodeKind::ZeroWindow { by: crate::WindowSide::Other }));
    if closed as f64 > evidence.limits.time_ns(Limit::ReceiverWindow) as f64 / 2.0 {
        let finding = format!(
            "The other side's window was closed for {} ({percent} of the time limited by it): its program does not read.",
            time(closed)
        );
        let remedy = "Look at the program on the other side.";
        return Finding::new(Cause::ReceiverWindow, share, finding, Some(remedy));
    }
    let ceiling = ceiling(window, srtt_ns(evidence, Limit::ReceiverWindow));
    let finding = format!("Limited by the receiver's window {percent} of the time: {ceiling}.");
    let remedy = "Raise the receiver's buffer (net.ipv4.tcp_rmem or SO_RCVBUF there), or let its program read faster.";
    Finding::new(Cause::ReceiverWindow, share, finding, Some(remedy))
}

fn send_buffer(evidence: &Evidence, share: f64) -> Finding {
    let outstanding = u64::from(evidence.median_while(Limit::SendBuffer, |s| s.outstanding()));
    let ceiling = ceiling(outstanding, srtt_ns(evidence, Limit::SendBuffer));
    let percent = units::percent(share);
    let finding = format!("Limited by its own send buffer {percent} of the time: {ceiling}.");
    let remedy = "Raise it (net.ipv4.tcp_wmem, or a larger or no SO_SNDBUF in the program).";
    Finding::new(Cause::SendBuffer, share, finding, Some(remedy))
}

fn pacing(evidence: &Evidence, share: f64) -> Finding {
    let of = |state: &transom_event::State| {
        (state.pacing().unwrap_or(0) / 125).min(u32::MAX.into()) as u32
    };
    let paced = rate(f64::from(evidence.median_while(Limit::Pacing, of)) * 1000.0);
    let percent = units::percent(share);
    let finding = format!("Paced {percent} of the time, at {paced}, below what its windows allow.");
    let remedy = "That rate is the algorithm's estimate of the path, or SO_MAX_PACING_RATE set by the program.";
    Finding::new(Cause::Pacing, share, finding, Some(remedy))
}

fn local_device(evidence: &Evidence, share: f64) -> Finding {
    let percent = units::percent(share);
    let refused = evidence.summary.local_congestion;
    if refused == 0 {
        let finding = format!(
            "Limited by this machine's device {percent} of the time: its queue held enough of this connection (TCP small queues), no window did."
        );
        let remedy = "The link here is the bottleneck; nothing in TCP will speed it up.";
        return Finding::new(Cause::LocalDevice, share, finding, Some(remedy));
    }
    let collapses = evidence.episodes(|kind| {
        matches!(kind, EpisodeKind::WindowCollapse { cause: CollapseCause::LocalCongestion, .. })
    });
    let finding = format!(
        "Limited by this machine's device {percent} of the time: it refused {} and cwnd collapsed {}, without loss on the path.",
        count(refused, "segment", "segments"),
        count(collapses, "time", "times"),
    );
    let remedy =
        "Lengthen the device's queue (ip link set DEV txqueuelen, tc qdisc limit) or use fq_codel.";
    Finding::new(Cause::LocalDevice, share, finding, Some(remedy))
}

fn timeouts(evidence: &Evidence, share: f64) -> Finding {
    let percent = units::percent(share);
    let finding = format!(
        "Spent {percent} of the time waiting for retransmissions: {}, {} sent again.",
        count(evidence.summary.timeouts, "timeout", "timeouts"),
        count(evidence.summary.retransmitted.total(), "segment", "segments"),
    );
    let remedy = "The path drops whole bursts or the last segments of a transfer: look at its queue and its radio link.";
    Finding::new(Cause::Timeouts, share, finding, Some(remedy))
}

fn application(evidence: &Evidence, share: f64) -> Finding {
    let goodput = rate(evidence.summary.goodput_up);
    let percent = units::percent(share);
    let finding = format!(
        "The program had nothing to send {percent} of the time ({goodput} on average); TCP and the path would have carried more."
    );
    let remedy = "Look at the program: small writes, waiting for answers, slow disk.";
    Finding::new(Cause::Application, share, finding, Some(remedy))
}

/// Why the window was not larger.
fn cwnd(evidence: &Evidence, share: f64) -> Finding {
    let summary = evidence.summary;
    let window = evidence.median_while(Limit::Cwnd, |state| state.cwnd);
    let bytes = u64::from(window) * u64::from(summary.mss);
    let rtt = srtt_ns(evidence, Limit::Cwnd);
    let held = format!(
        "Limited by the congestion window {} of the time: {} ({}).",
        units::percent(share),
        count(window.into(), "segment", "segments"),
        ceiling(bytes, rtt),
    );
    let (cause, why, remedy) = why_cwnd(evidence);
    let mut finding = Finding::new(cause, share, held, remedy);
    finding.findings.extend(why);
    finding
}

fn why_cwnd(evidence: &Evidence) -> (Cause, Option<String>, Option<&'static str>) {
    let summary = evidence.summary;
    let saturated = evidence.episodes.iter().rev().find_map(|episode| match episode.kind {
        EpisodeKind::Saturated { cwnd, at_clamp } => Some((cwnd, at_clamp)),
        _ => None,
    });
    if let Some((cwnd, at_clamp)) = saturated {
        return saturated_at(cwnd, at_clamp);
    }
    let inflation =
        summary.rtt.map_or(1.0, |rtt| f64::from(rtt.median_us) / f64::from(rtt.min_us.max(1)));
    let loss = summary.loss_share();
    if loss >= LOSS_SHARE {
        let why = format!(
            "{} sent again ({}), {}; {}.",
            count(summary.retransmitted.total(), "segment", "segments"),
            units::percent(loss),
            count(summary.timeouts, "timeout", "timeouts"),
            beside_minimum(summary),
        );
        let again = &summary.retransmitted;
        return if inflation >= INFLATED_RTT {
            (Cause::FullPath, Some(why), Some(FULL_PATH))
        } else if again.fast * 2 < again.total() {
            (Cause::Loss, Some(why), Some(BURST_LOSS))
        } else {
            (Cause::Loss, Some(why), Some(RANDOM_LOSS))
        };
    }
    let slow_start = evidence.time_in(|kind| matches!(kind, EpisodeKind::SlowStart { .. }));
    if slow_start as f64 >= SLOW_START_SHARE * summary.duration_ns as f64 {
        let why = format!(
            "It was in slow start for {} of its {}.",
            time(slow_start),
            time(summary.duration_ns)
        );
        let remedy = "The transfer is too short to fill the path: reuse the connection, or raise the initial window (ip route … initcwnd).";
        return (Cause::SlowStart, Some(why), Some(remedy));
    }
    if inflation >= INFLATED_RTT {
        let why =
            format!("{}, without loss: a queue on the path is full.", beside_minimum(summary));
        return (Cause::FullPath, Some(why), Some(FULL_PATH));
    }
    (Cause::Cwnd, None, None)
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
const BURST_LOSS: &str = "Most of it was lost in bursts or interruptions of the path: look at its radio link or its routes.";
const RANDOM_LOSS: &str = "Loss without a queue is not congestion: an algorithm that bears loss (BBR, Westwood) would keep a larger window.";

fn saturated_at(cwnd: u32, at_clamp: bool) -> (Cause, Option<String>, Option<&'static str>) {
    if at_clamp {
        let why = format!("cwnd stood at its clamp of {cwnd} segments.");
        return (
            Cause::Saturated,
            Some(why),
            Some("Raise or remove the clamp (TCP_WINDOW_CLAMP, a policy, route metric cwnd)."),
        );
    }
    let why = format!(
        "cwnd stayed saturated at {cwnd} segments, without loss, though the sender would use more."
    );
    (
        Cause::Saturated,
        Some(why),
        Some(
            "Something outside of the algorithm holds it: look for a route metric (ip route: cwnd lock) or the send buffer.",
        ),
    )
}

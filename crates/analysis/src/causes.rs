//! From shares of time to the one cause that matters, with its numbers and its remedy.

use transom_event::State;

use crate::activity::{Activity, HELD, pieces};
use crate::dialogue::{Dialogue, Wait};
use crate::evidence::{DOWNLOAD_RATIO, Evidence, LITTLE_BYTES, SECOND_SHARE};
use crate::finding::Finding;
use crate::held_back::{corked_ns, held_back_ns};
use crate::units::{count, rate, time};
use crate::{
    Cause, CollapseCause, EpisodeKind, Limit, WindowSide, downloads, path, reach, units, verdict,
};

/// Share of retransmitted segments from which every verdict names them.
pub const NAMED_LOSS_SHARE: f64 = 0.005;
/// Share of the time limited by the receiver's window in which it was far below its best from
/// which the program there is the cause, not its buffer.
pub const REDUCED_WINDOW_SHARE: f64 = 0.3;

/// Share of the local device's time behind a cut window from which that is told, not its queue.
pub const CUT_SHARE: f64 = 0.5;

/// Share of the time that a handshake with lost SYNs took from which it is the cause.
pub const HANDSHAKE_SHARE: f64 = 0.5;
/// Share of the paced time from which a second rate of the program is told, and so many at most.
const SECOND_RATE_SHARE: f64 = 0.1;
const MOST_RATES: usize = 3;
/// Share of the time of an algorithm's pacing rate from which a window or buffer that holds it down
/// says so.
const NAMED_PACED_SHARE: f64 = 0.05;
/// Share of the time that its own data take from which a side is judged as a sender, however much more it
/// receives.
const SENDING_SHARE: f64 = 0.5;
/// Round trips in which a receiver's kernel has found the window that it needs.
pub const OPENING_RTTS: u64 = 20;

/// The sender's limits; `receiving` and `idle` count as the program's when it also sends. What the
/// path does counts as the congestion window's: waiting for repair, a rate that the algorithm chose,
/// and the delivery of the last data.
const SENDER: [Limit; 6] = [
    Limit::Cwnd,
    Limit::ReceiverWindow,
    Limit::SendBuffer,
    Limit::Application,
    Limit::Pacing,
    Limit::LocalDevice,
];

fn share_of(evidence: &Evidence, limit: Limit, rate_of: Limit) -> f64 {
    let own = |limit| evidence.limits.share(limit);
    let paced = if limit == rate_of { own(Limit::Pacing) } else { 0.0 };
    match limit {
        Limit::Application => {
            own(limit) - evidence.delivery_share + own(Limit::Receiving) + own(Limit::Idle)
        }
        Limit::Cwnd => own(limit) + own(Limit::Repair) + paced + evidence.delivery_share,
        Limit::Pacing => paced,
        _ => own(limit) + paced,
    }
}

/// Which limit a pacing rate stands for: the program that set it; or, of an algorithm's estimate,
/// the window or buffer that lets no more be delivered than is estimated; else the path.
fn rate_of(evidence: &Evidence) -> Limit {
    if evidence.is_rate_fixed() {
        return Limit::Pacing;
    }
    let share = |limit: &Limit| evidence.limits.share(*limit);
    [Limit::ReceiverWindow, Limit::SendBuffer]
        .into_iter()
        .filter(|limit| share(limit) >= SECOND_SHARE)
        .max_by(|a, b| share(a).total_cmp(&share(b)))
        .unwrap_or(Limit::Cwnd)
}

pub(crate) fn find(evidence: &Evidence) -> Finding {
    let mut finding = cause(evidence);
    if evidence.was_established() {
        finding.findings.extend(reach::disorderly_end(evidence.summary));
        // Of one that was silent, and then given up, that is what there is to mend.
        let was_silent = matches!(finding.cause, Cause::Little | Cause::Application);
        if was_silent && reach::was_given_up(evidence.summary) {
            finding.remedy = Some(reach::GONE.to_owned());
        }
    }
    finding
}

fn cause(evidence: &Evidence) -> Finding {
    let summary = evidence.summary;
    let limits = evidence.limits;
    if !evidence.was_established() && limits.share(Limit::Handshake) >= limits.share(Limit::Unknown)
    {
        return reach::no_answer(evidence);
    }
    if let Some(finding) = reach::unaccepted(evidence) {
        return finding;
    }
    if let Some(silence) = evidence.silence() {
        return reach::vanished(evidence, &silence);
    }
    let mut finding = transfer(evidence);
    if summary.retransmitted.syn > 0 {
        let share = limits.share(Limit::Handshake);
        let is_all = finding.cause == Cause::Little && share >= SECOND_SHARE;
        if share >= HANDSHAKE_SHARE || is_all {
            let why = reach::slow_handshake(evidence);
            return Finding::new(Cause::Handshake, share, why, Some(reach::SYN_LOST));
        }
        finding.findings.push(reach::slow_handshake(evidence));
    }
    finding
}

/// What held back the data.
fn transfer(evidence: &Evidence) -> Finding {
    let summary = evidence.summary;
    let is_download =
        summary.received > DOWNLOAD_RATIO * summary.acked && summary.received >= LITTLE_BYTES;
    let sending = (!is_download || sending_share(evidence) > SENDING_SHARE)
        .then(|| sender(evidence))
        .filter(|finding| !is_download || !is_of_the_load(finding.cause));
    let mut finding =
        sending.unwrap_or_else(|| path::unless_interrupted(evidence, downloads::find(evidence)));
    if finding.cause != Cause::Outage {
        finding.findings.extend(path::interrupted(evidence, SECOND_SHARE));
    }
    let named = finding.findings.iter().any(|finding| finding.contains("retransmitted"));
    let loss = summary.loss_share();
    if loss >= NAMED_LOSS_SHARE && !named {
        let again = count(summary.retransmitted.data(), "segment was", "segments were");
        finding.findings.push(format!("{again} retransmitted ({}).", units::percent(loss)));
    }
    finding
}

/// Whether losses were compared with the data in flight. Of a side that receives most, acknowledgements
/// fill the path too.
fn is_of_the_load(cause: Cause) -> bool {
    matches!(cause, Cause::RandomLoss | Cause::Policer | Cause::UnclearLoss)
}

/// Share of the time in which this side had data that TCP, the path or this machine let not leave, or in
/// which the path was still carrying it and the other side waited.
fn sending_share(evidence: &Evidence) -> f64 {
    let held: f64 = HELD.iter().map(|limit| evidence.limits.share(*limit)).sum();
    held + Dialogue::of(evidence).carried
}

fn is_little(evidence: &Evidence) -> bool {
    evidence.summary.acked + evidence.summary.received < LITTLE_BYTES
}

fn sender(evidence: &Evidence) -> Finding {
    let (summary, limits) = (evidence.summary, evidence.limits);
    let rate_of = rate_of(evidence);
    let mut ranked = SENDER.map(|limit| (share_of(evidence, limit, rate_of), limit));
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    // What the reader does not take waits anyway: more sent in between would only wait longer.
    let (reader, waits) =
        (Limit::ReceiverWindow, share_of(evidence, Limit::ReceiverWindow, rate_of));
    if ranked[0].1 == Limit::Cwnd && waits >= SECOND_SHARE && is_reader_slow(evidence) {
        ranked.sort_by_key(|(_, limit)| *limit != reader);
    }
    if ranked[0].1 == reader && is_window_opening(evidence) {
        ranked.sort_by_key(|(_, limit)| *limit != Limit::Cwnd);
    }
    let [(share, limit), second, ..] = ranked;
    let stalled = match limit {
        Limit::ReceiverWindow | Limit::LocalDevice => true,
        Limit::Cwnd => limits.share(Limit::Repair) > 0.0,
        _ => false,
    };
    if is_little(evidence) && !stalled {
        let bytes = summary.acked + summary.received;
        let finding =
            format!("Only {bytes} B in {}: nothing limited it.", time(summary.duration_ns));
        return Finding::new(Cause::Little, share, finding, None);
    }
    if share == 0.0 {
        let finding = "Too little was recorded to say what limited it.".to_owned();
        return Finding::new(Cause::Unknown, limits.share(Limit::Unknown), finding, None);
    }
    let mut finding = of_limit(evidence, limit, share);
    if second.0 >= SECOND_SHARE {
        let label = match second.1 {
            Limit::Cwnd if evidence.is_mostly_delivery() => "the delivery of the last data",
            other => other.label(),
        };
        finding.findings.push(format!("Next: {label}, {} of the time.", units::percent(second.0)));
    }
    finding
}

fn of_limit(evidence: &Evidence, limit: Limit, share: f64) -> Finding {
    let is_window = match limit {
        Limit::ReceiverWindow => !is_reader_slow(evidence),
        limit => limit == Limit::SendBuffer,
    };
    let behind = is_window.then(|| path::full_behind(evidence, limit, share)).flatten();
    if let Some(finding) = behind {
        return finding;
    }
    match limit {
        Limit::ReceiverWindow => receiver_window(evidence, share),
        Limit::SendBuffer => send_buffer(evidence, share),
        Limit::Pacing => pacing(evidence, share),
        Limit::LocalDevice => local_device(evidence, share),
        Limit::Cwnd => path::find(evidence, share),
        _ => application(evidence, share),
    }
}

/// The share of a window or buffer, with what of it the pacing rate has that it keeps low: the shares of
/// the time count that to pacing.
fn with_what_it_paces(evidence: &Evidence, limit: Limit, share: f64) -> String {
    let percent = format!("{} of the time", units::percent(share));
    let paced = evidence.limits.share(Limit::Pacing);
    if paced < NAMED_PACED_SHARE || rate_of(evidence) != limit {
        return percent;
    }
    format!("{percent} ({} by the pacing rate, which that keeps low)", units::percent(paced))
}

fn receiver_window(evidence: &Evidence, share: f64) -> Finding {
    // How long it was closed is told beside it.
    let open = |state: &State| Some(state.snd_wnd).filter(|window| *window > 0);
    let window = u64::from(evidence.median_of_some_while(Limit::ReceiverWindow, open));
    let percent = with_what_it_paces(evidence, Limit::ReceiverWindow, share);
    let closed = evidence.time_in(is_closed);
    if is_reader_slow(evidence) {
        let zero = match evidence.episodes(is_closed) {
            0 => String::new(),
            n => format!(", it was closed {} ({} in all)", count(n, "time", "times"), time(closed)),
        };
        let best = u64::from(evidence.summary.max_snd_wnd);
        let size = match (1..best).contains(&window) {
            true => {
                format!("shrank from {} to {} (median)", units::bytes(best), units::bytes(window))
            }
            false => format!("has {} at most", units::bytes(best)),
        };
        let finding = format!(
            "Limited by the receiver's window {percent}: it {size}{zero}, because the program on the other side does not read as fast as data comes.",
        );
        let remedy = "Look at the program on the other side.";
        return Finding::new(Cause::PeerReadsSlowly, share, finding, Some(remedy));
    }
    let ceiling = path::ceiling(evidence, Limit::ReceiverWindow, window);
    let finding = format!("Limited by the receiver's window {percent}: {ceiling}.");
    let remedy = match evidence.summary.snd_wnd_at_scale {
        true => downloads::UNSCALED,
        false => "Raise the receiver's buffer (net.ipv4.tcp_rmem or SO_RCVBUF there).",
    };
    Finding::new(Cause::ReceiverWindow, share, finding, Some(remedy))
}

fn is_closed(kind: &EpisodeKind) -> bool {
    matches!(kind, EpisodeKind::ZeroWindow { by: WindowSide::Other })
}

/// Whether the transfer is over while the receiver's kernel still makes its window larger, as slow
/// start does with cwnd.
fn is_window_opening(evidence: &Evidence) -> bool {
    let first = evidence.first_while(Limit::ReceiverWindow, |state| state.snd_wnd);
    let rtt_ns = evidence.summary.rtt.map_or(0, |rtt| u64::from(rtt.min_us) * 1000);
    let grew = evidence.summary.max_snd_wnd >= first.saturating_add(first / 2);
    evidence.summary.duration_ns <= OPENING_RTTS * rtt_ns && grew && !is_reader_slow(evidence)
}

/// Whether its window is closed or far below its best while it is the limit.
fn is_reader_slow(evidence: &Evidence) -> bool {
    let closed = evidence.time_in(is_closed);
    closed as f64 > evidence.limits.time_ns(Limit::ReceiverWindow) as f64 / 2.0
        || reduced_share(evidence) >= REDUCED_WINDOW_SHARE
}

/// Share of the time limited by the receiver's window with less than three quarters of the best one so
/// far: a receiver's kernel makes it larger as long as its program reads, and leaves an acknowledgement
/// that would make it smaller to the next read (`__tcp_ack_snd_check`).
fn reduced_share(evidence: &Evidence) -> f64 {
    let (mut reduced, mut all, mut best) = (0_u64, 0_u64, 0);
    let mut before = evidence.steps.iter().map(|step| (step.time_ns(), step.state().snd_wnd));
    evidence.while_limited(Limit::ReceiverWindow, |step, length| {
        all = all.saturating_add(length);
        let until_now = before.by_ref().take_while(|(time_ns, _)| *time_ns < step.time_ns());
        best = until_now.map(|(_, window)| window).fold(best.max(step.state().snd_wnd), u32::max);
        if step.state().snd_wnd < best - best / 4 {
            reduced = reduced.saturating_add(length);
        }
    });
    reduced as f64 / all.max(1) as f64
}

fn send_buffer(evidence: &Evidence, share: f64) -> Finding {
    let outstanding = u64::from(evidence.median_while(Limit::SendBuffer, |s| s.outstanding()));
    let ceiling = path::ceiling(evidence, Limit::SendBuffer, outstanding);
    let percent = with_what_it_paces(evidence, Limit::SendBuffer, share);
    let limit = evidence.median_while(Limit::SendBuffer, |s| s.send_buffer_bytes().unwrap_or(0));
    let memory = match limit {
        0 => String::new(),
        limit => format!(
            " It holds {} of memory, headers and overhead included.",
            units::bytes(limit.into())
        ),
    };
    let finding = format!("Limited by its own send buffer {percent}: {ceiling}.{memory}");
    let remedy = "Raise it (net.ipv4.tcp_wmem, or a larger or no SO_SNDBUF in the program).";
    Finding::new(Cause::SendBuffer, share, finding, Some(remedy))
}

fn pacing(evidence: &Evidence, share: f64) -> Finding {
    let least_ns = (SECOND_RATE_SHARE * evidence.limits.time_ns(Limit::Pacing) as f64) as u64;
    let mut rates = evidence.lasting_rates();
    rates.retain(|(_, ns)| *ns >= least_ns);
    let at = match rates.as_slice() {
        [] | [_] => format!("at one rate, {}", path::paced_at(evidence)),
        several => {
            let each = |(bytes, ns): &(u64, u64)| {
                format!("{} for {}", rate(*bytes as f64 * 8.0), time(*ns))
            };
            let each: Vec<String> = several.iter().take(MOST_RATES).map(each).collect();
            let others = if several.len() > MOST_RATES { ", …" } else { "" };
            format!("at {} rates: {}{others}", several.len(), each.join(", "))
        }
    };
    let finding = format!(
        "Paced {} of the time {at}; {} were achieved.",
        units::percent(share),
        rate(evidence.summary.goodput_up),
    );
    let remedy = match rates.len() {
        0 | 1 => "The program sets that rate (SO_MAX_PACING_RATE): raise it there.",
        _ => "The program sets these rates (SO_MAX_PACING_RATE): raise them there.",
    };
    Finding::new(Cause::Pacing, share, finding, Some(remedy))
}

fn local_device(evidence: &Evidence, share: f64) -> Finding {
    let percent = units::percent(share);
    let refused = count(evidence.summary.local_congestion, "segment", "segments");
    let device_ns = evidence.limits.time_ns(Limit::LocalDevice).max(1);
    let behind_cut = evidence.limits.behind_cut_ns as f64 / device_ns as f64;
    if behind_cut < CUT_SHARE {
        let besides = match evidence.summary.local_congestion {
            0 => ", no window did".to_owned(),
            _ if behind_cut == 0.0 => {
                format!(", no window did (it refused {refused}, too, which took no time)")
            }
            _ => format!(
                "; {} of that time it was cwnd, cut since the device had refused {refused}",
                units::percent(behind_cut)
            ),
        };
        let finding = format!(
            "Limited by this machine's device {percent} of the time: its queue held enough of this connection (TCP small queues){besides}."
        );
        let remedy = "The link here is the bottleneck; nothing in TCP will speed it up.";
        return Finding::new(Cause::LocalDevice, share, finding, Some(remedy));
    }
    let collapses = evidence.episodes(|kind| {
        matches!(kind, EpisodeKind::WindowCollapse { cause: CollapseCause::LocalCongestion, .. })
    });
    // Neither a small cut is a collapse, nor one of a window that is small already.
    let held = match collapses {
        0 => "cwnd was made or kept small for that".to_owned(),
        n => format!("cwnd collapsed {}", count(n, "time", "times")),
    };
    let nothing_else = match evidence.summary.retransmitted.data() {
        0 => ", without loss on the path",
        _ => "",
    };
    let finding = format!(
        "Limited by this machine's device {percent} of the time: it refused {refused} and {held}{nothing_else}."
    );
    Finding::new(Cause::LocalDevice, share, finding, Some(path::OWN_QUEUE))
}

fn application(evidence: &Evidence, share: f64) -> Finding {
    let goodput = rate(evidence.summary.goodput_up);
    let (percent, dialogue) = (units::percent(share), Dialogue::of(evidence));
    let held_back = held_back_ns(evidence) as f64 / evidence.summary.duration_ns.max(1) as f64;
    if held_back > share / 2.0 {
        let finding = format!(
            "The program wrote too little for a segment, and {} of the time such a piece waited until one before it was acknowledged (Nagle's algorithm, RFC 896, or TCP_CORK); {goodput} on average.",
            units::percent(held_back),
        );
        let remedy = "Write each message at once, or set TCP_NODELAY: where the other side delays its acknowledgements, each such wait takes 40 ms or more.";
        return Finding::new(Cause::Application, share, finding, Some(remedy));
    }
    let corked = corked_ns(evidence) as f64 / evidence.summary.duration_ns.max(1) as f64;
    if corked > share / 2.0 {
        let finding = format!(
            "The program had nothing to send, or held it back, {percent} of the time ({goodput} on average). {} of the time was in waits as long as the timer that sends what TCP_CORK or MSG_MORE holds back (one RTO).",
            units::percent(corked),
        );
        let remedy = "Does the program uncork after each message? If it does, look for a timer of its own that is as long.";
        return Finding::new(Cause::Application, share, finding, Some(remedy));
    }
    if dialogue.awaited > share / 2.0 {
        return in_turn(&dialogue, &percent, share, &goodput);
    }
    in_its_own_time(evidence, share)
}

/// Of a program that waits for the other side's data most of the time.
fn in_turn(dialogue: &Dialogue, percent: &str, share: f64, goodput: &str) -> Finding {
    if dialogue.mostly == Wait::Path {
        let comes = match dialogue.arriving >= SECOND_SHARE {
            true => {
                format!("; for {} the other side's was coming", units::percent(dialogue.arriving))
            }
            false => String::new(),
        };
        let finding = format!(
            "Both sides talk in turn. For {} of the time what had left at once was on its way, at {}{comes}; {goodput} on average.",
            units::percent(dialogue.carried),
            rate(dialogue.rate),
        );
        let (share, remedy) = (dialogue.carried + dialogue.arriving, Some(path::FULL_PATH));
        return Finding::new(Cause::FullPath, share, finding, remedy);
    }
    let nothing = format!(
        "The program had nothing to send {percent} of the time ({goodput} on average), {} of it until data of the other side came",
        units::percent(dialogue.awaited / share),
    );
    if dialogue.mostly == Wait::Arrival {
        let finding = format!(
            "{nothing}, most of that while they were coming: the path's rate, or that at which the other side writes, decides."
        );
        return Finding::new(Cause::OtherSide, share, finding, Some(verdict::EITHER_THERE));
    }
    let finding = format!("{nothing}; TCP and the path would have carried more.");
    let remedy = match dialogue.mostly {
        Wait::RoundTrip => {
            "The other side is as quick as the round trip lets it be: ask for more at once (larger or several requests, several connections)."
        }
        _ => verdict::PROGRAM_THERE,
    };
    Finding::new(Cause::Application, share, finding, Some(remedy))
}

/// Of a program that neither waits for the other side nor has its data held back: whether it kept any
/// data waiting at all, and in which waits.
fn in_its_own_time(evidence: &Evidence, share: f64) -> Finding {
    let (summary, activity) = (evidence.summary, Activity::of(evidence));
    let (percent, goodput) = (units::percent(share), rate(summary.goodput_up));
    let pieces = pieces(evidence.steps);
    if activity.idle_ns() > activity.between_ns {
        let times = activity.silences();
        let bytes = units::bytes(summary.acked + summary.received);
        let took = time(activity.length_ns);
        let rtt_ns = summary.rtt.map_or(0, |rtt| u64::from(rtt.min_us) * 1000);
        let is_held = activity.held_ns as f64 >= SECOND_SHARE * activity.length_ns as f64;
        let is_at_once = pieces.is_empty() && (!is_held || activity.length_ns <= rtt_ns);
        let (cause, finding) = match is_at_once {
            true => (
                Cause::Little,
                format!(
                    "All {bytes} left at once and had arrived within {took}; in the rest of the time there was nothing to send, {times}: nothing limited it."
                ),
            ),
            false => (
                Cause::Application,
                format!(
                    "The program had nothing to send {percent} of the time, {times}. In between, {bytes} took {took}."
                ),
            ),
        };
        return Finding::new(cause, share, finding, None);
    }
    let median_of = |of: fn(&(u64, u64)) -> u64| {
        let mut all: Vec<u64> = pieces.iter().map(of).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let waits = match pieces.len() {
        0 => String::new(),
        n => format!(
            ", in {} of {} between pieces of {}{}",
            count(n as u64, "wait", "waits"),
            time(median_of(|piece| piece.0)),
            units::bytes(median_of(|piece| piece.1)),
            if n > 1 { " (medians)" } else { "" },
        ),
    };
    let finding = format!(
        "The program had nothing to send {percent} of the time ({goodput} on average){waits}; TCP and the path would have carried more."
    );
    let remedy =
        "Look at what the program does meanwhile: small writes, waiting for others, slow disk.";
    Finding::new(Cause::Application, share, finding, Some(remedy))
}

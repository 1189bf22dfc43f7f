//! Verdicts on whether the other side can be reached, at the start and until the end.

use transom_event::errors;

use crate::evidence::{Evidence, Silence, VANISHED_TIMEOUTS};
use crate::finding::Finding;
use crate::track::Step;
use crate::units::{count, time};
use crate::{Cause, Limit, Summary, long_segments};

/// Of an attempt that no timer saw, only the end is recorded, within microseconds, ns.
const ONLY_ITS_END_NS: u64 = 1_000_000;

fn name(errno: u32) -> String {
    errors::name(errno).map_or_else(|| format!("error {errno}"), str::to_owned)
}

/// Whether a timer of this side gave it up, keepalive included.
pub(crate) fn was_given_up(summary: &Summary) -> bool {
    summary.errno == errors::ETIMEDOUT || errors::UNREACHABLE.contains(&summary.errno)
}

/// How it ended, unless with a FIN or with the recording. What a timer gives up ends with a reset of
/// this side, too, if keepalive probes were not answered.
pub(crate) fn disorderly_end(summary: &Summary) -> Option<String> {
    if was_given_up(summary) {
        let error = name(summary.errno);
        return Some(format!("This side gave it up, since nothing came back ({error})."));
    }
    let end = match (summary.resets_received, summary.resets_sent, summary.errno) {
        (1.., _, _) => "It was reset by the other side, or by something in between (a firewall).",
        (_, 1.., _) => "This side reset it: its program aborted it, or left data unread.",
        (_, _, errors::ECONNRESET) => "It was reset.",
        _ => return None,
    };
    Some(end.to_owned())
}

/// A connection that never was one.
pub(crate) fn no_answer(evidence: &Evidence) -> Finding {
    let summary = evidence.summary;
    let share = evidence.limits.share(Limit::Handshake);
    let again = match summary.retransmitted.syn {
        0 => None,
        _ => Some(syn_again(evidence)),
    };
    if summary.resets_received > 0 || summary.errno == errors::ECONNREFUSED {
        // What is seen of a SYN that is refused at once is its end.
        let after = match again {
            Some(_) => format!(" after {}", time(summary.duration_ns)),
            None => String::new(),
        };
        // A host where nobody listens answers with a reset, which is an event; ICMP leaves the error alone.
        let misses = summary.coverage.lost_events > 0 || summary.coverage.polled;
        let (finding, remedy) = match summary.resets_received {
            0 if misses => (
                format!(
                    "The connection was refused{after}: a reset may be among the events that were not recorded, or an ICMP message (port unreachable) came."
                ),
                "Does a program listen on that port, and does a firewall reject it?",
            ),
            0 => (
                format!("An ICMP message (port unreachable) refused the connection{after}."),
                "Which firewall, here, on the way or on the other side, rejects this address and port? A host on which no program listens there answers with a reset.",
            ),
            _ => (
                format!("The other side refused the connection{after}."),
                "Does a program listen on that port?",
            ),
        };
        return Finding::new(Cause::Handshake, share, finding, Some(remedy));
    }
    if let Some((finding, remedy)) = failed(summary.errno) {
        return Finding::new(Cause::Handshake, share, finding, Some(remedy));
    }
    let again = again.unwrap_or_else(|| match summary.coverage.ended {
        true => "no SYN was retransmitted".to_owned(),
        false => "no SYN was retransmitted yet".to_owned(),
    });
    let error = match summary.errno {
        0 => String::new(),
        errno => format!(" ({})", name(errno)),
    };
    let finding = match (summary.duration_ns, summary.coverage.ended) {
        (..ONLY_ITS_END_NS, false) => {
            format!("The handshake had not finished when the recording ended; {again}.")
        }
        (..ONLY_ITS_END_NS, true) => {
            format!("The connection ended before the handshake had finished{error}; {again}.")
        }
        (ns, _) => format!("The handshake did not finish in {}{error}; {again}.", time(ns)),
    };
    let remedy = "Is the port open, and does a firewall drop the SYN?";
    Finding::new(Cause::Handshake, share, finding, Some(remedy))
}

/// What an error of an attempt to connect says, and what to do; `None` where only a timer gave it up.
fn failed(errno: u32) -> Option<(String, &'static str)> {
    let error = name(errno);
    Some(match errno {
        0 | errors::ETIMEDOUT => return None,
        errors::EACCES => (
            format!("A router or firewall on the way refused the SYN by a rule ({error})."),
            "Which rule rejects this address and port? The ICMP message (administratively prohibited, or reject route) comes from where it is.",
        ),
        errno if errors::UNREACHABLE.contains(&errno) => (
            format!("The other side could not be reached ({error})."),
            "Nobody answers for the next hop (ip neigh), or a router or firewall on the way refused the SYN (ICMP).",
        ),
        errors::ECONNRESET | errors::ECONNABORTED => (
            format!("The attempt was ended on this side before an answer came ({error})."),
            "Did its program disconnect the socket, or did somebody destroy it (ss -K)?",
        ),
        _ => (
            format!("The attempt to connect ended with an error ({error})."),
            "An ICMP message of the other side or of a router on the way says so: what does the path do with TCP to this port?",
        ),
    })
}

fn syn_again(evidence: &Evidence) -> String {
    let times = count(evidence.summary.retransmitted.syn, "time", "times");
    format!("the SYN was retransmitted {times}")
}

/// The sentence about SYNs that were lost before one was answered.
pub(crate) fn slow_handshake(evidence: &Evidence) -> String {
    let took = time(evidence.limits.time_ns(Limit::Handshake));
    let duration = time(evidence.summary.duration_ns);
    format!("The handshake took {took} of its {duration}: {}.", syn_again(evidence))
}

pub(crate) const SYN_LOST: &str = "Is the path lossy, or is the listener's queue over there full (net.core.somaxconn, net.ipv4.tcp_max_syn_backlog)?";

/// A connection that this side opened, and that is one to this side only: a listener whose queue is
/// full answers the SYN and drops what follows.
pub(crate) fn unaccepted(evidence: &Evidence) -> Option<Finding> {
    let summary = evidence.summary;
    let is_silent = summary.acked == 0 && summary.received == 0;
    let since_ns = evidence.opened_here_ns().filter(|_| is_silent)?;
    if summary.timeouts < VANISHED_TIMEOUTS {
        return None;
    }
    let silent_ns = evidence.end_ns().saturating_sub(since_ns);
    let share = silent_ns as f64 / summary.duration_ns.max(1) as f64;
    let finding = format!(
        "The other side answered the handshake and nothing that followed, through {} in {}.",
        count(summary.timeouts, "timeout", "timeouts"),
        time(silent_ns),
    );
    let remedy = "Does its program accept connections, or is the listener's queue over there full (ss -lt there; net.core.somaxconn)? If only long segments are lost, look at the MTU of the path.";
    Some(Finding::new(Cause::Handshake, share, finding, Some(remedy)))
}

pub(crate) const GONE: &str = "Is the other machine up, did its address change, does something on the path forget the connection (NAT, firewall)?";
/// The same where what waits is of full length: of shorter segments nothing is known.
const GONE_OR_TOO_LONG: &str = "Is the other machine up, did its address change, does something on the path forget the connection (NAT, firewall)? If it answers otherwise, the MTU of the path may have become smaller, with no ICMP message to say so: try ping -M do -s.";
const TOO_LONG: &str = "The MTU of the path is probably smaller, and the ICMP messages that say so are dropped: try ping -M do -s, then lower the MTU of the route or clamp the MSS, or set net.ipv4.tcp_mtu_probing=1.";

const NOT_ARRIVED: &str = "Its own segments come, so look at the way there: a rule of a firewall, a route, or an MTU that is smaller than anybody says (ping -M do -s).";

pub(crate) fn vanished(evidence: &Evidence, silence: &Silence) -> Finding {
    let summary = evidence.summary;
    let expired = count(silence.timeouts, "timeout", "timeouts");
    let last = evidence.steps.last().map(Step::settled).unwrap_or_default();
    // How long it had been so when the recording began, its timer tells.
    let (share, silent) = if silence.is_all {
        let timer = time(u64::from(last.rto_us) * 1000);
        let silent = format!(
            "Nothing came back while this was recorded, and {expired} in a row had passed by its end (the timer has grown to {timer})"
        );
        (1.0, silent)
    } else {
        let share = silence.length_ns as f64 / summary.duration_ns.max(1) as f64;
        let [silent, all] = [silence.length_ns, summary.duration_ns].map(time);
        let silent = match silence.gave_up {
            true => format!(
                "Nothing was acknowledged for {silent} of {all}, through {expired}, until the other side closed"
            ),
            false => format!("Nothing came back in the last {silent} of {all}, through {expired}"),
        };
        (share, silent)
    };
    let full = summary.mss;
    let (why, remedy) = if long_segments::never_came_through(evidence) {
        let why = format!(
            "no segment of full length ({full} bytes) was ever acknowledged, and shorter ones came through."
        );
        (why, TOO_LONG)
    } else if long_segments::no_longer_come_through(evidence) {
        let why = format!(
            "of what left last, shorter segments came through (SACK) and none of full length ({full} bytes)."
        );
        (why, TOO_LONG)
    } else if silence.gave_up {
        ("what is sent does not arrive there.".to_owned(), NOT_ARRIVED)
    } else {
        let is_long = full > 0 && long_segments::first_unanswered(evidence) >= u64::from(full);
        let remedy = if is_long { GONE_OR_TOO_LONG } else { GONE };
        ("the other side or the path to it is gone.".to_owned(), remedy)
    };
    let cause = if silence.gave_up { Cause::Outage } else { Cause::PeerVanished };
    Finding::new(cause, share, format!("{silent}: {why}"), Some(remedy))
}

//! Verdicts on whether the other side can be reached, at the start and until the end.

use crate::evidence::{Evidence, VANISHED_TIMEOUTS};
use crate::finding::Finding;
use crate::units::{count, time};
use crate::{Cause, Limit, Summary};

/// Errors that the kernel leaves in the socket of a connection that ended in disorder.
const ENETUNREACH: u32 = 101;
const ECONNRESET: u32 = 104;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;
const EHOSTUNREACH: u32 = 113;

/// The names of those that say that nobody could be reached. A timer that gives up leaves the error
/// that came last, or ETIMEDOUT.
fn unreachable(errno: u32) -> Option<&'static str> {
    match errno {
        ETIMEDOUT => Some("ETIMEDOUT"),
        EHOSTUNREACH => Some("EHOSTUNREACH"),
        ENETUNREACH => Some("ENETUNREACH"),
        _ => None,
    }
}

/// How it ended, unless with a FIN or with the recording. What a timer gives up ends with a reset of
/// this side, too, if keepalive probes were not answered.
pub(crate) fn disorderly_end(summary: &Summary) -> Option<String> {
    if let Some(error) = unreachable(summary.errno) {
        return Some(format!("This side gave it up, since nothing came back ({error})."));
    }
    let end = match (summary.resets_received, summary.resets_sent, summary.errno) {
        (1.., _, _) => "It was reset by the other side, or by something in between (a firewall).",
        (_, 1.., _) => "This side reset it: its program aborted it, or left data unread.",
        (_, _, ECONNRESET) => "It was reset.",
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
    if summary.resets_received > 0 || summary.errno == ECONNREFUSED {
        // What is seen of a SYN that is refused at once is its end.
        let after = match again {
            Some(_) => format!(" after {}", time(summary.duration_ns)),
            None => String::new(),
        };
        let finding = format!("The other side refused the connection{after}.");
        let remedy = "Does a program listen on that port?";
        return Finding::new(Cause::Handshake, share, finding, Some(remedy));
    }
    if let error @ (EHOSTUNREACH | ENETUNREACH) = summary.errno {
        let error = unreachable(error).unwrap_or_default();
        let finding = format!("The other side could not be reached ({error}).");
        let remedy = "Nobody answers for the next hop (ip neigh), or a router or firewall on the way refused the SYN (ICMP).";
        return Finding::new(Cause::Handshake, share, finding, Some(remedy));
    }
    let again = again.unwrap_or_else(|| "no SYN was retransmitted yet".to_owned());
    let finding = match summary.duration_ns {
        0 => format!("The handshake had not finished when the recording ended; {again}."),
        ns => format!("The handshake did not finish in {}; {again}.", time(ns)),
    };
    let remedy = "Is the port open, and does a firewall drop the SYN?";
    Finding::new(Cause::Handshake, share, finding, Some(remedy))
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

pub(crate) fn vanished(evidence: &Evidence, silent_ns: u64, timeouts: u64) -> Finding {
    let summary = evidence.summary;
    let share = silent_ns as f64 / summary.duration_ns.max(1) as f64;
    let finding = format!(
        "Nothing came back in the last {} of {}, through {}: the other side or the path to it is gone.",
        time(silent_ns),
        time(summary.duration_ns),
        count(timeouts, "timeout", "timeouts"),
    );
    let remedy = "Is the other machine up, did its address change, does something on the path forget the connection (NAT, firewall)?";
    Finding::new(Cause::PeerVanished, share, finding, Some(remedy))
}

//! Episodes as lines of text; many of the same kind become one line.

use crate::summary::median;
use crate::units::{count, time};
use crate::{CollapseCause, Episode, EpisodeKind, ResendCause, SlowStartEnd, WindowSide};

/// So many episodes of a kind are shown one by one.
pub const SHOWN_SINGLY: usize = 3;

/// When, and what: one line an episode or a group of them, in the order of their first start.
/// Times are seconds since `start_ns`.
pub(crate) fn lines(episodes: &[Episode], start_ns: u64) -> Vec<(String, String)> {
    let mut groups: Vec<Vec<&Episode>> = Vec::new();
    for episode in episodes {
        let same = |group: &&mut Vec<&Episode>| is_alike(&group[0].kind, &episode.kind);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(episode),
            None => groups.push(vec![episode]),
        }
    }
    let mut lines: Vec<(u64, (String, String))> = Vec::new();
    for group in groups {
        let first = group[0].start_ns;
        if group.len() > SHOWN_SINGLY {
            let last = group.iter().map(|e| e.end_ns).max().unwrap_or(first);
            let span = format!("{}-{}", seconds(first, start_ns), seconds(last, start_ns));
            lines.push((first, (span, together(&group))));
            continue;
        }
        for episode in group {
            let at = seconds(episode.start_ns, start_ns);
            lines.push((episode.start_ns, (at, alone(episode))));
        }
    }
    lines.sort_by_key(|(start, _)| *start);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn seconds(time_ns: u64, start_ns: u64) -> String {
    format!("{:.3}", time_ns.saturating_sub(start_ns) as f64 / 1e9)
}

fn is_alike(a: &EpisodeKind, b: &EpisodeKind) -> bool {
    use EpisodeKind::*;
    match (a, b) {
        (WindowCollapse { cause: a, .. }, WindowCollapse { cause: b, .. }) => a == b,
        (Resend { cause: a, .. }, Resend { cause: b, .. }) => a == b,
        (ZeroWindow { by: a }, ZeroWindow { by: b }) => a == b,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn alone(episode: &Episode) -> String {
    let length = time(episode.length_ns());
    match &episode.kind {
        EpisodeKind::SlowStart { cwnd_from, cwnd_to, end } => {
            format!("slow start: cwnd {cwnd_from} to {cwnd_to} in {length}, {}", ended(*end))
        }
        EpisodeKind::FastRecovery { cwnd_before, cwnd_after, retransmitted, undone } => format!(
            "fast recovery: cwnd {cwnd_before} to {cwnd_after} in {length}, {} retransmitted{}",
            count(*retransmitted, "segment", "segments"),
            undone_words(*undone),
        ),
        EpisodeKind::Timeout {
            timeouts,
            stalled_ns,
            cwnd_before,
            cwnd_after,
            retransmitted,
            undone,
        } => format!(
            "{}: stalled {}, cwnd {cwnd_before} to {cwnd_after}, {} retransmitted{}",
            count((*timeouts).into(), "timeout", "timeouts in a row"),
            time(*stalled_ns),
            count(*retransmitted, "segment", "segments"),
            undone_words(*undone),
        ),
        EpisodeKind::Resend { cause, cwnd_before, cwnd_after, retransmitted } => format!(
            "{}: cwnd {cwnd_before} to {cwnd_after} in {length}, {} retransmitted",
            resent(*cause),
            count(*retransmitted, "segment", "segments"),
        ),
        EpisodeKind::IdleRestart { idle_ns, cwnd_before, cwnd_after } => {
            format!("restart after {} idle: cwnd {cwnd_before} to {cwnd_after}", time(*idle_ns))
        }
        EpisodeKind::CwndValidation { cwnd_before, cwnd_after } => {
            format!("unused window taken back: cwnd {cwnd_before} to {cwnd_after}")
        }
        EpisodeKind::WindowCollapse { cwnd_before, cwnd_after, cause } => {
            format!("window collapse: cwnd {cwnd_before} to {cwnd_after}, {}", because(*cause))
        }
        EpisodeKind::ZeroWindow { by } => format!("{} for {length}", closed(*by)),
        EpisodeKind::Saturated { cwnd, at_clamp } => {
            let at = if *at_clamp { "at its clamp" } else { "saturated" };
            format!("cwnd {at}: {cwnd} segments for {length}")
        }
    }
}

fn together(group: &[&Episode]) -> String {
    let n = group.len();
    let total = time(group.iter().map(|e| e.length_ns()).fold(0, u64::saturating_add));
    let mid = |of: fn(&EpisodeKind) -> Option<u32>| {
        median(group.iter().filter_map(|e| of(&e.kind)).collect())
    };
    let (before, after) = (mid(cwnd_before), mid(cwnd_after));
    match &group[0].kind {
        EpisodeKind::SlowStart { .. } => format!("{n} slow starts, {total} in all"),
        EpisodeKind::FastRecovery { .. } => format!(
            "{n} fast recoveries, {total} in all: cwnd {before} to {after} at the median, {}{}",
            again(group),
            undone_of(group),
        ),
        EpisodeKind::Timeout { .. } => {
            let stalled = group.iter().map(|e| match e.kind {
                EpisodeKind::Timeout { stalled_ns, .. } => stalled_ns,
                _ => 0,
            });
            let stalled = time(stalled.fold(0, u64::saturating_add));
            format!(
                "{n} times in timeout, stalled {stalled} in all, {}{}",
                again(group),
                undone_of(group)
            )
        }
        EpisodeKind::Resend { cause, .. } => {
            format!("{}, {n} times, {total} in all, {}", resent(*cause), again(group))
        }
        EpisodeKind::IdleRestart { .. } => {
            format!("{n} restarts after idle: cwnd {before} to {after} at the median")
        }
        EpisodeKind::CwndValidation { .. } => {
            format!("unused window taken back {n} times: cwnd {before} to {after} at the median")
        }
        EpisodeKind::WindowCollapse { cause, .. } => format!(
            "{n} window collapses: cwnd {before} to {after} at the median, {}",
            because(*cause)
        ),
        EpisodeKind::ZeroWindow { by } => format!("{}, {n} times, {total} in all", closed(*by)),
        EpisodeKind::Saturated { at_clamp, .. } => {
            let at = if *at_clamp { "at its clamp" } else { "saturated" };
            format!("cwnd {at} {n} times, {total} in all")
        }
    }
}

fn cwnd_before(kind: &EpisodeKind) -> Option<u32> {
    use EpisodeKind::*;
    match *kind {
        FastRecovery { cwnd_before, .. }
        | Timeout { cwnd_before, .. }
        | Resend { cwnd_before, .. }
        | IdleRestart { cwnd_before, .. }
        | CwndValidation { cwnd_before, .. }
        | WindowCollapse { cwnd_before, .. } => Some(cwnd_before),
        SlowStart { .. } | ZeroWindow { .. } | Saturated { .. } => None,
    }
}

fn cwnd_after(kind: &EpisodeKind) -> Option<u32> {
    use EpisodeKind::*;
    match *kind {
        FastRecovery { cwnd_after, .. }
        | Timeout { cwnd_after, .. }
        | Resend { cwnd_after, .. }
        | IdleRestart { cwnd_after, .. }
        | CwndValidation { cwnd_after, .. }
        | WindowCollapse { cwnd_after, .. } => Some(cwnd_after),
        SlowStart { .. } | ZeroWindow { .. } | Saturated { .. } => None,
    }
}

fn again(group: &[&Episode]) -> String {
    let segments = group.iter().map(|episode| match episode.kind {
        EpisodeKind::FastRecovery { retransmitted, .. }
        | EpisodeKind::Timeout { retransmitted, .. }
        | EpisodeKind::Resend { retransmitted, .. } => retransmitted,
        _ => 0,
    });
    format!("{} retransmitted", count(segments.sum(), "segment", "segments"))
}

fn undone_of(group: &[&Episode]) -> String {
    let undone = group.iter().filter(|episode| {
        matches!(
            episode.kind,
            EpisodeKind::FastRecovery { undone: true, .. }
                | EpisodeKind::Timeout { undone: true, .. }
        )
    });
    match undone.count() {
        0 => String::new(),
        n => format!(", {n} of them undone"),
    }
}

fn undone_words(undone: bool) -> &'static str {
    if undone { ", undone: nothing had been lost" } else { "" }
}

fn ended(end: SlowStartEnd) -> &'static str {
    match end {
        SlowStartEnd::Loss => "ended by loss",
        SlowStartEnd::Delay => "ended by growing delay (HyStart)",
        SlowStartEnd::Algorithm => "ended by the algorithm, without loss",
        SlowStartEnd::Threshold => "ssthresh reached",
        SlowStartEnd::Clamp => "clamp reached",
        SlowStartEnd::LocalCongestion => "ended by the local device",
        SlowStartEnd::Ecn => "ended by congestion marks (ECN)",
        SlowStartEnd::Unused => "ended by lack of use",
        SlowStartEnd::Still => "still going at the end",
    }
}

fn resent(cause: ResendCause) -> &'static str {
    match cause {
        ResendCause::PathMtu => "sent again in smaller segments, which the path asked for",
        ResendCause::Reneging => "sent again what the other side took back (SACK reneging)",
    }
}

fn because(cause: CollapseCause) -> &'static str {
    match cause {
        CollapseCause::LocalCongestion => "no loss: the local device refused a segment",
        CollapseCause::Ecn => "no loss: congestion marks of the path (ECN)",
        CollapseCause::TailLoss => "a tail loss probe repaired a loss",
        CollapseCause::Policy => "the algorithm, clamp or policy was changed",
        CollapseCause::ProbeRtt => "BBR probed the minimum RTT",
        CollapseCause::Algorithm => "no loss: the algorithm lowered it",
        CollapseCause::Unknown => "no loss, cause not recorded",
    }
}

fn closed(by: WindowSide) -> &'static str {
    match by {
        WindowSide::Other => "the other side's window closed",
        WindowSide::Here => "the window offered here closed",
    }
}

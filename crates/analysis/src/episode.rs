//! What can happen to a connection: stretches of time with a name.

use serde::Serialize;

/// Something that happened between two times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Episode {
    pub start_ns: u64,
    pub end_ns: u64,
    #[serde(flatten)]
    pub kind: EpisodeKind,
}

/// What it was. Windows in segments, times in ns.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "episode", rename_all = "snake_case")]
pub enum EpisodeKind {
    /// cwnd below ssthresh and growing (RFC 5681 section 3.1).
    SlowStart { cwnd_from: u32, cwnd_to: u32, end: SlowStartEnd },
    /// Loss repaired on duplicate ACKs or SACK (RFC 6675, RFC 8985).
    FastRecovery {
        cwnd_before: u32,
        cwnd_after: u32,
        retransmitted: u64,
        /// Both windows were given back: nothing had been lost (RFC 3522, RFC 3708).
        undone: bool,
    },
    /// The retransmission timer expired (RFC 6298).
    Timeout {
        /// In a row.
        timeouts: u32,
        /// From the last progress before the first to the first progress after the last.
        stalled_ns: u64,
        cwnd_before: u32,
        cwnd_after: u32,
        retransmitted: u64,
        undone: bool,
    },
    /// All that was in flight was sent again, though no timer had expired.
    Resend { cause: ResendCause, cwnd_before: u32, cwnd_after: u32, retransmitted: u64 },
    /// cwnd taken back after silence longer than the RTO (RFC 5681 section 4.1, `tcp_cwnd_restart`).
    IdleRestart { idle_ns: u64, cwnd_before: u32, cwnd_after: u32 },
    /// cwnd taken back because it was not used (RFC 7661, `tcp_cwnd_application_limited`).
    CwndValidation { cwnd_before: u32, cwnd_after: u32 },
    /// cwnd fell though nothing was lost on the path.
    WindowCollapse { cwnd_before: u32, cwnd_after: u32, cause: CollapseCause },
    /// A window of zero, and until it opened again.
    ZeroWindow { by: WindowSide },
    /// cwnd stayed at its greatest value though the sender would have used more.
    Saturated {
        cwnd: u32,
        /// At `snd_cwnd_clamp`; otherwise what holds it is not to be seen.
        at_clamp: bool,
    },
}

/// How slow start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowStartEnd {
    Loss,
    /// CUBIC's HyStart saw the delay grow (RFC 9406, RFC 9438 section 4.10): ssthresh was set to
    /// cwnd without loss.
    Delay,
    /// Another algorithm set ssthresh without loss, as BBR when its startup is over.
    Algorithm,
    /// cwnd reached an ssthresh that was set before.
    Threshold,
    Clamp,
    LocalCongestion,
    /// The path marked congestion (RFC 3168).
    Ecn,
    /// The sender fell silent or did not use the window.
    Unused,
    /// The recording or the connection ended first.
    Still,
}

/// Why all that was in flight was sent again without a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResendCause {
    /// Its segments are too large for the path (RFC 1191, RFC 8201; `tcp_simple_retransmit`).
    PathMtu,
    /// The other side took back what it had acknowledged selectively (RFC 2018 section 8).
    Reneging,
}

/// Why cwnd fell without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CollapseCause {
    /// The device or its queue here refused a segment (`tcp_enter_cwr` from `__tcp_transmit_skb`).
    LocalCongestion,
    /// Congestion marks of the path, on a connection with ECN.
    Ecn,
    /// A tail loss probe repaired a loss without any duplicate ACK (RFC 8985 section 7.4.2).
    TailLoss,
    /// The algorithm, the clamp or a policy was changed just before.
    Policy,
    /// BBR's probe of the minimum RTT.
    ProbeRtt,
    /// The algorithm sets its window by what it measures, not by losses.
    Algorithm,
    Unknown,
}

/// Whose window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSide {
    /// The other side's program or memory is short.
    Other,
    /// The program here does not read.
    Here,
}

impl Episode {
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

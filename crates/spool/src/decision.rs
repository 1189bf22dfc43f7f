//! One row per rare decision of the kernel: what level 1 keeps of every connection.

use crate::column::{Text, Time};
use crate::columns;
use crate::named;

named! {
    /// What was decided.
    Decided {
        /// The congestion state changed: see `before` and `now`.
        State = "state",
        /// A tail loss probe was sent.
        Probe = "probe",
        /// A segment with RST came.
        Reset = "reset",
        /// The retransmission timer expired: `value` is which time in a row.
        Timeout = "timeout",
        /// SYN or SYN-ACK was retransmitted: `value` is how often so far.
        Syn = "syn",
        /// This machine's own queue or device refused a segment.
        LocalCongestion = "local_congestion",
        /// The program limited the window that it offers (TCP_WINDOW_CLAMP): `value` bytes.
        Window = "window_clamp",
        /// The congestion window was limited: `value` segments.
        Clamp = "clamp",
        /// The congestion control was changed: `algorithm` from now on.
        Algorithm = "algorithm",
        /// A segment with RST was sent.
        ResetSent = "reset_sent",
        /// `transom tune` or `transom peer` acted: `value` is the reason's number in `bpf/tuned.h`.
        Tuned = "tuned",
    }
}

named! {
    /// tcp_sock.icsk_ca_state.
    CaState {
        Open = "open",
        Disorder = "disorder",
        Cwr = "cwr",
        Recovery = "recovery",
        Loss = "loss",
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub time: Time,
    pub cookie: u64,
    pub pid: Option<u32>,
    pub local_port: u16,
    pub remote_port: u16,
    pub decided: Decided,
    pub before: CaState,
    pub now: CaState,
    pub cwnd: u32,
    pub ssthresh: Option<u32>,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retransmitted: u32,
    pub srtt_us: Option<u32>,
    pub rto_us: u32,
    pub value: Option<u32>,
    pub algorithm: Option<Text>,
}

columns! { Decision {
    time, "µs", "when it was decided", Technical;
    cookie, "", "the socket's cookie, as in the rows of connections", Technical;
    pid, "", "process that connected or listened", Technical;
    local_port, "", "", Technical;
    remote_port, "", "", Technical;
    decided, "", "`state`, `probe` (tail loss), `reset` (received), `reset_sent`, `timeout`, `syn` (retransmitted), `local_congestion`, `window_clamp` (TCP_WINDOW_CLAMP), `clamp` (of the congestion window), `algorithm`, `tuned` (by transom)", Technical;
    before, "", "congestion state before (icsk_ca_state)", Technical;
    now, "", "congestion state from now on", Technical;
    cwnd, "segments", "before the decision (snd_cwnd)", Technical;
    ssthresh, "segments", "before the decision; null: none yet", Technical;
    packets_out, "segments", "outstanding", Technical;
    sacked_out, "segments", "of them, selectively acknowledged", Technical;
    lost_out, "segments", "of them, taken for lost", Technical;
    retransmitted, "segments", "since the connection began (total_retrans)", Technical;
    srtt_us, "µs", "smoothed RTT", Technical;
    rto_us, "µs", "retransmission timeout", Technical;
    value, "", "of `timeout`: which one in a row; of `syn`: how often so far; of `window_clamp`: bytes; of `clamp`: segments; of `tuned`: the reason's number (bpf/tuned.h)", Technical;
    algorithm, "", "of `algorithm`: the one from now on", Technical;
} }

impl Decision {
    /// A line for people: when it was (UTC), what, and what the connection was like before.
    pub fn line(&self) -> String {
        let srtt = self.srtt_us.map_or("-".into(), |us| format!("{:.1}", f64::from(us) / 1e3));
        format!(
            "{}  {:<18} cwnd {:>5}  outstanding {:>5} ({} sacked, {} lost)  srtt {srtt} ms  rto {} ms",
            self.time_of_day(),
            self.words(),
            self.cwnd,
            self.packets_out,
            self.sacked_out,
            self.lost_out,
            self.rto_us / 1000,
        )
    }

    fn time_of_day(&self) -> String {
        let (ms, s) =
            (self.time.0.div_euclid(1000).rem_euclid(1000), self.time.0.div_euclid(1_000_000));
        let (hour, minute) = (s.div_euclid(3600).rem_euclid(24), s.div_euclid(60).rem_euclid(60));
        format!("{hour:02}:{minute:02}:{:02}.{ms:03}", s.rem_euclid(60))
    }

    /// As `last_decisions` has it.
    fn words(&self) -> String {
        let name = self.decided.name();
        match (self.decided, self.value, &self.algorithm) {
            (Decided::State, ..) => format!("{}>{}", self.before.name(), self.now.name()),
            (Decided::Algorithm, _, Some(algorithm)) => format!("{name} {algorithm}"),
            (_, Some(value), _) => format!("{name} {value}"),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_what_and_how_it_was_before() {
        let row = Decision {
            time: Time(1_795_443_062_012_999),
            now: CaState::Recovery,
            cwnd: 34,
            packets_out: 30,
            sacked_out: 12,
            lost_out: 3,
            srtt_us: Some(18_053),
            rto_us: 218_000,
            ..Decision::default()
        };
        let said = "14:11:02.012  open>recovery      cwnd    34  outstanding    30 (12 sacked, 3 lost)  \
                    srtt 18.1 ms  rto 218 ms";
        assert_eq!(row.line(), said);
        let timeout = Decision { decided: Decided::Timeout, value: Some(2), ..Decision::default() };
        assert!(timeout.line().starts_with("00:00:00.000  timeout 2 "), "{}", timeout.line());
        let changed =
            Decision { decided: Decided::Algorithm, algorithm: Some("bbr".into()), ..row };
        assert!(changed.line().contains("  algorithm bbr "));
    }
}

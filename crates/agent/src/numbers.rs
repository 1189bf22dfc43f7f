//! What a record of the kernel says in numbers, and what follows from them: how the connection
//! ended, and the verdict. No names and no addresses, so that it costs little.

use transom_event::errors;
use transom_spool::{Connection, Direction, Ended, RowKind, RttSamples, Verdict};

use crate::raw::{CAUSES_KNOWN, FROM_SOCK_DIAG, RESET_RECEIVED, ROW_FAILED, ROW_INTERIM, RawRow};

/// tcp_sock.snd_ssthresh before the first loss.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The columns of a row that are numbers of this one connection; the others are empty.
pub fn numbers(raw: &RawRow, us_per_jiffy: u32) -> Connection {
    let us = |jiffies: u32| u64::from(jiffies) * u64::from(us_per_jiffy);
    let rtt = RttSamples(raw.rtt);
    let causes = |number| (raw.flags & CAUSES_KNOWN != 0).then_some(number);
    let known = |us: u32| (us != 0 && us != u32::MAX).then_some(us);
    let direction = direction(raw.origin);
    let mut row = Connection {
        kind: kind(raw.kind),
        duration_us: since(raw.begun_ns, raw.time_ns),
        handshake_us: (direction == Direction::Connect)
            .then(|| since(raw.begun_ns, raw.established_ns))
            .flatten(),
        cookie: raw.cookie,
        netns: raw.netns,
        direction,
        bytes_sent: raw.bytes_sent,
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
        bytes_retransmitted: raw.bytes_retrans,
        segments_sent: raw.segs_out,
        segments_received: raw.segs_in,
        data_segments_sent: raw.data_segs_out,
        data_segments_received: raw.data_segs_in,
        retransmitted: raw.retransmitted,
        retransmitted_by_recovery: causes(raw.by_recovery),
        retransmitted_by_timeout: causes(raw.by_timeout),
        retransmitted_by_probe: causes(raw.by_probe),
        timeouts: (raw.timeouts != 0 || raw.flags & CAUSES_KNOWN != 0).then_some(raw.timeouts),
        spurious: raw.dsack_dups,
        reordered: raw.reord_seen,
        out_of_order: raw.rcv_ooopack,
        ce_marked: raw.delivered_ce,
        unsent: raw.unsent,
        busy_us: us(raw.busy),
        receive_window_limited_us: us(raw.rwnd),
        send_buffer_limited_us: us(raw.sndbuf),
        min_rtt_us: known(raw.min_rtt_us),
        srtt_us: known(raw.srtt_us),
        mdev_us: known(raw.srtt_us).map(|_| raw.mdev_us),
        median_rtt_us: rtt.quantile(0.5),
        p99_rtt_us: rtt.quantile(0.99),
        rtt_samples: rtt.count(),
        cwnd: raw.cwnd,
        largest_cwnd: raw.cwnd_max,
        ssthresh: (raw.ssthresh < INFINITE_SSTHRESH).then_some(raw.ssthresh),
        largest_peer_window: raw.max_window,
        mss: raw.mss,
        ended: ended(raw),
        ..Connection::default()
    };
    let verdict = Verdict::of(&without_syns(&row, raw));
    (row.verdict, row.verdict_share) = (verdict.cause, verdict.share);
    row
}

/// A SYN that was lost is told by the time that its handshake took, and is no data segment.
fn without_syns(row: &Connection, raw: &RawRow) -> Connection {
    let without = |number: u32, syns: u8| number.saturating_sub(syns.into());
    let by_timeout = row.retransmitted_by_timeout;
    Connection {
        retransmitted: without(row.retransmitted, raw.syn_retransmitted),
        retransmitted_by_timeout: by_timeout.map(|number| without(number, raw.syn_retransmitted)),
        timeouts: row.timeouts.map(|number| without(number, raw.syn_timeouts)),
        ..row.clone()
    }
}

fn since(begun_ns: u64, now_ns: u64) -> Option<u64> {
    (begun_ns != 0 && now_ns >= begun_ns).then(|| (now_ns - begun_ns) / 1000)
}

fn kind(raw: u8) -> RowKind {
    match raw {
        ROW_INTERIM => RowKind::Interim,
        ROW_FAILED => RowKind::Failed,
        _ => RowKind::End,
    }
}

fn direction(origin: u8) -> Direction {
    match origin {
        1 => Direction::Connect,
        2 => Direction::Accept,
        _ => Direction::Existing,
    }
}

/// From the state that it left and the error that the program will see.
fn ended(raw: &RawRow) -> Ended {
    const FIN_WAIT1: u8 = 4;
    const FIN_WAIT2: u8 = 5;
    const LAST_ACK: u8 = 9;
    const CLOSING: u8 = 11;
    if raw.kind == ROW_INTERIM {
        return Ended::Open;
    }
    if raw.flags & FROM_SOCK_DIAG != 0 {
        return Ended::Unknown;
    }
    match u32::from(raw.error) {
        errors::ECONNREFUSED => return Ended::Refused,
        errors::ETIMEDOUT => return Ended::TimedOut,
        errors::ECONNRESET | errors::EPIPE => return Ended::ResetByPeer,
        error if errors::UNREACHABLE.contains(&error) => return Ended::Unreachable,
        _ => {}
    }
    if raw.flags & RESET_RECEIVED != 0 {
        return Ended::ResetByPeer;
    }
    match raw.state {
        _ if raw.kind == ROW_FAILED => Ended::GivenUp,
        FIN_WAIT1 | FIN_WAIT2 | CLOSING => Ended::ClosedHere,
        LAST_ACK => Ended::ClosedThere,
        _ => Ended::AbortedHere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use transom_spool::Cause;

    fn left(state: u8, error: i32, flags: u8) -> Ended {
        let kind = crate::raw::ROW_END;
        ended(&RawRow { kind, state, flags, error: error as u16, ..RawRow::zeroed() })
    }

    #[test]
    fn how_it_ended_follows_from_the_state_it_left_and_the_error() {
        assert_eq!(left(5, 0, 0), Ended::ClosedHere);
        assert_eq!(left(9, 0, 0), Ended::ClosedThere);
        assert_eq!(left(1, 0, 0), Ended::AbortedHere);
        assert_eq!(left(1, libc::ECONNRESET, 0), Ended::ResetByPeer);
        assert_eq!(left(4, 0, RESET_RECEIVED), Ended::ResetByPeer);
        assert_eq!(left(1, libc::ETIMEDOUT, 0), Ended::TimedOut);
        assert_eq!(left(8, libc::EPIPE, 0), Ended::ResetByPeer);
    }

    /// A connection of this side, with one retransmission by a timer.
    fn after_one_timer() -> RawRow {
        RawRow {
            kind: crate::raw::ROW_END,
            origin: 1,
            flags: CAUSES_KNOWN,
            begun_ns: 1,
            retransmitted: 1,
            by_timeout: 1,
            mss: 1_448,
            ..RawRow::zeroed()
        }
    }

    #[test]
    fn a_syn_that_was_sent_again_is_no_data_that_was_lost() {
        let upload = |syn_retransmitted| {
            let raw = RawRow {
                established_ns: 1_400_000_001,
                time_ns: 4_000_000_001,
                bytes_acked: 200_000,
                data_segs_out: 140,
                busy: 2_400,
                syn_retransmitted,
                srtt_us: 400_000,
                min_rtt_us: 400_000,
                cwnd: 80,
                ..after_one_timer()
            };
            numbers(&raw, 1_000)
        };
        let (of_syn, of_data) = (upload(1), upload(0));
        assert_eq!((of_syn.verdict, of_data.verdict), (Cause::Cwnd, Cause::Timeouts));
        assert_eq!((of_syn.retransmitted, of_syn.retransmitted_by_timeout), (1, Some(1)));
    }

    #[test]
    fn the_timer_of_a_syn_is_none_that_data_waited_for() {
        // 80 segments in 13 round trips of 50 ms: its window of 40 was mostly empty.
        let after_one_syn = |syn_timeouts| {
            let raw = RawRow {
                established_ns: 1_050_000_001,
                time_ns: 2_250_000_001,
                bytes_acked: 110_000,
                data_segs_out: 80,
                busy: 650,
                timeouts: 1,
                syn_retransmitted: 1,
                syn_timeouts,
                srtt_us: 50_000,
                min_rtt_us: 50_000,
                cwnd: 40,
                ..after_one_timer()
            };
            numbers(&raw, 1_000)
        };
        let (of_syn, of_data) = (after_one_syn(1), after_one_syn(0));
        assert_eq!((of_syn.verdict, of_data.verdict), (Cause::Application, Cause::Cwnd));
        assert_eq!(of_syn.timeouts, Some(1), "the column has them all");
    }

    #[test]
    fn an_attempt_without_an_answer_was_given_up_by_its_program() {
        let raw = RawRow { kind: ROW_FAILED, state: 2, ..RawRow::zeroed() };
        assert_eq!(ended(&raw), Ended::GivenUp);
        let refused = RawRow { error: libc::ECONNREFUSED as u16, ..raw };
        assert_eq!(ended(&refused), Ended::Refused);
        // What a router says of a rule of its own, over IPv6.
        let by_rule = RawRow { error: libc::EACCES as u16, ..raw };
        assert_eq!(ended(&by_rule), Ended::Unreachable);
    }
}

//! What held a connection back, as far as counters can tell. Only what the kernel measured is
//! used; what needs the order of events (`explain` on a recording) is not guessed.

use crate::connection::share;
use crate::{Connection, Direction, Ended, RowKind, named};

named! {
    /// The names are those of `explain --json`.
    Cause {
        /// Nothing can be said.
        Unknown = "unknown",
        /// Too few bytes, or too short, to say what held it back.
        Little = "little",
        /// The handshake did not succeed, or took longest.
        Handshake = "handshake",
        /// The program here had nothing to send.
        Application = "application",
        /// The send buffer was full.
        SendBuffer = "send_buffer",
        /// The peer's window was full.
        ReceiverWindow = "receiver_window",
        /// Waiting for retransmission timers.
        Timeouts = "timeouts",
        /// The congestion window, and losses.
        Loss = "unclear_loss",
        /// The congestion window, and a standing queue.
        FullPath = "full_path",
        /// The congestion window, for another reason.
        Cwnd = "cwnd",
        /// A download: the other side knows.
        OtherSide = "other_side",
        /// Nothing came back until the end.
        PeerVanished = "peer_vanished",
    }
}

/// A cause with the share that it rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdict {
    pub cause: Cause,
    pub share: f64,
}

/// As `explain`: fewer bytes are too little to judge by.
const LITTLE_BYTES: u64 = 10_000;
/// The kernel counts waiting in jiffies: of a shorter connection it says nothing.
const SHORT_US: u64 = 100_000;
/// As `explain`: so many times more received than acknowledged make a download.
const DOWNLOAD_RATIO: u64 = 4;
/// The share of the time from which one limit is the main one.
const MAIN: f64 = 0.5;
/// Of the data segments: below it a window-based algorithm is not held back by losses alone.
const LOSSY: f64 = 0.005;
/// The smoothed RTT, in least RTTs, from which a queue stands, where it adds this much, too.
const QUEUE_RATIO: f64 = 2.0;
const QUEUE_LEAST_US: u32 = 10_000;

impl Verdict {
    /// Of a row whose other columns are complete.
    pub fn of(row: &Connection) -> Verdict {
        let is = |cause, share| Verdict { cause, share };
        if row.kind == RowKind::Failed {
            return is(Cause::Handshake, 1.0);
        }
        if row.ended == Ended::TimedOut {
            return is(
                Cause::PeerVanished,
                share(row.unsent.into(), row.bytes_acked + u64::from(row.unsent)),
            );
        }
        if row.bytes() < LITTLE_BYTES {
            return Verdict::of_little(row);
        }
        if row.bytes_received > DOWNLOAD_RATIO * row.bytes_acked {
            return is(
                Cause::OtherSide,
                share(row.bytes_received, row.bytes_received + row.bytes_acked),
            );
        }
        Verdict::of_sender(row)
    }

    fn of_little(row: &Connection) -> Verdict {
        let handshake = row.handshake_us.zip(row.duration_us).map_or(0.0, |(h, d)| share(h, d));
        let cause = if handshake >= MAIN { Cause::Handshake } else { Cause::Little };
        let share = if handshake >= MAIN { handshake } else { 0.0 };
        Verdict { cause, share }
    }

    fn of_sender(row: &Connection) -> Verdict {
        let is = |cause, share| Verdict { cause, share };
        if row.duration_us.is_some_and(|us| us < SHORT_US) {
            return Verdict::of_little(row);
        }
        let receiver = share(row.receive_window_limited_us, row.busy_us);
        let buffer = share(row.send_buffer_limited_us, row.busy_us);
        let busy = row.duration_us.map(|duration| share(row.busy_us, duration));
        if let Some(busy) = busy
            && busy < MAIN
            && row.direction != Direction::Existing
        {
            return is(Cause::Application, 1.0 - busy);
        }
        if receiver >= MAIN && receiver >= buffer {
            return is(Cause::ReceiverWindow, receiver);
        }
        if buffer >= MAIN {
            return is(Cause::SendBuffer, buffer);
        }
        let lost = row.retransmitted_share();
        let by_timeout =
            share(row.retransmitted_by_timeout.unwrap_or(0).into(), row.retransmitted.into());
        if lost >= LOSSY && by_timeout >= MAIN {
            return is(Cause::Timeouts, by_timeout);
        }
        if let Some(queue) = queue(row) {
            return is(Cause::FullPath, queue);
        }
        if lost >= LOSSY {
            return is(Cause::Loss, lost);
        }
        // Without a duration it may as well have been idle most of the time.
        if row.duration_us.is_none() {
            return is(Cause::Unknown, 0.0);
        }
        is(Cause::Cwnd, 1.0 - receiver - buffer)
    }
}

/// The share of the usual RTT that is a queue's, where it is worth naming.
fn queue(row: &Connection) -> Option<f64> {
    let (least, usual) = (row.min_rtt_us?, row.median_rtt_us.or(row.srtt_us)?);
    let stands = f64::from(usual) >= QUEUE_RATIO * f64::from(least)
        && usual.saturating_sub(least) >= QUEUE_LEAST_US;
    stands.then(|| 1.0 - share(least.into(), usual.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An upload that was busy all its ten seconds.
    fn upload() -> Connection {
        Connection {
            duration_us: Some(10_000_000),
            direction: Direction::Connect,
            bytes_acked: 10_000_000,
            data_segments_sent: 7_000,
            busy_us: 10_000_000,
            min_rtt_us: Some(20_000),
            srtt_us: Some(21_000),
            ended: Ended::ClosedHere,
            ..Connection::default()
        }
    }

    fn cause(change: impl FnOnce(&mut Connection)) -> Cause {
        let mut row = upload();
        change(&mut row);
        Verdict::of(&row).cause
    }

    #[test]
    fn an_upload_without_any_other_limit_is_limited_by_its_window() {
        assert_eq!(cause(|_| {}), Cause::Cwnd);
    }

    #[test]
    fn the_kernels_own_times_name_receiver_buffer_and_program() {
        assert_eq!(cause(|row| row.receive_window_limited_us = 6_000_000), Cause::ReceiverWindow);
        assert_eq!(cause(|row| row.send_buffer_limited_us = 6_000_000), Cause::SendBuffer);
        assert_eq!(cause(|row| row.busy_us = 4_000_000), Cause::Application);
        assert_eq!(cause(|row| row.receive_window_limited_us = 4_000_000), Cause::Cwnd);
    }

    #[test]
    fn without_a_duration_only_what_was_seen_is_named() {
        let undated = |change: fn(&mut Connection)| {
            cause(|row| {
                (row.duration_us, row.direction) = (None, Direction::Existing);
                change(row);
            })
        };
        assert_eq!(undated(|_| {}), Cause::Unknown, "it may have been idle");
        assert_eq!(undated(|row| row.receive_window_limited_us = 6_000_000), Cause::ReceiverWindow);
        assert_eq!(undated(|row| row.srtt_us = Some(60_000)), Cause::FullPath);
        assert_eq!(undated(|row| row.retransmitted = 100), Cause::Loss);
    }

    #[test]
    fn losses_are_named_by_how_they_were_repaired() {
        assert_eq!(cause(|row| row.retransmitted = 100), Cause::Loss);
        let timer = |row: &mut Connection| {
            row.retransmitted = 100;
            row.retransmitted_by_timeout = Some(80);
        };
        assert_eq!(cause(timer), Cause::Timeouts);
        assert_eq!(cause(|row| row.retransmitted = 3), Cause::Cwnd);
    }

    #[test]
    fn a_queue_is_named_where_the_rtt_doubles_by_ten_milliseconds() {
        assert_eq!(cause(|row| row.srtt_us = Some(60_000)), Cause::FullPath);
        let short = |row: &mut Connection| (row.min_rtt_us, row.srtt_us) = (Some(100), Some(900));
        assert_eq!(cause(short), Cause::Cwnd);
    }

    #[test]
    fn a_download_is_the_other_sides() {
        let download =
            |row: &mut Connection| (row.bytes_acked, row.bytes_received) = (500, 9_000_000);
        assert_eq!(cause(download), Cause::OtherSide);
    }

    #[test]
    fn few_bytes_are_no_matter_of_windows() {
        assert_eq!(cause(|row| row.bytes_acked = 9_000), Cause::Little);
        let slow_handshake = |row: &mut Connection| {
            (row.bytes_acked, row.duration_us, row.handshake_us) =
                (900, Some(1_100_000), Some(1_000_000));
        };
        assert_eq!(cause(slow_handshake), Cause::Handshake);
    }

    #[test]
    fn what_is_shorter_than_the_kernels_clock_can_tell_is_not_judged() {
        let short = |row: &mut Connection| (row.duration_us, row.busy_us) = (Some(9_000), 0);
        assert_eq!(cause(short), Cause::Little);
    }

    #[test]
    fn what_failed_or_fell_silent_is_said_first() {
        assert_eq!(cause(|row| row.kind = RowKind::Failed), Cause::Handshake);
        assert_eq!(cause(|row| row.ended = Ended::TimedOut), Cause::PeerVanished);
    }
}

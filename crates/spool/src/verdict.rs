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
/// As `explain`: so many segments waiting are a queue. One that waits is a delayed ACK.
const QUEUE_SEGMENTS: f64 = 3.0;
/// A window of which less than this part was in flight, on average, held nothing back: one that
/// grows with the cube of the time, or is twice what BBR lets out, is filled to more.
const FILLED: f64 = 0.25;
/// Segments that a connection begins with (RFC 6928). The kernel lets that window grow as soon as
/// more than half of it is in flight.
const FIRST_WINDOW: u32 = 10;
const FILLED_FIRST: f64 = 0.5;
/// A loss is seen a round trip after it, and repaired one later.
const ROUND_TRIPS_OF_A_LOSS: f64 = 2.0;
/// What the retransmission timer adds to the RTT, at least (TCP_RTO_MIN).
const TIMER_US: u32 = 200_000;

impl Verdict {
    /// Of a row whose other columns are complete.
    pub fn of(row: &Connection) -> Verdict {
        let is = |cause, share| Verdict { cause, share };
        if row.kind == RowKind::Failed {
            return is(Cause::Handshake, 1.0);
        }
        // The kernel's error for a retransmission that nobody answered is the last that a router, or
        // the look for the neighbour's address, gave it.
        if matches!(row.ended, Ended::TimedOut | Ended::Unreachable) {
            return is(
                Cause::PeerVanished,
                share(row.unsent.into(), row.bytes_acked + u64::from(row.unsent)),
            );
        }
        let handshake = row.handshake_us.zip(row.duration_us).map_or(0.0, |(h, d)| share(h, d));
        if handshake >= MAIN {
            return is(Cause::Handshake, handshake);
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

    fn of_sender(row: &Connection) -> Verdict {
        let is = |cause, share| Verdict { cause, share };
        if row.duration_us.is_some_and(|us| us < SHORT_US) {
            return Verdict::of_little(row);
        }
        let receiver = share(row.receive_window_limited_us, row.busy_us);
        let buffer = share(row.send_buffer_limited_us, row.busy_us);
        let busy = established_us(row).map(|time| share(row.busy_us, time));
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
        if row.retransmitted_share() >= LOSSY {
            return Verdict::of_losses(row);
        }
        if let Some(unfilled) = unfilled_window(row) {
            return is(Cause::Application, unfilled);
        }
        if let Some(queue) = queue(row) {
            return is(Cause::FullPath, queue);
        }
        // Without a duration it may as well have been idle most of the time.
        if row.duration_us.is_none() {
            return is(Cause::Unknown, 0.0);
        }
        is(Cause::Cwnd, 1.0 - receiver - buffer)
    }

    /// Of few bytes, or a short time, only losses are known to have held it back.
    fn of_little(row: &Connection) -> Verdict {
        match repairing(row) >= MAIN {
            true => Verdict::of_losses(row),
            false => Verdict { cause: Cause::Little, share: 0.0 },
        }
    }

    fn of_losses(row: &Connection) -> Verdict {
        let by_timeout =
            share(row.retransmitted_by_timeout.unwrap_or(0).into(), row.retransmitted.into());
        let (cause, share) = match queue(row) {
            _ if by_timeout >= MAIN => (Cause::Timeouts, by_timeout),
            Some(queue) => (Cause::FullPath, queue),
            None => (Cause::Loss, row.retransmitted_share()),
        };
        Verdict { cause, share }
    }
}

/// Its time without the handshake.
fn established_us(row: &Connection) -> Option<u64> {
    row.duration_us.map(|duration| duration.saturating_sub(row.handshake_us.unwrap_or(0)))
}

/// The share of the time that losses took: no more than each can have cost, and than something was
/// outstanding beyond the round trips without any, of slow start and for each answer.
fn repairing(row: &Connection) -> f64 {
    let Some(time_us) = established_us(row) else { return 0.0 };
    if row.retransmitted_share() < LOSSY {
        return 0.0;
    }
    let rtt_us = f64::from(usual_rtt_us(row).unwrap_or(0));
    let round_trips = doublings(sent(row)) + 1.0 + f64::from(row.data_segments_received);
    let beyond_us = row.busy_us.min(time_us) as f64 - round_trips * rtt_us;
    let each_us = ROUND_TRIPS_OF_A_LOSS * rtt_us;
    let cost_us = f64::from(row.retransmitted) * each_us + timers_us(row, rtt_us);
    share(beyond_us.min(cost_us).max(0.0) as u64, time_us)
}

/// How long timers were waited for: each may have taken twice as long as the one before.
fn timers_us(row: &Connection, rtt_us: f64) -> f64 {
    let timers = f64::from(row.timeouts.unwrap_or(0)).exp2() - 1.0;
    timers * (rtt_us + f64::from(TIMER_US))
}

/// How often the first window doubles until it is so many segments.
fn doublings(segments: f64) -> f64 {
    (segments / f64::from(FIRST_WINDOW)).log2().max(0.0)
}

fn usual_rtt_us(row: &Connection) -> Option<u32> {
    row.median_rtt_us.or(row.srtt_us)
}

/// The share of the usual RTT that is a queue's, where it is worth naming.
fn queue(row: &Connection) -> Option<f64> {
    let (least, usual) = (row.min_rtt_us?, usual_rtt_us(row)?);
    let queued = 1.0 - share(least.into(), usual.into());
    let stands = f64::from(usual) >= QUEUE_RATIO * f64::from(least)
        && usual.saturating_sub(least) >= QUEUE_LEAST_US
        && queued * sent(row) >= QUEUE_SEGMENTS * round_trips(row)?;
    stands.then_some(queued)
}

/// How long data was outstanding, in usual round trips.
fn round_trips(row: &Connection) -> Option<f64> {
    let rtt = usual_rtt_us(row).filter(|_| row.busy_us > 0)?;
    Some(row.busy_us as f64 / f64::from(rtt))
}

/// Segments. The kernel's count of them begins anew after some terabytes.
fn sent(row: &Connection) -> f64 {
    let whole = row.bytes_acked.checked_div(row.mss.into()).unwrap_or(0);
    whole.max(row.data_segments_sent.into()) as f64
}

/// The share of the congestion window that was not in flight while anything was, if that is so
/// much that the window cannot have been what held it back.
fn unfilled_window(row: &Connection) -> Option<f64> {
    let growth = doublings(row.cwnd.into()) + 1.0;
    let rtt_us = f64::from(usual_rtt_us(row)?);
    let waited = timers_us(row, rtt_us) / rtt_us;
    // Until a window has doubled to what it is now, only a part of it can be filled, and nothing
    // while timers are waited for.
    let round_trips = round_trips(row)? - growth - waited;
    let filled = sent(row) / (round_trips * f64::from(row.cwnd));
    let least = if row.cwnd > FIRST_WINDOW { FILLED } else { FILLED_FIRST };
    (round_trips > 0.0 && row.cwnd > 0 && filled < least).then_some(1.0 - filled)
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
            cwnd: 20,
            mss: 1_448,
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
        let short = |row: &mut Connection| {
            (row.min_rtt_us, row.srtt_us, row.data_segments_sent) = (Some(100), Some(900), 150_000);
        };
        assert_eq!(cause(short), Cause::Cwnd);
    }

    /// A connection of 100 s in which something was always on its way: so many segments, of so many
    /// bytes together, with this window and least and usual RTT.
    fn busy(segments: u32, bytes: u64, cwnd: u32, rtt_us: [u32; 2]) -> Verdict {
        Verdict::of(&Connection {
            duration_us: Some(100_000_000),
            busy_us: 90_000_000,
            bytes_acked: bytes,
            data_segments_sent: segments,
            cwnd,
            min_rtt_us: Some(rtt_us[0]),
            srtt_us: Some(rtt_us[1]),
            ..upload()
        })
    }

    #[test]
    fn small_messages_that_wait_for_answers_or_delayed_acks_are_the_programs() {
        // A database 100 ms away: a query of 500 bytes after the other.
        let queries = busy(900, 450_000, 10, [100_000, 101_000]);
        assert_eq!(queries.cause, Cause::Application);
        assert!((0.85..0.95).contains(&queries.share), "{queries:?}");
        // The same with answers of 5 kB, from the other end.
        assert_eq!(busy(3_600, 4_500_000, 10, [100_000, 101_000]).cause, Cause::Application);
        // Lines of a log in a LAN, each acknowledged after 40 ms.
        let lines = busy(2_000, 200_000, 10, [200, 40_000]);
        assert_eq!(lines.cause, Cause::Application);
        // With a window that a transfer of a few seconds has left.
        assert_eq!(busy(20_000, 28_000_000, 300, [200, 40_000]).cause, Cause::Application);
    }

    #[test]
    fn a_window_that_was_filled_is_the_limit_however_small_the_segments_are() {
        // 100 bytes each, without Nagle.
        assert_eq!(busy(9_000, 900_000, 12, [100_000, 101_000]).cause, Cause::Cwnd);
        // The count of segments begins anew after 6 TB.
        assert_eq!(busy(9_000, 6_000_000_000_000, 9_000, [200, 210]).cause, Cause::Cwnd);
        // Its last transfer has found a queue as long as ten round trips.
        assert_eq!(busy(9_000, 13_000_000, 200, [100_000, 1_000_000]).cause, Cause::FullPath);
    }

    #[test]
    fn a_window_that_doubles_until_the_end_was_filled_though_its_mean_is_small() {
        let slow_start = |row: &mut Connection| {
            row.duration_us = Some(1_000_000);
            (row.busy_us, row.cwnd, row.data_segments_sent) = (740_000, 640, 640);
            (row.bytes_acked, row.min_rtt_us, row.srtt_us) = (926_000, Some(99_000), Some(100_000));
        };
        assert_eq!(cause(slow_start), Cause::Cwnd);
    }

    #[test]
    fn a_window_that_an_outage_left_empty_was_not_left_so_by_the_program() {
        let with_timeouts = |timeouts| {
            Verdict::of(&Connection {
                duration_us: Some(100_000_000),
                busy_us: 90_000_000,
                data_segments_sent: 30_000,
                cwnd: 200,
                srtt_us: Some(50_000),
                min_rtt_us: Some(45_000),
                timeouts: Some(timeouts),
                ..upload()
            })
        };
        // Eight in a row are more than a minute.
        assert_eq!(with_timeouts(8).cause, Cause::Cwnd);
        assert_eq!(with_timeouts(2).cause, Cause::Application);
    }

    #[test]
    fn a_few_segments_that_others_delay_are_no_queue_of_this_connection() {
        // Three at a time: of the window not little, and of a queue.
        let paced = |row: &mut Connection| {
            (row.cwnd, row.data_segments_sent, row.bytes_acked) = (4, 450, 600_000);
            (row.min_rtt_us, row.srtt_us) = (Some(20_000), Some(60_000));
        };
        assert_eq!(cause(paced), Cause::Cwnd);
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
    fn a_handshake_that_took_most_of_the_time_is_named_however_much_followed() {
        // Two SYN were lost.
        let late = |acked, received| Connection {
            handshake_us: Some(3_000_000),
            duration_us: Some(3_200_000),
            busy_us: 190_000,
            bytes_acked: acked,
            bytes_received: received,
            ..upload()
        };
        assert_eq!(Verdict::of(&late(20_000, 0)).cause, Cause::Handshake);
        assert_eq!(Verdict::of(&late(20_000, 0)).share, 3.0 / 3.2);
        assert_eq!(Verdict::of(&late(500, 2_000_000)).cause, Cause::Handshake);
    }

    #[test]
    fn the_time_of_the_handshake_is_none_in_which_the_program_was_idle() {
        let late = |row: &mut Connection| {
            (row.handshake_us, row.busy_us) = (Some(3_000_000), 4_500_000);
        };
        assert_eq!(cause(late), Cause::Cwnd);
    }

    #[test]
    fn what_is_shorter_than_the_kernels_clock_can_tell_is_not_judged() {
        let short = |row: &mut Connection| (row.duration_us, row.busy_us) = (Some(9_000), 0);
        assert_eq!(cause(short), Cause::Little);
    }

    /// 300 kB within a LAN, of which a third was sent again.
    fn lossy() -> Connection {
        Connection {
            duration_us: Some(84_000),
            busy_us: 80_000,
            bytes_acked: 300_000,
            data_segments_sent: 317,
            retransmitted: 110,
            min_rtt_us: Some(900),
            srtt_us: Some(1_000),
            ..upload()
        }
    }

    #[test]
    fn losses_that_took_most_of_a_short_time_are_named() {
        let with = |change: fn(&mut Connection)| {
            let mut row = lossy();
            change(&mut row);
            Verdict::of(&row).cause
        };
        let verdict = Verdict::of(&lossy());
        assert_eq!((verdict.cause, verdict.share), (Cause::Loss, 110.0 / 317.0));
        assert_eq!(with(|row| row.retransmitted_by_timeout = Some(100)), Cause::Timeouts);
        assert_eq!(with(|row| row.retransmitted = 1), Cause::Little);
        assert_eq!(with(|row| row.busy_us = 40_000), Cause::Little, "the program paused");
        assert_eq!(with(|row| row.srtt_us = Some(15_000)), Cause::Little, "as long without");
    }

    #[test]
    fn a_question_that_its_timer_had_to_send_again_is_not_too_little_to_be_judged() {
        let asked = |retransmitted| Connection {
            duration_us: Some(235_000),
            busy_us: 216_000,
            bytes_acked: 500,
            bytes_received: 2_000,
            data_segments_sent: 2,
            data_segments_received: 2,
            retransmitted,
            retransmitted_by_timeout: Some(retransmitted),
            timeouts: Some(retransmitted),
            srtt_us: Some(10_000),
            ..upload()
        };
        assert_eq!(Verdict::of(&asked(1)).cause, Cause::Timeouts);
        assert_eq!(Verdict::of(&asked(0)).cause, Cause::Little);
    }

    #[test]
    fn one_loss_among_many_questions_is_not_what_they_waited_for() {
        let chat = Connection {
            duration_us: Some(3_000_000),
            busy_us: 2_900_000,
            bytes_acked: 4_000,
            bytes_received: 4_000,
            data_segments_sent: 21,
            data_segments_received: 12,
            retransmitted: 1,
            srtt_us: Some(100_000),
            ..upload()
        };
        assert_eq!(Verdict::of(&chat).cause, Cause::Little);
    }

    #[test]
    fn what_failed_or_fell_silent_is_said_first() {
        assert_eq!(cause(|row| row.kind = RowKind::Failed), Cause::Handshake);
        assert_eq!(cause(|row| row.ended = Ended::TimedOut), Cause::PeerVanished);
        assert_eq!(cause(|row| row.ended = Ended::Unreachable), Cause::PeerVanished);
    }
}

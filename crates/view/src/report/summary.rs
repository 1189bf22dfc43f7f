//! One row of the table: a connection in numbers.

use transom_analysis::{Connection, Recording, family_order};
use transom_event::{Kind, State, TcpState, Token};

/// A connection in numbers. Bytes are sequence space: a SYN or FIN counts as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Where it is in [`Recording::connections`].
    pub index: usize,
    pub cookie: u64,
    pub program: String,
    /// `local > remote`; empty when the trace was cut before its `open`.
    pub endpoints: String,
    pub algorithm: String,
    /// The Multipath TCP connection that it is a subflow of.
    pub mptcp: Option<Token>,
    /// µs since the start of the recording.
    pub first_us: u64,
    pub duration_us: u64,
    /// Bytes that the other side acknowledged.
    pub acked: u64,
    /// Bytes that arrived in order.
    pub received: u64,
    /// Segments.
    pub retransmitted: u64,
    pub timeouts: u64,
    /// Smallest `min_rtt` of the connection.
    pub min_rtt_us: Option<u32>,
    pub events: u64,
}

impl Summary {
    pub fn bytes(&self) -> u64 {
        self.acked + self.received
    }

    fn of(index: usize, connection: &Connection, start_ns: u64) -> Summary {
        let (mut acked, mut received) = (0, 0);
        for pair in connection.points.windows(2) {
            let step = progress(&pair[0].state, &pair[1].state);
            acked += step.acked;
            received += step.received;
        }
        let retransmitted = connection
            .marks
            .iter()
            .filter(|mark| mark.kind == Kind::Retransmit)
            .map(|mark| u64::from(mark.aux[0] >> 8).max(1))
            .sum();
        Summary {
            index,
            cookie: connection.cookie,
            program: connection.program(),
            endpoints: connection.endpoints().map(|ends| ends.to_string()).unwrap_or_default(),
            algorithm: connection.algorithm(),
            mptcp: connection.mptcp(),
            first_us: connection.first_ns.saturating_sub(start_ns) / 1000,
            duration_us: connection.last_ns.saturating_sub(connection.first_ns) / 1000,
            acked,
            received,
            retransmitted,
            timeouts: connection.count(Kind::Rto),
            min_rtt_us: connection.points.iter().filter_map(|point| point.state.min_rtt()).min(),
            events: connection.events,
        }
    }

    /// Whether `--connection wanted` means this one.
    pub fn matches(&self, wanted: &str) -> bool {
        wanted.parse() == Ok(self.cookie)
            || self.program.contains(wanted)
            || self.endpoints.contains(wanted)
            || self.mptcp.is_some_and(|token| token.to_string() == wanted)
    }
}

/// Every connection of the recording, the one with most bytes first; subflows of one Multipath TCP
/// connection under one another.
pub fn summaries(recording: &Recording) -> Vec<Summary> {
    let mut rows: Vec<Summary> = recording
        .connections
        .iter()
        .enumerate()
        .map(|(index, connection)| Summary::of(index, connection, recording.start_ns))
        .collect();
    family_order(&mut rows, |r| r.mptcp, |r| [r.bytes(), r.events], |r| r.first_us);
    rows
}

/// Bytes that went each way between two states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub acked: u64,
    pub received: u64,
}

/// How far `snd_una` and `rcv_nxt` moved; sequence numbers wrap at 2^32.
///
/// Before the handshake ends and after `CLOSE` they are no positions in the
/// stream, so nothing is counted there.
pub fn progress(before: &State, after: &State) -> Progress {
    if !synchronized(before) || !synchronized(after) {
        return Progress::default();
    }
    let forward = |from: u32, to: u32| match to.wrapping_sub(from) {
        step if from != 0 && step < 1 << 31 => u64::from(step),
        _ => 0,
    };
    Progress {
        acked: forward(before.snd_una, after.snd_una),
        received: forward(before.rcv_nxt, after.rcv_nxt),
    }
}

/// RFC 9293: both sides know each other's initial sequence number.
fn synchronized(state: &State) -> bool {
    !matches!(
        state.tcp(),
        None | Some(
            TcpState::SynSent
                | TcpState::SynRecv
                | TcpState::NewSynRecv
                | TcpState::Listen
                | TcpState::Close
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(tcp: TcpState, snd_una: u32, rcv_nxt: u32) -> State {
        State { tcp_state: tcp as u8, snd_una, rcv_nxt, ..State::default() }
    }

    #[test]
    fn sequence_numbers_wrap() {
        let before = state(TcpState::Established, u32::MAX - 9, 5);
        let after = state(TcpState::Established, 90, 5);
        assert_eq!(progress(&before, &after), Progress { acked: 100, received: 0 });
    }

    #[test]
    fn the_initial_sequence_number_is_not_traffic() {
        let before = state(TcpState::SynSent, 0, 0);
        let after = state(TcpState::Established, 3_000_000, 9_000_000);
        assert_eq!(progress(&before, &after), Progress::default());
    }

    #[test]
    fn going_back_is_not_traffic() {
        let before = state(TcpState::Established, 500, 500);
        let after = state(TcpState::Established, 400, 500);
        assert_eq!(progress(&before, &after), Progress::default());
    }
}

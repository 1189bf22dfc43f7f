//! A record of the kernel becomes a row: names for numbers, microseconds for jiffies, and what
//! follows from the state that a connection left.

use std::collections::HashMap;

use transom_spool::{
    CaState, Chosen, Connection, Decided, Decision, Direction, Ended, RowKind, RttSamples, Source,
    Text, Time, Verdict,
};

use crate::addresses::{Addresses, Tagger, address, prefix};
use crate::cgroups::{Cgroups, interface};
use crate::journal::Record;
use crate::raw::{
    CAUSES_KNOWN, FROM_SOCK_DIAG, LEVEL_CHANGED, RESET_RECEIVED, ROW_FAILED, ROW_INTERIM,
    RawDecision, RawRow,
};
use crate::recent::Recents;

/// tcp_sock.snd_ssthresh before the first loss.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Names of programs and prefixes that are kept, so that rows share them.
const SHARED: usize = 4096;

pub struct Assembler {
    pub cgroups: Cgroups,
    pub us_per_jiffy: u32,
    /// Wall time minus CLOCK_BOOTTIME, ns.
    pub wall_offset_ns: i64,
    pub addresses: Addresses,
    /// The network namespace whose interfaces have names for us.
    pub netns: u32,
    tagger: Tagger,
    shared: HashMap<Vec<u8>, Text>,
    recents: Recents,
    interfaces: HashMap<u32, Option<Text>>,
}

impl Assembler {
    pub fn new(tagger: Tagger, addresses: Addresses, us_per_jiffy: u32, netns: u32) -> Assembler {
        Assembler {
            cgroups: Cgroups::new(),
            us_per_jiffy,
            wall_offset_ns: 0,
            addresses,
            netns,
            tagger,
            shared: HashMap::new(),
            recents: Recents::default(),
            interfaces: HashMap::new(),
        }
    }

    /// The same, for a journal: it has the names of its cgroups itself.
    pub fn for_journal(&self) -> Assembler {
        Assembler {
            cgroups: Cgroups::of_journal(),
            tagger: self.tagger.clone(),
            shared: HashMap::new(),
            recents: Recents::default(),
            interfaces: self.interfaces.clone(),
            ..*self
        }
    }

    fn time(&self, ns: u64) -> Time {
        Time((ns as i64 + self.wall_offset_ns) / 1000)
    }

    fn us(&self, jiffies: u32) -> u64 {
        u64::from(jiffies) * u64::from(self.us_per_jiffy)
    }

    fn text(&mut self, bytes: &[u8]) -> Option<Text> {
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let bytes = &bytes[..end];
        if bytes.is_empty() {
            return None;
        }
        if let Some(known) = self.shared.get(bytes) {
            return Some(known.clone());
        }
        if self.shared.len() >= SHARED {
            self.shared.clear();
        }
        let text = Text::from(String::from_utf8_lossy(bytes));
        self.shared.insert(bytes.to_owned(), text.clone());
        Some(text)
    }

    fn interface(&mut self, index: u32, netns: u32) -> Option<Text> {
        if index == 0 {
            return None;
        }
        if netns != self.netns {
            return Some(index.to_string().into());
        }
        let name = || interface(index).unwrap_or_else(|| index.to_string());
        self.interfaces.entry(index).or_insert_with(|| Some(name().into())).clone()
    }

    /// The row that a record is, where it is one of a connection. Records come in their order:
    /// what led to a row comes before it, and so does what the wall clock said then.
    pub fn row_of(&mut self, record: Record) -> Option<Connection> {
        match record {
            Record::Row(raw) => return Some(self.connection(&raw)),
            Record::Recents(raw) => self.recents.note(&raw),
            Record::Beat(beat) => self.wall_offset_ns = beat.wall_offset_ns,
            _ => {}
        }
        None
    }

    /// The same of a decision.
    pub fn decision_of(&mut self, record: Record) -> Option<Decision> {
        match record {
            Record::Decision(raw) => return Some(self.decision(&raw)),
            Record::Beat(beat) => self.wall_offset_ns = beat.wall_offset_ns,
            _ => {}
        }
        None
    }

    pub fn connection(&mut self, raw: &RawRow) -> Connection {
        let names = self.cgroups.names(raw.cgroup);
        let remote = address(raw.family, &raw.remote_addr);
        let full = self.addresses == Addresses::Full;
        let local = full.then(|| address(raw.family, &raw.local_addr).to_string().into());
        let rtt = RttSamples(raw.rtt);
        let causes = |number| (raw.flags & CAUSES_KNOWN != 0).then_some(number);
        let known = |us: u32| (us != 0 && us != u32::MAX).then_some(us);
        let direction = direction(raw.origin);
        let (ended, kind) = (ended(raw), kind(raw.kind));
        let mut row = Connection {
            time: self.time(raw.time_ns),
            kind,
            duration_us: since(raw.begun_ns, raw.time_ns),
            handshake_us: (direction == Direction::Connect)
                .then(|| since(raw.begun_ns, raw.established_ns))
                .flatten(),
            cookie: raw.cookie,
            level: level(raw),
            chosen: Chosen::ALL.get(usize::from(raw.chosen)).copied().unwrap_or_default(),
            level_changed: u8::from(raw.flags & LEVEL_CHANGED != 0),
            source: if raw.flags & FROM_SOCK_DIAG != 0 { Source::SockDiag } else { Source::Probes },
            program: self.text(&raw.comm),
            pid: (raw.tgid != 0).then_some(raw.tgid),
            unit: names.unit.clone(),
            pod: names.pod.clone(),
            container: names.container.clone(),
            cgroup: names.path.clone(),
            netns: raw.netns,
            interface: self.interface(raw.ifindex, raw.netns),
            direction,
            service: service(raw, direction),
            local_port: raw.local_port,
            remote_port: raw.remote_port,
            remote_prefix: self.text(prefix(remote).as_bytes()),
            remote_tag: Some(self.tagger.tag(remote)),
            local_address: local,
            remote_address: full.then(|| remote.to_string().into()),
            algorithm: self.text(&raw.algorithm),
            mptcp: (raw.mptcp != 0).then_some(raw.mptcp),
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
            busy_us: self.us(raw.busy),
            receive_window_limited_us: self.us(raw.rwnd),
            send_buffer_limited_us: self.us(raw.sndbuf),
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
            ended,
            error: (raw.error != 0).then(|| errno(raw.error).into()),
            last_decisions: self.recents.take(raw.cookie, raw.time_ns).map(Text::from),
            ..Connection::default()
        };
        let verdict = Verdict::of(&row);
        (row.verdict, row.verdict_share) = (verdict.cause, verdict.share);
        row
    }

    fn decision(&mut self, raw: &RawDecision) -> Decision {
        Decision {
            time: self.time(raw.time_ns),
            cookie: raw.cookie,
            pid: (raw.tgid != 0).then_some(raw.tgid),
            local_port: raw.local_port,
            remote_port: raw.remote_port,
            decided: decided(raw.decision),
            before: state(raw.before),
            now: state(raw.now),
            value: value(raw.decision, raw.value),
            algorithm: self.text(&raw.algorithm),
            cwnd: raw.cwnd,
            ssthresh: (raw.ssthresh < INFINITE_SSTHRESH).then_some(raw.ssthresh),
            packets_out: raw.packets_out,
            sacked_out: raw.sacked_out,
            lost_out: raw.lost_out,
            retransmitted: raw.retransmitted,
            srtt_us: (raw.srtt_us != 0).then_some(raw.srtt_us),
            rto_us: raw.rto.saturating_mul(self.us_per_jiffy),
        }
    }
}

/// In the order of `enum tx_decision_kind`, from 1.
pub fn decided(raw: u8) -> Decided {
    let place = usize::from(raw).wrapping_sub(1);
    Decided::ALL.get(place).copied().unwrap_or_default()
}

pub fn state(raw: u8) -> CaState {
    CaState::ALL.get(usize::from(raw)).copied().unwrap_or_default()
}

fn value(decision: u8, value: u32) -> Option<u32> {
    let has_one = [Decided::Timeout, Decided::Syn, Decided::Window, Decided::Clamp, Decided::Tuned];
    has_one.contains(&decided(decision)).then_some(value)
}

fn since(begun_ns: u64, now_ns: u64) -> Option<u64> {
    (begun_ns != 0 && now_ns >= begun_ns).then(|| (now_ns - begun_ns) / 1000)
}

fn level(raw: &RawRow) -> u8 {
    if raw.chosen != 0 { 2 } else { u8::from(raw.flags & CAUSES_KNOWN != 0) }
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

/// Of a connection from before the agent, the smaller port.
fn service(raw: &RawRow, direction: Direction) -> u16 {
    match direction {
        Direction::Connect => raw.remote_port,
        Direction::Accept => raw.local_port,
        Direction::Existing => raw.local_port.min(raw.remote_port),
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
    match i32::from(raw.error) {
        libc::ECONNREFUSED => return Ended::Refused,
        libc::ETIMEDOUT => return Ended::TimedOut,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => {
            return Ended::Unreachable;
        }
        libc::ECONNRESET | libc::EPIPE => return Ended::ResetByPeer,
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

fn errno(error: u16) -> String {
    let name = match i32::from(error) {
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ECONNRESET => "ECONNRESET",
        libc::EPIPE => "EPIPE",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ENETDOWN => "ENETDOWN",
        libc::EHOSTDOWN => "EHOSTDOWN",
        libc::ECONNABORTED => "ECONNABORTED",
        libc::EACCES => "EACCES",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EPROTO => "EPROTO",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        other => return other.to_string(),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

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

    #[test]
    fn an_attempt_without_an_answer_was_given_up_by_its_program() {
        let raw = RawRow { kind: ROW_FAILED, state: 2, ..RawRow::zeroed() };
        assert_eq!(ended(&raw), Ended::GivenUp);
        let refused = RawRow { error: libc::ECONNREFUSED as u16, ..raw };
        assert_eq!(ended(&refused), Ended::Refused);
    }
}

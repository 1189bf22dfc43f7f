//! A record of the kernel becomes a row: names beside its numbers.

use std::net::IpAddr;

use transom_event::{errors, plain_name};
use transom_spool::{
    CaState, Chosen, Connection, Decided, Decision, Direction, Source, Text, Time, prefix,
};

use crate::addresses::{Addresses, Tagger, address};
use crate::cgroups::{Cgroups, interface};
use crate::journal::Record;
use crate::numbers::{INFINITE_SSTHRESH, numbers};
use crate::raw::{CAUSES_KNOWN, FROM_SOCK_DIAG, LEVEL_CHANGED, RawDecision, RawRow};
use crate::recent::Recents;
use crate::shared::Shared;

/// The family of an address, and as many of its bytes as [`prefix`] has: 3, or 6 of IPv6.
const PREFIX: usize = 7;
const V4_PREFIX: usize = 4;

pub struct Assembler {
    pub cgroups: Cgroups,
    pub us_per_jiffy: u32,
    /// Wall time minus CLOCK_BOOTTIME, ns.
    pub wall_offset_ns: i64,
    pub addresses: Addresses,
    /// The network namespace whose interfaces have names for us.
    pub netns: u32,
    pub tagger: Tagger,
    /// Of programs and algorithms.
    names: Shared<[u8; 16]>,
    prefixes: Shared<[u8; PREFIX]>,
    /// By the number, and whether it is of our network namespace.
    interfaces: Shared<(u32, bool)>,
    recents: Recents,
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
            names: Shared::default(),
            prefixes: Shared::default(),
            interfaces: Shared::default(),
            recents: Recents::default(),
        }
    }

    /// The same, for a journal: it has the names of its cgroups itself.
    pub fn for_journal(&self) -> Assembler {
        Assembler {
            cgroups: Cgroups::of_journal(),
            tagger: self.tagger.clone(),
            names: Shared::default(),
            prefixes: Shared::default(),
            interfaces: self.interfaces.clone(),
            recents: Recents::default(),
            ..*self
        }
    }

    fn time(&self, ns: u64) -> Time {
        Time((ns as i64 + self.wall_offset_ns) / 1000)
    }

    fn name(&mut self, bytes: &[u8; 16]) -> Option<Text> {
        (bytes[0] != 0).then(|| self.names.text(*bytes, || plain_name(bytes).into()))
    }

    fn interface(&mut self, index: u32, netns: u32) -> Option<Text> {
        let ours = netns == self.netns;
        let name = || ours.then(|| interface(index)).flatten();
        let text = || name().unwrap_or_else(|| index.to_string()).into();
        (index != 0).then(|| self.interfaces.text((index, ours), text))
    }

    fn prefix(&mut self, family: u8, remote: IpAddr, bytes: &[u8; 16]) -> Text {
        let mut key = [family; PREFIX];
        key[1..].copy_from_slice(&bytes[..PREFIX - 1]);
        if remote.is_ipv4() {
            key[V4_PREFIX..].fill(0);
        }
        self.prefixes.text(key, || prefix(remote).into())
    }

    /// The row that a record is, where it is one of a connection. Records come in their order:
    /// what led to a row comes before it, and so does what the wall clock said then.
    pub fn row_of(&mut self, record: Record) -> Option<Connection> {
        match record {
            Record::Row(raw) => return Some(self.connection(&raw)),
            Record::Recents(raw) => self.recents.note(&raw),
            Record::Name(id, name) => self.cgroups.note(id, &name),
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
        let row = numbers(raw, self.us_per_jiffy);
        Connection {
            time: self.time(raw.time_ns),
            level: level(raw),
            chosen: Chosen::ALL.get(usize::from(raw.chosen)).copied().unwrap_or_default(),
            level_changed: u8::from(raw.flags & LEVEL_CHANGED != 0),
            source: if raw.flags & FROM_SOCK_DIAG != 0 { Source::SockDiag } else { Source::Probes },
            program: self.name(&raw.comm),
            pid: (raw.tgid != 0).then_some(raw.tgid),
            unit: names.unit.clone(),
            pod: names.pod.clone(),
            container: names.container.clone(),
            cgroup: names.path.clone(),
            interface: self.interface(raw.ifindex, raw.netns),
            service: service(raw, row.direction),
            local_port: raw.local_port,
            remote_port: raw.remote_port,
            remote_prefix: Some(self.prefix(raw.family, remote, &raw.remote_addr)),
            remote_tag: Some(self.tagger.tag(remote)),
            local_address: local,
            remote_address: full.then(|| remote.to_string().into()),
            algorithm: self.name(&raw.algorithm),
            mptcp: (raw.mptcp != 0).then_some(raw.mptcp),
            error: (raw.error != 0).then(|| errno(raw.error).into()),
            last_decisions: self.recents.take(raw.cookie, raw.time_ns).map(Text::from),
            ..row
        }
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
            algorithm: self.name(&raw.algorithm),
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

fn level(raw: &RawRow) -> u8 {
    if raw.chosen != 0 { 2 } else { u8::from(raw.flags & CAUSES_KNOWN != 0) }
}

/// Of a connection from before the agent, the smaller port.
fn service(raw: &RawRow, direction: Direction) -> u16 {
    match direction {
        Direction::Connect => raw.remote_port,
        Direction::Accept => raw.local_port,
        Direction::Existing => raw.local_port.min(raw.remote_port),
    }
}

fn errno(error: u16) -> String {
    errors::name(error.into()).map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;

    #[test]
    fn no_name_in_a_row_can_move_the_cursor_of_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let tagger = Tagger::of_or_new(&folder.path().join("key")).unwrap();
        let mut assembler = Assembler::new(tagger, Addresses::Prefix, 4000, 0).for_journal();
        // Anybody may name a cgroup below one of theirs.
        assembler.cgroups.note(7, "/user.slice/\x1b[2J\u{9b}.service");
        let mut raw = RawRow { cgroup: 7, ..RawRow::zeroed() };
        raw.comm[..4].copy_from_slice(b"\x1b[2J");
        raw.algorithm[..4].copy_from_slice(b"\x07bbr");
        let row = assembler.connection(&raw);
        assert_eq!(row.program.as_deref(), Some("?[2J"));
        assert_eq!(row.algorithm.as_deref(), Some("?bbr"));
        assert_eq!(row.unit.as_deref(), Some("?[2J?.service"));
        assert_eq!(row.cgroup.as_deref(), Some("/user.slice/?[2J?.service"));
    }
}

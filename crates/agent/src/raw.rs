//! `bpf/agent.h` in Rust; a test compares both.

use bytemuck::{Pod, Zeroable};
use transom_spool::BUCKETS;

pub const ROW_END: u8 = 1;
pub const ROW_INTERIM: u8 = 2;
pub const ROW_FAILED: u8 = 3;
pub const DECISION: u8 = 4;
pub const RECENT: u8 = 5;
pub const SNAPSHOT: u8 = 6;

/// Whether this begins a row of a connection.
pub fn is_row(kind: u8) -> bool {
    [ROW_END, ROW_INTERIM, ROW_FAILED].contains(&kind)
}

/// Decisions that a connection's storage keeps.
pub const LAST: usize = 16;
/// [`RawRecent::time`] counts 2^20 ns.
pub const RECENT_SHIFT: u32 = 20;

/// Flags of [`RawRow`].
pub const RESET_RECEIVED: u8 = 1;
pub const CAUSES_KNOWN: u8 = 2;
pub const FROM_SOCK_DIAG: u8 = 4;
pub const LEVEL_CHANGED: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RawRow {
    pub kind: u8,
    pub origin: u8,
    pub flags: u8,
    pub family: u8,
    pub state: u8,
    pub ca_state: u8,
    pub error: u16,
    pub tgid: u32,
    /// Why it is recorded, from 1 in the order of [`transom_spool::Chosen`].
    pub chosen: u8,
    pub syn_retransmitted: u8,
    /// Of `timeouts`: before it was established.
    pub syn_timeouts: u8,
    pub reserved2: u8,
    pub time_ns: u64,
    pub cookie: u64,
    pub begun_ns: u64,
    pub established_ns: u64,
    pub cgroup: u64,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub bytes_retrans: u64,
    pub netns: u32,
    pub ifindex: u32,
    pub mptcp: u32,
    pub local_port: u16,
    pub remote_port: u16,
    pub local_addr: [u8; 16],
    pub remote_addr: [u8; 16],
    pub comm: [u8; 16],
    pub algorithm: [u8; 16],
    pub segs_out: u32,
    pub segs_in: u32,
    pub data_segs_out: u32,
    pub data_segs_in: u32,
    pub retransmitted: u32,
    pub by_recovery: u32,
    pub by_timeout: u32,
    pub by_probe: u32,
    pub timeouts: u32,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub busy: u32,
    pub rwnd: u32,
    pub sndbuf: u32,
    pub srtt_us: u32,
    pub mdev_us: u32,
    pub min_rtt_us: u32,
    pub cwnd: u32,
    pub cwnd_max: u32,
    pub ssthresh: u32,
    pub max_window: u32,
    pub mss: u32,
    pub unsent: u32,
    pub rtt: [u8; BUCKETS],
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RawDecision {
    pub kind: u8,
    pub decision: u8,
    pub before: u8,
    pub now: u8,
    pub tgid: u32,
    pub time_ns: u64,
    pub cookie: u64,
    pub cwnd: u32,
    pub ssthresh: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retransmitted: u32,
    pub srtt_us: u32,
    pub rto: u32,
    pub local_port: u16,
    pub remote_port: u16,
    /// What it is depends on `decision`.
    pub value: u32,
    pub algorithm: [u8; 16],
}

/// One of the last decisions of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawRecent {
    pub time: u32,
    pub decision: u8,
    /// Before, and now << 4.
    pub states: u8,
    pub value: u16,
}

/// What led to the next record of the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawRecents {
    pub kind: u8,
    pub reserved: [u8; 3],
    pub number: u32,
    pub cookie: u64,
    pub last: [RawRecent; LAST],
}

/// What the programs are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Orders {
    pub interim_ns: u64,
    pub most: u32,
    pub causes: u32,
    pub generation: u32,
    /// The number of the recount that goes on, or was the last; 0: there was none yet.
    pub recount: u32,
    /// Whether the recount says whom it finds.
    pub roll_call: u32,
    pub reserved: u32,
}

/// Entries of the watch list.
pub const WATCHES: usize = 16;

/// An entry of the watch list; masks and factors of 0 are for what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawWatch {
    pub cgroup: u64,
    pub comm: [u64; 2],
    pub comm_mask: u64,
    pub address: [u64; 2],
    pub address_mask: [u64; 2],
    pub port: u16,
    pub port_counts: u16,
    pub family: u16,
    pub family_counts: u16,
}

/// Which connections are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawChoice {
    pub sample_below: u64,
    pub sample_key: [u64; 2],
    pub handshake_ns: u64,
    pub on: u32,
    pub most: u32,
    pub timeouts: u32,
    pub refusals: u32,
    pub retransmitted_ppm: u32,
    pub peer_limited_ppm: u32,
    pub least_busy: u32,
    pub snapshots: u32,
    pub watches: u32,
    pub reserved: u32,
    pub watch: [RawWatch; WATCHES],
}

/// What they count, by slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub tracked: u64,
    pub untracked: u64,
    pub lost_rows: u64,
    pub lost_decisions: u64,
    /// Connections that are recorded now.
    pub recorded: u64,
    /// Since the start.
    pub chosen: u64,
    /// For want of room, each once.
    pub not_chosen: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_machine::objects::agent;
    use transom_testbed::layout::{assert_same, of_rust};

    #[test]
    fn every_field_is_where_the_compiled_programs_have_it() {
        let open = agent::open().unwrap();
        let row = of_rust!(RawRow {
            kind,
            origin,
            flags,
            family,
            state,
            ca_state,
            error,
            tgid,
            chosen,
            syn_retransmitted,
            syn_timeouts,
            reserved2,
            time_ns,
            cookie,
            begun_ns,
            established_ns,
            cgroup,
            bytes_sent,
            bytes_acked,
            bytes_received,
            bytes_retrans,
            netns,
            ifindex,
            mptcp,
            local_port,
            remote_port,
            local_addr,
            remote_addr,
            comm,
            algorithm,
            segs_out,
            segs_in,
            data_segs_out,
            data_segs_in,
            retransmitted,
            by_recovery,
            by_timeout,
            by_probe,
            timeouts,
            dsack_dups,
            reord_seen,
            rcv_ooopack,
            delivered,
            delivered_ce,
            busy,
            rwnd,
            sndbuf,
            srtt_us,
            mdev_us,
            min_rtt_us,
            cwnd,
            cwnd_max,
            ssthresh,
            max_window,
            mss,
            unsent,
            rtt,
        });
        let decision = of_rust!(RawDecision {
            kind,
            decision,
            before,
            now,
            tgid,
            time_ns,
            cookie,
            cwnd,
            ssthresh,
            packets_out,
            sacked_out,
            lost_out,
            retransmitted,
            srtt_us,
            rto,
            local_port,
            remote_port,
            value,
            algorithm,
        });
        let recent = of_rust!(RawRecent { time, decision, states, value });
        let recents = of_rust!(RawRecents { kind, reserved, number, cookie, last });
        let orders =
            of_rust!(Orders { interim_ns, most, causes, generation, recount, roll_call, reserved });
        let watch = of_rust!(RawWatch {
            cgroup,
            comm,
            comm_mask,
            address,
            address_mask,
            port,
            port_counts,
            family,
            family_counts,
        });
        let choice = of_rust!(RawChoice {
            sample_below,
            sample_key,
            handshake_ns,
            on,
            most,
            timeouts,
            refusals,
            retransmitted_ppm,
            peer_limited_ppm,
            least_busy,
            snapshots,
            watches,
            reserved,
            watch,
        });
        assert_same(
            &open,
            &[
                ("tx_row", row),
                ("tx_decision", decision),
                ("tx_recent", recent),
                ("tx_recents", recents),
                ("tx_agent_orders", orders),
                ("tx_watch", watch),
                ("tx_agent_choice", choice),
            ],
        );
    }
}

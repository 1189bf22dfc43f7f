//! `bpf/tuned.h` and `bpf/policy.h` in Rust; a test compares both.

use bytemuck::{Pod, Zeroable};
use transom_event::Open;
use transom_guard::Counters;

/// Most rules of a policy: each is a bit of [`Seen::rules`], and the kernel
/// looks through all of them at each new connection.
pub const RULES: usize = 32;
/// Most programs of a rule.
pub const PROGRAMS: usize = 4;
/// Most ports, and most prefixes, of a rule.
pub const VALUES: usize = 16;

/// What 1 is in [`Parameters::backoff`] and [`Parameters::gain`].
pub const ONE: u32 = 1024;

/// Parameters of `steady`; the cap holds for every algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Parameters {
    /// Segments to start with; 0 = what the path is found to hold.
    pub target: u32,
    /// Segments; 0 = no cap.
    pub cap: u32,
    /// Share given up at congestion, in 1024ths.
    pub backoff: u32,
    /// Segments a round trip in congestion avoidance, in 1024ths.
    pub gain: u32,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Wish {
    /// Empty: the one it had before us.
    pub algorithm: [u8; 16],
    pub steady: Parameters,
    /// Segments; 0 = not said. New connections only.
    pub initial_window: u32,
    /// From 1; 0 = none.
    pub rule: u8,
    /// [`transom_event::Reason`].
    pub reason: u8,
    /// [`transom_event::Algorithm`].
    pub named: u8,
    /// 1: take back all that we did.
    pub restore: u8,
}

/// What we did to a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Tuned {
    /// In force.
    pub wish: Wish,
    /// Before us; empty = not touched.
    pub algorithm: [u8; 16],
    pub clamp: u32,
    pub ssthresh: u32,
    pub action: u32,
    pub clamped: u32,
    pub passing: u32,
    /// 1: the kernel did not take the algorithm of the wish.
    pub refused: u32,
    pub pacing_status: u32,
    pub reserved: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawPrefix {
    pub addr: [u8; 16],
    pub family: u16,
    pub length: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawRule {
    pub cgroup: u64,
    pub reserved: u32,
    pub netns: u32,
    pub ifindex: u32,
    pub used: u32,
    pub programs: u32,
    pub ports: u32,
    pub prefixes: u32,
    pub rtt_least_us: u32,
    pub rtt_most_us: u32,
    pub terminals_least: u32,
    pub terminals_most: u32,
    pub stability: u32,
    pub program: [[u8; 16]; PROGRAMS],
    pub port: [u16; VALUES],
    pub prefix: [RawPrefix; VALUES],
    pub wish: Wish,
}

/// What the walk over connections does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    Observe = 1,
    Act = 2,
    Restore = 3,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Orders {
    pub mode: u32,
    pub terminals: u32,
}

/// One connection, as the kernel's walk found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Seen {
    pub cookie: u64,
    /// Bit n: all that does not change holds for rule n.
    pub rules: u64,
    pub tcp_state: u32,
    pub ca_state: u32,
    /// Segments.
    pub cwnd: u32,
    pub ssthresh: u32,
    pub clamp: u32,
    /// Bytes.
    pub mss: u32,
    pub srtt_us: u32,
    /// `u32::MAX` = not measured.
    pub min_rtt_us: u32,
    /// Segments, since the connection began.
    pub delivered: u32,
    /// Segments with data, retransmissions included.
    pub sent: u32,
    pub retransmitted: u32,
    /// `icsk_backoff`.
    pub timeouts: u32,
    /// Bytes that the program has written and that wait.
    pub unsent: u32,
    pub reserved: u32,
    pub open: Open,
    pub tuned: Tuned,
}

/// A name as the kernel keeps it: 16 bytes, the last of them 0.
pub fn name16(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let length = text.len().min(15);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    name
}

/// What such a name says.
pub fn text16(name: &[u8; 16]) -> String {
    transom_event::plain_name(name)
}

impl Seen {
    /// The round trip of the path: the least one, or the smoothed one before there is a least.
    pub fn rtt_us(&self) -> Option<u32> {
        let rtt = if self.min_rtt_us == u32::MAX { self.srtt_us } else { self.min_rtt_us };
        (rtt > 0).then_some(rtt)
    }

    /// What the guard judges a path by.
    pub fn counters(&self) -> Counters {
        Counters {
            sent: self.sent,
            retransmitted: self.retransmitted,
            delivered: self.delivered,
            srtt_us: self.srtt_us,
            min_rtt_us: self.min_rtt_us,
            unsent: self.unsent,
        }
    }

    pub fn is_touched(&self) -> bool {
        self.tuned.algorithm[0] != 0
    }

    /// Whether the program has chosen another algorithm since we gave it one.
    pub fn chose_itself(&self) -> bool {
        let tuned = &self.tuned;
        let ours =
            if tuned.wish.algorithm[0] != 0 { &tuned.wish.algorithm } else { &tuned.algorithm };
        self.is_touched() && tuned.refused == 0 && text16(ours) != self.open.algorithm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_have_the_sizes_that_the_header_asserts() {
        assert_eq!(size_of::<Wish>(), 40);
        assert_eq!(size_of::<Tuned>(), 88);
        assert_eq!(size_of::<RawRule>(), 512);
        assert_eq!(size_of::<Seen>(), 256);
    }

    #[test]
    fn fields_lie_where_the_compiled_programs_have_them() {
        use transom_machine::objects::policy::types as layout;
        assert_eq!(offset_of!(layout::tx_rule, rtt_least_us), offset_of!(RawRule, rtt_least_us));
        assert_eq!(offset_of!(layout::tx_rule, stability), offset_of!(RawRule, stability));
        assert_eq!(offset_of!(layout::tx_rule, program), offset_of!(RawRule, program));
        assert_eq!(offset_of!(layout::tx_rule, prefix), offset_of!(RawRule, prefix));
        assert_eq!(offset_of!(layout::tx_rule, wish), offset_of!(RawRule, wish));
        assert_eq!(offset_of!(layout::tx_wish, initial_window), offset_of!(Wish, initial_window));
        assert_eq!(offset_of!(layout::tx_wish, restore), offset_of!(Wish, restore));
        assert_eq!(size_of::<layout::tx_orders>(), size_of::<Orders>());
    }

    #[test]
    fn names_are_cut_to_what_the_kernel_keeps() {
        assert_eq!(text16(&name16("cubic")), "cubic");
        assert_eq!(text16(&name16("a-name-that-is-too-long")), "a-name-that-is-");
    }
}

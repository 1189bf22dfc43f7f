//! What is written into a BPF object before it loads (`bpf/settings.h`): the verifier then sees
//! constants and removes what is not asked for.

use anyhow::Result;
use bytemuck::{Pod, Zeroable};
use libbpf_rs::OpenObject;
use transom_machine::objects::put_settings;

use crate::filter::MAX_VALUES;
use crate::probes::Tier;
use crate::session::{MonitorOptions, Rate};
use crate::survey::Survey;

/// `struct tx_prefix`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PrefixSettings {
    pub addr: [u8; 16],
    pub family: u16,
    pub length: u16,
}

/// `struct tx_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FilterSettings {
    pub cgroup: u64,
    pub netns: u32,
    pub ifindex: u32,
    pub by_process: u32,
    pub follow_children: u32,
    pub ports: u32,
    pub local_ports: u32,
    pub remote_ports: u32,
    pub local_prefixes: u32,
    pub remote_prefixes: u32,
    pub reserved: u32,
    pub port: [u16; MAX_VALUES],
    pub local_port: [u16; MAX_VALUES],
    pub remote_port: [u16; MAX_VALUES],
    pub local_prefix: [PrefixSettings; MAX_VALUES],
    pub remote_prefix: [PrefixSettings; MAX_VALUES],
}

/// `struct tx_settings`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Settings {
    pub filter: FilterSettings,
    pub min_interval_ns: u64,
    pub ring_wake_at: u64,
    pub journal_capacity: u64,
    pub ring_bits: u32,
    pub us_per_jiffy: u32,
    pub once_per_rtt: u32,
    pub rto_by_state: u32,
    pub refusal_by_state: u32,
    pub by_choice: u32,
}

impl Settings {
    /// What does not depend on where the events go; that is left 0.
    pub fn new(survey: &Survey, options: &MonitorOptions) -> Result<Settings> {
        let by_tracepoint =
            |purpose| survey.chosen(purpose).is_none_or(|c| c.tier == Tier::Tracepoint);
        let (once_per_rtt, min_interval_ns) = match options.rate {
            Rate::Every => (0, 0),
            Rate::OncePerRtt => (1, 0),
            Rate::Interval(interval) => (0, interval.as_nanos() as u64),
        };
        Ok(Settings {
            filter: options.filter.settings()?,
            min_interval_ns,
            us_per_jiffy: crate::clock::microseconds_per_jiffy(),
            once_per_rtt,
            rto_by_state: by_tracepoint("rto").into(),
            refusal_by_state: by_tracepoint("local_congestion").into(),
            ..Settings::zeroed()
        })
    }

    /// Writes them where the programs read them.
    pub fn put_into(&self, open: &mut OpenObject) -> Result<()> {
        put_settings(open, bytemuck::bytes_of(self))
    }
}

//! What one run measured: the contract between running, claims and pages
//! (`measured.json` in the run's folder).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Names that a `pick` may use for one flow, with unit.
pub const FLOW_METRICS: &[(&str, &str)] = &[
    ("goodput_mbit", "Mbit/s that the receiving program got (iperf's server)"),
    ("goodput_std", "Mbit/s, standard deviation over whole seconds, the first two left out"),
    ("cwnd_mean", "segments, mean over time"),
    ("cwnd_max", "segments"),
    ("cwnd_std", "segments, standard deviation over time"),
    ("cwnd_end", "segments, median of the second half"),
    ("cwnd_rise_s", "s from the first data until the window reached 90 % of its greatest"),
    ("cwnd_falls", "times the window fell"),
    ("cwnd_falls_without_loss", "times the window fell though no segment was retransmitted"),
    ("cwnd_before_fall", "segments, mean of the window before a fall: the height of its peaks"),
    (
        "lowest_after_fall",
        "mean of the window after a fall ÷ before it, of fast recoveries and falls without loss",
    ),
    ("flight_max", "segments in flight"),
    ("flight_end", "segments in flight, median of the second half"),
    ("retransmits", "segments"),
    ("timeouts", "RTOs"),
    ("dup_acks", "duplicate ACKs"),
    ("d_sacks", "segments that the receiver said it had twice (RFC 2883)"),
    ("local_congestion", "segments refused by the sender's own device"),
    ("srtt_ms", "ms, median"),
    ("limited_cwnd", "share of time limited by the congestion window"),
    ("limited_rwnd", "share of time limited by the receiver's window"),
    ("limited_sndbuf", "share of time limited by the send buffer"),
    ("limited_app", "share of time limited by the program"),
    ("limited_device", "share of time limited by the local device"),
    ("cwnd_throughput_correlation", "Pearson's r of window and throughput, a value a second"),
    ("lost_share", "UDP: share of datagrams lost"),
    ("cpu_from_s", "s of CPU time of the sending program, with its stack if that is the library"),
    ("cpu_to_s", "the same of the receiving program"),
    ("cpu_from_wait", "share of time in which the sending program was ready to run and got no CPU"),
    ("cpu_to_wait", "the same of the receiving program"),
];

/// Those of a flow that no trace is needed for.
pub const WITHOUT_TRACE: [&str; 7] = [
    "goodput_mbit",
    "goodput_std",
    "lost_share",
    "cpu_from_s",
    "cpu_to_s",
    "cpu_from_wait",
    "cpu_to_wait",
];

/// Names for a whole run.
pub const RUN_METRICS: &[(&str, &str)] = &[
    ("sum_mbit", "Mbit/s, all flows"),
    ("jain", "Jain's index of the flows' goodput"),
    ("jain_weighted", "Jain's index of goodput ÷ class of the terminal"),
    ("worst_share", "least goodput ÷ mean goodput"),
    ("air_busy", "share of time that the air was busy"),
    ("collisions", "share of the times the air was taken that ended in a collision"),
    ("frames_per_transmission", "frames in each transmission on the air, mean (A-MPDU)"),
    ("air_drops_up", "frames that stations gave up after the last attempt"),
    ("air_drops_down", "frames that the access point gave up after the last attempt"),
    ("receive_drops", "packets that stations short of resources dropped after the air"),
    ("sending_queue_drops", "packets that stations' drivers dropped behind the kernel"),
    ("queue_drops", "packets that a full queue, a policer or the outage of a link dropped"),
    ("aqm_drops", "packets that queueing disciplines dropped before the queue was full"),
    ("ecn_marks", "packets that links marked \"congestion experienced\""),
    ("queue_delay_ms", "ms, mean wait in the queue of that stage of a link where it was longest"),
    ("queue_delay_p95_ms", "ms, the same of the 95th percentile"),
    ("lateness_p99_ms", "ms, of the emulator"),
    ("cpu_wait", "share of time in which the program that waited longest got no CPU"),
    ("cpu_receiving_wait", "share of time in which the kernel's receiving (ksoftirqd) got no CPU"),
    ("cpu_busy", "share of the machine's CPU time that was used while the flows sent"),
    ("cpu_s_per_gbit", "s of CPU time of the machine for each Gbit of all flows' goodput"),
    ("emulator_cpu_s", "s of CPU time of the emulator, and of kernels as it hands them packets"),
    ("cpu_own_s_per_gbit", "s of CPU time of programs, stacks and emulator alone for each Gbit"),
];

/// One run of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Swept key → value.
    pub point: BTreeMap<String, toml::Value>,
    /// 1-based.
    pub repeat: u32,
    pub seed: u64,
    /// Metric → number.
    pub run: BTreeMap<String, f64>,
    pub flows: BTreeMap<String, BTreeMap<String, f64>>,
}

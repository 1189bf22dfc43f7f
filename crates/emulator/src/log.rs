//! What the emulator measured of itself and of all that passed: the run's log.

use serde::{Deserialize, Serialize};

use crate::lateness::Histogram;
use crate::packet::Nanos;

/// Written as JSON beside a run's traces. Times are ms or s as named, sizes bytes from the IP
/// header on, except those of ports, which are what the interface carries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub seed: u64,
    /// CLOCK_BOOTTIME when logical time began, ns: the clock of the traces.
    pub started_boottime_ns: u64,
    pub wall_s: f64,
    /// CPU time of the emulator's thread. What the hosts' kernels do with a packet until they
    /// queue it is part of it: writing to a TAP runs their receive path.
    pub cpu_s: f64,
    /// The thread had real-time priority (SCHED_FIFO).
    pub realtime: bool,
    pub lateness: Lateness,
    /// The first stage of `path.up`.
    pub up: DirectionLog,
    /// The first stage of `path.down`.
    pub down: DirectionLog,
    /// Further stages of the path and of cellular hosts' paths, and the links of hosts.
    #[serde(default)]
    pub stages: Vec<StageLog>,
    pub totals: Totals,
    /// In the order of the plan.
    pub ports: Vec<PortLog>,
    /// None: nobody was on the air.
    pub air: Option<AirLog>,
    /// In the order of the plan.
    #[serde(default)]
    pub cellular: Vec<CellularLog>,
    /// Only those that ever held a packet; empty in a snapshot.
    pub queues: Vec<QueueSeries>,
}

/// When packets were really handed to their hosts, less when they should have been, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    pub packets: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// One stage of a direction.
/// `packets` + `duplicated` = `passed` + `lost` + `outage_drops` + `queue_drops` + `aqm_drops` +
/// those that wait under a discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionLog {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    /// Lost because they came during the outage of a handover.
    #[serde(default)]
    pub outage_drops: u64,
    /// Dropped because the queue was full, or by the policer.
    pub queue_drops: u64,
    /// Of these, by the policer.
    #[serde(default)]
    pub policed: u64,
    /// Dropped by the queue's discipline before it was full.
    #[serde(default)]
    pub aqm_drops: u64,
    /// Marked "congestion experienced".
    #[serde(default)]
    pub marked: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// With duplicates.
    pub passed: u64,
    pub passed_bytes: u64,
    #[serde(default)]
    pub queue_delay: QueueDelay,
    /// Not in the numbers above.
    #[serde(default)]
    pub cross: CrossLog,
}

/// Cross traffic that came to a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossLog {
    pub packets: u64,
    pub bytes: u64,
    /// Of the packets: dropped because the queue was full, or by its discipline.
    pub dropped: u64,
}

/// How long packets waited in the queue until their first bit was sent, ms; only those that were
/// sent. All 0 without a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueDelay {
    pub packets: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl QueueDelay {
    pub(crate) fn of(waits: &Histogram) -> QueueDelay {
        let ms = |nanos: Nanos| nanos as f64 / 1e6;
        QueueDelay {
            packets: waits.count(),
            mean_ms: waits.mean() / 1e6,
            p50_ms: ms(waits.quantile(0.5)),
            p95_ms: ms(waits.quantile(0.95)),
            p99_ms: ms(waits.quantile(0.99)),
            max_ms: ms(waits.max()),
        }
    }
}

/// Every packet that came in, and what became of it:
/// `entered` + `copied` + `duplicated` = `delivered` + all the others + those still inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub entered: u64,
    /// Further copies of broadcast and multicast, one a receiver more.
    pub copied: u64,
    /// By the path.
    pub duplicated: u64,
    pub delivered: u64,
    pub lost: u64,
    pub path_queue_drops: u64,
    /// In outages of handovers.
    #[serde(default)]
    pub outage_drops: u64,
    /// By queue disciplines of the path, before their queues were full.
    #[serde(default)]
    pub aqm_drops: u64,
    pub air_queue_drops: u64,
    /// Attempts used up; group frames, which get one, after a collision.
    pub retry_drops: u64,
    /// Copies of group frames that one station could not decode.
    pub group_errors: u64,
    pub receive_drops: u64,
    /// By drivers whose sending queue was full.
    #[serde(default)]
    pub sending_queue_drops: u64,
    /// Shorter than an Ethernet header.
    pub malformed: u64,
    /// Meant for an address that no port has, or for the sender itself.
    pub no_host: u64,
}

impl Totals {
    /// Packets that are neither out nor dropped.
    pub fn inside(&self) -> u64 {
        let gone = self.delivered
            + self.lost
            + self.path_queue_drops
            + self.aqm_drops
            + self.outage_drops
            + self.air_queue_drops
            + self.retry_drops
            + self.group_errors
            + self.receive_drops
            + self.sending_queue_drops
            + self.malformed
            + self.no_host;
        (self.entered + self.copied + self.duplicated).saturating_sub(gone)
    }
}

/// One host's interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortLog {
    pub name: String,
    /// From the host.
    pub packets_in: u64,
    pub bytes_in: u64,
    /// To the host.
    pub packets_out: u64,
    pub bytes_out: u64,
    /// Refused by the host's kernel: interface down, or no memory.
    pub refused: u64,
    /// The interface went away while the emulator ran.
    pub vanished: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AirLog {
    /// Share of time with a frame, its ACK or the space between both on the air.
    pub busy_share: f64,
    /// Times the air was taken.
    pub accesses: u64,
    /// Accesses at which several began at once.
    pub collisions: u64,
    pub access_point: SenderLog,
    /// In the order of the plan.
    pub stations: Vec<SenderLog>,
}

/// A further stage of a path, or a stage of a host's link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageLog {
    /// `path up stage 2`, `NAME down stage 2` of a cellular host, `NAME link up`,
    /// `NAME link up stage 2`.
    pub name: String,
    pub log: DirectionLog,
}

/// The path of a cellular host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellularLog {
    pub name: String,
    /// From the host.
    pub up: DirectionLog,
    pub down: DirectionLog,
}

/// One that sends on the air.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderLog {
    pub name: String,
    /// PPDUs with data. Those of 802.11g carry one frame each, those of 802.11n up to 64.
    #[serde(default)]
    pub transmissions: u64,
    /// `frames` ÷ `transmissions`; 0 before the first.
    #[serde(default)]
    pub mean_frames_per_transmission: f64,
    /// Attempts, with retries.
    pub frames: u64,
    pub retries: u64,
    /// Attempts that collided.
    pub collisions: u64,
    /// Attempts that did not collide, and could not be decoded.
    pub frame_errors: u64,
    /// Frames that arrived, and the bytes they carried.
    pub arrived: u64,
    pub arrived_bytes: u64,
    /// Dropped because the queue before the air was full.
    pub queue_drops: u64,
    /// Dropped after the last attempt.
    pub retry_drops: u64,
    /// Of what came to this station over the air: dropped because its ring was full.
    pub receive_drops: u64,
    /// Of what this station's kernel handed over: dropped because the driver's queue was full.
    #[serde(default)]
    pub sending_queue_drops: u64,
    /// Of its transmissions and their answers.
    pub airtime_s: f64,
    /// The same of what the access point sent to this station alone.
    #[serde(default)]
    pub airtime_down_s: f64,
}

/// Length of one queue, at most 100 values a second: it kept `packets[i]` from `at_s[i]` on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueSeries {
    /// As in [`StageLog`], `path up`, `path down`, `NAME up` and `NAME down` of a cellular host,
    /// `NAME sending queue`,
    /// `NAME to air`, `access point to NAME`, `NAME receive ring`.
    pub name: String,
    /// Logical time, s since the start.
    pub at_s: Vec<f64>,
    pub packets: Vec<u32>,
}

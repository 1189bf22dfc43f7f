//! The curves of one connection: one sample a point.

use serde::Serialize;

use crate::track::{Step, steps};
use crate::{Connection, Mark, Throughput, thin};

/// Names of the curves, in the order of [`Sample::curves`].
pub const CURVES: [&str; 12] = [
    "cwnd",
    "ssthresh",
    "in_flight",
    "clamp",
    "snd_wnd",
    "srtt_us",
    "min_rtt_us",
    "rto_us",
    "send_queue",
    "recv_queue",
    "unsent",
    "pacing_rate",
];

/// All curves at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// CLOCK_BOOTTIME, ns.
    pub time_ns: u64,
    /// Segments.
    pub cwnd: u32,
    /// Segments; `None` before congestion has set one.
    pub ssthresh: Option<u32>,
    /// Segments, as `tcp_packets_in_flight` counts them.
    pub in_flight: u32,
    /// Segments.
    pub clamp: Option<u32>,
    /// The window the other side offers, whole segments of `mss`; `None` while that is not known.
    pub snd_wnd: Option<u32>,
    /// `None` before the first measurement.
    pub srtt_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    /// The retransmission timeout, `None` before it is set.
    pub rto_us: Option<u32>,
    /// Bytes of memory.
    pub send_queue: u32,
    /// Bytes of memory.
    pub recv_queue: u32,
    /// Bytes written by the program and not yet sent.
    pub unsent: u32,
    /// Bytes/s.
    pub pacing_rate: Option<u64>,
    /// Bytes since the first event: sent once, acknowledged, received in order.
    pub sent: u64,
    pub acked: u64,
    pub received: u64,
    /// ACKs arrived after the sample before that were not recorded.
    pub acks_unseen: bool,
}

impl Sample {
    /// The values of the curves, in the order of [`CURVES`].
    pub fn curves(&self) -> [Option<u64>; CURVES.len()] {
        [
            Some(self.cwnd.into()),
            self.ssthresh.map(u64::from),
            Some(self.in_flight.into()),
            self.clamp.map(u64::from),
            self.snd_wnd.map(u64::from),
            self.srtt_us.map(u64::from),
            self.min_rtt_us.map(u64::from),
            self.rto_us.map(u64::from),
            Some(self.send_queue.into()),
            Some(self.recv_queue.into()),
            Some(self.unsent.into()),
            self.pacing_rate,
        ]
    }
}

impl From<&Step<'_>> for Sample {
    fn from(step: &Step) -> Sample {
        let state = step.state();
        Sample {
            time_ns: step.time_ns(),
            cwnd: state.cwnd,
            ssthresh: state.ssthresh_set(),
            in_flight: state.in_flight(),
            clamp: state.clamp_set(),
            snd_wnd: state.snd_wnd.checked_div(state.mss.into()),
            srtt_us: (state.srtt_us > 0).then_some(state.srtt_us),
            min_rtt_us: state.min_rtt(),
            rto_us: (state.rto_us > 0).then_some(state.rto_us),
            send_queue: state.send_queue,
            recv_queue: state.recv_queue,
            unsent: state.unsent,
            pacing_rate: state.pacing(),
            sent: step.sent,
            acked: step.acked,
            received: step.received,
            acks_unseen: step.unseen,
        }
    }
}

/// The curves of one connection, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// When the connection began, which may be before its first sample.
    pub start_ns: u64,
    pub end_ns: u64,
    /// Whether most ACKs between the samples were not recorded.
    pub sampled: bool,
    pub samples: Vec<Sample>,
}

impl Series {
    pub fn of(connection: &Connection) -> Series {
        let steps = steps(connection);
        Series {
            start_ns: connection.begun_ns(),
            end_ns: connection.last_ns.max(connection.first_ns),
            sampled: is_sampled(connection, &steps),
            samples: steps.iter().map(Sample::from).collect(),
        }
    }

    /// Throughput over time; `bin_ns` `None` = [`crate::automatic_bin`] of 400 bins.
    pub fn throughput(&self, bin_ns: Option<u64>) -> Throughput {
        Throughput::of(self, bin_ns)
    }

    /// The same curves with at most `budget` samples, see [`thin`].
    pub fn thinned(&self, marks: &[Mark], budget: usize) -> Series {
        let kept = thin(&self.samples, marks, budget).kept;
        let samples = kept.into_iter().map(|i| self.samples[i]).collect();
        Series { samples, ..*self }
    }

    /// The least minimum RTT of all samples, ns; 0 while none was measured.
    pub fn min_rtt_ns(&self) -> u64 {
        let least = self.samples.iter().filter_map(|sample| sample.min_rtt_us).min();
        u64::from(least.unwrap_or(0)) * 1000
    }
}

/// Share of intervals with unrecorded ACKs from which a recording counts as sampled.
const SAMPLED_SHARE: f64 = 0.2;

/// Whether so many ACKs were not recorded, while the probes see them, that the recording is a sample
/// of the connection.
pub fn is_sampled(connection: &Connection, steps: &[Step]) -> bool {
    let seen = connection.while_acks_are_seen(steps);
    is_full_of_unseen(seen, seen.len())
}

/// Whether so many of all steps miss ACKs because one side had closed.
pub(crate) fn is_closed_early(connection: &Connection, steps: &[Step]) -> bool {
    let seen = connection.while_acks_are_seen(steps).len();
    is_full_of_unseen(&steps[seen..], steps.len())
}

fn is_full_of_unseen(steps: &[Step], of: usize) -> bool {
    let unseen = steps.iter().filter(|step| step.unseen).count();
    unseen as f64 > SAMPLED_SHARE * of.max(1) as f64
}

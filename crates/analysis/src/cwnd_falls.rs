//! Falls of the congestion window that no loss explains.

use transom_event::{CaState, Kind, State, flags};

use crate::track::{Step, ca_spells, time_at};
use crate::{CollapseCause, Connection, Episode, EpisodeKind};

/// A fall by this share of cwnd is a collapse. CUBIC gives up 30 % (RFC 9438
/// section 4.6) but keeps 717/1024, a little less than that; 25 % catches it after rounding.
pub const COLLAPSE_FALL: f64 = 0.25;

/// How long before a fall its cause may lie, at least, ns.
pub const NEARBY_NS: u64 = 10_000_000;
/// How long before a fall its cause may lie, in round trips.
pub const NEARBY_RTTS: u64 = 2;

/// BBR's window while it probes the minimum RTT, segments.
const PROBE_RTT_CWND: u32 = 4;

/// Algorithms of Linux that lower the window only for losses, marks or a refusal of the device. Others
/// (BBR, Vegas, one in BPF) set it by what they measure.
const BY_LOSS: [&str; 11] = [
    "reno",
    "cubic",
    "bic",
    "htcp",
    "hybla",
    "highspeed",
    "scalable",
    "westwood",
    "illinois",
    "veno",
    "dctcp",
];

pub(crate) fn is_by_loss(algorithm: &str) -> bool {
    BY_LOSS.contains(&algorithm)
}

/// Whether its algorithm lowers the window without a loss.
pub(crate) fn lowers_without_loss(connection: &Connection) -> bool {
    let algorithm = connection.algorithm();
    !algorithm.is_empty() && !is_by_loss(&algorithm)
}

pub(crate) fn find(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let mut episodes = cwr_collapses(connection, steps);
    episodes.extend(open_falls(connection, steps));
    episodes
}

fn falls_enough(before: u32, after: u32) -> bool {
    f64::from(after) <= (1.0 - COLLAPSE_FALL) * f64::from(before)
}

/// The window is reduced step by step while the sender is in CWR (`tcp_cwnd_reduction`).
fn cwr_collapses(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let mut episodes = Vec::new();
    for (ca, range) in ca_spells(steps) {
        if ca != Some(CaState::Cwr) {
            continue;
        }
        let previous = &steps[range.start.saturating_sub(1)];
        let before = previous.state().cwnd.max(steps[range.start].state().cwnd);
        let after = steps[range.clone()]
            .iter()
            .chain(steps.get(range.end).filter(|step| step.ca() == Some(CaState::Open)))
            .map(|step| step.state().cwnd)
            .min();
        let after = after.unwrap_or(before);
        if falls_enough(before, after) {
            let cause = cwr_cause(connection, previous.time_ns(), &steps[range.start]);
            episodes.push(Episode {
                start_ns: steps[range.start].time_ns(),
                end_ns: time_at(steps, range.end),
                kind: EpisodeKind::WindowCollapse { cwnd_before: before, cwnd_after: after, cause },
            });
        }
    }
    episodes
}

/// How often a mark of the path put the sender into CWR, however little cwnd fell then.
pub(crate) fn congestion_marks(connection: &Connection, steps: &[Step]) -> u64 {
    let is_marked = |(ca, range): &(Option<CaState>, std::ops::Range<usize>)| {
        let entry = range.start.checked_sub(1).filter(|_| *ca == Some(CaState::Cwr));
        let cause =
            |before: usize| cwr_cause(connection, steps[before].time_ns(), &steps[range.start]);
        entry.map(cause) == Some(CollapseCause::Ecn)
    };
    ca_spells(steps).iter().filter(|spell| is_marked(spell)).count() as u64
}

/// What put the sender into CWR at step `entry`, the event before being at `from_ns`.
pub(crate) fn cwr_cause(connection: &Connection, from_ns: u64, entry: &Step) -> CollapseCause {
    let near = |kind| mark_near(connection, kind, from_ns.min(nearby_from(entry)), entry.time_ns());
    if near(Kind::LocalCongestion) {
        CollapseCause::LocalCongestion
    } else if near(Kind::Retransmit) {
        CollapseCause::TailLoss
    } else if entry.state().has(flags::ECN) {
        CollapseCause::Ecn
    } else {
        CollapseCause::Unknown
    }
}

fn nearby_from(step: &Step) -> u64 {
    let rtts = u64::from(step.state().srtt_us) * 1000 * NEARBY_RTTS;
    step.time_ns().saturating_sub(rtts.max(NEARBY_NS))
}

/// Whether a mark of this kind lies in the time; one just after belongs to the same packet.
fn mark_near(connection: &Connection, kind: Kind, from_ns: u64, to_ns: u64) -> bool {
    const SAME_PACKET_NS: u64 = 100_000;
    let marks = connection.marks_between(from_ns, to_ns.saturating_add(SAME_PACKET_NS));
    marks.iter().any(|mark| mark.kind == kind)
}

/// Falls from one step to the next with the sender in Open all along.
fn open_falls(connection: &Connection, steps: &[Step]) -> Vec<Episode> {
    let mut episodes: Vec<Episode> = Vec::new();
    let by_loss = !lowers_without_loss(connection);
    let mut quiet = Quiet { by_loss, last: None, left_ns: 0 };
    for pair in steps.windows(2) {
        let (from, to) = (&pair[0], &pair[1]);
        quiet.follow(from);
        let open = |step: &Step| step.ca() == Some(CaState::Open);
        if to.state().cwnd >= from.state().cwnd || !open(from) || !open(to) {
            continue;
        }
        let Some(kind) = open_fall(connection, &quiet, from, to) else { continue };
        let end_ns = to.time_ns();
        let start_ns = match kind {
            EpisodeKind::IdleRestart { idle_ns, .. } => end_ns - idle_ns,
            _ => from.time_ns(),
        };
        match (episodes.last_mut(), kind) {
            // Validation goes on for as long as the window is not used: one episode.
            (
                Some(Episode {
                    end_ns: end,
                    kind: EpisodeKind::CwndValidation { cwnd_after, .. },
                    ..
                }),
                EpisodeKind::CwndValidation { cwnd_before, cwnd_after: now },
            ) if *cwnd_after == cwnd_before => (*end, *cwnd_after) = (end_ns, now),
            (_, kind) => episodes.push(Episode { start_ns, end_ns, kind }),
        }
    }
    episodes
}

/// When data left last. From then on the kernel counts, not from when all of it was acknowledged, and
/// probes of a closed window and data that comes change nothing in it
/// (`tcp_slow_start_after_idle_check`).
struct Quiet<'a> {
    /// Whether the algorithm leaves the restart to the kernel; another's window has its own reasons.
    by_loss: bool,
    last: Option<Step<'a>>,
    left_ns: u64,
}

impl<'a> Quiet<'a> {
    fn follow(&mut self, step: &Step<'a>) {
        // Between two polls a burst may come and be acknowledged.
        let lasts = |before: &Step| self.by_loss && !step.follows_unseen_data(before);
        let is_sent = matches!(step.kind(), Kind::Send | Kind::Retransmit);
        if is_sent || !self.last.as_ref().is_some_and(lasts) {
            self.left_ns = step.time_ns();
        }
        self.last = Some(*step);
    }

    /// How long nothing has left, if nothing is outstanding where the window fell.
    fn length_ns(&self, fall: &Step) -> u64 {
        if self.last.as_ref().is_some_and(|last| fall.follows_missing_events(last)) {
            return 0;
        }
        let outstanding = |state: &State| state.outstanding() > 0;
        let before = self.last.as_ref().is_some_and(|last| outstanding(&last.settled()));
        // The last ACK may be missing; what leaves now meets what it did.
        let is_idle = !before || fall.kind() == Kind::Send && !outstanding(fall.state());
        if is_idle { fall.time_ns() - self.left_ns } else { 0 }
    }
}

fn open_fall(
    connection: &Connection,
    quiet: &Quiet,
    from: &Step,
    to: &Step,
) -> Option<EpisodeKind> {
    let (cwnd_before, cwnd_after) = (from.state().cwnd, to.state().cwnd);
    let near = |kind| mark_near(connection, kind, nearby_from(to), to.time_ns());
    if [Kind::Algorithm, Kind::Clamp, Kind::Action].into_iter().any(near) {
        return falls_enough(cwnd_before, cwnd_after).then_some(EpisodeKind::WindowCollapse {
            cwnd_before,
            cwnd_after,
            cause: CollapseCause::Policy,
        });
    }
    // The end of a recovery sets cwnd back to ssthresh; that fall is the recovery's.
    if [Kind::Retransmit, Kind::Rto, Kind::Sack, Kind::DupAck, Kind::CaState].into_iter().any(near)
    {
        return None;
    }
    let (rto_us, idle_ns) = (from.state().rto_us, quiet.length_ns(to));
    if idle_ns >= u64::from(rto_us) * 1000 && rto_us > 0 {
        return Some(EpisodeKind::IdleRestart { idle_ns, cwnd_before, cwnd_after });
    }
    let unused = !from.state().has(flags::CWND_LIMITED)
        && from.state().in_flight() < cwnd_before
        && cwnd_after >= cwnd_before / 2;
    if unused && from.state().unsent == 0 {
        return Some(EpisodeKind::CwndValidation { cwnd_before, cwnd_after });
    }
    let bbr = connection.algorithm().starts_with("bbr");
    falls_enough(cwnd_before, cwnd_after).then_some(EpisodeKind::WindowCollapse {
        cwnd_before,
        cwnd_after,
        cause: if bbr && cwnd_after <= PROBE_RTT_CWND {
            CollapseCause::ProbeRtt
        } else if lowers_without_loss(connection) {
            CollapseCause::Algorithm
        } else {
            CollapseCause::Unknown
        },
    })
}

//! The cause of what was built, computed from its parameters alone.
//!
//! Every limit lets so many Mbit/s through; the least one is the cause, if it is clearly the least.
//! What is too close to say has no label and is not built.

/// How many times more than the limit every other one must let through.
const CLEAR: f64 = 2.0;
/// Bytes of data in a segment of 1500 bytes.
const MSS: f64 = 1448.0;
/// Losses, or times that the window fills the path again, that a recording must be expected to hold.
const FEWEST_LOSSES: f64 = 6.0;
const FEWEST_EPOCHS: f64 = 4.0;
/// The longest recording, s.
const LONGEST_S: f64 = 20.0;
const SHORTEST_S: f64 = 6.0;
/// Least retransmission timeout of Linux, ms.
const RTO_MIN_MS: f64 = 200.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Cubic,
    Reno,
    Bbr,
    Steady,
}

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::Reno => "reno",
            Algorithm::Bbr => "bbr",
            Algorithm::Steady => "steady",
        }
    }

    /// Whether a loss at random makes its window small.
    fn yields_to_loss(self) -> bool {
        self != Algorithm::Bbr
    }
}

/// What the sending program does; bytes and ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Program {
    Bulk,
    Periodic { write: f64, every_ms: f64 },
    Dialogue { write: f64, reply: f64 },
    Once { total: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reader {
    pub read: f64,
    pub every_ms: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    pub at_s: f64,
    pub for_s: Option<f64>,
}

/// All parameters of a situation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Build {
    pub rtt_ms: f64,
    pub rate_mbit: f64,
    pub queue_packets: f64,
    /// A policer of this burst in the place of the queue.
    pub burst_bytes: Option<f64>,
    pub loss: f64,
    pub ack_loss: f64,
    /// Share of the packets, and by how many ms they are late.
    pub reorder: Option<(f64, f64)>,
    pub algorithm: Algorithm,
    pub send_buffer: Option<f64>,
    pub receive_buffer: Option<f64>,
    pub unscaled: bool,
    pub clamp: Option<f64>,
    pub pacing_mbit: Option<f64>,
    pub driver_mbit: Option<f64>,
    pub program: Program,
    pub reader: Option<Reader>,
    pub cut: Option<Cut>,
    pub of_receiver: bool,
    pub competing: bool,
    pub ipv6: bool,
    pub gso: Option<f64>,
    pub seconds: f64,
}

/// Segments of 1500 bytes that a path holds.
pub fn segments(rate_mbit: f64, rtt_ms: f64) -> f64 {
    rate_mbit * rtt_ms * 1000.0 / 8.0 / 1500.0
}

/// What a window of so many bytes lets through, Mbit/s.
fn of_window(bytes: f64, rtt_ms: f64) -> f64 {
    bytes * 8.0 / rtt_ms / 1000.0
}

/// The limits of a situation, each with what it lets through, Mbit/s.
fn limits(build: &Build) -> Vec<(&'static str, f64)> {
    let rtt = build.rtt_ms;
    let mut all = vec![("path", build.rate_mbit * MSS / 1500.0)];
    // Half of a buffer is overhead, and the kernel doubles what is asked for.
    all.extend(build.send_buffer.map(|bytes| ("send_buffer", of_window(1.3 * bytes, rtt))));
    all.extend(build.receive_buffer.map(|bytes| ("receiver_window", of_window(1.1 * bytes, rtt))));
    if build.unscaled {
        all.push(("receiver_window", of_window(65_535.0, rtt)));
    }
    all.extend(build.clamp.map(|window| ("saturated", of_window(window * MSS, rtt))));
    all.extend(build.pacing_mbit.map(|mbit| ("pacing", mbit)));
    all.extend(build.driver_mbit.map(|mbit| ("local_device", mbit)));
    all.extend(build.reader.map(|r| ("peer_reads_slowly", r.read * 0.008 / r.every_ms)));
    if build.loss > 0.0 && build.algorithm.yields_to_loss() {
        all.push(("random_loss", of_window(loss_window(build) * MSS, rtt)));
    }
    all
}

/// Mean window under random loss, segments: Mathis et al. (1997) for Reno; RFC 9438 5.1 for CUBIC.
fn loss_window(build: &Build) -> f64 {
    let reno = (1.5 / build.loss).sqrt();
    let cubic = 1.054 * (build.rtt_ms / 1000.0).powf(0.75) / build.loss.powf(0.75);
    match build.algorithm {
        Algorithm::Cubic => reno.max(cubic),
        // One segment more each round trip, an eighth less at a loss.
        Algorithm::Steady => (7.5 / build.loss).sqrt(),
        _ => reno,
    }
}

/// From one loss to the next where the window fills the path each time, s.
fn epoch_s(build: &Build) -> f64 {
    let queue = build.burst_bytes.map_or(build.queue_packets, |bytes| bytes / 1500.0);
    let window = segments(build.rate_mbit, build.rtt_ms) + queue;
    let rtt_s = build.rtt_ms / 1000.0;
    match build.algorithm {
        Algorithm::Cubic => (0.3 * window / 0.4).cbrt().min(0.57 * window * rtt_s),
        Algorithm::Reno => 0.5 * window * rtt_s,
        // Its gain cycle.
        Algorithm::Bbr => 8.0 * rtt_s,
        Algorithm::Steady => window / 8.0 * rtt_s,
    }
}

/// How long it must be recorded to hold what it is about.
pub fn seconds(build: &Build) -> f64 {
    let queue_ms = build.queue_packets * 12.0 / build.rate_mbit;
    let rto_s = ((build.rtt_ms + queue_ms) * 1.5 + RTO_MIN_MS) / 1000.0;
    let needed = match build.cut {
        // The doubled timer expires again at twice the length of the silence at the latest.
        Some(Cut { at_s, for_s: Some(length) }) => at_s + 2.0 * length + 4.0 * rto_s,
        Some(Cut { at_s, for_s: None }) => at_s + 12.0 * rto_s,
        None => (40.0 * build.rtt_ms / 1000.0).max(2.0 * FEWEST_EPOCHS * epoch_s(build)),
    };
    needed.clamp(SHORTEST_S, LONGEST_S).ceil()
}

/// What the verdict may say, the first in the table of results; `None`: not clear enough to build.
pub fn causes(build: &Build) -> Option<Vec<&'static str>> {
    // The lab's clamp is of IPv4 alone.
    if build.ipv6 && build.clamp.is_some() || is_little(build) {
        return None;
    }
    if let Some(cut) = build.cut {
        return silence(build, cut);
    }
    let is_nothing_else =
        |build: &Build| build.reorder.is_none_or(|(_, ms)| ms <= build.rtt_ms / 8.0);
    let mut limits = limits(build);
    limits.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (cause, least) = limits[0];
    let next = limits.get(1).map_or(f64::INFINITY, |limit| limit.1);
    if next < CLEAR * least {
        return None;
    }
    if let Some(causes) = unordered(build, cause) {
        return causes;
    }
    if !is_nothing_else(build) || is_busy_elsewhere(build, cause) || drops_bursts(build) {
        return None;
    }
    let causes = match build.program {
        Program::Bulk => bulk(build, cause, least)?,
        Program::Once { total } => once(build, total, least)?,
        Program::Periodic { write, every_ms } => (transfer_ms(build, write, every_ms, least)
            < 0.3 * every_ms)
            .then_some(vec!["application"])?,
        Program::Dialogue { write, .. } => (write <= 10.0 * MSS
            && write * 0.008 / least < 0.3 * build.rtt_ms)
            .then_some(vec!["application"])?,
    };
    seen_from(build, causes)
}

/// Another flow, or lost ACKs, only where they are beside the point.
fn is_busy_elsewhere(build: &Build, cause: &str) -> bool {
    build.competing && (cause != "path" || build.burst_bytes.is_some())
}

/// So few bytes that nothing can be said of them.
fn is_little(build: &Build) -> bool {
    const FEW: f64 = 20_000.0;
    match build.program {
        Program::Periodic { write, every_ms } => write * build.seconds * 1000.0 / every_ms < FEW,
        Program::Dialogue { write, .. } => write * build.seconds * 1000.0 / build.rtt_ms < FEW,
        Program::Once { total } => total < FEW,
        Program::Bulk => false,
    }
}

/// A program that writes or reads in lumps sends at the path's own rate for a while, whatever its
/// mean; the path must take that.
fn drops_bursts(build: &Build) -> bool {
    let lumps = build.program != Program::Bulk || build.reader.is_some();
    lumps && (build.burst_bytes.is_some() || build.queue_packets < 20.0 || build.loss > 0.01)
}

fn silence(build: &Build, cut: Cut) -> Option<Vec<&'static str>> {
    let simple = Build { cut: None, ..*build };
    // Nothing else may be wrong with it, and something must be in flight.
    let bulk = build.program == Program::Bulk
        && !build.of_receiver
        && build.reader.is_none()
        && build.loss < 0.01
        && build.burst_bytes.is_none()
        && build.reorder.is_none();
    let limits = limits(&simple);
    let least = limits.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    if !bulk || least.1 < 0.3 || build.competing {
        return None;
    }
    match cut {
        Cut { at_s: 0.0, .. } => Some(vec!["handshake"]),
        Cut { for_s: None, .. } => Some(vec!["peer_vanished"]),
        Cut { for_s: Some(length), .. } => {
            // What could be mended besides would be as good an answer.
            let alone = least.0 == "path" && build.loss == 0.0;
            (alone && length >= 0.3 * build.seconds).then_some(vec!["outage"])
        }
    }
}

/// Segments later than a round trip count as lost, however far RACK (RFC 8985) has widened its
/// window; where that is all that is wrong, it is the cause.
fn unordered(build: &Build, cause: &str) -> Option<Option<Vec<&'static str>>> {
    let (share, late_ms) = build.reorder.filter(|(_, ms)| *ms > build.rtt_ms / 8.0)?;
    let room = segments(build.rate_mbit, build.rtt_ms) >= 2.0 * (1.5 / share).sqrt();
    let alone = cause == "path"
        && room
        && build.program == Program::Bulk
        && build.loss == 0.0
        && build.burst_bytes.is_none()
        && build.algorithm.yields_to_loss()
        && build.queue_packets >= 20.0
        && !build.of_receiver
        && !build.competing
        && share >= 0.02
        && late_ms >= 1.5 * build.rtt_ms + 5.0;
    Some(alone.then(|| vec!["reordering"]))
}

fn bulk(build: &Build, cause: &'static str, least: f64) -> Option<Vec<&'static str>> {
    match cause {
        "path" => of_path(build),
        "random_loss" => {
            let lost = least * 1e6 / 8.0 / 1500.0 * build.seconds * build.loss;
            // Slow start sends two segments for each ACK: half of its window waits.
            let takes = build.burst_bytes.is_none()
                && build.queue_packets >= (loss_window(build) / 2.0).max(8.0);
            (lost >= FEWEST_LOSSES && takes).then_some(vec![cause])
        }
        // An algorithm that paces leaves no queue in the device; a sender cannot see which it is.
        "local_device" => match build.algorithm {
            Algorithm::Bbr => Some(vec![cause, "full_path"]),
            Algorithm::Cubic | Algorithm::Reno => Some(vec![cause]),
            Algorithm::Steady => None,
        },
        // The window must be full before the recording is over.
        "peer_reads_slowly" => {
            let reader = build.reader?;
            (build.rate_mbit >= 4.0 && reader.every_ms <= 500.0).then_some(vec![cause])
        }
        // The kernel lets a socket that sends large packets have several times its send buffer.
        "send_buffer" if build.gso.is_some() => None,
        // A window of few segments waits for delayed ACKs, and Nagle.
        "send_buffer" | "receiver_window" => {
            (least * build.rtt_ms * 125.0 >= 6.0 * MSS).then_some(vec![cause])
        }
        _ => Some(vec![cause]),
    }
}

/// A queue that holds as much as a reduced window leaves free keeps the path full.
fn of_path(build: &Build) -> Option<Vec<&'static str>> {
    let bdp = segments(build.rate_mbit, build.rtt_ms);
    let often = build.seconds >= FEWEST_EPOCHS * epoch_s(build);
    if build.burst_bytes.is_some() {
        return (often && build.loss == 0.0 && bdp >= 6.0).then_some(vec!["policer"]);
    }
    if build.queue_packets < 4.0 {
        return None;
    }
    if build.queue_packets >= 0.6 * bdp {
        return (build.queue_packets >= 8.0).then_some(vec!["full_path"]);
    }
    let plain = often && build.loss == 0.0 && !build.competing;
    let short = match build.algorithm {
        // They fill the path whatever its queue, and where that is short it overflows.
        Algorithm::Bbr | Algorithm::Steady => return Some(vec!["full_path", "shallow_buffer"]),
        // After a loss CUBIC has seven tenths of its window, Reno half: what of the path then idles.
        Algorithm::Cubic => 0.1,
        Algorithm::Reno => 0.25,
    };
    if build.queue_packets <= short * bdp {
        return plain.then_some(vec!["shallow_buffer"]);
    }
    let both = build.algorithm == Algorithm::Cubic && build.queue_packets <= 0.4 * bdp;
    (both && plain).then_some(vec!["shallow_buffer", "full_path"])
}

/// Too short for its path: over before any other limit is met, though not at once.
fn once(build: &Build, total: f64, least: f64) -> Option<Vec<&'static str>> {
    let rounds = (total / (10.0 * MSS) + 1.0).log2();
    let last_window = 10.0 * MSS * 2_f64.powf(rounds.floor());
    let room = least * build.rtt_ms * 125.0;
    (rounds >= 2.0 && last_window < room / 2.0 && build.loss * total / MSS < 0.1)
        .then_some(vec!["slow_start"])
}

/// How long a write of the program is on its way.
fn transfer_ms(build: &Build, write: f64, every_ms: f64, least: f64) -> f64 {
    let rests = every_ms > build.rtt_ms + RTO_MIN_MS;
    let rounds = if rests { (write / (10.0 * MSS) + 1.0).log2().ceil() } else { 1.0 };
    let repairs = if build.loss * write / MSS > 0.05 { 2.0 } else { 0.0 };
    (rounds + repairs) * build.rtt_ms + write * 0.008 / least
}

/// What the receiver can see of it.
fn seen_from(build: &Build, causes: Vec<&'static str>) -> Option<Vec<&'static str>> {
    if !build.of_receiver {
        return Some(causes);
    }
    match causes[0] {
        "receiver_window" => Some(vec!["own_window"]),
        "peer_reads_slowly" => Some(vec!["slow_reader"]),
        "slow_start" => None,
        _ => Some(vec!["other_side"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Build = Build {
        rtt_ms: 40.0,
        rate_mbit: 30.0,
        queue_packets: 100.0,
        burst_bytes: None,
        loss: 0.0,
        ack_loss: 0.0,
        reorder: None,
        algorithm: Algorithm::Cubic,
        send_buffer: None,
        receive_buffer: None,
        unscaled: false,
        clamp: None,
        pacing_mbit: None,
        driver_mbit: None,
        program: Program::Bulk,
        reader: None,
        cut: None,
        of_receiver: false,
        competing: false,
        ipv6: false,
        gso: None,
        seconds: 20.0,
    };

    #[test]
    fn a_window_is_the_cause_only_if_it_is_much_smaller_than_the_path() {
        // 30 Mbit/s for 40 ms are 150 kB.
        let of = |bytes: f64| causes(&Build { receive_buffer: Some(bytes), ..PLAIN });
        assert_eq!(of(40_000.0), Some(vec!["receiver_window"]));
        assert_eq!(of(100_000.0), None);
        assert_eq!(of(400_000.0), Some(vec!["full_path"]));
    }

    #[test]
    fn two_limits_that_are_close_have_no_label() {
        let both = Build { receive_buffer: Some(30_000.0), send_buffer: Some(30_000.0), ..PLAIN };
        assert_eq!(causes(&both), None);
    }

    #[test]
    fn a_queue_is_short_or_long_beside_what_the_path_holds() {
        let of = |queue_packets: f64| causes(&Build { queue_packets, ..PLAIN });
        assert_eq!(of(10.0), Some(vec!["shallow_buffer"]));
        assert_eq!(of(50.0), None);
        assert_eq!(of(100.0), Some(vec!["full_path"]));
    }

    #[test]
    fn the_receiver_sees_its_own_limits_and_none_of_the_other_side() {
        let there = Build { of_receiver: true, ..PLAIN };
        assert_eq!(causes(&there), Some(vec!["other_side"]));
        let window = Build { receive_buffer: Some(40_000.0), ..there };
        assert_eq!(causes(&window), Some(vec!["own_window"]));
    }
}

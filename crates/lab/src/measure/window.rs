//! A TCP sender's numbers, from its trace.

use transom_analysis::{
    Analysis, CollapseCause, Connection, Episode, EpisodeKind, Limit, Sample, Series,
};
use transom_event::Kind;

use super::statistics::{mean, pearson};

/// Width of the bins that window and throughput are compared in, ns.
const SECOND_NS: u64 = 1_000_000_000;

/// Bytes the other side acknowledged.
pub fn acked(connection: &Connection) -> u64 {
    Series::of(connection).samples.last().map_or(0, |sample| sample.acked)
}

/// Puts every metric of `metrics::FLOW_METRICS` that a trace holds.
pub fn numbers(
    connection: &Connection,
    analysis: &Analysis,
    put: &mut impl FnMut(&str, Option<f64>),
) {
    let series = Series::of(connection);
    let samples = sending(&series.samples);
    let cwnd = Weighted::of(samples, |sample| sample.cwnd);
    let flight = Weighted::of(samples, |sample| sample.in_flight);
    put("cwnd_mean", cwnd.mean());
    put("cwnd_std", cwnd.deviation());
    put("cwnd_max", cwnd.greatest());
    put("cwnd_end", cwnd.second_half().median());
    put("flight_max", flight.greatest());
    put("flight_end", flight.second_half().median());

    put("cwnd_rise_s", rise(samples));

    let falls: Vec<&Episode> = analysis.episodes.iter().filter(|e| fall(e).is_some()).collect();
    put("cwnd_falls", Some(falls.len() as f64));
    let without = falls.iter().filter(|episode| !has_loss(connection, episode)).count();
    put("cwnd_falls_without_loss", Some(without as f64));
    let before = falls.iter().filter_map(|episode| fall(episode));
    put("cwnd_before_fall", mean(&before.map(|(before, _)| before.into()).collect::<Vec<_>>()));
    put("lowest_after_fall", mean(&depths(&analysis.episodes)));

    let summary = &analysis.summary;
    let counts = [
        ("retransmits", summary.retransmitted.total()),
        ("timeouts", summary.timeouts),
        ("dup_acks", summary.duplicate_acks),
        ("d_sacks", summary.d_sacks),
        ("local_congestion", summary.local_congestion),
    ];
    for (metric, count) in counts {
        put(metric, Some(count as f64));
    }
    put("srtt_ms", summary.rtt.map(|rtt| f64::from(rtt.median_us) / 1e3));
    let shares = [
        ("limited_cwnd", Limit::Cwnd),
        ("limited_rwnd", Limit::ReceiverWindow),
        ("limited_sndbuf", Limit::SendBuffer),
        ("limited_app", Limit::Application),
        ("limited_device", Limit::LocalDevice),
    ];
    for (metric, limit) in shares {
        put(metric, Some(analysis.limits.share(limit)));
    }
    put("cwnd_throughput_correlation", correlation(samples));
}

/// From the first data to the acknowledgement of the last: handshake and farewell say nothing of
/// the window.
fn sending(samples: &[Sample]) -> &[Sample] {
    let first = samples.partition_point(|sample| sample.sent == 0);
    let all = samples.last().map_or(0, |sample| sample.acked);
    let end = samples.partition_point(|sample| sample.acked < all);
    &samples[first.min(end)..samples.len().min(end + 1)]
}

/// Until the window was first within a tenth of its greatest, s.
fn rise(samples: &[Sample]) -> Option<f64> {
    let greatest = samples.iter().map(|sample| sample.cwnd).max()?;
    let near = samples.iter().find(|sample| sample.cwnd * 10 >= greatest * 9)?;
    Some((near.time_ns - samples[0].time_ns) as f64 / 1e9)
}

/// Values and how long each held, ns.
#[derive(Clone)]
struct Weighted(Vec<(f64, u64)>);

impl Weighted {
    fn of(samples: &[Sample], value: impl Fn(&Sample) -> u32) -> Weighted {
        let held =
            |pair: &[Sample]| (f64::from(value(&pair[0])), pair[1].time_ns - pair[0].time_ns);
        Weighted(samples.windows(2).map(held).collect())
    }

    fn length_ns(&self) -> u64 {
        self.0.iter().map(|(_, ns)| ns).sum()
    }

    fn mean(&self) -> Option<f64> {
        let length = self.length_ns() as f64;
        let area = self.0.iter().map(|&(value, ns)| value * ns as f64).sum::<f64>();
        (length > 0.0).then(|| area / length)
    }

    fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let square = |&(value, ns): &(f64, u64)| (value - mean).powi(2) * ns as f64;
        Some((self.0.iter().map(square).sum::<f64>() / self.length_ns() as f64).sqrt())
    }

    fn greatest(&self) -> Option<f64> {
        self.0.iter().map(|&(value, _)| value).reduce(f64::max)
    }

    /// The value that was not exceeded half of the time.
    fn median(&self) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = self.length_ns() / 2;
        let mut passed = 0;
        sorted.into_iter().find_map(|(value, ns)| {
            passed += ns;
            (passed >= half).then_some(value)
        })
    }

    fn second_half(&self) -> Weighted {
        let half = self.length_ns() / 2;
        let mut passed = 0;
        let later = self.0.iter().filter(|(_, ns)| {
            passed += ns;
            passed > half
        });
        Weighted(later.copied().collect())
    }
}

/// The window before and after an episode in which it fell.
fn fall(episode: &Episode) -> Option<(u32, u32)> {
    let (before, after) = match episode.kind {
        EpisodeKind::FastRecovery { cwnd_before, cwnd_after, .. }
        | EpisodeKind::Timeout { cwnd_before, cwnd_after, .. }
        | EpisodeKind::Resend { cwnd_before, cwnd_after, .. }
        | EpisodeKind::IdleRestart { cwnd_before, cwnd_after, .. }
        | EpisodeKind::CwndValidation { cwnd_before, cwnd_after }
        | EpisodeKind::WindowCollapse { cwnd_before, cwnd_after, .. } => (cwnd_before, cwnd_after),
        EpisodeKind::SlowStart { .. }
        | EpisodeKind::ZeroWindow { .. }
        | EpisodeKind::Saturated { .. } => return None,
    };
    (after < before).then_some((before, after))
}

fn has_loss(connection: &Connection, episode: &Episode) -> bool {
    let repaired = match episode.kind {
        EpisodeKind::FastRecovery { retransmitted, .. }
        | EpisodeKind::Timeout { retransmitted, .. }
        | EpisodeKind::Resend { retransmitted, .. } => retransmitted > 0,
        EpisodeKind::WindowCollapse { cause, .. } => cause == CollapseCause::TailLoss,
        _ => false,
    };
    let marks = connection.marks_between(episode.start_ns, episode.end_ns);
    repaired || marks.iter().any(|mark| mark.kind == Kind::Retransmit)
}

/// After ÷ before, of falls whose depth is the algorithm's choice: a timeout begins at one
/// segment whatever it is.
fn depths(episodes: &[Episode]) -> Vec<f64> {
    let chosen = episodes.iter().filter(|episode| {
        matches!(
            episode.kind,
            EpisodeKind::FastRecovery { .. } | EpisodeKind::WindowCollapse { .. }
        )
    });
    chosen.filter_map(fall).map(|(before, after)| f64::from(after) / f64::from(before)).collect()
}

/// Of the mean window and the bytes acknowledged in each whole second.
fn correlation(samples: &[Sample]) -> Option<f64> {
    let start = samples.first()?.time_ns;
    let seconds = (samples.last()?.time_ns - start) / SECOND_NS;
    let mut windows = vec![Weighted(Vec::new()); seconds as usize];
    let mut bytes = vec![0.0; seconds as usize];
    for pair in samples.windows(2) {
        let at = ((pair[0].time_ns - start) / SECOND_NS) as usize;
        if let (Some(window), Some(bytes)) = (windows.get_mut(at), bytes.get_mut(at)) {
            window.0.push((pair[0].cwnd.into(), pair[1].time_ns - pair[0].time_ns));
            *bytes += (pair[1].acked - pair[0].acked) as f64;
        }
    }
    let both =
        windows.iter().zip(bytes).filter_map(|(window, bytes)| Some((window.mean()?, bytes)));
    let (windows, bytes): (Vec<f64>, Vec<f64>) = both.unzip();
    if windows.len() < 3 { None } else { pearson(&windows, &bytes) }
}

//! How long the first round trips of a flow take, as far as its way tells: the delays of every link
//! and stage on it, and what they need to send a packet.

use crate::experiment::{Experiment, Flow, Over, Path};
use crate::hosts::{Place, Side};
use transom_emulator::plan::Direction;

/// A handshake over an idle air, the hosts' devices and processors takes at most so much longer, ms.
const MOST_ON_TOP_MS: f64 = 3.0;
/// Of a segment of the handshake, with all of its options, from the IP header on.
const HANDSHAKE_BITS: f64 = 60.0 * 8.0;

/// The least that TCP measures on this way, then or later, and the most that its handshake takes, ms.
pub(super) fn of_handshake(
    experiment: &Experiment,
    flow: &Flow,
    from: &Place,
    to: &Place,
) -> [f64; 2] {
    let [from, to] = [from, to].map(|place| attached(experiment, flow, place));
    let between = (from.is_far != to.is_far).then_some(&experiment.path);
    let paths = [from.own, to.own, between].into_iter().flatten();
    paths.fold([0.0, MOST_ON_TOP_MS], |[least, most], path| {
        let [up, down] = [&path.up, &path.down].map(|way| one_way(way, flow.start_s));
        [least + path.rtt_ms + up[0] + down[0], most + path.rtt_ms + up[1] + down[1]]
    })
}

/// How a flow leaves a host or comes to it.
struct Attached<'a> {
    /// A path of the host's own.
    own: Option<&'a Path>,
    /// Whether that, or its interface, ends behind the path of the experiment.
    is_far: bool,
}

fn attached<'a>(experiment: &'a Experiment, flow: &Flow, place: &Place) -> Attached<'a> {
    let host = &experiment.hosts[&place.host];
    match host.cellular.as_ref().filter(|_| flow.over == Over::Cellular) {
        Some(cellular) => Attached { own: Some(cellular), is_far: true },
        None => Attached { own: host.link.as_ref(), is_far: place.side == Side::Far },
    }
}

/// The least and the most through a direction and its stages, for a flow that starts then.
fn one_way(direction: &Direction, start_s: f64) -> [f64; 2] {
    std::iter::once(direction).chain(&direction.stages).fold([0.0, 0.0], |[least, most], stage| {
        let (delays, sending) = (delays(stage, start_s), sending(stage));
        [least + delays[0] + sending[0], most + delays[1] + sending[1]]
    })
}

/// The least from then on, and the one at the start: the least is what TCP goes by.
fn delays(stage: &Direction, start_s: f64) -> [f64; 2] {
    let (before, after): (Vec<_>, Vec<_>) =
        stage.delays.iter().partition(|(from_s, _)| *from_s <= start_s);
    let first = before.last().map_or(stage.delay_ms, |(_, ms)| *ms);
    let handovers = stage.handovers.iter().filter_map(|handover| handover.delay_ms);
    let later = after.iter().map(|(_, ms)| *ms).chain(handovers);
    [later.fold(first, f64::min), first]
}

/// By the fastest rate of the link and by its slowest; of a recorded one, at once or when it can.
fn sending(stage: &Direction) -> [f64; 2] {
    if let Some(trace) = &stage.trace {
        let gaps = trace.ms.windows(2).map(|pair| pair[1] - pair[0]);
        return [0.0, gaps.chain(trace.ms.first().copied()).max().unwrap_or(0).into()];
    }
    let of_handovers = stage.handovers.iter().filter_map(|handover| handover.rate_mbit);
    let rates = stage.rates.iter().map(|(_, mbit)| *mbit).chain(stage.rate_mbit);
    let rates = rates.chain(of_handovers).filter(|mbit| *mbit > 0.0);
    let times = rates.map(|mbit| HANDSHAKE_BITS / (mbit * 1e3));
    times
        .fold(None, |both: Option<[f64; 2]>, ms| {
            Some(both.map_or([ms, ms], |[least, most]| [least.min(ms), most.max(ms)]))
        })
        .unwrap_or_default()
}

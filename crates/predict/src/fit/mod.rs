//! From a recorded connection to the path that it went over, and to what its ends did.

mod drops;
mod ends;
mod program;
mod rate;

use transom_analysis::{Analysis, Connection, Recording, Step, steps};

use crate::fit::drops::{Limit, Policer};
use crate::fit::rate::Bottleneck;
use crate::model::{Misfit, Model, Path, Policed, Sender};
use crate::observation::Observation;
use crate::parameter::Parameter;
use crate::queue::meetings;

/// What is missing in a recording, in whole sentences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit(pub String);

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

/// A queue whose end was never met is taken to hold so many times what waited in it at most.
const ROOM: f64 = 2.0;
/// And so many packets at least.
const LEAST_ROOM: f64 = 20.0;
/// A policer must explain the losses so many times better than a queue that the round trips show,
/// and so many times better than one of so few packets that they hardly do. Where there is no queue,
/// it must be so many times clearer than what counts as clear.
const QUEUE_FIRST: [f64; 2] = [3.0, 1.3];
const HARDLY: f64 = 2.0;

/// Losses count as chance only where less waits than this share of what a queue holds …
const NEARLY: f64 = 0.85;
/// … and so many mean distances of the round trips from the model less.
const BLUR: f64 = 3.0;

/// What may have been recorded, the likeliest first: a replay decides.
///
/// # Errors
/// What is missing.
pub fn fit(
    connection: &Connection,
    analysis: &Analysis,
    recording: &Recording,
) -> Result<Vec<Model>, Unfit> {
    let steps = steps(connection);
    enough(connection, analysis, recording, &steps)?;
    let seen = Observation::of(connection);
    let bottleneck = rate::bottleneck(&seen).ok_or_else(|| {
        let trips = seen.round_trips.len();
        Unfit(format!("It has {trips} round trips: too few to tell anything of the path from."))
    })?;
    let mut paths = paths(&seen, &bottleneck);
    let path = paths.remove(0);
    let (program, other_program) = program::program(analysis, &steps, connection.first_ns);
    let sender = ends::sender(connection, analysis, &steps);
    let mut model = Model {
        seconds: seen.seconds,
        ipv6: connection.endpoints().is_some_and(|ends| ends.local.is_ipv6()),
        packet: seen.packet(),
        path,
        sender,
        receiver: ends::receiver(&seen, analysis, &steps),
        program,
        misfit: None,
        notes: Vec::new(),
    };
    // Data that waits in a device of this machine, or for a receiver's program, says nothing of a
    // queue on the path.
    let direct = model.sender.device.is_none() && model.receiver.reads.is_none();
    let [from_s, to_s, worst_s] = bottleneck.worst;
    let misfit = Misfit { mean_s: bottleneck.misfit_s, from_s, to_s, worst_s };
    model.misfit = direct.then_some(misfit);
    behind_device(&mut model);
    model.notes = notes(&seen, &model);
    let other: Vec<Model> = paths.into_iter().map(|path| Model { path, ..model.clone() }).collect();
    let tight = ends::small_window(&steps).and_then(|window| small_window(&model, window));
    let device = own_device(&model);
    // What a full send buffer let in piece by piece looks like many writes, too.
    let other_program = other_program.filter(|_| model.sender.send_buffer.is_none());
    let writes = other_program.map(|program| Model { program, ..model.clone() });
    let all = std::iter::once(model).chain(other).chain(device).chain(tight).chain(writes);
    Ok(all.flat_map(unpaced_first).collect())
}

/// Where nothing changes, the rate of an algorithm that paces by itself stays the same, too: only a
/// recording that it does not explain shows one that the program has set.
fn unpaced_first(model: Model) -> impl Iterator<Item = Model> {
    let paces = model.sender.algorithm.starts_with("bbr") && model.sender.pacing.is_some();
    let sender = Sender { pacing: None, ..model.sender.clone() };
    let unpaced = paces.then(|| Model { sender, ..model.clone() });
    unpaced.into_iter().chain([model])
}

/// A window that never grew, and that another setting may be the first to use up.
fn small_window(model: &Model, window: Parameter) -> Option<Model> {
    let path = &model.path;
    let holds = path
        .rate
        .high
        .map_or(f64::INFINITY, |rate| rate * path.rtt_s.value + path.queue.value * model.packet);
    let may_be = model.receiver.window.is_none() && window.value < holds;
    may_be.then(|| {
        let mut other = model.clone();
        other.receiver.window = Some(window);
        other
    })
}

/// A sender that paces leaves no sign of which it is: a slow path or a slow device of its own.
fn own_device(model: &Model) -> Option<Model> {
    let path = &model.path;
    // A policer drops what comes too fast; a queue that is seen beside it is in front of it.
    let may_be = model.sender.device.is_none()
        && path.rate.high.is_some()
        && (path.policer.is_some() || path.queue.high.is_none());
    may_be.then(|| {
        let mut other = model.clone();
        let reason = "a slow device of this machine explains the round trips better than the path";
        other.sender.device = Some(Parameter { reason: reason.to_owned(), ..path.rate.clone() });
        behind_device(&mut other);
        other
    })
}

/// Behind a slow device the path is only known to be no slower.
fn behind_device(model: &mut Model) {
    let Some(device) = &model.sender.device else { return };
    let reason = "the device was slower: of the path it is known that it is no slower";
    model.path.rate = Parameter::new(device.value * 2.0, device.value, None, reason);
}

fn enough(
    connection: &Connection,
    analysis: &Analysis,
    recording: &Recording,
    steps: &[Step],
) -> Result<(), Unfit> {
    let (summary, coverage) = (&analysis.summary, &analysis.summary.coverage);
    let unfit = |what: &str| Err(Unfit(what.to_owned()));
    if coverage.polled {
        return unfit("It holds only polled states, no ACKs: record with the kernel's probes.");
    }
    if transom_analysis::is_sampled(connection, steps) {
        return unfit("Most ACKs are missing (--rate, or many lost): record without --rate.");
    }
    if summary.received > 4 * summary.acked {
        return unfit("It is a download, and its sender is elsewhere: record there.");
    }
    if !coverage.begun {
        return unfit(
            "It began before the recording did: what its window and queue were then is not known. Record from its beginning.",
        );
    }
    if analysis.mptcp.is_some() {
        return unfit("It is a subflow of Multipath TCP, whose other subflows are not modelled.");
    }
    if recording.lost_events() as f64 > 0.01 * recording.events as f64 {
        return unfit("More than a hundredth of the events was lost: record with a larger --ring.");
    }
    Ok(())
}

/// The likeliest path first, and what else may have dropped.
fn paths(seen: &Observation, bottleneck: &Bottleneck) -> Vec<Path> {
    // Where no queue is seen, none can be what is full.
    let limit = Some(bottleneck.rate.value)
        .filter(|_| bottleneck.seen)
        .and_then(|rate| drops::limit(seen, rate, drops::AGREES));
    let mut all = likely(limit, drops::policer(seen), seen.packet());
    all.sort_by_key(|it| it.1);
    all.into_iter().map(|(dropper, _)| with_drops(seen, bottleneck, dropper)).collect()
}

/// What may have dropped, with its place. Few losses are as well explained by chance, and chance by
/// what was full when they came: a replay tells, or the prediction has to allow for all of them.
fn likely(limit: Option<Limit>, policer: Option<Policer>, packet: f64) -> Vec<(Dropper, u8)> {
    let may_be = |gain, most, clear| gain >= clear || drops::may_be(gain, most);
    let limit = limit.filter(|it| may_be(it.gain, it.most, drops::CLEAR));
    let policer = policer.filter(|it| may_be(it.gain, it.most, drops::CLEARER));
    let full = limit.as_ref().filter(|limit| limit.gain >= drops::CLEAR);
    let policed = policer.as_ref().filter(|policer| policer.gain >= drops::CLEARER);
    let (queue, policing, chance) = match (full, policed) {
        (None, None) => (1, 2, 0),
        (Some(_), None) => (0, 2, 1),
        (None, Some(policer)) => match policer.gain > QUEUE_FIRST[0] * drops::CLEARER {
            true => (2, 0, 1),
            false => (2, 1, 0),
        },
        (Some(limit), Some(policer)) => {
            let hardly = limit.bytes.value < HARDLY * packet;
            match policer.gain > limit.gain * QUEUE_FIRST[usize::from(hardly)] {
                true => (1, 0, 2),
                false => (0, 1, 2),
            }
        }
    };
    // What explains much more leaves nothing to chance.
    let gain = [full.map(|it| it.gain), policed.map(|it| it.gain)].into_iter().flatten();
    let is_sure = chance > 0 && gain.fold(0.0, f64::max) > QUEUE_FIRST[0] * drops::CLEARER;
    let chance = (!is_sure).then_some((Dropper::Nothing, chance));
    let limits = limit.map(|it| (Dropper::Queue(it), queue));
    let policers = policer.map(|it| (Dropper::Policer(it), policing));
    chance.into_iter().chain(limits).chain(policers).collect()
}

/// What drops where it is full.
enum Dropper {
    Nothing,
    Queue(Limit),
    Policer(Policer),
}

fn with_drops(seen: &Observation, bottleneck: &Bottleneck, dropper: Dropper) -> Path {
    let met = |rate: f64| meetings(&seen.departures, rate).into_iter().map(|it| it.ahead);
    // How many bytes a round trip that is off by the misfit stands for.
    let blur = BLUR * bottleneck.misfit_s * bottleneck.rate.value;
    let over = |rate: f64, least: f64, blur: f64| -> Vec<bool> {
        let from = (least * NEARLY - blur).max(least / 2.0);
        met(rate).map(|ahead| ahead + seen.packet() >= from).collect()
    };
    let limited = match &dropper {
        Dropper::Policer(policer) => over(policer.rate.value, policer.burst.low, 0.0),
        Dropper::Queue(limit) => over(bottleneck.rate.value, limit.bytes.low, blur),
        Dropper::Nothing => vec![false; seen.departures.len()],
    };
    let chance = drops::chance(seen, &limited);
    let queue = match &dropper {
        Dropper::Queue(limit) => in_packets(&limit.bytes, seen.packet()),
        _ => open_queue(met(bottleneck.rate.value).fold(0.0, f64::max) / seen.packet()),
    };
    let policer = match dropper {
        Dropper::Policer(it) => Some(Policed { rate: it.rate, burst: it.burst }),
        _ => None,
    };
    Path {
        rtt_s: bottleneck.base_s.clone(),
        rate: bottleneck.rate.clone(),
        queue,
        policer,
        loss: chance.share,
        loss_burst: chance.burst,
        ack_loss: ends::ack_loss(seen),
    }
}

/// What is ahead of a packet is the one that is being sent, in part, and those that wait.
fn in_packets(bytes: &Parameter, packet: f64) -> Parameter {
    let packets = |bytes: f64| (bytes / packet).round().max(1.0);
    Parameter::new(
        packets(bytes.value),
        packets(bytes.low),
        bytes.high.map(packets),
        bytes.reason.clone(),
    )
}

fn open_queue(most: f64) -> Parameter {
    let most = most.ceil();
    let reason = format!("never full: {most:.0} packets waited at most");
    Parameter::new((most * ROOM).max(LEAST_ROOM), most.max(1.0), None, reason)
}

fn notes(seen: &Observation, model: &Model) -> Vec<String> {
    let mut notes = Vec::new();
    if seen.needless * 3 > seen.lost() as u64 && seen.needless > 2 {
        notes.push(format!(
            "{} segments were retransmitted that had arrived: the path delivers out of order, which the model does not.",
            seen.needless
        ));
    }
    if model.path.loss_burst.is_some() && model.path.policer.is_none() {
        notes.push("Losses come in rows.".to_owned());
    }
    notes
}

//! A queue in front of a rate, run through in logical time: what each segment would have met there.

use crate::observation::{Departure, Observation};

/// By how much a handshake may be off, relatively and in s: timers, and the threads of hosts.
const HANDSHAKE: (f64, f64) = (0.02, 200e-6);

/// What a segment meets when it comes to a queue that is served at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Meeting {
    /// Bytes that are still to be served before it.
    pub ahead: f64,
    /// Until it has left itself, s, if it is let in.
    pub seconds: f64,
}

/// For each departure; those that were lost take no place. `rate` is in bytes/s.
pub fn meetings(departures: &[Departure], rate: f64) -> Vec<Meeting> {
    let (mut ahead, mut last_s) = (0.0_f64, 0.0_f64);
    let meet = |departure: &Departure| {
        ahead = (ahead - (departure.at_s - last_s).max(0.0) * rate).max(0.0);
        last_s = departure.at_s;
        let meeting = Meeting { ahead, seconds: (ahead + departure.bytes) / rate };
        if !departure.lost {
            ahead += departure.bytes;
        }
        meeting
    };
    departures.iter().map(meet).collect()
}

/// How far the round trips are from those over such a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misfit {
    /// Round trip without any queue, s: what fits best.
    pub base_s: f64,
    /// Mean distance, s.
    pub mean_s: f64,
}

/// Between which round trips that of the empty path lies: none is shorter, and the handshake was
/// not much longer.
fn base_bounds(seen: &Observation) -> [f64; 2] {
    let least = seen.least_s.unwrap_or(f64::INFINITY);
    match seen.handshake_s {
        Some(handshake) => {
            let low = handshake * (1.0 - HANDSHAKE.0) - HANDSHAKE.1;
            [low.min(least), handshake.min(least) + HANDSHAKE.1]
        }
        None => [0.0, least],
    }
}

/// `rate` is in bytes/s; infinite: there is no queue.
pub fn misfit(seen: &Observation, rate: f64) -> Misfit {
    let met = if rate.is_finite() { meetings(&seen.departures, rate) } else { Vec::new() };
    let wait = |of: usize| met.get(of).map_or(0.0, |meeting| meeting.seconds);
    let mut rest: Vec<f64> =
        seen.round_trips.iter().map(|trip| trip.seconds - wait(trip.of)).collect();
    if rest.is_empty() {
        return Misfit { base_s: 0.0, mean_s: 0.0 };
    }
    let middle = rest.len() / 2;
    let free_s = *rest.select_nth_unstable_by(middle, f64::total_cmp).1;
    let [low, high] = base_bounds(seen);
    let base_s = free_s.max(low).min(high);
    let mean_s = rest.iter().map(|rest| (rest - base_s).abs()).sum::<f64>() / rest.len() as f64;
    Misfit { base_s, mean_s }
}

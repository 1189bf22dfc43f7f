//! A queue in front of a rate, run through in logical time: what each segment would have met there.

use transom_analysis::TIMESTAMP_TICK_US;

use crate::interval::median;
use crate::observation::{Departure, Observation, RoundTrip};

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

/// How long a receiver that waits for another segment acknowledges one at the earliest and at the
/// latest, s: Linux after 40 ms less a tick of its timer (`TCP_DELACK_MIN`), others after up to
/// 200 ms (RFC 1122: less than 500).
const DELAYED_S: [f64; 2] = [0.036, 0.2];
/// A tick of its timer, s.
const TICK_S: f64 = 0.004;

/// A round trip without what its segment met in the queue.
#[derive(Clone, Copy, Debug)]
struct Rest {
    seconds: f64,
    /// Until the next segment arrived, if this one was acknowledged by itself.
    alone_s: Option<f64>,
}

/// What a rate leaves of every round trip.
pub struct Rests {
    all: Vec<Rest>,
    /// That of the empty path: what fits best.
    base_s: f64,
    /// How long the receiver delays the acknowledgement of a segment that no other follows.
    delay_s: f64,
}

impl Rests {
    /// `rate` is in bytes/s; infinite: there is no queue.
    pub fn of(seen: &Observation, rate: f64) -> Rests {
        let met = if rate.is_finite() { meetings(&seen.departures, rate) } else { Vec::new() };
        let wait = |of: usize| met.get(of).map_or(0.0, |meeting| meeting.seconds);
        let arrival = |of: usize| seen.departures[of].at_s + wait(of);
        let arrives = |at: &usize| !seen.departures[*at].lost;
        let next = |of: usize| (of + 1..seen.departures.len()).find(arrives);
        let alone = |of: usize| next(of).map_or(f64::INFINITY, |next| arrival(next) - arrival(of));
        let rest = |trip: &RoundTrip| Rest {
            seconds: trip.seconds - wait(trip.of),
            alone_s: (trip.segments == 1).then(|| alone(trip.of)),
        };
        let all: Vec<Rest> = seen.round_trips.iter().map(rest).collect();
        let [low, high] = base_bounds(seen);
        let free_s = median(all.iter().map(|rest| rest.seconds).collect()).unwrap_or(0.0);
        let base_s = free_s.max(low).min(high);
        let [least, most] = DELAYED_S;
        let may_wait = |rest: &&Rest| rest.alone_s.is_some_and(|alone| alone > least);
        let late = all.iter().filter(may_wait).map(|rest| rest.seconds - base_s);
        let delay_s = median(late.filter(|&late| late > least / 2.0).collect());
        Rests { delay_s: delay_s.map_or(f64::INFINITY, |it| it.clamp(least, most)), all, base_s }
    }

    /// How far each is from that of the empty path, s: with a delayed acknowledgement, or without.
    pub fn distances(&self) -> impl Iterator<Item = f64> {
        self.all.iter().map(|rest| {
            let late = rest.seconds - self.base_s;
            match rest.alone_s {
                Some(alone) if alone >= self.delay_s - TICK_S => {
                    late.abs().min((late - self.delay_s).abs())
                }
                _ => late.abs(),
            }
        })
    }
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
    // That of a segment that left twice is told by timestamps, which count whole ms.
    let is_coarse = seen.departures.iter().any(|departure| departure.again);
    let coarse_s = if is_coarse { f64::from(TIMESTAMP_TICK_US) / 1e6 } else { 0.0 };
    let least = seen.least_s.map_or(f64::INFINITY, |least| least + coarse_s);
    match seen.handshake_s {
        Some(handshake) => {
            let low = handshake * (1.0 - HANDSHAKE.0) - HANDSHAKE.1;
            // On a path shorter than what the handshake may be off by, the least is none at all.
            [low.min(least - coarse_s).max(0.0), handshake.min(least) + HANDSHAKE.1]
        }
        None => [0.0, least],
    }
}

/// `rate` is in bytes/s; infinite: there is no queue.
pub fn misfit(seen: &Observation, rate: f64) -> Misfit {
    if seen.round_trips.is_empty() {
        return Misfit { base_s: 0.0, mean_s: 0.0 };
    }
    let rests = Rests::of(seen, rate);
    let mean_s = rests.distances().sum::<f64>() / seen.round_trips.len() as f64;
    Misfit { base_s: rests.base_s, mean_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full packets that leave at these times and are acknowledged alone, so much after the round trip
    /// of 40 ms and what they meet at 0.1 Mbit/s.
    fn seen(packets: &[(f64, f64)]) -> Observation {
        let departure = |&(at_s, _): &(f64, f64)| Departure {
            at_s,
            bytes: 1500.0,
            end: 0,
            again: false,
            lost: false,
        };
        let departures: Vec<Departure> = packets.iter().map(departure).collect();
        let met = meetings(&departures, RATE);
        let trip = |(of, (_, late)): (usize, &(f64, f64))| RoundTrip {
            of,
            seconds: 0.04 + met[of].seconds + late,
            segments: 1,
        };
        let round_trips = packets.iter().enumerate().map(trip).collect();
        Observation { departures, round_trips, handshake_s: Some(0.04), ..Observation::default() }
    }

    const RATE: f64 = 12_500.0;

    #[test]
    fn no_path_has_a_round_trip_below_zero() {
        let seen =
            Observation { handshake_s: Some(30e-6), least_s: Some(9e-6), ..seen(&[(0.0, 0.0)]) };
        let [low, high] = base_bounds(&seen);
        assert!(low == 0.0 && high > 30e-6, "{low} to {high}");
    }

    #[test]
    fn an_acknowledgement_that_waits_for_another_segment_is_no_queue() {
        // The next packet comes 120 ms later: too late for the receiver, which waits 40 ms.
        let lone: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i) * 0.05, 0.04 * f64::from(i % 2))).collect();
        let is = misfit(&seen(&lone), RATE);
        assert!(is.mean_s < 2.0 * HANDSHAKE.1, "as near as the handshake tells: {is:?}");
        // What is late by another time each has another cause.
        let late: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i) * 0.05, 0.005 * f64::from(i))).collect();
        assert!(misfit(&seen(&late), RATE).mean_s > 0.01, "{:?}", misfit(&seen(&late), RATE));
    }

    #[test]
    fn a_segment_that_another_follows_at_once_is_not_acknowledged_late() {
        let mut pairs = seen(&(0..20).map(|i| (f64::from(i), 0.04)).collect::<Vec<_>>());
        assert!(misfit(&pairs, RATE).mean_s < 1e-6, "the control: a lone one may be");
        // Over a fast path two of them arrive together.
        for (i, departure) in pairs.departures.iter_mut().enumerate() {
            departure.at_s = f64::from(i as u32 / 2);
        }
        for trip in pairs.round_trips.iter_mut().filter(|trip| trip.of % 2 == 0) {
            trip.seconds = 0.08;
        }
        pairs.round_trips.retain(|trip| trip.of % 2 == 0);
        assert!(misfit(&pairs, 1e9).mean_s > 0.03, "{:?}", misfit(&pairs, 1e9));
    }

    #[test]
    fn a_round_trip_told_by_timestamps_bounds_the_path_to_a_millisecond_only() {
        let mut seen = seen(&[(0.0, 0.0); 4]);
        (seen.handshake_s, seen.least_s) = (Some(0.0088), Some(0.008));
        assert!(base_bounds(&seen)[1] < 0.0088, "the control: {:?}", base_bounds(&seen));
        seen.departures[3].again = true;
        let [low, high] = base_bounds(&seen);
        assert!(low <= 0.008 && (0.0088..0.0092).contains(&high), "{low} to {high}");
    }
}

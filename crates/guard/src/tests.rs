//! What the guard says of paths that are well, and of those that are not.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(100);
const HURT_BY_LOSS: Verdict = Verdict::Withdrawn(Hurt::Loss);
const HURT_BY_QUEUE: Verdict = Verdict::Withdrawn(Hurt::Inflation);
const HURTS_OTHERS: Verdict = Verdict::Withdrawn(Hurt::Share);

fn settings() -> GuardSettings {
    GuardSettings::default()
}

fn under(settings: &GuardSettings, samples: impl IntoIterator<Item = Sample>) -> Vec<Verdict> {
    let mut guard = Guard::new(Duration::ZERO);
    let look = |(n, sample)| guard.look(TICK * n as u32, sample, settings);
    samples.into_iter().enumerate().map(look).collect()
}

/// What the guard says at each tick, for ticks of these kinds.
fn verdicts(samples: impl IntoIterator<Item = Sample>) -> Vec<Verdict> {
    under(&settings(), samples)
}

/// 500 segments a second over a path of this length, with a queue of so long, µs.
fn path(least_us: u32, queue_us: u32) -> Sample {
    Sample {
        sent: 50,
        srtt_us: Some(least_us + queue_us),
        least_us: Some(least_us),
        ours: Brought { connections: 1, segments: 50 },
        ..Sample::default()
    }
}

fn queued(queue_ms: u32, least_ms: u32) -> Sample {
    path(least_ms * 1000, queue_ms * 1000)
}

fn well() -> Sample {
    queued(5, 48)
}

fn lossy() -> Sample {
    Sample { retransmitted: 10, ..well() }
}

fn idle() -> Sample {
    Sample { sent: 0, srtt_us: None, ours: Brought::default(), ..queued(400, 48) }
}

fn switches(verdicts: &[Verdict]) -> usize {
    verdicts.windows(2).filter(|two| two[0] != two[1]).count()
}

fn first(verdicts: &[Verdict]) -> Option<usize> {
    verdicts.iter().position(|verdict| *verdict != Verdict::Allowed)
}

#[test]
fn a_path_that_is_well_keeps_its_window() {
    assert_eq!(switches(&verdicts(vec![well(); 3000])), 0);
}

#[test]
fn loss_for_long_enough_withdraws_it_and_says_so() {
    let told = verdicts([lossy(); 30]);
    assert_eq!(told[18], Verdict::Allowed, "not at once");
    assert_eq!(told[19], HURT_BY_LOSS, "after four times `after`");
}

/// The guest: 20 Mbit/s, a queue of 30 kB, 1 ms. Five segments that wait are three times the path.
#[test]
fn on_a_path_of_a_millisecond_a_handful_of_segments_is_no_queue() {
    for queue_us in (0..12_000).step_by(500) {
        assert_eq!(switches(&verdicts([path(1000, queue_us); 300])), 0, "{queue_us} µs");
    }
    let told = verdicts([path(1000, 16_000); 30]);
    assert_eq!(told[29], HURT_BY_QUEUE, "but a queue of sixteen times the path is");
}

#[test]
fn a_queue_of_fewer_than_four_segments_of_a_connection_is_no_harm_however_slow_the_path() {
    let slow = |queue_ms, connections| {
        let ours = Brought { connections, segments: 1 };
        verdicts([Sample { sent: 1, ours, ..queued(queue_ms, 20) }; 100])
    };
    // A segment each 100 ms.
    assert_eq!(switches(&slow(390, 1)), 0);
    assert_eq!(*slow(410, 1).last().unwrap(), HURT_BY_QUEUE);
    assert_eq!(switches(&slow(410, 2)), 0, "two connections share the segments");
}

#[test]
fn a_queue_that_stands_withdraws_it_within_ten_round_trips() {
    for (queue_ms, least_ms) in [(47, 48), (100, 20), (200, 200), (600, 100), (2000, 48)] {
        let told = verdicts([queued(queue_ms, least_ms); 400]);
        let took = TICK * first(&told).expect("it is withdrawn") as u32;
        let round_trips = took.as_secs_f64() * 1e3 / f64::from(queue_ms + least_ms);
        let floor = settings().after + TICK;
        assert!(round_trips <= 10.0 || took <= floor, "{queue_ms} + {least_ms}: {round_trips}");
        assert!(round_trips >= 6.0, "{queue_ms} + {least_ms} ms: {round_trips} is a guess");
        assert_eq!(told[first(&told).unwrap()], HURT_BY_QUEUE);
    }
}

#[test]
fn a_ping_that_grows_by_47_ms_withdraws_it_though_the_factor_is_small() {
    assert_eq!(*verdicts([queued(47, 48); 30]).last().unwrap(), HURT_BY_QUEUE);
    assert_eq!(switches(&verdicts([queued(12, 48); 300])), 0, "a short queue is no harm");
    assert_eq!(switches(&verdicts([queued(40, 200); 300])), 0, "nor a fifth of a long way");
}

#[test]
fn a_queue_that_goes_now_and_then_does_not_stand() {
    let told = verdicts((0..300).map(|n| if n % 5 == 0 { queued(5, 48) } else { queued(90, 48) }));
    assert_eq!(switches(&told), 0);
    // A window that fills the queue once in ten round trips and empties it.
    let saw = |n: usize| queued(if n % 8 < 6 { 60 } else { 10 }, 48);
    assert_eq!(switches(&verdicts((0..300).map(saw))), 0);
}

#[test]
fn the_least_round_trip_of_the_path_is_that_of_all_its_connections() {
    let counters = |srtt_ms: u32, min_ms: u32, n: u32| Counters {
        sent: 50 * n,
        delivered: 50 * n,
        srtt_us: srtt_ms * 1000,
        min_rtt_us: min_ms * 1000,
        unsent: 1,
        ..Counters::default()
    };
    let withdrawn = |with_an_old_one: bool| {
        let mut guards = Guards::default();
        for n in 0..50 {
            // It began when the queue stood: it has never seen the path without.
            let new = counters(150, 140, n);
            let of = |id, window, now| Connection { id, path: (), window, now };
            let mut all = vec![of(1, Window::Found, new)];
            if with_an_old_one {
                all.push(of(2, Window::Own, Counters { unsent: 0, ..counters(150, 50, 1) }));
            }
            guards.look(TICK * n, &all, &settings());
        }
        guards.verdict(&()) != Verdict::Allowed
    };
    assert!(withdrawn(true));
    assert!(!withdrawn(false), "alone it cannot know: docs/policy.md says so");
}

/// Transfers of four looks, with a pause of two seconds after each.
#[test]
fn pauses_between_transfers_neither_make_a_burst_last_nor_hide_what_lasts() {
    let transfers = |lossy: &dyn Fn(usize) -> bool| {
        let look =
            |n: usize| Sample { retransmitted: if lossy(n / 24) { 10 } else { 0 }, ..well() };
        verdicts((0..600).map(|n| if n % 24 < 4 { look(n) } else { idle() }))
    };
    assert_eq!(switches(&transfers(&|number| number == 3)), 0, "one transfer");
    let told = transfers(&|_| true);
    let after = first(&told).expect("each transfer loses a fifth");
    assert!((4 * 24..6 * 24).contains(&after), "two seconds of sending: look {after}");
}

#[test]
fn one_burst_of_loss_or_an_idle_time_does_not() {
    assert_eq!(switches(&verdicts([idle(); 300])), 0);
    let samples = (0..300).map(|n| if n == 100 { lossy() } else { well() });
    assert_eq!(switches(&verdicts(samples)), 0);
}

/// Half a second of overshoot, as slow start ends with: a tenth of all that was sent in two seconds.
#[test]
fn a_burst_of_loss_that_is_over_within_half_a_second_is_no_harm() {
    let burst = Sample { retransmitted: 25, ..well() };
    let told = verdicts((0..300).map(|n| if (50..54).contains(&n) { burst } else { well() }));
    assert_eq!(switches(&told), 0);
}

fn beside(ours: u64, others: u64) -> Sample {
    let brought = |segments| Brought { connections: 1, segments };
    Sample { ours: brought(ours), others: brought(others), ..well() }
}

#[test]
fn a_hungry_neighbour_that_is_left_a_fifth_withdraws_it() {
    assert_eq!(*verdicts([beside(80, 20); 150]).last().unwrap(), HURTS_OTHERS);
    assert_eq!(switches(&verdicts([beside(60, 40); 300])), 0, "a fair neighbour does not");
    let sated = Sample { others: Brought::default(), ..beside(80, 20) };
    assert_eq!(switches(&verdicts([sated; 300])), 0, "who asks for no more has enough");
    let start = (0..300).map(|n| if n < 40 { beside(80, 5) } else { beside(50, 50) });
    assert_eq!(switches(&verdicts(start)), 0, "who has just begun is given time");
}

#[test]
fn losses_that_come_with_a_queue_are_competition_for_a_window_that_was_chosen() {
    let losing = |every: usize, sample: Sample| {
        verdicts((0..300).map(|n| match n % every {
            0 => Sample { retransmitted: 1, ..sample },
            _ => sample,
        }))
    };
    let chosen = |sample: Sample| Sample { chosen: true, ..sample };
    assert_eq!(*losing(40, chosen(queued(20, 48))).last().unwrap(), HURTS_OTHERS);
    assert_eq!(switches(&losing(10, chosen(queued(3, 48)))), 0, "losses of the air");
    assert_eq!(switches(&verdicts([chosen(queued(20, 48)); 300])), 0, "a queue without losses");
    assert_eq!(switches(&losing(40, queued(20, 48))), 0, "one that is found gives way by itself");
}

#[test]
fn it_comes_back_only_when_the_path_looks_well() {
    let after = |rest: Sample| {
        let told = verdicts((0..400).map(|n| if n < 30 { lossy() } else { rest }));
        *told.last().unwrap()
    };
    assert_eq!(after(well()), Verdict::Allowed);
    let half = Sample { retransmitted: 2, ..well() };
    assert_eq!(after(half), HURT_BY_LOSS, "4 % is more than half of 5 %");
}

/// A path that is hurt whenever the window is aggressive, for an hour.
#[test]
fn on_a_path_that_it_hurts_it_is_tried_ever_more_rarely() {
    let mut guard = Guard::new(Duration::ZERO);
    let mut told = Vec::new();
    for n in 0..36_000 {
        let hurt = guard.verdict() == Verdict::Allowed;
        let sample = if hurt { lossy() } else { well() };
        told.push(guard.look(TICK * n, sample, &settings()));
    }
    let allowed = told.iter().filter(|&&verdict| verdict == Verdict::Allowed).count();
    assert!(switches(&told) <= 24, "{} switches in an hour", switches(&told));
    assert!(allowed < 360, "aggressive for less than a hundredth of the time: {allowed} ticks");
}

#[test]
fn a_guard_that_is_off_or_whose_bounds_are_absurdly_wide_withdraws_nothing() {
    let off = GuardSettings { on: false, ..settings() };
    let wide = GuardSettings {
        loss: 1.0,
        inflation: 1000.0,
        delay: Duration::from_secs(3600),
        share: 0.0,
        ..settings()
    };
    for sample in [lossy(), queued(500, 48), beside(80, 1), Sample { chosen: true, ..lossy() }] {
        assert_eq!(switches(&under(&off, [sample; 300])), 0);
        assert_eq!(switches(&under(&wide, [sample; 300])), 0);
        assert_eq!(switches(&verdicts([sample; 150])), 1, "{sample:?}");
    }
}

proptest! {
    /// Whatever happens, a withdrawal lasts its time and a window is given its own.
    #[test]
    fn it_never_flaps(kinds in prop::collection::vec(0..6, 1..2000)) {
        let kind = |n: &i32| match n {
            0 => well(),
            1 => lossy(),
            2 => queued(400, 48),
            3 => queued(47, 48),
            4 => beside(80, 20),
            _ => idle(),
        };
        let told = verdicts(kinds.iter().map(kind));
        let changes: Vec<usize> =
            (1..told.len()).filter(|&n| told[n] != told[n - 1]).collect();
        for two in changes.windows(2) {
            let least = match told[two[0]] {
                Verdict::Withdrawn(_) => settings().retry,
                Verdict::Allowed => settings().after,
            };
            let lasted = TICK * (two[1] - two[0]) as u32;
            prop_assert!(lasted >= least, "{:?} for {:?}", told[two[0]], lasted);
        }
    }

    /// A bound that allows more never withdraws earlier.
    #[test]
    fn a_wider_bound_never_withdraws_earlier(
        queues in prop::collection::vec(0u32..200, 1..200),
        delay_ms in 1u64..200,
    ) {
        let of = |delay_ms| {
            let delay = Duration::from_millis(delay_ms);
            let samples = queues.iter().map(|queue_ms| queued(*queue_ms, 48));
            first(&under(&GuardSettings { delay, ..settings() }, samples)).unwrap_or(usize::MAX)
        };
        prop_assert!(of(delay_ms) <= of(2 * delay_ms));
    }
}

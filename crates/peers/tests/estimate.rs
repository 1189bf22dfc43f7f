//! What a terminal measures of itself.

mod making;

use making::ms;
use transom_peers::estimate::{Air, Look, Stability, Track};
use transom_peers::{Flow, Treatment};

const EACH: u64 = 250;

fn look(cwnd: u32, acked: u32) -> Look {
    Look {
        cwnd,
        ssthresh: None,
        srtt_us: 300_000,
        min_rtt_us: 256_000,
        mss: 1448,
        acked,
        gives_way: false,
        wants: true,
    }
}

/// Looks at a flow each 250 ms; `at` says what is seen at which ms.
fn watch(until: u64, mut at: impl FnMut(u64) -> Look) -> (Track, Flow) {
    let mut track = Track::new(1, ms(0));
    let mut now = 0;
    while now <= until {
        track.look(ms(now), at(now), &Stability::default());
        now += EACH;
    }
    let flow = track.flow(Treatment::default()).expect("a flow with a round-trip time");
    (track, flow)
}

#[test]
fn goodput_is_what_was_acknowledged_also_when_the_counter_wraps() {
    let begin = u32::MAX - 100_000;
    let (_, flow) = watch(5000, |now| look(20, begin.wrapping_add(now as u32 * 125)));
    assert_eq!(flow.goodput_kbit, 1000);
}

#[test]
fn a_flow_is_hungry_when_it_has_wanted_more_for_a_while() {
    let wants_from = |from: u64, until: u64| {
        watch(until, |now| Look { wants: now >= from, ..look(20, now as u32) }).1.hungry
    };
    assert!(!wants_from(1000, 1500));
    assert!(wants_from(1000, 2000));
    let pauses = |now: u64| Look { wants: now % 2500 < 1250, ..look(20, now as u32) };
    assert!(watch(20_000, pauses).1.hungry);
    let stops = |now: u64| Look { wants: now < 5000, ..look(20, now as u32) };
    assert!(!watch(9000, stops).1.hungry);
}

#[test]
fn a_window_that_only_grows_is_steady() {
    let (_, flow) = watch(20_000, |now| look(10 + now as u32 / 100, now as u32));
    assert_eq!((flow.unsteady, flow.unstable), (0, false));
}

/// RFC 5681: half of the window at each loss, then one segment a round-trip time.
#[test]
fn the_sawtooth_of_reno_is_not_called_unstable() {
    let saw = |now: u64| {
        let cwnd = 40 + (now % 10_000) as u32 / 250;
        Look { ssthresh: Some(40 + now as u32 / 10_000), ..look(cwnd, now as u32) }
    };
    let (_, flow) = watch(60_000, saw);
    assert!((20..=30).contains(&flow.unsteady) && !flow.unstable, "{flow:?}");
}

/// DICOMO 2011, figure 9: timeouts though nothing is congested.
fn collapsing(now: u64) -> Look {
    let since = now % 6000;
    let cwnd = if since < 4000 { 2 + since as u32 / 256 } else { 50 };
    let ssthresh = Some(25 + (now / 6000) as u32 % 2);
    Look { ssthresh, gives_way: since < 1000, ..look(cwnd, now as u32) }
}

#[test]
fn a_window_that_collapses_again_and_again_is_unstable() {
    let (_, flow) = watch(30_000, collapsing);
    assert!(flow.unstable && flow.unsteady >= 40, "{flow:?}");
    assert!(flow.losses >= 2);
}

#[test]
fn an_unstable_window_is_called_so_until_it_has_been_steady_for_a_minute() {
    let heals = |now: u64| match now {
        0..30_000 => collapsing(now),
        _ => Look { ssthresh: Some(25), ..look(50, now as u32) },
    };
    assert!(watch(75_000, heals).1.unstable);
    assert!(!watch(110_000, heals).1.unstable);
}

#[test]
fn the_losses_of_the_first_slow_start_are_no_instability() {
    let overshoot = |now: u64| match now {
        0..2000 => look(10 << (now / 256), now as u32),
        2000..2500 => Look { ssthresh: Some(300), gives_way: true, ..look(600, now as u32) },
        _ => Look { ssthresh: Some(300), ..look(300, now as u32) },
    };
    let (_, flow) = watch(20_000, overshoot);
    assert!(!flow.unstable, "{flow:?}");
    assert!(flow.unsteady < 10, "{flow:?}");
}

/// Twice within 10 s a window of 66 falls by three tenths, as CUBIC's does (RFC 9438).
fn falls_twice(srtt_us: u32) -> Flow {
    let falls = |now: u64| {
        let ssthresh = match now {
            0..20_000 => None,
            20_000..24_000 => Some(46),
            _ => Some(32),
        };
        let cwnd = ssthresh.unwrap_or(66);
        Look { ssthresh, srtt_us, ..look(cwnd, now as u32) }
    };
    watch(25_000, falls).1
}

#[test]
fn losses_before_which_nothing_waited_are_the_airs_and_make_a_flow_unstable() {
    assert!(falls_twice(260_000).unstable);
}

#[test]
fn losses_of_a_full_queue_do_not() {
    let flow = falls_twice(400_000);
    assert!(!flow.unstable && flow.losses == 2, "{flow:?}");
}

#[test]
fn a_window_that_stood_still_lacks_what_its_first_loss_took() {
    let (_, flow) = watch(24_000, |now| match now {
        0..20_000 => look(66, now as u32),
        _ => Look { ssthresh: Some(33), ..look(33, now as u32) },
    });
    // Half of it, for four of the last ten seconds.
    assert!((17..=23).contains(&flow.unsteady), "{flow:?}");
}

#[test]
fn a_flow_that_moves_nothing_is_not_worth_a_word() {
    let idle = |now: u64| Look { wants: false, ..look(10, now.min(2000) as u32) };
    assert!(watch(3000, idle).0.is_active(ms(3000)));
    assert!(!watch(9000, idle).0.is_active(ms(9000)));
}

#[test]
fn memory_of_a_flow_is_bounded_however_often_one_looks() {
    let mut track = Track::new(1, ms(0));
    for n in 0..100_000u64 {
        let seen = Look { ssthresh: Some(n as u32 % 7 + 2), ..look(20, n as u32) };
        track.look(std::time::Duration::from_micros(n), seen, &Stability::default());
    }
    assert!(track.flow(Treatment::default()).unwrap().losses <= 200);
}

#[test]
fn the_air_is_the_best_mean_of_two_minutes_in_which_it_was_full() {
    let mut air = Air::default();
    let mut now = 0;
    let mut pass = |air: &mut Air, seconds: u64, kbit: u64, hungry: bool| {
        for _ in 0..seconds * 4 {
            air.look(ms(now), kbit, hungry);
            now += EACH;
        }
    };
    assert_eq!(air.best_kbit(), 0);
    pass(&mut air, 6, 20_000, true);
    assert_eq!(air.best_kbit(), 20_000);
    pass(&mut air, 60, 5_000, true);
    pass(&mut air, 15, 90_000, false);
    assert_eq!(air.best_kbit(), 20_000);
    // A fade: full for a moment.
    for _ in 0..3 {
        pass(&mut air, 2, 30_000, true);
        pass(&mut air, 3, 30_000, false);
    }
    assert_eq!(air.best_kbit(), 20_000);
    pass(&mut air, 40, 5_000, true);
    assert_eq!(air.best_kbit(), 5_000);
}

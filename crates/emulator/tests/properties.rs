//! What holds of the emulated network whatever is plugged into it and sent.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use transom_emulator::log::{DirectionLog, Totals};
use transom_emulator::plan::{
    Access, Air, Arrivals, Cross, Direction, Discipline, Fading, Handover, Isolate, Kind, Path,
    Plan, Port, Processor, Receive, SendingQueue, Side, Standard, Station, Trace,
};
use transom_emulator::{Delivery, Frame, Nanos, Network};

const BROADCAST: [u8; 6] = [0xff; 6];
/// After this nothing of what the tests send can still be inside.
const LONG_AFTER: Nanos = 60_000_000_000;
/// Up to ten stages round their delays to whole nanoseconds.
const ROUNDING_NS: f64 = 5.0;

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, port as u8]
}

/// A TCP segment, its sender as the port, that tells its number and when it was sent. One in three
/// is ECN-capable.
fn frame(from: usize, to: [u8; 6], number: u32, now: Nanos, length: usize) -> Frame {
    let mut bytes = vec![0; length.max(54)];
    bytes[..6].copy_from_slice(&to);
    bytes[12] = 8;
    bytes[14..16].copy_from_slice(&[0x45, u8::from(number.is_multiple_of(3))]);
    bytes[23] = 6;
    bytes[35] = from as u8;
    bytes[38..42].copy_from_slice(&number.to_be_bytes());
    bytes[42..50].copy_from_slice(&now.to_be_bytes());
    Frame::new(bytes)
}

fn number_of(delivery: &Delivery) -> u32 {
    u32::from_be_bytes(delivery.frame.bytes()[38..42].try_into().expect("four bytes"))
}

fn sent_at(delivery: &Delivery) -> Nanos {
    Nanos::from_be_bytes(delivery.frame.bytes()[42..50].try_into().expect("eight bytes"))
}

fn discipline() -> BoxedStrategy<Discipline> {
    let kind = prop::sample::select(vec![Kind::DropTail, Kind::Codel, Kind::FqCodel, Kind::Pie]);
    (kind, any::<bool>(), 0.5..20.0, 1..6_u32)
        .prop_map(|(kind, ecn, target, small)| {
            let mut asked = Discipline::of(kind);
            match kind {
                Kind::DropTail => asked.mark_packets = Some(small),
                _ => {
                    asked.ecn = Some(ecn);
                    asked.target_ms = Some(target);
                }
            }
            match kind {
                Kind::Pie => asked.update_ms = Some(target),
                Kind::Codel => asked.interval_ms = Some(4.0 * target),
                Kind::FqCodel => {
                    asked.queues = Some(small);
                    asked.isolate = (small > 3).then_some(Isolate::Source);
                }
                Kind::DropTail => {}
            }
            asked
        })
        .boxed()
}

fn direction(reorder: bool) -> BoxedStrategy<Direction> {
    (stage(reorder), prop_oneof![2 => Just(Vec::new()), 1 => vec(stage(reorder), 1..3)])
        .prop_map(|(first, stages)| Direction { stages, ..first })
        .boxed()
}

/// A rate, or several, or a recording; with the limits of its queue.
fn link() -> BoxedStrategy<Direction> {
    let rate = prop_oneof![
        6 => (0.5..50.0).prop_map(|mbit| Direction { rate_mbit: Some(mbit), ..Direction::default() }),
        1 => vec((0.001..0.1, prop_oneof![Just(0.0), 0.5..50.0]), 0..5).prop_map(|steps| {
            let mut at = 0.0;
            let mut rates = vec![(0.0, 5.0)];
            for (gap, mbit) in steps {
                at += gap;
                rates.push((at, mbit));
            }
            rates.push((at + 0.01, 2.0));
            Direction { rates, ..Direction::default() }
        }),
        1 => vec(0..20_u32, 1..20).prop_map(|mut ms| {
            ms.push(20);
            ms.sort_unstable();
            let trace = Some(Trace { ms, ..Trace::default() });
            Direction { trace, ..Direction::default() }
        }),
    ];
    let cross = (0.1..1.0, any::<bool>(), prop::option::of((1.0..50.0, 1.0..50.0))).prop_map(
        |(rate_mbit, constant, on_off)| Cross {
            rate_mbit,
            arrivals: if constant { Arrivals::Constant } else { Arrivals::Poisson },
            on_ms: on_off.map(|(on, _)| on),
            off_ms: on_off.map(|(_, off)| off),
            ..Cross::default()
        },
    );
    let limits = (prop::option::of(0..20_u32), prop::option::of(0..9_000_u64));
    let cross = prop::option::weighted(0.2, cross);
    (rate, limits, cross)
        .prop_map(|(rate, (queue_packets, queue_bytes), cross)| Direction {
            queue_packets,
            queue_bytes,
            cross: cross.filter(|_| queue_packets.is_some()),
            ..rate
        })
        .boxed()
}

fn stage(reorder: bool) -> BoxedStrategy<Direction> {
    let handover = (0.0..0.1, 0.0..50.0, any::<bool>(), prop::option::of(0.0..50.0)).prop_map(
        |(at_s, outage_ms, lose, delay_ms)| Handover {
            at_s,
            outage_ms,
            lose,
            delay_ms,
            ..Handover::default()
        },
    );
    (
        0.0..50.0,
        prop::option::of((link(), prop::option::of(discipline()))),
        prop_oneof![Just(0.0), 0.0..0.5],
        prop::option::of(1.0..5.0),
        prop_oneof![Just(0.0), 0.0..0.5],
        prop_oneof![Just(0.0), 0.0..0.5],
        prop::option::of((0.5..50.0, 1500..9_000_u64)),
        prop::option::weighted(0.2, handover),
    )
        .prop_map(move |(delay_ms, link, loss, loss_burst, duplicate, share, police, handover)| {
            let (link, discipline) = link.unwrap_or_default();
            Direction {
                delay_ms,
                police_mbit: police.map(|(mbit, _)| mbit),
                police_burst_bytes: police.map(|(_, burst)| burst),
                discipline,
                loss,
                loss_burst,
                duplicate,
                reorder: if reorder { share } else { 0.0 },
                reorder_ms: 5.0,
                handovers: handover.into_iter().filter(|_| link.trace.is_none()).collect(),
                ..link
            }
        })
        .boxed()
}

fn station() -> BoxedStrategy<Station> {
    let ht = (0..32_u32, prop::option::of(any::<bool>()));
    (
        (prop::sample::select(vec![6, 9, 12, 18, 24, 36, 48, 54]), prop::option::of(ht)),
        prop_oneof![1..20_u32, 60..90_u32],
        0.0..0.9,
        0.0..0.9,
        prop::option::of((1.0..500.0, 0.01..0.9, 0.0..1.0, 0.0..1.0)),
        prop::option::of((1.0..20.0, 0..10_u32)),
        prop::option::of(driver()),
    )
        .prop_map(|((mbit, ht), queue_packets, up, down, fading, receive, driver)| Station {
            phy_mbit: if ht.is_some() { 54 } else { mbit },
            mcs: ht.map(|(mcs, _)| mcs),
            short_gi: ht.and_then(|(_, short)| short),
            queue_packets,
            frame_errors_up: up,
            frame_errors_down: down,
            fading: fading.map(|(every_ms, share, errors_up, errors_down)| Fading {
                every_ms,
                lasts_ms: share * every_ms,
                errors_up,
                errors_down,
            }),
            // A processor says what receiving costs, too.
            receive: receive
                .filter(|_| driver.is_none_or(|(_, processor)| processor.is_none()))
                .map(|(rate_mbit, queue_packets)| Receive { rate_mbit, queue_packets }),
            sending_queue: driver.map(|(queue, _)| queue),
            processor: driver.and_then(|(_, processor)| processor),
        })
        .boxed()
}

/// An air of 802.11n.
fn aggregation() -> impl Strategy<Value = Air> {
    (
        prop::option::of(prop::sample::select(vec![20, 40])),
        prop::option::of(1..=64_u32),
        prop::option::of(1..=65_535_u32),
        prop::option::of(0.001..5.484),
    )
        .prop_map(|(channel_mhz, ampdu_packets, ampdu_bytes, ampdu_ms)| Air {
            standard: Standard::N,
            channel_mhz,
            ampdu_packets,
            ampdu_bytes,
            ampdu_ms,
            ..Air::default()
        })
}

fn driver() -> impl Strategy<Value = (SendingQueue, Option<Processor>)> {
    let queue = (1..12_u32, prop::option::of(1.0..20.0))
        .prop_map(|(packets, rate_mbit)| SendingQueue { packets, rate_mbit });
    let cost = || prop_oneof![Just(0.0), 1.0..2_000.0];
    let processor = (cost(), cost(), cost()).prop_map(|(send_us, transfer_us, receive_us)| {
        Processor { send_us, transfer_us, receive_us }
    });
    (queue, prop::option::of(processor))
}

/// Between this side and the far hosts.
fn path_of<'a>(plan: &'a Plan, side: &'a Side) -> Option<&'a Path> {
    match side {
        Side::Far => None,
        Side::Cellular(own) => Some(own),
        Side::Air(_) | Side::Near => Some(&plan.path),
    }
}

fn side(reorder: bool) -> BoxedStrategy<Side> {
    let cellular = (direction(reorder), direction(reorder), 0.0..5.0)
        .prop_map(|(up, down, rtt_ms)| Side::Cellular(Path { rtt_ms, up, down }));
    prop_oneof![
        3 => station().prop_map(Side::Air),
        1 => Just(Side::Near),
        2 => Just(Side::Far),
        1 => cellular,
    ]
    .boxed()
}

fn plan(reorder: bool) -> impl Strategy<Value = Plan> {
    let link = (direction(reorder), direction(reorder), 0.0..5.0)
        .prop_map(|(up, down, rtt_ms)| Path { rtt_ms, up, down });
    (
        any::<u64>(),
        direction(reorder),
        direction(reorder),
        vec((side(reorder), prop::option::of(link)), 2..6),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (1..20_u32, 1..8_u32),
        prop::option::of(aggregation()),
    )
        .prop_map(
            |(
                seed,
                up,
                down,
                sides,
                (round_robin, cts, long_slot),
                (queue, retries),
                aggregation,
            )| {
                let mut access_links = BTreeMap::new();
                let ports = sides.into_iter().enumerate().map(|(index, (mut side, link))| {
                    if let Side::Air(station) = &mut side
                        && aggregation.is_none()
                    {
                        (station.mcs, station.short_gi) = (None, None);
                    }
                    let name = format!("h{index}");
                    let wired = matches!(side, Side::Near | Side::Far);
                    access_links.extend(link.filter(|_| wired).map(|link| (name.clone(), link)));
                    Port { name, mac: mac(index), side }
                });
                let ports = ports.collect();
                let air = Air {
                    access: if round_robin { Access::RoundRobin } else { Access::Dcf },
                    cts_to_self: cts,
                    long_slot,
                    queue_packets: Some(queue),
                    retry_limit: Some(retries),
                    ..aggregation.unwrap_or_default()
                };
                Plan {
                    seed,
                    air: Some(air),
                    path: Path { rtt_ms: 3.0, up, down },
                    ports,
                    access_links,
                    ..Plan::default()
                }
            },
        )
}

/// Gap in µs, sender, receiver (beyond the ports: broadcast, or nobody), length.
type Sent = (u64, usize, usize, usize);

fn traffic() -> impl Strategy<Value = Vec<Sent>> {
    vec((0..2_000_u64, 0..6_usize, 0..8_usize, 0..1_600_usize), 1..200)
}

/// Sends all of it; `look` sees the network after each frame and at the end.
fn carry(plan: &Plan, traffic: &[Sent], mut look: impl FnMut(&Network)) -> (Totals, Vec<Delivery>) {
    let mut network = Network::new(plan).expect("the strategy makes valid plans");
    let mut out = Vec::new();
    let mut now = 0;
    for (number, (gap, from, to, length)) in traffic.iter().enumerate() {
        now += gap * 1_000;
        network.advance(now, &mut out);
        let from = from % plan.ports.len();
        let sent = match to {
            6 => frame(from, BROADCAST, number as u32, now, *length),
            7 if *length < 14 => Frame::new(vec![0; *length]),
            to => frame(from, mac(*to), number as u32, now, *length),
        };
        network.arrive(now, from, sent);
        look(&network);
    }
    network.advance(now + LONG_AFTER, &mut out);
    look(&network);
    (network.totals(), out)
}

/// The logs of all stages.
fn stages(network: &Network) -> Vec<DirectionLog> {
    let cellular = network.cellular();
    let own = cellular.iter().flat_map(|host| [host.up, host.down]);
    let further = network.stages().into_iter().map(|stage| stage.log);
    [network.up(), network.down()].into_iter().chain(own).chain(further).collect()
}

/// Of the elements between two ports, without queues.
fn delay_ms(plan: &Plan, from: usize, to: usize) -> f64 {
    let least = |stage: &Direction| {
        let after = stage.handovers.iter().filter_map(|handover| handover.delay_ms);
        after.fold(stage.delay_ms, f64::min)
    };
    let all = |direction: &Direction, half_rtt_ms: f64| {
        half_rtt_ms + least(direction) + direction.stages.iter().map(least).sum::<f64>()
    };
    let up = |path: &Path| all(&path.up, path.rtt_ms / 2.0);
    let down = |path: &Path| all(&path.down, path.rtt_ms / 2.0);
    let link = |port: usize| plan.access_links.get(&plan.ports[port].name);
    let sides = (&plan.ports[from].side, &plan.ports[to].side);
    let between = match (path_of(plan, sides.0), path_of(plan, sides.1)) {
        // Both at the access point.
        (Some(one), Some(other)) if std::ptr::eq(one, other) => 0.0,
        (first, second) => first.map_or(0.0, up) + second.map_or(0.0, down),
    };
    link(from).map_or(0.0, up) + between + link(to).map_or(0.0, down)
}

/// Whether packets of each host to each other one arrive in the order they were sent.
fn in_order(plan: &Plan, traffic: &[Sent], out: &[Delivery]) -> bool {
    // Group frames have a queue of their own at the access point.
    let unicast = out.iter().filter(|delivery| delivery.frame.bytes()[0] & 1 == 0);
    let mut last: BTreeMap<(usize, usize), u32> = BTreeMap::new();
    unicast.into_iter().all(|delivery| {
        let number = number_of(delivery);
        let from = traffic[number as usize].1 % plan.ports.len();
        let before = last.insert((from, delivery.port), number);
        before.is_none_or(|before| before <= number)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_packet_is_delivered_or_counted_where_it_was_dropped(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let (totals, out) = carry(&plan, &traffic, |_| ());
        prop_assert_eq!(totals.entered, traffic.len() as u64);
        prop_assert_eq!(totals.delivered, out.len() as u64);
        let gone = totals.delivered + totals.lost + totals.path_queue_drops
            + totals.aqm_drops + totals.outage_drops + totals.air_queue_drops + totals.retry_drops + totals.group_errors
            + totals.receive_drops + totals.sending_queue_drops + totals.malformed
            + totals.no_host;
        prop_assert_eq!(totals.entered + totals.copied + totals.duplicated, gone, "{:?}", totals);
    }

    #[test]
    fn a_driver_holds_what_its_queue_holds_and_the_radio_never_drops_what_it_hands_over(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        carry(&plan, &traffic, |network| {
            let stations = network.air().map_or(Vec::new(), |air| air.stations);
            let drivers = plan.ports.iter().filter_map(|port| match &port.side {
                Side::Air(station) => Some((&port.name, station.sending_queue)),
                _ => None,
            });
            for (log, (name, queue)) in stations.iter().zip(drivers) {
                let Some(queue) = queue else {
                    assert_eq!(log.sending_queue_drops, 0);
                    continue;
                };
                assert_eq!(log.queue_drops, 0, "{name}");
                let series = format!("{name} sending queue");
                let queues = network.queues();
                let held = queues.iter().filter(|one| one.name == series).flat_map(|one| &one.packets);
                assert!(held.max().is_none_or(|most| *most <= queue.packets), "{name}: {queue:?}");
            }
        });
    }

    #[test]
    fn what_reaches_a_host_is_in_the_order_of_time_and_never_early(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let (_, out) = carry(&plan, &traffic, |_| ());
        prop_assert!(out.windows(2).all(|pair| pair[0].at <= pair[1].at));
        for delivery in &out {
            let from = traffic[number_of(delivery) as usize].1 % plan.ports.len();
            let ms = delay_ms(&plan, from, delivery.port);
            prop_assert!(delivery.at as f64 >= sent_at(delivery) as f64 + ms * 1e6 - ROUNDING_NS);
        }
    }

    #[test]
    fn without_reordering_packets_of_one_host_to_another_keep_their_order(
        plan in plan(false).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let (_, out) = carry(&plan, &traffic, |_| ());
        prop_assert!(in_order(&plan, &traffic, &out));
    }

    #[test]
    fn every_stage_accounts_for_all_that_came_to_it_and_holds_nothing_back(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let mut logs = Vec::new();
        carry(&plan, &traffic, |network| logs = stages(network));
        for log in logs {
            let gone = log.passed + log.lost + log.outage_drops + log.queue_drops + log.aqm_drops;
            prop_assert_eq!(log.packets + log.duplicated, gone, "{:?}", log);
            prop_assert!(log.policed <= log.queue_drops);
        }
    }

    /// CoDel that never finds a standing queue is drop-tail, only that its packets wait for an
    /// event each: both ways to compute a queue must come to the same nanosecond.
    #[test]
    fn queues_with_events_and_without_serve_alike(
        mut up in stage(true),
        traffic in traffic(),
        seed in any::<u64>(),
    ) {
        let sides = [Side::Near, Side::Far];
        let ports = sides.into_iter().enumerate().map(|(index, side)| Port {
            name: format!("h{index}"),
            mac: mac(index),
            side,
        });
        let ports: Vec<Port> = ports.collect();
        let mut carried = |discipline: Option<Discipline>| {
            up.discipline = discipline.filter(|_| up.can_wait());
            up.queue_packets = up.queue_packets.filter(|_| up.can_wait()).or(Some(50).filter(|_| up.can_wait()));
            let path = Path { up: up.clone(), ..Path::default() };
            let plan = Plan { seed, path, ports: ports.clone(), ..Plan::default() };
            let mut log = Vec::new();
            let (totals, mut out) = carry(&plan, &traffic, |network| log = stages(network));
            out.sort_by_key(|delivery| (delivery.at, number_of(delivery)));
            (totals, out, log)
        };
        let never = Discipline {
            target_ms: Some(10_000.0),
            interval_ms: Some(60_000.0),
            ..Discipline::of(Kind::Codel)
        };
        prop_assert_eq!(carried(None), carried(Some(never)));
    }

    #[test]
    fn what_is_marked_is_ecn_capable_and_every_mark_is_counted(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let mut marks: u64 = 0;
        let (_, out) = carry(&plan, &traffic, |network| {
            marks = stages(network).iter().map(|log| log.marked).sum();
        });
        let marked: Vec<_> = out.iter().filter(|delivery| delivery.frame.is_marked()).collect();
        prop_assert!(marked.iter().all(|delivery| number_of(delivery).is_multiple_of(3)));
        prop_assert!(marks > 0 || marked.is_empty());
    }

    #[test]
    fn the_same_seed_repeats_a_run_to_the_nanosecond(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        prop_assert_eq!(carry(&plan, &traffic, |_| ()), carry(&plan, &traffic, |_| ()));
    }

    #[test]
    fn nothing_is_delivered_before_the_moment_that_was_announced(
        plan in plan(true).prop_filter("valid", |plan| plan.check().is_ok()),
        traffic in traffic(),
    ) {
        let mut announced: Vec<Nanos> = Vec::new();
        let (_, out) = carry(&plan, &traffic, |network| {
            announced.push(network.next_delivery().unwrap_or(Nanos::MAX));
        });
        // After the n-th frame came in, the next delivery was announced for announced[n].
        let mut now = 0;
        let times: Vec<Nanos> = traffic.iter().map(|sent| { now += sent.0 * 1_000; now }).collect();
        for (index, at) in times.iter().enumerate() {
            let until = times.get(index + 1).copied().unwrap_or(Nanos::MAX);
            let first = out.iter().find(|delivery| delivery.at >= *at && delivery.at < until);
            if let Some(first) = first {
                prop_assert!(first.at >= announced[index].min(until) || first.at == *at);
            }
        }
    }
}

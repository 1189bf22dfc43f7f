//! Queue disciplines, stages in a row, and links of hosts, in logical time.

#[allow(dead_code, reason = "the calibration uses the rest")]
mod logical;

use logical::{
    FULL, Kind, MS, Outcome, SECOND, Sender, advance, flow_of, jain, number_of, segment,
};
use transom_emulator::log::DirectionLog;
use transom_emulator::plan::{
    self, Arrivals, Cross, Direction, Discipline, Handover, Isolate, Path, Plan, Side, Trace,
};
use transom_emulator::{Frame, Nanos, Network};

/// 20 Mbit/s, 20 ms there and 20 back.
fn bottleneck(discipline: Option<Discipline>) -> Direction {
    Direction {
        delay_ms: 20.0,
        rate_mbit: Some(20.0),
        queue_packets: Some(1000),
        discipline,
        ..Direction::default()
    }
}

fn of(kind: plan::Kind) -> Option<Discipline> {
    Some(Discipline::of(kind))
}

fn with_ecn(kind: plan::Kind) -> Option<Discipline> {
    Some(Discipline { ecn: Some(true), ..Discipline::of(kind) })
}

fn wire(up: Direction) -> Network {
    let plan = logical::plan(Path { up, ..Path::default() }, vec![Side::Near, Side::Far]);
    Network::new(&plan).expect("a valid plan")
}

fn sender(kind: Kind) -> Sender {
    Sender { from: 0, to: 1, ecn: false, back: 20 * MS, kind }
}

/// 40 s over the bottleneck, of which the first 10 do not count; its own log is of all.
fn load(discipline: Option<Discipline>, senders: &[Sender]) -> (Vec<Outcome>, DirectionLog) {
    let mut network = wire(bottleneck(discipline));
    let outcomes = logical::run(&mut network, senders, 10 * SECOND, 40 * SECOND);
    (outcomes, network.up())
}

fn mbit(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|one| one.bytes).sum::<u64>() as f64 * 8.0 / 30e6
}

/// How long a packet waits: without the way of 20 ms and its own transmission of 0.6.
fn waits_ms(outcome: &Outcome) -> f64 {
    outcome.mean_delay_ms() - 20.6
}

#[test]
fn codel_holds_the_queue_of_cubic_near_its_target_at_the_full_rate() {
    let (outcomes, _) = load(of(plan::Kind::Codel), &[sender(Kind::Cubic)]);
    assert!(waits_ms(&outcomes[0]) < 10.0, "{}", waits_ms(&outcomes[0]));
    assert!(mbit(&outcomes) > 18.5, "{}", mbit(&outcomes));
    // The control.
    let (outcomes, _) = load(None, &[sender(Kind::Cubic)]);
    assert!(waits_ms(&outcomes[0]) > 200.0, "a drop-tail queue fills: {}", waits_ms(&outcomes[0]));
}

#[test]
fn pie_holds_the_mean_wait_near_15_milliseconds() {
    let senders = [sender(Kind::Cubic); 10];
    let (outcomes, log) = load(of(plan::Kind::Pie), &senders);
    let mean = outcomes.iter().map(waits_ms).sum::<f64>() / 10.0;
    assert!((10.0..20.0).contains(&mean), "{mean}");
    assert!(mbit(&outcomes) > 19.0 && log.aqm_drops > 0 && log.queue_drops == 0, "{log:?}");
    // The control: another target, another wait.
    let slack = Discipline { target_ms: Some(60.0), ..Discipline::of(plan::Kind::Pie) };
    let (outcomes, _) = load(Some(slack), &senders);
    let mean = outcomes.iter().map(waits_ms).sum::<f64>() / 10.0;
    assert!((45.0..75.0).contains(&mean), "{mean}");
}

#[test]
fn marks_take_the_place_of_drops_for_flows_that_understand_them() {
    for kind in [plan::Kind::Codel, plan::Kind::FqCodel, plan::Kind::Pie] {
        let capable = Sender { ecn: true, ..sender(Kind::Cubic) };
        let (outcomes, log) = load(with_ecn(kind), &[capable]);
        assert!(log.marked > 0, "{kind:?}: {log:?}");
        // PIE drops while its probability is above a tenth: here, when slow start overshoots.
        assert!(log.aqm_drops == 0 || kind == plan::Kind::Pie, "{kind:?}: {log:?}");
        assert!(outcomes[0].marks > 0, "they reach the receiver");
        assert!(mbit(&outcomes) > 18.0, "{kind:?}");
        let (_, log) = load(with_ecn(kind), &[sender(Kind::Cubic)]);
        assert!(log.marked == 0 && log.aqm_drops > 0, "the control, {kind:?}: {log:?}");
    }
}

#[test]
fn flows_of_fq_codel_share_evenly_whatever_their_algorithm_and_round_trip() {
    let near = Sender { back: 2 * MS, ..sender(Kind::Cubic) };
    let far = Sender { back: 180 * MS, ..sender(Kind::Cubic) };
    let deaf = sender(Kind::Constant(1_000));
    let (outcomes, _) = load(of(plan::Kind::FqCodel), &[near, far, deaf]);
    assert!(jain(&outcomes) > 0.97, "{}", jain(&outcomes));
    // The control: 12 of 20 Mbit/s are the flow's that does not listen.
    let (outcomes, _) = load(of(plan::Kind::Codel), &[near, far, deaf]);
    assert!(jain(&outcomes) < 0.8, "{}", jain(&outcomes));
}

#[test]
fn a_sparse_flow_waits_for_hardly_more_than_the_packet_being_sent() {
    let sparse = sender(Kind::Sparse(20 * MS));
    let load_with = |kind| load(of(kind), &[sparse, sender(Kind::Cubic), sender(Kind::Cubic)]).0;
    let waits = |outcomes: &[Outcome]| outcomes[0].mean_delay_ms() - 20.04;
    let fair = load_with(plan::Kind::FqCodel);
    assert!(waits(&fair) < 0.7, "a packet takes 0.6 ms: {}", waits(&fair));
    assert_eq!(fair[0].packets, 1500, "none was dropped");
    let one_queue = load_with(plan::Kind::Codel);
    assert!(waits(&one_queue) > 2.0, "the control: {}", waits(&one_queue));
}

#[test]
fn hosts_share_evenly_whatever_the_number_of_their_flows_if_they_are_isolated() {
    let from = |host| Sender { from: host, to: 2, ..sender(Kind::Cubic) };
    let mut senders = vec![from(0)];
    senders.extend([from(1); 9]);
    let share_of_first = |isolate| {
        let asked = Discipline { isolate, ..Discipline::of(plan::Kind::FqCodel) };
        let path = Path { up: bottleneck(Some(asked)), ..Path::default() };
        let sides = vec![Side::Near, Side::Near, Side::Far];
        let mut network = Network::new(&logical::plan(path, sides)).expect("a valid plan");
        let outcomes = logical::run(&mut network, &senders, 10 * SECOND, 40 * SECOND);
        outcomes[0].bytes as f64 * 8.0 / 30e6 / mbit(&outcomes)
    };
    let isolated = share_of_first(Some(Isolate::Source));
    assert!((0.46..0.54).contains(&isolated), "{isolated}");
    // The control, and another: all flows have the same destination.
    for isolate in [None, Some(Isolate::Destination)] {
        let share = share_of_first(isolate);
        assert!((0.08..0.12).contains(&share), "{isolate:?}: {share}");
    }
}

#[test]
fn what_a_link_adds_to_each_packet_takes_its_time() {
    let asked = Discipline { overhead_bytes: Some(500), ..Discipline::of(plan::Kind::FqCodel) };
    let up = Direction { rate_mbit: Some(16.0), discipline: Some(asked), ..Direction::default() };
    assert_eq!(arrivals(up), [MS, 2 * MS, 3 * MS]);
}

#[test]
fn packets_that_find_k_waiting_are_marked_and_only_those() {
    let discipline =
        Some(Discipline { mark_packets: Some(3), ..Discipline::of(plan::Kind::DropTail) });
    let up = Direction {
        rate_mbit: Some(12.0),
        queue_packets: Some(6),
        discipline,
        ..Direction::default()
    };
    let mut network = wire(up);
    for number in 0..10 {
        network.arrive(0, 0, segment(0, 1, 0, number != 5, number, FULL));
    }
    let out = advance(&mut network, SECOND);
    let marks: Vec<bool> = out.iter().map(|delivery| delivery.frame.is_marked()).collect();
    // One is being sent, three wait; of the next three one does not understand marks.
    assert_eq!(marks, [false, false, false, false, true, false, true]);
    let log = network.up();
    assert_eq!((log.marked, log.queue_drops, log.passed), (2, 3, 7));
}

#[test]
fn dctcp_keeps_the_queue_at_k_and_the_link_busy() {
    // RFC 8257, section 4.1.2 recommends K > rate times round trip over 7: 9.5 packets here.
    let at = |k| {
        let discipline =
            Discipline { mark_packets: Some(k), ..Discipline::of(plan::Kind::DropTail) };
        let dctcp = Sender { ecn: true, ..sender(Kind::Dctcp) };
        load(Some(discipline), &[dctcp])
    };
    let (outcomes, log) = at(20);
    let packets = waits_ms(&outcomes[0]) / 0.6;
    assert!((10.0..25.0).contains(&packets), "{packets}");
    assert!(mbit(&outcomes) > 19.5 && log.queue_drops == 0, "{} {log:?}", mbit(&outcomes));
    let (outcomes, _) = at(60);
    let packets = waits_ms(&outcomes[0]) / 0.6;
    assert!((45.0..65.0).contains(&packets), "the control, another K: {packets}");
}

#[test]
fn how_long_packets_waited_is_in_the_log() {
    let mut network = wire(Direction { delay_ms: 0.0, ..bottleneck(of(plan::Kind::Codel)) });
    // 0.6 ms each: they wait 0, 0.6, … 5.4 ms.
    (0..10).for_each(|number| network.arrive(0, 0, segment(0, 1, 0, false, number, FULL)));
    advance(&mut network, SECOND);
    let delay = network.up().queue_delay;
    assert_eq!(delay.packets, 10);
    assert!((delay.mean_ms - 2.7).abs() < 1e-9 && (delay.max_ms - 5.4).abs() < 1e-9, "{delay:?}");
    assert!((delay.p50_ms - 2.4).abs() < 0.1, "{delay:?}");
}

#[test]
fn a_lone_packet_passes_a_discipline_as_it_passes_drop_tail() {
    for kind in [plan::Kind::DropTail, plan::Kind::Codel, plan::Kind::FqCodel, plan::Kind::Pie] {
        let mut network = wire(bottleneck(of(kind)));
        network.arrive(5 * MS, 0, segment(0, 1, 0, false, 0, FULL));
        assert_eq!(advance(&mut network, SECOND)[0].at, 25 * MS + 600_000);
    }
}

#[test]
fn what_is_no_ip_packet_passes_a_discipline_too() {
    let mut network = wire(bottleneck(with_ecn(plan::Kind::FqCodel)));
    let mut arp = vec![0; 42];
    arp[..6].copy_from_slice(&logical::mac(1));
    arp[12..14].copy_from_slice(&[8, 6]);
    network.arrive(0, 0, Frame::new(arp));
    assert_eq!(advance(&mut network, SECOND).len(), 1);
}

/// When each of three packets sent at once arrives.
fn arrivals(up: Direction) -> Vec<Nanos> {
    let mut network = wire(up);
    (0..3).for_each(|number| network.arrive(0, 0, segment(0, 1, 0, false, number, FULL)));
    advance(&mut network, 10 * SECOND).iter().map(|delivery| delivery.at).collect()
}

#[test]
fn stages_follow_one_another_and_the_slowest_spaces_the_packets() {
    let stage = |rate_mbit, delay_ms| Direction {
        rate_mbit: Some(rate_mbit),
        delay_ms,
        ..Direction::default()
    };
    // 1, 4 and 2 ms a packet.
    let up = Direction { stages: vec![stage(3.0, 10.0), stage(6.0, 0.0)], ..stage(12.0, 5.0) };
    let first = (1 + 5 + 4 + 10 + 2) * MS;
    assert_eq!(arrivals(up.clone()), [first, first + 4 * MS, first + 8 * MS]);
    // The same with queues that decide when they send.
    let codel = |mut stage: Direction| {
        stage.discipline = of(plan::Kind::Codel);
        stage
    };
    let managed = Direction { stages: up.stages.iter().cloned().map(codel).collect(), ..codel(up) };
    assert_eq!(arrivals(managed), [first, first + 4 * MS, first + 8 * MS]);
}

#[test]
fn each_stage_has_its_own_chance_and_its_own_log() {
    let stage = Direction { loss: 0.5, ..Direction::default() };
    let mut network = wire(Direction { stages: vec![stage.clone()], ..stage });
    (0..10_000).for_each(|number| network.arrive(0, 0, segment(0, 1, 0, false, number, FULL)));
    let passed = advance(&mut network, SECOND).len();
    assert!((2_350..2_650).contains(&passed), "a half of a half: {passed}");
    let second = &network.stages()[0];
    assert_eq!(second.name, "path up stage 2");
    assert_eq!(second.log.packets, network.up().passed);
    assert_eq!(network.totals().lost, 10_000 - passed as u64);
}

#[test]
fn packets_are_sent_at_the_rate_of_the_moment() {
    let up = Direction { rates: vec![(0.0, 12.0), (0.0015, 3.0)], ..Direction::default() };
    assert_eq!(arrivals(up.clone()), [MS, 3 * MS + MS / 2, 7 * MS + MS / 2], "the second at both");
    let codel = Direction { discipline: of(plan::Kind::Codel), ..up };
    assert_eq!(arrivals(codel), [MS, 3 * MS + MS / 2, 7 * MS + MS / 2]);
}

#[test]
fn a_recorded_link_sends_at_its_opportunities() {
    let trace = Some(Trace { ms: vec![2, 2, 9, 20], ..Trace::default() });
    let up = Direction { trace, delay_ms: 1.0, ..Direction::default() };
    assert_eq!(arrivals(up.clone()), [3 * MS, 3 * MS, 10 * MS]);
    // 4 opportunities of 1504 bytes in 20 ms are 2.4 Mbit/s; full packets leave 4 bytes of each.
    for discipline in [None, of(plan::Kind::FqCodel)] {
        let up = Direction { discipline, queue_packets: Some(50), ..up.clone() };
        let mut network = wire(up);
        let flood = Sender { back: 0, ..sender(Kind::Constant(500)) };
        let outcomes = logical::run(&mut network, &[flood], 10 * SECOND, 40 * SECOND);
        assert!((mbit(&outcomes) / 2.4064 - 1.0).abs() < 0.01, "{}", mbit(&outcomes));
    }
}

/// Numbers and times in ms of packets sent each millisecond from 995 ms to 1014.
fn over_a_handover(handover: Handover) -> Vec<(u64, f64)> {
    let up = Direction { delay_ms: 20.0, handovers: vec![handover], ..Direction::default() };
    let mut network = wire(up);
    let mut out = Vec::new();
    for number in 0..20 {
        let now = (995 + number) * MS;
        network.advance(now, &mut out);
        network.arrive(now, 0, segment(0, 1, 0, false, number, FULL));
    }
    network.advance(10 * SECOND, &mut out);
    out.iter().map(|delivery| (number_of(delivery), delivery.at as f64 / MS as f64)).collect()
}

#[test]
fn what_comes_during_a_handover_waits_or_is_lost() {
    let handover = Handover { at_s: 1.0, outage_ms: 10.0, ..Handover::default() };
    let waited = over_a_handover(handover);
    assert_eq!(waited.len(), 20);
    assert!(waited[5..15].iter().all(|(_, at)| *at == 1030.0), "all at its end: {waited:?}");
    assert_eq!((waited[4].1, waited[16].1), (1019.0, 1031.0));
    let lost = over_a_handover(Handover { lose: true, ..handover });
    assert_eq!(
        lost.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 15, 16, 17, 18, 19]
    );
}

#[test]
fn after_a_handover_to_a_shorter_way_packets_keep_their_order() {
    let handover =
        Handover { at_s: 1.0, outage_ms: 2.0, delay_ms: Some(5.0), ..Handover::default() };
    let out = over_a_handover(handover);
    assert!(out.windows(2).all(|pair| pair[0].0 < pair[1].0), "{out:?}");
    assert_eq!((out[4].1, out[7].1), (1019.0, 1019.0), "held by one that took the longer way");
    assert_eq!(out[19].1, 1019.0);
    let longer = over_a_handover(Handover { delay_ms: Some(40.0), ..handover });
    assert_eq!(longer[19].1, 1054.0);
}

#[test]
fn delays_change_when_they_are_told_to() {
    let mut network =
        wire(Direction { delays: vec![(0.0, 10.0), (1.0, 30.0)], ..Direction::default() });
    network.arrive(0, 0, segment(0, 1, 0, false, 0, FULL));
    let mut out = advance(&mut network, SECOND);
    network.arrive(SECOND, 0, segment(0, 1, 0, false, 1, FULL));
    out.extend(advance(&mut network, 2 * SECOND));
    assert_eq!(out.iter().map(|delivery| delivery.at).collect::<Vec<_>>(), [10 * MS, 1030 * MS]);
}

/// Mean wait of a packet of 100 bytes each 37 ms beside cross traffic, in transmissions of its
/// packets.
fn wait_beside(cross: Cross, discipline: Option<Discipline>) -> f64 {
    let up = Direction {
        rate_mbit: Some(12.0),
        queue_packets: Some(1000),
        cross: Some(cross),
        discipline,
        ..Direction::default()
    };
    let mut network = wire(up);
    let probe = Sender { back: 0, ..sender(Kind::Sparse(37 * MS)) };
    let outcomes = logical::run(&mut network, &[probe], 0, 1_000 * SECOND);
    outcomes[0].mean_delay_ms() - 100.0 * 8.0 / 12e3
}

#[test]
fn packets_wait_for_poisson_traffic_as_long_as_queueing_theory_says() {
    // Pollaczek and Khinchine: of an M/D/1 queue the mean wait is rho / (2 (1 - rho)) services. A
    // packet of 1500 bytes takes 1 ms.
    let never = Discipline { target_ms: Some(10_000.0), ..Discipline::of(plan::Kind::Codel) };
    for rho in [0.5, 0.8] {
        let cross = Cross { rate_mbit: rho * 12.0, ..Cross::default() };
        let theory = rho / (2.0 * (1.0 - rho));
        for discipline in [None, Some(never.clone())] {
            let wait = wait_beside(cross, discipline);
            assert!((wait / theory - 1.0).abs() < 0.05, "{wait} of {theory}");
        }
    }
    // The control: at a constant pace they meet only the packet being sent.
    let constant = Cross { rate_mbit: 9.6, arrivals: Arrivals::Constant, ..Cross::default() };
    assert!(wait_beside(constant, None) < 0.5, "{}", wait_beside(constant, None));
}

#[test]
fn cross_traffic_takes_its_share_and_reaches_nobody() {
    let cross = Some(Cross { rate_mbit: 15.0, ..Cross::default() });
    // Where all wait in one queue, who comes evenly finds room more often than who comes in bursts.
    for (kind, share) in [(plan::Kind::FqCodel, 9.8..10.2), (plan::Kind::DropTail, 11.0..14.0)] {
        let mut network =
            wire(Direction { cross, queue_packets: Some(100), ..bottleneck(of(kind)) });
        let flood = sender(Kind::Constant(1_250));
        let outcomes = logical::run(&mut network, &[flood], 10 * SECOND, 40 * SECOND);
        assert!(share.contains(&mbit(&outcomes)), "{kind:?}: {}", mbit(&outcomes));
        let log = network.up();
        let sent = (log.cross.packets - log.cross.dropped) * 1500 + log.passed_bytes;
        assert!((sent as f64 * 8.0 / 40e6 / 20.0 - 1.0).abs() < 0.01, "the link is full: {log:?}");
        let on_their_way = log.passed - network.totals().delivered;
        assert!(on_their_way < 150, "what is delivered is the flow's: {on_their_way}");
    }
}

/// Two hosts with links of 10 and 4 Mbit/s before a path of 6, and one beyond it with a link of
/// its own, 5 ms long.
fn tree() -> Network {
    let rate =
        |mbit| Direction { rate_mbit: Some(mbit), queue_packets: Some(10), ..Direction::default() };
    let mut plan: Plan = logical::plan(
        Path { up: rate(6.0), ..Path::default() },
        vec![Side::Near, Side::Near, Side::Far],
    );
    for (host, mbit) in [("h0", 10.0), ("h1", 4.0)] {
        plan.access_links.insert(host.to_owned(), Path { up: rate(mbit), ..Path::default() });
    }
    plan.access_links.insert("h2".to_owned(), Path { rtt_ms: 10.0, ..Path::default() });
    Network::new(&plan).expect("a valid plan")
}

#[test]
fn the_links_of_hosts_lead_into_one_path() {
    let mut network = tree();
    network.arrive(0, 0, segment(0, 2, 0, false, 0, FULL));
    let out = advance(&mut network, SECOND);
    assert_eq!(out[0].at, (1_200 + 2_000 + 5_000) * 1_000, "10 Mbit/s, 6 Mbit/s, 5 ms");
    let mut network = tree();
    let flood = |from| Sender { from, to: 2, ecn: false, back: 0, kind: Kind::Constant(1_000) };
    let outcomes = logical::run(&mut network, &[flood(0), flood(1)], SECOND, 31 * SECOND);
    let logs = network.stages();
    let log = |name: &str| &logs.iter().find(|stage| stage.name == name).expect(name).log;
    let through = |name: &str| log(name).passed_bytes as f64 * 8.0 / 31e6;
    assert!((through("h0 link up") / 10.0 - 1.0).abs() < 0.01, "{}", through("h0 link up"));
    assert!((through("h1 link up") / 4.0 - 1.0).abs() < 0.01);
    assert!((mbit(&outcomes) / 6.0 - 1.0).abs() < 0.01, "{}", mbit(&outcomes));
    assert!(log("h0 link up").queue_drops > 0 && network.up().queue_drops > 0);
}

#[test]
fn hosts_on_one_side_meet_their_links_and_not_the_path() {
    let mut network = tree();
    network.arrive(0, 0, segment(0, 1, 0, false, 0, FULL));
    let out = advance(&mut network, SECOND);
    assert_eq!(out[0].at, 1_200_000, "the link down to the other has no rate");
    assert_eq!(network.up().packets, 0);
}

#[test]
fn a_broadcast_passes_the_link_of_each_host() {
    let mut network = tree();
    let mut frame = segment(0, 1, 0, false, 7, 64).bytes().to_vec();
    frame[..6].fill(0xff);
    network.arrive(0, 0, Frame::new(frame));
    let out = advance(&mut network, SECOND);
    assert_eq!(out.iter().map(|delivery| delivery.port).collect::<Vec<_>>(), [1, 2]);
    assert!(out.iter().all(|delivery| number_of(delivery) == 7 && flow_of(delivery) == 0));
}

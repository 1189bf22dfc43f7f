//! What hosts, links and programs do in virtual time.

mod bed;

use std::fs;

use bed::{bytes, checked, flow, host, run, scenario, seconds};
use transom_emulator::plan::{self, Direction, Discipline, Path, Port, Side};
use transom_event::Kind;
use transom_event::fields::{acked_bytes, sent};
use transom_scenario::{Flow, Greeting, Host, Outcome, Protocol, Traffic, trace_file};

#[test]
fn the_same_scenario_gives_the_same_bytes_and_another_seed_others() {
    let mut lossy = scenario(10.0, 30.0, seconds(5.0));
    lossy.links.path.up.loss = 0.01;
    for algorithm in ["cubic", "bbr", "steady"] {
        flow(&mut lossy).sender.congestion = Some(algorithm.to_owned());
        lossy.seed = 1;
        let (first, again) = (run(&lossy), run(&lossy));
        lossy.seed = 2;
        let other = run(&lossy);
        for name in [&trace_file("a"), &trace_file("b"), "emulator.json"] {
            let of = |ran: &bed::Ran| fs::read(ran.path(name)).unwrap();
            assert!(of(&first) == of(&again), "{algorithm}: {name} differs");
            assert!(of(&first) != of(&other), "{algorithm}: {name} does not depend on the seed");
        }
        // All but the time that it took.
        let of = |ran: &bed::Ran| Outcome { wall_s: 0.0, cpu_s: 0.0, ..ran.outcome() };
        assert_eq!(of(&first), of(&again));
    }
}

#[test]
fn a_bulk_flow_fills_the_bottleneck_and_no_more() {
    let ran = run(&scenario(20.0, 64.0, seconds(20.0)));
    // 1448 of each 1500 bytes from the IP header on are payload.
    let most = 20.0 * 1448.0 / 1500.0;
    let goodput = ran.flow().goodput_mbit().unwrap();
    assert!((0.97 * most..=most).contains(&goodput), "{goodput} of {most}");
}

#[test]
fn every_byte_arrives_once_whatever_the_path_does() {
    let mut hostile = scenario(10.0, 20.0, bytes(3_000_000));
    let up = &mut hostile.links.path.up;
    (up.loss, up.duplicate, up.reorder, up.reorder_ms) = (0.02, 0.02, 0.05, 15.0);
    hostile.links.path.down.loss = 0.02;
    let ran = run(&hostile);
    assert_eq!(ran.flow().received, 3_000_000);
    assert_eq!(ran.flow().per_second.iter().sum::<u64>(), 3_000_000);
    let up = ran.links().up;
    assert!(up.lost > 20 && up.duplicated > 20 && up.reordered > 50, "{up:?}");
    assert_eq!(up.packets + up.duplicated, up.passed + up.lost + up.queue_drops);
    assert!(ran.count("a", Kind::Retransmit) as u64 >= up.lost - 2, "losses are retransmitted");
}

#[test]
fn data_segments_and_retransmissions_are_counted_whether_a_flow_ends_or_is_cut_off() {
    for most_seconds in [60.0, 5.0] {
        let mut lossy = scenario(10.0, 20.0, seconds(8.0));
        lossy.links.path.up.loss = 0.02;
        lossy.most_seconds = most_seconds;
        let ran = run(&lossy);
        let (flow, up) = (ran.flow(), ran.links().up);
        // The handshake, its end, and ACKs without data are packets, too.
        assert!((up.packets - 10..=up.packets).contains(&flow.segments), "{flow:?}, {up:?}");
        let (gone, again) = (up.lost + up.queue_drops, flow.retransmitted);
        assert!((gone.saturating_sub(50)..=gone + 50).contains(&again), "{again} for {gone}");
        assert!(flow.retransmitted_share().is_some_and(|it| (0.01..0.05).contains(&it)));
    }
}

#[test]
fn a_short_transfer_takes_the_round_trips_that_its_initial_window_needs() {
    // Without a bottleneck: handshake, then windows of N, 2N, … segments.
    let took = |window| {
        let mut short = scenario(1000.0, 100.0, bytes(30 * 1448));
        host(&mut short, "a").route.initcwnd = Some(window);
        let transfer = run(&short).flow().transfers[0];
        transfer.ended_s.unwrap() - transfer.began_s
    };
    for (window, round_trips) in [(30, 0.5), (10, 1.5), (3, 3.5)] {
        let took = took(window);
        assert!((took / 0.1 - round_trips).abs() < 0.05, "initcwnd {window}: {took} s");
    }
}

#[test]
fn a_cap_of_the_route_holds_the_window() {
    let most = |cap| {
        let mut capped = scenario(50.0, 50.0, seconds(5.0));
        host(&mut capped, "a").route.cwnd = cap;
        let events = run(&capped).events("a");
        events.iter().filter_map(|event| Some(event.state()?.cwnd)).max().unwrap()
    };
    assert_eq!(most(Some(20)), 20);
    assert!(most(None) > 100, "the control: without a cap the window grows");
}

#[test]
fn segments_that_a_receiver_joins_cost_it_more_than_their_bytes() {
    // A policer lets a window through at one moment: all of it is joined. A kernel that takes such
    // segments for nothing offers no window, and divides by it (`tcp_rcv_space_adjust`).
    let windows = |gro: bool| -> Vec<u32> {
        let offered = [20_000, 46_868, 129_607].map(|burst| {
            let mut policed = scenario(8.7, 2.9, seconds(0.3));
            policed.seed = 42;
            policed.links.path.up = Direction {
                police_mbit: Some(8.7),
                police_burst_bytes: Some(burst),
                ..Direction::default()
            };
            host(&mut policed, "a").route.initcwnd = Some(20);
            host(&mut policed, "b").gro = gro;
            flow(&mut policed).sender.congestion = Some("reno".to_owned());
            let ran = run(&policed);
            assert_eq!(ran.output.status.code(), Some(0), "{:?}", ran.output);
            let events = ran.events("a");
            events.iter().filter_map(|event| Some(event.state()?.snd_wnd)).max().unwrap()
        });
        offered.to_vec()
    };
    for (joined, single) in windows(true).into_iter().zip(windows(false)) {
        assert!(joined > single / 2, "{joined} bytes are offered, {single} without GRO");
    }
}

#[test]
fn each_host_has_sysctls_of_its_own() {
    let mut of_a = scenario(10.0, 20.0, seconds(2.0));
    host(&mut of_a, "a").sysctl.insert("ipv4.tcp_congestion_control".into(), "reno".into());
    let ran = run(&of_a);
    let algorithm = |host: &str| {
        let events = ran.events(host);
        let open = events.iter().find_map(|event| event.open().copied()).unwrap();
        let name: Vec<u8> = open.algorithm.into_iter().take_while(|byte| *byte != 0).collect();
        String::from_utf8(name).unwrap()
    };
    assert_eq!((algorithm("a"), algorithm("b")), ("reno".to_owned(), "cubic".to_owned()));
}

#[test]
fn a_device_slower_than_its_sender_refuses_and_tcp_learns_of_it() {
    let refused = |device_mbit| {
        let mut slow = scenario(100.0, 4.0, seconds(5.0));
        let a = host(&mut slow, "a");
        (a.device_mbit, a.queue_packets, a.gso_max_segs) = (device_mbit, 4, 1);
        a.sysctl.insert("ipv4.tcp_pacing_ss_ratio".into(), "1000".into());
        a.sysctl.insert("ipv4.tcp_pacing_ca_ratio".into(), "1000".into());
        let ran = run(&slow);
        let goodput = ran.flow().goodput_mbit().unwrap();
        (ran.count("a", Kind::LocalCongestion), goodput)
    };
    let (events, goodput) = refused(Some(8.0));
    assert!(events > 0);
    assert!((7.0..8.0).contains(&goodput), "{goodput}");
    assert_eq!(refused(None).0, 0, "the control: a device that takes all");
}

#[test]
fn marks_of_a_queue_reduce_the_window_as_drops_would() {
    let mean_wait = |ecn: &str| {
        let mut marked = scenario(20.0, 40.0, seconds(20.0));
        let codel = Discipline { ecn: Some(true), ..Discipline::of(plan::Kind::Codel) };
        marked.links.path.up.discipline = Some(codel);
        for name in ["a", "b"] {
            host(&mut marked, name).sysctl.insert("ipv4.tcp_ecn".into(), ecn.into());
        }
        let ran = run(&marked);
        let up = ran.links().up;
        (up.marked, up.aqm_drops, up.queue_delay.mean_ms, ran.flow().goodput_mbit().unwrap())
    };
    let (marked, dropped, wait, goodput) = mean_wait("1");
    assert!(marked > 10 && dropped == 0, "{marked} marked, {dropped} dropped");
    assert!(wait < 8.0 && goodput > 17.0, "a wait of {wait} ms at {goodput} Mbit/s");
    let (marked, dropped, ..) = mean_wait("0");
    assert!(marked == 0 && dropped > 10, "the control, without ECN: {marked} and {dropped}");
}

#[test]
fn requests_take_a_round_trip_and_wait_between_them() {
    let traffic = Traffic::Requests { request: 100, response: 1000, think_s: 0.5, count: 5 };
    let ran = run(&scenario(1000.0, 40.0, traffic));
    let transfers = ran.flow().transfers;
    assert_eq!(transfers.len(), 5);
    assert_eq!(ran.flow().received, 5000);
    for transfer in &transfers[1..] {
        let took = transfer.ended_s.unwrap() - transfer.began_s;
        assert!((took - 0.040).abs() < 0.001, "{took} s");
    }
    let first = transfers[0].ended_s.unwrap() - transfers[0].began_s;
    assert!((first - 0.080).abs() < 0.001, "the first waits for the handshake: {first} s");
    let gap = transfers[2].began_s - transfers[1].ended_s.unwrap();
    assert!((gap - 0.5).abs() < 1e-6, "{gap} s");
}

#[test]
fn a_send_that_waits_is_finished_after_the_time_of_its_flow_but_not_after_its_own() {
    let sent = |timeout| {
        let mut waiting = scenario(1.0, 10.0, seconds(0.1));
        flow(&mut waiting).send_timeout_s = timeout;
        run(&waiting).flow().received
    };
    let (none, long, short) = (sent(None), sent(Some(10.0)), sent(Some(0.3)));
    assert_eq!(long % (128 << 10), 0, "whole writes");
    assert!(none < short && short < long, "{none}, {short}, {long}");
}

#[test]
fn a_greeting_is_a_segment_of_its_own_and_its_answer_makes_the_receiver_delay_acks() {
    let acks = |greeting| {
        let mut short = scenario(8.0, 20.0, seconds(1.0));
        host(&mut short, "a").gso_max_segs = 1;
        flow(&mut short).greeting = greeting;
        let ran = run(&short);
        let events = ran.events("a");
        let first =
            events.iter().find(|event| event.kind == Kind::Send).map(|event| sent(event.aux).0);
        let early = events.iter().filter(|event| event.kind == Kind::Ack).take(20);
        let whole = early.filter(|event| acked_bytes(event.aux) >= 2 * 1448).count();
        assert!(ran.flow().transfers[0].ended_s.is_some(), "it closes");
        (first, whole)
    };
    let (first, delayed) = acks(Some(Greeting { bytes: 60, answer: 28 }));
    assert_eq!(first, Some(60));
    assert!(delayed > 10, "{delayed} of 20 ACKs are of two segments");
    let (first, delayed) = acks(None);
    assert_eq!(first, Some(1448));
    assert!(delayed < 5, "the control: {delayed} of the first 20 ACKs are of two segments");
}

#[test]
fn writes_happen_when_the_program_made_them() {
    let traffic = Traffic::Writes { writes: vec![(0.0, 10_000), (2.5, 10_000), (4.5, 5_000)] };
    let flow = run(&scenario(100.0, 10.0, traffic)).flow();
    assert_eq!(flow.received, 25_000);
    assert_eq!(flow.per_second, [10_000, 0, 10_000, 0, 5_000]);
}

#[test]
fn seconds_are_counted_from_the_first_byte_that_is_read() {
    // The first byte is read 1.5 s after the start: a handshake, and half of a round trip.
    let flow = run(&scenario(100.0, 1000.0, bytes(10_000))).flow();
    assert_eq!(flow.per_second, [10_000]);
    let first = flow.transfers[0].first_read_s.unwrap();
    assert!((1.5..1.51).contains(&first), "{first} s");
}

#[test]
fn datagrams_come_at_their_rate_and_the_queue_takes_what_is_too_much() {
    let stream = |mbit| {
        let mut udp =
            scenario(10.0, 20.0, Traffic::Constant { mbit, datagram: 1470, seconds: 10.0 });
        flow(&mut udp).protocol = Protocol::Udp;
        run(&udp).flow()
    };
    let (sent, received) = stream(5.0).datagrams.unwrap();
    assert_eq!(sent, received);
    let rate = sent as f64 * 1470.0 * 8e-7;
    assert!((rate - 5.0).abs() < 0.01, "{rate}");
    let (sent, received) = stream(20.0).datagrams.unwrap();
    let share = received as f64 / sent as f64;
    // 10 Mbit/s hold 1498 bytes for each 1470; a queue of 100 comes on top.
    assert!((share - 10.0 * 1470.0 / 1498.0 / 20.0).abs() < 0.01, "{share}");
}

#[test]
fn the_receiver_may_open_the_connection_and_it_may_be_ipv6_and_several() {
    let mut odd = scenario(10.0, 20.0, seconds(3.0));
    let of = flow(&mut odd);
    (of.reverse, of.ipv6, of.connections) = (true, true, 3);
    let ran = run(&odd);
    let outcome = ran.flow();
    assert_eq!(outcome.transfers.len(), 3);
    assert!(outcome.received > 3_000_000, "{}", outcome.received);
    let recording = ran.recording("a");
    assert_eq!(recording.connections.len(), 3);
    let ends = recording.connections[0].endpoints().unwrap();
    assert!(ends.local.is_ipv6() && ends.local.port() == 5001, "{ends:?}");
}

#[test]
fn a_receiver_that_reads_slowly_holds_the_sender_back() {
    let mut slow = scenario(50.0, 10.0, seconds(10.0));
    flow(&mut slow).read_mbit = Some(2.0);
    flow(&mut slow).receiver.receive_buffer = Some(64 << 10);
    let ran = run(&slow);
    let goodput = ran.flow().received as f64 * 8e-6 / 10.0;
    assert!((1.8..2.6).contains(&goodput), "{goodput}");
    let windows: Vec<u32> =
        ran.events("a").iter().filter_map(|event| Some(event.state()?.snd_wnd)).collect();
    assert!(windows.iter().skip(5).min().unwrap() < &3000, "the window closes");
}

#[test]
fn without_a_bottleneck_the_receivers_window_grows_as_it_does_with_one() {
    // Without a rate, a whole window reaches the receiver at one moment.
    let received = |rate_mbit| {
        let mut wide = scenario(1.0, 60.0, seconds(2.0));
        wide.links.path.up = Direction { rate_mbit, ..Direction::default() };
        run(&wide).flow().received as f64
    };
    let (without, with) = (received(None), received(Some(100_000.0)));
    // A twentieth of it, where the window does not grow.
    assert!(without > 0.5 * with, "{without} bytes, and {with}");
}

#[test]
fn a_flow_that_cannot_be_costs_itself_alone() {
    let mut two = scenario(10.0, 20.0, seconds(2.0));
    let mut other = flow(&mut two).clone();
    other.port = 5002;
    other.sender.congestion = Some("nonesuch".to_owned());
    two.flows.insert("other".to_owned(), other);
    let outcome = run(&two).outcome();
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(outcome.failures[0].flow.as_deref(), Some("other"));
    assert!(outcome.failures[0].what.contains("nonesuch"), "{:?}", outcome.failures);
    assert!(outcome.flows["f"].received > 2_000_000);
}

#[test]
fn connections_of_a_flow_that_were_never_connected_are_told_beside_those_that_were() {
    let failures = |loss| {
        let mut lossy = scenario(10.0, 20.0, seconds(1.0));
        lossy.most_seconds = 2.5;
        lossy.links.path.up.loss = loss;
        flow(&mut lossy).connections = 12;
        run(&lossy).outcome().failures
    };
    let told = failures(0.6);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].what.ends_with(" of its 12 connections were never connected"), "{told:?}");
    assert_eq!(failures(0.0), [], "the control: without losses all are");
}

#[test]
fn a_write_of_a_byte_fills_segments_as_a_large_one_does() {
    let goodput = |write_bytes| {
        let mut small = scenario(8.0, 20.0, seconds(2.0));
        flow(&mut small).write_bytes = write_bytes;
        let flow = run(&small).flow();
        (flow.goodput_mbit().unwrap(), flow.received as f64 / flow.segments as f64)
    };
    let (large, of_large) = goodput(None);
    for bytes in [1, 100, 1000] {
        let (small, of_small) = goodput(Some(bytes));
        assert!((small / large - 1.0).abs() < 0.02, "{bytes}: {small} of {large} Mbit/s");
        assert!(of_small > 0.95 * of_large, "{bytes}: {of_small} of {of_large} bytes a segment");
    }
}

#[test]
fn what_the_kernel_lacks_is_told_before_anything_is_simulated_with_what_it_has() {
    type Change = fn(&mut transom_scenario::Scenario);
    let on_host: Change = |it| {
        let name = "ipv4/tcp_congestion_control".to_owned();
        host(it, "a").sysctl.insert(name, "nonesuch".to_owned());
    };
    let on_flow: Change = |it| flow(it).sender.congestion = Some("nonesuch".to_owned());
    let on_route: Change = |it| host(it, "b").route.congctl = Some("nonesuch".to_owned());
    for (change, whose) in [(on_host, "host 'a'"), (on_flow, "flow 'f'"), (on_route, "host 'b'")] {
        let mut lacking = scenario(10.0, 20.0, seconds(1.0));
        change(&mut lacking);
        let complaint = checked(&lacking).unwrap_err();
        assert!(complaint.contains(whose), "{complaint}");
        let says = "the simulated kernel has no congestion control 'nonesuch': it has ";
        let (_, all) = complaint.split_once(says).expect(&complaint);
        let all: Vec<&str> = all.trim().split(", ").collect();
        assert!(["cubic", "reno", "bbr", "steady"].iter().all(|it| all.contains(it)), "{all:?}");
    }
    let mut odd = scenario(10.0, 20.0, seconds(1.0));
    host(&mut odd, "a").sysctl.insert("ipv4.nonesuch".into(), "1".into());
    assert!(checked(&odd).unwrap_err().contains("host 'a': sysctl net.ipv4.nonesuch = 1"));
    checked(&scenario(10.0, 20.0, seconds(1.0))).expect("the control: all is there");
}

#[test]
fn a_flow_that_was_never_connected_is_told_when_the_simulation_is_cut_off() {
    let mut cut_off = scenario(10.0, 20.0, seconds(2.0));
    cut_off.most_seconds = 5.0;
    assert_eq!(run(&cut_off).outcome().failures, []);
    cut_off.links.path.up.loss = 1.0;
    let failures = run(&cut_off).outcome().failures;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(failures[0].flow.as_deref(), Some("f"));
    assert!(failures[0].what.contains("never connected"), "{failures:?}");
}

#[test]
fn a_flow_is_over_when_its_last_connection_is_however_many_have_failed() {
    let mut two = scenario(10.0, 20.0, seconds(20.0));
    let lossy = two.hosts["b"].clone();
    let addresses = vec![[10, 77, 0, 3].into()];
    let mut lossy = Host { addresses, ..lossy };
    lossy.sysctl.insert("ipv4.tcp_syn_retries".into(), "1".into());
    lossy.sysctl.insert("ipv4.tcp_retries2".into(), "3".into());
    two.hosts.insert("c".to_owned(), lossy);
    let mac = [2, 0, 0, 0, 0, 3];
    two.links.ports.push(Port { name: "c".to_owned(), mac, side: Side::Near });
    let up = Direction { loss: 0.5, ..Direction::default() };
    two.links.access_links.insert("c".to_owned(), Path { up, ..Path::default() });
    let other = Flow { from: "c".into(), port: 5002, connections: 3, ..flow(&mut two).clone() };
    let other = Flow { traffic: bytes(20_000), ..other };
    two.flows.insert("other".to_owned(), other);
    // One fails at its SYN, one arrives, and one fails with data.
    two.seed = 72;
    let outcome = run(&two).outcome();
    assert_eq!(outcome.failures.len(), 2, "{:?}", outcome.failures);
    let whole = outcome.flows["other"].transfers.iter().filter(|it| it.ended_s.is_some());
    assert_eq!(whole.count(), 1, "the third");
    assert!(outcome.flows["f"].per_second.len() >= 20, "{:?}", outcome.flows["f"].per_second);
}

#[test]
fn a_path_that_carries_nothing_ends_with_its_time_and_what_came_so_far() {
    let mut dead = scenario(10.0, 20.0, seconds(2.0));
    dead.links.path.down.loss = 1.0;
    dead.most_seconds = 5.0;
    let outcome = run(&dead).outcome();
    assert_eq!(outcome.flows["f"].received, 0);
    assert!((4.5..=5.0).contains(&outcome.virtual_s), "{}", outcome.virtual_s);
}

#[test]
fn a_simulation_in_which_nothing_takes_time_ends_with_that() {
    let run = |sides: [Side; 2], rtt_ms| {
        let mut still = scenario(10.0, 20.0, bytes(1 << 50));
        still.links.path = Path { rtt_ms, ..Path::default() };
        (still.record, still.most_seconds) = (false, 0.05);
        for (port, side) in still.links.ports.iter_mut().zip(sides) {
            port.side = side;
        }
        run(&still)
    };
    for (sides, rtt_ms) in [([Side::Near, Side::Far], 0.0), ([Side::Near, Side::Near], 1.0)] {
        let complaint = run(sides, rtt_ms).complaint();
        assert!(complaint.contains("the simulation stands still at 0.000"), "{complaint}");
    }
    let outcome = run([Side::Near, Side::Far], 1.0).outcome();
    assert!((0.049..=0.05).contains(&outcome.virtual_s), "the control: {} s", outcome.virtual_s);
}

#[test]
fn what_is_wrong_with_a_scenario_is_named() {
    let complaint = bed::run_text("{\"hostz\": {}}").complaint();
    assert!(complaint.contains("hostz") && complaint.contains("scenario.json"), "{complaint}");
    let mut odd = scenario(10.0, 20.0, seconds(1.0));
    host(&mut odd, "a").sysctl.insert("ipv4.no_such_key".into(), "1".into());
    let complaint = run(&odd).complaint();
    assert!(
        complaint.contains("host 'a'") && complaint.contains("net.ipv4.no_such_key"),
        "{complaint}"
    );
}

#[test]
fn the_page_shows_what_the_program_does() {
    let page = include_str!("../../../docs/simulate.md");
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let ran = bed::run_text(text);
    let goodput = ran.outcome().flows["upload"].goodput_mbit().unwrap();
    assert!((17.0..19.4).contains(&goodput), "{goodput}");
    let mut files: Vec<String> = fs::read_dir(ran.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let (_, rest) = page.split_once("$ ls out\n").unwrap();
    assert_eq!(rest.lines().next().unwrap(), files.join("  "));
}

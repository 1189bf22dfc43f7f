//! Bytes, curves and the summary.

mod sender;

use sender::{MS, MSS, Setup, analysis, only, run};
use transom_analysis::{Series, Throughput, automatic_bin};
use transom_event::{Body, Event, Kind, Place, State, TcpState, flags};

#[test]
fn every_byte_is_counted_once_across_the_wrap_of_sequence_numbers() {
    let lost = vec![50, 90, 400];
    let plain = analysis(Setup { lost: lost.clone(), ..Setup::default() }).summary;
    let wrapped = Setup { lost, initial_sequence: u32::MAX - 100_000, ..Setup::default() };
    let summary = analysis(wrapped).summary;
    assert_eq!((summary.sent, summary.acked), (plain.sent, plain.acked));
    assert!(summary.acked > 1_000_000 && summary.acked.is_multiple_of(u64::from(MSS)));
    assert_eq!(summary.retransmitted.fast, 3);
    assert_eq!(summary.retransmitted.total(), 3);
}

#[test]
fn the_summary_has_the_round_trips_and_windows() {
    let summary = analysis(Setup { refusals: vec![500 * MS], ..Setup::default() }).summary;
    let rtt = summary.rtt.unwrap();
    assert_eq!((rtt.min_us, rtt.median_us, rtt.p95_us), (50_000, 50_000, 50_000));
    assert_eq!(summary.local_congestion, 1);
    assert_eq!(summary.mss, MSS);
    assert!(summary.max_cwnd >= 40 && summary.median_cwnd <= summary.max_cwnd);
    let goodput = summary.acked as f64 * 8e9 / summary.duration_ns as f64;
    assert!((summary.goodput_up - goodput).abs() < 1.0);
}

#[test]
fn throughput_of_a_window_is_the_window_per_round_trip() {
    let recording = run(Setup { receiver_window: 16 * MSS, ..Setup::default() });
    let series = Series::of(only(&recording));
    let throughput = series.throughput(Some(50 * MS));
    let steady = &throughput.up[5..throughput.up.len() - 2];
    let expected = 16.0 * f64::from(MSS) * 8.0 / 0.05;
    assert!(steady.iter().all(|&rate| (rate - expected).abs() < 1.0), "{steady:?}");
    assert!(throughput.down.iter().all(|&rate| rate == 0.0));
    assert!(!throughput.interpolated);
}

/// The rates of a connection to which ACKs came at these times, for so many bytes in all.
fn of_acks(acks: impl Iterator<Item = (u64, u64)>, bin_ns: u64) -> Throughput {
    let ack = |(time_ns, acked): (u64, u64)| {
        let snd_una = acked as u32;
        let tcp_state = TcpState::Established as u8;
        let body = Body::State(State { snd_una, snd_nxt: snd_una, tcp_state, ..State::default() });
        let (kind, place) = (Kind::Ack, Place::RcvEstablished);
        Event { time_ns, cookie: 1, tgid: 1, cpu: 0, kind, place, aux: [0, 0], body }
    };
    let events: Vec<Event> = acks.map(ack).collect();
    let recording = transom_analysis::Recording::from_iter(&events);
    Series::of(only(&recording)).throughput(Some(bin_ns))
}

#[test]
fn the_end_of_a_connection_is_no_peak_however_little_is_left_after_the_last_bin() {
    // 125 kB each millisecond are 1 Gbit/s.
    let steady = (0..=10_000).map(|n| (n * MS, n * 125_000));
    let end_ns = 10_000 * MS + 1000;
    let throughput = of_acks(steady.chain([(end_ns, 10_001 * 125_000)]), 50 * MS);
    let most = throughput.up.iter().copied().fold(0.0, f64::max);
    assert!(most < 1.05e9, "{most} bit/s");
    assert_eq!(throughput.up.len(), 200);
    assert_eq!(throughput.bin_start_ns(200), end_ns, "the last bin goes on until the end");
}

#[test]
fn a_connection_shorter_than_a_bin_has_the_rate_of_the_bin() {
    let throughput = of_acks([(7, 0), (17, 1250)].into_iter(), MS);
    assert_eq!(throughput.up, [10e6]);
}

#[test]
fn bins_are_round_and_no_shorter_than_a_round_trip() {
    assert_eq!(automatic_bin(0, 0, 400), MS);
    assert_eq!(automatic_bin(1000 * MS, 0, 400), 5 * MS);
    assert_eq!(automatic_bin(40_000 * MS, 0, 400), 100 * MS);
    assert_eq!(automatic_bin(1000 * MS, 64 * MS, 400), 100 * MS);
    assert!(automatic_bin(u64::MAX, u64::MAX, 1) > u64::MAX / 10);
}

#[test]
fn bytes_between_samples_are_spread_over_the_time() {
    let mut events =
        sender::Sender::new(Setup { receiver_window: 16 * MSS, ..Setup::default() }).run();
    let mut n = 0;
    events.retain(|event| {
        n += usize::from(event.kind == Kind::Ack);
        event.kind == Kind::Open || event.kind == Kind::Ack && n % 100 == 0
    });
    let recording = transom_analysis::Recording::from_iter(&events);
    let series = Series::of(only(&recording));
    let throughput = series.throughput(Some(10 * MS));
    assert!(series.sampled && throughput.interpolated);
    let empty = throughput.up[60..150].iter().filter(|&&rate| rate == 0.0).count();
    assert_eq!(empty, 0, "{:?}", throughput.up);
}

#[test]
fn what_is_acknowledged_after_the_last_seen_ack_is_spread_until_the_close() {
    let mut events =
        sender::Sender::new(Setup { receiver_window: 16 * MSS, ..Setup::default() }).run();
    // As after close(): for 300 ms data leaves, no ACK is seen, and the last event tells all.
    let end_ns = events.last().unwrap().time_ns;
    let closed = |event: &Event| event.time_ns + 300 * MS > end_ns;
    let mut last = *events.iter().rev().find(|event| event.kind == Kind::Ack).unwrap();
    events.retain(|event| !closed(event));
    (last.time_ns, last.kind) = (end_ns, Kind::State);
    last.aux = [TcpState::FinWait1 as u32, TcpState::FinWait2 as u32];
    events.push(last);
    let recording = transom_analysis::Recording::from_iter(&events);
    let series = Series::of(only(&recording));
    let throughput = series.throughput(Some(50 * MS));
    let expected = 16.0 * f64::from(MSS) * 8.0 / 0.05;
    let tail = &throughput.up[throughput.up.len() - 5..];
    assert!(tail.iter().all(|&rate| rate < 1.5 * expected), "{tail:?}, {expected}");
    assert!(!series.sampled && throughput.interpolated);
}

/// `cargo test --release -p transom-analysis --test series -- --ignored --nocapture`
#[test]
#[ignore = "a measurement, not a test"]
fn one_million_points_take_under_a_second() {
    let lost = (1..2000).map(|i| i * 211).collect();
    let setup = Setup { lost, length_ns: 900_000 * MS, ..Setup::default() };
    let recording = run(setup);
    let connection = only(&recording);
    let start = std::time::Instant::now();
    let series = Series::of(connection);
    let made = start.elapsed();
    let thinned = series.thinned(&connection.marks, 4000);
    let thin = start.elapsed() - made;
    let start = std::time::Instant::now();
    transom_analysis::analyse(&recording);
    println!(
        "{} points, {} marks: series {made:?}, thinned to {} in {thin:?}, analysed in {:?}",
        series.samples.len(),
        connection.marks.len(),
        thinned.samples.len(),
        start.elapsed()
    );
    assert!(thinned.samples.len() <= 4000);
    assert!(thin.as_secs_f64() < 1.0);
}

/// As the fexit probe tells it: after all that the ACK made the kernel do.
fn told_on_the_way_out(events: Vec<Event>) -> Vec<Event> {
    let mut told = Vec::with_capacity(events.len());
    let mut inside: Option<Event> = None;
    for event in events {
        if event.kind == Kind::Ack || inside.is_some_and(|ack| ack.time_ns != event.time_ns) {
            told.extend(inside.take());
        }
        if event.kind != Kind::Ack {
            told.push(event);
            continue;
        }
        let mut ack = event;
        let transom_event::Body::State(state) = &mut ack.body else { panic!() };
        state.snd_una = state.snd_una.wrapping_add(ack.aux[0]);
        state.flags |= flags::AFTER;
        inside = Some(ack);
    }
    told.extend(inside);
    told
}

#[test]
fn an_ack_told_after_the_segments_it_let_go_is_not_missed() {
    let events = told_on_the_way_out(sender::Sender::new(Setup::default()).run());
    let ack = events.iter().position(|event| event.kind == Kind::Ack).unwrap();
    assert_eq!(events[ack - 1].kind, Kind::Send, "the order that is tested");
    let recording = transom_analysis::Recording::from_iter(&events);
    let series = Series::of(only(&recording));
    assert!(!series.sampled);
    let plain = analysis(Setup::default()).summary;
    assert_eq!(series.samples.last().unwrap().acked, plain.acked);

    // Without every second of them it is a sample all the same.
    let mut acks = 0;
    let thinned: Vec<Event> = events
        .into_iter()
        .filter(|event| {
            acks += u32::from(event.kind == Kind::Ack);
            event.kind != Kind::Ack || acks.is_multiple_of(2)
        })
        .collect();
    let recording = transom_analysis::Recording::from_iter(&thinned);
    assert!(Series::of(only(&recording)).sampled);
}

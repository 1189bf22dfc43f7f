//! What holds for every recording, however strange.

use proptest::collection::vec;
use proptest::prelude::*;
use transom_analysis::{
    CURVES, Limits, Live, MIN_BUDGET, Recording, Sample, Series, analyse, text, thin, thin_rows,
};
use transom_event::{Event, Head, Kind, Open, Place, Raw, State};

fn body() -> impl Strategy<Value = [u64; 12]> {
    let wild = any::<[u64; 12]>();
    // Small numbers meet the rules more often than random ones.
    let tame = vec(0..4u64, 24).prop_map(|halves| {
        std::array::from_fn(|i| (halves[2 * i] * 1000) | (halves[2 * i + 1] * 1000) << 32)
    });
    prop_oneof![wild, tame]
}

prop_compose! {
    fn event()(
        time_ns in prop_oneof![any::<u64>(), 0..5_000_000_000u64],
        cookie in 0..3u64,
        kind in prop::sample::select(Kind::ALL),
        place in prop::sample::select(Place::ALL),
        aux in prop_oneof![any::<[u32; 2]>(), [0..5u32, 0..5u32]],
        body in body(),
        tcp_state in 0..13u8,
        ca_state in 0..6u8,
    ) -> Event {
        let head = Head {
            time_ns, cookie, tgid: 1, cpu: 0, kind: kind as u8, place: place as u8, aux,
        };
        let mut raw = Raw { head, body };
        let mut event = Event::try_from(&raw).unwrap();
        if let transom_event::Body::State(state) = &mut event.body {
            (state.tcp_state, state.ca_state) = (tcp_state, ca_state);
            raw = Raw::from(&event);
        }
        Event::try_from(&raw).unwrap()
    }
}

fn sample() -> impl Strategy<Value = Sample> {
    (any::<[u16; 11]>(), any::<bool>()).prop_map(|(v, set)| Sample {
        cwnd: v[0].into(),
        ssthresh: set.then_some(v[1].into()),
        in_flight: v[2].into(),
        clamp: set.then_some(v[3].into()),
        snd_wnd: Some(v[4].into()),
        rto_us: set.then_some(v[5].into()),
        srtt_us: Some(v[5].into()),
        min_rtt_us: set.then_some(v[6].into()),
        send_queue: v[7].into(),
        recv_queue: v[8].into(),
        unsent: v[9].into(),
        pacing_rate: set.then_some(v[10].into()),
        ..Sample::default()
    })
}

fn samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
    vec((sample(), 0..1_000_000u64), 0..most).prop_map(|rows| {
        let mut time_ns = 0;
        rows.into_iter()
            .map(|(sample, step)| {
                time_ns += step;
                Sample { time_ns, ..sample }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_recording_is_analysed_and_told_without_panic(events in vec(event(), 0..60)) {
        let recording = Recording::from_iter(&events);
        let analyses = analyse(&recording);
        prop_assert_eq!(analyses.len(), recording.connections.len());
        text::explain(&analyses, true, text::ANY_WIDTH);
        text::explain(&analyses, false, text::ANY_WIDTH);
        serde_json::to_string(&analyses).unwrap();
        for analysis in &analyses {
            for episode in &analysis.episodes {
                prop_assert!(episode.start_ns <= episode.end_ns);
            }
        }
    }

    #[test]
    fn limits_split_the_time_exactly(events in vec(event(), 1..60)) {
        let recording = Recording::from_iter(&events);
        for connection in &recording.connections {
            let limits = Limits::of(connection, &recording.lost);
            prop_assert_eq!(limits.duration_ns, connection.last_ns - connection.first_ns);
            prop_assert_eq!(limits.total_ns.values().sum::<u64>(), limits.duration_ns);
            let mut at = connection.first_ns;
            for (i, span) in limits.spans.iter().enumerate() {
                prop_assert_eq!(span.start_ns, at);
                prop_assert!(span.end_ns > span.start_ns);
                prop_assert!(i == 0 || limits.spans[i - 1].limit != span.limit);
                at = span.end_ns;
            }
            prop_assert!(limits.spans.is_empty() || at == connection.last_ns);
        }
    }

    #[test]
    fn a_connection_that_is_watched_counts_the_bytes_that_its_recording_has(
        mut events in vec(event(), 1..60),
    ) {
        events.retain(|event| event.cookie == 1 && event.kind != Kind::Lost);
        events.sort_by_key(|event| event.time_ns);
        // A socket that connects again has another connection.
        let closed = events.iter().position(|event| event.kind == Kind::Close);
        let is_next = |&at: &usize| events[at].kind == Kind::Open;
        if let Some(next) = closed.and_then(|closed| (closed..events.len()).find(is_next)) {
            events.truncate(next);
        }
        let mut live = Live::default();
        let gained: Vec<_> = events.iter().filter_map(|event| live.push(event)).collect();
        let recording = Recording::from_iter(&events);
        let summary = analyse(&recording).first().map(|a| a.summary.clone()).unwrap_or_default();
        prop_assert_eq!((live.acked(), live.received()), (summary.acked, summary.received));
        prop_assert_eq!(gained.iter().map(|g| g.acked).sum::<u64>(), summary.acked);
    }

    #[test]
    fn throughput_keeps_every_byte(events in vec(event(), 1..60), bin_ns in 1..10_000_000_000u64) {
        let recording = Recording::from_iter(&events);
        for connection in &recording.connections {
            let series = Series::of(connection);
            let counted = series.samples.last().map_or(0, |s| s.acked);
            let throughput = series.throughput(Some(bin_ns));
            let duration = series.end_ns - series.start_ns;
            let bins = throughput.up.len();
            let full = (bins as u64 - 1) * throughput.bin_ns;
            let last = duration.saturating_sub(full).max(throughput.bin_ns);
            let bytes = throughput.up.iter().enumerate().map(|(i, rate)| {
                rate * (if i + 1 == bins { last } else { throughput.bin_ns }) as f64 / 8e9
            });
            let sum: f64 = bytes.sum();
            prop_assert!((sum - counted as f64).abs() <= 1e-6 * counted as f64 + 1e-3);
        }
    }

    #[test]
    fn counters_survive_the_wrap_of_sequence_numbers(
        start in any::<u32>(), steps in vec((0..3_000_000u32, 0..3_000_000u32), 1..200),
    ) {
        let (mut una, mut rcv) = (start, start ^ 0x8000_0000);
        let mut events = Vec::new();
        for (i, (acked, received)) in [(0, 0)].iter().chain(&steps).enumerate() {
            una = una.wrapping_add(*acked);
            rcv = rcv.wrapping_add(*received);
            let state = State {
                snd_una: una, snd_nxt: una, rcv_nxt: rcv, tcp_state: 1, mss: 1000, ..State::default()
            };
            events.push(Event {
                time_ns: i as u64,
                cookie: 1,
                tgid: 0,
                cpu: 0,
                kind: Kind::Sample,
                place: Place::SockDiag,
                aux: [0, 0],
                body: transom_event::Body::State(state),
            });
        }
        let recording = Recording::from_iter(&events);
        let series = Series::of(&recording.connections[0]);
        let last = series.samples.last().unwrap();
        prop_assert_eq!(last.acked, steps.iter().map(|s| u64::from(s.0)).sum::<u64>());
        prop_assert_eq!(last.received, steps.iter().map(|s| u64::from(s.1)).sum::<u64>());
    }

    #[test]
    fn thinning_keeps_extremes_ends_and_order(
        samples in samples(3000), budget in 0..600usize,
        pinned in vec(0..3000usize, 0..100),
    ) {
        let time = |i: usize| samples[i].time_ns;
        let kept = thin_rows(samples.len(), time, |i| samples[i].curves(), &pinned, budget).kept;
        prop_assert!(kept.len() <= budget.max(MIN_BUDGET));
        prop_assert!(kept.windows(2).all(|w| w[0] < w[1]));
        prop_assert_eq!(kept.first().copied(), (!samples.is_empty()).then_some(0));
        prop_assert_eq!(kept.last().copied(), samples.len().checked_sub(1));
        for (curve, name) in CURVES.iter().enumerate() {
            // A gap is less than every value, and is kept as they are.
            let all = || samples.iter().map(|s| s.curves()[curve]);
            let thinned = || kept.iter().map(|&i| samples[i].curves()[curve]);
            prop_assert_eq!(thinned().min(), all().min(), "least {}", name);
            prop_assert_eq!(thinned().max(), all().max(), "greatest {}", name);
        }
    }

    #[test]
    fn thinning_keeps_what_stands_beside_errors_when_it_fits(
        samples in samples(2000), pinned in vec(0..2000usize, 0..30),
    ) {
        let time = |i: usize| samples[i].time_ns;
        let kept = thin_rows(samples.len(), time, |i| samples[i].curves(), &pinned, 200).kept;
        for &row in pinned.iter().filter(|&&row| row < samples.len()) {
            prop_assert!(kept.binary_search(&row).is_ok());
        }
    }
}

#[test]
fn an_error_mark_keeps_the_samples_beside_it() {
    let samples: Vec<Sample> =
        (0..10_000).map(|i| Sample { time_ns: i * 10, cwnd: 5, ..Sample::default() }).collect();
    let event = Event {
        time_ns: 55_555,
        cookie: 1,
        tgid: 0,
        cpu: 0,
        kind: Kind::Rto,
        place: Place::EnterLoss,
        aux: [1, 1],
        body: transom_event::Body::State(State::default()),
    };
    let open = Event {
        kind: Kind::Open,
        body: transom_event::Body::Open(Open::default()),
        time_ns: 77_777,
        ..event
    };
    let recording = Recording::from_iter(&[event, open]);
    let kept = thin(&samples, &recording.connections[0].marks, 100).kept;
    assert!(kept.contains(&5555) && kept.contains(&5556));
    assert!(kept.len() <= 100);
}

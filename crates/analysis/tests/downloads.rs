//! What the side that receives can tell of a download.

mod sender;

use sender::{MS, MSS, Sender, Setup, assert_says, one, open_event};
use transom_analysis::{Analysis, Cause, Recording, analyse};
use transom_event::tcp_info::{TcpInfo, Waited};
use transom_event::{Body, Direction, Event, Kind, Place, State, TcpState};

/// For one second.
fn download(change: impl Fn(u32, &mut State)) -> Vec<Event> {
    sender::download(1000, change)
}

#[test]
fn a_download_that_the_program_keeps_up_with_is_the_other_sides() {
    let analysis = one(&download(|_, _| {}));
    assert_says(&analysis, Cause::OtherSide, &["download of 975 KiB", "Record there"]);
}

/// As over loopback. The same ports some time later are another connection.
#[test]
fn nobody_is_sent_to_record_an_end_that_is_in_the_recording() {
    let verdict = |far_ms: u64| {
        let mut far = open_event(far_ms * MS, 1);
        far.cookie = 9;
        if let Body::Open(open) = &mut far.body {
            (open.local_addr, open.remote_addr) = (open.remote_addr, open.local_addr);
            (open.local_port, open.remote_port) = (open.remote_port, open.local_port);
        }
        let mut events = download(|_, _| {});
        events.push(far);
        events.sort_by_key(|event| event.time_ns);
        let all = analyse(&Recording::from_iter(&events));
        let here = all.iter().find(|analysis| analysis.cookie == 7).expect("the download");
        assert_eq!(here.verdict.cause, Cause::OtherSide);
        here.verdict.text()
    };
    let (at_once, later) = (verdict(5), verdict(5000));
    assert!(!at_once.contains("Record there"), "{at_once}");
    assert!(
        at_once.contains("The verdict of the other end, which was recorded as well, says what")
    );
    assert!(later.contains("Record there"), "{later}");
}

/// 1000 bytes each ms: 50 kB are a window's worth at 50 ms. Beside a queue, that may be what a round trip
/// takes, whatever the least one was; but a window that grows with what comes is no limit.
#[test]
fn a_window_that_may_be_used_up_behind_a_queue_is_told() {
    let with = |largest: u32, median_us: u32, grows: bool| {
        one(&download(|ms, state| {
            let smaller = grows && ms < 500;
            state.rcv_wnd = if smaller { largest / 2 } else { largest };
            (state.srtt_us, state.min_rtt_us) = (median_us, 20_000);
        }))
    };
    let flat = with(50_000, 60_000, false);
    assert_says(&flat, Cause::OtherSide, &["did not grow", "round trip takes 50 ms", "SO_RCVBUF"]);
    for other in
        [with(50_000, 30_000, false), with(50_000, 60_000, true), with(500_000, 60_000, false)]
    {
        assert_says(&other, Cause::OtherSide, &["Record there"]);
        assert!(!other.verdict.text().contains("SO_RCVBUF"), "{}", other.verdict.text());
    }
}

/// Shifts of 0 on both sides: no window above 64 KiB can be offered.
fn unscaled(mut events: Vec<Event>) -> Analysis {
    events[0].aux[1] = 1 << 8;
    one(&events)
}

#[test]
fn a_window_that_cannot_be_scaled_is_no_matter_of_buffers() {
    let setup = Setup { receiver_window: 65_535, hystart_at: None, ..Setup::default() };
    let sender = unscaled(Sender::new(setup).run());
    assert_says(&sender, Cause::ReceiverWindow, &["turn on window scaling"]);
    let slower = |_, state: &mut State| (state.srtt_us, state.min_rtt_us) = (60_000, 60_000);
    let receiver = unscaled(download(slower));
    assert_says(&receiver, Cause::OwnWindow, &["64 KiB", "turn on window scaling"]);
    assert_eq!(one(&download(slower)).verdict.cause, Cause::OtherSide);
}

#[test]
fn a_download_that_the_program_does_not_read() {
    let analysis = one(&download(|ms, state| {
        if ms > 300 {
            (state.rcv_wnd, state.recv_queue) = (if ms > 800 { 0 } else { 100_000 }, 1_800_000);
        }
    }));
    assert_says(&analysis, Cause::SlowReader, &["reads slowly", "70%", "closed for 198 ms"]);
}

/// The download, and behind it ten seconds in which nobody says anything, until the program ends.
fn then_silence(mut events: Vec<Event>) -> Vec<Event> {
    let mut last = *events.last().unwrap();
    last.time_ns += 10_000 * MS;
    if let Body::State(state) = &mut last.body {
        // What the last segment brought.
        state.rcv_nxt += 80 * MSS;
        state.recv_queue = 0;
    }
    events.push(last);
    events
}

/// A program such as psql, which reads the whole answer slowly and then works on it for long.
#[test]
fn silence_behind_a_download_does_not_hide_a_slow_reader() {
    let slow = download(|ms, state| {
        if ms > 300 && ms < 900 {
            (state.rcv_wnd, state.recv_queue) = (100_000, 1_800_000);
        }
    });
    let analysis = one(&then_silence(slow));
    assert_says(&analysis, Cause::SlowReader, &["60% of the time in which data came"]);
    let quick = one(&then_silence(download(|_, _| {})));
    assert_says(&quick, Cause::OtherSide, &["kept up"]);
}

/// Short answers at long intervals: what comes at once is no rate, and fills no window.
#[test]
fn answers_at_intervals_do_not_use_the_own_window_up() {
    let events: Vec<Event> = download(|_, state| state.rcv_wnd = 20_000)
        .into_iter()
        .map(|event| Event { time_ns: event.time_ns / MS * 1500 * MS, ..event })
        .collect();
    assert_eq!(one(&events).verdict.cause, Cause::OtherSide);
}

/// A slow download of which something is told each 1.5 s; its window closes once, for 100 ms.
fn told_seldom() -> Vec<Event> {
    let mut events = download(|ms, state| state.rcv_nxt = ms * 150_000);
    for event in &mut events {
        event.time_ns *= 1500;
    }
    let open = events[500];
    let mut closed = Event { time_ns: open.time_ns - 100 * MS, kind: Kind::ZeroWindow, ..open };
    closed.aux = [Direction::Sent as u32, 0];
    if let Body::State(state) = &mut closed.body {
        (state.rcv_wnd, state.recv_queue) = (0, 1_800_000);
    }
    events.insert(500, closed);
    events
}

/// As `--rate 1500ms` tells it: data come all the time between what is recorded.
#[test]
fn arrivals_that_are_not_recorded_are_no_silence() {
    let mut recording = Recording::from_iter(&told_seldom());
    recording.told_apart_ns = 1500 * MS;
    assert_says(&analyse(&recording).remove(0), Cause::OtherSide, &["kept up"]);
}

/// One that was late is closer to the next.
#[test]
fn data_that_come_between_two_looks_are_no_silence_though_one_look_was_late() {
    let mut events = told_seldom();
    events.remove(500);
    for event in &mut events[1..] {
        (event.kind, event.place) = (Kind::Sample, Place::SockDiag);
    }
    events[300].time_ns += 1490 * MS;
    for event in &mut events[500..503] {
        let Body::State(state) = &mut event.body else { unreachable!("a sample has a state") };
        (state.rcv_wnd, state.recv_queue) = (0, 1_800_000);
    }
    assert_says(&one(&events), Cause::OtherSide, &["kept up"]);
}

/// Where each arrival is recorded, one every ten seconds is silence between answers, and a program
/// that is slow with one of them is slow most of the time in which data came.
#[test]
fn arrivals_that_are_rare_are_not_taken_for_those_that_are_not_recorded() {
    let mut events = download(|ms, state| state.rcv_nxt = ms * 50_000);
    events.truncate(21);
    for event in &mut events {
        event.time_ns *= 10_000;
    }
    let last = *events.last().unwrap();
    for n in 1..=4 {
        let mut full = Event { time_ns: last.time_ns + n * 10_000 * MS, ..last };
        if let Body::State(state) = &mut full.body {
            (state.rcv_wnd, state.recv_queue) = (0, 1_800_000);
        }
        events.push(full);
    }
    assert_says(&one(&events), Cause::SlowReader, &["of the time in which data came"]);
}

/// A player that reads for six seconds of each half minute; the other side probes in between, more and
/// more seldom, and sends on as soon as there is room.
#[test]
fn a_window_that_is_closed_for_long_is_no_silence() {
    let all = download(|_, _| {});
    let mut events = vec![all[0]];
    let mut data = 0;
    for time in 0..4 {
        let closes_ns = (time * 30_000 + 1) * MS;
        for ms in [0, 200, 600, 1400, 3000, 6200, 12_600] {
            let mut told = Event { time_ns: closes_ns + ms * MS, ..all[1] };
            if ms == 0 {
                (told.kind, told.aux) = (Kind::ZeroWindow, [Direction::Sent as u32, 0]);
            }
            if let Body::State(state) = &mut told.body {
                (state.rcv_nxt, state.rcv_wnd, state.recv_queue) = (data * MSS, 0, 1_800_000);
            }
            events.push(told);
        }
        for n in 0..600 {
            data += 1;
            let mut came = Event { time_ns: closes_ns + (24_000 + n * 10) * MS, ..all[1] };
            if let Body::State(state) = &mut came.body {
                state.rcv_nxt = data * MSS;
            }
            events.push(came);
        }
    }
    let words = ["queue was full 80% of the time (up to", "closed for 96.00 s"];
    assert_says(&one(&events), Cause::SlowReader, &words);
}

/// A queue that stays full is no silence, however long nothing comes.
#[test]
fn a_reader_that_does_not_read_at_all_is_slow() {
    let mut events = download(|ms, state| {
        if ms > 900 {
            (state.rcv_wnd, state.recv_queue) = (0, 1_800_000);
        }
    });
    let mut last = *events.last().unwrap();
    last.time_ns += 10_000 * MS;
    events.push(last);
    assert_says(&one(&events), Cause::SlowReader, &["reads slowly", "92% of the time (up to"]);
}

#[test]
fn a_download_whose_own_window_is_all_used() {
    let analysis = one(&download(|_, state| state.rcv_wnd = 20_000));
    assert_says(&analysis, Cause::OwnWindow, &["19.5 KiB", "20 ms", "8 Mbit/s", "SO_RCVBUF"]);
}

/// A window of less than a segment closes for a moment now and then, though all is read at once: here
/// twice, for 20 ms each.
#[test]
fn a_tiny_window_that_closes_for_a_moment_is_no_slow_reader() {
    let mut events = download(|ms, state| {
        state.rcv_nxt = ms * 36;
        (state.rcv_wnd, state.recv_queue) = (700, if ms % 50 == 0 { 800 } else { 0 });
    });
    for at in [400, 700] {
        let closes = Event { aux: [Direction::Sent as u32, 0], ..events[at] };
        let closed = |event: &mut Event| {
            if let Body::State(state) = &mut event.body {
                (state.rcv_wnd, state.recv_queue) = (0, 2_200);
            }
        };
        events[at..at + 20].iter_mut().for_each(closed);
        events.insert(at, Event { kind: Kind::ZeroWindow, ..closes });
    }
    let analysis = one(&events);
    assert_says(&analysis, Cause::OwnWindow, &["700 B", "SO_RCVBUF"]);
}

/// The only round trip that a side measures which sends nothing is that of its SYN, here a long one.
#[test]
fn a_window_of_which_more_came_than_the_measured_round_trip_allows_caps_what_came() {
    let analysis = one(&download(|ms, state| {
        (state.rcv_nxt, state.rcv_wnd) = (ms * 36, 700);
        (state.srtt_us, state.min_rtt_us) = (50_000, 50_000);
    }));
    assert_says(&analysis, Cause::OwnWindow, &["in each round trip: that caps it at 288 kbit/s"]);
}

#[test]
fn a_reader_that_left_the_window_open_is_not_told_to_have_closed_it() {
    let analysis = one(&download(|ms, state| {
        if ms > 300 {
            (state.rcv_wnd, state.recv_queue) = (100_000, 1_800_000);
        }
    }));
    assert_says(&analysis, Cause::SlowReader, &["reads slowly", "70%"]);
    let text = analysis.verdict.text();
    assert!(!text.contains("closed"), "{text}");
}

/// Requests that get large answers; the path goes away for most of the recording.
fn asks_and_the_path_goes_away() -> Vec<Event> {
    let (blackout, length_ns) = (500 * MS..6000 * MS, 8000 * MS);
    let program = sender::Program::Chunks { bytes: 100, every_ns: 100 * MS };
    let setup = Setup { program, blackout, length_ns, ..Setup::default() };
    let mut events = Sender::new(setup).run();
    for event in &mut events {
        let Body::State(state) = &mut event.body else { continue };
        state.rcv_nxt = 1 + 20 * state.snd_una;
        state.rcv_wnd = 10_000_000;
    }
    events
}

#[test]
fn a_download_whose_requests_get_no_answer_for_long_is_interrupted() {
    let analysis = one(&asks_and_the_path_goes_away());
    assert!(analysis.summary.received > 10 * analysis.summary.acked, "{:?}", analysis.summary);
    assert_says(&analysis, Cause::Outage, &["Nothing came back for", "1 interruption", "radio"]);
}

/// `tcp_info` has 232 bytes before Linux 6.2.
#[test]
fn a_window_that_an_old_kernel_does_not_tell_is_not_closed() {
    let polled = |known: usize| {
        let mut tcp_info = [0_u8; 240];
        tcp_info[0] = TcpState::Established as u8;
        tcp_info[16..20].copy_from_slice(&MSS.to_ne_bytes());
        tcp_info[232..236].copy_from_slice(&1_000_000_u32.to_ne_bytes());
        let mut events = download(|_, _| {});
        for (n, event) in (1_u64..).zip(&mut events[1..]) {
            tcp_info[128..136].copy_from_slice(&(n * u64::from(MSS)).to_ne_bytes());
            let told = TcpInfo(&tcp_info[..known]).state(Waited::default());
            let recv_queue = if n % 3 == 0 { 4000 } else { 0 };
            (event.kind, event.place) = (Kind::Sample, Place::SockDiag);
            event.body = Body::State(State { recv_queue, ..told });
        }
        one(&events)
    };
    for (known, window) in [(232, "its window not known"), (240, "window up to 977 KiB")] {
        let analysis = polled(known);
        assert!(analysis.episodes.is_empty(), "{:?}", analysis.episodes);
        assert_says(&analysis, Cause::OtherSide, &[window]);
    }
}

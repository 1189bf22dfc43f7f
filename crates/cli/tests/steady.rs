//! `steady` on real connections: each phase as the monitor's own events tell it.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use transom_event::{CaState, Event, Kind, State, fields};
use transom_testbed::tuned::{Setting, algorithm_of};
use transom_testbed::{
    Fate, Path, Recording, Towards, Trace, enters, needs_probes, on_a_path_in_time, pair,
    send_and_wait, settle,
};

/// Segments that may leave at once (bpf/steady.h, STEADY_BURST).
const BURST: u32 = 10;
const MSS: usize = 1448;
/// One way.
const DELAY: Duration = Duration::from_millis(20);

struct Run {
    // Cleared while the namespace is there.
    _setting: Setting,
    recording: Recording,
    path: Path,
    client: TcpStream,
    server: TcpStream,
}

impl Run {
    /// A new connection over a path of 40 ms under `steady` with these words.
    fn start(words: &[&str]) -> Run {
        Run::over(|_| {}, words)
    }

    /// The same, when something was done to the path before.
    fn over(prepare: impl FnOnce(&Path), words: &[&str]) -> Run {
        let path = Path::new(DELAY);
        prepare(&path);
        let mut all = vec!["--algorithm", "steady"];
        all.extend(words);
        let setting = Setting::unguarded(path.left.name(), &all);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let (client, server) = pair(&path);
        assert_eq!(algorithm_of(&client), "steady");
        assert_eq!(algorithm_of(&server), "reno", "the other namespace is none of ours");
        Run { _setting: setting, recording, path, client, server }
    }

    fn send(&mut self, segments: usize) {
        send_and_wait(&mut self.client, &mut self.server, segments * MSS);
    }

    fn finish(self) -> Trace {
        drop(self.client);
        self.recording.finish()
    }
}

/// What ACKs found, in order.
fn acks(trace: &Trace) -> Vec<(&Event, &State)> {
    let acks = trace.of(Kind::Ack).into_iter();
    acks.map(|event| (event, event.state().expect("an ACK has a state"))).collect()
}

/// Time of the first change into this congestion state, and the window then.
fn entering(trace: &Trace, to: CaState) -> (u64, State) {
    let all = trace.of(Kind::CaState);
    let found = all.into_iter().find(enters(to));
    let event = found.unwrap_or_else(|| panic!("never in {to}"));
    (event.time_ns, *event.state().expect("a change has a state"))
}

/// Windows that ACKs found after this time.
fn windows_after(trace: &Trace, time_ns: u64) -> Vec<u32> {
    let after = acks(trace).into_iter().filter(|(event, _)| event.time_ns > time_ns);
    after.map(|(_, state)| state.cwnd).collect()
}

#[test]
fn a_connection_starts_with_the_target_and_its_segments_leave_paced() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "60"]);
        run.send(300);
        let trace = run.finish();
        let first = acks(&trace).first().map(|(_, state)| **state).expect("ACKs");
        assert_eq!((first.cwnd, first.ssthresh), (60, 60), "no slow start");
        assert!(first.has(transom_event::flags::PACED));
        // 60 segments spread over 40 ms at 6/5 of the pace: 1.8 a millisecond.
        let sends = trace.of(Kind::Send);
        for (at, first) in sends.iter().enumerate() {
            let at_once = sends[at..].iter().take_while(|e| e.time_ns < first.time_ns + 1_000_000);
            let segments: u32 = at_once.map(|event| fields::sent(event.aux).1).sum();
            assert!(segments <= BURST + 4, "{segments} segments within a millisecond");
        }
    });
}

#[test]
fn without_a_target_it_starts_slowly() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&[]);
        run.send(300);
        let trace = run.finish();
        // Not at the first ACK: some tiers record its state before it was processed, others after it.
        let first = trace.of(Kind::Send)[0].state().expect("a state").cwnd;
        assert_eq!(first, 10, "the kernel's initial window");
        assert!(windows_after(&trace, 0).iter().max() > Some(&40), "it doubles");
    });
}

/// A bottleneck of one segment per millisecond, and a queue for 40 before it: the path holds 40.
fn narrow(path: &Path) {
    path.bottleneck(Duration::from_millis(1), Duration::from_millis(40));
}

#[test]
fn slow_start_ends_at_what_the_path_holds_and_no_queue_stands() {
    needs_probes!();
    on_a_path_in_time(|| {
        let run = Run::start(&[]);
        narrow(&run.path);
        no_queue_stands(run);
    });
}

/// Without SACK the kernel does not measure each round trip. Room for what slow start sends too
/// much, since without SACK what it loses takes a round trip each.
#[test]
fn no_queue_stands_without_sack_either() {
    needs_probes!();
    on_a_path_in_time(|| {
        let run = Run::over(|path| path.left.sysctl("net/ipv4/tcp_sack", "0"), &[]);
        run.path.bottleneck(Duration::from_millis(1), Duration::from_millis(150));
        no_queue_stands(run);
    });
}

fn no_queue_stands(mut run: Run) {
    run.send(5000);
    let trace = run.finish();
    let sent: u32 = trace.of(Kind::Send).iter().map(|e| fields::sent(e.aux).1).sum();
    let again: u32 = trace.of(Kind::Retransmit).iter().map(|event| event.retransmit().1).sum();
    assert!(again * 40 < sent, "{again} of {sent} segments were retransmitted");
    let acks = acks(&trace);
    let later = &acks[acks.len() / 2..];
    let queue = |state: &State| f64::from(state.srtt_us) / f64::from(state.min_rtt_us) - 1.0;
    let mean = later.iter().map(|(_, state)| queue(state)).sum::<f64>() / later.len() as f64;
    assert!(
        mean < 0.5,
        "the full queue would double the round trip, this one adds {mean:.2} of it"
    );
    let used = f64::from(later.iter().map(|(_, state)| state.cwnd).min().expect("ACKs"));
    assert!(used >= 30.0, "and the path is used: {used}");
}

#[test]
fn a_cap_is_what_somebody_wants_filled_though_a_queue_stands() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "50", "--cap", "60"]);
        narrow(&run.path);
        run.send(4000);
        let windows = windows_after(&run.finish(), 0);
        assert_eq!(windows.into_iter().max(), Some(60));
    });
}

#[test]
fn a_loss_costs_the_eighth_and_growth_goes_on_linearly() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "64"]);
        run.path.lose(|n| n == 100);
        run.send(2000);
        let trace = run.finish();
        let (time, before) = entering(&trace, CaState::Recovery);
        // The threshold is asked for just before the state changes.
        assert_eq!(before.ssthresh, before.cwnd - before.cwnd / 8);
        let after = windows_after(&trace, time);
        assert_eq!(after.iter().min(), Some(&before.ssthresh), "nothing else was given up");
        let (last, _) = *acks(&trace).last().expect("ACKs");
        let round_trips = (last.time_ns - time) as f64 / 40e6;
        let grown = f64::from(after.iter().max().unwrap() - before.ssthresh);
        assert!(grown >= 2.0, "it grows again");
        assert!(grown <= round_trips + 1.0, "{grown} segments in {round_trips:.1} round trips");
    });
}

#[test]
fn with_no_backoff_a_loss_costs_nothing() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "64", "--backoff", "0"]);
        run.path.lose(|n| [100, 400, 401, 700].contains(&n));
        run.send(1500);
        let trace = run.finish();
        entering(&trace, CaState::Recovery);
        assert!(windows_after(&trace, 0).iter().all(|&cwnd| cwnd >= 64));
    });
}

#[test]
fn the_gain_is_what_the_window_grows_by_in_a_round_trip() {
    needs_probes!();
    on_a_path_in_time(|| {
        let growth = |gain: &str| {
            // With a cap, a round trip that a busy machine makes longer does not end the growth.
            let mut run = Run::start(&["--target", "40", "--cap", "200", "--gain", gain]);
            run.send(800);
            let trace = run.finish();
            windows_after(&trace, 0).into_iter().max().expect("ACKs") - 40
        };
        let (one, four) = (growth("1"), growth("4"));
        assert!(one >= 8, "800 segments are some 15 round trips: {one}");
        assert!(four >= 2 * one, "{four} against {one}");
    });
}

#[test]
fn the_window_never_passes_the_cap() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "30", "--cap", "34", "--gain", "8"]);
        run.send(3000);
        let trace = run.finish();
        assert_eq!(windows_after(&trace, 0).into_iter().max(), Some(34));
    });
}

#[test]
fn parameters_change_while_it_runs() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "30", "--cap", "60"]);
        run.send(300);
        let _narrower =
            Setting::unguarded(run.path.left.name(), &["--algorithm", "steady", "--cap", "20"]);
        run.send(100);
        let _wider =
            Setting::unguarded(run.path.left.name(), &["--algorithm", "steady", "--target", "50"]);
        run.send(300);
        let trace = run.finish();
        let windows = windows_after(&trace, 0);
        let narrow =
            windows.iter().position(|&cwnd| cwnd == 20).expect("the cap came down at once");
        assert!(
            windows[narrow..].iter().any(|&cwnd| cwnd >= 50),
            "and the new target is jumped to"
        );
    });
}

#[test]
fn one_timeout_is_not_believed() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "40"]);
        run.send(200);
        run.path.until_timeouts(1, Fate::Drop);
        run.client.write_all(&vec![7; 30 * MSS]).expect("there is room");
        settle(&run.client);
        run.client.write_all(&vec![7; 30 * MSS]).expect("there is room");
        settle(&run.client);
        let trace = run.finish();
        let rtos = trace.of(Kind::Rto);
        assert_eq!(rtos.len(), 1, "one timeout");
        let (before, _) = entering(&trace, CaState::Loss);
        let highest = windows_after(&trace, before).into_iter().max().expect("ACKs");
        assert!(highest >= 35, "seven eighths of 40 come back at once: {highest}");
    });
}

#[test]
fn the_second_timeout_in_a_row_is_believed() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "40"]);
        run.send(200);
        run.path.until_timeouts(2, Fate::Drop);
        run.client.write_all(&vec![7; 30 * MSS]).expect("there is room");
        settle(&run.client);
        run.client.write_all(&vec![7; 60 * MSS]).expect("there is room");
        settle(&run.client);
        let trace = run.finish();
        let rtos = trace.of(Kind::Rto);
        assert!(rtos.len() >= 2, "two timeouts in a row: {}", rtos.len());
        let second = rtos[1].time_ns;
        let before = rtos[0].state().expect("a state");
        let after: Vec<_> =
            acks(&trace).into_iter().filter(|(event, _)| event.time_ns > second).collect();
        let ssthresh = after[0].1.ssthresh;
        assert!((18..=25).contains(&ssthresh), "half of some 42: {ssthresh} of {before:?}");
        assert!(after[0].1.cwnd <= 2, "slow start from the beginning: {}", after[0].1.cwnd);
    });
}

#[test]
fn a_spurious_retransmission_gives_the_window_back() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "50"]);
        let mut n = 0;
        run.path.judge(move |towards, segment| {
            n += u32::from(towards == Towards::Right && segment.payload > 0);
            let overtaken = towards == Towards::Right && segment.payload > 0 && n == 120;
            if overtaken { Fate::Late(Duration::from_millis(30)) } else { Fate::Pass }
        });
        run.send(1500);
        let trace = run.finish();
        let (time, before) = entering(&trace, CaState::Recovery);
        let after = windows_after(&trace, time);
        assert!(after.iter().any(|&cwnd| cwnd >= before.cwnd), "{} came back", before.cwnd);
        let undone = trace
            .of(Kind::CaState)
            .into_iter()
            .find(|event| event.time_ns > time && enters(CaState::Open)(event));
        let undone = undone.expect("Open again").state().copied().expect("a state");
        assert!(
            undone.cwnd >= before.cwnd,
            "at once, not by growth: {} {}",
            undone.cwnd,
            before.cwnd
        );
    });
}

#[test]
fn after_an_idle_time_it_starts_from_the_target_again() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "20", "--gain", "8"]);
        run.send(600);
        std::thread::sleep(Duration::from_millis(600));
        let resumed = run.recording_time();
        run.send(60);
        let trace = run.finish();
        let windows = windows_after(&trace, 0);
        assert!(windows.iter().max() > Some(&40), "it had grown");
        let after = windows_after(&trace, resumed);
        assert!(after.first().is_some_and(|&cwnd| cwnd <= 28), "{:?}", after.first());
    });
}

/// Both ends speak ECN.
fn with_ecn(words: &[&str]) -> Run {
    Run::over(
        |path| {
            for end in [&path.left, &path.right] {
                end.sysctl("net/ipv4/tcp_ecn", "1");
            }
        },
        words,
    )
}

/// Marks the `n`th segments (from 0) with payload towards the right, and loses others.
fn mark(run: &Run, marked: &'static [u32], lost: &'static [u32]) {
    let mut n = 0;
    run.path.judge(move |towards, segment| {
        if towards != Towards::Right || segment.payload == 0 {
            return Fate::Pass;
        }
        n += 1;
        match n - 1 {
            n if marked.contains(&n) => Fate::Marked,
            n if lost.contains(&n) => Fate::Drop,
            _ => Fate::Pass,
        }
    });
}

/// The window after an ECN mark that met this one: a fifth less, in 1024ths.
fn a_fifth_less(cwnd: u32) -> u32 {
    cwnd - cwnd * (1024 / 5) / 1024
}

#[test]
fn a_mark_costs_a_fifth_even_without_backoff_and_once_a_window() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = with_ecn(&["--target", "60", "--backoff", "0"]);
        mark(&run, &[150, 155, 160], &[]);
        run.send(1000);
        let trace = run.finish();
        let (time, before) = entering(&trace, CaState::Cwr);
        assert!(before.has(transom_event::flags::ECN));
        assert_eq!(trace.count(Kind::Retransmit), 0, "nothing was lost");
        let reductions = trace.of(Kind::CaState).into_iter().filter(enters(CaState::Cwr));
        assert_eq!(reductions.count(), 1, "three marks in one window are one congestion");
        let after = windows_after(&trace, time);
        assert_eq!(after.iter().min(), Some(&a_fifth_less(before.cwnd)), "{}", before.cwnd);
        let thresholds: Vec<u32> = acks(&trace)
            .into_iter()
            .filter(|(event, _)| event.time_ns > time)
            .map(|(_, state)| state.ssthresh)
            .collect();
        assert_eq!(
            thresholds.last(),
            Some(&a_fifth_less(before.cwnd)),
            "growth is linear from there"
        );
    });
}

#[test]
fn a_mark_after_a_loss_is_congestion_though_the_loss_was_none() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = with_ecn(&["--target", "60", "--backoff", "0"]);
        mark(&run, &[175], &[150]);
        run.send(1000);
        let trace = run.finish();
        let (time, before) = entering(&trace, CaState::Recovery);
        assert_eq!(before.ssthresh, before.cwnd, "the loss cost nothing");
        let least = windows_after(&trace, time).into_iter().min().expect("ACKs");
        assert_eq!(least, a_fifth_less(before.cwnd), "the mark did");
    });
}

/// The own device's queue holds one packet: what it refuses is local congestion.
fn with_a_short_queue(path: &Path) {
    path.left.ip("link set wire gso_max_segs 1");
    path.left.tc("qdisc add dev wire root handle 1: htb default 1");
    path.left.tc("class add dev wire parent 1: classid 1:1 htb rate 8mbit");
    path.left.tc("qdisc add dev wire parent 1:1 handle 10: pfifo limit 1");
}

#[test]
fn local_congestion_costs_the_backoff_and_nothing_without_one() {
    needs_probes!();
    on_a_path_in_time(|| {
        let nothing = ["--backoff", "0"];
        for (words, kept_eighths) in [(nothing.as_slice(), 8), (&[], 7)] {
            let mut run = Run::over(with_a_short_queue, &[&["--target", "60"], words].concat());
            run.send(300);
            let trace = run.finish();
            let refused = trace.of(Kind::LocalCongestion);
            let (time, before) = entering(&trace, CaState::Cwr);
            assert!(refused.iter().any(|event| event.time_ns <= time), "by the own queue");
            let kept = (before.cwnd * kept_eighths).div_ceil(8);
            assert_eq!(before.ssthresh, kept, "of {}", before.cwnd);
        }
    });
}

#[test]
fn a_timeout_that_was_none_gives_the_window_back() {
    needs_probes!();
    on_a_path_in_time(|| {
        let mut run = Run::start(&["--target", "50"]);
        run.send(300);
        // All data is kept until the timer has expired, nothing is lost: F-RTO and Eifel find out.
        run.path.until_timeouts(1, Fate::Held);
        run.send(100);
        run.send(300);
        let trace = run.finish();
        assert!(!trace.of(Kind::Rto).is_empty(), "the timer did expire");
        let (time, before) = entering(&trace, CaState::Loss);
        let open = trace
            .of(Kind::CaState)
            .into_iter()
            .find(|event| event.time_ns > time && enters(CaState::Open)(event))
            .expect("Open again");
        let undone = open.state().expect("a state");
        let timeouts = trace.of(Kind::Rto).len();
        assert_eq!(timeouts, 1, "one timeout, which was none");
        assert!(undone.cwnd >= before.cwnd, "{} came back as {}", before.cwnd, undone.cwnd);
    });
}

impl Run {
    /// CLOCK_BOOTTIME, as events have it.
    fn recording_time(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

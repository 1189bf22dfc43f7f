//! The guard, on paths where `steady` does harm: they lose, or they let a queue grow.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use transom_event::{Event, Kind, Reason};
use transom_testbed::tuned::{Policy, Setting, algorithm_of, algorithm_to, tuned};
use transom_testbed::{
    Client, Fate, Namespace, Path, Recording, Towards, Trace, needs_probes, on_a_path_in_time,
    pair, send_and_wait, wait_for,
};

/// A path of 40 ms that takes 20 segments each 40 ms and drops what is more.
fn narrow() -> Path {
    let path = Path::new(Duration::from_millis(20));
    let (mut window, mut passed) = (Instant::now(), 0);
    path.judge(move |towards, segment| {
        if towards == Towards::Left || segment.payload == 0 {
            return Fate::Pass;
        }
        if window.elapsed() > Duration::from_millis(40) {
            (window, passed) = (Instant::now(), 0);
        }
        passed += 1;
        if passed > 20 { Fate::Drop } else { Fate::Pass }
    });
    path
}

/// A path of 40 ms with a bottleneck of one segment a millisecond, and a queue for 150 before it.
fn bloated() -> Path {
    let path = Path::new(Duration::from_millis(20));
    path.bottleneck(Duration::from_millis(1), Duration::from_millis(150));
    path
}

fn policy(after: &str, retry: &str, target: u32) -> String {
    format!(
        "[guard]\nafter = \"{after}\"\nretry = \"{retry}\"\n\
         [[rule]]\nmatch = {{ rtt = \"32ms..\" }}\n\
         action = {{ algorithm = \"steady\", target = {target}, cap = {target}, backoff = 0 }}\n"
    )
}

/// Times of the actions with this reason.
fn times(trace: &Trace, reason: Reason) -> Vec<u64> {
    let actions = trace.of(Kind::Action).into_iter();
    actions.filter(|e| e.action().reason == Some(reason)).map(|e| e.time_ns).collect()
}

#[test]
fn loss_withdraws_it_once_and_the_harm_is_over() {
    needs_probes!();
    on_a_path_in_time(|| {
        let path = narrow();
        let recording = Recording::start(&["--netns", path.left.name()]);
        let policy = Policy::start(path.left.name(), &policy("250ms", "60s", 80));
        let (mut client, mut server) = pair(&path);
        assert_eq!(algorithm_of(&client), "steady");
        send_and_wait(&mut client, &mut server, 3_000_000);
        assert_eq!(algorithm_of(&client), "reno", "withdrawn");
        // A new connection over the same path does not keep it either.
        let (again, _far) = pair(&path);
        wait_for("the guard to know the path", || algorithm_of(&again) == "reno");
        let told = policy.stop();
        assert!(told.contains("the guard saw too much loss"), "{told}");
        let trace = recording.finish();
        let withdrawn = times(&trace, Reason::GuardLoss);
        assert_eq!(withdrawn.len(), 1, "once, no flapping");
        let lost_share = |before: bool| {
            let of = |kind| {
                let events = trace.of(kind);
                events.iter().filter(|e| (e.time_ns < withdrawn[0]) == before).count() as f64
            };
            of(Kind::Retransmit) / of(Kind::Send).max(1.0)
        };
        assert!(lost_share(true) > 2.0 * lost_share(false), "the harm is over");
    });
}

#[test]
fn a_round_trip_that_grows_withdraws_it_and_the_queue_drains() {
    needs_probes!();
    on_a_path_in_time(|| {
        let path = bloated();
        let recording = Recording::start(&["--netns", path.left.name()]);
        let policy = Policy::start(path.left.name(), &policy("250ms", "60s", 180));
        let (mut client, mut server) = pair(&path);
        assert_eq!(algorithm_of(&client), "steady");
        send_and_wait(&mut client, &mut server, 10_000_000);
        assert_eq!(algorithm_of(&client), "reno", "withdrawn");
        let told = policy.stop();
        assert!(told.contains("the guard saw the round trip grow"), "{told}");
        let trace = recording.finish();
        assert_eq!(times(&trace, Reason::GuardLoss), [0u64; 0], "no segment had to be lost for it");
        let withdrawn = times(&trace, Reason::GuardInflation);
        assert_eq!(withdrawn.len(), 1, "once, no flapping");
        let queue_ms = |event: &&transom_event::Event| {
            let state = event.state().expect("an ACK has a state");
            f64::from(state.srtt_us - state.min_rtt_us) / 1e3
        };
        let acks = trace.of(Kind::Ack);
        let at = acks.partition_point(|event| event.time_ns < withdrawn[0]);
        let then = queue_ms(&acks[at]);
        assert!(then >= 30.0, "it was above the bound: {then} ms");
        let longest = acks[at..].iter().map(queue_ms).fold(0.0, f64::max);
        let least = acks[at..].iter().map(queue_ms).fold(f64::MAX, f64::min);
        assert!(least < 0.6 * longest, "reno gives the queue a rest: {least} of {longest} ms");
    });
}

/// 20 Mbit/s, 1 ms, and a queue of 30 kB, which takes 12 ms.
fn short() -> Path {
    let path = Path::new(Duration::from_micros(500));
    path.bottleneck(Duration::from_micros(600), Duration::from_millis(12));
    path
}

/// Every connection gets `steady`, which finds its window, under the guard as it is by default.
const FINDS: &str = "[[rule]]\naction = { algorithm = \"steady\" }\n";

/// The path is a millisecond long, so each segment that waits adds half of it: a factor by which the
/// round trip may grow says nothing there. That a factor of 3 is exceeded at nearly every ACK shows in
/// virtual time (crates/simulator/tests/guard.rs), where no scheduler lengthens the path.
#[test]
fn without_a_target_it_stays_on_a_short_path_that_is_calm() {
    needs_probes!();
    on_a_path_in_time(|| {
        let path = short();
        let policy = Policy::start(path.left.name(), FINDS);
        let (mut client, mut server) = pair(&path);
        assert_eq!(algorithm_of(&client), "steady");
        send_and_wait(&mut client, &mut server, 15_000_000);
        assert_eq!(algorithm_of(&client), "steady", "kept");
        let told = policy.stop();
        assert!(!told.contains("the guard"), "{told}");
    });
}

/// More is dropped than the bound allows. With bounds that allow everything it stayed.
#[test]
fn without_a_target_it_is_withdrawn_where_it_hurts() {
    needs_probes!();
    let path = narrow();
    let policy = Policy::start(path.left.name(), FINDS);
    let (mut client, mut server) = pair(&path);
    assert_eq!(algorithm_of(&client), "steady");
    wait_for("it to be withdrawn", || {
        send_and_wait(&mut client, &mut server, 100_000);
        algorithm_of(&client) != "steady"
    });
    let status = || tuned(&["status", "--json", "--netns", path.left.name()]);
    assert!(status().contains("\"outcome\":\"withdrawn\""), "{}", status());
    let told = policy.stop();
    assert!(told.contains("the guard saw"), "{told}");
    assert_eq!(status(), "", "it is over");
}

/// It takes about a second of sending to see the loss. What follows later than the last withdrawal
/// lasted is no repetition, so that has to be much longer.
#[test]
fn on_a_path_that_it_hurts_it_is_tried_ever_more_rarely() {
    needs_probes!();
    let path = narrow();
    let recording = Recording::start(&["--netns", path.left.name()]);
    let policy = Policy::start(path.left.name(), &policy("125ms", "4s", 80));
    let (mut client, mut server) = pair(&path);
    let is_retry =
        |e: &Event| e.kind == Kind::Action && e.action().reason == Some(Reason::GuardRetry);
    wait_for("it to be tried again twice", || {
        send_and_wait(&mut client, &mut server, 1_000_000);
        recording.so_far().into_iter().filter(is_retry).count() >= 2
    });
    policy.stop();
    let trace = recording.finish();
    // A machine that stands still lets a queue stand, too.
    let mut withdrawn = times(&trace, Reason::GuardLoss);
    withdrawn.extend(times(&trace, Reason::GuardInflation));
    withdrawn.sort_unstable();
    let tried = times(&trace, Reason::GuardRetry);
    assert!(withdrawn.len() >= 2 && tried.len() >= 2, "withdrawn {withdrawn:?}, tried {tried:?}");
    for (least, (from, to)) in [3.0, 6.0].into_iter().zip(withdrawn.iter().zip(&tried)) {
        // The action is told with the connection's next event, which may be a little late.
        let pause = (to - from) as f64 / 1e9;
        assert!(pause >= least, "withdrawn {withdrawn:?}, tried {tried:?}");
    }
}

#[test]
fn what_was_set_by_hand_is_guarded_too_until_it_is_cleared() {
    needs_probes!();
    let path = narrow();
    let words = ["--algorithm", "steady", "--target", "80", "--cap", "80", "--backoff", "0"];
    let setting = Setting::of(path.left.name(), &words);
    let (mut client, mut server) = pair(&path);
    assert_eq!(algorithm_of(&client), "steady");
    wait_for("it to be withdrawn", || {
        send_and_wait(&mut client, &mut server, 100_000);
        algorithm_of(&client) != "steady"
    });
    assert_eq!(algorithm_of(&client), "reno");
    let status = tuned(&["status", "--netns", path.left.name()]);
    assert!(status.contains("as before, because the guard saw "), "{status}");
    setting.clear();
    assert_eq!(tuned(&["status", "--netns", path.left.name()]), "nothing is tuned\n");
}

/// The guard knows whose a connection is that opens while it watches.
#[test]
fn a_program_that_connects_later_keeps_what_was_set_for_it() {
    needs_probes!();
    let host = Namespace::new("host");
    let _listener = host.inside(|| TcpListener::bind("127.0.0.1:7560").unwrap());
    let mut python = Client::start(&host);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", python.pid())).unwrap();
    let words = ["--algorithm", "steady", "--target", "70", "--cap", "100", "--rtt", "0ms.."];
    let words = [&words[..], &["--program", comm.trim()]].concat();
    let _setting = Setting::of(host.name(), &words);
    std::thread::sleep(Duration::from_secs(1));
    python.tell("connect", 7560);
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(algorithm_to(&host, 7560), "steady");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a look does is told by the look after it, and by the end if that comes first.
#[test]
fn what_was_done_last_is_told_before_the_end() {
    needs_probes!();
    let path = short();
    for _ in 0..3 {
        let policy = Policy::start(path.left.name(), FINDS);
        let (client, _server) = pair(&path);
        let told = policy.stop();
        let port = client.local_addr().unwrap().port();
        assert!(told.contains(&format!(":{port} > ")), "{told}");
    }
}

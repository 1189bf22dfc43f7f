//! `transom tune`: what it does to connections, and that it takes all back.

mod testbed;
mod tuned;

use std::net::TcpStream;
use std::time::Duration;

use testbed::{Fate, Path, Recording, Towards, pair, send_and_wait, socket_statistics, wait_for};
use transom_event::{Algorithm, Kind, Reason};
use tuned::{Policy, Setting, algorithm_of, tune, tuned};

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

/// The limit of the window that the monitor sees on this connection now.
fn clamp_of(path: &Path, stream: &TcpStream) -> u32 {
    let port = stream.local_addr().expect("an address").port();
    let trace = Recording::start(&["--netns", path.left.name()]).finish();
    let state =
        trace.of(Kind::State).into_iter().find(|event| event.cookie == trace.cookie_at(port));
    state.expect("existing connections are told").state().expect("a state").clamp
}

#[test]
fn running_connections_and_new_ones_are_set_and_cleared() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let before = clamp_of(&path, &running);
    let setting = Setting::of(path.left.name(), &["--algorithm", "cubic", "--cap", "37"]);
    let (new, _far_too) = pair(&path);
    for stream in [&running, &new] {
        assert_eq!(algorithm_of(stream), "cubic");
        assert_eq!(clamp_of(&path, stream), 37);
    }
    let shown = tuned(&["status", "--netns", path.left.name()]);
    assert!(!shown.contains(" ?: "), "the program is known: {shown}");
    assert_eq!(shown.matches("cubic, cap 37, because it was asked for").count(), 2, "{shown}");
    setting.clear();
    for stream in [&running, &new] {
        assert_eq!(algorithm_of(stream), "reno");
        assert!(clamp_of(&path, stream) >= before.min(0x7fff_ffff));
    }
    assert_eq!(tuned(&["status", "--netns", path.left.name()]), "nothing is tuned\n");
}

#[test]
fn only_connections_that_match_are_touched() {
    needs_root!();
    let path = slow_path();
    let (one, _far) = pair(&path);
    let (other, _far_too) = pair(&path);
    let port = one.peer_addr().unwrap().port().to_string();
    let _setting = Setting::of(path.left.name(), &["--algorithm", "cubic", "--port", &port]);
    assert_eq!((algorithm_of(&one), algorithm_of(&other)), ("cubic".into(), "reno".into()));
}

#[test]
fn programs_are_known_by_their_names_whether_they_connect_before_or_after() {
    needs_root!();
    let path = slow_path();
    let own = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
    let (running, _far) = pair(&path);
    let setting =
        Setting::of(path.left.name(), &["--algorithm", "cubic", "--program", "nobody-has-this"]);
    assert_eq!(algorithm_of(&running), "reno");
    setting.clear();
    let main = std::fs::read_to_string("/proc/self/comm").unwrap();
    let names = format!("{},{}", own.trim(), main.trim());
    let _setting = Setting::of(path.left.name(), &["--algorithm", "cubic", "--program", &names]);
    assert_eq!(algorithm_of(&running), "cubic");
}

#[test]
fn a_new_connection_gets_its_initial_window() {
    needs_root!();
    let path = slow_path();
    let _setting = Setting::of(path.left.name(), &["--initial-window", "23"]);
    let (client, _server) = pair(&path);
    let port = client.peer_addr().unwrap().port();
    assert_eq!(socket_statistics(&path.left, port).get("cwnd").map(String::as_str), Some("23"));
}

const FAR: &str = "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { algorithm = \"steady\", target = 30, cap = 55 }\n";

#[test]
fn a_policy_acts_on_new_and_running_connections_and_ctrl_c_takes_it_back() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let policy = Policy::start(path.left.name(), FAR);
    wait_for("the running connection", || algorithm_of(&running) == "steady");
    let (new, _far_too) = pair(&path);
    assert_eq!(algorithm_of(&new), "steady", "at once, not at the next look");
    std::thread::sleep(Duration::from_millis(500));
    let told = policy.stop();
    assert!(told.contains("steady, cap 55, because it matches now (rule 1)"), "{told}");
    assert!(told.contains("steady, cap 55, because a new connection matches (rule 1)"), "{told}");
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
}

#[test]
fn a_short_path_is_not_given_steady() {
    needs_root!();
    let path = Path::new(Duration::from_millis(1));
    let (running, _far) = pair(&path);
    let policy = Policy::start(path.left.name(), "[[rule]]\naction = { algorithm = \"steady\" }");
    let (new, _far_too) = pair(&path);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
    assert_eq!(policy.stop(), "");
}

#[test]
fn what_a_killed_one_left_is_taken_back_by_the_next() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let policy = Policy::start(path.left.name(), FAR);
    wait_for("the running connection", || algorithm_of(&running) == "steady");
    policy.kill();
    assert_eq!(algorithm_of(&running), "steady", "nobody is there to take it back");
    let next = Policy::start(
        path.left.name(),
        "[[rule]]\nmatch = { port = 1 }\naction = { algorithm = \"cubic\" }",
    );
    assert_eq!(algorithm_of(&running), "reno");
    drop(next);
}

#[test]
fn a_rehearsal_tells_and_changes_nothing() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FAR).unwrap();
    let name = file.path().to_str().unwrap();
    let told = tuned(&["apply", "--dry-run", "--netns", path.left.name(), name]);
    assert!(told.starts_with("1 connections would be changed now:\n"), "{told}");
    assert!(told.contains("steady, cap 55"), "{told}");
    assert_eq!(algorithm_of(&running), "reno");
}

#[test]
fn a_wrong_policy_is_refused_before_anything_is_done() {
    needs_root!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("{FAR}[[rule]]\nmatch = {{ port = 0 }}\naction = {{ cap = 9 }}\n");
    std::fs::write(file.path(), text).unwrap();
    let name = file.path().to_str().unwrap();
    let output = tune(&["apply", "--netns", path.left.name(), name]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("line 5: port 0: give 1 to 65535"), "{said}");
    assert_eq!(algorithm_of(&running), "reno");
}

#[test]
fn two_do_not_tune_the_same_connections() {
    needs_root!();
    let path = slow_path();
    let policy = Policy::start(path.left.name(), FAR);
    let output = tune(&["set", "--netns", path.left.name(), "--cap", "20"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    let pid = policy.child.id();
    assert!(said.contains(&format!("process {pid} tunes these connections")), "{said}");
}

#[test]
fn each_action_is_an_event_of_the_trace_with_its_rule_and_reason() {
    needs_root!();
    let path = slow_path();
    let recording = Recording::start(&["--netns", path.left.name()]);
    let policy = Policy::start(path.left.name(), FAR);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 100_000);
    policy.stop();
    send_and_wait(&mut client, &mut server, 100_000);
    let trace = recording.finish();
    let actions: Vec<_> = trace.of(Kind::Action).iter().map(|event| event.action()).collect();
    let told: Vec<_> = actions.iter().map(|a| (a.algorithm, a.cap, a.rule, a.reason)).collect();
    assert_eq!(
        told,
        [
            (Algorithm::Steady, 55, 1, Some(Reason::NewConnection)),
            (Algorithm::Before, 0, 0, Some(Reason::Cleared)),
        ]
    );
    let algorithms = trace.of(Kind::Algorithm).into_iter();
    let names: Vec<_> =
        algorithms.map(|event| event.open().expect("its body").algorithm()).collect();
    assert_eq!(names, ["steady", "reno"]);
}

/// A path that takes 20 segments each 40 ms and drops what is more.
fn narrow(path: &Path) {
    let (mut window, mut passed) = (std::time::Instant::now(), 0);
    path.judge(move |towards, segment| {
        if towards == Towards::Left || segment.payload == 0 {
            return Fate::Pass;
        }
        if window.elapsed() > Duration::from_millis(40) {
            (window, passed) = (std::time::Instant::now(), 0);
        }
        passed += 1;
        if passed > 20 { Fate::Drop } else { Fate::Pass }
    });
}

const HARMFUL: &str = "
[guard]
after = \"1s\"
retry = \"60s\"
[[rule]]
match = { rtt = \"32ms..\" }
action = { algorithm = \"steady\", target = 80, backoff = 0 }
";

#[test]
fn the_guard_withdraws_steady_from_a_path_on_which_it_does_harm() {
    needs_root!();
    let path = slow_path();
    narrow(&path);
    let recording = Recording::start(&["--netns", path.left.name()]);
    let policy = Policy::start(path.left.name(), HARMFUL);
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
    let actions = trace.of(Kind::Action);
    let withdrawn: Vec<_> =
        actions.iter().filter(|event| event.action().reason == Some(Reason::GuardLoss)).collect();
    assert_eq!(withdrawn.len(), 1, "once, no flapping");
    let at = withdrawn[0].time_ns;
    let lost_share = |before: bool| {
        let of = |kind| {
            trace.of(kind).iter().filter(|event| (event.time_ns < at) == before).count() as f64
        };
        of(Kind::Retransmit) / of(Kind::Send).max(1.0)
    };
    assert!(lost_share(true) > 2.0 * lost_share(false), "the harm is over");
}

#[test]
fn where_there_is_no_bpf_routes_are_the_lever() {
    needs_root!();
    let path = slow_path();
    let words =
        ["set", "--backend", "route", "--netns", path.left.name(), "--remote", "10.77.0.2/32"];
    let mut all = words.to_vec();
    all.extend(["--algorithm", "cubic", "--initial-window", "9"]);
    let said = tuned(&all);
    assert!(said.contains("congctl cubic initcwnd 9"), "{said}");
    let (client, _server) = pair(&path);
    assert_eq!(algorithm_of(&client), "cubic");
    let port = client.peer_addr().unwrap().port();
    assert_eq!(socket_statistics(&path.left, port).get("cwnd").map(String::as_str), Some("9"));
    tuned(&["clear", "--backend", "route", "--netns", path.left.name()]);
    assert!(!path.left.ip("route").contains("84"), "nothing is left");
    let (later, _far) = pair(&path);
    assert_eq!(algorithm_of(&later), "reno");
}

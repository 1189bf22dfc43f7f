//! `transom tune`: what it does to connections, and that it takes all back.

use std::collections::VecDeque;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use transom_event::{Algorithm, Kind, Reason, State, flags};
use transom_testbed::tuned::{Policy, Setting, algorithm_of, tune, tuned};
use transom_testbed::{
    Namespace, Path, Recording, needs_probes, own_comm, pair, send_and_wait, set_algorithm,
    set_option, socket_statistics, wait_for,
};

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

/// The limit of the window that the monitor sees on this connection now.
fn clamp_of(path: &Path, stream: &TcpStream) -> u32 {
    state_of(path, stream).clamp
}

/// What the monitor sees of this connection now.
fn state_of(path: &Path, stream: &TcpStream) -> State {
    let port = stream.local_addr().expect("an address").port();
    let trace = Recording::start(&["--netns", path.left.name()]).finish();
    let state =
        trace.of(Kind::State).into_iter().find(|event| event.cookie == trace.cookie_at(port));
    *state.expect("existing connections are reported").state().expect("a state")
}

/// What `tune` says when it refuses these words; it must, and leave nothing in force.
fn refusal(path: &Path, words: &[&str]) -> String {
    let output = tune(words);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{words:?} passed: {said}");
    assert_eq!(tuned(&["status", "--netns", path.left.name()]), "nothing is tuned\n");
    said
}

#[test]
fn running_connections_and_new_ones_are_set_and_cleared() {
    needs_probes!();
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
    needs_probes!();
    let path = slow_path();
    let (one, _far) = pair(&path);
    let (other, _far_too) = pair(&path);
    let port = one.peer_addr().unwrap().port().to_string();
    let _setting = Setting::of(path.left.name(), &["--algorithm", "cubic", "--port", &port]);
    assert_eq!((algorithm_of(&one), algorithm_of(&other)), ("cubic".into(), "reno".into()));
}

#[test]
fn programs_are_known_by_their_names_whether_they_connect_before_or_after() {
    needs_probes!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let setting =
        Setting::of(path.left.name(), &["--algorithm", "cubic", "--program", "nobody-has-this"]);
    assert_eq!(algorithm_of(&running), "reno");
    setting.clear();
    let _setting =
        Setting::of(path.left.name(), &["--algorithm", "cubic", "--program", &own_comm()]);
    assert_eq!(algorithm_of(&running), "cubic");
    let (new, _far_too) = pair(&path);
    assert_eq!(algorithm_of(&new), "cubic", "whatever its thread is called");
}

#[test]
fn a_new_connection_gets_its_initial_window() {
    needs_probes!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let words = ["--initial-window", "23"];
    let _setting = Setting::of(path.left.name(), &words);
    let said = tuned(&[&["set", "--netns", path.left.name()], &words[..]].concat());
    assert_eq!(said, "every new connection that matches; those that run have begun already\n");
    let port = running.peer_addr().unwrap().port();
    assert_eq!(socket_statistics(&path.left, port)["cwnd"], "10");
    let (client, _server) = pair(&path);
    let port = client.peer_addr().unwrap().port();
    assert_eq!(socket_statistics(&path.left, port).get("cwnd").map(String::as_str), Some("23"));
}

/// The kernel's own first window is ten segments (RFC 6928).
#[test]
fn a_new_connection_begins_within_its_limit() {
    needs_probes!();
    let path = slow_path();
    let window = |stream: &TcpStream| {
        let port = stream.peer_addr().unwrap().port();
        let cwnd = socket_statistics(&path.left, port).get("cwnd").cloned();
        cwnd.expect("a window").parse::<u32>().expect("segments")
    };
    let within = |cap: &str| {
        let _setting = Setting::of(path.left.name(), &["--cap", cap]);
        window(&pair(&path).0)
    };
    assert_eq!((within("4"), within("30"), window(&pair(&path).0)), (4, 10, 10));
}

const FAR: &str = "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { algorithm = \"steady\", target = 30, cap = 55 }\n";

#[test]
fn a_policy_acts_on_new_and_running_connections_and_ctrl_c_takes_it_back() {
    needs_probes!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let policy = Policy::start(path.left.name(), FAR);
    wait_for("the running connection", || algorithm_of(&running) == "steady");
    let (new, _far_too) = pair(&path);
    assert_eq!(algorithm_of(&new), "steady", "at once, not at the next look");
    std::thread::sleep(Duration::from_millis(500));
    let told = policy.stop();
    assert!(told.contains("steady, target 30, cap 55, because it matches now (rule 1)"), "{told}");
    let new_one = "steady, target 30, cap 55, because a new connection matches (rule 1)";
    assert!(told.contains(new_one), "{told}");
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
}

#[test]
fn a_short_path_is_not_given_a_target() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let (running, _far) = pair(&path);
    let rule = "[[rule]]\naction = { algorithm = \"steady\", target = 30 }";
    let policy = Policy::start(path.left.name(), rule);
    let (new, _far_too) = pair(&path);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
    assert_eq!(policy.stop(), "");
}

#[test]
fn what_a_killed_one_left_is_taken_back_by_the_next() {
    needs_probes!();
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
    needs_probes!();
    let path = slow_path();
    let (running, _far) = pair(&path);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), FAR).unwrap();
    let name = file.path().to_str().unwrap();
    let told = tuned(&["apply", "--dry-run", "--netns", path.left.name(), name]);
    assert!(told.starts_with("1 connection would be changed now:\n"), "{told}");
    assert!(told.contains("steady, target 30, cap 55"), "{told}");
    assert_eq!(algorithm_of(&running), "reno");
    // What `apply` would be refused for is told, too.
    let rehearsal = ["apply", "--dry-run", "--netns", path.left.name(), name];
    let notes = || String::from_utf8_lossy(&tune(&rehearsal).stderr).into_owned();
    assert_eq!(notes(), "");
    let _setting = Setting::of(path.left.name(), &["--port", "1", "--cap", "20"]);
    assert!(notes().contains("`transom tune clear` first"), "{}", notes());
}

#[test]
fn a_wrong_policy_is_refused_before_anything_is_done() {
    needs_probes!();
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
    needs_probes!();
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
    needs_probes!();
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

/// State of the sender at each ACK, in order.
fn states(trace: &transom_testbed::Trace) -> Vec<transom_event::State> {
    trace.of(Kind::Ack).iter().map(|event| *event.state().expect("a state")).collect()
}

/// The kernel writes the threshold when a clamp is set (`bpf_sol_tcp_setsockopt`).
#[test]
fn a_cap_takes_the_threshold_neither_up_nor_away() {
    needs_probes!();
    let path = slow_path();
    // After an idle time the kernel would set it, too (`tcp_cwnd_restart`).
    path.left.sysctl("net/ipv4/tcp_slow_start_after_idle", "0");
    let (mut client, mut server) = pair(&path);
    path.lose(|n| n == 100);
    send_and_wait(&mut client, &mut server, 600_000);
    path.heal();
    let recording = Recording::start(&["--netns", path.left.name()]);
    send_and_wait(&mut client, &mut server, 30_000);
    for cap in ["400", "5"] {
        let setting = Setting::of(path.left.name(), &["--cap", cap]);
        // Under a wide cap all would leave at once, perhaps in a moment in which no probe runs.
        for _ in 0..20 {
            send_and_wait(&mut client, &mut server, 20_000);
        }
        setting.clear();
        send_and_wait(&mut client, &mut server, 30_000);
    }
    let states = states(&recording.finish());
    let own = states[0].ssthresh;
    assert!((5..400).contains(&own), "congestion has set it: {own}");
    let under = |cap: u32| states.iter().filter(move |state| state.clamp == cap);
    assert!(under(400).count() > 5 && under(5).count() > 5);
    assert!(under(400).all(|state| state.ssthresh == own), "a wide cap starts no slow start");
    let narrow: Vec<u32> = under(5).map(|state| state.ssthresh).collect();
    assert!(narrow.iter().all(|&ssthresh| ssthresh == 5), "{own}: {narrow:?}");
    assert_eq!(states.last().expect("ACKs").ssthresh, own, "it is back");
}

/// A clamp that was not set cannot be put back as ~0: `TCP_BPF_SNDCWND_CLAMP` takes an int above 0.
#[test]
fn after_clear_no_clamp_limits_the_window() {
    needs_probes!();
    let path = slow_path();
    let (mut client, mut server) = pair(&path);
    let recording = Recording::start(&["--netns", path.left.name()]);
    let setting = Setting::of(path.left.name(), &["--cap", "12"]);
    send_and_wait(&mut client, &mut server, 600_000);
    setting.clear();
    send_and_wait(&mut client, &mut server, 3_000_000);
    let states = states(&recording.finish());
    let capped = states.iter().filter(|state| state.clamp_set() == Some(12)).map(|s| s.cwnd);
    assert!(capped.skip(10).all(|cwnd| cwnd <= 12));
    let last = states.last().expect("ACKs");
    assert_eq!(last.clamp_set(), None, "nobody calls it a limit: {}", last.clamp);
    assert!(last.cwnd > 100, "and it is none: {}", last.cwnd);
}

/// A limit that somebody else had set (a locked metric of the route) is exactly as before.
#[test]
fn a_clamp_that_was_there_before_comes_back_exactly() {
    needs_probes!();
    let path = slow_path();
    path.left.ip("route replace 10.77.0.2/32 dev wire cwnd lock 77");
    // The kernel takes the limit from its cache of metrics, which a connection fills when it ends.
    path.left.sysctl("net/ipv4/tcp_no_metrics_save", "0");
    let (mut first, mut server) = pair(&path);
    send_and_wait(&mut first, &mut server, 20_000);
    drop((first, server));
    wait_for("the cache", || path.left.ip("tcp_metrics show").contains("10.77.0.2"));
    let (client, _server) = pair(&path);
    assert_eq!(clamp_of(&path, &client), 77);
    let setting = Setting::of(path.left.name(), &["--cap", "20"]);
    assert_eq!(clamp_of(&path, &client), 20);
    setting.clear();
    assert_eq!(clamp_of(&path, &client), 77);
}

#[test]
fn where_there_is_no_bpf_routes_are_the_lever() {
    needs_probes!();
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

/// Those that open while the walk gives connections back are behind it, and nothing gave them back.
#[test]
fn connections_that_open_while_a_policy_ends_have_their_own_algorithm() {
    needs_probes!();
    let host = Namespace::new("host");
    for end in 0..3 {
        let policy =
            Policy::start(host.name(), "[[rule]]\nmatch = {}\naction = { algorithm = \"cubic\" }");
        let ended = Arc::new(AtomicBool::new(false));
        let opened = Arc::new(AtomicU64::new(0));
        let (until, opens) = (Arc::clone(&ended), Arc::clone(&opened));
        let opening = host.spawn(move || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut last = VecDeque::new();
            while !until.load(Ordering::Relaxed) {
                opens.fetch_add(1, Ordering::Relaxed);
                let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                last.push_back([client, listener.accept().unwrap().0]);
                if last.len() > 450 {
                    last.pop_front();
                }
                std::thread::sleep(Duration::from_micros(300));
            }
            last
        });
        wait_for("connections", || opened.load(Ordering::Relaxed) > 200);
        policy.stop();
        ended.store(true, Ordering::Relaxed);
        let last = opening.join().unwrap();
        let tuned = last.iter().flatten().filter(|it| algorithm_of(it) != "reno").count();
        assert_eq!(tuned, 0, "of {} ends of connections, at end {end}", 2 * last.len());
    }
}

#[test]
fn set_is_checked_as_a_rule_of_a_policy_is() {
    needs_probes!();
    let path = slow_path();
    let (_client, _server) = pair(&path);
    let ports: Vec<String> = (1..=17).map(|port| port.to_string()).collect();
    let prefixes: Vec<String> = (1..=17).map(|n| format!("10.0.0.{n}")).collect();
    let (ports, prefixes) = (ports.join(","), prefixes.join(","));
    for (words, said) in [
        (["--port", &ports, "--cap", "30"], "--port: port has 17 values: give 1 to 16"),
        (["--remote", &prefixes, "--cap", "30"], "--remote: remote has 17 values: give 1 to 16"),
        (["--program", "a,b,c,d,e", "--cap", "30"], "--program: program has 5 values: give 1 to 4"),
        (["--program", "sixteen-letters-", "--cap", "30"], "write sixteen-letters"),
        (["--target", "30", "--cap", "50"], "--target: target is a parameter of steady"),
        (["--backoff", "0", "--cap", "50"], "--backoff: backoff is a parameter of steady"),
        (["--gain", "2", "--cap", "50"], "--gain: gain is a parameter of steady"),
        (["--port", "0", "--cap", "50"], "--port: port 0: give 1 to 65535"),
        (["--port", "nonsuch", "--cap", "50"], "neither a port from 1 to 65535 nor a service"),
        (["--algorithm", "vegas", "--cap", "1"], "--cap: cap = 1: give 2 to 1000000"),
        (["--cap", "-5", "--port", "7"], "--cap: cap = -5: give 2 to 1000000"),
        (["--initial-window", "-1", "--port", "7"], "initial_window = -1: give 1 to 255"),
        (["--algorithm", "steady", "--target", "-3"], "--target: target = -3: give 2 to 1000000"),
        (["--algorithm", "steady", "--backoff", "-0.1"], "'-0.1' is no share such as 1/8"),
        (["--algorithm", "steady", "--gain", "-2"], "--gain: gain = -2: give segments"),
    ] {
        let mut all = vec!["set", "--netns", path.left.name()];
        all.extend(words);
        let refused = refusal(&path, &all);
        assert!(refused.contains(said), "{words:?}: {refused}");
    }
    // The names of options and ports that other commands know are known here.
    let _setting = Setting::of(path.left.name(), &["--port", "https,7", "--cc", "cubic"]);
    let status = tuned(&["status", "--netns", path.left.name()]);
    assert!(status.contains("cubic: port 443 or 7"), "{status}");
}

#[test]
fn a_target_by_hand_has_the_floor_of_32_ms_too() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let (running, _far) = pair(&path);
    let aimed = ["--algorithm", "steady", "--target", "30"];
    let setting = Setting::of(path.left.name(), &aimed);
    let (new, _far_too) = pair(&path);
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
    setting.clear();
    for words in [[&aimed[..], &["--rtt", "0ms.."]].concat(), aimed[..2].to_vec()] {
        let setting = Setting::of(path.left.name(), &words);
        let both = (algorithm_of(&running), algorithm_of(&new));
        assert_eq!(both, ("steady".into(), "steady".into()), "{words:?}");
        setting.clear();
    }
}

#[test]
fn after_bbr_no_connection_stays_paced_and_the_threshold_is_back() {
    needs_probes!();
    let path = slow_path();
    path.left.sysctl("net/ipv4/tcp_slow_start_after_idle", "0");
    let mut all: Vec<_> = (0..4).map(|_| pair(&path)).collect();
    path.lose(|n| n == 60);
    let (client, server) = &mut all[0];
    send_and_wait(client, server, 400_000);
    path.heal();
    let before = state_of(&path, &all[0].0);
    assert!(before.ssthresh < 1000, "congestion has set it: {}", before.ssthresh);
    let setting = Setting::of(path.left.name(), &["--algorithm", "bbr"]);
    for (client, server) in &mut all {
        send_and_wait(client, server, 100_000);
        assert!(state_of(&path, client).has(flags::PACED), "bbr paces");
    }
    setting.clear();
    for (client, _) in &all {
        assert_eq!(algorithm_of(client), "reno");
        assert!(!state_of(&path, client).has(flags::PACED), "reno does not");
    }
    assert_eq!(state_of(&path, &all[0].0).ssthresh, before.ssthresh);
}

#[test]
fn who_was_paced_before_stays_paced() {
    needs_probes!();
    let path = slow_path();
    let (client, _server) = pair(&path);
    set_algorithm(&client, "bbr");
    let setting = Setting::of(path.left.name(), &["--algorithm", "cubic"]);
    assert_eq!(algorithm_of(&client), "cubic");
    setting.clear();
    assert_eq!(algorithm_of(&client), "bbr");
    assert!(state_of(&path, &client).has(flags::PACED));
}

#[test]
fn a_rate_that_a_program_limits_meanwhile_stays_limited() {
    needs_probes!();
    let path = slow_path();
    let (mut client, mut server) = pair(&path);
    let setting = Setting::of(path.left.name(), &["--algorithm", "steady", "--target", "60"]);
    wait_for("the running connection", || algorithm_of(&client) == "steady");
    set_option(&client, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, 200_000_u32);
    setting.clear();
    assert_eq!(algorithm_of(&client), "reno");
    assert!(state_of(&path, &client).has(flags::PACED));
    let begun = Instant::now();
    send_and_wait(&mut client, &mut server, 300_000);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(1), "300 kB at 200 kB/s: {took:?}");
}

#[test]
fn what_a_program_has_chosen_since_is_respected() {
    needs_probes!();
    let path = slow_path();
    let (client, _server) = pair(&path);
    let setting = Setting::of(path.left.name(), &["--algorithm", "bbr", "--cap", "40"]);
    set_algorithm(&client, "cubic");
    let shown = tuned(&["status", "--netns", path.left.name()]);
    assert!(shown.contains("; the program has since chosen cubic itself"), "{shown}");
    assert!(!shown.contains("refused"), "{shown}");
    setting.clear();
    assert_eq!(algorithm_of(&client), "cubic");
    assert!(clamp_of(&path, &client) > 1_000_000, "but the limit was ours");
}

//! What a policy can ask for: each key on real connections, those that are
//! there when the policy comes and those that come after it.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::time::Duration;

use transom_event::{Algorithm, Kind, Reason};
use transom_testbed::tuned::{Policy, algorithm_of, algorithm_to};
use transom_testbed::{
    Cgroup, Client, Namespace, Path, Recording, TwoPaths, Wire, multipath_listener,
    multipath_stream, needs_probes, own_comm, pair, pair_at, send_and_wait, wait_for,
};

/// Some looks of the policy (ten a second): what it was to do, it has done.
const LOOKS: Duration = Duration::from_millis(500);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn cubic_for(matching: &str) -> String {
    format!("[[rule]]\nmatch = {{ {matching} }}\naction = {{ algorithm = \"cubic\" }}\n")
}

/// All of them get the algorithm, or keep it: what comes late is waited for, what does not come has
/// had time to.
fn have_algorithm<const N: usize>(streams: [&TcpStream; N], expected: &str, when: &str) {
    let found = || streams.map(algorithm_of);
    if expected == "cubic" {
        wait_for(when, || found().iter().all(|it| it == expected));
    }
    std::thread::sleep(LOOKS);
    assert_eq!(found(), [expected; N], "{when}");
}

/// A namespace with listeners on these ports.
fn listening(ports: std::ops::Range<u16>) -> (Namespace, Vec<TcpListener>) {
    let namespace = Namespace::new("match");
    let listeners = namespace
        .inside(|| ports.map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap()).collect());
    (namespace, listeners)
}

/// These connections and no others have cubic.
fn only_these(namespace: &Namespace, ports: std::ops::Range<u16>, cubic: &[u16]) {
    let has_cubic = |port: &u16| algorithm_to(namespace, *port) == "cubic";
    let found = || -> Vec<u16> { ports.clone().filter(has_cubic).collect() };
    wait_for("the policy", || found() == cubic);
    std::thread::sleep(LOOKS);
    assert_eq!(found(), cubic);
}

#[test]
fn a_cgroup_and_what_is_below_it() {
    needs_probes!();
    let cgroup = Cgroup::new("tune");
    let (namespace, _listeners) = listening(7500..7506);
    let [mut inside, mut below, mut outside] = [(); 3].map(|()| Client::start(&namespace));
    cgroup.take("", &inside);
    cgroup.take("below", &below);
    inside.tell("connect", 7500);
    below.tell("connect", 7501);
    outside.tell("connect", 7502);
    let matching = format!("cgroup = \"{}\"", cgroup.path(""));
    let policy = Policy::start(namespace.name(), &cubic_for(&matching));
    inside.tell("connect", 7503);
    below.tell("connect", 7504);
    outside.tell("connect", 7505);
    only_these(&namespace, 7500..7506, &[7500, 7501, 7503, 7504]);
    policy.stop();
    only_these(&namespace, 7500..7506, &[]);
    let matching = format!("cgroup = \"{}\"", cgroup.path("below"));
    let _policy = Policy::start(namespace.name(), &cubic_for(&matching));
    only_these(&namespace, 7500..7506, &[7501, 7504]);
}

/// How long what a policy names may be gone without a word.
const NOTICED: Duration = Duration::from_millis(1500);

#[test]
fn a_cgroup_that_comes_back_under_its_path() {
    needs_probes!();
    let cgroup = Cgroup::new("restarted");
    let (namespace, _listeners) = listening(7590..7593);
    let matching = format!("cgroup = \"{}\"", cgroup.path("below"));
    let mut policy = Policy::start(namespace.name(), &cubic_for(&matching));
    {
        let mut before = Client::start(&namespace);
        cgroup.take("below", &before);
        before.tell("connect", 7590);
        only_these(&namespace, 7590..7591, &[7590]);
    }
    wait_for("the end of the service", || cgroup.is_empty("below"));
    cgroup.restart(NOTICED);
    let [mut after, mut outside] = [(); 2].map(|()| Client::start(&namespace));
    cgroup.take("below", &after);
    after.tell("connect", 7591);
    outside.tell("connect", 7592);
    only_these(&namespace, 7591..7593, &[7591]);
    policy.signal(libc::SIGINT);
    let said = policy.said();
    let gone = "rule 1 waits for what it names: line 1: there is no cgroup";
    assert!(said.contains(gone) && said.contains("rule 1: what it names is there again"), "{said}");
}

#[test]
fn an_interface_that_comes_back_under_its_name() {
    needs_probes!();
    let wire = Wire::new();
    let over_wire = |port| pair_at(&wire.sender, &wire.receiver, address("10.78.2.1"), port);
    let _policy = Policy::start(wire.sender.name(), &cubic_for("interface = \"eth0\""));
    wire.replug();
    let _new = over_wire(7595);
    let _within = pair_at(&wire.sender, &wire.sender, address("127.0.0.1"), 7596);
    only_these(&wire.sender, 7595..7597, &[7595]);
}

#[test]
fn the_program_that_connected() {
    needs_probes!();
    let (namespace, _listeners) = listening(7510..7514);
    let mut python = Client::start(&namespace);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", python.pid())).unwrap();
    let connect = |port| {
        namespace.inside(move || TcpStream::connect(("127.0.0.1", port)).expect("it listens"))
    };
    python.tell("connect", 7510);
    let _running = connect(7511);
    let matching = format!("program = \"{}\"", comm.trim());
    let _policy = Policy::start(namespace.name(), &cubic_for(&matching));
    python.tell("connect", 7512);
    let _new = connect(7513);
    only_these(&namespace, 7510..7514, &[7510, 7512]);
}

/// Connections with cubic of those that `ss` lists by these words.
fn with_cubic(namespace: &Namespace, words: [&str; 2]) -> usize {
    let sockets = namespace.output("ss", &[&["-Htni"][..], &words].concat());
    sockets.split_whitespace().filter(|word| *word == "cubic").count()
}

/// The first is connected by the program itself, the other ones by the kernel.
#[test]
fn the_program_whose_subflows_of_multipath_tcp_they_are() {
    needs_probes!();
    let hosts = TwoPaths::new();
    let at = |port| SocketAddrV4::new(Ipv4Addr::new(10, 81, 0, 2), port);
    let connected = |port| {
        let listener = hosts.server.inside(|| multipath_listener(at(port)));
        let mut client = hosts.client.inside(|| multipath_stream(at(port)));
        client.write_all(&[7; 20_000]).unwrap();
        wait_for("the second subflow", || hosts.subflows(port) == 2);
        (client, listener)
    };
    let with_cubic = |port: u16| with_cubic(&hosts.client, ["dport", &format!("= :{port}")]);
    let _running = connected(7514);
    let matching = format!("program = \"{}\"", own_comm());
    let _policy = Policy::start(hosts.client.name(), &cubic_for(&matching));
    let _new = connected(7515);
    wait_for("the running ones", || with_cubic(7514) == 2);
    wait_for("the new ones", || with_cubic(7515) == 2);
}

/// As a server in Go has it by default. Whoever connects, with Multipath TCP or without.
#[test]
fn the_program_that_listens_with_multipath_tcp_since_before_the_policy() {
    needs_probes!();
    let hosts = TwoPaths::new();
    let at = SocketAddrV4::new(Ipv4Addr::new(10, 81, 0, 2), 7516);
    let listener = hosts.server.inside(|| multipath_listener(at));
    let matching = format!("program = \"{}\"", own_comm());
    let _policy = Policy::start(hosts.server.name(), &cubic_for(&matching));
    let mut client = hosts.client.inside(|| multipath_stream(at));
    client.write_all(&[7; 20_000]).unwrap();
    wait_for("the second subflow", || hosts.subflows(at.port()) == 2);
    let plain = hosts.client.inside(|| TcpStream::connect(at).unwrap());
    let _accepted = [listener.accept().unwrap(), listener.accept().unwrap()];
    wait_for("both subflows and the plain one", || {
        with_cubic(&hosts.server, ["sport", "= :7516"]) == 3
    });
    drop((client, plain));
}

#[test]
fn the_interface_that_the_route_leaves_through() {
    needs_probes!();
    let wire = Wire::new();
    let over_wire = |port| pair_at(&wire.sender, &wire.receiver, address("10.78.2.1"), port);
    let within = |port| pair_at(&wire.sender, &wire.sender, address("127.0.0.1"), port);
    let _running = [over_wire(7520), within(7521)];
    let _policy = Policy::start(wire.sender.name(), &cubic_for("interface = \"eth0\""));
    let _new = [over_wire(7522), within(7523)];
    only_these(&wire.sender, 7520..7524, &[7520, 7522]);
}

#[test]
fn ports_of_either_end() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let to = |port| pair_at(&path.left, &path.right, address("10.77.0.2"), port);
    let (running, other) = (to(7530), to(7531));
    let own = other.0.local_addr().unwrap().port();
    let matching = format!("port = [7530, 7532, {own}]");
    let _policy = Policy::start(path.left.name(), &cubic_for(&matching));
    let (new, _other_new) = (to(7532), to(7533));
    assert_eq!(algorithm_of(&new.0), "cubic", "before the first look");
    wait_for("the running one", || algorithm_of(&running.0) == "cubic");
    only_these(&path.left, 7530..7534, &[7530, 7531, 7532]);
}

#[test]
fn prefixes_of_the_other_end() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    let to = |host: &str, port| pair_at(&path.left, &path.right, address(host), port);
    let _running = [to("10.77.0.2", 7540), to("fd77::2", 7541)];
    let matching = "remote = [\"fd77::/16\", \"10.77.0.0/31\"]";
    let _policy = Policy::start(path.left.name(), &cubic_for(matching));
    let _new = [to("10.77.0.2", 7542), to("fd77::2", 7543)];
    only_these(&path.left, 7540..7544, &[7541, 7543]);
}

#[test]
fn a_range_of_round_trips() {
    needs_probes!();
    // A busy machine delays a handshake by tens of milliseconds.
    let (near, far) = (Path::new(Duration::from_millis(1)), Path::new(Duration::from_millis(120)));
    for (path, matching, expected) in [
        (&near, "rtt = \"..80ms\"", "cubic"),
        (&near, "rtt = \"200ms..400ms\"", "reno"),
        (&far, "rtt = \"..80ms\"", "reno"),
        (&far, "rtt = \"200ms..400ms\"", "cubic"),
    ] {
        let (running, _far_end) = pair(path);
        let policy = Policy::start(path.left.name(), &cubic_for(matching));
        let (new, _other_far_end) = pair(path);
        have_algorithm([&running, &new], expected, matching);
        policy.stop();
    }
}

#[test]
fn how_many_terminals_share_the_access_point() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(1));
    for (words, expected) in
        [(["--terminals", "3"].as_slice(), "cubic"), (&["--terminals", "5"], "reno"), (&[], "reno")]
    {
        let (running, _far_end) = pair(&path);
        let policy =
            Policy::start_with(path.left.name(), &cubic_for("terminals = \"2..4\""), words);
        let (new, _other_far_end) = pair(&path);
        have_algorithm([&running, &new], expected, &format!("{words:?}"));
        policy.stop();
    }
}

const WHEN_UNSTABLE: &str = "
[stability]
falls = 2
within = \"4s\"
[[rule]]
match = { stability = \"unstable\" }
action = { algorithm = \"steady\", target = 30, backoff = 0 }
";

/// Losses halve a reno window until two falls were seen; what is lost under `steady` costs nothing.
#[test]
fn an_unstable_connection_until_it_is_stable() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(20));
    let recording = Recording::start(&["--netns", path.left.name()]);
    let policy_text = format!("hold = \"5s\"{WHEN_UNSTABLE}");
    let policy = Policy::start(path.left.name(), &policy_text);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 200_000);
    assert_eq!(algorithm_of(&client), "reno", "nothing has fallen yet");
    path.lose(|n| [20, 300, 600, 900, 1200].contains(&n));
    send_and_wait(&mut client, &mut server, 2_500_000);
    wait_for("it to be unstable", || algorithm_of(&client) == "steady");
    let (quiet, _far_end) = pair(&path);
    wait_for("it to be stable", || algorithm_of(&client) == "reno");
    assert_eq!(algorithm_of(&quiet), "reno", "it never fell");
    send_and_wait(&mut client, &mut server, 10_000);
    policy.stop();
    let trace = recording.finish();
    let actions = trace.of(Kind::Action).into_iter().map(|event| event.action());
    let told: Vec<_> = actions.map(|action| (action.algorithm, action.reason)).collect();
    assert_eq!(
        told,
        [(Algorithm::Steady, Some(Reason::Unstable)), (Algorithm::Before, Some(Reason::RuleOver)),]
    );
}

#[test]
fn a_stable_connection_until_it_is_unstable() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(20));
    let text = format!("hold = \"1s\"\n{}", cubic_for("stability = \"stable\""));
    let _policy = Policy::start(path.left.name(), &text);
    let (mut client, mut server) = pair(&path);
    assert_eq!(algorithm_of(&client), "cubic");
    path.lose(|n| [60, 400, 800, 1200].contains(&n));
    send_and_wait(&mut client, &mut server, 3_000_000);
    wait_for("it to be unstable", || algorithm_of(&client) == "reno");
}

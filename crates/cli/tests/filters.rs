//! Filters: exactly the right connections, decided in the kernel.

use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use transom_event::Kind;
use transom_testbed::{
    Cgroup, Client, Namespace, Path, Recording, Trace, Wire, needs_probes, pair, pair_at,
    send_and_wait, transom,
};

const FAST: Duration = Duration::from_millis(1);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Connections from left to right, over IPv4 and IPv6, on four ports.
fn traffic(path: &Path) {
    for (to, port) in
        [("10.77.0.2", 7401), ("10.77.0.2", 7402), ("fd77::2", 7403), ("fd77::2", 7404)]
    {
        let (mut client, mut server) = pair_at(&path.left, &path.right, address(to), port);
        send_and_wait(&mut client, &mut server, 1000);
    }
}

fn recorded(path: &Path, filters: &[&str]) -> Trace {
    let recording = Recording::start(filters);
    traffic(path);
    recording.finish()
}

#[test]
fn ports_and_prefixes_of_either_end() {
    needs_probes!();
    let path = Path::new(FAST);
    let here = ["--netns", path.left.name()];
    let ports = |filters: &[&str]| recorded(&path, &[&here, filters].concat()).remote_ports();
    assert_eq!(ports(&[]), [7401, 7402, 7403, 7404]);
    assert_eq!(ports(&["--port", "7401,7404"]), [7401, 7404]);
    assert_eq!(ports(&["--remote-port", "7402"]), [7402]);
    assert!(ports(&["--local-port", "7402"]).is_empty(), "that is the other end's");
    assert_eq!(ports(&["--remote", "10.77.0.0/24"]), [7401, 7402]);
    assert_eq!(ports(&["--remote", "10.77.0.2/31"]), [7401, 7402]);
    assert!(ports(&["--remote", "10.77.0.0/31"]).is_empty());
    assert_eq!(ports(&["--local", "fd77::/16"]), [7403, 7404]);
    assert_eq!(ports(&["--remote", "10.77.0.2,fd77::2", "--port", "7402,7403"]), [7402, 7403]);
    assert!(ports(&["--remote", "::/0", "--local", "0.0.0.0/0"]).is_empty(), "all must hold");
}

#[test]
fn a_network_namespace_by_name_and_path() {
    needs_probes!();
    let path = Path::new(FAST);
    let file = path.right.path();
    for (netns, inode) in
        [(path.left.name(), path.left.inode()), (file.to_str().unwrap(), path.right.inode())]
    {
        let trace = recorded(&path, &["--netns", netns]);
        assert_eq!(trace.connections().len(), 4);
        assert!(trace.connections().values().all(|open| open.netns == inode));
    }
}

#[test]
fn the_interface_of_the_route() {
    needs_probes!();
    let wire = Wire::new();
    let recording = Recording::start(&["--netns", wire.sender.name(), "--interface", "eth0"]);
    let over_wire = pair_at(&wire.sender, &wire.receiver, address("10.78.2.1"), 7405);
    let within = pair_at(&wire.sender, &wire.sender, address("127.0.0.1"), 7406);
    let trace = recording.finish();
    drop((over_wire, within));
    assert_eq!(trace.remote_ports(), [7405]);
}

/// Connections over loopback, which has the same number in every namespace.
#[test]
fn an_interface_is_one_of_the_own_namespace_where_none_is_named() {
    needs_probes!();
    let (own, other) = (Namespace::new("own"), Namespace::new("other"));
    let loopback = |namespace| pair_at(namespace, namespace, address("127.0.0.1"), 7407);
    let running = (loopback(&own), loopback(&other));
    let recording = Recording::start_inside(&own, &["--interface", "lo"]);
    let new = (loopback(&own), loopback(&other));
    let trace = recording.finish();
    drop((running, new));
    let namespaces: Vec<u32> = trace.connections().values().map(|open| open.netns).collect();
    assert_eq!(namespaces, [own.inode(); 4], "both ends, of before and after");
}

/// A namespace with listeners on these ports.
fn listening(ports: std::ops::Range<u16>) -> (Namespace, Vec<std::net::TcpListener>) {
    let namespace = Namespace::new("filters");
    let listeners = namespace.inside(|| {
        ports.map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).unwrap()).collect()
    });
    (namespace, listeners)
}

#[test]
fn a_process_with_and_without_its_children() {
    needs_probes!();
    let (namespace, _listeners) = listening(7410..7414);
    let (mut wanted, mut other) = (Client::start(&namespace), Client::start(&namespace));
    let pid = wanted.pid();
    let alone = Recording::start(&["--pid", &pid]);
    let family = Recording::start(&["--pid", &pid, "--children"]);
    wanted.tell("connect", 7410);
    other.tell("connect", 7411);
    wanted.tell("fork", 7412);
    other.tell("fork", 7413);
    assert_eq!(alone.finish().remote_ports(), [7410]);
    assert_eq!(family.finish().remote_ports(), [7410, 7412]);
}

#[test]
fn a_cgroup_and_what_is_below_it() {
    needs_probes!();
    let cgroup = Cgroup::new("filter");
    let (namespace, _listeners) = listening(7420..7423);
    let mut inside = Client::start(&namespace);
    let mut below = Client::start(&namespace);
    let mut outside = Client::start(&namespace);
    cgroup.take("", &inside);
    cgroup.take("below", &below);
    let recording = Recording::start(&["--cgroup", &cgroup.path("")]);
    let only_below = Recording::start(&["--cgroup", &cgroup.path("below")]);
    inside.tell("connect", 7420);
    below.tell("connect", 7421);
    outside.tell("connect", 7422);
    assert_eq!(recording.finish().remote_ports(), [7420, 7421]);
    assert_eq!(only_below.finish().remote_ports(), [7421]);
}

#[test]
fn a_unit_is_its_cgroup_and_what_is_below_it() {
    needs_probes!();
    let cgroup = Cgroup::new("filter.service");
    let (namespace, _listeners) = listening(7424..7426);
    let mut below = Client::start(&namespace);
    let mut outside = Client::start(&namespace);
    cgroup.take("below", &below);
    let name = format!("transom-{}-filter", std::process::id());
    let recording = Recording::start(&["--unit", &name]);
    below.tell("connect", 7424);
    outside.tell("connect", 7425);
    assert_eq!(recording.finish().remote_ports(), [7424]);
}

/// A transfer with losses, recorded at three rates at once.
#[test]
fn a_rate_thins_out_acks_and_sends_but_no_error_event() {
    needs_probes!();
    let path = Path::new(Duration::from_millis(10));
    let start = |rate| Recording::start(&["--netns", path.left.name(), "--rate", rate]);
    let (every, each_rtt, each_5ms) = (start("all"), start("rtt"), start("5ms"));
    let (mut client, mut server) = pair(&path);
    path.lose(|n| [15, 60, 61, 200].contains(&n));
    send_and_wait(&mut client, &mut server, 1_500_000);
    transom_testbed::settle(&server);
    let (every, each_rtt, each_5ms) = (every.finish(), each_rtt.finish(), each_5ms.finish());
    for thin in [&each_rtt, &each_5ms] {
        for kind in Kind::ALL {
            if [Kind::Ack, Kind::Send].contains(kind) {
                assert!(thin.count(*kind) < every.count(*kind), "{kind} is thinned out");
                assert!(thin.count(*kind) > 0, "{kind}");
            } else {
                assert_eq!(thin.count(*kind), every.count(*kind), "{kind} is not thinned out");
            }
        }
    }
    assert!(every.count(Kind::Retransmit) >= 4);
    for kind in [Kind::Ack, Kind::Send] {
        no_more_often(&each_5ms, kind, |_, _| 5_000_000);
        no_more_often(&each_rtt, kind, |from, to| least_srtt_ns(&every, from, to));
    }
}

/// Reads so fast that the window never closes, which would be an event: nothing is copied.
fn discard(stream: &TcpStream, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        let (none, flags) = (std::ptr::null_mut(), libc::MSG_TRUNC);
        // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer (tcp(7)).
        let read = unsafe { libc::recv(stream.as_raw_fd(), none, left.min(1 << 24), flags) };
        assert!(read > 0, "{}", std::io::Error::last_os_error());
        left -= read as usize;
    }
}

/// The sequence numbers wrap once, and no `ack` and `send` is due by the time.
#[test]
fn a_rate_leaves_the_byte_counts_exact_however_much_passes_within_a_period() {
    needs_probes!();
    const BYTES: usize = 5 << 30;
    let here = Namespace::new("here");
    here.ip("link set lo up");
    let mut recording = Recording::start(&["--netns", here.name(), "--rate", "1h"]);
    let (mut client, server) = pair_at(&here, &here, address("127.0.0.1"), 7430);
    std::thread::scope(|scope| {
        scope.spawn(|| discard(&server, BYTES));
        let chunk = vec![7; 1 << 20];
        (0..BYTES / chunk.len()).for_each(|_| client.write_all(&chunk).unwrap());
    });
    transom_testbed::settle(&client);
    drop((client, server));
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait().0, 0);
    let explained =
        transom().args(["explain", "--all", "--json"]).arg(recording.file()).output().unwrap();
    let explained: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    let most = |what: &str| {
        let connections = explained.as_array().unwrap().iter();
        connections.map(|it| it["summary"][what].as_u64().unwrap()).max()
    };
    assert_eq!(["sent", "acked", "received"].map(most), [Some(BYTES as u64); 3], "{explained}");
}

/// Each event of this kind comes at least one period after the one before it. An event is decided
/// on before it is written, so that one pair proves nothing: the periods are added up, and an event
/// may be written late by one of them.
fn no_more_often(trace: &Trace, kind: Kind, period_ns: impl Fn(u64, u64) -> u64) {
    let opened = trace.of(Kind::Open)[0].time_ns;
    let times: Vec<u64> = trace.of(kind).iter().map(|event| event.time_ns).collect();
    let mut earliest = opened;
    for two in times.windows(2) {
        let period = period_ns(two[0], two[1]);
        earliest = earliest.max(two[0].saturating_sub(period)) + period;
        assert!(two[1] >= earliest, "{kind}: {} ns too early", earliest - two[1]);
    }
}

/// The least that the smoothed RTT was at any moment between these times. It is compared before an
/// ACK has changed it, but recorded before or after, depending on the tier: the neighbours count.
fn least_srtt_ns(every: &Trace, from: u64, to: u64) -> u64 {
    let states = every.events.iter().filter_map(|it| Some((it.time_ns, it.state()?.srtt_us)));
    let known: Vec<(u64, u32)> = states.filter(|&(_, srtt_us)| srtt_us > 0).collect();
    let first = known.partition_point(|&(time, _)| time < from).saturating_sub(1);
    let last = known.partition_point(|&(time, _)| time <= to).min(known.len() - 1);
    let least = known[first..=last].iter().map(|&(_, srtt_us)| srtt_us).min();
    u64::from(least.expect("a state")) * 1000
}

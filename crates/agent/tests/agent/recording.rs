//! Level 2 on the real kernel: what is chosen has its events in a trace, and nothing else has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use chrono::DateTime;
use transom_event::{Event, Kind, Origin};
use transom_raw_stream::Reader;
use transom_spool::{AgentEvent, Chosen, Connection, Direction, RowKind};
use transom_testbed::{
    Cgroup, Client, Fate, Namespace, Path, SYN, fresh_port, needs, pair, pair_at, receive_all,
    send_and_wait, set_option, wait_for, where_all_is_seen,
};

use crate::running::{Agent, Spool, own_metric};
use crate::{connect_once, exchange, is_connect, listener, one};

/// No reason but those that a test names.
const QUIET: &str = "level = 2\nlook_seconds = 1\n[recording]\ntimeouts = 0\nretransmitted = 0\n\
                     handshake_ms = 0\npeer_limited = 0\nrefusals = 0\n";

/// A sample is of the whole machine: the connections of other tests are to leave places for ours.
const PLACES: &str = "connections = 16384";

pub fn quiet_but(more: &str) -> String {
    let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
    let said: Vec<String> = more.lines().map(key).collect();
    let places = said.iter().any(|key| key == "sample").then_some(PLACES);
    let rest = QUIET.lines().chain(places).filter(|line| !said.contains(&key(line)));
    format!("{}\n{more}\n", rest.collect::<Vec<_>>().join("\n"))
}

/// Connections of this port are chosen.
pub fn watched(port: u16) -> String {
    format!("[[recording.watch]]\nport = {port}\nuntil = 2100-01-01T00:00:00Z")
}

/// The events of each connection of these hosts, in their order.
pub fn events(spool: &Spool, hosts: &[&Namespace]) -> BTreeMap<u64, Vec<Event>> {
    let mut all: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for path in spool.traces() {
        // The newest may have no header yet.
        let Ok(mut reader) = Reader::open(File::open(path).unwrap()) else { continue };
        while let Some(block) = reader.next_block().unwrap() {
            for raw in block {
                let event = Event::try_from(&raw).unwrap();
                all.entry(event.cookie).or_default().push(event);
            }
        }
    }
    let inodes: Vec<u32> = hosts.iter().map(|host| host.inode()).collect();
    let is_theirs =
        |events: &Vec<Event>| events[0].open().is_some_and(|open| inodes.contains(&open.netns));
    all.retain(|_, events| is_theirs(events));
    all
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

/// Ports of the connections of this side that were chosen.
fn chosen_ports(rows: &[Connection], direction: &str) -> Vec<u16> {
    let of =
        rows.iter().filter(|row| row.chosen != Chosen::No && row.direction.name() == direction);
    let client =
        |row: &Connection| if direction == "connect" { row.local_port } else { row.remote_port };
    let mut ports: Vec<u16> = of.map(client).collect();
    ports.sort_unstable();
    ports
}

/// Whether the probes are there is seen by what they write.
fn attached(spool: &Spool, host: &Namespace) {
    let (server, _) = listener(host);
    wait_for("the probes", || {
        connect_once(host, &server, 10, 10);
        !events(spool, &[host]).is_empty()
    });
}

#[test]
fn a_connection_of_the_sample_has_all_its_events_and_both_ends_are_of_it() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, &quiet_but("sample = 0.5"));
    attached(&spool, &host);
    let (server, at) = listener(&host);
    for _ in 0..60 {
        connect_once(&host, &server, 3000, 50_000);
    }
    let mut rows = Vec::new();
    wait_for("a row of each end", || {
        rows = rows_until_now(&spool, &host);
        rows.retain(|row| row.kind == RowKind::End && row.service == at.port());
        rows.len() == 120
    });
    agent.stop();
    let (here, there) = (chosen_ports(&rows, "connect"), chosen_ports(&rows, "accept"));
    assert_eq!(here, there, "one connection, one choice");
    assert!((10..=50).contains(&here.len()), "{} of 60", here.len());
    let events = events(&spool, &[&host]);
    for row in &rows {
        let recorded = events.get(&row.cookie).map(|events| kinds(events)).unwrap_or_default();
        if row.chosen == Chosen::No {
            assert!(recorded.is_empty() && row.level == 1, "{row:#?}");
            continue;
        }
        assert_eq!((row.chosen, row.level), (Chosen::Sample, 2));
        assert_eq!((recorded[0], recorded.last()), (Kind::Open, Some(&Kind::Close)));
        assert!(recorded.contains(&Kind::Send) && recorded.contains(&Kind::Ack), "{recorded:?}");
        let open = events[&row.cookie][0].open().copied().unwrap();
        let connects = row.direction == Direction::Connect;
        let origin = if connects { Origin::Connect } else { Origin::Accept };
        assert_eq!(events[&row.cookie][0].aux[0], origin as u32, "seen from its handshake on");
        assert_eq!(Some(open.program()), row.program.as_deref().map(str::to_owned));
        let sent = events[&row.cookie].iter().filter(|event| event.kind == Kind::Send);
        let sent: u64 = sent.map(|event| u64::from(event.aux[0])).sum();
        assert_eq!(sent, row.bytes_sent, "every byte was seen leaving");
    }
}

/// Connections whose addresses and ports are the same each time; which of their services are chosen,
/// on either host.
fn chosen_services(sample: &str) -> [Vec<u16>; 2] {
    let (spool, path) = (Spool::new(), Path::new(Duration::ZERO));
    let only = "/proc/sys/net/ipv4/ip_local_port_range";
    path.left.inside(|| std::fs::write(only, "30001 30001").unwrap());
    let agent = Agent::start(&spool.path, &quiet_but(sample));
    for port in 20_000..20_040 {
        let (mut client, mut server) =
            pair_at(&path.left, &path.right, [10, 77, 0, 2].into(), port);
        exchange(&mut client, &mut server, 10, 10);
    }
    let rows = [&path.left, &path.right].map(|host| ended_rows(&spool, host, 40));
    agent.stop();
    rows.map(|rows| {
        let chosen = rows.iter().filter(|row| row.chosen == Chosen::Sample);
        let mut services: Vec<u16> = chosen.map(|row| row.service).collect();
        services.sort_unstable();
        services
    })
}

#[test]
fn agents_with_one_key_choose_the_same_connections_and_with_another_key_others() {
    needs!("root", "linux-5.19");
    let with = |key: &str| chosen_services(&format!("sample = 0.5\nsample_key = '{key}'"));
    let key = "00112233445566778899aabbccddeeff";
    let [left, right] = with(key);
    assert_eq!(left, right, "both hosts");
    assert!((5..=35).contains(&left.len()), "{} of 40", left.len());
    assert_eq!(with(key), [left.clone(), left.clone()], "two agents that never met");
    assert_ne!(with("ffeeddccbbaa99887766554433221100")[0], left);
    // Without a key each agent has its own.
    assert_ne!(chosen_services("sample = 0.5")[0], left);
}

/// The one connection made here that was chosen.
fn chosen_one(rows: &[Connection], why: Chosen) -> &Connection {
    one(rows, |row| row.chosen == why && row.kind == RowKind::End && is_connect(row))
}

#[test]
fn a_connection_in_trouble_is_recorded_from_then_on_and_what_led_there_comes_with_a_row() {
    needs!("root", "linux-5.19");
    where_all_is_seen(a_connection_in_trouble);
}

fn a_connection_in_trouble() {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let agent = Agent::start(&spool.path, &quiet_but("timeouts = 2"));
    let (mut fine, mut fine_server) = pair(&path);
    send_and_wait(&mut fine, &mut fine_server, 10_000);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 10_000);
    path.until_timeouts(2, Fate::Drop);
    send_and_wait(&mut client, &mut server, 20_000);
    path.heal();
    wait_for("its trace", || {
        send_and_wait(&mut client, &mut server, 100_000);
        !events(&spool, &[&path.left]).is_empty()
    });
    drop((client, server, fine, fine_server));
    ended_rows(&spool, &path.left, 2);
    settle_rows(agent, &spool);
    let rows = spool.connections(path.left.inode());
    let row = chosen_one(&rows, Chosen::Timeouts);
    let before = rows.iter().find(|row| row.chosen == Chosen::Timeouts).unwrap();
    assert_eq!((before.cookie, before.kind), (row.cookie, RowKind::Interim));
    let prelude = before.last_decisions.as_deref().unwrap();
    // In a row, unless the machine was busy.
    assert!(prelude.matches("timeout ").count() >= 2, "{prelude}");
    let events = events(&spool, &[&path.left]);
    assert_eq!(events.keys().collect::<Vec<_>>(), [&row.cookie], "and no other connection");
    let recorded = &events[&row.cookie];
    let existing = Origin::Existing as u32;
    assert_eq!((recorded[0].kind, recorded[0].aux[0]), (Kind::Open, existing));
    assert!(kinds(recorded).contains(&Kind::Ack));
    assert_eq!(recorded.last().map(|event| event.kind), Some(Kind::Close));
}

/// It is accepted by the process that listens.
#[test]
fn a_connection_that_a_child_serves_is_the_childs_in_its_trace() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let agent = Agent::start(&spool.path, &quiet_but("sample = 1.0"));
    attached(&spool, &host);
    let program = "
import os, socket
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
stream, _ = listener.accept()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    while data := stream.recv(100):
        stream.sendall(data)
    os._exit(0)
stream.close()
os.wait()
";
    let mut python = host.command("/usr/bin/python3");
    let mut python = python.args(["-c", program]).stdout(Stdio::piped()).spawn().unwrap();
    let mut numbers = BufReader::new(python.stdout.take().unwrap()).lines();
    let mut number = || -> u32 { numbers.next().unwrap().unwrap().parse().unwrap() };
    let at = (Ipv4Addr::LOCALHOST, number() as u16);
    let mut client = host.inside(|| TcpStream::connect(at).unwrap());
    let child = number();
    for _ in 0..5 {
        client.write_all(&[7; 100]).unwrap();
        receive_all(&mut client, 100);
    }
    drop(client);
    assert!(python.wait().unwrap().success());
    settle_rows(agent, &spool);
    let rows = spool.connections(host.inode());
    let row = one(&rows, |row| row.service == at.1 && !is_connect(row));
    let recorded = &events(&spool, &[&host])[&row.cookie];
    let owners: Vec<_> = recorded.iter().filter(|event| event.kind == Kind::Owner).collect();
    let hands: Vec<_> = owners.iter().map(|event| (event.aux[0], event.tgid)).collect();
    assert_eq!(hands, [(python.id(), child)]);
}

/// Ends the agent: what it wrote is whole then.
fn settle_rows(agent: Agent, spool: &Spool) {
    agent.stop();
    assert!(!spool.path.join("journal.raw").exists());
}

#[test]
fn each_trigger_chooses_the_connection_that_it_is_about() {
    needs!("root", "linux-5.19");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(2)));
    let more = "retransmitted = 0.02\nhandshake_ms = 900\npeer_limited = 0.5\n\
                condition = \"service = 7 and bytes_acked > 5000\"";
    let agent = Agent::start(&spool.path, &quiet_but(more));
    // The control: an agent whose bounds are above all that happens here.
    let (calm_spool, above) = (
        Spool::new(),
        "retransmitted = 0.9\nhandshake_ms = 60000\n\
        peer_limited = 1\ntimeouts = 99\nrefusals = 99\n\
        condition = \"service = 7 and bytes_acked > 500000000\"",
    );
    let calm = Agent::start(&calm_spool.path, &quiet_but(above));
    let of_port = |port: u16| pair_at(&path.left, &path.right, [10, 77, 0, 2].into(), port);
    // Nothing is the matter with it.
    let (mut fine, mut fine_server) = of_port(5);
    send_and_wait(&mut fine, &mut fine_server, 200_000);
    // Each tenth segment is lost.
    let (mut lossy, mut lossy_server) = of_port(6);
    path.lose(|n| n % 10 == 9);
    send_and_wait(&mut lossy, &mut lossy_server, 200_000);
    path.heal();
    // As the condition says.
    let (mut named, mut named_server) = of_port(7);
    send_and_wait(&mut named, &mut named_server, 10_000);
    // The other program does not read.
    let (mut stuck, stuck_server) = of_port(8);
    set_option(&stuck, libc::SOL_SOCKET, libc::SO_SNDBUF, 200_000);
    stuck.write_all(&[0; 150_000]).unwrap();
    // The SYN is lost once, and retransmitted after a second.
    let mut lost = false;
    path.judge(move |_, segment| {
        let is_first = segment.flags & SYN != 0 && !std::mem::replace(&mut lost, true);
        if is_first { Fate::Drop } else { Fate::Pass }
    });
    let slow = of_port(9);
    path.heal();
    wait_for("the walk's choices", || {
        let rows = rows_until_now(&spool, &path.left);
        let of = |why: Chosen| rows.iter().any(|row| row.chosen == why);
        of(Chosen::PeerLimited) && of(Chosen::Condition)
    });
    drop((fine, fine_server, lossy, lossy_server, named, named_server, stuck, stuck_server, slow));
    let rows = ended_rows(&spool, &path.left, 5);
    let calm_rows = ended_rows(&calm_spool, &path.left, 5);
    agent.stop();
    calm.stop();
    assert!(calm_rows.iter().all(|row| row.chosen == Chosen::No), "{calm_rows:#?}");
    assert!(events(&calm_spool, &[&path.left]).is_empty());
    let why = |port: u16| one(&rows, |row| row.service == port).chosen;
    assert_eq!(why(5), Chosen::No);
    assert_eq!(why(6), Chosen::Retransmitted);
    assert_eq!(why(7), Chosen::Condition);
    assert_eq!(why(8), Chosen::PeerLimited);
    assert_eq!(why(9), Chosen::Handshake);
}

#[test]
fn a_connection_that_the_own_device_refuses_is_chosen_and_one_beside_it_is_not() {
    needs!("root", "linux-5.19");
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    // A device whose own ring holds two packets, and is not read for a while.
    path.left.ip("link set wire txqueuelen 2");
    path.left.tc("qdisc replace dev wire root noqueue");
    let agent = Agent::start(&spool.path, &quiet_but("refusals = 3"));
    let (off_spool, off) = (Spool::new(), quiet_but(""));
    let off = Agent::start(&off_spool.path, &off);
    let (mut fine, mut fine_server) = pair_at(&path.left, &path.right, [10, 77, 0, 2].into(), 5);
    send_and_wait(&mut fine, &mut fine_server, 1000);
    let (mut client, mut server) = pair_at(&path.left, &path.right, [10, 77, 0, 2].into(), 6);
    path.judge(|_, segment| {
        if segment.payload > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        Fate::Pass
    });
    wait_for("the choice", || {
        send_and_wait(&mut client, &mut server, 200_000);
        rows_until_now(&spool, &path.left).iter().any(|row| row.chosen == Chosen::Device)
    });
    path.heal();
    drop((fine, fine_server, client, server));
    let rows = ended_rows(&spool, &path.left, 2);
    let off_rows = ended_rows(&off_spool, &path.left, 2);
    agent.stop();
    off.stop();
    let why = |rows: &[Connection], port: u16| one(rows, |row| row.service == port).chosen;
    assert_eq!((why(&rows, 6), why(&rows, 5)), (Chosen::Device, Chosen::No));
    assert_eq!((why(&off_rows, 6), why(&off_rows, 5)), (Chosen::No, Chosen::No));
    let before = rows_until_now(&spool, &path.left);
    let choice = before.iter().find(|row| row.chosen == Chosen::Device).unwrap();
    let prelude = choice.last_decisions.as_deref().unwrap_or_default();
    assert!(prelude.contains("local_congestion"), "what led there: {prelude}");
}

#[test]
fn a_unit_is_watched_until_the_time_has_come() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let (port, cgroup) = (fresh_port(), Cgroup::new("watch.service"));
    let (mut inside, mut outside) = (Client::start(&host), Client::start(&host));
    cgroup.take("", &inside);
    let now = || UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    let config = |until: i64| {
        let unit = format!("transom-{}-watch.service", std::process::id());
        let until = DateTime::from_timestamp(until, 0).unwrap().format("%Y-%m-%dT%H:%M:%SZ");
        let watch = format!("[[recording.watch]]\nunit = \"{unit}\"\nuntil = {until}");
        format!("metrics = \"127.0.0.1:{port}\"\n{}", quiet_but(&watch))
    };
    let agent = Agent::start(&spool.path, &config(now() + 3600));
    let recorded = || own_metric(port, "transom_agent_recorded_connections");
    let connect = |client: &mut Client| {
        client.tell("connect", at.port());
        server.accept().unwrap().0
    };
    let mut kept = vec![connect(&mut inside), connect(&mut outside)];
    wait_for("that of the unit to be recorded", || recorded() == Some(1.0));
    wait_for("its events", || {
        kept.iter_mut().for_each(|server| server.write_all(b"y").unwrap());
        !events(&spool, &[&host]).is_empty()
    });
    let until = now() + 3;
    agent.reconfigure(&spool.path, &config(until));
    agent.wait_for_words("read again");
    wait_for("the end of the watch", || recorded() == Some(0.0));
    assert!(now() >= until, "not before its time");
    kept.push(connect(&mut inside));
    drop((inside, outside, kept));
    let is_one = |row: &Connection| row.direction == Direction::Connect;
    let mut rows = ended_rows(&spool, &host, 6);
    agent.stop();
    rows.retain(is_one);
    // Each CPU takes cookies from a store of its own: their order is not that of the connections.
    rows.sort_by_key(|row| row.time.0 - row.duration_us.unwrap() as i64);
    let chosen: Vec<Chosen> = rows.iter().map(|row| row.chosen).collect();
    assert_eq!(chosen, [Chosen::Watch, Chosen::No, Chosen::No], "{rows:#?}");
    assert_eq!(events(&spool, &[&host]).keys().copied().collect::<Vec<_>>(), [rows[0].cookie]);
}

#[test]
fn a_watch_list_holds_until_its_time() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let (other, _) = listener(&host);
    let mut early = host.inside(|| TcpStream::connect(at).unwrap());
    let (mut early_server, _) = server.accept().unwrap();
    let until = |seconds: i64| {
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let time = DateTime::from_timestamp(now + seconds, 0).unwrap();
        let time = time.format("%Y-%m-%dT%H:%M:%SZ");
        format!("[[recording.watch]]\nport = {}\nuntil = {time}", at.port())
    };
    let agent = Agent::start(&spool.path, &quiet_but(&until(3600)));
    // One that was there is chosen by the walk, one that begins at once.
    wait_for("events of the early one", || {
        send_and_wait(&mut early, &mut early_server, 100);
        !events(&spool, &[&host]).is_empty()
    });
    connect_once(&host, &server, 100, 100);
    connect_once(&host, &other, 100, 100);
    agent.reconfigure(&spool.path, &quiet_but(&until(-1)));
    agent.wait_for_words("read again");
    let number = |spool: &Spool| events(spool, &[&host]).values().map(Vec::len).sum::<usize>();
    // The walk ends the choice, and from then on nothing more is written.
    let (mut before, mut quiet) = (0, 0);
    wait_for("the end of the watch", || {
        send_and_wait(&mut early, &mut early_server, 100);
        std::thread::sleep(Duration::from_millis(1200));
        let now = number(&spool);
        quiet = if now == std::mem::replace(&mut before, now) { quiet + 1 } else { 0 };
        quiet == 3
    });
    connect_once(&host, &server, 100, 100);
    drop((early, early_server));
    settle_rows(agent, &spool);
    assert_eq!(number(&spool), before);
    let mut rows = spool.connections(host.inode());
    rows.retain(|row| row.kind == RowKind::End && row.direction != Direction::Accept);
    let (early, later): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.direction == Direction::Existing);
    assert!(early.len() == 2 && early.iter().all(|row| row.chosen == Chosen::Watch));
    let later: Vec<(bool, Chosen)> =
        later.iter().map(|row| (row.service == at.port(), row.chosen)).collect();
    assert_eq!(later, [(true, Chosen::Watch), (false, Chosen::No), (true, Chosen::No)]);
}

#[test]
fn traces_have_prefixes_for_addresses_unless_all_is_asked_for() {
    needs!("root", "linux-5.19");
    for (setting, left, right) in
        [("", "10.77.0.0", "10.77.0.0"), ("addresses = 'full'\n", "10.77.0.1", "10.77.0.2")]
    {
        let (spool, path) = (Spool::new(), Path::new(Duration::ZERO));
        let config = format!("{setting}{}", quiet_but("sample = 1.0"));
        let agent = Agent::start(&spool.path, &config);
        wait_for("a trace", || {
            let (mut client, mut server) = pair(&path);
            send_and_wait(&mut client, &mut server, 10);
            !events(&spool, &[&path.left]).is_empty()
        });
        agent.stop();
        let events = events(&spool, &[&path.left, &path.right]);
        let opens = events.values().flatten().filter_map(|event| event.open());
        let ends = opens.map(|open| open.endpoints());
        let mut seen: Vec<String> = ends
            .flat_map(|ends| [ends.local.ip(), ends.remote.ip()])
            .map(|ip| ip.to_string())
            .collect();
        seen.sort();
        seen.dedup();
        let mut expected = vec![left, right];
        expected.dedup();
        assert_eq!(seen, expected);
    }
}

/// Name and events of each file of events.
fn recorded(spool: &Spool) -> Vec<(String, u64)> {
    let of = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut events = 0;
        // The newest may have no header yet.
        let Ok(mut reader) = Reader::open(File::open(&path).unwrap()) else { return (name, 0) };
        while let Some(block) = reader.next_block().unwrap() {
            events += block.len() as u64;
        }
        (name, events)
    };
    spool.traces().into_iter().map(of).collect()
}

#[test]
fn the_agents_own_table_tells_of_each_file_of_events_even_of_one_that_a_killed_agent_left() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let config = quiet_but("sample = 1.0");
    let agent = Agent::start(&spool.path, &config);
    attached(&spool, &host);
    agent.kill();
    let left = recorded(&spool);
    assert_eq!(left.len(), 1);
    let agent = Agent::start(&spool.path, &config);
    wait_for("events of the next agent", || {
        let (server, _) = listener(&host);
        connect_once(&host, &server, 10, 10);
        recorded(&spool).iter().skip(1).any(|(_, events)| *events > 0)
    });
    agent.stop();
    let rows = spool.agent().into_iter().filter(|row| row.event == AgentEvent::Trace);
    let told: Vec<(String, u64)> =
        rows.map(|row| (row.trace.unwrap().to_string(), row.events)).collect();
    assert_eq!(told, recorded(&spool));
    assert_eq!(told[0], left[0], "as far as it was written");
    for path in spool.traces() {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "the group may read what is finished: {}", path.display());
    }
}

#[test]
fn over_the_budget_recordings_end_first_and_the_rows_say_so() {
    needs!("root", "linux-5.19");
    let (spool, host) = (Spool::new(), Namespace::new("host"));
    let (server, at) = listener(&host);
    let config = format!("cpu = 0.0001\n{}", quiet_but("sample = 1.0"));
    let agent = Agent::start(&spool.path, &config);
    let mut client = host.inside(|| TcpStream::connect(at).unwrap());
    let (mut accepted, _) = server.accept().unwrap();
    wait_for("the average of a minute", || {
        send_and_wait(&mut client, &mut accepted, 200_000);
        at_level_1(&spool)
    });
    let said = agent.wait_for_words("level 1 from now on");
    assert!(said.contains("the budget is 0.0001 of one CPU"), "{said}");
    drop((client, accepted));
    connect_once(&host, &server, 10, 10);
    agent.stop();
    let rows = spool.connections(host.inode());
    let is_end = |row: &&Connection| is_connect(row) && row.kind == RowKind::End;
    let touched = one(&rows, |row| is_end(row) && row.bytes_acked > 1000);
    assert_eq!((touched.chosen, touched.level_changed), (Chosen::Sample, 1));
    let after = one(&rows, |row| is_end(row) && row.bytes_acked < 1000);
    assert_eq!((after.chosen, after.level, after.level_changed), (Chosen::No, 1, 0));
}

/// The agent has said of itself that recordings are given up.
fn at_level_1(spool: &Spool) -> bool {
    spool.agent_until_now().iter().any(|row| row.level <= 1)
}

/// The rows of so many connections of this host that ended.
fn ended_rows(spool: &Spool, host: &Namespace, number: usize) -> Vec<Connection> {
    let mut rows = Vec::new();
    wait_for("a row of each", || {
        rows = rows_until_now(spool, host);
        rows.retain(|row| row.kind == RowKind::End);
        rows.len() == number
    });
    rows
}

/// Those in files, and those that are in none yet.
fn rows_until_now(spool: &Spool, host: &Namespace) -> Vec<Connection> {
    let mut rows = spool.waiting(host.inode());
    rows.extend(spool.connections(host.inode()));
    rows
}

//! What a sender does when all goes well: its numbers are the program's, the
//! socket's own, and those of `ss`.

use std::net::IpAddr;
use std::time::Duration;

use transom_event::{Event, Kind, fields};
use transom_testbed::{
    Path, Recording, Stream, Trace, get_option, hides_process_one, needs_probes, pair, pair_at,
    send_and_wait, set_algorithm, settle, socket_statistics, wait_for,
};

const DELAY: Duration = Duration::from_millis(10);

fn port(stream: &Stream) -> u16 {
    stream.local_addr().unwrap().port()
}

#[test]
fn the_bytes_sent_and_acknowledged_are_those_the_program_wrote() {
    needs_probes!();
    for (to, bytes) in [("10.77.0.2", 1_234_567u32), ("fd77::2", 765_432)] {
        let path = Path::new(DELAY);
        let recording = Recording::start(&["--netns", path.left.name()]);
        let to: IpAddr = to.parse().unwrap();
        let (mut client, mut server) = pair_at(&path.left, &path.right, to, 7500);
        send_and_wait(&mut client, &mut server, bytes as usize);
        settle(&client);
        let trace = recording.finish();
        let sends = trace.of(Kind::Send);
        let sent: u32 = sends.iter().map(|event| fields::sent(event.aux).0).sum();
        assert_eq!(sent, bytes);
        // Nothing was lost here, so each byte is acknowledged once; also where the
        // kernel joined acknowledgments that had to wait for the socket.
        assert_eq!(trace.count(Kind::Retransmit), 0);
        let acknowledged: u32 =
            trace.of(Kind::Ack).iter().map(|e| fields::acked_bytes(e.aux)).sum();
        assert_eq!(acknowledged, bytes);
        let mss = u32::from(sends[0].state().unwrap().mss);
        let segments: u32 = sends.iter().map(|event| fields::sent(event.aux).1).sum();
        let fewest = bytes.div_ceil(mss);
        assert!((fewest..=fewest + sends.len() as u32).contains(&segments));
    }
}

fn last_state<'a>(events: &[&'a Event]) -> &'a transom_event::State {
    events.iter().rev().find_map(|event| event.state()).unwrap()
}

#[test]
fn at_rest_the_state_is_the_one_ss_shows() {
    needs_probes!();
    let path = Path::new(DELAY);
    let (mut client, mut server) = pair_at(&path.left, &path.right, [10, 77, 0, 2].into(), 7501);
    path.lose(|n| n == 40);
    send_and_wait(&mut client, &mut server, 300_000);
    settle(&client);
    // The iterator reads the socket as it is now, as ss does.
    let trace = Recording::start(&["--netns", path.left.name()]).finish();
    let ss = socket_statistics(&path.left, 7501);
    let state = last_state(&trace.only(trace.cookie_at(port(&client))));
    let number = |key: &str| ss[key].parse::<f64>().unwrap();
    assert_eq!(f64::from(state.cwnd), number("cwnd"));
    assert_eq!(f64::from(state.ssthresh), number("ssthresh"));
    assert_eq!(f64::from(state.mss), number("mss"));
    assert_eq!(f64::from(state.rto_us) / 1000.0, number("rto"));
    let close = |ours: u32, theirs: f64| (f64::from(ours) / 1000.0 - theirs).abs() <= 0.01;
    let (srtt, mdev) = ss["rtt"].split_once('/').unwrap();
    assert!(close(state.srtt_us, srtt.parse().unwrap()), "{} {srtt}", state.srtt_us);
    assert!(close(state.mdev_us, mdev.parse().unwrap()), "{} {mdev}", state.mdev_us);
    assert!(state.mdev_us < 50_000, "which is what the kernel does not let rttvar fall below");
    assert!(close(state.min_rtt_us, number("minrtt")));
    assert_eq!(f64::from(state.delivered), number("delivered"));
}

#[test]
fn a_change_of_the_algorithm_on_a_running_connection_is_told() {
    needs_probes!();
    let path = Path::new(DELAY);
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 10_000);
    set_algorithm(&client, "cubic");
    send_and_wait(&mut client, &mut server, 10_000);
    let trace = recording.finish();
    let opened = trace.of(Kind::Open)[0].open().unwrap().algorithm();
    let changes: Vec<_> =
        trace.of(Kind::Algorithm).iter().map(|e| e.open().unwrap().algorithm()).collect();
    assert_eq!((opened.as_str(), changes), ("reno", vec!["cubic".to_owned()]));
}

/// User space can set `snd_cwnd_clamp` only by a route metric, at connect:
/// TCP_WINDOW_CLAMP limits the receive window and is another thing.
#[test]
fn the_clamp_of_a_route_is_seen_from_the_beginning() {
    needs_probes!();
    let path = Path::new(DELAY);
    // The kernel takes it over from its metrics of the destination, which an
    // earlier connection leaves behind when it ends.
    path.left.sysctl("net/ipv4/tcp_no_metrics_save", "0");
    path.left.ip("route replace 10.77.0.0/24 dev wire cwnd lock 5");
    let (mut earlier, mut server) = pair(&path);
    send_and_wait(&mut earlier, &mut server, 10_000);
    drop((earlier, server));
    wait_for("the metrics", || path.left.ip("tcp_metrics show").contains("10.77.0.2"));
    let recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    transom_testbed::set_option(&client, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 50_000i32);
    assert_ne!(get_option(&client, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP), 0);
    send_and_wait(&mut client, &mut server, 200_000);
    let trace = recording.finish();
    let acks = trace.of(Kind::Ack);
    assert!(acks.iter().all(|event| event.state().unwrap().clamp == 5));
    assert!(acks.iter().all(|event| event.state().unwrap().cwnd <= 5));
    let changes: Vec<_> = trace.of(Kind::Clamp).iter().map(|event| event.aux).collect();
    assert!(changes.iter().all(|aux| aux[1] == 5), "{changes:?}");
}

fn cookie_of(stream: &Stream) -> u64 {
    let (mut cookie, mut length) = (0_u64, 8);
    // SAFETY: `cookie` has the length that is said.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(stream),
            libc::SOL_SOCKET,
            libc::SO_COOKIE,
            (&raw mut cookie).cast(),
            &mut length,
        )
    };
    assert_eq!(result, 0);
    cookie
}

/// Takes back what the probe of `send` has noted of a connection, as if it had missed the last bytes.
fn forget_sends(recorder: u32, cookie: u64, bytes: u32) {
    const NEXT_SEND_SEQ: usize = 96;
    let bpftool = |arguments: &[&str]| {
        let output = std::process::Command::new("bpftool").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let maps: serde_json::Value = serde_json::from_slice(&bpftool(&["-j", "map", "show"])).unwrap();
    let ids = maps.as_array().unwrap().iter().filter(|map| map["name"] == "places");
    // Only in the maps that this recorder has open: others may watch the same connection.
    let files = std::fs::read_dir(format!("/proc/{recorder}/fdinfo")).unwrap().flatten();
    let open: Vec<String> =
        files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect();
    let mut found = 0;
    for id in ids.map(|map| map["id"].to_string()) {
        let line = format!("map_id:\t{id}\n");
        if !open.iter().any(|file| file.contains(&line)) {
            continue;
        }
        let entries = bpftool(&["-j", "map", "dump", "id", &id]);
        let entries: serde_json::Value = serde_json::from_slice(&entries).unwrap();
        for entry in entries.as_array().unwrap() {
            if entry["formatted"]["value"]["id"]["cookie"] != cookie {
                continue;
            }
            let byte = |text: &serde_json::Value| {
                u8::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
            };
            let mut value: Vec<u8> = entry["value"].as_array().unwrap().iter().map(byte).collect();
            let at = NEXT_SEND_SEQ..NEXT_SEND_SEQ + 4;
            let next = u32::from_ne_bytes(value[at.clone()].try_into().unwrap());
            assert_eq!(entry["formatted"]["value"]["next_send_seq"], next, "the field is there");
            value[at].copy_from_slice(&next.wrapping_sub(bytes).to_ne_bytes());
            let key: Vec<String> =
                entry["key"].as_array().unwrap().iter().map(|b| byte(b).to_string()).collect();
            let value: Vec<String> = value.iter().map(u8::to_string).collect();
            let mut words = vec!["map", "update", "id", &id, "key"];
            words.extend(key.iter().map(String::as_str));
            words.push("value");
            words.extend(value.iter().map(String::as_str));
            bpftool(&words);
            found += 1;
        }
    }
    assert_eq!(found, 1, "the recorder watches it");
}

#[test]
fn data_that_left_without_a_send_event_is_counted_in_segments() {
    needs_probes!();
    let path = Path::new(DELAY);
    let mut recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 100_000);
    let cookie = cookie_of(&client);
    forget_sends(recording.pid(), cookie, 3 * 1448 + 1);
    send_and_wait(&mut client, &mut server, 10_000);
    // And once more at its very end.
    let peer = client.peer_addr().unwrap().port();
    forget_sends(recording.pid(), cookie, 1000);
    drop((client, server));
    wait_for("the close", || socket_statistics(&path.left, peer).is_empty());
    recording.signal(libc::SIGINT);
    let (code, errors) = recording.wait();
    assert_eq!(code, 0, "{errors}");
    let lost = Trace::read(recording.file()).lost();
    assert!(errors.contains(&format!("{lost} segments left unseen, unseen_send")), "{errors}");
    // Four for 4,345 bytes, one for 1,000; more only where the machine itself hides some.
    assert!(lost == 5 || lost > 5 && hides_process_one(), "{lost}");
}

//! Terminals on one network: they find each other, lose each other, and decide the same.

mod peering;

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use peering::{Group, Lan, Terminal, Transfer, names, needs_root, wait_for, wait_until_all_see};
use transom_testbed::PATIENCE;

/// Nothing is touched, so that other tests may run beside.
const REHEARSE: &[&str] = &["--dry-run"];

#[test]
fn terminals_of_one_network_find_each_other_and_name_it_the_same() {
    needs_root!();
    let (lan, group) = (Lan::new(81), Group::new());
    let terminals = lan.terminals(3, &group, REHEARSE);
    wait_until_all_see(&terminals, &names(1..=3));
    let first = terminals[0].status();
    assert_eq!(first["known_by"], "gateway's hardware address");
    assert!(terminals.iter().all(|t| t.status()["access_point"] == first["access_point"]));
}

/// What the gateway is asked through decides nothing: IPv6 alone leads to the same access point.
#[test]
fn a_terminal_without_ipv4_names_the_network_as_the_others_do() {
    needs_root!();
    let (lan, group) = (Lan::new(96), Group::new());
    lan.gateway.ip("addr add fd96::fe/64 dev br0 nodad");
    let both = Terminal::start(lan.host(1), 1, &group, REHEARSE);
    let host = lan.host(2);
    host.ip("addr flush dev eth0");
    host.ip("addr add fd96::2/64 dev eth0 nodad");
    host.ip("route add default via fd96::fe");
    let through = [REHEARSE, &["--connect", "udp/[fd96::fe]:7447"]].concat();
    let six = Terminal::start(host, 2, &group, &through).status();
    assert_eq!(six["known_by"], "gateway's hardware address");
    assert_eq!(six["access_point"], both.status()["access_point"]);
}

#[test]
fn one_that_dies_is_forgotten_within_three_seconds_and_found_again() {
    needs_root!();
    let (lan, group) = (Lan::new(82), Group::new());
    let mut terminals = lan.terminals(3, &group, REHEARSE);
    wait_until_all_see(&terminals, &names(1..=3));
    terminals[2].kill();
    for terminal in &terminals[..2] {
        let mut too_old = Vec::new();
        wait_for("the dead one to be forgotten", || {
            let age = terminal.age_of("phone3");
            too_old.extend(age.filter(|&age| age >= Duration::from_secs(3)));
            age.is_none()
        });
        assert_eq!(terminal.sees(), names(1..=2));
        // A daemon that was kept from running answers before it looks who is too old.
        assert!(too_old.len() <= 1, "{too_old:?}");
    }
    terminals[2].start_again();
    wait_until_all_see(&terminals, &names(1..=3));
}

#[test]
fn one_that_is_stopped_says_good_bye() {
    needs_root!();
    let (lan, group) = (Lan::new(83), Group::new());
    let mut terminals = lan.terminals(2, &group, REHEARSE);
    wait_until_all_see(&terminals, &names(1..=2));
    terminals[1].interrupt();
    let left = Instant::now();
    wait_for("its good-bye", || terminals[0].sees() == names(1..=1));
    // One that says nothing is forgotten 2.8 s after its last report, which is at most 0.9 s old.
    assert!(left.elapsed() < Duration::from_millis(1800), "{:?}", left.elapsed());
}

#[test]
fn both_sides_of_a_partition_go_on_alone_and_come_together_again() {
    needs_root!();
    let (lan, group) = (Lan::new(84), Group::new());
    let terminals = lan.terminals(4, &group, &["--dry-run", "--access-point", "kitchen"]);
    wait_until_all_see(&terminals, &names(1..=4));
    lan.gateway.ip("link add br1 type bridge");
    lan.gateway.ip("link set br1 up");
    let move_to = |bridge: &str| {
        lan.gateway.ip(&format!("link set port3 master {bridge}"));
        lan.gateway.ip(&format!("link set port4 master {bridge}"));
    };
    move_to("br1");
    wait_until_all_see(&terminals[..2], &names(1..=2));
    wait_until_all_see(&terminals[2..], &names(3..=4));
    move_to("br0");
    wait_until_all_see(&terminals, &names(1..=4));
}

/// What each says is decided for each flow of each terminal.
fn decisions(terminal: &Terminal) -> Vec<String> {
    let status = terminal.status();
    let mut all = Vec::new();
    for one in status["terminals"].as_array().expect("a list") {
        for flow in one["flows"].as_array().expect("a list") {
            let (name, algorithm) = (&one["name"], &flow["decided_algorithm"]);
            all.push(format!("{name} {} {algorithm} {}", flow["flow"], flow["decided_cap"]));
        }
    }
    all.sort();
    all
}

#[test]
fn terminals_with_the_same_reports_decide_the_same() {
    needs_root!();
    let (lan, group) = (Lan::new(85), Group::new());
    let terminals = lan.terminals(3, &group, &["--dry-run", "--function", "table"]);
    for terminal in &terminals {
        terminal.namespace.tc("qdisc add dev eth0 root tbf rate 8mbit burst 8k latency 60ms");
    }
    // As long as anything is waited for.
    let seconds = PATIENCE.as_secs() as u32;
    let transfer =
        |n: usize| Transfer::start(&terminals[n].namespace, &lan, 5300 + n as u16, seconds);
    let _transfers = [transfer(0), transfer(1)];
    // The others hear a moment later; then all agree.
    wait_for("the same two decisions everywhere", || {
        let first = decisions(&terminals[0]);
        first.len() == 2
            && first.iter().all(|decision| decision.contains("steady"))
            && terminals.iter().all(|terminal| decisions(terminal) == first)
    });
    let table = String::from_utf8(terminals[2].ask(&["status"]).stdout).expect("text");
    assert!(table.contains("phone3*") && table.contains("table row"), "{table}");
}

/// `transom peer status --watch | tee log`: only a screen is cleared.
#[test]
fn what_is_watched_through_a_pipe_is_text_alone() {
    needs_root!();
    let (lan, group) = (Lan::new(89), Group::new());
    let one = Terminal::start(lan.host(1), 1, &group, REHEARSE);
    let mut watch = one.namespace.command(peering::PROGRAM);
    let mut child =
        watch.args(["status", "--watch"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    // Of more than one table.
    let seen: Vec<String> = out.lines().map(|line| line.expect("text")).take(8).collect();
    child.kill().and_then(|()| child.wait().map(drop)).expect("our child");
    assert!(seen.iter().filter(|line| line.starts_with("phone1*")).count() > 0, "{seen:?}");
    assert!(!seen.concat().contains('\x1b'), "{seen:?}");
}

#[test]
fn terminals_with_other_rules_are_told_apart() {
    needs_root!();
    let (lan, group) = (Lan::new(86), Group::new());
    let one = Terminal::start(lan.host(1), 1, &group, REHEARSE);
    let other = Terminal::start(lan.host(2), 2, &group, &["--dry-run", "--function", "stabilise"]);
    let both = [one, other];
    wait_until_all_see(&both, &names(1..=2));
    let status = both[0].status();
    assert_eq!(status["terminals"][0]["other_rules"], false);
    assert_eq!(status["terminals"][1]["other_rules"], true);
}

#[test]
fn a_second_daemon_in_the_same_place_is_refused() {
    needs_root!();
    let (lan, group) = (Lan::new(87), Group::new());
    let one = Terminal::start(lan.host(1), 1, &group, REHEARSE);
    let key = group.key();
    let output = one.ask(&["run", "--dry-run", "--key", key.to_str().expect("plain")]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("already"), "{errors}");
    assert_eq!(one.sees(), names(1..=1));
}

#[test]
fn the_place_of_a_killed_one_goes_with_the_next_start_anywhere() {
    needs_root!();
    let (lan, group) = (Lan::new(89), Group::new());
    let mut killed = Terminal::start(lan.host(1), 1, &group, REHEARSE);
    let lives = Terminal::start(lan.host(2), 2, &group, REHEARSE);
    let place = std::path::Path::new("/run/transom")
        .join(format!("peer-{}.sock", killed.namespace.inode()));
    assert!(place.exists());
    killed.kill();
    let _next = Terminal::start(lan.host(3), 3, &group, REHEARSE);
    assert!(!place.exists());
    lives.status();
}

/// With `--socket` a daemon may have made folders: nobody would know later whose they were.
#[test]
fn the_folders_of_a_killed_one_go_with_the_next_start_anywhere() {
    needs_root!();
    let (lan, group) = (Lan::new(97), Group::new());
    let folder = tempfile::tempdir().expect("a directory");
    let at = |name: &str| folder.path().join(name).join("of/peer.sock");
    let start = |number: u8, socket: &std::path::Path| {
        let socket = socket.to_str().expect("a plain path");
        Terminal::start(lan.host(number), number, &group, &["--dry-run", "--socket", socket])
    };
    let mut killed = [start(1, &at("bare")), start(2, &at("used")), start(3, &at("later"))];
    let lives = start(4, &at("alive"));
    killed.iter_mut().for_each(Terminal::kill);
    std::fs::write(at("used").with_file_name("precious"), "of another").expect("a file");
    // It has the name of one that was made, and is another: somebody took that one away.
    std::fs::remove_dir_all(folder.path().join("later")).expect("ours");
    std::fs::create_dir_all(at("later").parent().expect("a folder")).expect("another folder");
    let next = Terminal::start(lan.host(5), 5, &group, REHEARSE);
    assert!(!folder.path().join("bare").exists());
    assert!(!at("used").exists() && at("used").with_file_name("precious").exists());
    assert!(at("later").parent().expect("a folder").exists());
    assert!(at("alive").exists());
    lives.status();
    drop((lives, next));
    assert!(!folder.path().join("alive").exists());
}

/// Whoever starts in the place of a killed one takes its folders over, and away at the end.
#[test]
fn a_daemon_in_the_place_of_a_killed_one_takes_the_folders_along() {
    needs_root!();
    let (lan, group) = (Lan::new(98), Group::new());
    let folder = tempfile::tempdir().expect("a directory");
    let socket = folder.path().join("new/of/peer.sock");
    let place = ["--dry-run", "--socket", socket.to_str().expect("a plain path")];
    let mut terminal = Terminal::start(lan.host(1), 1, &group, &place);
    terminal.kill();
    terminal.start_again();
    terminal.interrupt();
    assert!(!folder.path().join("new").exists());
}

#[test]
fn what_is_missing_is_named_with_the_remedy() {
    needs_root!();
    let (lan, group) = (Lan::new(88), Group::new());
    let host = lan.host(1);
    let key = group.key();
    let key = key.to_str().expect("plain");
    let error = |arguments: &[&str]| {
        let output = host.command(peering::PROGRAM).args(arguments).output().expect("it runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(error(&["run", "--key", "/nonexistent"]).contains("transom peer key new"));
    assert!(error(&["status"]).contains("transom peer run"));
    assert!(error(&["run", "--key", key, "--class", "0"]).contains("0.1 to 100"));
    assert!(error(&["run", "--key", key, "--connect", "192.0.2.1"]).contains("udp/"));
    assert!(error(&["run", "--key", key, "--access-point", ""]).contains("--access-point"));
    assert!(error(&["run", "--key", key, "--name", ""]).contains("--name"));
    assert!(error(&["run", "--key", "/tmp"]).contains("/tmp is a directory"));
    let nobody = error(&["run", "--key", key, "--interface", "eth7"]);
    assert!(nobody.contains("there is no interface 'eth7'"), "{nobody}");
    assert!(error(&["run", "--key", key, "--rules", "/nonexistent"]).contains("/nonexistent"));
    host.ip("route del default");
    assert!(error(&["run", "--key", key]).contains("--interface"));
    assert!(error(&["run", "--key", key, "--interface", "eth0"]).contains("--access-point"));
}

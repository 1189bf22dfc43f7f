//! What the group decides is done to real connections, and undone.

mod peering;

use peering::{
    Group, Lan, Namespace, Terminal, Transfer, names, needs_root, wait_for, wait_for_at,
    wait_until_all_see,
};
use serde_json::Value;
use transom_control::{KernelScope, Scope};
use transom_testbed::link;

/// What a connection is under, as the kernel has it.
#[derive(Debug, PartialEq, Eq)]
struct Under {
    algorithm: String,
    /// None if nothing bounds its window.
    clamp: Option<u32>,
}

fn untouched() -> Under {
    Under { algorithm: "reno".into(), clamp: None }
}

/// The connection with the most segments to this port: iperf3's other one only talks about it.
fn under(host: &Namespace, port: u16) -> Under {
    let path = host.path();
    let scope = Scope::new(path.to_str()).expect("our namespace");
    let all = KernelScope::look(scope).expect("a look").observe().expect("connections");
    let to_port = all.iter().filter(|seen| seen.open.endpoints().remote.port() == port);
    let seen = to_port.max_by_key(|seen| seen.sent).expect("iperf3 is connected");
    // What is restored through an `int` ends at its largest.
    let clamp = Some(seen.clamp).filter(|&clamp| clamp < i32::MAX as u32);
    Under { algorithm: seen.open.algorithm(), clamp }
}

/// Two terminals that both send more than there is room for.
struct Contest {
    terminals: Vec<Terminal>,
    _transfers: Vec<Transfer>,
    _lan: Lan,
    _group: Group,
}

const PORT: u16 = 5401;

fn contest(net: u8, rules: &[&str]) -> Contest {
    let (lan, group) = (Lan::new(net), Group::new());
    let terminals = lan.terminals(2, &group, rules);
    wait_until_all_see(&terminals, &names(1..=2));
    let transfer = |n: usize| {
        let host = &terminals[n].namespace;
        host.tc("qdisc add dev eth0 root tbf rate 8mbit burst 8k latency 200ms");
        Transfer::start(host, &lan, PORT + n as u16, 120)
    };
    let transfers = vec![transfer(0), transfer(1)];
    Contest { terminals, _transfers: transfers, _lan: lan, _group: group }
}

fn cap_in_force(terminal: &Terminal) -> Option<u64> {
    let own: Value = terminal.own();
    let flows = own["flows"].as_array()?;
    flows.iter().find_map(|flow| flow["cap"].as_u64())
}

#[test]
fn caps_become_the_kernels_and_ctrl_c_takes_them_back() {
    needs_root!();
    let mut contest = contest(61, &["--function", "table", "--class", "2"]);
    for terminal in &contest.terminals {
        wait_for_at(terminal, "a cap", || cap_in_force(terminal).is_some());
    }
    let host = &contest.terminals[0].namespace;
    wait_for("the cap to be the kernel's", || {
        let decided = cap_in_force(&contest.terminals[0]);
        under(host, PORT).clamp.map(u64::from) == decided
    });
    contest.terminals[0].interrupt();
    assert_eq!(under(&contest.terminals[0].namespace, PORT), untouched());
    // The other is alone now, and left as it was.
    let other = &contest.terminals[1];
    wait_for("the other to be released", || {
        cap_in_force(other).is_none() && under(&other.namespace, PORT + 1) == untouched()
    });
}

#[test]
fn what_a_killed_daemon_did_is_taken_back_by_the_next_start() {
    needs_root!();
    let mut contest = contest(62, &["--function", "table"]);
    wait_for("a cap", || cap_in_force(&contest.terminals[0]).is_some());
    contest.terminals[0].kill();
    contest.terminals[1].kill();
    assert_ne!(under(&contest.terminals[0].namespace, PORT), untouched());
    contest.terminals[0].start_again();
    assert_eq!(contest.terminals[0].sees(), names(1..=1));
    assert_eq!(under(&contest.terminals[0].namespace, PORT), untouched());
    assert_eq!(cap_in_force(&contest.terminals[0]), None);
}

#[test]
fn a_rehearsal_decides_and_touches_nothing() {
    needs_root!();
    let contest = contest(63, &["--dry-run", "--function", "table"]);
    let decided = |terminal: &Terminal| {
        let own = terminal.own();
        own["flows"].as_array().is_some_and(|flows| flows.iter().any(|f| f["decided_cap"].is_u64()))
    };
    wait_for("a decision", || decided(&contest.terminals[0]));
    assert_eq!(under(&contest.terminals[0].namespace, PORT), untouched());
    assert_eq!(cap_in_force(&contest.terminals[0]), None);
}

/// The transfer over the interface that was left goes on, over an air that is no longer ours.
#[test]
fn a_terminal_that_moves_to_another_interface_takes_none_of_the_old_ones_connections_along() {
    needs_root!();
    let contest = contest(64, &["--function", "table"]);
    let terminal = &contest.terminals[0];
    let host = &terminal.namespace;
    wait_for_at(terminal, "a cap", || cap_in_force(terminal).is_some());
    let other = Lan::new(65);
    link((host, "eth1", &["10.65.0.1/16"]), (&other.gateway, "port1", &[]));
    other.gateway.ip("link set port1 master br0");
    host.ip("route replace default via 10.65.0.254 dev eth1");
    let moved = || terminal.status()["interface"] == "eth1";
    wait_for_at(terminal, "the move", moved);
    wait_for_at(terminal, "the old connection to be released", || {
        let flows = terminal.own()["flows"].as_array().map_or(0, Vec::len);
        flows == 0 && under(host, PORT) == untouched()
    });
    let _new = Transfer::start(host, &other, PORT + 9, 60);
    let ends = || terminal.own()["flows"].to_string();
    wait_for_at(terminal, "the new connection", || ends().contains("10.65.0.254:5410"));
    assert!(!ends().contains("10.64."), "{}", ends());
}

#[test]
fn connections_from_a_new_address_are_followed_though_they_opened_before_it_was_seen() {
    needs_root!();
    let (lan, group) = (Lan::new(66), Group::new());
    let terminal = Terminal::start(lan.host(1), 1, &group, &["--dry-run"]);
    let host = &terminal.namespace;
    host.ip("addr add 10.66.0.9/16 dev eth0");
    host.ip("route change default via 10.66.0.254 src 10.66.0.9");
    host.ip("route change 10.66.0.0/16 dev eth0 src 10.66.0.9");
    let _transfer = Transfer::start(host, &lan, PORT + 10, 60);
    wait_for_at(&terminal, "the connection", || {
        terminal.own()["flows"].to_string().contains("10.66.0.9:")
    });
}

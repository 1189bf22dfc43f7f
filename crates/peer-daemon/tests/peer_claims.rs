//! What a terminal claims and does not use takes nothing from the others.

mod peering;

use std::io::Write;

use peering::{Group, Lan, Terminal, Transfer, names, needs_root, wait_for_at, wait_until_all_see};
use serde_json::Value;

/// Parts of the air, kbit/s, as the first terminal decides them.
#[derive(Debug)]
struct Parts {
    air: u64,
    honest: u64,
    claimant: u64,
}

/// Three terminals share a link of 20 Mbit/s with a fourth of class 100. It wants to send, but its
/// server has vanished, so that nothing of it arrives.
fn parts(net: u8, rules: &str) -> Parts {
    let (lan, group) = (Lan::new(net), Group::new());
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(rules.as_bytes()).expect("the rules");
    let rules = ["--dry-run", "--rules", file.path().to_str().expect("a plain path")];
    let mut terminals = lan.terminals(3, &group, &rules);
    let claims: Vec<&str> = rules.into_iter().chain(["--class", "100"]).collect();
    terminals.push(Terminal::start(lan.host(4), 4, &group, &claims));
    wait_until_all_see(&terminals, &names(1..=4));

    let servers = [lan.host(200), lan.host(201)];
    lan.gateway.tc("qdisc add dev port200 root tbf rate 20mbit burst 16k latency 200ms");
    lan.gateway.tc("qdisc add dev port201 root tbf rate 1mbit burst 16k latency 200ms");
    let mut transfers = Vec::new();
    for (terminal, port) in terminals.iter().zip(5501..) {
        let server = usize::from(terminal.name == "phone4");
        let address = format!("10.{net}.0.{}", 200 + server);
        let host = &terminal.namespace;
        transfers.push(Transfer::between(host, &servers[server], &address, port, 120));
    }
    let claimant = &terminals[3];
    let flows = |terminal: &Terminal| terminal.own()["flows"].clone();
    wait_for_at(claimant, "its flow to want more", || flows(claimant)[0]["hungry"] == true);
    lan.gateway.ip("link set port201 down");
    wait_for_at(claimant, "its flow to get nothing", || {
        flows(claimant)[0]["goodput_kbit"] == 0 && flows(claimant)[0]["hungry"] == true
    });

    let shares = |status: &Value| -> Option<Vec<(String, u64)>> {
        let terminals = status["terminals"].as_array()?.iter();
        let share = |t: &Value| Some((t["name"].as_str()?.to_owned(), t["share_kbit"].as_u64()?));
        terminals.map(share).collect()
    };
    let mut status = Value::Null;
    wait_for_at(&terminals[0], "shares of a known air", || {
        status = terminals[0].status();
        shares(&status).is_some_and(|shares| shares.len() == 4)
            && status["terminals"].as_array().is_some_and(|all| {
                all.iter().all(|one| one["name"] != "phone4" || one["goodput_kbit"] == 0)
            })
    });
    let (claimants, others): (Vec<_>, Vec<_>) =
        shares(&status).expect("just seen").into_iter().partition(|(name, _)| name == "phone4");
    let sum = |shares: Vec<(String, u64)>| shares.into_iter().map(|(_, share)| share).sum();
    let air = status["air_kbit"].as_u64().expect("a number");
    let parts = Parts { air, honest: sum(others), claimant: sum(claimants) };
    println!("{parts:?}");
    parts
}

#[test]
fn a_terminal_of_class_100_that_wants_more_and_sends_nothing_takes_nothing() {
    needs_root!();
    let (ruled, unruled) = std::thread::scope(|scope| {
        let unruled = scope.spawn(|| parts(82, "[share]\ngrowth = 0\nbelieve_class = true\n"));
        (parts(81, ""), unruled.join().expect("the other group"))
    });
    assert_eq!(ruled.claimant, 0);
    assert!(ruled.honest * 10 >= ruled.air * 9, "{ruled:?}");
    // Without the limits it would take nearly everything.
    assert!(unruled.claimant * 10 >= unruled.air * 9, "{unruled:?}");
}

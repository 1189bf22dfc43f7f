//! What ten terminals on one network cost each other.

mod peering;

use std::time::{Duration, Instant};

use peering::{Group, Lan, Terminal, names, needs_root, wait_until_all_see};

const TERMINALS: u8 = 10;
const OVER: Duration = Duration::from_secs(15);

/// User and system time of a process so far, in clock ticks (proc(5): 14 and 15).
fn ticks(terminal: &Terminal) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", terminal.pid())).expect("stat");
    let after = stat.rsplit(')').next().expect("a name");
    let fields: Vec<&str> = after.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

/// Bytes that the terminal's interface has sent and received, link headers included.
fn bytes(terminal: &Terminal) -> [u64; 2] {
    let text = terminal.namespace.ip("-s -j link show dev eth0");
    let json: serde_json::Value = serde_json::from_str(&text).expect("ip prints JSON");
    let count = |way: &str| json[0]["stats64"][way]["bytes"].as_u64().expect("a counter");
    [count("tx"), count("rx")]
}

/// kbit/s sent and received, and percent of one core, each the largest of all terminals.
fn measure(terminals: &[Terminal]) -> (f64, f64, f64) {
    // SAFETY: sysconf takes any name.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let before: Vec<_> = terminals.iter().map(|t| (bytes(t), ticks(t))).collect();
    let begun = Instant::now();
    std::thread::sleep(OVER);
    let seconds = begun.elapsed().as_secs_f64();
    let mut most = (0f64, 0f64, 0f64);
    for (terminal, (bytes_before, ticks_before)) in terminals.iter().zip(before) {
        let now = bytes(terminal);
        let kbit = |n: usize| (now[n] - bytes_before[n]) as f64 * 8.0 / 1000.0 / seconds;
        let core = (ticks(terminal) - ticks_before) as f64 / per_second / seconds * 100.0;
        most = (most.0.max(kbit(0)), most.1.max(kbit(1)), most.2.max(core));
    }
    most
}

fn cost(net: u8, arguments: &[&str]) -> (f64, f64, f64) {
    let (lan, group) = (Lan::new(net), Group::new());
    let terminals = lan.terminals(TERMINALS, &group, arguments);
    wait_until_all_see(&terminals, &names_sorted());
    let (sent, received, core) = measure(&terminals);
    println!("{arguments:?}: {sent:.2} kbit/s sent, {received:.2} received, {core:.2} % of a core");
    (sent, received, core)
}

fn names_sorted() -> Vec<String> {
    let mut names = names(1..=TERMINALS);
    names.sort();
    names
}

#[test]
fn ten_terminals_send_at_most_five_kbit_and_take_a_hundredth_of_a_core_each() {
    needs_root!();
    let (sent, _, core) = cost(51, &[]);
    assert!(sent <= 5.0, "{sent:.2} kbit/s");
    assert!(core <= 1.0, "{core:.2} %");
}

/// Why multicast is the usual way: kept for the numbers of docs/peer.md.
#[test]
#[ignore = "a comparison, not a promise: cargo test -p transom-peer-daemon --test peer_cost -- --ignored"]
fn sessions_of_zenoh_with_each_other_cost_more() {
    needs_root!();
    cost(52, &["--dry-run", "--via", "zenoh"]);
}

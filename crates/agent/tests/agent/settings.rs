//! What programs and Transom set on a connection is among its decisions.

use std::time::Duration;

use transom_spool::Decided;
use transom_testbed::{
    Path, needs, needs_root, pair, send_and_wait, set_algorithm, set_option, tuned::Setting,
    wait_for,
};

use super::one;
use super::running::{Agent, Spool};

#[test]
fn what_a_program_sets_on_a_connection_is_among_its_decisions() {
    needs_root!();
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let (mut client, mut server) = pair(&path);
    set_algorithm(&client, "reno");
    let agent = Agent::start(&spool.path, "look_seconds = 1\n");
    send_and_wait(&mut client, &mut server, 300_000);
    send_and_wait(&mut server, &mut client, 300_000);
    std::thread::sleep(Duration::from_millis(1500));
    set_algorithm(&client, "cubic");
    set_option(&client, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 20_000);
    std::thread::sleep(Duration::from_millis(1500));
    drop((client, server));
    std::thread::sleep(Duration::from_millis(200));
    agent.stop();
    let rows = spool.connections(path.left.inode());
    let row = one(&rows, |_| true);
    let mut decisions = spool.decisions();
    // A busy machine may add a tail loss probe.
    let settings = [Decided::Algorithm, Decided::Window, Decided::Clamp, Decided::Tuned];
    decisions.retain(|d| d.cookie == row.cookie && settings.contains(&d.decided));
    let set: Vec<_> =
        decisions.iter().map(|d| (d.decided, d.algorithm.as_deref(), d.value)).collect();
    let expected =
        [(Decided::Algorithm, Some("cubic"), None), (Decided::Window, None, Some(20_000))];
    assert_eq!(set, expected);
    assert_eq!(row.algorithm.as_deref(), Some("cubic"));
    let last = row.last_decisions.as_deref().unwrap();
    assert!(last.contains("algorithm; ") && last.contains("window_clamp 20000"), "{last}");
}

/// Decisions about the limit of the congestion window, and those of Transom, of one connection
/// that is limited in between or not.
fn limited(limit: Option<&[&str]>) -> Vec<(Decided, Option<u32>)> {
    let (spool, path) = (Spool::new(), Path::new(Duration::from_millis(5)));
    let (mut client, mut server) = pair(&path);
    let agent = Agent::start(&spool.path, "look_seconds = 1\n");
    send_and_wait(&mut client, &mut server, 30_000);
    std::thread::sleep(Duration::from_millis(1500));
    let setting = limit.map(|words| Setting::of(path.left.name(), words));
    send_and_wait(&mut client, &mut server, 30_000);
    std::thread::sleep(Duration::from_millis(1500));
    drop((client, server));
    wait_for("its row", || !spool.ended(path.left.inode()).is_empty());
    agent.stop();
    drop(setting);
    let rows = spool.connections(path.left.inode());
    let cookie = one(&rows, |_| true).cookie;
    let mut decisions = spool.decisions();
    decisions
        .retain(|d| d.cookie == cookie && [Decided::Clamp, Decided::Tuned].contains(&d.decided));
    decisions.iter().map(|d| (d.decided, d.value)).collect()
}

#[test]
fn a_cap_that_transom_sets_is_a_clamp_and_an_action() {
    needs_root!();
    needs!("transom");
    /// `tx_reason`: transom tune set
    const BY_HAND: u32 = 1;
    let capped = limited(Some(&["--cap", "20"]));
    assert_eq!(capped, [(Decided::Tuned, Some(BY_HAND)), (Decided::Clamp, Some(20))]);
    assert_eq!(limited(None), []);
}

//! A host that does not have the key learns nothing and changes nothing.

mod peering;

use std::time::Duration;

use peering::stranger::{Stranger, TOPIC};
use peering::{Group, Lan, Terminal, names, needs_root, wait_for, wait_until_all_see};

fn settled(net: u8) -> (Lan, Group, Vec<Terminal>, Stranger) {
    let (lan, group) = (Lan::new(net), Group::new());
    let terminals = lan.terminals(2, &group, &["--dry-run"]);
    wait_until_all_see(&terminals, &names(1..=2));
    let stranger = Stranger::join(lan.host(66));
    (lan, group, terminals, stranger)
}

#[test]
fn with_another_key_a_terminal_is_neither_seen_nor_sees() {
    needs_root!();
    let (lan, _group, terminals, _stranger) = settled(71);
    let other = Terminal::start(lan.host(3), 3, &Group::new(), &["--dry-run"]);
    wait_for("its messages to be counted", || {
        terminals[0].status()["messages"]["other_groups"].as_u64() > Some(2)
    });
    assert_eq!(other.sees(), names(3..=3));
    wait_until_all_see(&terminals, &names(1..=2));
    let table = String::from_utf8(terminals[0].ask(&["status"]).stdout).expect("text");
    assert!(table.contains("messages of other groups, keys or access points"), "{table}");
}

#[test]
fn names_and_numbers_do_not_cross_the_air_openly() {
    needs_root!();
    let (_lan, _group, _terminals, stranger) = settled(72);
    let heard = stranger.listen(Duration::from_secs(3));
    assert!(heard.len() >= 4, "{}", heard.len());
    assert!(heard.iter().all(|datagram| !datagram.windows(5).any(|part| part == b"phone")));
}

#[test]
fn what_is_replayed_is_counted_and_changes_nothing() {
    needs_root!();
    let (_lan, _group, mut terminals, stranger) = settled(73);
    let heard = stranger.listen(Duration::from_secs(3));
    heard.iter().for_each(|datagram| stranger.say(datagram));
    wait_for("replays to be counted", || terminals[0].counted("replayed") > 0);
    // Nor does it bring back a terminal that has gone, however long it is replayed, nor deceive a newcomer.
    terminals[1].kill();
    wait_for("the dead one to be forgotten", || terminals[0].sees() == names(1..=1));
    terminals[0].interrupt();
    terminals[0].start_again();
    for _ in 0..20 {
        heard.iter().for_each(|datagram| stranger.say(datagram));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(terminals[0].sees(), names(1..=1));
    }
    assert!(terminals[0].counted("unproven") > 0);
}

#[test]
fn garbage_and_forgeries_are_counted_and_no_member_is_lost() {
    needs_root!();
    let (_lan, _group, terminals, stranger) = settled(74);
    let one = stranger.listen(Duration::from_secs(2)).pop().expect("somebody speaks");
    for n in 0..200usize {
        let mut forged = one.clone();
        let at = TOPIC + n % (forged.len() - TOPIC);
        forged[at] ^= 1;
        stranger.say(&forged);
        stranger.say(&one[..n % one.len()]);
        stranger.say(&[one.as_slice(), &[0; 900]].concat());
    }
    wait_for("forgeries to be counted", || terminals[0].counted("foreign") > 100);
    assert_eq!(terminals[0].sees(), names(1..=2));
}

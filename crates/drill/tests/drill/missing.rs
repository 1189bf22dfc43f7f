//! What a host has not is said, and why.

use transom_spool::{Connection, Table, Time};
use transom_testbed::{needs, needs_root, run, wait_for};

use crate::host::{Desk, Kept, answering, asked};

#[test]
fn what_the_ring_has_not_any_more_and_what_was_never_there_are_told_apart() {
    needs!("root", "linux-5.19");
    let kept = Kept::of("");
    let [slow, fine] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let reply = |row: &Connection, more: &[&str]| asked(&desk, row, more).unwrap();
    let why = |reply: &serde_json::Value| reply["why"].as_str().unwrap_or_default().to_owned();
    if kept.decisions(fine.cookie).is_empty() {
        let none = reply(&fine, &[]);
        assert_eq!(none["state"], "none", "{none:#}");
    }
    let stranger = Connection { cookie: 1 << 60, ..slow.clone() };
    let unknown = reply(&stranger, &[]);
    assert_eq!(unknown["state"], "unknown", "{unknown:#}");
    let other_boot = reply(&slow, &["--boot", &"0".repeat(32)]);
    assert_eq!(other_boot["state"], "unknown");
    assert!(why(&other_boot).contains("had been started anew"), "{other_boot:#}");
    let own_boot = kept.boot();
    assert_eq!(reply(&slow, &["--boot", &own_boot])["state"], "decisions");
    let later = Connection { time: Time(slow.time.0 + 3_600_000_000), ..stranger.clone() };
    let not_yet = reply(&later, &["--lasted", "1"]);
    assert_eq!(not_yet["state"], "not_yet", "{not_yet:#}");
    assert!(why(&not_yet).contains("when the next one is finished"), "{not_yet:#}");
    let earlier = Connection { time: Time(slow.time.0 - 3_600_000_000), ..stranger };
    let before = reply(&earlier, &["--lasted", "1"]);
    assert_eq!(before["state"], "removed", "{before:#}");
    assert!(why(&before).contains("nothing of that time is kept"), "{before:#}");
    // As the agent does it: decisions go first, and what there was is still said.
    for file in kept.files(Table::Decisions) {
        std::fs::remove_file(file).unwrap();
    }
    let removed = reply(&slow, &[]);
    assert_eq!(removed["state"], "removed", "{removed:#}");
    assert!(why(&removed).contains("decisions of that time were removed"), "{removed:#}");
    assert_eq!(removed["connection"]["cookie"], slow.cookie, "its row is there");
}

#[test]
fn an_agent_without_level_1_kept_no_decisions_and_says_so() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let [slow, _] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let reply = asked(&desk, &slow, &[]).unwrap();
    assert_eq!(reply["state"], "level_0", "{reply:#}");
    assert!(reply["why"].as_str().unwrap().contains("at level 0 then"), "{reply:#}");
}

#[test]
fn a_host_that_is_not_there_and_one_that_is_silent_are_told_apart() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let [slow, _] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let answerer = answering(&kept);
    // Its disk never answers.
    let file = &kept.files(Table::Agent)[0];
    std::fs::remove_file(file).unwrap();
    run(&["mkfifo", "-m", "640", file.to_str().unwrap()]);
    let mut silent = String::new();
    wait_for("the router, which the same time is for", || {
        silent = asked(&desk, &slow, &["--wait", "5"]).unwrap_err();
        !silent.contains("no router answers")
    });
    assert!(silent.contains("web-1 did not answer within 5 s"), "{silent}");
    drop(answerer);
    let gone = asked(&desk, &slow, &[]).unwrap_err();
    assert!(gone.contains("no host web-1 is at this router"), "{gone}");
}

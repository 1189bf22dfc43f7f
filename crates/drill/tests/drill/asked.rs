//! What a host knows comes, and only by a way that it opened itself.

use transom_spool::{Decided, Decision, of_object};
use transom_testbed::{needs, needs_root, wait_for};

use crate::host::{Desk, Kept, about, answer, answering, asked, said};

#[test]
fn the_decisions_that_the_agent_kept_come_over_a_router_and_nothing_listens_on_the_host() {
    needs!("root", "linux-5.19");
    let kept = Kept::of("");
    let [slow, fine] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let answerer = answering(&kept);
    let reply = asked(&desk, &slow, &[]).unwrap();
    let came = reply["decisions"].as_array().unwrap();
    let came: Vec<Decision> = came.iter().map(|row| of_object(row.as_object().unwrap())).collect();
    assert_eq!(came, kept.decisions(slow.cookie));
    let timeouts = came.iter().filter(|row| row.decided == Decided::Timeout);
    assert!(timeouts.count() >= 2, "{came:#?}");
    assert_eq!((&reply["state"], &reply["host"]), (&"decisions".into(), &"web-1".into()));
    let connection = &reply["connection"];
    assert_eq!(connection["verdict"], slow.verdict.name());
    for personal in ["program", "remote_prefix", "remote_tag", "remote_address"] {
        assert!(connection.get(personal).is_none(), "{personal}: {reply:#}");
    }
    // The other connection has its own answer.
    let reply = asked(&desk, &fine, &[]).unwrap();
    assert_eq!(reply["decisions"].as_array().unwrap().len(), kept.decisions(fine.cookie).len());
    let sockets = kept.host.output("ss", &["-Hltunp"]);
    assert!(!sockets.contains("transom-drill"), "{sockets}");
    drop(answerer);
}

#[test]
fn in_words_each_decision_is_a_line() {
    needs!("root", "linux-5.19");
    let kept = Kept::of("");
    let [slow, _] = kept.connections();
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let about = about(&slow);
    let words: Vec<&str> = about.iter().map(String::as_str).collect();
    let text = said(&mut desk.ask(&words)).unwrap();
    println!("{text}");
    assert!(text.starts_with(&format!("web-1 #{}: ", slow.cookie)), "{text}");
    for line in kept.decisions(slow.cookie).iter().map(Decision::line) {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}

#[test]
fn a_host_is_there_again_after_its_router_was_away() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let [slow, _] = kept.connections();
    let desk = Desk::beside(&kept);
    // Begun before there is a router.
    let answerer = transom_testbed::Talking::spawn(&mut answer(
        &kept,
        &["--router", "tcp/10.88.0.2:7447", "--plain"],
    ));
    answerer.wait_for_words("answering for web-1");
    let none = asked(&desk, &slow, &["--wait", "1"]).unwrap_err();
    assert!(none.contains("no router answers at tcp/10.88.0.2:7447 within 1 s"), "{none}");
    let desk = desk.route();
    wait_for("the host to find it", || asked(&desk, &slow, &[]).is_ok());
    let desk = desk.reroute();
    wait_for("the host to find the next one", || asked(&desk, &slow, &[]).is_ok());
}

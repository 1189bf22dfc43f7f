//! What is no question is refused, and what nobody protects needs a word.

use std::time::Duration;

use transom_testbed::needs_root;
use zenoh::{Config, Session, Wait};

use crate::host::{Desk, Kept, answer, answering, said};

/// Somebody with a program of their own.
fn stranger(desk: &Desk) -> Session {
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "\"client\""),
        ("scouting/multicast/enabled", "false"),
        ("connect/endpoints", "[\"tcp/10.88.0.2:7447\"]"),
    ] {
        config.insert_json5(key, value).unwrap();
    }
    desk.host.inside(|| zenoh::open(config).wait().unwrap())
}

/// What the host says to this.
fn reply(session: &Session, question: &[u8]) -> Result<String, String> {
    let get = session.get("transom-drill1/web-1").payload(question);
    let replies = get.timeout(Duration::from_secs(30)).wait().unwrap();
    let reply = replies.recv().expect("an answer");
    let text = |bytes: &zenoh::bytes::ZBytes| String::from_utf8(bytes.to_bytes().into()).unwrap();
    match reply.result() {
        Ok(sample) => Ok(text(sample.payload())),
        Err(error) => Err(text(error.payload())),
    }
}

#[test]
fn a_malformed_question_is_refused_by_the_part_that_is_wrong_and_the_next_one_answered() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let session = stranger(&desk);
    let good = r#"{"version":1,"want":"decisions","cookie":7,"from_us":5,"to_us":9}"#;
    for (question, said) in [
        (String::new(), "no question: EOF"),
        ("\u{1b}[2J".into(), "no question: expected value"),
        (good.replace("7", "-7"), "invalid value: integer `-7`"),
        (good.replace("decisions", "/etc/shadow"), "unknown variant `/etc/shadow`"),
        (good.replace("}", r#","spool":"/etc"}"#), "unknown field `spool`"),
        (good.replace("9}", "999999999999999}"), "to_us: at most 90000 s at once"),
        (format!("{good}{}", " ".repeat(5000)), "at most 1024 bytes, and this 5065"),
    ] {
        let refusal = reply(&session, question.as_bytes()).unwrap_err();
        assert!(refusal.contains(said), "{question}: {refusal}");
        assert!(reply(&session, good.as_bytes()).is_ok());
    }
}

#[test]
fn who_asks_too_often_is_refused_for_a_while() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let desk = Desk::beside(&kept).route();
    let _answerer = answering(&kept);
    let session = stranger(&desk);
    let good = br#"{"version":1,"want":"decisions","cookie":7,"from_us":5,"to_us":9}"#;
    let replies: Vec<_> = (0..300).map(|_| reply(&session, good)).collect();
    let refused = replies.iter().filter_map(|reply| reply.as_ref().err());
    let refused: Vec<&String> = refused.collect();
    assert!(replies[..100].iter().all(Result::is_ok) && !refused.is_empty());
    assert!(refused.iter().all(|said| said.starts_with("busy: at most 120")), "{refused:?}");
}

#[test]
fn without_tls_other_machines_are_answered_only_if_that_is_meant() {
    needs_root!();
    let kept = Kept::of("level = 0");
    let refusal = said(&mut answer(&kept, &["--router", "tcp/10.88.0.2:7447"])).unwrap_err();
    assert!(refusal.contains("tcp/10.88.0.2:7447 has no TLS"), "{refusal}");
    let refusal = said(&mut answer(&kept, &[])).unwrap_err();
    assert!(refusal.contains("name a Zenoh router"), "{refusal}");
}

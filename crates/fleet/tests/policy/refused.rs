//! What is wrong is named, with what helps, and nothing is left behind.

use std::fs;

use crate::program::{Operator, policy, said};
use crate::server::Server;
use crate::troubled::{Trouble, Troubled};

#[test]
fn a_policy_that_is_none_is_not_published() {
    let operator = Operator::new();
    for (text, words) in [
        ("[[rule]\n", "TOML parse error at line 1"),
        ("[[rule]]\naction = { window = 3 }\n", "no key 'window'"),
        ("", "has no rule"),
    ] {
        fs::write(operator.path("far.toml"), text).unwrap();
        let refused = said(&mut operator.publish(&["--first", "a"])).unwrap_err();
        assert!(refused.contains("far.toml") && refused.contains(words), "{refused}");
    }
    fs::remove_file(operator.path("far.toml")).unwrap();
    let refused = said(&mut operator.publish(&["--first", "a"])).unwrap_err();
    assert!(refused.contains("far.toml"), "{refused}");
    assert!(!operator.path("fleet/policy").exists());
}

#[test]
fn waves_gates_and_leases_that_make_no_sense_are_refused() {
    let operator = Operator::new();
    let refused = |more: &[&str]| {
        said(&mut operator.publish(&[&["--first", "a"][..], more].concat())).unwrap_err()
    };
    assert!(refused(&["--shares", "50%,10%"]).contains("shares rise"));
    assert!(refused(&["--window", "5s"]).contains("of 10 s or more"));
    assert!(refused(&["--window", "5"]).contains("'5' is no time"));
    assert!(refused(&["--lease", "5s"]).contains("--lease: from 60 s"));
    assert!(refused(&["--gate", "lost / sent, higher, 0.1"]).contains("no number 'lost'"));
    assert!(refused(&["--gate", "retransmitted"]).contains("is no gate: write"));
    assert!(refused(&["--expected", "rtt=0..1"]).contains("no gate 'rtt'"));
    assert!(!operator.path("fleet/policy").exists());
}

#[test]
fn a_generation_under_way_is_not_published_over() {
    let operator = Operator::new();
    said(&mut operator.publish(&["--first", "a"])).unwrap();
    let refused = said(&mut operator.publish(&["--first", "b"])).unwrap_err();
    assert!(refused.contains("generation 1 is under way, in wave 1"), "{refused}");
    assert!(!operator.path("fleet/policy/gen-2").exists());
}

#[test]
fn what_another_key_signed_is_believed_only_when_it_is_trusted() {
    let operator = Operator::new();
    said(&mut operator.publish(&["--first", "a"])).unwrap();
    let public = said(&mut policy(["key", &operator.text("other.key")])).unwrap();
    let publish = |more: &[&str]| {
        let [file, to, key] =
            [operator.text("far.toml"), operator.address(), operator.text("other.key")];
        let words = ["publish", &file, "--to", &to, "--key", &key, "--first", "a"];
        said(&mut policy(words.into_iter().chain(more.iter().copied()))).unwrap_err()
    };
    let refused = publish(&[]);
    assert!(refused.contains("not trusted") && refused.contains("current"), "{refused}");
    let trusted = publish(&["--trust", &operator.text("trusted")]);
    assert!(trusted.contains("is under way"), "{trusted}");
    fs::write(operator.path("trusted"), public).unwrap();
    assert!(said(&mut operator.status(&[])).unwrap_err().contains("not trusted"));
    // Forged: another text under the same signature.
    let path = operator.path("fleet/policy/current");
    let forged = fs::read_to_string(&path).unwrap().replace("\\\"wave\\\":0", "\\\"wave\\\":4");
    fs::write(&path, forged).unwrap();
    let refused = said(&mut operator.publish(&["--first", "a"])).unwrap_err();
    assert!(refused.contains("changed, or forged"), "{refused}");
}

#[test]
fn a_store_without_conditional_writes_is_noticed_before_anybody_relies_on_it() {
    let Some(server) = Server::start() else { return };
    let operator = Operator::new();
    let publish = |port: u16| {
        let mut publish = operator.publish_to("s3://tables/fleet", &["--first", "a"]);
        server.give_keys(&mut publish);
        publish.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"));
        said(&mut publish)
    };
    // The first request reads what is there.
    let ignorant = Troubled::before(server.port(), |n| match n {
        0 => Trouble::None,
        _ => Trouble::Unsupported,
    });
    let refused = publish(ignorant.port).unwrap_err();
    assert!(refused.contains("policy/gen-1: the store does not know"), "{refused}");
    assert!(refused.contains("If-None-Match"), "{refused}");
    let careless = Troubled::before(server.port(), |_| Trouble::Unconditional);
    let refused = publish(careless.port).unwrap_err();
    assert!(refused.contains("writes over what is there"), "{refused}");
    // The control: the same server by itself. What was written without it is left out.
    let told = publish(server.port()).unwrap();
    assert!(told.starts_with("generation "), "{told}");
}

#[test]
fn a_place_that_is_none_or_has_nothing_is_named() {
    let operator = Operator::new();
    let refused = said(&mut operator.status(&[])).unwrap_err();
    assert!(refused.contains("has no policy: `transom-fleet policy publish`"), "{refused}");
    let refused = said(&mut operator.publish_to("file:///no/such", &["--first", "a"])).unwrap_err();
    assert!(refused.contains("/no/such"), "{refused}");
    let refused = said(&mut operator.publish_to("s3://tables", &["--first", "a"])).unwrap_err();
    assert!(refused.contains("no keys") && refused.contains("AWS_ACCESS_KEY_ID"), "{refused}");
}

//! A policy whose network namespace goes. In a file of its own: the next namespace that is made may
//! get the number of the one that went, and would then find it locked until the policy has ended.

use std::time::Duration;

use transom_testbed::tuned::Policy;
use transom_testbed::{Path, needs_root};

const FAR: &str =
    "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { algorithm = \"steady\", target = 30 }\n";

#[test]
fn a_namespace_that_vanishes_ends_its_policy_with_a_message() {
    needs_root!();
    let path = Path::new(Duration::from_millis(20));
    let name = path.left.name().to_owned();
    let mut policy = Policy::start(&name, FAR);
    drop(path);
    let status = policy.child.wait().expect("our child");
    assert_eq!(status.code(), Some(1));
    let said = policy.said();
    let gone = format!("the network namespace {name} is gone, and its connections with it");
    assert!(said.contains(&gone), "{said}");
}

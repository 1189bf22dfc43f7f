//! `transom tune --backend route`: packets keep the way that they take, whatever routes there are.

use rustix::process::{Pid, Signal, kill_process};
use transom_testbed::tuned::{tune, tuned};
use transom_testbed::{Namespace, link, needs_probes, transom, transom_of_nobody, wait_for};

/// A host with two interfaces: 10.1.0.2 and fd01::2 on `d0`, 10.2.0.2 and fd02::2 on `d1`.
struct Host {
    host: Namespace,
    far: Namespace,
}

impl Host {
    fn with_routes(routes: &[&str]) -> Host {
        let (host, far) = (Namespace::new("host"), Namespace::new("far"));
        for (n, device) in ["d0", "d1"].into_iter().enumerate() {
            let addresses = [format!("10.{}.0.2/24", n + 1), format!("fd0{}::2/64", n + 1)];
            let addresses = addresses.each_ref().map(String::as_str);
            link((&host, device, &addresses), (&far, &format!("p{n}"), &[]));
        }
        for route in routes {
            let family = if route.contains("::") { "-6" } else { "-4" };
            host.ip(&format!("{family} route add {route}"));
        }
        Host { host, far }
    }

    fn words<'a>(&'a self, words: &[&'a str]) -> Vec<&'a str> {
        let place = ["set", "--backend", "route", "--netns", self.host.name()];
        [&place, words, &["--initial-window", "20"]].concat()
    }

    /// An initial window of 20 for what this says.
    fn set(&self, words: &[&str]) -> String {
        tuned(&self.words(words))
    }

    /// What it says when it refuses.
    fn refusal(&self, words: &[&str]) -> String {
        let output = tune(&self.words(words));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words:?} passed");
        assert_eq!(self.ours(), "", "nothing is left of it");
        said
    }

    fn ours(&self) -> String {
        let of = |protocol: &str| {
            let show =
                |family: &str| self.host.ip(&format!("{family} route show proto {protocol}"));
            show("-4") + &show("-6")
        };
        of("116") + &of("117")
    }

    /// The interface that a packet leaves through, and whether its connection begins with 20.
    fn way(&self, to: &str) -> (String, bool) {
        let route = self.host.ip(&format!("route get {to}"));
        let device = route.split_once(" dev ").and_then(|(_, rest)| rest.split(' ').next());
        (device.expect("a device").to_owned(), route.contains("initcwnd 20"))
    }
}

fn through(device: &str, tuned: bool) -> (String, bool) {
    (device.into(), tuned)
}

const TWO_DEFAULTS: [&str; 4] = [
    "default via 10.1.0.1 metric 100",
    "default via 10.2.0.1 metric 600",
    "default via fd01::1 metric 100",
    "default via fd02::1 metric 1024",
];

#[test]
fn of_two_default_routes_packets_keep_the_one_they_take() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    host.set(&[]);
    assert_eq!(host.way("192.0.2.1"), through("d0", true));
    assert_eq!(host.way("2001:db8::1"), through("d0", true), "IPv6 has a default route, too");
    tuned(&["clear", "--backend", "route", "--netns", host.host.name()]);
    assert_eq!(host.ours(), "");
    assert_eq!(host.way("192.0.2.1"), through("d0", false));
}

#[test]
fn a_rule_stays_when_another_is_set_and_is_replaced_by_one_for_the_same_packets() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    let both = ["--remote", "198.51.100.0/24,2001:db8::/32"];
    host.set(&both);
    host.set(&["--remote", "192.0.2.0/24"]);
    for to in ["198.51.100.1", "2001:db8::1", "192.0.2.1"] {
        assert_eq!(host.way(to), through("d0", true), "{to}");
    }
    let ours = host.ours();
    host.set(&both);
    assert_eq!(host.ours().lines().count(), ours.lines().count(), "{}", host.ours());
    // One that is refused takes nothing away.
    let refused = tune(&host.words(&["--remote", "203.0.113.0/24", "--interface", "d1"]));
    assert!(!refused.status.success());
    assert_eq!(host.ours().lines().count(), ours.lines().count(), "{}", host.ours());
    tuned(&["clear", "--backend", "route", "--netns", host.host.name()]);
    assert_eq!(host.ours(), "");
}

/// It is refused when a part of its routes is there already.
#[test]
fn a_rule_that_the_kernel_refuses_leaves_those_before_it() {
    needs_probes!();
    let by_a_router_that_is_out_of_reach =
        ["172.16.0.0/16 dev d1", "203.0.113.0/24 via 172.16.0.1"];
    let host = Host::with_routes(&[&TWO_DEFAULTS[..], &by_a_router_that_is_out_of_reach].concat());
    host.host.ip("-4 route del 172.16.0.0/16 dev d1");
    host.set(&[]);
    host.set(&["--remote", "2001:db8::/32,198.51.100.0/24"]);
    let before = host.ours();
    let netns = host.host.name();
    let both = ["--remote", "2001:db8::/32,198.51.100.0/24,0.0.0.0/0,203.0.113.0/24"];
    let window = ["--netns", netns, "--initial-window", "40"];
    let output = tune(&[&["set", "--backend", "route"], &both[..], &window].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("203.0.113.0/24"), "{said}");
    assert_eq!(host.ours(), before);
    for to in ["2001:db8::1", "198.51.100.1", "192.0.2.1"] {
        assert_eq!(host.way(to), through("d0", true), "{to}");
    }

    let file = tempfile::NamedTempFile::new().expect("a file");
    let rule = "[[rule]]\nmatch.remote = '203.0.113.0/24'\naction.initial_window = 9\n";
    std::fs::write(file.path(), rule).expect("a policy");
    let name = file.path().to_str().expect("a path of text");
    let output = tune(&["apply", "--backend", "route", "--netns", netns, "-d", "2s", name]);
    assert!(!output.status.success());
    assert_eq!(host.ours(), before);
}

/// The kernel tells such routes with a flag that it takes none with.
#[test]
fn a_rule_that_the_kernel_refuses_leaves_those_whose_link_is_down() {
    needs_probes!();
    let by_a_router_that_is_out_of_reach =
        ["172.16.0.0/16 dev d1", "203.0.113.0/24 via 172.16.0.1"];
    let host = Host::with_routes(&[&TWO_DEFAULTS[..], &by_a_router_that_is_out_of_reach].concat());
    host.host.ip("-4 route del 172.16.0.0/16 dev d1");
    host.set(&["--remote", "2001:db8::/32,198.51.100.0/24"]);
    host.far.ip("link set p0 down");
    wait_for("the carrier to be lost", || host.ours().contains("linkdown"));
    let before = host.ours();
    let refused = tune(&host.words(&["--remote", "203.0.113.0/24"]));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && !said.contains("restored"), "{said}");
    assert_eq!(host.ours(), before);
}

#[test]
fn two_processes_do_not_change_the_routes_of_one_namespace() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    let netns = host.host.name();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[rule]]\naction.initial_window = 20\n").expect("a policy");
    let name = file.path().to_str().expect("a path of text");
    let apply = ["apply", "--backend", "route", "--netns", netns, name];
    let mut first = transom().arg("tune").args(apply).spawn().expect("transom runs");
    wait_for("its routes", || host.ours().lines().count() == 2);
    let ours = host.ours();
    let clear = ["clear", "--backend", "route", "--netns", netns].to_vec();
    let remote = ["--remote", "192.0.2.0/24"];
    for second in [apply.to_vec(), host.words(&remote), clear] {
        let refused = tune(&second);
        let said = String::from_utf8_lossy(&refused.stderr);
        let by = format!("process {} tunes these connections already", first.id());
        assert!(!refused.status.success() && said.contains(&by), "{second:?}: {said}");
        assert_eq!(host.ours(), ours, "{second:?}");
    }
    kill_process(Pid::from_child(&first), Signal::INT).expect("it runs");
    assert!(first.wait().expect("our child").success());
    assert_eq!(host.ours(), "");
}

#[test]
fn status_and_clear_know_the_routes_without_being_told_of_them() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    let place = ["--netns", host.host.name()];
    host.set(&["--remote", "198.51.100.0/24"]);
    let status = tuned(&[&["status"], &place[..]].concat());
    let shows = |what: &str| status.contains(what);
    assert!(shows("198.51.100.0/24") && shows("initcwnd 20") && !shows("nothing"), "{status}");
    tuned(&[&["clear"], &place[..]].concat());
    assert_eq!(host.ours(), "");
    assert_eq!(tuned(&[&["status"], &place[..]].concat()).trim(), "nothing is tuned");
}

/// An `apply --backend route` that was killed with its routes in force.
fn killed_apply(host: &Host) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[rule]]\naction.initial_window = 20\n").expect("a policy");
    let mut apply = transom();
    apply.args(["tune", "apply", "--backend", "route", "--netns", host.host.name()]);
    let mut apply = apply.arg(file.path()).spawn().expect("transom runs");
    wait_for("its routes", || host.ours().lines().count() == 2);
    apply.kill().expect("it runs");
    apply.wait().expect("our child");
    assert_eq!(host.ours().lines().count(), 2, "it could not remove them");
}

#[test]
fn what_a_killed_apply_left_is_told_and_removed_by_the_next_start_of_either_back_end() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    let netns = host.host.name();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[rule]]\nmatch.port = 9\naction.cap = 9\n").expect("a policy");
    let policy = file.path().to_str().expect("a path of text");
    let remote = ["--remote", "192.0.2.0/24"];
    for next in [
        vec!["apply", "--netns", netns, "-d", "200ms", policy],
        vec!["set", "--netns", netns, "--port", "9", "--cap", "9"],
        host.words(&remote),
    ] {
        tuned(&["clear", "--netns", netns]);
        killed_apply(&host);
        let status = tune(&["status", "--netns", netns]);
        let said = String::from_utf8_lossy(&status.stderr);
        assert!(said.contains("an `apply` that was killed left"), "{said}");
        let left = tuned(&["status", "--netns", netns, "--json"]);
        assert_eq!(left.matches(r#""outcome":"left""#).count(), 2, "{left}");
        tuned(&next);
        let ours = host.ours();
        assert!(!ours.contains("default"), "{next:?}: {ours}");
    }
    tuned(&["clear", "--netns", netns]);
    host.set(&["--remote", "198.51.100.0/24"]);
    let of_set = host.ours();
    tuned(&["apply", "--netns", netns, "-d", "200ms", policy]);
    assert_eq!(host.ours(), of_set, "what `set` put in force stays");
    let status = tuned(&["status", "--netns", netns, "--json"]);
    let route: serde_json::Value = serde_json::from_str(&status).expect("one object");
    let expected = serde_json::json!({
        "route": "198.51.100.0/24", "family": 4, "interface": "d0", "gateway": "10.1.0.1",
        "algorithm": null, "initial_window": 20, "netns": netns, "outcome": "in_force",
    });
    assert_eq!(route, expected);
}

#[test]
fn without_root_the_remedy_is_told_and_nothing_is_done() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    host.set(&[]);
    let ours = host.ours();
    let folder = tempfile::tempdir().expect("a folder");
    for words in [&["set", "--initial-window", "30", "--remote", "192.0.2.0/24"][..], &["clear"]] {
        let mut tune = transom_of_nobody(folder.path());
        tune.arg("tune").args(words).args(["--backend", "route"]);
        let refused = host.host.inside(|| tune.output()).expect("transom runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("run as root (sudo)"), "{said}");
        assert_eq!(host.ours(), ours);
    }
    let mut status = transom_of_nobody(folder.path());
    status.args(["tune", "status", "--backend", "route"]);
    let status = host.host.inside(|| status.output()).expect("transom runs");
    let (told, notes) = (String::from_utf8_lossy(&status.stdout), status.stderr.as_slice());
    assert!(status.status.success() && notes.is_empty(), "{status:?}");
    assert!(told.contains("default via 10.1.0.1 dev d0 proto 116 initcwnd 20"), "{told}");
}

#[test]
fn a_prefix_with_bits_of_a_host_is_that_of_its_network() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    host.set(&["--remote", "198.51.100.7/24,2001:db8::7/32"]);
    for to in ["198.51.100.1", "2001:db8:1::1"] {
        assert_eq!(host.way(to), through("d0", true), "{to}");
    }
}

#[test]
fn a_rule_for_the_other_interface_moves_nothing_to_it() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    host.set(&["--interface", "d1"]);
    for to in ["192.0.2.1", "2001:db8::1"] {
        assert_eq!(host.way(to), through("d0", false));
        assert_eq!(host.way(&format!("{to} oif d1")), through("d1", true), "who is bound to it");
    }
}

#[test]
fn the_longest_prefix_is_copied_in_whatever_order_they_are() {
    needs_probes!();
    let host = Host::with_routes(&[
        "default via 10.1.0.1",
        "10.9.0.0/24 via 10.2.0.1",
        "10.9.0.0/16 via 10.1.0.1",
        "fd09::/32 via fd02::1",
        "fd09::/16 via fd01::1 metric 5",
    ]);
    host.set(&["--remote", "10.9.0.0/28,10.9.0.0/16,fd09::/48"]);
    assert_eq!(host.way("10.9.0.1"), through("d1", true));
    assert_eq!(host.way("10.9.0.99"), through("d1", false), "a longer route is no rule's");
    assert_eq!(host.way("10.9.7.1"), through("d0", true));
    assert_eq!(host.way("fd09::1"), through("d1", true));
    assert_eq!(host.way("192.0.2.1"), through("d0", false));
}

#[test]
fn a_copy_that_other_packets_would_follow_is_refused() {
    needs_probes!();
    let host = Host::with_routes(&TWO_DEFAULTS);
    let said = host.refusal(&["--remote", "198.51.100.0/24", "--interface", "d1"]);
    assert!(said.contains("that leave through d0 now would follow"), "{said}");
    // Of equal ones the first is taken; in IPv6 there is no metric between these two.
    for other in [
        "-4 route append default via 10.2.0.1 metric 100",
        "-6 route add default via fd02::1 metric 101",
    ] {
        let host = Host::with_routes(&TWO_DEFAULTS);
        host.host.ip(other);
        let family = if other.contains("::") { "::/0" } else { "0.0.0.0/0" };
        let said = host.refusal(&["--remote", family, "--interface", "d1"]);
        assert!(said.contains("give that one a metric of its own"), "{said}");
    }
}

#[test]
fn a_gateway_beyond_the_link_is_copied() {
    needs_probes!();
    let host = Host::with_routes(&["default via 172.16.1.1 dev d1 onlink metric 50 mtu 1300"]);
    host.set(&[]);
    assert_eq!(host.way("192.0.2.1"), through("d1", true));
    assert!(host.ours().contains("onlink metric 50") || host.ours().contains("metric 50 onlink"));
    assert!(host.ours().contains("mtu 1300"), "{}", host.ours());
}

#[test]
fn what_cannot_be_copied_is_named_with_what_to_do() {
    needs_probes!();
    let hops = "nexthop via 10.1.0.1 dev d0 nexthop via 10.2.0.1 dev d1";
    for (route, names) in [
        (format!("default {hops}"), "several next hops (d0, d1)"),
        ("unreachable default".into(), "its route is `unreachable`"),
        ("default via fd01::1 metric 1".into(), "no metric is left"),
    ] {
        let host = Host::with_routes(&[&route]);
        let said = host.refusal(&[]);
        assert!(said.contains(names), "{route}: {said}");
    }
    let host = Host::with_routes(&[&format!("default {hops}"), "default via 10.2.0.1 metric 9"]);
    let said = host.refusal(&["--interface", "d1"]);
    assert!(said.contains("ip route change"), "{said}");
    let host = Host::with_routes(&[]);
    assert!(host.refusal(&[]).contains("there is no route to default"));
}

#[test]
fn a_policy_of_which_routes_keep_no_rule_is_not_held() {
    needs_probes!();
    let host = Host::with_routes(&[]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[[rule]]\naction = { cap = 20 }\n").expect("a policy");
    let name = file.path().to_str().expect("a path of text");
    let netns = host.host.name();
    let output = tune(&["apply", "--backend", "route", "--netns", netns, "-d", "2s", name]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rule 1 is left out") && said.contains("none of its rules"), "{said}");
}

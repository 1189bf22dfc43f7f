//! Two access points, and a Zenoh router between them.

mod peering;

use std::process::{Child, Command, Stdio};

use peering::{
    Group, Lan, Namespace, PROGRAM, Terminal, names, needs_root, wait_for, wait_until_all_see,
};

/// A host with a leg in both networks.
struct Between {
    host: Namespace,
    router: Option<Child>,
}

impl Between {
    fn new(lans: &[Lan]) -> Between {
        let host = Namespace::new("between");
        for lan in lans {
            let (device, net) = (format!("lan{}", lan.net), lan.net);
            host.ip(&format!(
                "link add {device} type veth peer name port253 netns {}",
                lan.gateway.name()
            ));
            lan.gateway.ip("link set port253 master br0 up");
            host.ip(&format!("addr add 10.{net}.0.253/16 dev {device}"));
            host.ip(&format!("link set {device} up"));
        }
        let mut between = Between { host, router: None };
        between.start();
        between
    }

    fn start(&mut self) {
        let mut command = self.host.command(PROGRAM);
        command.arg("router").stdin(Stdio::null()).stdout(Stdio::null());
        self.router = Some(command.spawn().expect("transom-peer runs"));
        wait_for("the router to listen", || {
            let sockets = self.host.command("ss").args(["-Hlun"]).output().expect("ss");
            String::from_utf8_lossy(&sockets.stdout).contains(":7447")
        });
    }

    fn kill(&mut self) {
        if let Some(mut router) = self.router.take() {
            let _ = router.kill();
            let _ = router.wait();
        }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.kill();
    }
}

fn terminal(lan: &Lan, number: u8, group: &Group, more: &[&str]) -> Terminal {
    let router = format!("udp/10.{}.0.253:7447", lan.net);
    let arguments = [&["--dry-run", "--connect", &router], more].concat();
    Terminal::start(lan.host(number), number, group, &arguments)
}

#[test]
fn through_a_router_each_hears_its_own_access_point() {
    needs_root!();
    let (lans, group) = ([Lan::new(91), Lan::new(92)], Group::new());
    let _between = Between::new(&lans);
    let left = [1, 2].map(|number| terminal(&lans[0], number, &group, &[]));
    let right = [3, 4].map(|number| terminal(&lans[1], number, &group, &[]));
    wait_until_all_see(&left, &names(1..=2));
    wait_until_all_see(&right, &names(3..=4));
}

#[test]
fn terminals_of_one_access_point_on_two_networks_meet_at_the_router_also_when_it_comes_back() {
    needs_root!();
    let (lans, group) = ([Lan::new(93), Lan::new(94)], Group::new());
    let mut between = Between::new(&lans);
    let same = ["--access-point", "kitchen"];
    let terminals =
        [(0, 1), (0, 2), (1, 3)].map(|(lan, number)| terminal(&lans[lan], number, &group, &same));
    wait_until_all_see(&terminals, &names(1..=3));
    between.kill();
    for terminal in &terminals {
        wait_for("each to be alone", || terminal.sees() == [terminal.name.clone()]);
    }
    between.start();
    wait_until_all_see(&terminals, &names(1..=3));
}

#[test]
fn peers_of_zenoh_find_each_other_without_a_router() {
    needs_root!();
    let (lan, group) = (Lan::new(95), Group::new());
    let terminals = lan.terminals(3, &group, &["--dry-run", "--via", "zenoh"]);
    wait_until_all_see(&terminals, &names(1..=3));
}

#[test]
fn an_endpoint_that_is_none_is_refused_in_plain_words() {
    for option in ["--listen", "--connect"] {
        for (endpoint, said) in [
            ("192.0.2.1:7447", "must begin with udp/ or tcp/: udp/192.0.2.1:7447"),
            ("udp/192.0.2.1", "no such host, or no port after it"),
        ] {
            let mut router = Command::new(PROGRAM);
            let refused = router.args(["router", option, endpoint]).output().expect("it runs");
            let errors = String::from_utf8_lossy(&refused.stderr);
            assert!(!refused.status.success() && errors.contains(said), "{option}: {errors}");
        }
    }
}

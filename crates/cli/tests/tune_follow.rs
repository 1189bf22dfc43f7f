//! `transom tune follow`: signed generations on real connections, and how they go again.

mod following;

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use following::{Fleet, Follow, key, now_s};
use transom_rollout::{Current, FORMAT};
use transom_testbed::tuned::{algorithm_of, tune, tuned};
use transom_testbed::{Path, Refusal, needs_probes, pair, socket_statistics, wait_for};

const CUBIC: &str = "[[rule]]\naction = { algorithm = \"cubic\", initial_window = 23 }\n";
const BBR: &str = "[[rule]]\naction = { algorithm = \"bbr\" }\n";

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

fn nothing_is_tuned(path: &Path) -> bool {
    tuned(&["status", "--netns", path.left.name()]) == "nothing is tuned\n"
}

#[test]
fn a_generation_is_on_running_and_new_connections_until_its_lease_ends() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    let follow = Follow::start(&path, &fleet, &[]);
    follow.wait_for("nothing is in force: nothing has come that it believes");
    fleet.roll_out(1, Some(CUBIC));
    follow.wait_for("generation 1 is in force");
    wait_for("the running connection", || algorithm_of(&running) == "cubic");
    let (new, _far_too) = pair(&path);
    let port = new.peer_addr().unwrap().port();
    assert_eq!(socket_statistics(&path.left, port).get("cwnd").map(String::as_str), Some("23"));
    assert_eq!(algorithm_of(&new), "cubic");
    let short = Current { lease_s: 3, ..fleet.current(1) };
    fleet.show(&short, 1);
    follow.wait_for("nothing is in force: generation 1: its lease was over");
    assert!(now_s() >= short.written_s + 2, "not before");
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
    assert!(nothing_is_tuned(&path));
    fleet.show(&fleet.current(1), 1);
    wait_for("the renewal", || algorithm_of(&running) == "cubic");
}

#[test]
fn a_new_generation_takes_the_place_of_the_one_before_and_one_without_a_policy_takes_all_back() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(CUBIC));
    let follow = Follow::start(&path, &fleet, &["--json"]);
    wait_for("the first", || algorithm_of(&running) == "cubic");
    fleet.roll_out(2, Some(BBR));
    wait_for("the second", || algorithm_of(&running) == "bbr");
    fleet.roll_out(3, Some("[[rule]]\naction = { algorithm = \"vegas\" }"));
    follow.wait_for("generation 3 cannot be put in force: line 2: the kernel has no algorithm");
    assert_eq!(algorithm_of(&running), "reno");
    fleet.roll_out(4, Some(CUBIC));
    wait_for("the fourth", || algorithm_of(&running) == "cubic");
    fleet.roll_out(5, None);
    follow.wait_for("generation 5 is to have none");
    assert_eq!(algorithm_of(&running), "reno");
    let told: Vec<serde_json::Value> =
        follow.lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        told.iter().map(|it| (it["what"].as_str().unwrap(), &it["generation"])).collect();
    let of = |n: u64| serde_json::Value::from(n);
    let none = serde_json::Value::Null;
    assert_eq!(
        told,
        [
            ("in_force", &of(1)),
            ("in_force", &of(2)),
            ("nothing", &none),
            ("in_force", &of(4)),
            ("nothing", &none)
        ]
    );
}

#[test]
fn a_host_that_has_no_turn_has_nothing() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.publish(1, Some(CUBIC));
    fleet.show(&Current { wave: 0, first: "another".into(), ..fleet.current(1) }, 1);
    let follow = Follow::start(&path, &fleet, &[]);
    follow.wait_for("nothing is in force: this host has no turn in generation 1");
    assert_eq!(algorithm_of(&running), "reno");
    // The control: its turn comes.
    fleet.show(&Current { wave: 0, written_s: now_s() + 1, ..fleet.current(1) }, 1);
    wait_for("its turn", || algorithm_of(&running) == "cubic");
}

#[test]
fn ctrl_c_takes_all_back_and_so_does_the_start_after_a_kill() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(CUBIC));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let follow = Follow::start(&path, &fleet, &[]);
        wait_for("the policy", || algorithm_of(&running) == "cubic");
        assert!(follow.end(signal).success());
        assert_eq!(algorithm_of(&running), "reno");
        assert!(nothing_is_tuned(&path));
    }
    let follow = Follow::start(&path, &fleet, &[]);
    wait_for("the policy", || algorithm_of(&running) == "cubic");
    follow.end(libc::SIGKILL);
    assert_eq!(algorithm_of(&running), "cubic", "nobody is there to take it back");
    let empty = Fleet::new();
    let next = Follow::start(&path, &empty, &[]);
    next.wait_for("nothing is in force");
    assert_eq!(algorithm_of(&running), "reno");
    assert!(nothing_is_tuned(&path));
}

#[test]
fn what_is_forged_replayed_or_of_a_newer_format_changes_nothing() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(BBR));
    let old = fleet.bytes("current");
    let follow = Follow::start(&path, &fleet, &[]);
    wait_for("the first", || algorithm_of(&running) == "bbr");
    fleet.roll_out(2, Some(CUBIC));
    wait_for("the second", || algorithm_of(&running) == "cubic");
    let good = fleet.bytes("current");
    let next = fleet.current(3);
    fleet.publish(3, Some(BBR));
    fleet.show(&next, 2);
    follow.wait_for("not believed: current: signed with the key");
    let forged = String::from_utf8(good.clone()).unwrap().replace("wave\\\":1", "wave\\\":0");
    fleet.put("current", forged.as_bytes());
    follow.wait_for("not believed: current: the signature is not of this text");
    fleet.show(&Current { format: FORMAT + 1, ..next.clone() }, 1);
    follow.wait_for("not believed: current: it has the format 2");
    fleet.show(&Current { written_s: now_s() + 4000, ..next.clone() }, 1);
    follow.wait_for("s from now: a clock is wrong");
    fleet.put("gen-3", &fleet.bytes("gen-2"));
    fleet.show(&next, 1);
    follow.wait_for("not believed: gen-3: it is generation 2");
    fleet.put("current", &old);
    follow.wait_for("generation 1: it is older than what was there before");
    assert_eq!(algorithm_of(&running), "cubic", "what it believed before holds");
    assert!(follow.end(libc::SIGINT).success());
    // Nor does it believe it after a restart, if it knows what it has seen.
    let follow = Follow::start(&path, &fleet, &[]);
    follow.wait_for("generation 1: it is older than what was there before");
    follow.wait_for("nothing is in force: nothing has come");
    assert_eq!(algorithm_of(&running), "reno");
    assert!(follow.end(libc::SIGINT).success());
    // The control: who has seen nothing believes it.
    fleet.forget();
    let _follow = Follow::start(&path, &fleet, &[]);
    wait_for("the replay", || algorithm_of(&running) == "bbr");
}

#[test]
fn a_host_that_trusts_another_key_has_nothing() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(CUBIC));
    fleet.trust(&[key(2)]);
    let follow = Follow::start(&path, &fleet, &[]);
    follow.wait_for("which is not trusted");
    follow.wait_for("nothing is in force: nothing has come that it believes");
    let (new, _far_too) = pair(&path);
    assert_eq!((algorithm_of(&running), algorithm_of(&new)), ("reno".into(), "reno".into()));
    assert!(follow.end(libc::SIGINT).success());
    // The control: the same with the right one beside it.
    fleet.trust(&[key(2), key(1)]);
    let _follow = Follow::start(&path, &fleet, &[]);
    wait_for("the policy", || algorithm_of(&running) == "cubic");
}

#[test]
fn keys_that_are_changed_while_it_runs_are_trusted_and_those_that_are_removed_are_not() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(CUBIC));
    let follow = Follow::start(&path, &fleet, &[]);
    wait_for("the first", || algorithm_of(&running) == "cubic");
    // A new key comes to the host, and signs then.
    fleet.trust(&[key(1), key(2)]);
    fleet.publish_by(2, Some(BBR), 2);
    fleet.show(&fleet.current(2), 2);
    wait_for("what the new key signed", || algorithm_of(&running) == "bbr");
    // Half a file is none: it goes on with the keys that it had.
    fs::write(fleet.keys(), "AAAA").unwrap();
    fleet.publish_by(3, Some(CUBIC), 2);
    fleet.show(&fleet.current(3), 2);
    wait_for("what the new key signed meanwhile", || algorithm_of(&running) == "cubic");
    // What only the removed key has signed is not believed.
    fleet.trust(&[key(2)]);
    fleet.publish(4, Some(BBR));
    fleet.show(&fleet.current(4), 1);
    follow.wait_for("not believed: current: signed with the key");
    assert_eq!(algorithm_of(&running), "cubic");
    fleet.trust(&[key(1)]);
    wait_for("the old key again", || algorithm_of(&running) == "bbr");
    // Nor does anything stay in force that the last key has signed, when that is removed.
    fleet.trust(&[key(3)]);
    follow.wait_for("nothing is in force: nothing has come that it believes");
    assert_eq!(algorithm_of(&running), "reno");
}

/// What `RestrictAddressFamilies=` leaves to the service.
fn families_of_the_unit() -> Vec<i32> {
    const UNIT: &str = include_str!("../../../packaging/systemd/transom-tune-follow.service");
    let line = UNIT.lines().find_map(|line| line.strip_prefix("RestrictAddressFamilies="));
    let number = |name: &str| match name {
        "AF_UNIX" => libc::AF_UNIX,
        "AF_NETLINK" => libc::AF_NETLINK,
        "AF_INET" => libc::AF_INET,
        "AF_INET6" => libc::AF_INET6,
        _ => panic!("the test does not know {name}"),
    };
    line.unwrap().split_whitespace().map(number).collect()
}

#[test]
fn a_policy_that_names_an_interface_needs_no_socket_that_the_unit_refuses() {
    needs_probes!();
    let on = |interface: &str| format!("{CUBIC}match = {{ interface = \"{interface}\" }}\n");
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(&on("wire")));
    let confined = Refusal::of_sockets_but(&families_of_the_unit());
    let follow = confined.during(|| Follow::start(&path, &fleet, &[]));
    follow.wait_for("generation 1 is in force");
    wait_for("the running connection", || algorithm_of(&running) == "cubic");
    fleet.roll_out(2, Some(&on("wlan9")));
    follow.wait_for("there is no interface 'wlan9' here: see `ip link`");
    assert_eq!(algorithm_of(&running), "reno");
}

/// Where it is kept what connections of the path's left side had.
fn pins(path: &Path) -> PathBuf {
    let netns = fs::metadata(format!("/run/netns/{}", path.left.name())).unwrap();
    PathBuf::from(format!("/run/transom/bpf/netns-{}", netns.ino()))
}

/// A folder where a file is to be taken away; it would be in everybody's way if it stayed.
struct InTheWay(PathBuf);

impl InTheWay {
    fn of(path: &Path) -> InTheWay {
        let folder = pins(path).join("in-the-way");
        fs::create_dir(&folder).unwrap();
        InTheWay(folder)
    }
}

impl Drop for InTheWay {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn what_could_not_be_taken_back_is_not_said_to_be() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let (running, _far) = pair(&path);
    fleet.roll_out(1, Some(CUBIC));
    let mut follow = Follow::command(&path, &fleet, &[]).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the policy", || algorithm_of(&running) == "cubic");
    let in_the_way = InTheWay::of(&path);
    fleet.roll_out(2, None);
    wait_for("its end", || follow.try_wait().unwrap().is_some());
    let status = follow.wait().unwrap();
    let mut said = String::new();
    follow.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    drop(in_the_way);
    assert!(!status.success());
    assert!(said.contains("in-the-way") && said.contains("the next start takes it back"), "{said}");
    assert!(!said.contains("every connection has back what it had"), "{said}");
    // The control: nothing is in the way.
    let follow = Follow::start(&path, &fleet, &[]);
    follow.wait_for("generation 2 is to have none");
    assert!(follow.end(libc::SIGINT).success());
    assert!(nothing_is_tuned(&path));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_done() {
    needs_probes!();
    let (path, fleet) = (slow_path(), Fleet::new());
    let refused = |words: &[&str]| {
        let all = [&["follow", "--netns", path.left.name()], words].concat();
        let output = tune(&all);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let (folder, keys) = (fleet.folder(), fleet.keys());
    let common = [folder.as_str(), "--trust", keys.as_str()];
    let with = |more: &[&str]| refused(&[&common, more].concat());
    assert!(with(&["--every", "0s"]).contains("give 100ms to 1h"));
    assert!(refused(&["/no/such", "--trust", &keys]).contains("/no/such"));
    assert!(refused(&[&folder, "--trust", "/no/such"]).contains("the trusted keys /no/such"));
    fleet.let_others_write_the_keys();
    assert!(with(&[]).contains("chmod go-w"));
    assert!(nothing_is_tuned(&path));
}

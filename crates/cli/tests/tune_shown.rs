//! Each action is seen wherever connections are: journal, `top`, `log`, `report`.

use std::fs;
use std::time::Duration;

use transom_testbed::tuned::{Policy, Setting, algorithm_of, tuned};
use transom_testbed::{
    Path, Recording, needs, needs_probes, pair, send_and_wait, transom, wait_for,
};

const RULE: &str = "[[rule]]\nmatch = { rtt = \"32ms..\" }\naction = { algorithm = \"steady\", target = 30, cap = 55 }\n";

fn slow_path() -> Path {
    Path::new(Duration::from_millis(20))
}

/// What a `transom` command prints; it must succeed.
fn said(words: &[&str]) -> String {
    let output = transom().args(words).output().expect("transom runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Leaves no journal behind, also when an assertion fails.
struct Removed;

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = transom().args(["journal", "remove"]).output();
    }
}

#[test]
fn the_journal_tells_what_was_done_and_why() {
    needs_probes!();
    needs!("journal");
    let _ = said(&["journal", "remove"]);
    let _removed = Removed;
    let path = slow_path();
    said(&["journal", "install", "--netns", path.left.name(), "--size", "2000"]);
    let policy = Policy::start(path.left.name(), RULE);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 50_000);
    policy.stop();
    send_and_wait(&mut client, &mut server, 50_000);
    let _setting = Setting::of(path.left.name(), &["--algorithm", "cubic", "--cap", "37"]);
    send_and_wait(&mut client, &mut server, 50_000);
    let journal = fs::read_to_string("/sys/fs/bpf/transom/tcp").expect("the journal can be read");
    let actions: Vec<&str> = journal
        .lines()
        .filter(|line| line.contains(" parm,Type=16 "))
        .map(|line| line.split_once("] ").expect("more than the paper's line").1)
        .collect();
    assert_eq!(
        actions,
        [
            "action=steady cap=55 rule=1 because=new_connection",
            "action=before cap=0 rule=0 because=cleared",
            "action=cubic cap=37 rule=0 because=by_hand",
        ]
    );
    assert_eq!(journal.matches("action=").count(), 3, "no other line has one");
}

#[test]
fn the_status_tells_what_is_set_though_no_connection_has_it() {
    needs_probes!();
    let path = slow_path();
    let name = path.left.name();
    let status = || tuned(&["status", "--netns", name]);
    assert_eq!(status(), "nothing is tuned\n");
    let _setting = Setting::of(name, &["--algorithm", "cubic", "--cap", "37", "--port", "80,443"]);
    tuned(&["set", "--netns", name, "--cap", "20", "--remote", "10.77.0.9", "--rtt", "..8ms"]);
    assert_eq!(
        status(),
        "no connection is tuned; new ones that match get what was set:\n  \
         cap 20: remote 10.77.0.9/32, rtt ..8ms\n  cubic, cap 37: port 80 or 443\n"
    );
}

#[test]
fn the_status_tells_who_waits_for_connections_that_match() {
    needs_probes!();
    let path = slow_path();
    let name = path.left.name();
    let policy = Policy::start(name, RULE);
    let waits = format!("no connection is tuned; process {} tunes those", policy.child.id());
    assert!(tuned(&["status", "--netns", name]).starts_with(&waits));
    policy.stop();
    assert_eq!(tuned(&["status", "--netns", name]), "nothing is tuned\n");
}

#[test]
fn the_status_tells_the_target_of_steady() {
    needs_probes!();
    let path = slow_path();
    let words = ["--algorithm", "steady", "--target", "30", "--cap", "55"];
    let _setting = Setting::unguarded(path.left.name(), &words);
    let (_client, _server) = pair(&path);
    let status = tuned(&["status", "--netns", path.left.name()]);
    let told = ": steady, target 30, cap 55, because it was asked for\n";
    assert!(status.ends_with(told), "{status}");
    let status = tuned(&["status", "--netns", path.left.name(), "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("one JSON object");
    assert_eq!(status["target"], 30);
}

#[test]
fn top_shows_the_last_action_of_a_connection() {
    needs_probes!();
    let path = slow_path();
    let (mut client, mut server) = pair(&path);
    let netns = path.left.name().to_owned();
    let _setting = Setting::of(&netns, &["--algorithm", "steady", "--target", "30", "--cap", "55"]);
    let ours = client.local_addr().unwrap().to_string();
    let top =
        std::thread::spawn(move || said(&["top", "--json", "--interval", "3", "--netns", &netns]));
    // It shows what happens from its first look on.
    while !top.is_finished() {
        send_and_wait(&mut client, &mut server, 20_000);
    }
    let snapshot: serde_json::Value =
        serde_json::from_str(&top.join().expect("it ended well")).expect("JSON");
    let connections = snapshot["connections"].as_array().expect("a list").iter();
    let shown: Vec<_> = connections.filter(|c| c["local"] == ours.as_str()).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["algorithm"], "steady");
    assert_eq!(shown[0]["last_action"], "steady, cap 55, because it was asked for");
}

#[test]
fn the_report_marks_the_curve_with_it() {
    needs_probes!();
    let path = slow_path();
    let directory = tempfile::tempdir().expect("a directory");
    let mut recording = Recording::start(&["--netns", path.left.name()]);
    let (mut client, mut server) = pair(&path);
    send_and_wait(&mut client, &mut server, 300_000);
    let policy = Policy::start(path.left.name(), RULE);
    wait_for("the running connection", || algorithm_of(&client) == "steady");
    send_and_wait(&mut client, &mut server, 300_000);
    policy.stop();
    send_and_wait(&mut client, &mut server, 100_000);
    recording.signal(libc::SIGINT);
    assert_eq!(recording.wait().0, 0);
    let file = recording.file().to_str().expect("a path of text");
    let (page, figures) = (directory.path().join("page.html"), directory.path().join("figures"));
    said(&[
        "report",
        file,
        "-o",
        page.to_str().expect("a path of text"),
        "--svg",
        figures.to_str().expect("a path of text"),
    ]);
    let figure = fs::read_dir(&figures).expect("figures").next().expect("one").expect("one");
    let svg = fs::read_to_string(figure.path()).expect("an SVG");
    assert!(svg.contains(">steady, cap 55, because it matches now (rule 1)<"), "{svg}");
    assert!(svg.contains(">as before, because the policy was cleared<"), "{svg}");
    let page = fs::read_to_string(&page).expect("a page");
    assert!(page.contains("steady, cap 55, because it matches now (rule 1)"));
}

#[test]
fn json_tells_the_rules_that_wait_and_the_process_that_holds_a_policy_as_words_do() {
    needs_probes!();
    let path = slow_path();
    let netns = path.left.name();
    let told = |more: &[&str]| tuned(&[&["status", "--netns", netns], more].concat());
    assert_eq!(told(&["--json"]), "", "nothing is tuned");
    let setting = Setting::of(netns, &["--cap", "37", "--port", "443,7"]);
    assert!(told(&[]).ends_with("\n  cap 37: port 443 or 7\n"), "{}", told(&[]));
    let rule: serde_json::Value = serde_json::from_str(&told(&["--json"])).expect("one object");
    let expected = serde_json::json!({
        "matches": "port 443 or 7", "algorithm": null, "target": 0, "cap": 37, "initial_window": 0,
    });
    assert_eq!(rule, expected);
    setting.clear();
    let policy = Policy::start(netns, RULE);
    let pid = policy.child.id();
    assert!(told(&[]).contains(&format!("process {pid} tunes those that match")), "{}", told(&[]));
    assert_eq!(told(&["--json"]), format!("{{\"holder\":{pid}}}\n"));
    policy.stop();
    assert_eq!(told(&["--json"]), "", "it is over");
}

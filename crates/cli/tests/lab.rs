//! `transom lab` on the real kernel: what it puts up, runs, notices, and takes down again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use transom_control::Scope;
use transom_event::Kind;
use transom_lab::clean::{DIRECTORY, Lab, Process};
use transom_lab::hosts::{Backend, Topology, Wish};
use transom_testbed::lab::{Bench, errors, json};
use transom_testbed::{Namespace, Trace, needs_root, transom_of_nobody, wait_for};

const PHONE_AND_SERVER: &str = r#"
title = "A phone and a server"
source = "this test"
question = "Does it hold?"
duration_s = 1
repeats = 1

[air]

[path]
rtt_ms = 10

[hosts.phone]
profile = "ht-03a"

[hosts.server]
profile = "server"

[flows.up]
from = "phone"
to = "server"
"#;

#[test]
fn hosts_reach_each_other_over_air_and_path_with_both_protocols() {
    needs_root!();
    let bench = Bench::new("ping", PHONE_AND_SERVER);
    let mut shell = bench.shell();
    for address in ["10.77.0.2", "fd77::2"] {
        let ping = bench.exec("phone", &["ping", "-c", "3", "-i", "0.1", address]);
        let said = String::from_utf8_lossy(&ping.stdout).into_owned();
        assert!(said.contains(" 0% packet loss"), "{said}");
        let minimum = said.split("rtt min/avg/max/mdev = ").nth(1).expect("a summary");
        let minimum: f64 = minimum.split('/').next().and_then(|n| n.parse().ok()).expect("ms");
        assert!(minimum >= 10.0, "faster than the path: {said}");
    }
    shell.signal(libc::SIGINT);
    bench.assert_clean();
}

#[test]
fn a_name_that_is_taken_is_left_alone_and_told() {
    needs_root!();
    let bench = Bench::new("clash", PHONE_AND_SERVER);
    let name = format!("tx-{}-server", bench.name);
    assert!(Command::new("ip").args(["netns", "add", &name]).status().unwrap().success());
    let output = bench.run(&[]);
    let still_there = bench.namespace("server").exists();
    assert!(Command::new("ip").args(["netns", "delete", &name]).status().unwrap().success());
    assert!(!output.status.success() && still_there);
    assert!(errors(&output).contains(&format!("ip netns delete {name}")), "{}", errors(&output));
    assert!(!bench.results().exists());
    bench.assert_clean();
}

/// A largest receive buffer of this machine that is not Linux's own, until it is dropped. A shell in a
/// session of its own gives it back, also when Ctrl-C ends this program.
struct OtherBuffers(Child);

const TCP_RMEM: &str = "/proc/sys/net/ipv4/tcp_rmem";

impl OtherBuffers {
    fn new() -> OtherBuffers {
        let before = fs::read_to_string(TCP_RMEM).expect("a sysctl");
        let mut numbers: Vec<u32> =
            before.split_whitespace().map(|it| it.parse().expect("a number")).collect();
        numbers[2] = numbers[2].saturating_sub(4096);
        let other = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let script = format!("echo $0 >{TCP_RMEM} && echo set; read end; echo $1 >{TCP_RMEM}");
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", &script, &other, before.trim()]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("setsid");
        let mut said = BufReader::new(shell.stdout.take().expect("piped")).lines();
        assert_eq!(said.next().and_then(Result::ok).as_deref(), Some("set"));
        OtherBuffers(shell)
    }

    /// Whether a new network namespace takes them over: it does so from the first of the machine alone.
    fn are_inherited(&self) -> bool {
        let new = Namespace::new("buffers");
        new.output("cat", &[TCP_RMEM]) == fs::read_to_string(TCP_RMEM).expect("a sysctl")
    }
}

impl Drop for OtherBuffers {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn hosts_have_linuxs_own_buffers_whatever_the_machines_are() {
    needs_root!();
    let bench = Bench::new("buffers", PHONE_AND_SERVER);
    let others = OtherBuffers::new();
    if !others.are_inherited() {
        return transom_testbed::skip("first-netns", "new namespaces have the buffers of another");
    }
    let mut shell = bench.shell();
    drop(others);
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/{name}");
        let said = bench.exec("server", &["cat", &path]).stdout;
        String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(read("tcp_rmem"), "4096 131072 6291456");
    assert_eq!(read("tcp_wmem"), "4096 16384 4194304");
    shell.signal(libc::SIGINT);
    bench.assert_clean();
}

#[test]
fn sysctls_that_cannot_be_written_are_told_before_anything_is_made() {
    needs_root!();
    let bench = Bench::new("sysctls", PHONE_AND_SERVER);
    let lab = bench.lab(&["run", &bench.name]);
    let program = lab.get_program().to_str().expect("a path");
    let words: Vec<_> = lab.get_args().map(|word| word.to_str().expect("a word")).collect();
    let script = format!(
        "mount -o bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec {program} {}",
        words.join(" ")
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(bench.folder.path());
    let output = command.output().expect("unshare runs");
    assert!(!output.status.success());
    assert!(errors(&output).contains("a container must be privileged"), "{}", errors(&output));
    assert!(!bench.results().exists());
    bench.assert_clean();
}

#[test]
fn a_lab_that_is_up_is_neither_cleared_away_nor_put_up_twice() {
    needs_root!();
    let bench = Bench::new("live", PHONE_AND_SERVER);
    let shell = bench.shell();
    let clean = bench.lab(&["clean"]).output().unwrap();
    assert!(errors(&clean).contains(&format!("'{}' lives and stays", bench.name)));
    let run = bench.run(&[]);
    assert!(!run.status.success());
    assert!(errors(&run).contains(&format!("process {}", shell.pid())), "{}", errors(&run));
    assert!(bench.exec("phone", &["true"]).status.success(), "the lab is still up");
}

#[test]
fn a_program_in_a_host_ends_as_in_a_shell() {
    needs_root!();
    let bench = Bench::new("status", PHONE_AND_SERVER);
    let _shell = bench.shell();
    let code = |command: &[&str]| bench.exec("phone", command).status.code();
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    for (program, expected) in [("no-such-program-here", 127), ("/etc/passwd", 126)] {
        let output = bench.exec("phone", &[program]);
        assert_eq!(output.status.code(), Some(expected), "{program}");
        let said = errors(&output);
        assert!(said.starts_with(&format!("transom: cannot run '{program}': ")), "{said}");
    }
}

#[test]
fn what_a_killed_lab_leaves_goes_with_the_next_command() {
    needs_root!();
    let bench = Bench::new("killed", PHONE_AND_SERVER);
    let mut shell = bench.shell();
    let mut inside = bench.lab(&["exec", "--lab", &bench.name, "phone", "--", "sleep", "600"]);
    let mut inside = inside.spawn().expect("transom runs");
    let entered = format!("/proc/{}/ns/net", inside.id());
    let namespace = fs::metadata(bench.namespace("phone")).map(|m| inode(&m)).expect("it is up");
    wait_for("the program in the host", || {
        fs::metadata(&entered).is_ok_and(|metadata| inode(&metadata) == namespace)
    });
    // What a `tune apply` there leaves that is killed, too.
    let tuned = Scope { netns: None, inode: namespace as u32 };
    tuned.prepare().expect("a folder for its pins");
    shell.signal(libc::SIGKILL);
    // Any command clears away, perhaps one of another test before this one.
    assert!(bench.lab(&["list"]).output().unwrap().status.success());
    bench.assert_clean();
    assert!(!inside.wait().expect("it is ours").success(), "its program was ended");
    assert!(!tuned.pins().exists(), "{}", tuned.pins().display());
}

/// Which of its names are there when a command has met this dead lab: it had given the first name to
/// a namespace of its own, and not begun the second.
fn left_of_a_dead_lab(bench: &Bench) -> [bool; 2] {
    let lab = Lab {
        id: bench.name.clone(),
        owner: Process { pid: i32::MAX, started: 1 },
        command: "transom lab shell".into(),
        hosts: Vec::new(),
        namespaces: ["phone", "server"].map(|host| format!("tx-{}-{host}", bench.name)).to_vec(),
        inodes: vec![1],
    };
    fs::create_dir_all(DIRECTORY).unwrap();
    let file = format!("{DIRECTORY}/{}.json", bench.name);
    fs::write(file, serde_json::to_vec(&lab).unwrap()).unwrap();
    assert!(bench.lab(&["list"]).output().unwrap().status.success());
    ["phone", "server"].map(|host| bench.namespace(host).exists())
}

#[test]
fn a_name_whose_making_was_cut_short_goes_with_the_next_command() {
    needs_root!();
    let bench = Bench::new("cut", PHONE_AND_SERVER);
    fs::create_dir_all("/run/netns").unwrap();
    // `ip netns attach` makes an empty file, and then mounts the namespace there.
    for host in ["phone", "server"] {
        fs::write(bench.namespace(host), "").unwrap();
    }
    let left = left_of_a_dead_lab(&bench);
    let somebody_elses = fs::remove_file(bench.namespace("server"));
    assert!(left == [false, true] && somebody_elses.is_ok(), "{left:?}");
    bench.assert_clean();
}

#[test]
fn namespaces_of_others_under_the_names_of_a_dead_lab_stay() {
    needs_root!();
    let bench = Bench::new("others", PHONE_AND_SERVER);
    let ip = |word: &str, host: &str| {
        let name = format!("tx-{}-{host}", bench.name);
        assert!(Command::new("ip").args(["netns", word, &name]).status().unwrap().success());
    };
    ["phone", "server"].iter().for_each(|host| ip("add", host));
    let left = left_of_a_dead_lab(&bench);
    ["phone", "server"].iter().for_each(|host| ip("delete", host));
    assert_eq!(left, [true, true]);
    bench.assert_clean();
}

fn inode(metadata: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.ino()
}

#[test]
fn a_run_gives_numbers_and_is_not_run_again() {
    needs_root!();
    let text = PHONE_AND_SERVER.to_owned() + "[sweep]\n\"path.rtt_ms\" = [0, 20]\n";
    let bench = Bench::new("whole", &text);
    let output = bench.run(&["--pcap"]);
    assert!(output.status.success(), "{}", errors(&output));
    let run = bench.results().join("runs/rtt-ms-20/1");
    let measured = json(&run.join("measured.json"));
    let goodput = measured["flows"]["up"]["goodput_mbit"].as_f64().expect("a number");
    assert!((1.0..9.0).contains(&goodput), "the device sends 8.6 Mbit/s at most: {goodput}");
    assert!(json(&run.join("emulator.json"))["totals"]["delivered"].as_u64() > Some(100));
    let capture = fs::metadata(run.join("pcap-server.pcap")).expect("asked for");
    assert!(capture.len() > 10_000, "{}", capture.len());
    let manifest = json(&bench.results().join("manifest.json"));
    assert_eq!((&manifest["finished"], &manifest["runs"]), (&2.into(), &2.into()));
    bench.assert_clean();

    // One of two runs is gone: the next command runs that one alone.
    let before = fs::metadata(run.join("measured.json")).and_then(|m| m.modified()).unwrap();
    fs::remove_file(bench.results().join("runs/rtt-ms-0/1/measured.json")).unwrap();
    let output = bench.run(&[]);
    assert!(errors(&output).contains("2 of 2 runs finished, 1 of them before"));
    let later = json(&bench.results().join("manifest.json"));
    assert_eq!(later["started"], manifest["started"], "the campaign began then");
    assert_ne!(later["command"], manifest["command"]);
    let after = fs::metadata(run.join("measured.json")).and_then(|m| m.modified()).unwrap();
    assert_eq!(before, after);
}

#[test]
fn an_interrupted_run_leaves_no_host_and_no_numbers() {
    needs_root!();
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 60");
    let bench = Bench::new("stopped", &text);
    let mut command = bench.lab(&["run", &bench.name]);
    let child = command.stderr(Stdio::piped()).spawn().expect("transom runs");
    wait_for("traffic", || {
        fs::metadata(bench.of_run("iperf-up.server.txt")).is_ok_and(|file| file.len() > 300)
    });
    // SAFETY: the child is ours and not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success());
    assert!(errors(&output).contains("goes on where it stopped"), "{}", errors(&output));
    assert!(!bench.of_run("measured.json").exists());
    bench.assert_clean();
}

#[test]
fn a_program_that_hangs_is_killed_and_told_and_the_others_go_on() {
    needs_root!();
    let two = "[flows.good]\nfrom = \"phone\"\nto = \"server\"\ntool = \"iperf3\"\n";
    let bench = Bench::new("hung", &(PHONE_AND_SERVER.to_owned() + two));
    // The client of iperf 2 says something and then sleeps for ever; its server is the real one.
    let path = bench.path_with(
        "iperf",
        &format!(
            "case $1 in -c) echo still waiting; exec sleep 600;; *) exec {} \"$@\";; esac",
            real("iperf").display()
        ),
    );
    let output = bench.lab(&["run", &bench.name]).env("PATH", path).output().unwrap();
    let said = errors(&output);
    assert!(!output.status.success());
    assert!(said.contains("flow 'up'") && said.contains("was killed"), "{said}");
    assert!(said.contains("it said: still waiting") && !said.contains("flow 'good'"), "{said}");
    let other = json(&bench.of_run("iperf-good.server.json"));
    assert!(other["end"]["sum_received"]["bytes"].as_f64() > Some(1e5), "{}", other["end"]);
    assert!(!bench.of_run("measured.json").exists(), "a failed run is no result");
    bench.assert_clean();
}

#[test]
fn a_server_that_dies_at_its_start_is_told_with_its_words() {
    needs_root!();
    let bench = Bench::new("dead", PHONE_AND_SERVER);
    let path = bench.path_with("iperf", "echo bind failed: no luck >&2; exit 1");
    let output = bench.lab(&["run", &bench.name]).env("PATH", path).output().unwrap();
    assert!(!output.status.success());
    let said = errors(&output);
    assert!(said.contains("ended with status 1; it said: bind failed: no luck"), "{said}");
    bench.assert_clean();
}

fn real(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("PATH");
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(program));
    all.find(|path| path.is_file()).expect("installed")
}

#[test]
fn a_slow_devices_short_queue_refuses_segments_of_its_own_kernel() {
    needs_root!();
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 3").replace(
        "profile = \"ht-03a\"",
        "profile = \"ht-03a\"\ndriver = { rate_mbit = 8.6, queue_packets = 3 }\n\
         sysctl = { \"ipv4.tcp_pacing_ss_ratio\" = \"1000\", \"ipv4.tcp_pacing_ca_ratio\" = \"1000\" }",
    );
    let bench = Bench::new("refused", &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let trace = Trace::read(&bench.of_run("trace-phone.parquet"));
    assert!(trace.count(Kind::LocalCongestion) > 0, "no local congestion");
    let lost = json(&bench.of_run("emulator.json"));
    assert_eq!(lost["totals"]["lost"], 0, "the path lost nothing");
}

#[test]
fn a_link_changes_at_its_time_of_the_run_however_long_putting_up_took() {
    needs_root!();
    let falls = "rtt_ms = 10\nup = { rates = [[0, 6], [2.4, 0.5]], queue_packets = 50 }";
    let text = PHONE_AND_SERVER.replace("duration_s = 1", "duration_s = 4");
    let bench = Bench::new("falls", &text.replace("rtt_ms = 10", falls));
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let text = fs::read_to_string(bench.of_run("iperf-up.server.txt")).expect("the server's words");
    let kbits_of = |second: &str| -> f64 {
        let line = text.lines().find(|line| line.contains(second)).expect("its line");
        line.split_whitespace().rev().nth(1).and_then(|it| it.parse().ok()).expect("a number")
    };
    let (before, after) = (kbits_of(" 1.0000-2.0000 sec"), kbits_of(" 3.0000-4.0000 sec"));
    assert!(before > 5000.0 && after < 1000.0, "of 6000 and 500: {text}");
}

/// A flow over 20 ms whose sender's largest window is 12 segments.
fn clamped(role: &str, text: &str) {
    let text = text.replace("ht-03a\"", "laptop\"\nlargest_window = 12");
    let bench = Bench::new(role, &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let flow = &json(&bench.of_run("measured.json"))["flows"]["up"];
    assert_eq!(flow["cwnd_max"].as_f64(), Some(12.0));
    // 12 segments of 1448 bytes each 20 ms and a little are at most 7 Mbit/s.
    assert!(flow["goodput_mbit"].as_f64() < Some(7.1), "{}", flow["goodput_mbit"]);
}

#[test]
fn the_largest_window_holds_from_the_first_connection_on() {
    needs_root!();
    clamped("clamped", &PHONE_AND_SERVER.replace("rtt_ms = 10", "rtt_ms = 20"));
}

#[test]
fn the_largest_window_holds_on_the_cellular_interface_too() {
    needs_root!();
    let second = "ht-03a\"\ncellular = { rtt_ms = 20 }";
    clamped("cellular", &(PHONE_AND_SERVER.replace("ht-03a\"", second) + "over = \"cellular\"\n"));
}

#[test]
fn a_swept_sysctl_is_another_one_in_each_point() {
    needs_root!();
    let text = PHONE_AND_SERVER.to_owned()
        + "[sweep]\n\"hosts.phone.sysctl.ipv4/tcp_window_scaling\" = [0, 1]\n";
    let bench = Bench::new("sysctl", &text);
    let output = bench.run(&["--pcap"]);
    assert!(output.status.success(), "{}", errors(&output));
    let scaled = |value: u32| {
        let run = bench.results().join(format!("runs/ipv4-tcp-window-scaling-{value}/1"));
        let words = ["-r", "pcap-phone.pcap", "-n", "tcp[tcpflags] == tcp-syn"];
        let dump = Command::new("tcpdump").args(words).current_dir(run).output().expect("tcpdump");
        String::from_utf8_lossy(&dump.stdout).contains("wscale")
    };
    assert_eq!([scaled(0), scaled(1)], [false, true]);
}

#[test]
fn a_control_is_run_and_fails_where_the_claim_holds() {
    needs_root!();
    let text = PHONE_AND_SERVER
        .replace("repeats = 1", "repeats = 3")
        .replace("profile = \"ht-03a\"", "profile = \"laptop\"\nlargest_window = 6")
        + r#"
[[claims]]
text = "A window of 6 segments holds it below 12 Mbit/s"
test = "value"
of = { metric = "goodput_mbit", flow = "up" }
at_most = 12
fails_under = ["a larger window", "the same window"]
[[controls]]
name = "a larger window"
unset = ["hosts.phone.largest_window"]
[[controls]]
name = "the same window"
set = { hosts.phone.largest_window = 6 }
repeats = 4
"#;
    let bench = Bench::new("control", &text);
    let output = bench.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Control \"a larger window\" fails as it must"), "{said}");
    let warning = "WARNING: the claim passes without what it names: control \"the same window\"";
    assert!(said.replace("\n       ", " ").contains(warning), "{said}");
    assert!(said.contains("0 of 1 claims reproduced, 1 passed by a control, too"), "{said}");
    let control = bench.results().join("controls/the-same-window/only");
    assert!(control.join("4/measured.json").exists() && !control.join("5").exists());
    bench.assert_clean();
}

#[test]
fn what_every_run_would_refuse_is_refused_at_once_with_file_and_line() {
    let sysctl = "[hosts.phone.sysctl]\n\"ipv4.tcp_sacks\" = \"0\"\n";
    let policy = "[hosts.phone.policy]\nrule = [{ action = { clamp = 10 } }]\n";
    let cases = [
        (sysctl, ["toml:23: `hosts.phone.sysctl.ipv4.tcp_sacks`", "did you mean `tcp_sack`?"]),
        (policy, ["toml:22: `hosts.phone.policy`", "unknown field `clamp`"]),
    ];
    for (n, (wrong, expected)) in cases.into_iter().enumerate() {
        let bench = Bench::new(&format!("wrong{n}"), &(PHONE_AND_SERVER.to_owned() + wrong));
        for command in ["show", "run"] {
            if command == "run" {
                needs_root!();
            }
            let output = bench.lab(&[command, &bench.name]).output().expect("transom runs");
            assert_eq!(output.status.code(), Some(1));
            let said = errors(&output);
            for words in expected {
                assert!(said.contains(words), "{command}: {said}");
            }
        }
        bench.assert_clean();
    }
}

#[test]
fn a_panic_takes_the_hosts_down() {
    needs_root!();
    let bench = Bench::new("panic", PHONE_AND_SERVER);
    let path = bench.folder.path().join("experiments").join(format!("{}.toml", bench.name));
    let loaded = transom_lab::experiment::load(&path).expect("an experiment");
    let wish = Wish {
        lab: &bench.name,
        command: "a test",
        experiment: &loaded.experiment,
        backend: Backend::Emulator,
        pcap: false,
    };
    let panicked = std::panic::catch_unwind(|| {
        let topology = Topology::put_up(&wish).expect("root");
        assert!(bench.namespace("phone").exists());
        panic!("with {} hosts up", topology.places().len());
    });
    assert!(panicked.unwrap_err().downcast_ref::<String>().unwrap().contains("2 hosts"));
    bench.assert_clean();
}

#[test]
fn what_is_missing_is_told_before_anything_is_made() {
    needs_root!();
    let bench = Bench::new("missing", PHONE_AND_SERVER);
    let folder = bench.folder.path().join("bin");
    fs::create_dir(&folder).unwrap();
    for program in ["ip", "tc"] {
        std::os::unix::fs::symlink(real(program), folder.join(program)).unwrap();
    }
    let output = bench.lab(&["run", &bench.name]).env("PATH", &folder).output().unwrap();
    assert!(errors(&output).contains("apt-get install iperf"), "{}", errors(&output));

    let wrong = [
        (
            "profile = \"ht-03a\"\nalgorithm = \"westwood9\"",
            "neither this kernel nor the simulated one has congestion control \"westwood9\"",
        ),
        (
            "profile = \"ht-03a\"\npolicy.rule = [{ match = {}, action = { algorithm = \"westwood9\" } }]",
            "`hosts.phone.policy.rule.0.action.algorithm`: neither this kernel nor the simulated one",
        ),
        (
            "profile = \"ht-03a\"\nsysctl = { \"ipv4.tcp_magic\" = \"1\" }",
            "`hosts.phone.sysctl.ipv4.tcp_magic`: this kernel has no such sysctl",
        ),
        (
            "profile = \"ht-03a\"\nsysctl = { \"ipv4.tcp_sack\" = \"maybe\" }",
            "the kernel refuses the value \"maybe\"",
        ),
    ];
    for (host, words) in wrong {
        let text = PHONE_AND_SERVER.replace("profile = \"ht-03a\"", host);
        let bench = Bench::new("wrong", &text);
        let output = bench.run(&[]);
        assert!(!output.status.success());
        assert!(errors(&output).contains(words), "{}", errors(&output));
        bench.assert_clean();
    }
}

#[test]
fn without_root_a_lab_says_so() {
    needs_root!();
    let bench = Bench::new("nobody", PHONE_AND_SERVER);
    let mut command = transom_of_nobody(bench.folder.path());
    let output = command.args(["lab", "run", &bench.name]).output().expect("transom runs");
    assert!(!output.status.success());
    assert!(errors(&output).contains("sudo"), "{}", errors(&output));
}

#[test]
fn an_unknown_experiment_is_told_with_those_there_are() {
    let bench = Bench::new("unknown", PHONE_AND_SERVER);
    let output = bench.lab(&["show", "nothing-of-the-kind"]).output().unwrap();
    assert!(!output.status.success());
    assert!(errors(&output).contains(&bench.name), "{}", errors(&output));
}

#[test]
fn show_tells_on_which_side_of_the_path_the_hosts_are() {
    let flows = |flows: [(&str, &str); 2]| {
        let flows = flows.iter().enumerate();
        let flows: String = flows
            .map(|(n, (from, to))| format!("[flows.f{n}]\nfrom = \"{from}\"\nto = \"{to}\"\n"))
            .collect();
        let bench = Bench::new(
            "sides",
            &format!(
                "title = \"t\"\nsource = \"s\"\nquestion = \"q\"\nduration_s = 2\nrepeats = 1\n\
                 [path]\nrtt_ms = 40\n[hosts.a]\n[hosts.b]\n[hosts.c]\n{flows}"
            ),
        );
        let output = bench.lab(&["show", &bench.name]).output().expect("transom runs");
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let both_ways = flows([("a", "b"), ("b", "a")]);
    assert!(both_ways.contains("a            10.77.0.1   wired, before the path"), "{both_ways}");
    assert!(both_ways.contains("b            10.77.0.2   wired, behind the path"), "{both_ways}");
    assert!(!both_ways.contains("does not meet"), "{both_ways}");
    let in_a_row = flows([("a", "b"), ("b", "c")]);
    let missing = in_a_row.lines().find(|line| line.contains("does not meet the path"));
    assert!(missing.is_some_and(|line| line.contains("b to c")), "{in_a_row}");
}

#[test]
fn show_tells_what_is_done_to_the_connections_of_a_host_and_what_the_path_is() {
    let policy = "[hosts.phone.policy]\nguard = { on = false }\n\
                  [[hosts.phone.policy.rule]]\nmatch = { port = 5001 }\naction = { cap = 76 }\n";
    let text =
        PHONE_AND_SERVER.to_owned() + policy + "[hosts.server.sysctl]\n'ipv4.tcp_sack' = 0\n";
    let shown = |text: &str| {
        let bench = Bench::new("told", text);
        let output = bench.lab(&["show", &bench.name]).output().expect("transom runs");
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let (with, without) = (shown(&text), shown(PHONE_AND_SERVER));
    for line in ["policy.guard.on = false", "cap = 76", "port = 5001", "sysctl.ipv4.tcp_sack = 0"] {
        assert!(with.contains(line), "{line}: {with}");
        assert!(!without.contains(line), "the control: {without}");
    }
    assert!(without.contains("\npath\n"), "{without}");
}

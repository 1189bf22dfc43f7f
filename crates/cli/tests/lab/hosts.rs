//! Hosts of a lab: put up, left to others, and taken down again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use transom_control::Scope;
use transom_lab::clean::{DIRECTORY, Lab, Process};
use transom_lab::hosts::{Backend, Topology, Wish};
use transom_testbed::lab::{Bench, errors};
use transom_testbed::{Namespace, needs_root, wait_for};

use crate::PHONE_AND_SERVER;

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

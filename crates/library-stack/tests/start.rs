//! Starting and ending: what cannot be done is said before the program runs, and its end is the end
//! of `transom-netstack`.

mod bed;

use std::os::unix::process::{CommandExt, ExitStatusExt};

use bed::{Bed, Running};
use transom_testbed::needs_root;

const PATH: [&str; 2] = ["--path", "c0"];

/// Fails, says all of these words, and has not run the program.
fn refused(bed: &Bed, options: &[&str], words: &[&str]) {
    let ended = bed.run(options, &["echo", "it runs"]).end();
    assert!(!ended.status.success());
    assert_eq!(ended.stdout, b"");
    for word in words {
        assert!(ended.stderr.contains(word), "{options:?}: no {word:?} in: {}", ended.stderr);
    }
}

#[test]
fn what_cannot_be_had_is_named() {
    needs_root!();
    let bed = Bed::with_path();
    let and = |options: &[&'static str]| [&PATH[..], options].concat();
    refused(&bed, &["--path", "wlan9"], &["wlan9"]);
    refused(&bed, &["--path", "lo"], &["lo is the loopback"]);
    refused(&bed, &["--path", "c0,192.0.2.1"], &["192.0.2.1 is not an address of c0", "10.70.0.1"]);
    refused(&bed, &and(&["--sysctl", "net.ipv4.no_such=1"]), &["net.ipv4.no_such"]);
    refused(&bed, &and(&["--sysctl", "net.ipv4.tcp_sack=many"]), &["net.ipv4.tcp_sack=many"]);
    // Answers to ports that the host does not leave to the library would go to the host.
    let ports = ["--sysctl", "net.ipv4.ip_local_port_range=20000 30001"];
    refused(&bed, &and(&ports), &[ports[1], "leaves free"]);
    // However the file is named that says which they are.
    for (key, why) in [
        ("net/ipv4/ip_local_port_range", "leaves free"),
        ("net.ipv4/ip_local_port_range", "leaves free"),
        ("net/ipv4//ip_local_port_range", "is no name of a setting"),
        ("net/ipv4/../ipv4/ip_local_port_range", "is no name of a setting"),
    ] {
        let setting = format!("{key}=20000 30001").leak();
        refused(&bed, &and(&["--sysctl", setting]), &[key, why]);
    }
    refused(&bed, &and(&["--cc", "no_such"]), &["--cc no_such", "cubic", "steady"]);
    refused(&bed, &and(&["--path", "c0"]), &["c0 is a path already"]);
    refused(&bed, &[], &["no default route", "--path"]);
    bed.client.ip("link set c0 down");
    refused(&bed, &PATH, &["c0 is down", "ip link set c0 up"]);
    bed.client.ip("addr flush dev c0");
    bed.client.ip("link set c0 up");
    refused(&bed, &["--path", "c0,10.70.0.1"], &["10.70.0.1 is not an address of c0"]);
}

#[test]
fn without_a_privilege_its_name_is_said() {
    needs_root!();
    let bed = Bed::with_path();
    for (number, name) in [(13, "CAP_NET_RAW"), (12, "CAP_NET_ADMIN"), (39, "CAP_BPF")] {
        let mut command = bed.command(&PATH, &["echo", "it runs"]);
        // With CAP_SYS_ADMIN the kernel would do without CAP_BPF.
        let drop = move || {
            for capability in [number, 21] {
                // SAFETY: a system call without pointers.
                if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec it makes system calls only.
        unsafe { command.pre_exec(drop) };
        let ended = Running::start(&mut command).end();
        assert!(!ended.status.success());
        assert_eq!(ended.stdout, b"");
        assert!(ended.stderr.contains(name), "{name}: {}", ended.stderr);
    }
}

#[test]
fn a_known_congestion_control_and_setting_are_those_of_the_library() {
    needs_root!();
    let bed = Bed::with_path();
    let script = "import socket; s = socket.socket(); \
        print(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).strip(b'\\0').decode(), \
        s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))";
    let options = ["--cc", "steady", "--sysctl", "net.ipv4.tcp_rmem=4096 70000 6000000"];
    let ended = bed.run(&[&PATH[..], &options].concat(), &["python3", "-c", script]).end();
    assert_eq!(ended.text().trim(), "steady 70000");
}

#[test]
fn the_status_of_the_program_is_ours() {
    needs_root!();
    let bed = Bed::with_path();
    let status = |script: &str| bed.run(&PATH, &["sh", "-c", script]).end().status;
    assert_eq!(status("exit 0").code(), Some(0));
    assert_eq!(status("exit 7").code(), Some(7));
    assert_eq!(status("kill -TERM $$").signal(), Some(libc::SIGTERM));
    let unknown = bed.run(&PATH, &["no-such-program"]).end();
    assert_eq!(unknown.status.code(), Some(127));
    assert!(unknown.stderr.contains("no-such-program"), "{}", unknown.stderr);
}

#[test]
fn a_signal_for_us_is_one_for_the_program() {
    needs_root!();
    let bed = Bed::with_path();
    let script = "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = bed.run(&PATH, &["sh", "-c", script]);
    running.wait_for("ready");
    running.signal(libc::SIGTERM);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(9));
    assert_eq!(ended.stdout, b"ready\ncaught\n");
}

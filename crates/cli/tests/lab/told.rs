//! What `transom lab` tells: before anything is made, and with `show`.

use std::fs;

use transom_testbed::lab::{Bench, errors};
use transom_testbed::{needs_root, transom_of_nobody};

use crate::{PHONE_AND_SERVER, real};

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

//! Tests that cannot run here: each says so, and is counted.
//!
//! With `TRANSOM_SKIPS` a test that is skipped adds a line to that file: program, test, what is
//! lacking, why, package. With `TRANSOM_REQUIRE` (`root,chromium,…`) it fails instead, if what it lacks is
//! in the list.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Leaves the test where the machine lacks one of these: `root`, `mptcp`, `linux-6.6` (that
/// version or a later one), `bpf` (a kernel that takes the probes), `journal` (and its iterator), `accecn`, `netem`, `two-cpus`,
/// `chromium`, or any program by its name.
#[macro_export]
macro_rules! needs {
    ($($what:expr),+ $(,)?) => {
        $(if !$crate::has($what) {
            return;
        })+
    };
}

/// For namespaces, packet sockets and BPF programs.
#[macro_export]
macro_rules! needs_root {
    () => {
        $crate::needs!("root")
    };
}

/// For what records, tunes or keeps a journal.
#[macro_export]
macro_rules! needs_probes {
    () => {
        $crate::needs!("root", "bpf")
    };
}

/// Whether the machine has it; if not, the test that asks is noted as skipped.
pub fn has(what: &str) -> bool {
    match lack(what) {
        None => true,
        Some(why) => {
            skip(what, &why);
            false
        }
    }
}

/// Notes that this test cannot run: what it lacks, in a word, and why.
///
/// # Panics
/// If `TRANSOM_REQUIRE` lists what is lacking.
pub fn skip(lacking: &str, why: &str) {
    assert!(!is_required(lacking), "TRANSOM_REQUIRE lists {lacking}, but: {why}");
    let own = std::env::current_exe().unwrap_or_default();
    let own = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let own = own.rsplit_once('-').map_or(own.as_str(), |(name, _hash)| name);
    // libtest names a test's thread after it.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    eprintln!("skipped: {test}: {lacking}: {why}");
    let Some(file) = std::env::var_os("TRANSOM_SKIPS") else { return };
    // One write, so that lines of other tests do not come between.
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let line = format!("{own}\t{test}\t{lacking}\t{why}\t{package}\n");
    let noted = list_at(Path::new(&file)).and_then(|mut list| list.write_all(line.as_bytes()));
    noted.unwrap_or_else(|error| panic!("{}: {error}", Path::new(&file).display()));
}

/// The list, at its end. It is made only where there is none: with `fs.protected_regular` not even root
/// may open another user's file in `/tmp` as one that may have to be made.
fn list_at(path: &Path) -> io::Result<File> {
    let mut to_append = OpenOptions::new();
    match to_append.append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => to_append.create(true).open(path),
        opened => opened,
    }
}

fn lack(what: &str) -> Option<String> {
    match what {
        "root" => (!rustix::process::geteuid().is_root())
            .then(|| "network namespaces, packet sockets and BPF programs need root".into()),
        "bpf" => match Path::new("/sys/kernel/btf/vmlinux").exists() {
            true if lack("confidentiality").is_none() => Some("this kernel is locked down".into()),
            true => lack("linux-5.12"),
            false => Some("this kernel has no BTF".into()),
        },
        "confidentiality" => {
            let mode = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
            (!mode.contains("[confidentiality]"))
                .then(|| "this kernel was not booted with lockdown=confidentiality".into())
        }
        "journal" => refusal_of_the_journal(),
        "accecn" => {
            let set = ["-n", "sh", "-c", "echo 3 >/proc/sys/net/ipv4/tcp_ecn"];
            let tried = Command::new("unshare").args(set).output();
            let works = tried.is_ok_and(|output| output.status.success());
            (!works).then(|| "this kernel offers no accurate ECN".into())
        }
        "mptcp" => (!Path::new("/proc/sys/net/mptcp/enabled").exists())
            .then(|| "this kernel has no MPTCP".into()),
        "netem" => {
            let words = ["-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"];
            let tried = Command::new("unshare").args(words).output();
            let works = tried.is_ok_and(|output| output.status.success());
            (!works).then(|| "this kernel has no netem".into())
        }
        "two-cpus" => (rustix::thread::sched_getaffinity(None).is_ok_and(|cpus| cpus.count() < 2))
            .then(|| "one CPU is all that this process may use".into()),
        "chromium" => chromium().is_none().then(|| "no Chromium or Chrome in PATH".into()),
        _ => match what.strip_prefix("linux-") {
            Some(least) => {
                (!kernel_is_since(least)).then(|| format!("this kernel is {}", release()))
            }
            None => find_program(what).is_none().then(|| format!("{what} is not installed")),
        },
    }
}

/// Whether `TRANSOM_REQUIRE` lists it: for what is only fetched or built where somebody asks for it.
pub fn is_required(what: &str) -> bool {
    let required = std::env::var("TRANSOM_REQUIRE").unwrap_or_default();
    required.split(',').any(|word| word.trim() == what)
}

/// A kernel that loads all probes but the journal's for lack of a right that root has not either.
/// What the verifier says against a program (EACCES, EINVAL, E2BIG) is a fault of ours.
fn refusal_of_the_journal() -> Option<String> {
    let transom = find_program("transom")?;
    let output = Command::new(transom).args(["check", "--json"]).output().expect("transom check");
    let check: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let facts = check["facts"].as_array().expect("facts");
    let journal = facts.iter().find(|fact| fact["name"] == "journal")?;
    let found = journal["found"].as_str().unwrap_or_default();
    found.contains("Operation not permitted").then(|| found.to_owned())
}

/// Whether this kernel is of that version, as `6.6`, or a later one.
pub fn kernel_is_since(least: &str) -> bool {
    version(&release()) >= version(least)
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A browser that can be run without a screen.
pub fn chromium() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program)
}

/// A program that was built with the tests, or one in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    // Test programs lie in target/PROFILE/deps.
    let built = own.parent().and_then(Path::parent).map(|folder| folder.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    built.filter(|file| file.is_file()).or_else(|| places.find(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Output;

    /// These tests once more, with these variables.
    fn myself(test: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "--ignored", test]);
        for inherited in ["TRANSOM_REQUIRE", "TRANSOM_SKIPS"] {
            command.env_remove(inherited);
        }
        command.envs(variables.iter().copied());
        command.output().expect("it starts")
    }

    #[test]
    #[ignore = "run by the tests below"]
    fn needs_what_nobody_has() {
        needs!("no-such-program");
        unreachable!("nobody has it");
    }

    const NEEDS: &str = "skip::tests::needs_what_nobody_has";

    #[test]
    fn a_skipped_test_is_listed_with_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("skips");
        let output = myself(NEEDS, &[("TRANSOM_SKIPS", list.to_str().unwrap())]);
        assert!(output.status.success(), "{output:?}");
        let text = std::fs::read_to_string(list).unwrap();
        let fields: Vec<&str> = text.trim_end().split('\t').collect();
        assert_eq!(fields[0], "transom_testbed");
        assert_eq!(fields[1..3], [NEEDS, "no-such-program"]);
        assert_eq!(fields[4], "transom-testbed");
    }

    #[test]
    fn what_is_required_is_no_reason_to_skip() {
        let required = ("TRANSOM_REQUIRE", "root, no-such-program");
        assert!(!myself(NEEDS, &[required]).status.success());
        assert!(myself(NEEDS, &[("TRANSOM_REQUIRE", "root")]).status.success());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("6.12.48+deb13-amd64") > version("6.6"));
        assert!(version("5.10.0") < version("6.2"));
    }
}

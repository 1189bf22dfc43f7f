//! Names of ports and addresses: in texts for people, never in JSON, and without a query but by
//! `transom names resolve`.

mod made;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use made::{upload, write};
use transom_testbed::{Namespace, needs_probes, needs_root, transom, transom_of_nobody};

const HEAD: &str = "# transom names 1: ADDRESS NAME SECONDS-SINCE-1970; no name: -";

fn said(output: &Output) -> String {
    String::from_utf8([&*output.stdout, &*output.stderr].concat()).unwrap()
}

/// A folder with a trace of uploads to 192.0.2.7:443 and 192.0.2.8:5201, and a home of its own.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        let mut events = upload(7, "curl", [192, 0, 2, 7], 443);
        events.extend(upload(8, "iperf3", [192, 0, 2, 8], 5201));
        write(home.path("t.parquet"), events);
        home
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Where it is expected.
    fn cache(&self) -> PathBuf {
        self.path(".cache/transom/names")
    }

    fn fill_cache(&self, text: &str) {
        fs::create_dir_all(self.cache().parent().unwrap()).unwrap();
        fs::write(self.cache(), text).unwrap();
    }

    fn transom(&self, words: &[&str]) -> Output {
        let mut command = transom();
        command.env_remove("XDG_CACHE_HOME").env_remove("SUDO_UID").env("HOME", self.0.path());
        command.current_dir(self.0.path()).args(words).output().unwrap()
    }

    fn well(&self, words: &[&str]) -> String {
        let output = self.transom(words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        said(&output)
    }

    fn refusal(&self, words: &[&str]) -> String {
        let output = self.transom(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
        said(&output)
    }

    /// In place of the machine's resolver: what `getent hosts ADDRESS` does.
    fn with_getent(&self, script: &str, words: &[&str]) -> Output {
        let folder = self.path("bin");
        fs::create_dir_all(&folder).unwrap();
        let getent = folder.join("getent");
        fs::write(
            &getent,
            format!("#!/bin/sh\necho \"$2\" >>{}\n{script}\n", self.path("asked").display()),
        )
        .unwrap();
        fs::set_permissions(&getent, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut command = transom();
        command.env_remove("XDG_CACHE_HOME").env("HOME", self.0.path()).env("PATH", path);
        command.current_dir(self.0.path()).args(words).output().unwrap()
    }

    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("asked")).unwrap_or_default();
        let mut asked: Vec<String> = text.lines().map(str::to_owned).collect();
        asked.sort();
        asked
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn ports_have_their_services_names_and_n_gives_numbers() {
    let home = Home::new();
    let text = home.well(&["explain", "t.parquet"]);
    assert!(text.contains("> 192.0.2.7:https") && text.contains("> 192.0.2.8:5201"), "{text}");
    for flag in ["-n", "--numeric"] {
        let text = home.well(&["explain", "t.parquet", flag]);
        assert!(text.contains("> 192.0.2.7:443") && !text.contains("https"), "{text}");
    }
    // What is shown can be asked for.
    let one = home.well(&["explain", "t.parquet", "--connection", "192.0.2.7:https"]);
    assert!(one.contains("curl") && !one.contains("iperf3"), "{one}");
    home.well(&["report", "t.parquet", "-o", "names.html"]);
    assert!(fs::read_to_string(home.path("names.html")).unwrap().contains("192.0.2.7:https"));
    home.well(&["report", "t.parquet", "-o", "numbers.html", "-n"]);
    assert!(!fs::read_to_string(home.path("numbers.html")).unwrap().contains("192.0.2.7:https"));
}

#[test]
fn addresses_have_the_names_of_the_cache_only_where_they_are_asked_for() {
    let home = Home::new();
    home.fill_cache(&format!("{HEAD}\n192.0.2.7 server.example {}\n192.0.2.8 - 7\n", now()));
    let text = home.well(&["explain", "t.parquet", "--names"]);
    assert!(text.contains("> server.example:https") && text.contains("> 192.0.2.8:5201"), "{text}");
    assert!(!home.well(&["explain", "t.parquet"]).contains("server.example"));
    fs::copy(home.cache(), home.path("other")).unwrap();
    fs::remove_file(home.cache()).unwrap();
    let text = home.well(&["explain", "t.parquet", "--names=other"]);
    assert!(text.contains("server.example:https"), "{text}");
    home.well(&["report", "t.parquet", "--names=other", "-o", "t.html"]);
    assert!(fs::read_to_string(home.path("t.html")).unwrap().contains("server.example:https"));
    let json = |words: &[&str]| home.well(&[&["explain", "t.parquet", "--json"], words].concat());
    assert_eq!(json(&["--names=other"]), json(&["-n"]));
    assert!(json(&["--names=other"]).contains("192.0.2.7:443"));
}

#[test]
fn names_that_are_a_month_old_are_not_shown() {
    let home = Home::new();
    let text = |days: u64| format!("{HEAD}\n192.0.2.7 server.example {}\n", now() - days * 86_400);
    for (days, is_shown) in [(29, true), (31, false)] {
        home.fill_cache(&text(days));
        let text = home.well(&["explain", "t.parquet", "--names"]);
        assert_eq!(text.contains("server.example"), is_shown, "{days} days: {text}");
    }
}

#[test]
fn a_cache_that_is_damaged_or_missing_costs_only_names() {
    let home = Home::new();
    let text = home.well(&["explain", "t.parquet", "--names"]);
    assert!(text.contains("192.0.2.7:https"), "{text}");
    assert!(text.contains("`transom names resolve` makes it"), "{text}");
    home.fill_cache(&format!("{HEAD}\n192.0.2.7 server.example {}\n\u{fffd} half a li", now()));
    let text = home.well(&["explain", "t.parquet", "--names"]);
    assert!(text.contains("server.example:https") && text.contains("first in line 3"), "{text}");
    home.fill_cache("root:x:0:0::/root:/bin/sh\n");
    let text = home.well(&["explain", "t.parquet", "--names"]);
    assert!(text.contains("192.0.2.7:https") && text.contains("no cache of names"), "{text}");
    // A file that was named must be there, and be one; what is no cache is not replaced.
    assert!(home.refusal(&["explain", "t.parquet", "--names=none"]).contains("there is no none"));
    let refusal = home.refusal(&["names", "resolve", "192.0.2.9"]);
    assert!(refusal.contains("no cache of names") && refusal.contains("remove it"), "{refusal}");
    assert_eq!(fs::read_to_string(home.cache()).unwrap(), "root:x:0:0::/root:/bin/sh\n");
}

#[test]
fn each_peer_of_a_recording_is_asked_for_once_a_day() {
    let home = Home::new();
    let script = "[ $2 = 192.0.2.7 ] && echo $2 server.example || exit 2";
    let resolve = ["names", "resolve", "t.parquet"];
    let first = home.with_getent(script, &resolve);
    assert!(first.status.success(), "{}", said(&first));
    let mut lines: Vec<&str> = std::str::from_utf8(&first.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["192.0.2.7 server.example", "192.0.2.8 -"]);
    assert_eq!(home.asked(), ["192.0.2.7", "192.0.2.8"]);
    let again = home.with_getent(script, &resolve);
    assert!(said(&again).contains("2 known already"), "{}", said(&again));
    assert_eq!(home.asked().len(), 2);
    home.with_getent(script, &[&resolve[..], &["--again"]].concat());
    assert_eq!(home.asked().len(), 4);
    assert!(home.well(&["explain", "t.parquet", "--names"]).contains("server.example:https"));
    let listed = home.well(&["names", "list"]);
    assert!(listed.starts_with("192.0.2.7 server.example ") && listed.ends_with("s\n"), "{listed}");
    home.well(&["names", "forget", "192.0.2.7"]);
    assert!(!home.well(&["names", "list"]).contains("server.example"));
    assert!(home.refusal(&["names", "forget", "192.0.2.7"]).contains("192.0.2.7 is not in"));
    home.well(&["names", "forget", "--all"]);
    assert!(!home.cache().exists());
}

#[test]
fn a_resolver_that_hangs_is_ended_and_nothing_is_stored_of_it() {
    let home = Home::new();
    let script = "[ $2 = 192.0.2.7 ] && exec sleep 100; echo $2 well.example";
    let words = ["names", "resolve", "192.0.2.7", "192.0.2.8", "--time-limit", "8s"];
    let output = home.with_getent(script, &words);
    assert!(
        output.status.success() && said(&output).contains("1 not answered"),
        "{}",
        said(&output)
    );
    assert!(home.well(&["names", "list"]).starts_with("192.0.2.8 well.example "));
    let output = home.with_getent(script, &["names", "resolve", "192.0.2.7", "--time-limit", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("/etc/resolv.conf"), "{}", said(&output));
}

#[test]
fn what_a_strangers_server_calls_a_name_cannot_write_to_the_terminal() {
    let home = Home::new();
    let output =
        home.with_getent("printf '%s \\033[31mred\\n' $2", &["names", "resolve", "192.0.2.7"]);
    assert_eq!(output.stdout, b"192.0.2.7 -\n");
}

#[test]
fn what_could_not_be_stored_is_not_asked_for() {
    let home = Home::new();
    fs::write(home.path("in-the-way"), "").unwrap();
    for (cache, reason) in [("in-the-way/names", "cannot read"), ("/proc/names", "cannot write")] {
        let words = ["names", "resolve", "192.0.2.7", "--cache", cache];
        let output = home.with_getent("echo $2 name.example", &words);
        assert_eq!(output.status.code(), Some(1));
        let refusal = said(&output);
        assert!(refusal.contains(&format!("{reason} {cache}: name another file")), "{refusal}");
    }
    assert!(home.asked().is_empty());
    assert!(
        home.refusal(&["names", "resolve", "server.example"]).contains("neither an address nor")
    );
}

#[test]
fn a_file_in_a_closed_folder_is_not_taken_for_a_wrong_address() {
    needs_root!();
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let mut of_nobody = transom_of_nobody(folder.path());
    let output = of_nobody.args(["names", "resolve", "closed/t.parquet"]).output().unwrap();
    let refusal = said(&output);
    assert!(refusal.contains("closed/t.parquet: Permission denied"), "{refusal}");
}

/// What a log of a connection to 127.0.0.1:443 says of its opening.
fn log_of_a_connection(namespace: &Namespace, words: &[&str]) -> String {
    let mut log = transom();
    namespace.take(&mut log);
    // A log that has its lines stops the program, which may still be about to exit then.
    let connect = ["--", "bash", "-c", "trap 'exit 0' TERM; exec 3<>/dev/tcp/127.0.0.1/443"];
    let output = log.args(["log", "-k", "open"]).args(words).args(connect).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

#[test]
fn a_log_has_names_for_people_and_numbers_for_programs() {
    needs_probes!();
    let namespace = Namespace::new("log");
    let _listener = namespace.inside(|| TcpListener::bind("127.0.0.1:443").unwrap());
    let log = |words: &[&str]| log_of_a_connection(&namespace, words);
    let named = log(&["-n", "1"]);
    assert!(named.contains(" > 127.0.0.1:https ") && named.lines().count() == 1, "{named}");
    let numeric = log(&["--numeric"]);
    assert!(numeric.contains(" > 127.0.0.1:443 ") && !numeric.contains("https"), "{numeric}");
    let home = Home::new();
    fs::write(home.path("names"), format!("{HEAD}\n127.0.0.1 here.example {}\n", now())).unwrap();
    // What /etc/hosts says of the address stands above the cache.
    let with_hosts = log(&[&format!("--names={}", home.path("names").display())]);
    assert!(with_hosts.contains(":https ") && !with_hosts.contains("127.0.0.1:"), "{with_hosts}");
    let json = log(&["--format", "json"]);
    assert!(json.contains(r#""remote_port":443"#) && !json.contains("https"), "{json}");
}

/// The machine's own resolver, with a DNS server that is asked over loopback.
const WITH_DNS: &str = r#"
ip link set lo up
echo "nameserver 127.0.0.1" >resolv.conf; mount --bind resolv.conf /etc/resolv.conf
printf '127.0.0.1 localhost\n192.0.2.9 from-hosts.example\n' >hosts; mount --bind hosts /etc/hosts
python3 "$DNS" log 192.0.2.7=server.example 192.0.2.10= '192.0.2.11=e"vil<b>.example' &
until [ -e log ]; do sleep 0.05; done
transom() { env -u XDG_CACHE_HOME HOME="$PWD" "$TRANSOM" "$@"; }
transom names resolve t.parquet 192.0.2.9 192.0.2.10 192.0.2.11 --time-limit 8s >resolved 2>&1
cp log first
transom explain t.parquet --names >explained
transom names list >listed
cmp log first && echo silent >silence
kill %1"#;

#[test]
fn a_dns_server_is_asked_by_resolve_alone() {
    needs_root!();
    let home = Home::new();
    let dns = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/naming/dns.py");
    let status = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private", "bash", "-c", WITH_DNS])
        .env("DNS", dns)
        .env("TRANSOM", transom().get_program())
        .current_dir(home.0.path())
        .status();
    assert!(status.unwrap().code().is_some());
    let read = |file: &str| fs::read_to_string(home.path(file)).unwrap();
    let resolved = read("resolved");
    for line in ["192.0.2.7 server.example\n", "192.0.2.9 from-hosts.example\n", "192.0.2.8 -\n"] {
        assert!(resolved.contains(line), "{line}: {resolved}");
    }
    assert!(
        resolved.contains("192.0.2.11 -\n") && resolved.contains("1 not answered"),
        "{resolved}"
    );
    let asked = read("first");
    assert!(asked.contains("7.2.0.192.in-addr.arpa") && !asked.contains("9.2.0.192"), "{asked}");
    assert!(read("explained").contains("server.example:https"));
    assert!(!read("listed").contains("192.0.2.10 "));
    assert_eq!(read("silence"), "silent\n");
}

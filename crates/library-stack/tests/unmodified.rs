//! Programs of every day, as their distribution built them: on the library on one side, on the
//! server's own kernel on the other. Those that are not installed are left out, and named.

mod bed;

use std::fs;
use std::path::Path;
use std::process::Command;

use bed::{Bed, Running, numbered, until};
use tempfile::TempDir;
use transom_testbed::{needs, skip};

const PATH: [&str; 2] = ["--path", "c0"];
const AMOUNT: usize = 5 << 20;

/// A folder with a page and a file of some size.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("page.html"), "<html><body>a page</body></html>")
        .expect("written");
    fs::write(folder.path().join("file"), numbered(0, AMOUNT)).expect("written");
    folder
}

/// On the server's kernel.
fn there(bed: &Bed, words: &[&str]) -> Running {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    bed.server.take(&mut command);
    Running::start(&mut command)
}

fn http_server<'a>(folder: &'a Path, port: &'a str) -> [&'a str; 7] {
    let folder = folder.to_str().expect("a path of text");
    ["python3", "-u", "-m", "http.server", "-d", folder, port]
}

/// A bed whose server serves this folder at 10.70.0.2:8000.
fn served(folder: &TempDir) -> (Bed, Running) {
    let bed = Bed::with_path();
    let mut server = there(&bed, &http_server(folder.path(), "8000"));
    server.wait_for("Serving HTTP");
    (bed, server)
}

#[test]
fn curl_fetches_a_file() {
    needs!("root", "curl");
    let folder = folder();
    let (bed, _server) = served(&folder);
    let got = bed.run(&PATH, &["curl", "-sS", "http://10.70.0.2:8000/file"]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes, or others", got.len());
    bed.client.noticed_nothing();
}

#[test]
fn curl_fetches_many_at_once() {
    needs!("root", "curl");
    let folder = folder();
    let (bed, _server) = served(&folder);
    let mut words = vec!["curl", "-sS", "--parallel"];
    words.extend(["http://10.70.0.2:8000/page.html"; 20]);
    let got = bed.run(&PATH, &words).end().text();
    assert_eq!(got.matches("a page").count(), 20);
}

#[test]
fn curl_says_when_nobody_listens() {
    needs!("root", "curl");
    let ended = Bed::with_path().run(&PATH, &["curl", "-sS", "http://10.70.0.2:9/"]).end();
    assert_eq!(ended.status.code(), Some(7), "{}", ended.stderr);
    // Whatever its words for it are, they are those of a refusal, not of a time-out.
    assert!(!ended.stderr.contains("timed out"), "{}", ended.stderr);
}

#[test]
fn wget_fetches_a_file() {
    needs!("root", "wget");
    let folder = folder();
    let (bed, _server) = served(&folder);
    let got = bed.run(&PATH, &["wget", "-q", "-O", "-", "http://10.70.0.2:8000/file"]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes, or others", got.len());
}

/// What a client on the server's kernel fetches of a server on the library.
fn fetch_from_the_library(bed: &Bed) {
    let mut words = vec!["curl", "-sS", "--parallel", "--parallel-immediate"];
    words.extend(["http://10.70.0.1:8000/page.html"; 20]);
    let pages = there(bed, &words).end().text();
    assert_eq!(pages.matches("a page").count(), 20);
    let got = there(bed, &["curl", "-sS", "http://10.70.0.1:8000/file"]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes, or others", got.len());
    bed.client.noticed_nothing();
}

#[test]
fn python_serves_http() {
    needs!("root", "curl");
    let (bed, folder) = (Bed::with_path(), folder());
    let mut server = bed.run(&PATH, &http_server(folder.path(), "8000"));
    server.wait_for("Serving HTTP");
    fetch_from_the_library(&bed);
}

#[test]
fn nginx_serves_with_two_workers() {
    needs!("root", "nginx", "curl");
    let (bed, folder) = (Bed::with_path(), folder());
    let at = folder.path().display();
    let settings = format!(
        "user root; daemon off; worker_processes 2; pid {at}/pid; error_log {at}/errors;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; client_body_temp_path {at}/body;\n\
         proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u;\n\
         scgi_temp_path {at}/s; server {{ listen 8000; root {at}; }} }}\n"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, settings).expect("written");
    let file = file.to_str().expect("a path of text");
    let errors = folder.path().join("errors");
    let errors = errors.to_str().expect("a path of text");
    let server = bed.run(&PATH, &["nginx", "-c", file, "-e", errors]);
    // Written when it listens. Before, its port is the host's, which would refuse.
    until("nginx listens", || folder.path().join("pid").exists());
    fetch_from_the_library(&bed);
    server.signal(libc::SIGTERM);
    server.end().well();
}

/// The rate that iperf3's receiver saw, bit/s.
fn received(json: &str) -> f64 {
    let (_, sum) = json.split_once("\"sum_received\"").expect("a sum");
    let (_, rate) = sum.split_once("\"bits_per_second\":").expect("a rate");
    rate.split(',').next().expect("a number").trim().parse().expect("a number")
}

#[test]
fn iperf3_sends_and_receives() {
    needs!("root", "iperf3");
    let bed = Bed::with_path();
    for way in [&[][..], &["-R"], &["-P", "4"], &["-6", "-R"]] {
        let _server = there(&bed, &["iperf3", "-s", "-1"]);
        until("iperf3 listens", || {
            bed.server.output("ss", &["-Hltn", "sport = :5201"]).contains("5201")
        });
        let at = if way.contains(&"-6") { "fd70:0::2" } else { "10.70.0.2" };
        let words = [&["iperf3", "-J", "-t", "1", "-c", at], way].concat();
        let said = bed.run(&PATH, &words).end().text();
        assert!(received(&said) > 1e6, "{way:?}: {said}");
    }
    bed.client.noticed_nothing();
}

#[test]
fn iperf3_serves() {
    needs!("root", "iperf3");
    let bed = Bed::with_path();
    let mut server = bed.run(&PATH, &["iperf3", "-s", "--forceflush"]);
    server.wait_for("Server listening");
    for way in [&[][..], &["-R"]] {
        let words = [&["iperf3", "-J", "-t", "1", "-c", "10.70.0.1"], way].concat();
        let said = there(&bed, &words).end().text();
        assert!(received(&said) > 1e6, "{way:?}: {said}");
    }
}

fn git(at: &Path, words: &[&str]) {
    let said = Command::new("git")
        .arg("-C")
        .arg(at)
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(words)
        .output()
        .expect("git");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn git_clones_over_http() {
    needs!("root", "git");
    let folder = folder();
    git(folder.path(), &["init", "-q", "work"]);
    let work = folder.path().join("work");
    fs::write(work.join("text"), "committed\n").expect("written");
    git(&work, &["add", "text"]);
    git(&work, &["commit", "-q", "-m", "a text"]);
    git(folder.path(), &["clone", "-q", "--bare", "work", "work.git"]);
    git(&folder.path().join("work.git"), &["update-server-info"]);
    let (bed, _server) = served(&folder);
    let to = folder.path().join("cloned");
    let to_text = to.to_str().expect("a path of text");
    bed.run(&PATH, &["git", "clone", "-q", "http://10.70.0.2:8000/work.git", to_text]).end().well();
    assert_eq!(fs::read_to_string(to.join("text")).expect("the text"), "committed\n");
}

#[test]
fn ssh_runs_a_command_and_carries_its_streams() {
    needs!("root", "sshd", "ssh", "ssh-keygen");
    if !Path::new("/run/sshd").exists() {
        skip("sshd", "it needs /run/sshd, which its service makes");
        return;
    }
    let (bed, folder) = (Bed::with_path(), folder());
    let path = |name: &str| folder.path().join(name).to_str().expect("a path of text").to_owned();
    for key in ["host", "own"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
            .status()
            .expect("ssh-keygen");
        assert!(made.success());
    }
    let settings = format!(
        "ListenAddress 10.70.0.2:2222\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\n",
        path("host"),
        path("own.pub")
    );
    fs::write(path("settings"), settings).expect("written");
    let sshd = bed.server.output("sh", &["-c", "command -v sshd"]);
    let _server = there(&bed, &[sshd.trim(), "-D", "-e", "-f", &path("settings")]);
    until("sshd listens", || bed.server.output("ss", &["-Hltn", "sport = :2222"]).contains("2222"));
    let mut words = vec!["ssh", "-F", "none", "-p", "2222", "-i"];
    let own = path("own");
    words.extend([&own, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]);
    let command = format!("cat {}; exit 3", path("file"));
    words.extend(["root@10.70.0.2", &command]);
    let ended = bed.run(&PATH, &words).end();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stdout == numbered(0, AMOUNT), "{} bytes, or others", ended.stdout.len());
}

/// Static, without a C library: its calls come straight from the program.
#[test]
fn a_go_program_fetches_a_file() {
    needs!("root", "go");
    let folder = folder();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fetch.go");
    let program = folder.path().join("fetch");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .envs([("CGO_ENABLED", "0"), ("GO111MODULE", "off"), ("GOFLAGS", "-mod=mod")])
        .env("GOCACHE", folder.path().join("cache"))
        .output()
        .expect("go");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let (bed, _server) = served(&folder);
    let program = program.to_str().expect("a path of text");
    let got = bed.run(&PATH, &[program, "http://10.70.0.2:8000/file"]).end().well();
    assert!(got == numbered(0, AMOUNT), "{} bytes, or others", got.len());
}

/// The LKL paper's figure 5: a browser, unmodified, on another network stack.
#[test]
fn chromium_loads_a_page() {
    needs!("root", "chromium");
    let folder = folder();
    let script = "<html><body><p id=x>before</p><script>\
        fetch('file').then(r => r.arrayBuffer()).then(b => \
        { document.getElementById('x').textContent = 'fetched ' + b.byteLength; });\
        </script></body></html>";
    fs::write(folder.path().join("script.html"), script).expect("written");
    let (bed, _server) = served(&folder);
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"];
    let rest = ["--virtual-time-budget=20000", "--dump-dom", "http://10.70.0.2:8000/script.html"];
    let said = bed.run(&PATH, &[&words[..], &[&profile], &rest].concat()).end();
    let page = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(page.contains(&format!("fetched {AMOUNT}")), "{page}\n{}", said.stderr);
    bed.client.noticed_nothing();
}

//! A table of small behaviours of sockets (`crates/supervisor/tests/behaviours`), each a line: the
//! same on the kernel itself, on the library, and over two paths at once with Multipath TCP. What
//! may differ is listed in `allowed.txt` beside the table, each with its reason.

mod bed;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use bed::{Bed, Running};
use transom_testbed::needs;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../supervisor/tests/behaviours");
/// Fewer lines would say that the table has hardly run.
const LEAST: usize = 160;
const PORT: &str = "7000";

/// The lines of a list of `allowed.txt`.
fn allowed<'a>(text: &'a str, list: &str) -> BTreeMap<&'a str, &'a str> {
    let (_, rest) = text.split_once(&format!("\n== {list}\n")).expect("such a list");
    let lines = rest.lines().take_while(|line| !line.starts_with("==")).collect::<Vec<_>>();
    let reason = lines.iter().position(|line| line.starts_with("# "));
    let first = lines.iter().position(|line| !line.is_empty());
    assert!(reason.is_some() && reason == first, "{list} begins without a reason");
    let lines = lines.into_iter().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

/// Two paths between client and server, which is the gateway, too, and has no way to 198.51.100.0/24.
fn bed() -> Bed {
    let bed = Bed::with_path();
    bed.add_path(1);
    bed.client.ip("route add default via 10.70.0.2 dev c0 metric 10");
    bed.client.ip("route add default via 10.70.1.2 dev c1 metric 20");
    for (key, value) in [("net/ipv4/ip_forward", "1"), ("net/ipv4/icmp_ratelimit", "0")] {
        bed.server.sysctl(key, value);
    }
    bed.server.ip("route add unreachable 198.51.100.0/24");
    bed
}

fn compiled(folder: &Path) -> PathBuf {
    let program = folder.join("behaviours");
    let sources = std::fs::read_dir(SOURCES).expect("the table");
    let sources = sources.map(|entry| entry.expect("a file").path());
    let sources = sources.filter(|path| path.extension().is_some_and(|of| of == "c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
    let output = compiler.args(sources).output().expect("cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A line each, by the behaviour's name.
fn table(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(": ")).collect()
}

/// Compares with the kernel's own. Every difference must be allowed, and what is allowed must differ.
fn compare(native: &str, other: &str, lists: &[&str]) {
    let text = std::fs::read_to_string(format!("{SOURCES}/allowed.txt")).expect("the lists");
    let lists: Vec<_> = lists.iter().map(|list| allowed(&text, list)).collect();
    let (native, other) = (table(native), table(other));
    assert!(native.len() >= LEAST, "only {} behaviours", native.len());
    let (mut wrong, mut differ) = (String::new(), 0);
    for (name, expected) in &native {
        let printed = other.get(name).copied().unwrap_or("nothing");
        let instead = lists.iter().find_map(|list| list.get(name));
        differ += usize::from(printed != *expected);
        if printed != *instead.unwrap_or(expected) {
            let _ = writeln!(wrong, "{name}: {printed}\n    the kernel itself: {expected}");
            let _ = instead.map(|line| writeln!(wrong, "    allowed: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("{} of {} behaviours are the same", native.len() - differ, native.len());
}

struct Table {
    bed: Bed,
    program: String,
    _peer: Running,
    _folder: tempfile::TempDir,
}

impl Table {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = compiled(folder.path()).to_str().expect("a plain name").to_owned();
        let bed = bed();
        let mut peer = Command::new(&program);
        peer.args(["peer", PORT, "mptcp"]);
        bed.server.take(&mut peer);
        let mut peer = Running::start(&mut peer);
        peer.wait_for("ready");
        Self { bed, program, _peer: peer, _folder: folder }
    }

    fn words(&self) -> [&str; 4] {
        [&self.program, "10.70.0.2", "fd70:0::2", PORT]
    }

    fn native(&self) -> String {
        let mut command = Command::new(&self.program);
        command.args(&self.words()[1..]);
        self.bed.client.take(&mut command);
        Running::start(&mut command).end_within(bed::TABLE).text()
    }

    fn on_the_library(&self, options: &[&str]) -> String {
        self.bed.run(options, &self.words()).end_within(bed::TABLE).text()
    }
}

#[test]
fn sockets_behave_on_the_library_as_on_the_kernel() {
    needs!("root", "cc");
    let table = Table::new();
    let ours = table.on_the_library(&["--path", "c0"]);
    compare(&table.native(), &ours, &["pair"]);
}

#[test]
fn sockets_behave_over_two_paths_as_on_the_kernel() {
    needs!("root", "cc", "mptcp");
    let table = Table::new();
    let ours = table.on_the_library(&["--mptcp", "--path", "c0", "--path", "c1"]);
    compare(&table.native(), &ours, &["multipath", "pair"]);
}

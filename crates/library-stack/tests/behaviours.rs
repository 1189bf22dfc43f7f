//! A table of small behaviours of sockets (`crates/supervisor/tests/behaviours`), each a line: the
//! same on the kernel itself, on the library, and over two paths at once with Multipath TCP. What
//! may differ is listed in `allowed.txt` beside the table, each with its reason. Over two paths that
//! may be what the kernel's own Multipath TCP does, which is then asked, too.

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
const PEER: [&str; 3] = ["10.70.0.2", "fd70:0::2", PORT];

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

fn compiled(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let sources = std::fs::read_dir(SOURCES).expect("the table");
    let sources = sources.map(|entry| entry.expect("a file").path());
    let sources = sources.filter(|path| path.extension().is_some_and(|of| of == "c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options);
    compiler.arg("-o").arg(&program);
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

/// Most of what is put down to Multipath TCP itself must be what the kernel's own prints; another
/// version of the kernel than the library's may differ in some.
fn compare_with_multipath_of_the_kernel(kernel: &str, ours: &str, native: &str) {
    let text = std::fs::read_to_string(format!("{SOURCES}/allowed.txt")).expect("the lists");
    let listed = allowed(&text, "multipath");
    let (kernel, ours, native) = (table(kernel), table(ours), table(native));
    let same = |name: &&str| kernel.get(name) == ours.get(name);
    let (as_kernel, others): (Vec<&str>, Vec<&str>) = listed.keys().partition(|name| same(name));
    assert!(as_kernel.len() > 2 * others.len(), "not as the kernel's Multipath TCP: {others:?}");
    let either = native.keys().filter(|name| same(name) || ours.get(*name) == native.get(*name));
    let of_kernel = native.iter().filter(|(name, line)| kernel.get(*name) == Some(line)).count();
    println!(
        "{} are as TCP or Multipath TCP of the kernel; of its Multipath TCP {of_kernel} are as its TCP",
        either.count(),
    );
}

/// The table, and the same with the kernel's Multipath TCP in the place of TCP.
struct Programs {
    plain: String,
    multipath: String,
    _folder: tempfile::TempDir,
}

impl Programs {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let named = |name, options: &[&str]| {
            compiled(folder.path(), name, options).to_str().expect("a plain name").to_owned()
        };
        let plain = named("behaviours", &[]);
        let multipath = named("behaviours-multipath", &["-DMULTIPATH"]);
        Self { plain, multipath, _folder: folder }
    }
}

/// Two hosts, and the other side of the table on one of them.
struct Table<'a> {
    bed: Bed,
    programs: &'a Programs,
    _peer: Running,
}

impl<'a> Table<'a> {
    fn new(programs: &'a Programs) -> Self {
        let bed = bed();
        let mut peer = Command::new(&programs.plain);
        peer.args(["peer", PORT, "mptcp"]);
        bed.server.take(&mut peer);
        let mut peer = Running::start(&mut peer);
        peer.wait_for("ready");
        Self { bed, programs, _peer: peer }
    }

    fn native(&self, program: &str) -> String {
        let mut command = Command::new(program);
        command.args(PEER);
        self.bed.client.take(&mut command);
        Running::start(&mut command).end_within(bed::TABLE).text()
    }

    fn on_the_library(&self, options: &[&str]) -> String {
        let words = [&[self.programs.plain.as_str()], &PEER[..]].concat();
        self.bed.run(options, &words).end_within(bed::TABLE).text()
    }
}

#[test]
fn sockets_behave_on_the_library_as_on_the_kernel() {
    needs!("root", "cc");
    let programs = Programs::new();
    // A table waits most of its time: each has hosts of its own, and they run beside one another.
    let (library, kernel) = (Table::new(&programs), Table::new(&programs));
    let (ours, native) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| library.on_the_library(&["--path", "c0"]));
        let native = kernel.native(&programs.plain);
        (ours.join().expect("its table"), native)
    });
    compare(&native, &ours, &["pair"]);
}

#[test]
fn sockets_behave_over_two_paths_as_on_the_kernel() {
    needs!("root", "cc", "mptcp");
    let programs = Programs::new();
    let (library, kernel) = (Table::new(&programs), Table::new(&programs));
    let options = ["--mptcp", "--path", "c0", "--path", "c1"];
    let (ours, native, multipath) = std::thread::scope(|scope| {
        let ours = scope.spawn(|| library.on_the_library(&options));
        let multipath = scope.spawn(|| kernel.native(&programs.multipath));
        let native = kernel.native(&programs.plain);
        (ours.join().expect("its table"), native, multipath.join().expect("its table"))
    });
    compare(&native, &ours, &["multipath", "multipath on the library", "pair"]);
    compare_with_multipath_of_the_kernel(&multipath, &ours, &native);
}

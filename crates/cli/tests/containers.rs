//! Where a process may do less than the machine's root commonly may, as in a container or on a kernel
//! that is locked down: what `check` says is what then happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use transom_event::Kind;
use transom_testbed::{
    Cgroup, Refusal, Talking, Trace, copy_transom, hides_process_one, needs, needs_probes,
    needs_root,
};

/// A program with one connection to itself, of 200,000 bytes.
const TALK: &str = "
import socket, threading
listener = socket.create_server(('127.0.0.1', 0))
def serve():
    stream, _ = listener.accept()
    stream.sendall(bytes(200000))
    stream.close()
server = threading.Thread(target=serve)
server.start()
client = socket.create_connection(listener.getsockname())
while client.recv(65536): pass
client.close()
server.join()
";

/// `transom` where everybody may run it, and a place where everybody may write.
struct Place {
    folder: TempDir,
    transom: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let transom = folder.path().join("transom");
        copy_transom(&transom);
        Place { folder, transom }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// The words that record the program, after those of the shape.
    fn record(&self, shape: &[&str]) -> Command {
        let mut command = self.words(shape);
        command.args(["record", "-o"]).arg(self.trace()).args([
            "--",
            "/usr/bin/python3",
            "-c",
            TALK,
        ]);
        command
    }

    fn flight(&self, shape: &[&str]) -> Command {
        let mut command = self.words(shape);
        command.args(["flight", "record", "-o"]).arg(self.folder.path());
        command
    }

    fn words(&self, shape: &[&str]) -> Command {
        let mut command = match shape {
            [] => Command::new(&self.transom),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.transom);
                command
            }
        };
        command.current_dir("/");
        command
    }

    fn check(&self, shape: &[&str]) -> Value {
        answer(self.words(shape).args(["check", "--json"]))
    }
}

fn answer(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

fn fact<'a>(check: &'a Value, name: &str) -> Option<&'a Value> {
    check["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == name)
}

/// Both ends of one connection, from open to close, of one process.
fn assert_recorded(trace: &Path) {
    let trace = Trace::read(trace);
    assert_eq!(trace.connections().len(), 2, "both ends");
    assert_eq!(trace.count(Kind::Close), 2);
    assert!(hides_process_one() || trace.count(Kind::Send) > 0);
    assert_eq!(trace.owners().len(), 1, "{:?}", trace.owners());
}

fn assert_polled(output: &Output, trace: &Path, lacking: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains("samples of TCP_INFO") && first.contains(lacking), "{said}");
    assert_eq!(Trace::read(trace).count(Kind::Send), 0, "no events");
}

const NOBODY: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps", "--ambient-caps"];

/// `setpriv` to a user that has these capabilities.
fn nobody_with(capabilities: &str) -> Vec<String> {
    let words = NOBODY.iter().map(|word| match *word {
        "--inh-caps" | "--ambient-caps" => format!("{word}={capabilities}"),
        word => word.to_owned(),
    });
    words.collect()
}

#[test]
fn cap_bpf_and_cap_perfmon_or_cap_sys_admin_are_enough_for_every_event() {
    needs_probes!();
    let place = Place::new();
    for (capabilities, found) in [("+bpf,+perfmon", "yes"), ("+sys_admin", "yes (CAP_SYS_ADMIN)")] {
        let shape = nobody_with(capabilities);
        let shape: Vec<&str> = shape.iter().map(String::as_str).collect();
        let check = place.check(&shape);
        assert_eq!(check["can_monitor"], true, "{capabilities}: {check}");
        assert_eq!(fact(&check, "CAP_BPF").unwrap()["found"], found);
        run(&mut place.record(&shape));
        assert_recorded(&place.trace());
        fs::remove_file(place.trace()).unwrap();
    }

    let shape = nobody_with("+bpf");
    let shape: Vec<&str> = shape.iter().map(String::as_str).collect();
    let check = place.check(&shape);
    assert_eq!(check["can_monitor"], false, "the other one is needed, too: {check}");
    assert_polled(&run(&mut place.record(&shape)), &place.trace(), "CAP_PERFMON");
}

#[test]
fn a_flight_recorder_that_cannot_be_noted_writes_when_it_gets_a_signal() {
    needs_probes!();
    let place = Place::new();
    let shape = nobody_with("+bpf,+perfmon");
    let shape: Vec<&str> = shape.iter().map(String::as_str).collect();
    let mut flight = Talking::spawn(&mut place.flight(&shape));
    flight.wait_for_words("`transom flight dump` does not find it, SIGUSR1 does");
    flight.wait_for_words("are kept");
    run(Command::new("/usr/bin/python3").args(["-c", TALK]));
    flight.signal(libc::SIGUSR1);
    flight.wait_for_words("asked for");
    assert!(flight.end(libc::SIGINT).success());
    let mut files =
        std::fs::read_dir(place.folder.path()).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|file| file.extension().is_some_and(|ending| ending == "parquet"));
    assert!(Trace::read(&file.unwrap()).count(Kind::Close) >= 2);
}

#[test]
fn a_flight_recorder_does_not_wait_for_what_samples_never_tell() {
    needs_probes!();
    let place = Place::new();
    let output = place.flight(&NOBODY[..4]).args(["--when", "rto"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("--when rto=1/10s would never be fulfilled"), "{said}");
    assert!(said.contains("samples of TCP_INFO") && said.contains("CAP_BPF"), "{said}");
}

#[test]
fn the_root_of_a_user_namespace_is_told_that_its_capabilities_are_of_no_use_here() {
    needs_probes!();
    let place = Place::new();
    let shape = ["unshare", "--user", "--map-root-user"];
    let check = place.check(&shape);
    assert_eq!(check["can_monitor"], false);
    let found = fact(&check, "CAP_BPF").unwrap();
    assert_eq!(found["ok"], false);
    assert_eq!(found["found"], "in this user namespace only");
    assert!(found["remedy"].as_str().unwrap().contains("not rootless"), "{found}");
    assert_polled(&run(&mut place.record(&shape)), &place.trace(), "CAP_BPF, CAP_PERFMON");
}

#[test]
fn a_seccomp_filter_that_refuses_bpf_is_named_with_what_to_do() {
    needs_probes!();
    let place = Place::new();
    assert!(fact(&place.check(&[]), "bpf(2)").is_none(), "nothing refuses it without");
    let refused = Refusal::of(libc::SYS_bpf);
    let check = refused.clone().during(|| place.check(&[]));
    assert_eq!(check["can_monitor"], false);
    let found = fact(&check, "bpf(2)").unwrap();
    assert!(found["remedy"].as_str().unwrap().starts_with("a seccomp filter"), "{found}");
    assert_eq!(found["found"], "Operation not permitted (os error 1)");
    let output = refused.during(|| run(&mut place.record(&[])));
    assert_polled(&output, &place.trace(), "bpf(2)");
}

#[test]
fn in_a_pid_namespace_a_program_and_a_process_are_followed_by_their_numbers_there() {
    needs_probes!();
    let place = Place::new();
    let shape = ["unshare", "--pid", "--fork", "--mount-proc"];
    run(&mut place.record(&shape));
    assert_recorded(&place.trace());

    // One of its first processes, which waits until the recorder has begun.
    let waiting = format!("import sys; sys.stdin.readline(){TALK}");
    let script = format!(
        "rm -f {trace}; mkfifo {pipe}; /usr/bin/python3 -c '{waiting}' <{pipe} & talker=$!; exec 3>{pipe}
        {transom} record --pid $talker -o {trace} & recorder=$!
        while [ ! -e {trace} ]; do sleep 0.1; done
        echo go >&3; wait $talker; kill -INT $recorder; wait $recorder; echo $talker",
        trace = place.trace().display(),
        pipe = place.folder.path().join("pipe").display(),
        waiting = waiting.replace('\'', "\""),
        transom = place.transom.display(),
    );
    let mut inside = Command::new(shape[0]);
    let output = run(inside.args(&shape[1..]).args(["sh", "-c", &script]));
    let number: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(number < 100, "a number of the namespace: {number}");
    assert_recorded(&place.trace());
}

/// A container of its own sees its cgroup as the root of the tree.
#[test]
fn in_a_cgroup_namespace_cgroups_are_found_by_their_paths_there() {
    needs_probes!();
    let (place, cgroup) = (Place::new(), Cgroup::new("container"));
    let mount = transom_machine::cgroup::mount().unwrap();
    let mount = mount.display();
    let enter = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", cgroup.path(""));
    let narrow = format!("umount {mount} && mount -t cgroup2 none {mount} && exec \"$@\"");
    let shape =
        ["sh", "-c", &enter, "sh", "unshare", "--cgroup", "--mount", "sh", "-c", &narrow, "sh"];
    let talk = format!("echo $$ >{mount}/below/cgroup.procs && exec /usr/bin/python3 -c '{TALK}'");
    let talk = talk.replace("'127.0.0.1'", "\"127.0.0.1\"");
    for path in ["/", "/below"] {
        let mut record = place.words(&shape);
        record.args(["record", "--force", "--cgroup", path, "-o"]).arg(place.trace());
        run(record.args(["--", "sh", "-c", &talk]));
        assert_recorded(&place.trace());
    }
}

#[test]
fn a_kernel_that_does_not_tell_its_types_is_polled() {
    needs_probes!();
    let place = Place::new();
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let shape = ["unshare", "--mount", "sh", "-c", hidden, "sh"];
    let check = place.check(&shape);
    assert_eq!(fact(&check, "BTF").unwrap()["ok"], false);
    assert_eq!(check["can_monitor"], false);
    assert_polled(&run(&mut place.record(&shape)), &place.trace(), "BTF missing");
}

#[test]
fn types_that_are_damaged_or_of_another_kernel_are_told_and_not_used() {
    needs_probes!();
    let place = Place::new();
    let own = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    // One name is another: whatever else differs between kernels, this does.
    let mut other = own.clone();
    let name = own.windows(9).position(|it| it == b"\0tcp_sock").map(|at| at + 1);
    other[name.expect("it has TCP")] = b'T';
    for (bytes, found) in [
        (&own[..], "/sys/kernel/btf/vmlinux"),
        (&other[..], "not that of the running kernel"),
        (&own[..own.len() / 2], "not that of the running kernel"),
        (&[][..], "not that of the running kernel"),
    ] {
        let file = place.folder.path().join("vmlinux.btf");
        fs::write(&file, bytes).unwrap();
        let over =
            format!("mount --bind {} /sys/kernel/btf/vmlinux && exec \"$@\"", file.display());
        let shape = ["unshare", "--mount", "sh", "-c", &over, "sh"];
        let check = place.check(&shape);
        assert_eq!(fact(&check, "BTF").unwrap()["found"], found);
        let is_own = bytes == own;
        assert_eq!(check["can_monitor"], is_own);
        let output = run(&mut place.record(&shape));
        if is_own {
            assert_recorded(&place.trace());
        } else {
            assert_polled(&output, &place.trace(), found);
        }
        fs::remove_file(place.trace()).unwrap();
    }
}

/// As containers commonly are.
#[test]
fn without_securityfs_it_is_not_known_whether_the_kernel_is_locked_down() {
    needs_root!();
    let found_after = |mount: &str| {
        let script = format!("{mount} && exec \"$@\"");
        let check = Place::new().check(&["unshare", "--mount", "sh", "-c", &script, "sh"]);
        fact(&check, "lockdown").unwrap()["found"].as_str().unwrap().to_owned()
    };
    let there = found_after(
        "{ grep -q ' /sys/kernel/security securityfs ' /proc/self/mounts ||
           mount -t securityfs none /sys/kernel/security; }",
    );
    assert!(["none", "integrity", "confidentiality"].contains(&&*there), "{there}");
    let hidden = found_after("mount -t tmpfs none /sys/kernel/security");
    assert_eq!(hidden, "not known: securityfs is not mounted");
}

#[test]
fn a_kernel_that_keeps_its_memory_to_itself_is_polled() {
    needs!("root", "confidentiality");
    let place = Place::new();
    let check = place.check(&[]);
    assert_eq!(check["can_monitor"], false);
    let found = fact(&check, "lockdown").unwrap();
    assert_eq!(
        (&found["ok"], &found["found"]),
        (&Value::from(false), &Value::from("confidentiality"))
    );
    let output = run(place.words(&[]).args(["record", "-d", "1", "-o"]).arg(place.trace()));
    assert_polled(&output, &place.trace(), "lockdown confidentiality");
}

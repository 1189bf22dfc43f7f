//! `transom android` over real adb, with Android's own adbd as the device.

mod device;
mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path as FilePath;
use std::process::{Command, Stdio};
use std::time::Duration;

use device::{Data, Desk, Host, User, program, texts};
use running::{Beside, Transfer};
use transom_event::Kind;
use transom_testbed::tuned::algorithm_of;
use transom_testbed::{Cgroup, Namespace, Trace, needs_probes, pair, transom, wait_for};

fn clocks(trace: &FilePath) -> serde_json::Value {
    let text = fs::read_to_string(trace.with_extension("clock.json")).expect("clocks");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn check_says_what_the_device_is_and_what_its_own_check_says() {
    needs_adb!();
    let desk = Desk::new();
    let output = desk.android(&["check"]);
    let (said, errors) = texts(&output);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    for words in [
        desk.device.serial(),
        "no Android: Toybox",
        kernel.trim(),
        "adb's daemon is root",
        "/data/local/tmp/transom can be put there, and runs",
    ] {
        assert!(said.contains(words), "{words}: {said}{errors}");
    }
    let own = transom().arg("check").output().unwrap();
    assert_eq!(output.status.code(), own.status.code());
    let (own, _) = texts(&own);
    let probes = own.lines().filter(|line| line.contains("tracepoint")).collect::<Vec<_>>();
    assert!(!probes.is_empty());
    for line in probes {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn push_puts_the_same_program_there_and_takes_it_away_again() {
    needs_adb!();
    let desk = Desk::new();
    desk.host.adb(&["shell", "echo half >/data/local/tmp/transom.new.17"]);
    let (said, _) = desk.done(&["push"]);
    assert!(said.contains("is there: "), "{said}");
    assert_eq!(desk.device.files(), ["transom"], "what an earlier push left is gone");
    let there = desk.host.adb(&["shell", "sha256sum /data/local/tmp/transom"]);
    let here = Command::new("sha256sum").arg(program()).output().unwrap();
    assert_eq!(there.split_whitespace().next(), texts(&here).0.split_whitespace().next());
    assert!(desk.done(&["push"]).0.contains("is there already"));
    // A command that finds it there leaves it there.
    let (version, _) = desk.done(&["run", "--", "--version"]);
    assert_eq!(version, texts(&transom().arg("--version").output().unwrap()).0);
    assert_eq!(desk.device.files(), ["transom"]);
    // One that is another is replaced, and stays.
    desk.host.adb(&["shell", "echo other >/data/local/tmp/transom"]);
    desk.done(&["run", "--", "--version"]);
    assert_eq!(desk.device.files(), ["transom"]);
    assert!(desk.done(&["push", "--remove"]).0.contains("was taken away"));
    assert!(desk.device.files().is_empty());
    assert!(desk.done(&["push", "--remove"]).0.contains("there was no transom"));
}

#[test]
fn a_program_that_cannot_run_there_is_refused_before_it_is_sent() {
    needs_adb!();
    let desk = Desk::new();
    let mut bytes = fs::read(program()).unwrap();
    let other = desk.host.folder().join("other");
    let refused = |bytes: &[u8]| {
        fs::write(&other, bytes).unwrap();
        let said = desk.refusal(&["push", "--program", other.to_str().unwrap()]);
        assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
        said
    };
    let loader = bytes.windows(7).position(|word| word == b"/lib64/").expect("its loader");
    bytes[loader + 1] = b'L';
    let said = refused(&bytes);
    assert!(said.contains("the device has no /Lib64/") && said.contains("static"), "{said}");
    let machine = if cfg!(target_arch = "x86_64") { 183u16 } else { 62 };
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    let said = refused(&bytes);
    assert!(said.contains("is a program for") && said.contains("the device is an"), "{said}");
    assert!(refused(b"#!/bin/sh\n").contains("no program"));
}

#[test]
fn a_recording_comes_whole_with_the_clocks_beside_it_and_leaves_nothing_there() {
    needs_adb!();
    let desk = Desk::new();
    let transfer = Transfer::start(&desk, 100_000, 50);
    let other = Transfer::start(&desk, 1_000, 50);
    let port = transfer.port.to_string();
    let (_, said) =
        desk.done(&["record", "-o", "walk.parquet", "--for", "2s", "--remote-port", &port]);
    let file = desk.host.folder().join("walk.parquet");
    let trace = Trace::read(&file);
    assert!(trace.count(Kind::Ack) > 50, "{} ACKs", trace.count(Kind::Ack));
    assert_eq!(trace.remote_ports(), [transfer.port], "not {}", other.port);
    assert!(trace.footer.is_some() && !trace.cut, "it came to its end: {said}");
    let events = trace.events.len();
    assert!(said.contains(&format!("{events} events")), "{events}: {said}");
    // Both are this machine, so the truth is 0.
    let clocks = clocks(&file);
    for when in ["before", "after"] {
        let number = |key: &str| clocks[when][key].as_i64().unwrap_or_else(|| panic!("{clocks}"));
        let error = number("error_ns");
        assert!(number("boottime_offset_ns").abs() <= error, "{clocks}");
        assert!(number("realtime_offset_ns").abs() <= error, "{clocks}");
        // 1 ms each way: no round trip is shorter, and the least is not much longer.
        assert!((1_000_000..20_000_000).contains(&error), "{clocks}");
    }
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
    let said = desk.refusal(&["record", "-o", "walk.parquet"]);
    assert!(said.contains("walk.parquet exists already"), "{said}");
    let said = desk.refusal(&["record", "-o", "nowhere/walk.parquet"]);
    assert!(said.contains("cannot write to nowhere"), "{said}");
}

#[test]
fn a_device_whose_clock_is_another_is_ahead_by_what_it_is() {
    needs_adb!();
    if !FilePath::new("/proc/self/ns/time").exists() {
        return transom_testbed::skip("timens", "this kernel has no time namespaces");
    }
    const AHEAD_NS: i64 = 1_000_000_000_000;
    let desk = Desk::within(&["unshare", "--time", "--boottime", "1000", "--fork", "--kill-child"]);
    desk.done(&["record", "-o", "walk.parquet", "--for", "200ms"]);
    let clocks = clocks(&desk.host.folder().join("walk.parquet"));
    for when in ["before", "after"] {
        let number = |key: &str| clocks[when][key].as_i64().unwrap_or_else(|| panic!("{clocks}"));
        let (offset, error) = (number("boottime_offset_ns"), number("error_ns"));
        assert!((offset - AHEAD_NS).abs() <= error, "{clocks}");
        // Wall clocks have no namespaces.
        assert!(number("realtime_offset_ns").abs() <= error, "{clocks}");
    }
}

#[test]
fn a_recording_goes_on_when_the_path_of_adb_is_cut() {
    needs_adb!();
    let desk = Desk::new();
    let transfer = Transfer::start(&desk, 10_000, 50);
    let mut beside = Beside::start(&desk, &["record", "-o", "walk.parquet"]);
    beside.wait_for("ready");
    desk.path.cut();
    let (code, said) = beside.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("goes on without adb"), "{said}");
    desk.path.heal();
    desk.reconnect();
    desk.done(&["pull", "-o", "walk.parquet"]);
    let trace = Trace::read(&desk.host.folder().join("walk.parquet"));
    assert!(trace.footer.is_some() && trace.remote_ports().contains(&transfer.port));
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn a_32_bit_user_space_on_a_64_bit_kernel_is_told_and_works() {
    needs_adb!();
    if !cfg!(target_arch = "x86_64") {
        return transom_testbed::skip("x86_64", "setarch i386 is of that machine");
    }
    let desk = Desk::within(&["setarch", "i386"]);
    assert_eq!(desk.host.adb(&["shell", "uname -m"]).trim(), "i686");
    let output = desk.android(&["check"]);
    let (said, errors) = texts(&output);
    assert!(said.contains("i686") && said.contains("its user space is 32-bit"), "{said}{errors}");
    assert!(said.contains("and runs"), "{said}{errors}");
}

#[test]
fn ctrl_c_ends_a_recording_in_order() {
    needs_adb!();
    let desk = Desk::new();
    let transfer = Transfer::start(&desk, 10_000, 50);
    let mut beside = Beside::start(&desk, &["record", "-o", "walk.parquet"]);
    beside.wait_for("ready");
    transfer.go_on(40);
    beside.signal(libc::SIGINT);
    let (code, said) = beside.end();
    assert_eq!(code, Some(0), "{said}");
    let trace = Trace::read(&desk.host.folder().join("walk.parquet"));
    assert!(trace.footer.is_some() && trace.count(Kind::Ack) > 10, "{said}");
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

/// Ends adb's daemon in some way while `record` runs; what was recorded afterwards must be pulled.
fn loses_nothing(mut desk: Desk, kill: impl FnOnce(&mut Desk)) {
    let transfer = Transfer::start(&desk, 10_000, 50);
    let mut beside = Beside::start(&desk, &["record", "-o", "walk.parquet"]);
    beside.wait_for("ready");
    kill(&mut desk);
    let (code, said) = beside.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("goes on without adb") && said.contains("android pull transom-"),
        "{said}"
    );
    assert!(!desk.host.folder().join("walk.parquet").exists());
    let lost = boottime();
    std::thread::sleep(Duration::from_millis(500));
    transfer.go_on(40);
    desk.restart();
    let (list, _) = desk.done(&["pull", "--list"]);
    assert!(list.contains("records") && list.lines().count() == 1, "{list}");
    let (_, said) = desk.done(&["pull", "-o", "walk.parquet"]);
    let trace = Trace::read(&desk.host.folder().join("walk.parquet"));
    assert!(trace.footer.is_some() && !trace.cut, "{said}");
    let later = |event: &&transom_event::Event| event.time_ns > lost + 500_000_000;
    let acks = trace.of(Kind::Ack).into_iter().filter(later).count();
    assert!(acks > 10, "{acks} ACKs after adb was gone: {said}");
    assert!(trace.remote_ports().contains(&transfer.port));
    assert!(clocks(&desk.host.folder().join("walk.parquet"))["before"].is_object());
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

fn boottime() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn a_recording_goes_on_when_adbs_daemon_is_killed() {
    needs_adb!();
    loses_nothing(Desk::new(), |desk| desk.device.kill());
}

/// A device whose daemon has a control group of its own, as Android's init gives it.
fn in_a_cgroup() -> Option<(Desk, Cgroup)> {
    if transom_machine::cgroup::mount().is_none() {
        transom_testbed::skip("cgroup2", "no cgroup v2 is mounted");
        return None;
    }
    let cgroup = Cgroup::new("adbd");
    let desk = Desk::new();
    fs::write(cgroup_file(&cgroup, "cgroup.procs"), desk.device.pid().to_string()).unwrap();
    Some((desk, cgroup))
}

fn cgroup_file(cgroup: &Cgroup, name: &str) -> std::path::PathBuf {
    FilePath::new(&cgroup.path("")).join(name)
}

/// What init does when USB debugging is switched off, or at `adb root`.
fn kill_cgroup(desk: &mut Desk, cgroup: &Cgroup) {
    fs::write(cgroup_file(cgroup, "cgroup.kill"), "1").expect("the kernel can");
    desk.device.kill();
}

#[test]
fn a_recording_goes_on_when_init_kills_the_daemons_control_group() {
    needs_adb!();
    let Some((desk, cgroup)) = in_a_cgroup() else { return };
    loses_nothing(desk, |desk| kill_cgroup(desk, &cgroup));
}

#[test]
fn what_a_command_changed_is_given_back_when_init_kills_the_daemons_control_group() {
    needs_adb!();
    needs_probes!();
    let Some((mut desk, cgroup)) = in_a_cgroup() else { return };
    let (_near, there) = pair(&desk.path);
    let before = algorithm_of(&there);
    assert_ne!(before, "cubic");
    let policy = "[[rule]]\\naction = { algorithm = \"cubic\" }\\n";
    desk.host.adb(&["shell", &format!("printf '{policy}' >/data/local/tmp/cubic.toml")]);
    let mut beside = Beside::start(&desk, &["run", "--", "tune", "apply", "cubic.toml"]);
    beside.wait_for("is in force");
    wait_for("the running connection", || algorithm_of(&there) == "cubic");
    kill_cgroup(&mut desk, &cgroup);
    let (code, said) = beside.end();
    assert_eq!(code, Some(1), "{said}");
    wait_for("the connection to be given back", || algorithm_of(&there) == before);
}

#[test]
fn a_detached_recording_is_listed_and_pulled_or_discarded() {
    needs_adb!();
    let desk = Desk::new();
    let _transfer = Transfer::start(&desk, 10_000, 50);
    assert!(desk.refusal(&["pull"]).contains("no recording lies on the device"));
    assert_eq!(desk.done(&["pull", "--list"]).0, "no recording lies there\n");
    desk.done(&["record", "--detach"]);
    std::thread::sleep(Duration::from_millis(1100));
    desk.done(&["record", "--detach", "--for", "100ms"]);
    let said = desk.refusal(&["pull"]);
    assert!(said.contains("several recordings lie on the device, name one: transom-"), "{said}");
    let (list, _) = desk.done(&["pull", "--list"]);
    let names: Vec<&str> = list.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(names.len(), 2, "{list}");
    assert!(desk.refusal(&["pull", "nobody"]).contains(names[0]));
    desk.done(&["pull", names[1], "--discard"]);
    let (_, said) = desk.done(&["pull"]);
    assert!(said.contains("still records: it is ended"), "{said}");
    let file = desk.host.folder().join(format!("{}.parquet", names[0]));
    assert!(Trace::read(&file).footer.is_some());
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn a_pull_that_could_not_write_here_leaves_the_recording_running() {
    needs_adb!();
    let desk = Desk::new();
    desk.done(&["record", "--detach"]);
    let at = |name: &str| desk.host.folder().join(name);
    fs::write(at("walk.parquet"), "mine").unwrap();
    fs::write(at("tour.clock.json"), "mine").unwrap();
    let cases = [
        ("walk.parquet", "walk.parquet exists already"),
        ("tour.pq", "tour.clock.json exists already"),
        ("nowhere/walk.parquet", "cannot write to nowhere"),
        ("-", "- is no file"),
        ("/dev/stdout", "/dev/stdout is no file"),
    ];
    for (name, expected) in cases {
        let said = desk.refusal(&["pull", "-o", name]);
        assert!(said.contains(expected) && !said.contains("it is ended"), "{said}");
        let (list, _) = desk.done(&["pull", "--list"]);
        assert!(list.trim_end().ends_with("records"), "{name}: {list}");
    }
    assert_eq!(fs::read(at("tour.clock.json")).unwrap(), b"mine");
    desk.done(&["pull", "-o", "tour.pq", "--force"]);
    assert!(Trace::read(&at("tour.pq")).footer.is_some());
}

/// A recording that has ended on the device, in one of whose files there a word is another.
fn with_another_word(desk: &Desk, file: &str, from: &str, to: &str) {
    desk.done(&["record", "--detach", "--for", "100ms"]);
    wait_for("the recording to end", || !desk.done(&["pull", "--list"]).0.contains("records"));
    let file = format!("/data/local/tmp/transom-recordings/*/{file}");
    desk.host.adb(&["shell", &format!("sed -i 's/{from}/{to}/' {file}")]);
}

#[test]
fn the_clocks_of_another_boot_are_not_told_as_those_of_the_recording() {
    needs_adb!();
    let desk = Desk::new();
    // As if the device had been restarted since; the host's own is `host_boot_id`.
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let from = format!("\"boot_id\":\"{}", boot.trim());
    with_another_word(&desk, "about.json", &from, "\"boot_id\":\"earlier");
    let (_, said) = desk.done(&["pull", "-o", "walk.parquet"]);
    assert!(said.contains("it was restarted since") && !said.contains("ppm"), "{said}");
    let clocks = clocks(&desk.host.folder().join("walk.parquet"));
    assert_eq!(clocks["device_boot_id"], "earlier");
    assert!(clocks["before"]["boottime_offset_ns"].is_i64(), "{clocks}");
    assert!(clocks["after"]["realtime_offset_ns"].is_i64(), "{clocks}");
    for nothing in [&clocks["after"]["boottime_offset_ns"], &clocks["drift_ppm"]] {
        assert!(nothing.is_null(), "{clocks}");
    }
}

#[test]
fn a_clock_that_was_set_while_the_device_recorded_is_told() {
    needs_adb!();
    let desk = Desk::new();
    with_another_word(&desk, "said", "\"clock_step_s\":0.0", "\"clock_step_s\":3.0");
    let (_, said) = desk.done(&["pull", "-o", "walk.parquet"]);
    assert!(said.contains("the clock was set by +3.000 s meanwhile"), "{said}");
    assert_eq!(clocks(&desk.host.folder().join("walk.parquet"))["clock_step_s"], 3.0);
}

#[test]
fn several_devices_are_named_and_one_is_chosen() {
    needs_adb!();
    let desk = Desk::new();
    let mut other = desk.another_device();
    let said = desk.refusal(&["check"]);
    for name in ["several devices", "--serial", desk.device.serial(), other.serial()] {
        assert!(said.contains(name), "{said}");
    }
    desk.done(&["push", "--serial", other.serial()]);
    assert_eq!((desk.device.files().len(), other.files()), (0, vec!["transom".to_owned()]));
    let said = desk.refusal(&["check", "--serial", "nobody"]);
    assert!(said.contains("no device nobody") && said.contains(other.serial()), "{said}");
    // A daemon that is gone is offline, or forgotten by adb.
    let serial = other.serial().to_owned();
    other.kill();
    wait_for("adb to notice", || {
        !desk.host.adb(&["devices"]).contains(&format!("{serial}\tdevice"))
    });
    let said = desk.refusal(&["push", "--serial", &serial]);
    assert!(said.contains("offline") || said.contains("no device"), "{said}");
}

#[test]
fn without_a_device_or_without_adb_it_says_so() {
    needs_adb!();
    let namespace = Namespace::new("host");
    let host = Host::new(&namespace);
    let output = host.command(&namespace, &["check"]).output().unwrap();
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("adb sees no device") && said.contains("USB debugging"), "{said}");
    let output = host.command(&namespace, &["check"]).env("PATH", "/nowhere").output().unwrap();
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("adb is not in the PATH") && said.contains("apt install adb"), "{said}");
}

#[test]
fn run_passes_output_and_exit_code_on() {
    needs_adb!();
    let desk = Desk::new();
    let output = desk.android(&["run", "--", "record", "--no-such-option"]);
    let (out, errors) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{errors}");
    assert!(errors.contains("--no-such-option"), "{errors}");
    let (out, errors) = desk.done(&["run", "--", "--version"]);
    assert!(out.starts_with("transom ") && errors.is_empty(), "{out}{errors}");
    assert!(desk.refusal(&["run", "--", "android", "check"]).contains("on the host"));
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn ctrl_c_and_a_lost_adb_interrupt_what_runs_there() {
    needs_adb!();
    let mut desk = Desk::new();
    let transfer = Transfer::start(&desk, 10_000, 50);
    let port = transfer.port.to_string();
    let words = ["run", "--", "log", "--remote-port", &port];
    let running = |port: &str| {
        let words = format!("/data/local/tmp/transom\0log\0--remote-port\0{port}");
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter(|entry| {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).starts_with(&words)
            })
            .count()
    };
    let mut log = desk.command(&words);
    let mut child = log.stdout(Stdio::piped()).spawn().unwrap();
    wait_for("the command there to begin", || running(&port) == 1);
    // Nobody reads any more.
    drop(child.stdout.take());
    wait_for("the command there to end", || running(&port) == 0);
    assert!(child.wait().unwrap().code().is_some());
    for is_lost in [false, true] {
        let mut beside = Beside::start(&desk, &words);
        beside.wait_for("cwnd=");
        assert_eq!(running(&port), 1);
        if is_lost {
            desk.device.kill();
        } else {
            beside.signal(libc::SIGINT);
        }
        let (code, said) = beside.end();
        let expected = if is_lost { 1 } else { 0 };
        assert_eq!(code, Some(expected), "{}", said.lines().last().unwrap_or_default());
        wait_for("the command there to end", || running(&port) == 0);
    }
    desk.restart();
    desk.done(&["push"]);
}

#[test]
fn a_device_without_space_or_write_access_says_so() {
    needs_adb!();
    let length = fs::metadata(program()).unwrap().len();
    let desk = Desk::with(Data::Size(length / 2), User::Root);
    let said = desk.refusal(&["push"]);
    assert!(said.contains("no space is left in /data/local/tmp"), "{said}");
    assert_eq!(desk.host.adb(&["shell", "ls /data/local/tmp"]), "");
    desk.host.adb(&["shell", "mount -o remount,ro /data"]);
    let said = desk.refusal(&["push"]);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn a_recording_that_fills_the_device_is_fetched_as_far_as_it_came() {
    needs_adb!();
    let length = fs::metadata(program()).unwrap().len();
    let desk = Desk::with(Data::Size(length + (2 << 20)), User::Root);
    let _transfer = Transfer::start(&desk, 1_000_000, 1_000);
    // A full recording ends by itself: nobody has to.
    let output = desk.android(&["record", "-o", "walk.parquet"]);
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the device is full"), "{said}");
    let trace = Trace::read(&desk.host.folder().join("walk.parquet"));
    assert!(trace.count(Kind::Ack) > 1_000, "{} events", trace.events.len());
    assert_eq!(desk.host.adb(&["shell", "ls /data/local/tmp"]), "");
}

/// An adb that changes bytes on the way, as a bad cable would: a folder for the PATH.
fn damaging(desk: &Desk) -> String {
    let path = std::env::var("PATH").unwrap();
    let words = ["-c", "command -v adb"];
    let real = Command::new("sh").args(words).output().expect("a shell").stdout;
    let real = String::from_utf8(real).unwrap();
    let real = real.trim();
    let folder = desk.host.folder().join("bad-cable");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\nfor word; do case $word in\nexec-out) {real} \"$@\" | tr '\\001' '\\002'; exit ;;\n\
         push) shift 3; tr '\\001' '\\002' <\"$1\" >damaged; exec {real} -s {serial} push damaged \"$2\" ;;\n\
         esac; done\nexec {real} \"$@\"\n",
        serial = desk.device.serial(),
    );
    let file = folder.join("adb");
    fs::write(&file, script).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", folder.display())
}

#[test]
fn what_adb_damages_is_refused_and_kept_on_the_device() {
    needs_adb!();
    let desk = Desk::new();
    let path = damaging(&desk);
    let refused = |words: &[&str]| {
        let output = desk.command(words).env("PATH", &path).output().expect("transom runs");
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        texts(&output).1
    };
    let said = refused(&["push"]);
    assert!(said.contains("what arrived is not"), "{said}");
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
    let _transfer = Transfer::start(&desk, 10_000, 50);
    desk.done(&["record", "--detach", "--for", "500ms"]);
    wait_for("the recording to end", || !desk.done(&["pull", "--list"]).0.contains("records"));
    let said = refused(&["pull", "-o", "walk.parquet"]);
    assert!(said.contains("did not come whole") && said.contains("still on the device"), "{said}");
    let file = desk.host.folder().join("walk.parquet");
    assert!(!file.exists(), "half a trace is none");
    desk.done(&["pull", "-o", "walk.parquet"]);
    assert!(Trace::read(&file).footer.is_some());
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn root_by_su_is_used() {
    needs_adb!();
    let desk = Desk::with(folder(), User::ShellWithSu);
    assert_eq!(desk.host.adb(&["shell", "id -u"]).trim(), "2000");
    let (said, _) = desk.done(&["check"]);
    assert!(said.contains("yes, by su -c"), "{said}");
    let transfer = Transfer::start(&desk, 10_000, 50);
    let port = transfer.port.to_string();
    desk.done(&["record", "-o", "walk.parquet", "--for", "1s", "--port", &port]);
    let trace = Trace::read(&desk.host.folder().join("walk.parquet"));
    assert!(trace.count(Kind::Ack) > 10);
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn without_root_it_says_what_is_left_and_polls() {
    needs_adb!();
    let desk = Desk::with(folder(), User::Shell);
    let output = desk.android(&["check"]);
    let (said, errors) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    assert!(said.contains("--  root           no") && said.contains("polling"), "{said}");
    let _transfer = Transfer::start(&desk, 10_000, 50);
    let (_, said) = desk.done(&["record", "-o", "walk.parquet", "--for", "1s"]);
    assert!(said.contains("no root on") && said.contains("samples of TCP_INFO"), "{said}");
    assert!(!Trace::read(&desk.host.folder().join("walk.parquet")).events.is_empty());
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

#[test]
fn a_recording_of_root_is_not_told_as_dead_to_whoever_is_not_root() {
    needs_adb!();
    let mut desk = Desk::with(folder(), User::ShellWithSu);
    desk.done(&["record", "--detach"]);
    desk.device.kill();
    desk.device.user = User::Shell;
    desk.restart();
    let said = desk.refusal(&["pull"]);
    assert!(said.contains("is root's, and there is no root now"), "{said}");
    desk.device.kill();
    desk.device.user = User::ShellWithSu;
    desk.restart();
    desk.done(&["pull"]);
    assert!(desk.device.files().is_empty(), "{:?}", desk.device.files());
}

fn folder() -> Data {
    let folder = tempfile::tempdir().unwrap();
    // Its user must get through.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), open).unwrap();
    Data::Folder(folder)
}

//! The scripts behind the Makefile's targets, with programs in PATH that answer in the place of cargo,
//! sudo and the package manager.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use transom_testbed::{Refusal, find_program, needs};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

/// A folder with copies of scripts, and one with programs that come first in PATH.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for folder in ["scripts", "bin"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn copy(&self, script: &str) {
        fs::copy(format!("{SCRIPTS}/{script}"), self.path("scripts").join(script)).unwrap();
    }

    /// A shell script of this name, in `bin` or elsewhere.
    fn program(&self, name: &str, body: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The copy of a script, in which `$PLACE` is the folder.
    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(self.path("scripts").join(script));
        self.prepare(&mut command);
        command
    }

    /// This place's folders in the environment, and nothing of who runs the tests.
    fn prepare<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = std::env::var("PATH").unwrap();
        for inherited in
            ["TRANSOM_SKIPS", "TRANSOM_FAILED", "TRANSOM_REQUIRE", "SUDO_UID", "SUDO_GID"]
        {
            command.env_remove(inherited);
        }
        command
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("PLACE", self.0.path())
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("TRANSOM_PROGRAMS", self.path("programs"))
            .env("PYTHONPATH", self.path("modules"))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A cargo that has built one test program, which is this script, of the package `transom`.
fn with_a_test_program(body: &str) -> Place {
    let place = Place::new();
    place.copy("cargo-test.py");
    place.program("tests", body);
    place.program(
        "bin/cargo",
        r#"cat <<END
{"executable": "$PLACE/tests", "manifest_path": "$PLACE/Cargo.toml", "profile": {"test": true},
 "package_id": "path+file://$PLACE/crates/cli#transom@0.1.0",
 "target": {"name": "tests", "src_path": "$PLACE/tests"}}
END"#,
    );
    // One message, one line.
    let cargo = place.text("bin/cargo").replace(",\n ", ", ");
    fs::write(place.path("bin/cargo"), cargo).unwrap();
    place
}

/// Prints what libtest does where these tests failed; a line of `above` for each, and then why.
fn libtest(above: &str, failed: &[&str]) -> String {
    let why = |name: &&str| {
        format!("---- {name} stdout ----\n\nthread '{name}' panicked at a.rs:1:2:\nwhy {name}\n\n")
    };
    let why: String = failed.iter().map(why).collect();
    let names: String = failed.iter().map(|name| format!("    {name}\n")).collect();
    let count = failed.len();
    format!(
        "cat <<END\n{above}\n\nfailures:\n\n{why}\nfailures:\n{names}\n\
         test result: FAILED. 0 passed; {count} failed; 0 ignored\nEND"
    )
}

/// One test fails beside others, and passes alone; the program then ends so.
fn disturbed(ending: &str) -> Output {
    let failed = libtest("test a ... FAILED", &["a"]);
    let body = format!("[ $# = 0 ] || exit 0\n{failed}\n{ending}");
    with_a_test_program(&body).command("cargo-test.py").output().unwrap()
}

#[test]
fn a_test_program_that_dies_fails_the_run_whatever_failed_before() {
    needs!("python3");
    let output = disturbed("kill -ABRT $$");
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("/tests ended with SIGABRT\n"), "{}", said(&output));
    assert!(!disturbed("exit 1").status.success());
    // The control: it has run all tests, as libtest says with this status.
    let output = disturbed("exit 101");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("passed when run again, alone: a"), "{}", said(&output));
}

#[test]
fn a_test_that_fails_alone_at_first_has_failed_by_chance_and_is_named_with_its_reason() {
    needs!("python3");
    let failed = libtest("test a ... FAILED", &["a"]);
    let body = format!(
        "echo >>$PLACE/runs\n[ $(wc -l <$PLACE/runs) -lt 3 ] || exit 0\n{failed}\nexit 101"
    );
    let place = with_a_test_program(&body);
    let told = place.path("told");
    let output = place.command("cargo-test.py").env("TRANSOM_FAILED", &told).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told = fs::read_to_string(told).unwrap();
    assert!(told.contains("passed when run again, alone: a\n"), "{told}");
    assert!(told.contains("why a\ntransom: failed alone, too, at first: a\n"), "{told}");
}

/// What libtest prints where a child of `a` wrote before it had failed.
const BROKEN: &str = "test a ... transom: ready\nFAILED\ntest b ... FAILED";

/// Two tests fail; alone `a` does, and says why once more.
fn broken() -> Place {
    let beside = libtest(BROKEN, &["a", "b"]);
    let alone = libtest("test a ... FAILED\ntest b ... ok", &["a"]);
    let skips = "printf 'page\td\tchromium\twhy\ttransom-view\n' >>\"${TRANSOM_SKIPS:-/dev/null}\"";
    with_a_test_program(&format!(
        "{skips}\nif [ $# = 0 ]; then {beside}\nelse {alone}\nfi\nexit 101"
    ))
}

#[test]
fn a_failed_test_whose_line_a_child_has_broken_is_run_again_too() {
    needs!("python3");
    let output = broken().command("cargo-test.py").output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("once more, alone: a b\n"), "{}", said(&output));
    assert!(said(&output).ends_with("failed, and failed alone 2 times: a\n"), "{}", said(&output));
}

#[test]
fn a_run_whose_list_of_failed_tests_is_not_whole_fails() {
    needs!("python3");
    let list = libtest(BROKEN, &["a", "b"]).replace("    a\n", "");
    let place = with_a_test_program(&format!("[ $# = 0 ] || exit 0\n{list}\nexit 101"));
    let output = place.command("cargo-test.py").output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("once more"), "{}", said(&output));
}

#[test]
fn what_failed_alone_too_is_said_last_with_its_reason() {
    needs!("python3");
    let place = broken();
    for script in ["test.sh", "skipped.sh"] {
        place.copy(script);
    }
    place.program("bin/id", "echo 0");
    let output = place.command("test.sh").output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    let folder = place.path("").file_name().unwrap().display().to_string();
    let end = format!(
        "transom: 1 tests skipped, lacking: chromium (1)\nfailed: {folder}/tests a\n    \
         thread 'a' panicked at a.rs:1:2:\n    why a\n\
         transom: failed, and failed alone 2 times: a\n"
    );
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.ends_with(&end), "{errors}");
}

#[test]
fn a_test_program_is_told_its_package_as_cargo_tells_it() {
    needs!("python3");
    let output = with_a_test_program("echo of $CARGO_PKG_NAME").command("cargo-test.py").output();
    assert!(said(&output.unwrap()).contains("\nof transom\n"));
}

/// `test.sh` of a user who has sudo, where the first run skips what these lines of the list say.
fn tested_by_a_user(skips: &str) -> (Place, Output) {
    let place = Place::new();
    for script in ["test.sh", "skipped.sh"] {
        place.copy(script);
    }
    place.program("bin/id", "echo 1000");
    place.program("bin/sudo", "exit 1");
    let run = format!(
        "echo \"$*\" >>$PLACE/runs\ncase $* in *--workspace*) printf '{skips}' >>$TRANSOM_SKIPS;; esac"
    );
    place.program("scripts/cargo-test.py", &run);
    let output = place.command("test.sh").output().unwrap();
    (place, output)
}

#[test]
fn what_was_skipped_for_the_lack_of_root_is_run_with_sudo_whatever_package_it_is_of() {
    let (place, output) = tested_by_a_user(
        "ship\\ta\\troot\\twhy\\ttransom-fleet\\nship\\tb\\troot\\twhy\\ttransom-fleet\\n\
         kernel\\tc\\troot\\twhy\\ttransom-control\\npage\\td\\tchromium\\twhy\\ttransom-view\\n",
    );
    assert!(output.status.success(), "{}", said(&output));
    let runs = place.text("runs");
    let second = runs.lines().nth(1).unwrap_or_default();
    assert_eq!(second, "--runner sudo -E --locked -p transom-control -p transom-fleet");
    // What the second run does not skip is none that was skipped.
    assert!(said(&output).contains("transom: 1 tests skipped, lacking: chromium (1)"));
}

#[test]
fn nothing_is_run_with_sudo_where_nothing_was_skipped_for_it() {
    let (place, output) = tested_by_a_user("page\\td\\tchromium\\twhy\\ttransom-view\\n");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(place.text("runs").lines().count(), 1);
}

#[test]
#[ignore = "run by the test below"]
fn needs_what_nobody_has() {
    needs!("no-such-program");
}

#[test]
fn the_list_that_a_user_made_in_tmp_takes_the_lines_of_root() {
    let place = Place::new();
    fs::write(place.path("skips"), "of the user\n").unwrap();
    let mut myself = Command::new(std::env::current_exe().unwrap());
    myself.args(["--exact", "--ignored", "needs_what_nobody_has"]);
    myself.env_remove("TRANSOM_REQUIRE").env("TRANSOM_SKIPS", place.path("skips"));
    let output = Refusal::of_making_files().during(|| myself.output().unwrap());
    assert!(output.status.success(), "{}", said(&output));
    let skips = place.text("skips");
    assert!(skips.starts_with("of the user\nscripts\tneeds_what_nobody_has\t"), "{skips}");
    assert!(skips.ends_with("\ttransom-manual\n"), "its package: {skips}");
}

/// What scripts need for nothing but themselves, and these programs, in the place's own PATH.
fn shell(place: &Place, more: &str) {
    let words = "awk bash cat chmod dirname env find head ln mkdir sed seq sh sort tail";
    for tool in words.split(' ').chain(more.split_whitespace()) {
        let found = find_program(tool).expect("every machine has it");
        symlink(found, place.path("bin").join(tool)).unwrap();
    }
}

/// `prerequisites.sh` where nothing is installed but what a shell needs and these programs.
fn prerequisites(purpose: &str, programs: &[(&str, &str)]) -> (Place, Output) {
    let place = Place::new();
    for script in ["prerequisites.sh", "lld.sh"] {
        place.copy(script);
    }
    shell(&place, "");
    for (name, body) in programs {
        place.program(&format!("bin/{name}"), body);
    }
    let mut command = place.command("prerequisites.sh");
    let output = command.arg(purpose).env("PATH", place.path("bin")).output().unwrap();
    (place, output)
}

const RUSTC: &str =
    "case $* in *sysroot*) echo $PLACE/sysroot ;; *) echo 'host: any-machine' ;; esac";

#[test]
fn what_links_the_packages_is_named_before_they_are_built() {
    let lacks = |programs: &[(&str, &str)]| {
        let (_place, output) = prerequisites("dist", programs);
        let said = said(&output);
        let (_, names) =
            said.split_once("under Debian's names: ").unwrap_or_else(|| panic!("{said}"));
        names.lines().next().unwrap().split(' ').any(|name| name == "lld")
    };
    assert!(lacks(&[("rustc", RUSTC)]), "a compiler from a package brings none");
    let old = ("ld.lld", "echo 'Debian LLD 14.0.6 (compatible with GNU linkers)'");
    assert!(lacks(&[("rustc", RUSTC), old]));
    let packed = ("ld.lld-19", "echo 'Debian LLD 19.1.7 (compatible with GNU linkers)'");
    assert!(!lacks(&[("rustc", RUSTC), old, packed]));
    let own = format!(
        "mkdir -p $PLACE/sysroot/lib/rustlib/any-machine/bin/gcc-ld; \
                       : >$PLACE/sysroot/lib/rustlib/any-machine/bin/gcc-ld/ld.lld; {RUSTC}"
    );
    assert!(!lacks(&[("rustc", &own)]), "rustup's brings its own");
}

/// What apt is asked to install for cargo, where these versions can be had.
fn cargo_from(candidates: &str) -> (String, Output) {
    let cache = format!(
        "[ $1 = policy ] || exit 1\nversion=$(case $2 in {candidates} *) echo '(none)';; esac)\n\
         echo \"  Candidate: $version\""
    );
    // What it installs is there then.
    let get = "case $* in *install*) ;; *) exit ;; esac\necho \"$*\" >>$PLACE/asked\n\
               printf '#!/bin/sh\\necho cargo 1.99.0\\n' >$PLACE/bin/cargo\n\
               printf '#!/bin/sh\\necho \"$*\" >>$PLACE/rustup\\n' >$PLACE/bin/rustup\n\
               chmod +x $PLACE/bin/cargo $PLACE/bin/rustup";
    let present = ["cc", "make", "pkg-config", "clang-19"].map(|name| (name, ""));
    let programs = [("id", "echo 0"), ("apt-cache", &cache), ("apt-get", get)];
    let (place, output) = prerequisites("build", &[&present[..], &programs[..]].concat());
    let asked = place.text("asked");
    let (_, packages) =
        asked.trim_end().rsplit_once("--no-install-recommends ").unwrap_or_default();
    let rustup = if place.path("rustup").exists() { place.text("rustup") } else { String::new() };
    (format!("{packages}\n{rustup}"), output)
}

#[test]
fn cargo_comes_from_a_package_that_is_new_enough_or_else_from_rustups() {
    let (asked, output) =
        cargo_from("rustc) echo 1.63.0+dfsg1-2;; rustc-web) echo 1.96.0+dfsg1-1~deb12u2;;");
    assert_eq!(asked, "cargo-web rustc-web rustfmt-web\n", "Debian 12: {}", said(&output));
    let forky = "rustc) echo 1.92.0+dfsg1-2;; rustup) echo 1.27.1-4;;";
    assert_eq!(cargo_from(forky).0, "cargo rustc rustfmt\n");
    let trixie = "rustc) echo 1.85.0+dfsg3-1;; rustup) echo 1.27.1-3;;";
    let noble = "rustc) echo 1.75.0+dfsg0ubuntu1-0ubuntu7;; rustup) echo 1.26.0-5;; rustc-1.89) echo 1.89.0;;";
    for candidates in [trixie, noble] {
        let (asked, output) = cargo_from(candidates);
        assert_eq!(asked, "rustup\nupdate stable\ndefault stable\n", "{}", said(&output));
        assert!(output.status.success());
    }
    let (asked, output) = cargo_from("rustc) echo 1.59.0;;");
    assert_eq!(asked, "\n");
    assert!(said(&output).contains("no package here has it: see https://rustup.rs"));
}

/// The user who runs this, or nobody if that is root.
fn user() -> u32 {
    let own = fs::metadata("/proc/self").unwrap().uid();
    if own == 0 { 65534 } else { own }
}

/// The demo of a fleet, run by a user, until it asks sudo; what it asks, and who had made what was there then.
fn asked_of_sudo(with_prometheus: bool) -> (String, Output) {
    let place = fleet_demo();
    shell(&place, "stat");
    // That of the system: another may be its user's alone.
    symlink("/usr/bin/python3", place.path("bin/python3")).unwrap();
    for folder in ["", "target"] {
        fs::set_permissions(place.path(folder), fs::Permissions::from_mode(0o777)).unwrap();
    }
    place.program(
        "bin/sudo",
        "echo \"$*\" >$PLACE/asked; stat -c %u $PLACE/target/fleet-demo-python >>$PLACE/asked",
    );
    for name in ["ip", "nsenter"].into_iter().chain(with_prometheus.then_some("prometheus")) {
        place.program(&format!("bin/{name}"), "");
    }
    let mut command = Command::new(find_program("setpriv").expect("looked for before"));
    let id = user();
    if id == 65534 {
        command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".into()]);
    }
    command.arg(place.path("scripts/fleet-demo/run.py"));
    let output = place.prepare(&mut command).env("PATH", place.path("bin")).output().unwrap();
    (place.text("asked"), output)
}

/// Its scripts, programs that do nothing, and a Python environment that is made in an instant.
fn fleet_demo() -> Place {
    let place = Place::new();
    for folder in ["scripts/fleet-demo", "target", "programs", "modules"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    for entry in fs::read_dir(format!("{SCRIPTS}/fleet-demo")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".py") {
            place.copy(&format!("fleet-demo/{name}"));
        }
    }
    for name in ["transom", "transom-lab", "transom-agent", "transom-fleet"] {
        place.program(&format!("programs/{name}"), "");
    }
    const VENV: &str = "import os, sys\nbin = sys.argv[-1] + '/bin'\nos.makedirs(bin)\n\
        open(bin + '/python', 'w').write('#!/bin/sh\\n')\nos.chmod(bin + '/python', 0o755)\n";
    fs::write(place.path("modules/venv.py"), VENV).unwrap();
    place
}

#[test]
fn the_demo_of_a_fleet_makes_its_python_as_the_user_and_looks_before_it_asks_sudo() {
    needs!("/usr/bin/python3", "setpriv");
    let (asked, output) = asked_of_sudo(false);
    let (words, owner) = asked.trim_end().split_once('\n').unwrap_or_default();
    assert_eq!(owner, user().to_string(), "{}", said(&output));
    assert!(words.ends_with("fleet-demo/run.py --without-prometheus"), "{words}");
    assert!(said(&output).contains("demo: no program prometheus: it goes on without"));
    // The control: with it nothing is left out.
    let (asked, output) = asked_of_sudo(true);
    let (words, _) = asked.split_once('\n').unwrap_or_default();
    assert!(words.ends_with("fleet-demo/run.py"), "{words}");
    assert!(!said(&output).contains("no program prometheus"));
}

/// The fleet's demo, in which these lines of Python put `broken` in the place of something.
fn broken_fleet(place: &Place, lines: &str) -> Command {
    let script = format!(
        "import sys; sys.path.insert(0, '{0}/scripts/fleet-demo'); sys.argv = ['run.py']\n\
         import pathlib, run\n\
         run.look = run.become_root = run.hosts.remove_links = lambda *_: None\n\
         run.leftovers.NOTE = pathlib.Path('{0}/note')\n\
         def broken(*_, **_more):\n    (run.programs.TARGET / 'fleet-demo/made').touch()\n    raise RuntimeError('broken')\n\
         run.Fleet = broken\n{lines}\nrun.main()",
        place.path("").display()
    );
    let mut fleet = Command::new("python3");
    place.prepare(fleet.args(["-c", &script]));
    fleet
}

#[test]
fn what_a_demo_made_with_sudo_is_the_users_when_it_fails_too() {
    needs!("root", "python3");
    let place = fleet_demo();
    place.copy("demo.sh");
    fs::create_dir(place.path("target/release")).unwrap();
    place.program("target/release/transom", ": >$PLACE/target/demo/made; exit 1");
    let fleet = |lines| (broken_fleet(&place, lines), "target/fleet-demo/made");
    for (mut command, made) in [
        (place.command("demo.sh"), "target/demo/made"),
        fleet(""),
        fleet("run.leftovers.clear_away = broken"),
        fleet("run.tempfile.mkdtemp = broken"),
        fleet("run.leftovers.Processes.end = broken"),
        fleet("run.leftovers.forget = broken"),
    ] {
        let output = command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap();
        assert!(!output.status.success());
        let metadata = fs::metadata(place.path(made));
        let metadata = metadata.unwrap_or_else(|_| panic!("{}", said(&output)));
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65534), "{}", said(&output));
        fs::remove_dir_all(place.path(made).parent().unwrap()).unwrap();
    }
}

#[test]
fn a_package_that_would_start_a_service_is_named_and_not_installed_where_there_is_systemd() {
    needs!("root", "unshare");
    let place = Place::new();
    place.copy("prerequisites.sh");
    shell(&place, "");
    for name in ["ip", "nsenter", "id", "python3"] {
        place.program(&format!("bin/{name}"), "");
    }
    // Its own /run, on which systemd seems to be.
    let script = format!(
        "mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system; PATH={}; exec \"$PLACE/scripts/prerequisites.sh\" fleet-demo",
        place.path("bin").display()
    );
    let mut command = Command::new("unshare");
    let output = place.prepare(command.args(["--mount", "sh", "-c", &script])).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("transom: without prometheus, parts are skipped"),
        "{}",
        said(&output)
    );
}

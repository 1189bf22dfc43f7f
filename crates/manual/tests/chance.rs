//! What chance does to a run of all tests: properties meet the same values each time, and what failed in a
//! guest is run again, alone.

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;
use transom_testbed::{needs, write_script};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

/// A repository of scripts: copies of ours, and others in the place of what they call.
struct Repository(TempDir);

impl Repository {
    fn with(copies: &[&str], others: &[(&str, &str)]) -> Repository {
        let repository = Repository(tempfile::tempdir().unwrap());
        for copy in copies {
            repository.write(
                &format!("scripts/{copy}"),
                &fs::read_to_string(format!("{SCRIPTS}/{copy}")).unwrap(),
            );
        }
        for (name, text) in others {
            repository.write(name, text);
        }
        repository
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_script(&path, text);
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }

    /// Programs of `bin` come first.
    fn run(&self, script: &str, environment: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        for inherited in ["TRANSOM_REQUIRE", "TRANSOM_SKIPS", "PROPTEST_RNG_SEED"] {
            command.env_remove(inherited);
        }
        command
            .arg(self.0.path().join("scripts").join(script))
            .env("PATH", format!("{}:{path}", self.0.path().join("bin").display()))
            .env("PLACE", self.0.path())
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .envs(environment.iter().copied())
            .output()
            .unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn all_tests_run_with_one_seed_for_properties_unless_another_is_given() {
    let repository = Repository::with(
        &["test.sh", "skipped.sh"],
        &[
            ("bin/id", "#!/bin/sh\necho 0"),
            ("scripts/cargo-test.py", "#!/bin/sh\necho \"seed $PROPTEST_RNG_SEED\""),
        ],
    );
    let seed = |environment: &[(&str, &str)]| said(&repository.run("test.sh", environment));
    assert!(seed(&[]).contains("seed 1\n"), "{}", seed(&[]));
    assert!(seed(&[("PROPTEST_RNG_SEED", "77")]).contains("seed 77\n"));
}

#[test]
fn fuzzing_draws_new_values_for_each_property() {
    let repository = Repository::with(
        &["fuzz.sh"],
        &[
            ("bin/cargo", "#!/bin/sh\necho \"$* seed ${PROPTEST_RNG_SEED-drawn}\""),
            ("crates/cli/src/names/cache.rs", "proptest! {"),
            ("crates/view/tests/report/crowd.rs", "proptest! {"),
            ("crates/view/tests/other.rs", "#[test]"),
        ],
    );
    let output = repository.run("fuzz.sh", &[("PROPTEST_RNG_SEED", "1")]);
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    let words = text.lines().last().unwrap();
    assert!(words.contains(" -p transom ") && words.contains("--lib --bins"), "{words}");
    assert!(words.contains(" -p transom-view --test report"), "{words}");
    assert!(words.ends_with(" seed drawn") && !words.contains("other"), "{words}");
}

const GUESTS: &str = "core = []\n[\"x86_64-one\"]\nkernel = 'one'\nrequire = []\npart = ['cli/tiers', 'cli/calm']\n\
    [\"aarch64-two\"]\nkernel = 'two'\nrequire = []\npart = ['cli/tiers', 'cli/calm']\n";

/// Two test programs, and machines that have been built.
const BUILT: &str = "import pathlib, real
class Machine:
    def __init__(self, name, only=()):
        self.name, self.disk, self.built = name, 'disk', 'built'
        self.rows = [real.Row(row, pathlib.Path('folder'), pathlib.Path('program'), 9, 'digest')
                     for row in ('cli/calm', 'cli/tiers')]
    def tools(self):
        return []
";

/// A guest: notes which rows it was given, and runs them; `tiers` says what the tests of that row do.
fn guest(tiers: &str) -> String {
    format!(
        "#!/bin/bash
while [ \"$1\" != -- ]; do
	case $1 in --kernel) kernel=$2 ;; *:/matrix/rows) rows=${{1%:/matrix/rows}} ;; esac
	shift
done
test_did() {{ echo \"{{ \\\"type\\\": \\\"test\\\", \\\"event\\\": \\\"$2\\\", \\\"name\\\": \\\"$1\\\" }}\"; }}
echo boot $kernel >>$PLACE/boots
while read -r name _ _ _ alone; do
	echo \"$kernel $name $alone\" >>$PLACE/boots
	echo \"@@begin $name\"
	status=0
	if [ $name = cli/tiers ] && [ $kernel = one ]; then
		{tiers}
	else
		test_did fine ok
	fi
	echo \"@@end $name $status 2 1\"
done <\"$rows\""
    )
}

/// CI's share, on guests of which the first one does that; and what was run on which.
fn share_of_ci(tiers: &str) -> (Output, Vec<String>) {
    let nothing = "#!/bin/sh";
    let programs = fs::read_to_string(format!("{SCRIPTS}/matrix/programs.py")).unwrap();
    let guest = guest(tiers);
    let mut others = vec![
        ("scripts/matrix/real.py", programs.as_str()),
        ("scripts/matrix/programs.py", BUILT),
        ("scripts/matrix/guests.toml", GUESTS),
        ("scripts/guest.sh", &guest),
        ("scripts/guest-package.sh", nothing),
        ("scripts/prerequisites.sh", nothing),
    ];
    let tools = ["qemu-system-x86_64", "qemu-system-aarch64", "cpio", "depmod", "xz", "mke2fs"];
    let cross = ["aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc"];
    let tools: Vec<String> = tools.iter().chain(&cross).map(|tool| format!("bin/{tool}")).collect();
    others.extend(tools.iter().map(|tool| (tool.as_str(), nothing)));
    let copies = ["matrix/ci.sh", "matrix/run.py", "matrix/cells.py", "matrix/inside.sh"];
    let repository = Repository::with(&copies, &others);
    let output = repository.run("matrix/ci.sh", &[("TRANSOM_MATRIX", "part")]);
    let boots = repository.text("boots");
    (output, boots.lines().map(|line| line.trim_end().to_owned()).collect())
}

/// What was run after both guests had had their rows.
fn second_round(boots: &[String]) -> &[String] {
    let (first, second) = boots.split_at(6);
    let whole = |kernel: &str| {
        first.iter().filter(|line| line.split(' ').any(|word| word == kernel)).count()
    };
    assert_eq!((whole("one"), whole("two")), (3, 3), "{boots:?}");
    second
}

#[test]
fn a_test_that_fails_in_a_guest_is_run_again_alone_and_nothing_else_is() {
    needs!("python3");
    let tiers = |alone: &str| {
        format!(
            "if [ -n \"$alone\" ]; then {alone}; else test_did a failed; test_did b ok; status=101; fi"
        )
    };
    let (output, boots) = share_of_ci(&tiers("test_did a ok"));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(second_round(&boots), ["boot one", "one cli/tiers a"]);
    assert!(said(&output).contains("once more: x86_64-one cli/tiers a\n"), "{}", said(&output));
    // The control: it fails alone, too.
    let (output, boots) = share_of_ci(&tiers("test_did a failed; status=101"));
    assert!(!output.status.success(), "{}", said(&output));
    assert_eq!(second_round(&boots), ["boot one", "one cli/tiers a"]);
    assert!(said(&output).contains("x86_64-one cli/tiers a: failed\n"), "{}", said(&output));
    // It is not there any more: that is no success.
    let (output, _) = share_of_ci(&tiers(":"));
    assert!(!output.status.success(), "{}", said(&output));
}

#[test]
fn a_program_of_which_some_tests_may_not_have_begun_is_run_again_as_it_is() {
    needs!("python3");
    let tiers = "if [ ! -e $PLACE/again ]; then >$PLACE/again; test_did a failed; test_did b started; status=134
		else test_did a ok; test_did b ok; test_did c failed; status=101; fi";
    let (output, boots) = share_of_ci(tiers);
    assert!(!output.status.success(), "{}", said(&output));
    assert_eq!(second_round(&boots), ["boot one", "one cli/tiers"]);
    assert!(said(&output).contains("x86_64-one cli/tiers c: failed\n"), "{}", said(&output));
}

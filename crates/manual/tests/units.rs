//! The systemd units of the packages, as systemd's own tools read them.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use transom_testbed::has;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
const UNITS: [&str; 6] =
    ["transom-agent.service", "transom-journal.service", SHIP, FOLLOW, STEP, DRILL];
const SHIP: &str = "transom-fleet-ship.service";
const FOLLOW: &str = "transom-fleet-follow.service";
const STEP: &str = "transom-fleet-step.service";
const DRILL: &str = "transom-drill.service";
/// It needs the mounts of the machine, and is not confined by more than its capabilities.
const TUNE: &str = "transom-tune-follow.service";
/// In tenths, as systemd wants it; 1.0 to 4.9 it calls "OK".
const MOST_EXPOSED: &str = "25";

fn analyze(arguments: &[&str]) -> Output {
    Command::new("systemd-analyze").args(arguments).output().expect("systemd-analyze runs")
}

fn path(unit: &str) -> String {
    format!("{FOLDER}/{unit}")
}

#[test]
fn each_unit_is_confined() {
    if !has("systemd-analyze") {
        return;
    }
    let threshold = format!("--threshold={MOST_EXPOSED}");
    for unit in UNITS {
        let output =
            analyze(&["security", "--offline=true", "--no-pager", &threshold, &path(unit)]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{unit}: {}", said.lines().last().unwrap_or_default());
    }
}

#[test]
fn systemd_knows_every_setting() {
    if !has("systemd-analyze") {
        return;
    }
    for unit in UNITS.into_iter().chain([TUNE]) {
        let output = analyze(&["verify", "--man=no", &path(unit)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The programs are not installed where the tests run.
        let complaints: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("transom") && !line.contains("is not executable"))
            .collect();
        assert!(complaints.is_empty(), "{unit}: {complaints:#?}");
    }
}

/// The system calls of a name or of a set, as `@privileged`.
fn calls(name: &str) -> BTreeSet<String> {
    if !name.starts_with('@') {
        return BTreeSet::from([name.to_owned()]);
    }
    let output = analyze(&["syscall-filter", "--no-pager", name]);
    assert!(output.status.success(), "{name}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let below = text.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#'));
    below.filter(|line| !line.is_empty() && *line != name).flat_map(calls).collect()
}

/// What all `SystemCallFilter=` lines leave, in their order.
fn allowed(unit: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(path(unit)).unwrap();
    let mut allowed = BTreeSet::new();
    for filter in text.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (words, is_denied) = match filter.strip_prefix('~') {
            Some(words) => (words, true),
            None => (filter, false),
        };
        for call in words.split_whitespace().flat_map(calls) {
            if is_denied {
                allowed.remove(&call)
            } else {
                allowed.insert(call)
            };
        }
    }
    allowed
}

#[test]
fn the_filter_of_system_calls_leaves_nothing_privileged_but_bpf_to_those_that_load_probes() {
    if !has("systemd-analyze") {
        return;
    }
    for unit in UNITS {
        let allowed = allowed(unit);
        for needed in ["openat", "socket", "renameat2", "clock_nanosleep"] {
            assert!(allowed.contains(needed), "{unit} denies {needed}");
        }
        let privileged: Vec<_> = calls("@privileged").intersection(&allowed).cloned().collect();
        let expected: &[&str] =
            if [SHIP, FOLLOW, STEP, DRILL].contains(&unit) { &[] } else { &["bpf"] };
        assert_eq!(privileged, expected, "{unit}");
        for forbidden in ["mount", "ptrace", "init_module", "perf_event_open"] {
            assert!(!allowed.contains(forbidden), "{unit} allows {forbidden}");
        }
    }
}

#[test]
fn the_key_that_signs_reaches_its_unit_as_a_credential_and_lies_nowhere_else() {
    for entry in fs::read_dir(FOLDER).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = fs::read_to_string(path(&name)).unwrap();
        let mut lines = text.lines().filter(|line| line.contains("fleet.key"));
        let expected = (name == STEP).then_some("LoadCredential=key:/etc/transom/fleet.key");
        assert_eq!((lines.next(), lines.next()), (expected, None), "{name}");
    }
}

/// `%d` and others came later than the systemd of the oldest release that docs/install.md names, which
/// drops a line with one that it does not know.
#[test]
fn each_unit_has_only_specifiers_that_systemd_247_knows() {
    const OF_247: &str = "%bCEfhHiIjJlLmnNpPsStTuUvV";
    for entry in fs::read_dir(FOLDER).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        // What comments show is there to be used.
        for line in text.lines().filter(|line| line.contains('=')) {
            let mut characters = line.chars();
            while characters.any(|character| character == '%') {
                let specifier = characters.next().unwrap_or(' ');
                let is_known = specifier == ' ' || OF_247.contains(specifier);
                assert!(is_known, "{}: %{specifier} in {line}", path.display());
            }
        }
    }
}

/// The value of a setting that a unit has once.
fn value(unit: &str, setting: &str) -> String {
    value_if_any(unit, setting).unwrap_or_else(|| panic!("{unit} has no {setting}="))
}

fn value_if_any(unit: &str, setting: &str) -> Option<String> {
    let text = fs::read_to_string(path(unit)).unwrap();
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&format!("{setting}=")));
    let value = values.next()?.to_owned();
    assert_eq!(values.next(), None, "{unit} has {setting}= twice");
    Some(value)
}

#[test]
fn services_that_read_the_spool_have_its_folder_from_one_place() {
    for unit in [SHIP, DRILL] {
        let text = fs::read_to_string(path(unit)).unwrap();
        let own = "Environment=TRANSOM_SPOOL=/var/lib/transom/spool\n\
                   EnvironmentFile=-/etc/default/transom-agent\n";
        assert!(text.contains(own), "{unit}");
        assert!(value(unit, "ExecStart").contains(" --spool ${TRANSOM_SPOOL}"), "{unit}");
    }
}

#[test]
fn services_of_the_fleet_keep_metrics_where_they_may_write_and_others_may_read() {
    for unit in [SHIP, FOLLOW, STEP] {
        let start = value(unit, "ExecStart");
        let (before, words) = start.split_once(" --metrics ").expect(unit);
        let file = words.split(' ').next().unwrap();
        let folder = format!("/run/{}/", value(unit, "RuntimeDirectory"));
        assert!(file.starts_with(&folder) && file.ends_with(".prom"), "{unit}: {file}");
        assert_eq!(value(unit, "RuntimeDirectoryMode"), "0755", "{unit}");
        // What fleet.env says comes after, and may name another file.
        assert!(!before.contains(" $TRANSOM_"), "{unit}: {before}");
    }
}

/// systemd removes such a folder with the process, unless told otherwise, and under DynamicUser= keeps
/// one that stays where only root looks: nobody would be alerted about a service that ended.
#[test]
fn metrics_of_a_service_of_the_fleet_stay_for_others_when_it_ends() {
    for unit in [SHIP, FOLLOW, STEP] {
        assert_eq!(value(unit, "RuntimeDirectoryPreserve"), "yes", "{unit}");
        assert!(!fs::read_to_string(path(unit)).unwrap().contains("\nDynamicUser="), "{unit}");
    }
    // The key that signs is in the hands of its unit's user.
    let users = UNITS.into_iter().filter(|unit| *unit != STEP);
    let users: Vec<String> = users.filter_map(|unit| value_if_any(unit, "User")).collect();
    assert!(!users.contains(&value(STEP, "User")), "{users:?}");
}

/// Users and folders of units that are not made by systemd are the package's to make and to remove.
#[test]
fn the_package_of_the_fleet_makes_and_removes_what_its_units_name() {
    let script =
        |of: &str| fs::read_to_string(format!("{FOLDER}/../debian/transom-fleet.{of}")).unwrap();
    let has = |text: &str, word: &str| text.split([' ', ';', '\n', '\t']).any(|it| it == word);
    for unit in [SHIP, FOLLOW, STEP] {
        let user = value(unit, "User");
        assert!(has(&script("postinst"), &user) && has(&script("postrm"), &user), "{user}");
        let folder = format!("/run/{}", value(unit, "RuntimeDirectory"));
        assert!(has(&script("postrm"), &folder), "{folder}");
    }
}

#[test]
fn a_pod_keeps_its_files_in_no_folder_of_another_user() {
    let pod = fs::read_to_string(format!("{FOLDER}/../kubernetes/transom.yaml")).unwrap();
    let folders = pod.lines().filter_map(|line| line.trim().strip_prefix("path: /var/lib/"));
    let folders: Vec<&str> = folders.collect();
    assert_eq!(folders.len(), 2, "{folders:?}");
    let units = UNITS.into_iter().filter(|unit| unit.contains("agent") || *unit == SHIP);
    for of_a_unit in units.map(|unit| value(unit, "StateDirectory")) {
        assert!(!folders.contains(&of_a_unit.as_str()), "{of_a_unit}");
    }
}

#[test]
fn rows_and_policies_of_a_host_have_its_name_from_one_place() {
    for unit in [SHIP, TUNE] {
        let text = fs::read_to_string(path(unit)).unwrap();
        let line = |of: &str| text.lines().find(|line| line.starts_with(of)).unwrap().to_owned();
        assert!(line("EnvironmentFile=").ends_with("/etc/transom/fleet.env"), "{unit}");
        assert!(line("ExecStart=").contains(" $TRANSOM_HOST"), "{unit}");
    }
    let settings = format!("{FOLDER}/../fleet/fleet.env");
    assert!(fs::read_to_string(settings).unwrap().contains("#TRANSOM_HOST=\"--host NAME\""));
}

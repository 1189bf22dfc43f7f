//! `transom peer` finds `transom-peer` beside `transom`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// `transom` in a directory of its own.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"));
        let own = env!("CARGO_BIN_EXE_transom");
        fs::hard_link(own, place.at("transom")).expect("a second name of the program");
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn peer(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.at("transom"));
        command.arg("peer").args(arguments).env("PATH", self.0.path().join("empty"));
        command.output().expect("transom runs")
    }
}

#[test]
fn without_the_program_it_says_how_to_get_it() {
    let output = Place::new().peer(&["status"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(errors.contains("transom-peer") && errors.contains("make peer"), "{errors}");
}

#[test]
fn all_arguments_and_the_exit_code_are_passed_on() {
    let place = Place::new();
    let stub = place.at("transom-peer");
    fs::write(&stub, "#!/bin/sh\nfor word; do echo \"[$word]\"; done\nexit 7\n").expect("a stub");
    fs::set_permissions(&stub, Permissions::from_mode(0o755)).expect("a program");
    let output = place.peer(&["run", "--dry-run", "--help", "-x", "two words"]);
    assert_eq!(output.status.code(), Some(7));
    let expected = "[run]\n[--dry-run]\n[--help]\n[-x]\n[two words]\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

//! `transom run` finds its program, and says what to do when it cannot.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// `transom run`, copied where nothing lies beside it.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let alone = folder.join("transom");
    transom_testbed::copy_transom(&alone);
    let mut command = Command::new(&alone);
    command.arg("run").args(arguments).env("PATH", folder.join("bin"));
    command.output().expect("starting it")
}

#[test]
fn without_its_program_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(folder.path(), &["--", "true"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("transom-netstack") && said.contains("make netstack"), "{said}");
}

#[test]
fn without_its_program_no_earlier_recording_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet");
    std::fs::write(&file, "precious").expect("writing");
    let words = ["--record", file.to_str().expect("a name"), "--force", "--", "true"];
    let output = run(folder.path(), &words);
    assert!(!output.status.success());
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
}

/// A folder in which the program of `transom run` is this script.
fn with_its_program(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let program = bin.join("transom-netstack");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("writing");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode");
    folder
}

#[test]
fn a_command_that_its_program_refuses_costs_no_earlier_recording() {
    let folder = with_its_program("echo 'no such path' >&2; exit 2");
    let file = folder.path().join("t.parquet");
    let record = |file: &Path| {
        let words = ["--record", file.to_str().expect("a name"), "--force", "--path", "zz", "true"];
        let output = run(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no such path") && said.contains("nothing was recorded"), "{said}");
    };
    std::fs::write(&file, "precious").expect("writing");
    record(&file);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "precious");
    let new = folder.path().join("new.parquet");
    record(&new);
    assert!(!new.exists());
}

#[test]
fn every_argument_reaches_its_program_and_the_exit_status_comes_back() {
    let folder = with_its_program("printf '%s|' \"$@\"; exit 9");
    let arguments = ["--help", "--cc", "bbr", "--", "curl", "--help", "a b"];
    let output = run(folder.path(), &arguments);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--help|--cc|bbr|--|curl|--help|a b|");
    assert_eq!(output.status.code(), Some(9));
}

#[test]
fn a_recording_is_asked_for_in_any_place_before_the_program() {
    let folder = with_its_program("shift; printf '%s|' \"$@\"; exit 9");
    let file = folder.path().join("t.parquet");
    let file = file.to_str().expect("a name");
    let first = format!("--record={file}");
    for line in [
        &[&first, "--force", "--path", "p0", "curl", "-x"][..],
        &["--path", "p0", "--record", file, "curl", "--record", "x"],
        &["--force", "--cc", "bbr", "--record", file, "--", "curl", "--path"],
    ] {
        let output = run(folder.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(9), "{said}");
        assert!(said.contains(&format!("nothing was recorded in {file}")), "{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), line.join("|") + "|");
    }
}

#[test]
fn what_only_looks_like_a_recording_is_none() {
    let folder = with_its_program("printf '%s|' \"$@\"; exit 9");
    let of_the_program = ["--path", "p0", "curl", "--record", "x", "--force"];
    let output = run(folder.path(), &of_the_program);
    assert_eq!(String::from_utf8_lossy(&output.stdout), of_the_program.join("|") + "|");
    for (line, told) in [
        (&["--record", "x", "--mtpcp", "curl"][..], "'--mtpcp'"),
        (&["--force", "--path", "p0", "curl"], "--record <FILE>"),
    ] {
        let output = run(folder.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told) && output.stdout.is_empty(), "{said}");
    }
}

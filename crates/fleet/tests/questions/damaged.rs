//! An object that was damaged in the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use transom_spool::{Cause, Connection, Time};

use crate::asked::Asker;
use crate::generated::NOON;
use crate::objects;

fn rows(host: u64) -> Vec<Connection> {
    let row = |n: u64| Connection {
        time: Time(NOON + n as i64 * 1_000_000),
        cookie: n,
        service: 443,
        remote_prefix: Some("198.51.100.0/24".into()),
        busy_us: 1_000_000 * (host + 1),
        verdict: Cause::Cwnd,
        program: Some(["curl", "nginx"][n as usize % 2].into()),
        ..Connection::default()
    };
    (0..500).map(row).collect()
}

/// Two hosts have one object each, of which this is that of the second.
fn put(folder: &Path) -> PathBuf {
    let hour = folder.join("connections/date=2026-11-23/hour=12");
    let files = || fs::read_dir(&hour).into_iter().flatten().map(|file| file.unwrap().path());
    objects::put(folder, "connections", 0, (0, 1), rows(0)).unwrap();
    let first = files().next().expect("the first");
    objects::put(folder, "connections", 1, (0, 1), rows(1)).unwrap();
    files().find(|file| *file != first).expect("the second")
}

fn ask(asker: &Asker, folder: &Path) -> Output {
    let mut command = asker.program("ask");
    command.args(["slow_connections", "customer=198.51.100.0/24", "--json"]);
    command.args(["--from", &format!("file://{}", folder.display())]);
    command.args(["--since", "2026-11-23T12:00", "--until", "2026-11-23T13:00"]);
    command.output().unwrap()
}

#[test]
fn a_damaged_object_is_named_and_the_others_answer() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let damaged = put(folder.path());
    let whole = fs::read(&damaged).unwrap();
    fs::remove_file(&damaged).unwrap();
    let of_the_other = ask(&asker, folder.path());
    assert!(of_the_other.status.success() && of_the_other.stdout.len() > 1000);
    let end = whole.len();
    let with = |range: std::ops::Range<usize>| {
        let mut bytes = whole.clone();
        bytes[range].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 37) as u8);
        bytes
    };
    // DuckDB names the first two, and not the others.
    for bytes in
        [b"PAR1".to_vec(), whole[..end / 2].to_vec(), with(100..2000), with(end - 200..end - 100)]
    {
        fs::write(&damaged, bytes).unwrap();
        let answer = ask(&asker, folder.path());
        let said = String::from_utf8_lossy(&answer.stderr);
        assert!(answer.status.success(), "{said}");
        let name = damaged.file_name().unwrap().to_str().unwrap();
        assert!(said.contains("left out") && said.contains(name), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(answer.stdout, of_the_other.stdout);
    }
    fs::write(&damaged, whole).unwrap();
    let both = ask(&asker, folder.path());
    assert!(both.stderr.is_empty() && both.stdout != of_the_other.stdout);
}

#[test]
fn where_all_are_damaged_there_is_nothing() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hour = put(folder.path()).parent().unwrap().to_owned();
    for file in fs::read_dir(hour).unwrap() {
        fs::write(file.unwrap().path(), "PAR1").unwrap();
    }
    let answer = ask(&asker, folder.path());
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(!answer.status.success() && said.contains("has nothing of"), "{said}");
    assert_eq!(said.matches("left out").count(), 2, "{said}");
}

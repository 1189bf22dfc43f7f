//! `--once`, into a folder.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use transom_spool::{AgentRow, Table};
use transom_testbed::run;

use crate::place::{Folder, ended, ship};
use crate::spool::{BOOT, Spool};

#[test]
fn each_table_lands_below_its_name_and_hour_and_the_spool_stays_as_it_is() {
    let (spool, to) = (Spool::new(1), Folder::new());
    for number in 11..=12 {
        spool.finish(number, 10);
    }
    fs::write(spool.path().join("traces-20261123T125500Z-000011.raw"), "x").unwrap();
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(good && said.contains("6 files landed: 32 rows"), "{said}");
    let name = |table: &str, hour: u32, number: u32| {
        format!("{table}/date=2026-11-23/hour={hour}/web-1-{BOOT}-{number:06}.parquet")
    };
    let all = ["agent", "connections", "decisions"]
        .map(|table| [name(table, 12, 11), name(table, 13, 12)])
        .concat();
    assert_eq!(to.objects(), all);
    assert_eq!(to.cookies().len(), 20);
    assert_eq!(transom_spool::list(spool.path()).unwrap().len(), 7);
}

#[test]
fn what_landed_never_goes_again_even_if_its_object_was_put_together_with_others() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 10);
    let mut command = ship(spool.path(), &to.address());
    assert!(ended(command.arg("--once")).0);
    for name in to.objects() {
        fs::remove_file(to.0.path().join(name)).unwrap();
    }
    spool.finish(2, 5);
    assert!(ended(&mut command).0);
    assert_eq!(to.cookies().len(), 5, "those of the second journal alone");
}

#[test]
fn without_its_record_it_finds_what_is_there_and_doubles_nothing() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 10);
    let mut command = ship(spool.path(), &to.address());
    assert!(ended(command.arg("--once")).0);
    fs::remove_file(spool.path().join("shipped")).unwrap();
    let (good, said) = ended(&mut command);
    assert!(good && said.contains("3 of them before"), "{said}");
    assert_eq!(to.cookies().len(), 10);
}

#[test]
fn a_host_cloned_with_its_identity_is_refused_by_name_and_writes_over_nothing() {
    let (first, second, to) = (Spool::new(1), Spool::new(2), Folder::new());
    first.finish(1, 10);
    second.finish(1, 10);
    second.finish(2, 10);
    assert!(ended(ship(first.path(), &to.address()).arg("--once")).0);
    let before = to.cookies();
    let (good, said) = ended(ship(second.path(), &to.address()).arg("--once"));
    assert!(!good && said.contains("web-1") && said.contains("a clone"), "{said}");
    assert!(said.contains("connections-20261123T120500Z-000001.parquet"), "{said}");
    let after = to.cookies();
    assert_eq!(after[..10], before[..], "what was there is there");
    assert_eq!(after.len(), 20, "what has a name of its own goes");
    assert_eq!(transom_spool::list(second.path()).unwrap().len(), 6, "the files stay");
}

#[test]
fn a_damaged_file_is_named_and_keeps_no_other_from_going() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 10);
    spool.finish(2, 10);
    let whole = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &whole[..whole.len() / 2]).unwrap();
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(!good && said.contains(files[0].to_str().unwrap()), "{said}");
    assert_eq!(to.objects().len(), 5);
}

#[test]
fn a_pipe_with_the_name_of_a_file_is_named_and_not_waited_for() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 10);
    fs::remove_file(&files[0]).unwrap();
    run(&["mkfifo", "-m", "640", files[0].to_str().unwrap()]);
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(!good && said.contains(files[0].to_str().unwrap()), "{said}");
    assert_eq!(to.objects().len(), 2, "the others go");
}

#[test]
fn a_page_that_the_disk_has_spoilt_does_not_land_either_since_each_question_would_fail() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 2000);
    spool.finish(2, 10);
    let mut spoilt = fs::read(&files[0]).unwrap();
    spoilt[100..300].fill(0xa5);
    fs::write(&files[0], spoilt).unwrap();
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    let name = files[0].to_str().unwrap();
    assert!(!good && said.contains(&format!("{name}: not shipped, and it stays")), "{said}");
    assert!(said.contains("its column ") && said.contains(" is corrupt"), "{said}");
    assert_eq!(to.objects().len(), 5);
}

/// The decoder of its pages panics on some damage, which is no fault of the program.
#[test]
fn a_page_that_the_decoder_panics_on_is_named_as_any_other() {
    let (spool, to) = (Spool::new(1), Folder::new());
    // The first page's header and the values after it, byte by byte: two of them do.
    for (number, at) in (1..).zip(4..40) {
        let file = spool.finish(number, 2).remove(0);
        let mut bytes = fs::read(&file).unwrap();
        bytes[at] = 0;
        fs::write(&file, bytes).unwrap();
    }
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(!good && !said.contains("panicked"), "{said}");
    let refused = said.lines().filter(|line| line.contains(": not shipped, and it stays: "));
    assert!(refused.count() > 10, "{said}");
}

#[test]
fn what_the_agent_removed_before_is_told_in_a_table_of_its_own() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 10);
    spool.finish(2, 10);
    fs::remove_file(&files[0]).unwrap();
    fs::remove_file(&files[1]).unwrap();
    let mut command = ship(spool.path(), &to.address());
    let (good, said) = ended(command.arg("--once"));
    assert!(good && said.contains("15 rows were given up"), "{said}");
    let of_table = |objects: Vec<String>| -> Vec<String> {
        objects.into_iter().filter(|name| name.starts_with("given_up/")).collect()
    };
    let told = of_table(to.objects());
    assert_eq!(told, [format!("given_up/date=2026-11-23/hour=12/web-1-{BOOT}-000001.parquet")]);
    let bytes = bytes::Bytes::from(fs::read(to.0.path().join(&told[0])).unwrap());
    let rows: Vec<AgentRow> = transom_spool::read(bytes).unwrap();
    assert_eq!(rows.iter().map(|row| row.rows).collect::<Vec<_>>(), [10, 5]);
    // What is removed after it landed is not given up, not even if nobody remembers that it landed.
    fs::remove_file(spool.path().join("shipped")).unwrap();
    let second = transom_spool::list(spool.path()).unwrap();
    let connections = second.iter().find(|(name, ..)| name.table() == Table::Connections);
    fs::remove_file(&connections.unwrap().1).unwrap();
    assert!(ended(&mut command).0);
    assert_eq!(of_table(to.objects()), told);
}

#[test]
fn a_second_shipper_of_a_spool_is_refused() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let mut first = ship(spool.path(), &to.address()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(first.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("shipping "), "{line}");
    let state = tempfile::tempdir().unwrap();
    let mut second = ship(spool.path(), &to.address());
    let (good, said) = ended(second.arg("--once").arg("--state").arg(state.path()));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!good && said.contains("another transom-fleet ships the spool"), "{said}");
    assert!(ended(&mut second).0, "when the first is gone it may");
}

#[test]
fn what_is_wrong_with_a_place_is_said_before_anything_goes() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.finish(1, 1);
    let none = spool.path().join("none");
    let said_of = |spool: &std::path::Path, to: &str| {
        let (good, said) = ended(ship(spool, to).arg("--once"));
        assert!(!good);
        said
    };
    assert!(said_of(&none, &to.address()).contains("none"));
    assert!(said_of(spool.path(), "tables").contains("neither s3://"));
    assert!(said_of(spool.path(), "file:///no/such/folder").contains("/no/such/folder"));
    assert!(said_of(spool.path(), "s3://tables").contains("AWS_ACCESS_KEY_ID"));
    assert!(to.objects().is_empty());
    assert!(!spool.path().join("shipped").exists(), "nothing is left behind");
}

#[test]
fn of_keys_that_are_set_in_part_the_missing_one_is_named() {
    let spool = Spool::new(1);
    spool.finish(1, 1);
    for (is_there, told) in [
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY is not set, though AWS_ACCESS_KEY_ID is"),
        ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID is not set, though AWS_SECRET_ACCESS_KEY is"),
        ("AWS_SESSION_TOKEN", "but neither AWS_ACCESS_KEY_ID nor AWS_SECRET_ACCESS_KEY"),
    ] {
        let mut ship = ship(spool.path(), "s3://tables");
        let (good, said) = ended(ship.arg("--once").env(is_there, "precious"));
        assert!(!good && said.contains(told), "{said}");
        assert!(!said.contains("precious"), "keys are not shown");
    }
}

#[test]
fn a_record_of_another_place_is_not_mistaken_for_this_one() {
    let (spool, to, other) = (Spool::new(1), Folder::new(), Folder::new());
    spool.finish(1, 10);
    assert!(ended(ship(spool.path(), &to.address()).arg("--once")).0);
    let (good, said) = ended(ship(spool.path(), &other.address()).arg("--once"));
    assert!(!good && said.contains("--state"), "{said}");
    assert!(other.objects().is_empty());
}

#[test]
fn a_file_that_cannot_be_read_stops_it_with_its_name() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let files = spool.finish(1, 10);
    fs::remove_file(&files[0]).unwrap();
    fs::create_dir(&files[0]).unwrap();
    fs::set_permissions(&files[0], fs::Permissions::from_mode(0o700)).unwrap();
    let (good, said) = ended(ship(spool.path(), &to.address()).arg("--once"));
    assert!(!good && said.contains(files[0].to_str().unwrap()), "{said}");
}

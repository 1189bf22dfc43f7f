//! Recorded events (level 2) land as a table where they are asked for, within their bound.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use transom_spool::{Text, columns, read};
use transom_testbed::needs;
use transom_trace::Reader;

use crate::gateway::{Gateway, policy_of};
use crate::killed::{kill_often, kills};
use crate::place::{Folder, ended, ship};
use crate::s3::{Server, ship_to};
use crate::spool::{BOOT, Spool};
use crate::troubled::{Trouble, Troubled};

/// Of the table `given_up`.
#[derive(Default)]
struct GivenUp {
    table: Option<Text>,
    number: u64,
    rows: u64,
}

columns!(GivenUp {
    table, "", "", Technical;
    number, "", "", Technical;
    rows, "", "", Technical;
});

fn of_table(to: &Folder, table: &str) -> Vec<String> {
    let mut names = to.objects();
    names.retain(|name| {
        name.starts_with(&format!("{table}/")) || name.contains(&format!("/{table}/"))
    });
    names
}

fn with_events(mut command: Command, mib: &str) -> Command {
    command.args(["--once", "--events-mib", mib]);
    command
}

/// Table, number of the file, rows.
fn given_up(to: &Folder) -> Vec<(String, u64, u64)> {
    let of = |name: String| {
        let bytes = bytes::Bytes::from(fs::read(to.0.path().join(name)).unwrap());
        read::<GivenUp, _>(bytes).unwrap()
    };
    let rows = of_table(to, "given_up").into_iter().flat_map(of);
    rows.map(|row| (row.table.unwrap().to_string(), row.number, row.rows)).collect()
}

/// Connection and time of each event.
fn events_of(objects: impl Iterator<Item = PathBuf>) -> Vec<(u64, u64)> {
    let events = objects.flat_map(|path| Reader::open(path).unwrap()).map(Result::unwrap);
    let mut found: Vec<(u64, u64)> = events.map(|event| (event.cookie, event.time_ns)).collect();
    found.sort_unstable();
    found
}

fn events(to: &Folder) -> Vec<(u64, u64)> {
    events_of(of_table(to, "events").into_iter().map(|name| to.0.path().join(name)))
}

#[test]
fn events_stay_on_the_host_unless_they_are_asked_for() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.record(1, 10);
    spool.finish(1, 5);
    let (good, said) = ended(&mut with_events(ship(spool.path(), &to.address()), "0"));
    assert!(good && said.contains("3 files landed"), "{said}");
    assert!(of_table(&to, "events").is_empty() && given_up(&to).is_empty());
}

#[test]
fn events_land_below_their_hour_as_a_table_and_as_a_trace_that_transom_reads() {
    let (spool, to) = (Spool::new(1), Folder::new());
    spool.record(1, 3000);
    spool.finish(1, 5);
    let command = || with_events(ship(spool.path(), &to.address()), "64");
    let (good, said) = ended(&mut command());
    assert!(good && said.contains("4 files landed"), "{said}");
    let name = format!("events/date=2026-11-23/hour=12/web-1-{BOOT}-000001.parquet");
    assert_eq!(of_table(&to, "events"), [name.as_str()]);
    let before = fs::read(to.0.path().join(&name)).unwrap();
    assert_eq!(events(&to).len(), 3000);
    assert!(given_up(&to).is_empty());
    let mut trace = Reader::open(to.0.path().join(&name)).unwrap();
    assert!(!trace.is_cut() && trace.meta().boot_id.starts_with("00112233"));
    assert_eq!(trace.by_ref().count(), 3000);
    // Whoever has no record makes the same bytes of it, and finds them there.
    fs::remove_file(spool.path().join("shipped")).unwrap();
    let (good, said) = ended(&mut command());
    assert!(good && said.contains("4 of them before"), "{said}");
    assert_eq!(fs::read(to.0.path().join(&name)).unwrap(), before);
}

#[test]
fn what_is_above_the_bound_of_an_hour_stays_and_is_told_and_the_next_hour_has_its_own() {
    let (spool, to) = (Spool::new(1), Folder::new());
    // Of noon: far more than a MiB. The twelfth period is of one o'clock.
    spool.record(1, 200_000);
    spool.record(2, 10);
    spool.finish(2, 5);
    spool.record(12, 20);
    spool.finish(12, 5);
    let (good, said) = ended(&mut with_events(ship(spool.path(), &to.address()), "1"));
    assert!(good, "{said}");
    let landed: Vec<String> = of_table(&to, "events");
    assert_eq!(landed.len(), 2, "{landed:?}");
    assert!(landed[0].contains("hour=12") && landed[1].contains("hour=13"));
    assert_eq!(given_up(&to), [("events".into(), 1, 200_000)]);
    assert!(said.contains("200000 rows were given up"), "{said}");
    // It is not tried again, and not told again.
    let (good, said) = ended(&mut with_events(ship(spool.path(), &to.address()), "1"));
    assert!(good && said.contains("0 files landed"), "{said}");
}

#[test]
fn events_that_the_agent_removed_first_are_told_with_how_many_they_were() {
    let (spool, to) = (Spool::new(1), Folder::new());
    fs::remove_file(spool.record(1, 30)).unwrap();
    spool.record(2, 10);
    let files = spool.finish(2, 8);
    // The order of the agent: events, then decisions.
    fs::remove_file(&files[1]).unwrap();
    let (good, said) = ended(&mut with_events(ship(spool.path(), &to.address()), "64"));
    assert!(good && said.contains("34 rows were given up"), "{said}");
    assert_eq!(given_up(&to), [("decisions".into(), 2, 4), ("events".into(), 1, 30)]);
    assert_eq!(events(&to).len(), 10);
}

#[test]
fn a_damaged_file_of_events_is_named_and_keeps_no_other_from_going() {
    let (spool, to) = (Spool::new(1), Folder::new());
    let damaged = spool.record(1, 3000);
    spool.record(2, 10);
    spool.finish(2, 5);
    let mut bytes = fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let (good, said) = ended(&mut with_events(ship(spool.path(), &to.address()), "64"));
    assert!(!good && said.contains(damaged.to_str().unwrap()), "{said}");
    assert_eq!(events(&to).len(), 10);
    assert!(given_up(&to).is_empty(), "it is still there");
}

/// 50 in each of so many files.
fn assert_each_is_there_once(mut found: Vec<(u64, u64)>, files: u32) {
    let all = found.len();
    found.dedup();
    assert_eq!((found.len(), all), (50 * files as usize, 50 * files as usize));
}

#[test]
fn no_event_is_lost_or_doubled_in_a_bucket_over_kills() {
    let Some(mut server) = Server::start() else { return };
    let spool = Spool::new(1);
    (1..=kills()).for_each(|number| drop(spool.record(number, 50)));
    let ship = || {
        let mut command = ship_to(server.port, &spool, "s3://tables");
        command.args(["--events-mib", "64"]);
        command
    };
    kill_often(&spool, ship, kills());
    let (good, said) = ended(ship().arg("--once"));
    assert!(good, "{said}");
    let to = server.objects();
    assert_each_is_there_once(events(&to), kills());
    assert!(given_up(&to).is_empty());
}

#[test]
fn nor_where_names_are_checked_whatever_the_way_does() {
    needs!("curl");
    let Some(gateway) = Gateway::start(&["web"]) else { return };
    gateway.set_policy(&policy_of(&["web"]));
    let way = Troubled::before(gateway.port, |n| match n % 20 {
        4 => Trouble::AnswerCut,
        9 => Trouble::RequestCut,
        14 => Trouble::Slower,
        _ => Trouble::None,
    });
    let spool = Spool::new(1);
    (1..=kills()).for_each(|number| drop(spool.record(number, 50)));
    let ship = || {
        let mut command = gateway.ship_by(&way, "web", "web", &spool, "s3://tables/fleet");
        command.args(["--events-mib", "64"]);
        command
    };
    kill_often(&spool, ship, kills());
    let (good, said) = ended(ship().arg("--once"));
    assert!(good, "{said}");
    let mut objects = gateway.objects();
    objects.retain(|name| name.contains("/events/"));
    let found = events_of(objects.iter().map(|name| gateway.bucket().join(name)));
    assert_each_is_there_once(found, kills());
}

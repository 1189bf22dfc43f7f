//! The jobs that merge landed objects and register them as Iceberg tables: whoever asks merged
//! objects gets the answers of the landed ones, whatever happens to the jobs.

mod answers;
#[path = "../questions/environment.rs"]
mod environment;
#[allow(dead_code, reason = "what the fleet must answer is the matter of the questions' tests")]
#[path = "../questions/generated.rs"]
mod generated;
#[path = "../questions/objects.rs"]
mod objects;
mod server;

use std::fs;
use std::path::{Path, PathBuf};

use answers::{answers, assert_alike, some};
use generated::{Fleet, Wrong};
use server::Server;

const FULL: u64 = 5;
const HOSTS: u64 = 12;
const MERGE: [&str; 4] = ["--from", "s3://tables/fleet", "--to", "s3://tables/merged"];
/// Both hours of the fleet have ended long ago.
const LATER: [&str; 2] = ["--now", "2026-11-24T14:30"];
/// MB: some objects for each hour.
const SMALL: [&str; 2] = ["--largest", "0.05"];

struct Folder(tempfile::TempDir);

impl Folder {
    /// With the objects of a fleet in `landed`.
    fn with_a_fleet() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let wrong = Wrong {
            losing_prefix: Some(17),
            full_receiver: Some(FULL),
            change: true,
            poor_agent: Some(3),
            ..Wrong::default()
        };
        let fleet = Fleet {
            seed: 1,
            hosts: HOSTS,
            hours: 2,
            connections: 400,
            prefixes: 40,
            pairs: 9,
            wrong,
        };
        objects::write_all(&fleet, &folder.at("landed")).unwrap();
        folder
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn parquet_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(parquet_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Moves the objects of one host out of the way: it ships them late.
fn hold_back(landed: &Path, to: &Path) {
    for path in parquet_files(landed) {
        if path.file_name().unwrap().to_str().unwrap().starts_with(&generated::host_name(4)) {
            let late = to.join(path.strip_prefix(landed).unwrap());
            fs::create_dir_all(late.parent().unwrap()).unwrap();
            fs::rename(path, late).unwrap();
        }
    }
}

fn words<'a>(parts: &[&[&'a str]]) -> Vec<&'a str> {
    parts.concat()
}

fn succeed(server: &Server, job: &str, words: &[&str]) -> String {
    let output = server.run(job, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn merged_objects_and_the_iceberg_tables_answer_like_the_landed_ones_after_kills() {
    let Some(mut server) = Server::start() else { return };
    let folder = Folder::with_a_fleet();
    let told = answers(&server.duckdb, &folder.at("landed"));
    hold_back(&folder.at("landed"), &folder.at("late"));
    let landed = server.put(&folder.at("landed"), "fleet");
    let merge = words(&[&MERGE, &LATER, &SMALL]);
    assert!(server.run_killed("compact.py", &merge) >= 3);
    let catalog = folder.at("catalog.sqlite");
    let register = ["--of", "s3://tables/merged", "--catalog", catalog.to_str().unwrap()];
    assert!(server.run_killed("iceberg.py", &register) >= 3);

    // What comes late to an hour goes into an object of its own, and nothing else happens.
    server.put(&folder.at("late"), "fleet");
    assert_eq!(succeed(&server, "compact.py", &merge).lines().count(), 7, "tables and hours");
    assert_eq!(succeed(&server, "iceberg.py", &register).lines().count(), 4, "tables");
    assert_eq!(succeed(&server, "compact.py", &merge), "");
    assert_eq!(succeed(&server, "iceberg.py", &register), "");

    server.get("merged", &folder.at("merged"));
    let merged = parquet_files(&folder.at("merged")).len();
    assert!(merged < landed, "{merged} of {landed}");
    assert_alike(&told, &answers(&server.duckdb, &folder.at("merged")));
    for table in ["connections", "agent", "hosts", "events"] {
        for key in server.snapshot(&catalog, table, "merged") {
            let file = folder.at("snapshot").join(&key);
            assert!(!file.exists(), "{key} is registered twice");
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::copy(folder.at("merged").join(&key), file).unwrap();
        }
    }
    assert_alike(&told, &answers(&server.duckdb, &folder.at("snapshot")));
}

#[test]
fn two_jobs_at_once_merge_each_object_once_and_remove_only_what_is_merged() {
    let Some(mut server) = Server::start() else { return };
    let folder = Folder::with_a_fleet();
    let told = some(&server.duckdb, &folder.at("landed"), ["verdict_shares", "agents"]);
    let landed = server.put(&folder.at("landed"), "fleet");

    // The newest two hours stay as they are: of both hours only the first has ended.
    let early = succeed(&server, "compact.py", &words(&[&MERGE, &["--now", "2026-11-23T14:30"]]));
    assert!(early.contains("/hour=12/") && !early.contains("/hour=13/"), "{early}");

    let merge = words(&[&MERGE, &LATER, &SMALL, &["--remove-after", "1"]]);
    // Of unlike sizes, so that an object written over another would be missed.
    let unlike = words(&[&MERGE, &LATER, &["--remove-after", "1"]]);
    let both = [&merge, &unlike].map(|words| server.begin("compact.py", words));
    for job in both {
        let output = job.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    server.get("merged", &folder.at("merged"));
    assert_alike(&told, &some(&server.duckdb, &folder.at("merged"), ["verdict_shares", "agents"]));
    assert_eq!(server.get("fleet", &folder.at("left")), 0, "both hours are a day old");

    // A shipper that lost its record sends all again.
    assert_eq!(server.put(&folder.at("landed"), "fleet"), landed);
    assert_eq!(succeed(&server, "compact.py", &merge), "");
}

#[test]
fn a_damaged_object_is_named_and_stays_while_the_others_are_merged() {
    let Some(mut server) = Server::start() else { return };
    let folder = Folder::with_a_fleet();
    let damaged = parquet_files(&folder.at("landed")).remove(0);
    fs::write(&damaged, "PAR1").unwrap();
    let landed = server.put(&folder.at("landed"), "fleet");
    let merge = words(&[&MERGE, &LATER, &["--remove-after", "0"]]);
    let output = server.run("compact.py", &merge);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains(damaged.file_name().unwrap().to_str().unwrap()), "{said}");
    assert!(said.contains("1 objects could not be merged"), "{said}");
    assert_eq!(server.get("fleet", &folder.at("left")), 1, "of {landed}");
}

#[test]
fn places_that_cannot_be_are_refused_by_name() {
    let Some(server) = Server::start() else { return };
    let refused = |from: &str, to: &str| {
        let output = server.run("compact.py", &["--from", from, "--to", to]);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused("s3://tables/a", "s3://tables/a/").contains("one place"));
    assert!(refused("tables/a", "s3://tables/b").contains("'tables/a' is no s3://BUCKET/PREFIX"));
    let lacking = refused("s3://nowhere/a", "s3://tables/b");
    assert!(lacking.contains("NoSuchBucket") && !lacking.contains("Traceback"), "{lacking}");
}

//! `transom-fleet ask` itself, as somebody uses it with DuckDB's command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use transom_fleet::questions::Engine;

use crate::engines::ask_over_s3;
use crate::generated::{HOUR_US, NOON, Wrong, prefix_name};
use crate::{FULL, LOSING, environment, fleet, objects, wrong};

const SECOND_HOUR: [&str; 4] = ["--since", "2026-11-23T13:00", "--until", "2026-11-23T14:00"];
const ALL_HOURS: [&str; 4] = ["--since", "2026-11-23T10:00", "--until", "2026-11-23T14:00"];

/// A home with DuckDB's extension for S3, as `INSTALL httpfs` leaves it.
struct Home(tempfile::TempDir);

impl Home {
    fn of(python: &Path) -> Home {
        let home = tempfile::tempdir().unwrap();
        let environment = python.parent().unwrap().parent().unwrap();
        let library = fs::read_dir(environment.join("lib")).unwrap().next().unwrap().unwrap();
        let package = "site-packages/duckdb_extension_httpfs/extensions/v1.5.5";
        let platform = if cfg!(target_arch = "x86_64") { "linux_amd64" } else { "linux_arm64" };
        let to = home.path().join(".duckdb/extensions/v1.5.5").join(platform);
        fs::create_dir_all(&to).unwrap();
        let name = "httpfs.duckdb_extension";
        symlink(library.path().join(package).join(name), to.join(name)).unwrap();
        Home(home)
    }
}

pub struct Asker {
    pub duckdb: PathBuf,
    home: Home,
}

impl Asker {
    /// `None` where DuckDB cannot be had.
    pub fn new() -> Option<(PathBuf, Asker)> {
        let python = environment::engines()?;
        let duckdb = python.with_file_name("duckdb");
        let home = Home::of(&python);
        Some((python, Asker { duckdb, home }))
    }

    /// `ask` with these words.
    fn command(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = self.program("ask");
        command.args(words);
        command
    }

    /// A command of the program, with nothing of this machine's settings.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transom-fleet"));
        command
            .arg(name)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "Asia/Tokyo")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("HOME", self.home.0.path())
            .env("TRANSOM_DUCKDB", &self.duckdb);
        command
    }
}

/// Standard output, or standard error where it failed.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn rows(command: &mut Command) -> Vec<BTreeMap<String, Value>> {
    serde_json::from_str(&said(command.arg("--json")).unwrap()).unwrap()
}

#[test]
fn a_folder_is_asked_and_names_what_is_wrong_and_nothing_where_nothing_is() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 1500, wrong()), &folder.path().join("wrong")).unwrap();
    objects::write_all(&fleet(2, 1500, Wrong::default()), &folder.path().join("calm")).unwrap();
    let ask = |name: &str, question: &str| {
        let from = format!("file://{}/{name}", folder.path().display());
        asker.command([question, "--from", &from].into_iter().chain(ALL_HOURS))
    };
    let losing = rows(&mut ask("wrong", "losing_prefixes"));
    assert_eq!(losing.len(), 1);
    assert_eq!(losing[0]["prefix"], prefix_name(LOSING).as_str());
    assert!(losing[0]["share"].is_f64() && losing[0]["ended"].is_u64());
    assert!(rows(&mut ask("calm", "losing_prefixes")).is_empty());
    assert_eq!(said(&mut ask("calm", "losing_prefixes")).unwrap(), "none\n");
    let agents = rows(&mut ask("wrong", "agents"));
    assert_eq!(agents[0]["rows_lost"], 14, "sums are numbers");
    let shares = said(&mut ask("wrong", "verdict_shares")).unwrap();
    let lines: Vec<&str> = shares.lines().collect();
    assert!(lines[0].starts_with("hour_us") && lines[1].starts_with("2026-11-23T12:00:00Z"));
    let widths: Vec<usize> = lines.iter().map(|line| line.len()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "columns stand below each other");
}

#[test]
fn machines_are_those_of_the_newest_row_before_the_end_even_if_that_is_of_the_day_before() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(3, 300, Wrong::default()), folder.path()).unwrap();
    let from = format!("file://{}", folder.path().display());
    let ask = |since: &str, until: &str, by: &str| {
        let words = ["by_machine", "--from", &from, "--since", since, "--until", until, by];
        asker.command(words.map(str::to_owned))
    };
    let machines = |since, until, by| {
        let rows = rows(&mut ask(since, until, by));
        rows.iter().map(|row| row["machines"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let day = |hour: &str| format!("2026-11-23T{hour}:00");
    let [noon, one, two, three] = ["12", "13", "14", "15"].map(day);
    assert_eq!(machines(&noon, &one, "by=role"), set(&["core", "old", "unknown"]));
    assert_eq!(machines(&noon, &two, "by=role"), set(&["core", "edge", "unknown"]));
    assert_eq!(machines(&two, &three, "by=role"), set(&["core", "edge", "unknown"]));
    assert_eq!(machines(&two, &three, "by=kernel"), set(&["6.1.158", "6.12.48"]));
    assert_eq!(machines(&two, &three, "by=congestion_control"), set(&["bbr", "cubic"]));
    assert_eq!(machines(&two, &three, "by=nothing"), set(&["unknown"]));
    fs::remove_dir_all(folder.path().join("hosts")).unwrap();
    let refused = said(&mut ask(&two, &three, "by=role")).unwrap_err();
    assert!(refused.contains("lacks one of the tables connections, hosts"), "{refused}");
}

#[test]
fn a_bucket_is_asked_with_the_keys_of_whoever_asks() {
    let Some((python, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 1500, wrong()), &folder.path().join("fleet/a")).unwrap();
    ask_over_s3(&python, &[("tables", folder.path())], |port| {
        let ask = |time: [&str; 4]| {
            let words = ["slow_connections", "--from", "s3://tables/fleet/a"];
            let customer = format!("customer={}", prefix_name(FULL));
            let words = words.into_iter().chain(time).map(str::to_owned);
            let mut command = asker.command(words.chain([customer]));
            command
                .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}"))
                .env("AWS_ALLOW_HTTP", "true");
            command
        };
        let with_keys = |command: &mut Command| {
            command.env("AWS_ACCESS_KEY_ID", "testing").env("AWS_SECRET_ACCESS_KEY", "o'testing");
        };
        let mut command = ask(SECOND_HOUR);
        with_keys(&mut command);
        let found = rows(&mut command);
        let of_receiver = |row: &&BTreeMap<_, _>| row["verdict"] == "receiver_window";
        assert!(found.iter().filter(of_receiver).count() > 10, "{found:?}");
        let begun = |row: &BTreeMap<String, Value>| row["at_us"].as_i64().unwrap() - NOON;
        assert!(found.iter().all(|row| (HOUR_US..2 * HOUR_US).contains(&begun(row))));
        let refused = said(&mut ask(SECOND_HOUR)).unwrap_err();
        assert!(refused.contains("no keys") && refused.contains("AWS_ACCESS_KEY_ID"), "{refused}");
        let mut gone = ask(["--since", "2026-11-23T10:00", "--until", "2026-11-23T11:00"]);
        with_keys(&mut gone);
        let refused = said(&mut gone).unwrap_err();
        assert!(refused.contains("has nothing of 2026-11-23T10:00:00Z to"), "{refused}");
        BTreeMap::new()
    });
}

#[test]
fn a_statement_is_printed_for_whoever_has_another_engine() {
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 10, Wrong::default()), folder.path()).unwrap();
    let from = format!("file://{}", folder.path().display());
    let home = Home(tempfile::tempdir().unwrap());
    let asker = Asker { duckdb: "/nonexistent".into(), home };
    let words = |more: &[&str]| {
        let of = ["verdict_shares", "--from", &from].into_iter().chain(ALL_HOURS);
        said(&mut asker.command(of.chain(more.iter().copied())))
    };
    for (name, sign) in
        [("duckdb", "read_parquet"), ("clickhouse", "file("), ("spark", "parquet.`")]
    {
        let statement = words(&["--print", name]).unwrap();
        assert!(statement.starts_with("WITH ") && statement.contains(sign), "{statement}");
        // The hour before is not there, and no engine is sent to it.
        assert!(statement.contains("hour=12") && !statement.contains("hour=11"), "{statement}");
    }
    assert_eq!(Engine::ALL.len(), 3);
    let lacking = words(&[]).unwrap_err();
    assert!(
        lacking.contains("no program `/nonexistent`") && lacking.contains("--print"),
        "{lacking}"
    );
}

#[test]
fn what_is_no_question_is_refused_by_its_name() {
    let home = Home(tempfile::tempdir().unwrap());
    let asker = Asker { duckdb: "/nonexistent".into(), home };
    let refused = |words: &[&str]| said(&mut asker.command(words)).unwrap_err();
    let at = ["--from", "file:///nonexistent"];
    assert!(refused(&["speed", at[0], at[1]]).contains("no question 'speed': slow_connections,"));
    assert!(refused(&["slow_connections", at[0], at[1]]).contains("needs 'customer'"));
    assert!(refused(&["agents", "x", at[0], at[1]]).contains("'x' is no NAME=VALUE"));
    assert!(refused(&["agents", "x=1", at[0], at[1]]).contains("no parameter 'x': it has none"));
    let misspelt = refused(&["slow_connections", "costumer=192.0.2.7", at[0], at[1]]);
    assert!(misspelt.contains("'costumer': customer, rows"), "{misspelt}");
    assert!(refused(&["agents", at[0], at[1]]).contains("/nonexistent"));
    assert!(refused(&["agents"]).contains("--from"));
    let listed = said(&mut asker.command([] as [&str; 0])).unwrap();
    assert!(listed.contains("losing_prefixes    Which prefixes lose more"), "{listed}");
    let about = said(&mut asker.command(["slow_connections", "--about"])).unwrap();
    assert!(about.contains("customer=…") && about.contains("rows=20"), "{about}");
}

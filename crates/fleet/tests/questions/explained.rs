//! `transom-fleet explain`: whose matter it is, in fleets of which that is known.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use transom_fleet::explain::judge::{Answer, Row, judge};
use transom_spool::{Chosen, RowKind};
use transom_testbed::write_script;

use crate::asked::{Asker, said};
use crate::generated::{Fleet, HOUR_US, NOON, Truth, Wrong, host_name, prefix_name};
use crate::{BETWEEN_HOSTS, FULL, LOSING, fleet, objects};

const SECOND_HOUR: [&str; 4] = ["--since", "2026-11-23T13:00", "--until", "2026-11-23T14:00"];

/// What is said of a customer of this fleet in its second hour.
fn explained(asker: &Asker, wrong: Wrong, customer: u64, json: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    objects::write_all(&fleet(2, 1500, wrong), folder.path()).unwrap();
    let mut command = asker.program("explain");
    let from = format!("file://{}", folder.path().display());
    command.args(["--customer", &prefix_name(customer), "--from", &from]).args(SECOND_HOUR);
    if json {
        command.arg("--json");
    }
    said(&mut command).unwrap()
}

fn told(asker: &Asker, wrong: Wrong, customer: u64) -> Value {
    serde_json::from_str(&explained(asker, wrong, customer, true)).unwrap()
}

#[test]
fn it_says_them_their_network_or_us_as_it_was_made_and_nobody_where_nothing_is_wrong() {
    let Some((_, asker)) = Asker::new() else { return };
    let receiver = || Wrong { full_receiver: Some(FULL), ..Wrong::default() };
    let losing = || Wrong { losing_prefix: Some(LOSING), ..Wrong::default() };
    let them = told(&asker, receiver(), FULL);
    assert_eq!(them["verdict"], "them", "{them:#}");
    let slowest = them["slowest"].as_array().unwrap();
    assert!(slowest.len() == 5 && slowest.iter().all(|row| row["verdict"] == "receiver_window"));
    let network = told(&asker, losing(), LOSING);
    assert_eq!(network["verdict"], "network", "{network:#}");
    assert_eq!(network["findings"].as_array().unwrap().len(), 1, "{network:#}");
    let us = told(&asker, Wrong { losing_host: Some(7), ..Wrong::default() }, FULL);
    assert_eq!(us["verdict"], "us", "{us:#}");
    assert_eq!(us["findings"][0]["hosts"], serde_json::json!([host_name(7)]));
    // Nothing is wrong; or it is with somebody else.
    for (wrong, customer) in
        [(Wrong::default(), FULL), (Wrong::default(), LOSING), (losing(), FULL)]
    {
        let nobody = told(&asker, wrong, customer);
        assert_eq!(nobody["verdict"], "nobody", "{nobody:#}");
    }
    let shuffled = Wrong { shuffled: true, ..losing() };
    assert_eq!(told(&asker, shuffled, LOSING)["verdict"], "nobody");
}

#[test]
fn a_slow_connection_between_hosts_of_the_fleet_has_what_its_other_end_says() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let wrong = Wrong { losing_pairs: true, ..Wrong::default() };
    let truth = objects::write_all(&fleet(2, 300, wrong), folder.path()).unwrap();
    let from = format!("file://{}", folder.path().display());
    let explain = |customer: &str, more: &[&str]| {
        let mut command = asker.program("explain");
        command.args(["--customer", customer, "--from", &from]).args(SECOND_HOUR).args(more);
        said(&mut command).unwrap()
    };
    let told: Value = serde_json::from_str(&explain(BETWEEN_HOSTS, &["--json"])).unwrap();
    let slowest = told["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 5, "{told:#}");
    for row in slowest {
        let number = |value: &Value| value.as_u64().unwrap();
        let end = &row["other_end"];
        let found =
            (number(&row["cookie"]), number(&end["cookie_there"]), number(&end["lost_on_the_way"]));
        assert!(truth.pairs.contains(&found), "{row:#}");
        assert_eq!(end["verdict_there"], "other_side");
        assert_ne!(end["there"], row["host"]);
    }
    let text = explain(BETWEEN_HOSTS, &[]);
    println!("{text}");
    assert!(text.contains("the other end is a host of the fleet, too:"), "{text}");
    // A customer that is no host has none.
    let told: Value = serde_json::from_str(&explain(&prefix_name(FULL), &["--json"])).unwrap();
    let slowest = told["slowest"].as_array().unwrap();
    assert!(slowest.len() == 5 && slowest.iter().all(|row| row["other_end"].is_null()));
    assert!(!explain(&prefix_name(FULL), &[]).contains("the other end"));
}

/// A program that notes in `starts` that it was started, and is DuckDB.
fn counted_duckdb(asker: &Asker, folder: &Path) -> PathBuf {
    let program = folder.join("duckdb");
    let (starts, duckdb) = (folder.join("starts"), asker.duckdb.display());
    let script = format!("#!/bin/sh\necho >>'{}'\nexec '{duckdb}' \"$@\"\n", starts.display());
    write_script(&program, &script);
    program
}

#[test]
fn which_slow_connections_have_events_in_the_tables_is_asked_for_all_of_them_at_once() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (tables, losing) = (folder.path().join("tables"), prefix_name(LOSING));
    let wrong = Wrong { losing_prefix: Some(LOSING), ..Wrong::default() };
    let mut rows = fleet(1, 1500, wrong).counted(0, 0, &mut Truth::default());
    let is_even = |cookie: &u64| cookie.is_multiple_of(2);
    for row in &mut rows {
        row.chosen = Chosen::Timeouts;
        // These began before the time asked: more of the events are looked through.
        row.duration_us =
            row.duration_us.map(|us| us + 2 * HOUR_US as u64 * ((row.cookie + 1) % 2));
    }
    let of_customer = rows.iter().filter(|row| row.remote_prefix.as_deref() == Some(&losing));
    let (recorded, earlier): (Vec<u64>, Vec<u64>) =
        of_customer.map(|row| row.cookie).partition(is_even);
    objects::put_events(&tables, 0, (0, 1), NOON, &recorded).unwrap();
    // Of others that had the cookie before the time asked and these began.
    objects::put_events(&tables, 0, (0, 3), NOON - 60_000_000, &earlier).unwrap();
    objects::put(&tables, "decisions", 0, (0, 1), objects::decisions(&rows)).unwrap();
    objects::put(&tables, "connections", 0, (0, 1), rows).unwrap();
    let mut command = asker.program("explain");
    command
        .args(["--customer", &losing, "--from", &format!("file://{}", tables.display()), "--json"])
        .args(["--since", "2026-11-23T12:00", "--until", "2026-11-23T13:00"])
        .args(["--drill", "tcp/127.0.0.1:1"])
        .env("TRANSOM_DUCKDB", counted_duckdb(&asker, folder.path()));
    let told: Value = serde_json::from_str(&said(&mut command).unwrap()).unwrap();
    let slowest = told["slowest"].as_array().unwrap();
    let mut found = 0;
    for row in slowest {
        let cookie = row["cookie"].as_u64().unwrap();
        let command = row["drill"]["events"].as_str();
        assert_eq!(command.is_some(), is_even(&cookie), "{row:#}");
        assert!(command.is_none_or(|command| command.contains(&format!("cookie={cookie} "))));
        found += usize::from(command.is_some());
    }
    assert!(slowest.len() == 5 && (1..5).contains(&found), "some of them have: {slowest:#?}");
    // Shares, the slowest, their other ends, their decisions, and their events.
    assert_eq!(fs::read_to_string(folder.path().join("starts")).unwrap().lines().count(), 5);
}

#[test]
fn in_words_it_says_what_it_rests_on() {
    let Some((_, asker)) = Asker::new() else { return };
    let wrong = Wrong { full_receiver: Some(FULL), ..Wrong::default() };
    let text = explained(&asker, wrong, FULL, false);
    println!("{text}");
    assert!(text.starts_with("198.18.5.0/24, 2026-11-23T13:00:00Z to 2026-11-23T14:00:00Z: "));
    assert!(text.contains("Them. ") && text.contains("at the same hosts."), "{text}");
    assert!(text.contains("others elsewhere") && text.contains("The slowest:"), "{text}");
}

#[test]
fn a_customer_with_few_connections_is_not_judged() {
    let Some((_, asker)) = Asker::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let few = Fleet { hosts: 2, ..fleet(2, 20, Wrong::default()) };
    objects::write_all(&few, folder.path()).unwrap();
    let from = format!("file://{}", folder.path().display());
    let ask = |customer: &str| {
        let mut command = asker.program("explain");
        said(command.args(["--from", &from, "--customer", customer]).args(SECOND_HOUR))
    };
    let text = ask("203.0.113.9").unwrap();
    assert!(text.contains("Cannot tell: the customer has 0 connections"), "{text}");
    assert!(ask("example.org").unwrap_err().contains("'example.org' is no address"));
}

/// What `beside_others` answers for each customer of the fleet's second hour, without an engine.
fn customers(fleet: &Fleet) -> Vec<Vec<Row>> {
    let mut connections = Vec::new();
    for host in 0..fleet.hosts {
        let rows = fleet.counted(host, 1, &mut Truth::default());
        let ended = rows.into_iter().filter(|row| row.kind != RowKind::Interim);
        connections.extend(ended.map(|row| (host_name(host), row)));
    }
    let rows = |customer: String| {
        let of = |(host, row): &(String, transom_spool::Connection)| Row {
            host: host.clone(),
            is_customer: row.remote_prefix.as_deref() == Some(&customer),
            verdict: row.verdict.name().into(),
            ended: 1.0,
            held_back_us: 1.0,
        };
        connections.iter().map(of).collect()
    };
    (0..fleet.prefixes).map(prefix_name).map(rows).collect()
}

/// `TRANSOM_SEEDS=50` for the numbers of docs/questions.md.
#[test]
fn of_customers_with_whom_nothing_is_wrong_hardly_any_is_named() {
    let seeds = std::env::var("TRANSOM_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    let (mut judged, mut named) = (0, 0);
    for seed in 0..seeds {
        for rows in customers(&Fleet { seed, ..fleet(2, 1500, Wrong::default()) }) {
            match judge(&rows) {
                Answer::CannotTell(_) => {}
                Answer::Nobody => judged += 1,
                Answer::Found(found) => {
                    println!("seed {seed}: {found:?}");
                    (judged, named) = (judged + 1, named + 1);
                }
            }
        }
    }
    println!("{named} of {judged} named");
    assert!(judged > 50 * seeds && named <= judged / 100, "{named} of {judged} named");
}

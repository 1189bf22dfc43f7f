//! Ready questions. One text each, in the SQL that DuckDB, ClickHouse and Spark share; what differs
//! between them is how objects are read, and that stands before the text. It also names the hours
//! that are read, so that no engine has to find out.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use transom_spool::{AgentRow, Column, Connection, Decision, HostRow, Kind, Row, Time};

use transom_trace::{Holds, holds};

use crate::events;

mod engine;
mod value;

pub use engine::{Engine, OBJECT};
pub use value::{ParameterKind, Value, customer};

/// One question: what its file's header says, and its text.
#[derive(Clone, Debug)]
pub struct Question {
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    pub tables: Vec<&'static str>,
    pub parameters: Vec<Parameter>,
    /// Name and meaning.
    pub columns: Vec<(&'static str, &'static str)>,
    /// From `WITH` on.
    pub text: &'static str,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: ParameterKind,
    pub default: Option<&'static str>,
    pub meaning: &'static str,
}

/// Which objects a question is about.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What the tables' folders lie in, as the engine is to be told: a folder, `s3://…`, `https://…`.
    pub from: String,
    pub begin: Time,
    /// Up to but without.
    pub end: Time,
    /// Of each table the folders `date=…/hour=…` that are there: see [`Question::hours`]. To DuckDB
    /// also objects in them, where others are to be left out.
    pub hours: BTreeMap<&'static str, Vec<String>>,
}

macro_rules! questions {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../queries/", $name, ".sql")))),*]
    };
}

const FILES: &[(&str, &str)] = questions![
    "slow_connections",
    "decisions_of",
    "events_of",
    "recorded",
    "beside_others",
    "over_time",
    "verdict_shares",
    "losing_prefixes",
    "both_ends",
    "other_end",
    "change",
    "by_window",
    "by_machine",
    "agents",
    "hosts"
];

pub fn all() -> Vec<Question> {
    FILES.iter().map(|(name, file)| Question::parse(name, file)).collect()
}

/// # Errors
/// There is no such question.
pub fn named(name: &str) -> Result<Question> {
    let found = all().into_iter().find(|question| question.name == name);
    found.with_context(|| {
        let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        format!("no question '{name}': {}", names.join(", "))
    })
}

impl Question {
    fn parse(name: &'static str, file: &'static str) -> Question {
        let begin = file.find("\nWITH ").map_or(file.len(), |at| at + 1);
        let (header, text) = file.split_at(begin);
        let lines = || header.lines().filter_map(|line| line.strip_prefix("-- ")?.split_once(": "));
        let of = |key: &'static str| lines().filter(move |(k, _)| *k == key).map(|(_, rest)| rest);
        Question {
            name,
            title: of("question").next().unwrap_or_default(),
            tables: of("table").collect(),
            parameters: of("parameter").filter_map(Parameter::parse).collect(),
            columns: of("column").filter_map(|rest| rest.split_once(": ")).collect(),
            text,
        }
    }

    /// The folders of its tables that may have rows of a time.
    pub fn hours(&self, begin: Time, end: Time) -> BTreeMap<&'static str, Vec<String>> {
        let of = |table: &&'static str| (*table, engine::hours(table, begin, end));
        self.tables.iter().map(of).collect()
    }

    /// The statement for one engine, ready to run.
    ///
    /// # Errors
    /// A parameter is missing, unknown, or not of its kind.
    pub fn statement(
        &self,
        engine: Engine,
        asked: &Asked,
        given: &BTreeMap<String, String>,
    ) -> Result<String> {
        ensure!(asked.begin < asked.end, "the time ends before it begins");
        for name in given.keys() {
            ensure!(
                self.parameters.iter().any(|parameter| parameter.name == name),
                "question {} has no parameter '{name}': {}",
                self.name,
                self.names()
            );
        }
        let mut statement = String::from("WITH ");
        for table in &self.tables {
            let columns = columns_of(table)?;
            writeln!(statement, "{table} AS ({}),", engine.table(table, &columns, asked)?)?;
        }
        let body = self.text.strip_prefix("WITH ").context("a question begins with WITH")?;
        statement.push_str(&self.filled(body, given)?);
        Ok(statement)
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name).collect();
        if names.is_empty() { "it has none".to_owned() } else { names.join(", ") }
    }

    fn filled(&self, body: &str, given: &BTreeMap<String, String>) -> Result<String> {
        let mut filled = String::new();
        let mut rest = body;
        while let Some(at) = rest.find('$') {
            filled.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
            filled.push_str(&self.literal(name, given)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn literal(&self, name: &str, given: &BTreeMap<String, String>) -> Result<String> {
        let Some(parameter) = self.parameters.iter().find(|parameter| parameter.name == name)
        else {
            bail!("question {} uses a parameter '{name}' that its header lacks", self.name);
        };
        let text = given.get(name).map(String::as_str).or(parameter.default);
        let text = text.with_context(|| {
            format!("question {} needs '{name}': {}", self.name, parameter.meaning)
        })?;
        let value = parameter.kind.value(text).with_context(|| format!("parameter '{name}'"))?;
        Ok(value.literal())
    }
}

impl Parameter {
    /// `NAME KIND [= DEFAULT]: MEANING`.
    fn parse(line: &'static str) -> Option<Parameter> {
        let (what, meaning) = line.split_once(": ")?;
        let (what, default) = match what.split_once(" = ") {
            Some((what, default)) => (what, Some(default)),
            None => (what, None),
        };
        let (name, kind) = what.split_once(' ')?;
        Some(Parameter { name, kind: ParameterKind::named(kind)?, default, meaning })
    }
}

/// The columns of a table in object storage: the agent's, after host and boot.
fn columns_of(table: &str) -> Result<Vec<(String, Kind)>> {
    fn of<T: Row>() -> Vec<(String, Kind)> {
        let own = T::columns().iter().map(|Column { name, kind, .. }| ((*name).to_owned(), *kind));
        // The agent's own table has a boot already.
        let has = |name: &str| T::columns().iter().any(|column| column.name == name);
        shipped().filter(|(name, _)| !has(name)).chain(own).collect()
    }
    Ok(match table {
        "connections" => of::<Connection>(),
        "decisions" => of::<Decision>(),
        "agent" => of::<AgentRow>(),
        "hosts" => of::<HostRow>(),
        events::NAME => shipped().chain(of_events()).collect(),
        _ => bail!("no table '{table}'"),
    })
}

fn shipped() -> impl Iterator<Item = (String, Kind)> {
    ["host", "boot"].into_iter().map(|name| (name.to_owned(), Kind::Text))
}

/// Those that have one value, which all engines read alike.
fn of_events() -> impl Iterator<Item = (String, Kind)> {
    holds().into_iter().filter_map(|(name, holds)| {
        let kind = match holds {
            Holds::Integer => Kind::Integer,
            Holds::Time => Kind::Time,
            Holds::Text => Kind::Text,
            Holds::Flag | Holds::List => return None,
        };
        Some((name, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(question: &Question) -> Asked {
        let begin = Time(1_795_435_200_000_000 + 3 * 60_000_000);
        let end = Time(begin.0 + 300_000_000);
        Asked { from: "s3://b".into(), begin, end, hours: question.hours(begin, end) }
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_file_says_what_it_asks_and_what_it_answers() {
        for question in all() {
            assert!(question.title.ends_with('?'), "{}", question.name);
            assert!(!question.tables.is_empty() && !question.columns.is_empty());
            for parameter in &question.parameters {
                assert!(question.text.contains(&format!("${}", parameter.name)));
            }
        }
    }

    #[test]
    fn all_engines_get_one_text() {
        let question = named("slow_connections").unwrap();
        let given = given(&[("customer", "198.18.7.0/24")]);
        let texts: Vec<String> = Engine::ALL
            .iter()
            .map(|engine| question.statement(*engine, &asked(&question), &given).unwrap())
            .map(|text| text[text.find("customers AS").unwrap()..].to_owned())
            .collect();
        assert!(texts.iter().all(|text| *text == texts[0]));
        assert!(texts[0].contains("remote_prefix = '198.18.7.0/24'"));
    }

    #[test]
    fn a_parameter_is_asked_for_and_a_foreign_one_refused() {
        let question = named("slow_connections").unwrap();
        let error = |pairs| {
            let tried = question.statement(Engine::DuckDb, &asked(&question), &given(pairs));
            format!("{:#}", tried.unwrap_err())
        };
        assert!(error(&[]).contains("needs 'customer'"));
        assert!(error(&[("customer", "x"), ("colour", "red")]).contains("no parameter 'colour'"));
        assert!(error(&[("customer", "x\\' OR 1=1")]).contains("is no address"));
    }
}

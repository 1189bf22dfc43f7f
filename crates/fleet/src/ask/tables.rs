//! The tables of a time: which hours are there, and what an engine says of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use futures_util::StreamExt;
use object_store::path::Path;
use tokio::runtime::Runtime;
use transom_spool::Time;

use super::duckdb::{self, Answer};
use super::time;
use crate::bucket::{self, Bucket, Retries};
use crate::questions::{Asked, Engine, Question};

pub struct Tables<'a> {
    from: &'a str,
    pub begin: Time,
    /// Up to but without.
    pub end: Time,
    runtime: Runtime,
}

impl<'a> Tables<'a> {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn of(from: &'a str, (begin, end): (Time, Time)) -> Result<Tables<'a>> {
        Ok(Tables { from, begin, end, runtime: bucket::runtime()? })
    }

    /// The same tables from this time on, where that is earlier.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn reaching_back_to(&self, begin: Time) -> Result<Tables<'a>> {
        Tables::of(self.from, (begin.min(self.begin), self.end))
    }

    /// The same tables of another time.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn between(&self, begin: Time, end: Time) -> Result<Tables<'a>> {
        Tables::of(self.from, (begin, end))
    }

    /// The words by which `ask` asks them this.
    pub fn words(&self, question: &str, given: &BTreeMap<String, String>) -> Vec<String> {
        let given = given.iter().map(|(name, value)| format!("{name}={value}"));
        // Whole seconds, without less than was asked.
        let [since, until] = [self.begin, Time(self.end.0 + 999_999)].map(time::utc);
        let options =
            ["--from", self.from, "--since", &since, "--until", &until].map(str::to_owned);
        ["ask", question].map(str::to_owned).into_iter().chain(given).chain(options).collect()
    }

    /// # Errors
    /// A parameter is wrong, the place cannot be read, or has nothing of that time.
    pub fn statement(
        &self,
        engine: Engine,
        question: &Question,
        given: &BTreeMap<String, String>,
    ) -> Result<String> {
        self.statement_if_any(engine, question, given)?.with_context(|| self.nothing(question))
    }

    /// # Errors
    /// As [`Tables::statement`], or DuckDB is lacking or fails.
    pub fn answer(&self, question: &Question, given: &BTreeMap<String, String>) -> Result<Answer> {
        self.answer_if_any(question, given)?.with_context(|| self.nothing(question))
    }

    /// `None`: nothing of that time is there.
    ///
    /// # Errors
    /// As [`Tables::answer`] else.
    pub fn answer_if_any(
        &self,
        question: &Question,
        given: &BTreeMap<String, String>,
    ) -> Result<Option<Answer>> {
        let Some(statement) = self.statement_if_any(Engine::DuckDb, question, given)? else {
            return Ok(None);
        };
        let grant = self.runtime.block_on(bucket::grant(self.from))?;
        duckdb::answer(&statement, question, grant.as_ref()).map(Some)
    }

    fn nothing(&self, question: &Question) -> String {
        let (from, time) = (self.from, time::words(self.begin, self.end));
        match &question.tables[..] {
            [_] => format!("{from} has nothing of {time}"),
            tables => format!("{from} lacks one of the tables {} of {time}", tables.join(", ")),
        }
    }

    fn statement_if_any(
        &self,
        engine: Engine,
        question: &Question,
        given: &BTreeMap<String, String>,
    ) -> Result<Option<String>> {
        let (begin, end) = (self.begin, self.end);
        // As engines have it: a folder is a path to them.
        let from = self.from.strip_prefix("file://").unwrap_or(self.from).to_owned();
        let mut asked = Asked { from, begin, end, hours: question.hours(begin, end) };
        // What is wrong with the parameters is said before a server is asked.
        question.statement(engine, &asked, given)?;
        for (table, hours) in &mut asked.hours {
            *hours = self.runtime.block_on(self.present(table, hours))?;
            if hours.is_empty() {
                return Ok(None);
            }
        }
        question.statement(engine, &asked, given).map(Some)
    }

    /// The hours that have an object of the table: an engine refuses the others.
    async fn present(&self, table: &str, hours: &[String]) -> Result<Vec<String>> {
        let bucket = Bucket::open(self.from, Retries::Few)?;
        let mut found = Vec::new();
        for hour in hours {
            let folder = Path::parse(format!("{table}/{hour}"))?;
            let first = bucket.store.list(Some(&folder)).next().await.transpose();
            let first = first
                .map_err(|error| anyhow!("reading {}: {}", self.from, bucket::refusal(&error).1))?;
            found.extend(first.map(|_| hour.clone()));
        }
        Ok(found)
    }
}

//! The tables of a time: which hours are there, and what an engine says of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Error, Result, anyhow};
use futures_util::StreamExt;
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use tokio::runtime::Runtime;
use transom_output::note;
use transom_spool::Time;

use super::duckdb::{self, Answer};
use super::time;
use crate::bucket::{self, Bucket, Retries};
use crate::questions::{Asked, Engine, OBJECT, Question};
use crate::whole;

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
        self.statement_without(&BTreeSet::new(), engine, question, given)?
            .with_context(|| self.nothing(question))
    }

    /// # Errors
    /// As [`Tables::statement`], or DuckDB is lacking or fails.
    pub fn answer(&self, question: &Question, given: &BTreeMap<String, String>) -> Result<Answer> {
        self.answer_if_any(question, given)?.with_context(|| self.nothing(question))
    }

    /// `None`: nothing of that time is there. Objects that are damaged are named and left out.
    ///
    /// # Errors
    /// As [`Tables::answer`] else.
    pub fn answer_if_any(
        &self,
        question: &Question,
        given: &BTreeMap<String, String>,
    ) -> Result<Option<Answer>> {
        let mut damaged = BTreeSet::new();
        loop {
            let statement = self.statement_without(&damaged, Engine::DuckDb, question, given)?;
            let Some(statement) = statement else { return Ok(None) };
            let grant = self.runtime.block_on(bucket::grant(self.from))?;
            let error = match duckdb::answer(&statement, question, grant.as_ref()) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => error,
            };
            let found = match duckdb::may_be_damage(&error) {
                true => self.runtime.block_on(self.damaged(question, &error, &damaged))?,
                false => Vec::new(),
            };
            if found.is_empty() {
                return Err(error);
            }
            for (object, why) in found {
                let from = self.from.trim_end_matches('/');
                note!("transom-fleet: {from}/{object} is damaged and left out; remove it: {why:#}");
                damaged.insert(object);
            }
        }
    }

    /// The objects that keep a question from being answered, beside those that are known: of those
    /// that the error names, or else of all that are asked. It reads them in whole.
    async fn damaged(
        &self,
        question: &Question,
        error: &Error,
        known: &BTreeSet<Path>,
    ) -> Result<Vec<(Path, Error)>> {
        let bucket = Bucket::open(self.from, Retries::Few)?;
        let mut objects = Vec::new();
        for (table, hours) in question.hours(self.begin, self.end) {
            for hour in hours {
                objects.extend(self.objects(&bucket, table, &hour).await?);
            }
        }
        objects.retain(|object| !known.contains(object));
        let told = format!("{error:#}");
        let is_named = |object: &Path| object.filename().is_some_and(|name| told.contains(name));
        if objects.iter().any(is_named) {
            objects.retain(is_named);
        }
        let mut damaged = Vec::new();
        for object in objects {
            // One that compaction has removed since is missed by nobody.
            let Ok(found) = bucket.store.get(&object).await else { continue };
            let Ok(bytes) = found.bytes().await else { continue };
            if let Err(why) = whole::check(&bytes) {
                damaged.push((object, why));
            }
        }
        Ok(damaged)
    }

    async fn objects(&self, bucket: &Bucket, table: &str, hour: &str) -> Result<Vec<Path>> {
        let folder = Path::parse(format!("{table}/{hour}"))?;
        let listed = bucket.store.list_with_delimiter(Some(&folder)).await;
        let listed = listed
            .map_err(|error| anyhow!("reading {}: {}", self.from, bucket::refusal(&error).1))?;
        let paths = listed.objects.into_iter().map(|object| object.location);
        Ok(paths.filter(|path| path.as_ref().ends_with(OBJECT)).collect())
    }

    fn nothing(&self, question: &Question) -> String {
        let (from, time) = (self.from, time::words(self.begin, self.end));
        match &question.tables[..] {
            [_] => format!("{from} has nothing of {time}"),
            tables => format!("{from} lacks one of the tables {} of {time}", tables.join(", ")),
        }
    }

    fn statement_without(
        &self,
        damaged: &BTreeSet<Path>,
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
            *hours = self.runtime.block_on(self.present(table, hours, damaged))?;
            if hours.is_empty() {
                return Ok(None);
            }
        }
        question.statement(engine, &asked, given).map(Some)
    }

    /// The hours that have an object of the table: an engine refuses the others. Of those in which one
    /// is damaged, the other objects.
    async fn present(
        &self,
        table: &str,
        hours: &[String],
        damaged: &BTreeSet<Path>,
    ) -> Result<Vec<String>> {
        let bucket = Bucket::open(self.from, Retries::Few)?;
        let mut found = Vec::new();
        for hour in hours {
            let folder = Path::parse(format!("{table}/{hour}"))?;
            if damaged.iter().any(|object| object.prefix_matches(&folder)) {
                let all = self.objects(&bucket, table, hour).await?;
                let others = all.iter().filter(|object| !damaged.contains(object));
                found.extend(others.filter_map(|it| Some(format!("{hour}/{}", it.filename()?))));
                continue;
            }
            let first = bucket.store.list(Some(&folder)).next().await.transpose();
            let first = first
                .map_err(|error| anyhow!("reading {}: {}", self.from, bucket::refusal(&error).1))?;
            found.extend(first.map(|_| hour.clone()));
        }
        Ok(found)
    }
}

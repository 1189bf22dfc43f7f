//! `transom-fleet ask`: a ready question, answered by DuckDB on this machine; or its statement, for
//! another engine.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use transom_output::say;

use crate::questions::{self, Engine};

mod duckdb;
mod tables;
pub(crate) mod text;
pub(crate) mod time;

pub use duckdb::Answer;
pub(crate) use tables::Tables;

/// Ask the tables a ready question; without one, list the questions
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Its name
    question: Option<String>,
    /// Its parameters
    #[arg(value_name = "NAME=VALUE")]
    given: Vec<String>,
    /// Where the tables are
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: Option<String>,
    /// Of which time: a time in UTC (14:03, 2026-11-23T14:03), or how long ago (90m, 3h, 2d)
    #[arg(long, value_name = "TIME", default_value = "1h")]
    since: String,
    /// Up to this time [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// Print the statement for an engine instead of running it
    #[arg(long, value_name = "ENGINE")]
    print: Option<Engine>,
    /// Print what the question needs and answers with
    #[arg(long)]
    about: bool,
}

const EXAMPLES: &str = "\
DuckDB's program answers: `duckdb` in PATH, or the one that TRANSOM_DUCKDB names.

Examples:
  transom-fleet ask change --about
  transom-fleet ask losing_prefixes --from s3://tables/fleet --since 3h
  transom-fleet ask slow_connections customer=198.51.100.0/24 --from s3://tables/fleet \\
      --since 2026-11-23T14:00 --until 2026-11-23T14:10
  transom-fleet ask verdict_shares --from s3://tables/fleet --print clickhouse";

/// # Errors
/// There is no such question, a parameter is wrong, the tables cannot be read, or DuckDB is lacking.
pub fn run(args: &Args) -> Result<ExitCode> {
    let question = args.question.as_deref().map(questions::named).transpose()?;
    let Some(question) = question else {
        text::list()?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.about {
        text::about(&question)?;
        return Ok(ExitCode::SUCCESS);
    }
    let given = parameters(&args.given)?;
    let from = args.from.as_deref().context("--from: where are the tables?")?;
    let tables = Tables::of(from, time::range(&args.since, args.until.as_deref(), time::now())?)?;
    if let Some(engine) = args.print {
        say!("{}", tables.statement(engine, &question, &given)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = tables.answer(&question, &given)?;
    if args.json {
        text::json(&answer)?;
    } else {
        text::table(&answer, &question)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parameters(words: &[String]) -> Result<BTreeMap<String, String>> {
    let mut given = BTreeMap::new();
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            bail!("'{word}' is no NAME=VALUE");
        };
        let before = given.insert(name.to_owned(), value.to_owned());
        ensure!(before.is_none(), "'{name}' is given twice");
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_names_and_values() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let given = parameters(&words(&["customer=a=b", "rows=3"])).unwrap();
        assert_eq!(given["customer"], "a=b");
        let refused = |all: &[&str]| parameters(&words(all)).unwrap_err().to_string();
        assert!(refused(&["customer"]).contains("no NAME=VALUE"));
        assert!(refused(&["rows=1", "rows=2"]).contains("twice"));
    }
}

//! How each engine reads the objects of a time: the only part of a statement that differs.

use anyhow::{Result, bail, ensure};
use chrono::DateTime;
use transom_spool::{Kind, Time};

use super::Asked;
use crate::events;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    #[value(name = "duckdb")]
    DuckDb,
    #[value(name = "clickhouse")]
    ClickHouse,
    #[value(name = "spark")]
    Spark,
}

const HOUR_US: i64 = 3_600_000_000;
/// How the names of objects end.
pub const OBJECT: &str = ".parquet";

impl Engine {
    pub const ALL: &[Engine] = &[Engine::DuckDb, Engine::ClickHouse, Engine::Spark];

    /// What a table is: the rows of the asked time, with `at_us`.
    pub fn table(self, table: &str, columns: &[(String, Kind)], asked: &Asked) -> Result<String> {
        let from = asked.from.trim_end_matches('/');
        if let Some(at) = from.find(['\'', '\\', '`', '{', '}', '*', '?', '[']) {
            bail!(
                "'{from}' has a character that an engine reads as a pattern or the end of a text: \
                 {}: ask by another name of the place, as that of a link to it",
                &from[at..at + 1]
            );
        }
        let hours = asked.hours.get(table).map(Vec::as_slice).unwrap_or_default();
        ensure!(!hours.is_empty(), "{from} has no {table} of that time");
        let (begin, end) = (utc(begin_of(table, asked.begin)), utc(asked.end));
        let time = if table == events::NAME { events::TIME } else { "time" };
        Ok(match self {
            Engine::DuckDb => {
                let paths = hours.iter().map(|hour| match hour.strip_suffix(OBJECT) {
                    Some(object) => {
                        format!("'{from}/{table}/{}{OBJECT}'", object.replace('\'', "''"))
                    }
                    None => format!("'{from}/{table}/{hour}/*{OBJECT}'"),
                });
                let paths = paths.collect::<Vec<_>>().join(", ");
                format!(
                    "SELECT *, epoch_us({time}) AS at_us \
                     FROM read_parquet([{paths}], union_by_name = true) \
                     WHERE {time} >= TIMESTAMPTZ '{begin}+00' AND {time} < TIMESTAMPTZ '{end}+00'"
                )
            }
            Engine::ClickHouse => {
                let function = if from.contains("://") { "s3" } else { "file" };
                let path = format!("{from}/{table}/{}/*.parquet", one_of(hours));
                // Told, not inferred: from whatever version a file is, its missing columns are null.
                let columns = columns.iter().map(|(name, kind)| {
                    let kind = match kind {
                        Kind::Integer => "Nullable(Int64)",
                        Kind::Time => "DateTime64(6, ''UTC'')",
                        Kind::Real => "Nullable(Float64)",
                        Kind::Text => "Nullable(String)",
                    };
                    format!("`{name}` {kind}")
                });
                let columns = columns.collect::<Vec<_>>().join(", ");
                format!(
                    "SELECT *, toUnixTimestamp64Micro({time}) AS at_us \
                     FROM {function}('{path}', 'Parquet', '{columns}') \
                     WHERE {time} >= toDateTime64('{begin}', 6, 'UTC') \
                     AND {time} < toDateTime64('{end}', 6, 'UTC')"
                )
            }
            Engine::Spark => {
                let path = format!("{from}/{table}/{}/*.parquet", one_of(hours));
                format!(
                    "SELECT *, unix_micros({time}) AS at_us FROM parquet.`{path}` \
                     WHERE {time} >= TIMESTAMP '{begin}Z' AND {time} < TIMESTAMP '{end}Z'"
                )
            }
        })
    }
}

/// What a machine is was said up to a day before: a shipper describes it each 23 hours.
fn begin_of(table: &str, begin: Time) -> Time {
    if table == "hosts" { Time(begin.0 - 24 * HOUR_US) } else { begin }
}

/// The folders that may have rows of a time. A file lies where its first row is, and has an hour at
/// most. DuckDB refuses a folder that is not there: leave such out.
pub fn hours(table: &str, begin: Time, end: Time) -> Vec<String> {
    let first = begin_of(table, begin).0.div_euclid(HOUR_US) - 1;
    let last = (end.0 - 1).div_euclid(HOUR_US);
    let name = |hour: i64| {
        DateTime::from_timestamp_micros(hour * HOUR_US)
            .unwrap_or_default()
            .format("date=%Y-%m-%d/hour=%H")
            .to_string()
    };
    (first..=last).map(name).collect()
}

fn one_of(hours: &[String]) -> String {
    if let [one] = hours { one.clone() } else { format!("{{{}}}", hours.join(",")) }
}

fn utc(time: Time) -> String {
    let time = DateTime::from_timestamp_micros(time.0).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_hour_before_is_read_too_since_files_lie_where_they_begin() {
        let begin = Time(1_795_435_200_000_000);
        let found = hours("connections", begin, Time(begin.0 + HOUR_US));
        assert_eq!(found, ["date=2026-11-23/hour=11", "date=2026-11-23/hour=12"]);
        let found = hours("hosts", begin, Time(begin.0 + HOUR_US));
        assert_eq!((found.len(), &*found[0]), (26, "date=2026-11-22/hour=11"));
    }

    #[test]
    fn a_place_that_would_end_the_text_is_refused() {
        let hours = vec!["date=2026-11-23/hour=11".to_owned()];
        let asked = |from: &str, hours: &[String]| {
            let hours = BTreeMap::from([("connections", hours.to_vec())]);
            Asked { from: from.into(), begin: Time(0), end: Time(1), hours }
        };
        let refused = |asked| Engine::DuckDb.table("connections", &[], &asked).is_err();
        assert!(refused(asked("s3://b/'; --", &hours)));
        assert!(refused(asked("s3://b", &[])));
        assert!(!refused(asked("s3://b", &hours)));
    }
}

//! DuckDB's command line as a child. What it may read goes to its standard input, so that no list
//! of processes shows keys.

use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Error, Result, bail, ensure};
use serde_json::{Map, Value};
use transom_output::plain;

use crate::bucket::Grant;
use crate::questions::Question;

pub struct Answer {
    pub columns: Vec<&'static str>,
    /// Each with a value for each column.
    pub rows: Vec<Vec<Value>>,
}

impl Answer {
    /// The same with fewer columns.
    pub fn without(&self, names: &[&str]) -> Answer {
        let is_kept = |at: &usize| !names.contains(&self.columns[*at]);
        let kept: Vec<usize> = (0..self.columns.len()).filter(is_kept).collect();
        let of = |row: &Vec<Value>| kept.iter().map(|&at| row[at].clone()).collect();
        Answer {
            columns: kept.iter().map(|&at| self.columns[at]).collect(),
            rows: self.rows.iter().map(of).collect(),
        }
    }
}

/// What DuckDB says first of a statement that it does not take, a server, or itself.
const NO_DAMAGE: [&str; 6] = ["Binder", "Catalog", "HTTP", "Interrupt", "Out of Memory", "Parser"];

/// Whether an object that cannot be read may be what it says.
pub fn may_be_damage(error: &Error) -> bool {
    let told = error.to_string();
    let said = told.strip_prefix(SAID);
    said.is_some_and(|said| !NO_DAMAGE.iter().any(|kind| said.starts_with(kind)))
}

const SAID: &str = "DuckDB: ";
const LACKING: &str = "install DuckDB (https://duckdb.org, or the Python package duckdb-cli), set \
    TRANSOM_DUCKDB to it, or paste the statement of --print into another engine";

/// # Errors
/// DuckDB is not installed, or what it says.
pub fn answer(statement: &str, question: &Question, grant: Option<&Grant>) -> Result<Answer> {
    let printed = run(&session(statement, grant)?)?;
    let arrays = serde_json::Deserializer::from_str(&printed).into_iter::<Vec<Map<_, _>>>();
    let mut arrays = arrays
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("DuckDB printed no JSON: {printed:.200}"))?;
    // Settings before may have an answer of their own.
    let (rows, kinds) = (arrays.pop(), arrays.pop());
    let (rows, kinds) = rows.zip(kinds).context("DuckDB did not print an answer")?;
    let is_wide = |name: &str| {
        let of = |kind: &&Map<String, Value>| kind["name"] == name;
        let is_one = |kind: &Map<String, Value>| WIDE.iter().any(|wide| kind["kind"] == *wide);
        kinds.iter().find(of).is_some_and(is_one)
    };
    let columns: Vec<&str> = question.columns.iter().map(|(name, _)| *name).collect();
    let rows = rows.into_iter().map(|mut row| {
        let of = |name: &&str| {
            let value = row.remove(*name).with_context(|| format!("no column {name}"))?;
            Ok(if is_wide(name) { number(value) } else { value })
        };
        columns.iter().map(of).collect::<Result<Vec<Value>>>()
    });
    let rows = rows.collect::<Result<_>>()?;
    Ok(Answer { columns, rows })
}

/// Numbers that DuckDB prints as text: sums of integers have 128 bits, and events as they landed have
/// unsigned columns.
const WIDE: [&str; 2] = ["HUGEINT", "UBIGINT"];

fn number(value: Value) -> Value {
    match value.as_str().and_then(|text| text.parse::<i64>().ok()) {
        Some(number) => number.into(),
        None => value,
    }
}

fn session(statement: &str, grant: Option<&Grant>) -> Result<String> {
    let mut session = String::new();
    if let Some(grant) = grant {
        session.push_str(".output /dev/null\n");
        session.push_str(&secret(grant)?);
        session.push_str(".output\n");
    }
    session.push_str("CREATE TEMP TABLE answer AS ");
    session.push_str(statement.trim_end().trim_end_matches(';'));
    session.push_str(
        ";\nSELECT column_name AS name, data_type AS kind FROM duckdb_columns() \
         WHERE table_name = 'answer';\nSELECT * FROM answer;\n",
    );
    Ok(session)
}

fn secret(grant: &Grant) -> Result<String> {
    let mut words =
        vec![("KEY_ID", grant.keys.key_id.as_str()), ("SECRET", &grant.keys.secret_key)];
    if let Some(token) = &grant.keys.token {
        words.push(("SESSION_TOKEN", token));
    }
    if let Some(region) = &grant.region {
        words.push(("REGION", region));
    }
    if let Some(endpoint) = &grant.endpoint {
        let (scheme, host) = endpoint.split_once("://").context("an endpoint without a scheme")?;
        words.push(("ENDPOINT", host.trim_end_matches('/')));
        words.push(("USE_SSL", if scheme == "https" { "true" } else { "false" }));
    }
    words.push(("URL_STYLE", if grant.is_virtual_hosted { "vhost" } else { "path" }));
    let is_plain = |text: &str| !text.contains(char::is_control);
    ensure!(words.iter().all(|(_, value)| is_plain(value)), "a key has a control character");
    let words = words.iter().map(|(name, value)| format!("{name} '{}'", value.replace('\'', "''")));
    Ok(format!("CREATE SECRET (TYPE s3, {});\n", words.collect::<Vec<_>>().join(", ")))
}

fn run(session: &str) -> Result<String> {
    let program = std::env::var_os("TRANSOM_DUCKDB").unwrap_or_else(|| "duckdb".into());
    let mut command = Command::new(&program);
    // Nobody's own start file changes how answers are printed.
    command.args(["-json", "-bail", "-init", "/dev/null", ":memory:"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("no program `{}`: {LACKING}", program.display())
        }
        child => child.with_context(|| format!("starting {}", program.display()))?,
    };
    let sent = child.stdin.take().context("no pipe")?.write_all(session.as_bytes());
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && said.trim().is_empty(), refused(output.status, &said));
    sent.context("writing to DuckDB")?;
    Ok(String::from_utf8(output.stdout)?)
}

/// What it says without its quotation of the statement, which may be the one with the keys.
fn refused(status: ExitStatus, said: &str) -> String {
    let lines = said.lines().take_while(|line| !line.starts_with("LINE "));
    let said = lines.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    // It may quote rows.
    if said.is_empty() {
        format!("DuckDB ended: {status}")
    } else {
        format!("{SAID}{}", plain(&said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::aws::AwsCredential;

    fn grant(endpoint: Option<&str>) -> Grant {
        let keys = AwsCredential { key_id: "A".into(), secret_key: "b'c".into(), token: None };
        Grant {
            keys: keys.into(),
            region: Some("eu-west-1".into()),
            endpoint: endpoint.map(Into::into),
            is_virtual_hosted: endpoint.is_none(),
        }
    }

    #[test]
    fn a_server_of_ones_own_is_asked_as_the_shipper_asks_it() {
        let secret = |endpoint| secret(&grant(endpoint)).unwrap();
        let own = secret(Some("http://127.0.0.1:9000/"));
        assert!(
            own.contains("ENDPOINT '127.0.0.1:9000', USE_SSL 'false', URL_STYLE 'path'"),
            "{own}"
        );
        assert!(own.contains("SECRET 'b''c'") && !own.contains("TOKEN"), "{own}");
        assert!(secret(None).contains("REGION 'eu-west-1', URL_STYLE 'vhost'"));
    }

    #[test]
    fn keys_do_not_come_back_with_an_error() {
        use std::os::unix::process::ExitStatusExt;
        let said = "Parser Error: syntax error\n\nLINE 1: CREATE SECRET (SECRET 'hidden')\n  ^\n";
        let told = refused(ExitStatus::from_raw(256), said);
        assert_eq!(told, "DuckDB: Parser Error: syntax error");
    }

    #[test]
    fn sums_are_numbers_and_texts_stay_texts() {
        assert_eq!(number("12".into()), Value::from(12));
        assert_eq!(number("web-1".into()), Value::from("web-1"));
    }
}

//! What the other ends of the slowest connections say, where they are hosts of the fleet, too.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;
use transom_output::say;

use crate::ask::{Answer, text};
use crate::questions::Question;

/// What names a connection in all of a fleet: a socket that connects again has several.
const NAMES: [&str; 4] = ["host", "boot", "cookie", "at_us"];

/// Only those of these connections.
pub fn keep(ends: &mut Answer, slowest: &Answer) {
    let names = |row: &Vec<Value>| named(&slowest.columns, row);
    let shown: BTreeSet<String> = slowest.rows.iter().map(names).collect();
    let Answer { columns, rows } = ends;
    rows.retain(|row| shown.contains(&named(columns, row)));
}

fn named(columns: &[&str], row: &[Value]) -> String {
    let cell = |name| columns.iter().zip(row).find(|(column, _)| **column == name);
    NAMES.iter().filter_map(|name| cell(*name)).map(|(_, cell)| format!("{cell} ")).collect()
}

/// Each of the slowest has an `other_end`, which is null where there is none.
pub fn told(ends: &Answer, slowest: &mut Value) {
    let ends = text::objects(ends);
    let of = |row: &Value| {
        let is_its = |end: &&Value| NAMES.iter().all(|name| end[*name] == row[*name]);
        ends.as_array()?.iter().find(is_its).cloned()
    };
    for row in slowest.as_array_mut().into_iter().flatten() {
        row["other_end"] = of(row).unwrap_or(Value::Null);
    }
}

/// # Errors
/// Of the standard output.
pub fn print(ends: &Answer, question: &Question) -> Result<()> {
    if !ends.rows.is_empty() {
        say!("\nOf these, the other end is a host of the fleet, too:")?;
        text::table(&ends.without(&["boot", "at_us"]), question)?;
    }
    Ok(())
}

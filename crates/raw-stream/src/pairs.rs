//! Keys and values of header and end: a line each, whatever bytes a value has.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

pub(crate) fn text(pairs: &[(String, String)]) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        text.push_str(&format!("{key}={value}\n"));
    }
    text
}

fn unescaped(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next() == Some('n') => plain.push('\n'),
            '\\' => plain.push('\\'),
            c => plain.push(c),
        }
    }
    plain
}

/// # Errors
/// It is no text.
pub(crate) fn read(bytes: &[u8]) -> Result<BTreeMap<String, String>> {
    let text = std::str::from_utf8(bytes).context("what it says about itself is no text")?;
    let pair = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.to_owned(), unescaped(value)))
    };
    Ok(text.split('\n').filter_map(pair).collect())
}

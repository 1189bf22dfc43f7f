//! What gates are judged by: two sums for each host and window, from the rows of `connections`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;
use transom_rollout::{Current, Gate, Generation, HostWindows, Sums, Windows};
use transom_spool::Time;

use super::kept::Kept;
use crate::ask::Tables;
use crate::questions;

/// For each gate, up to a window without it: those that were kept, and of later windows what the rows
/// say. Nothing is asked in the last wave, which nobody judges.
///
/// # Errors
/// The tables cannot be read, or DuckDB is lacking or fails.
pub fn of(
    from: &str,
    current: &Current,
    generation: &Generation,
    end: i64,
    kept: &Kept,
) -> Result<Vec<HostWindows>> {
    let waves = &generation.waves;
    if waves.is_last(current.wave) {
        return Ok(vec![]);
    }
    let all = current.compared(waves, end);
    let (start, mut sums) = match kept.of(from, current, generation) {
        Some((until, sums)) => (until.clamp(all.start, end), sums.to_vec()),
        None => (all.start, vec![HostWindows::new(); generation.gates.len()]),
    };
    if start == end {
        return Ok(sums);
    }
    let us = |window| -> Result<i64> {
        let seconds = i64::try_from(current.begins_s(waves, window))?;
        seconds.checked_mul(1_000_000).context("a time that is none")
    };
    let (begin_us, end_us) = (us(start)?, us(end)?);
    let tables = Tables::of(from, (Time(begin_us), Time(end_us)))?;
    let window_us = i64::try_from(waves.window_s)? * 1_000_000;
    let number = |at_us: i64| (at_us - begin_us).div_euclid(window_us) + start;
    for (gate, hosts) in generation.gates.iter().zip(&mut sums) {
        let new = ask(&tables, gate, window_us, begin_us);
        let new = new.with_context(|| format!("asking for gate {}", gate.name))?;
        let mut known: BTreeMap<String, Windows> = std::mem::take(hosts).into_iter().collect();
        for (host, rows) in new {
            let windows = rows.into_iter().map(|(at_us, sums)| (number(at_us), sums));
            known.entry(host).or_default().extend(windows);
        }
        *hosts = known.into_iter().collect();
    }
    Ok(sums)
}

/// By host, with the time at which each window begins.
fn ask(
    tables: &Tables<'_>,
    gate: &Gate,
    window_us: i64,
    origin_us: i64,
) -> Result<BTreeMap<String, Vec<(i64, Sums)>>> {
    let given = [
        ("of", gate.metric.of.clone()),
        ("per", gate.metric.per.clone()),
        ("window_us", window_us.to_string()),
        ("origin_us", origin_us.to_string()),
    ];
    let given: BTreeMap<String, String> =
        given.map(|(name, value)| (name.to_owned(), value)).into();
    let mut hosts: BTreeMap<String, Vec<(i64, Sums)>> = BTreeMap::new();
    let Some(answer) = tables.answer_if_any(&questions::named("by_window")?, &given)? else {
        return Ok(hosts);
    };
    for row in &answer.rows {
        let [Value::String(host), at_us, of, per, _] = &row[..] else {
            anyhow::bail!("an answer of another form: {row:?}");
        };
        let number = |value: &Value| value.as_f64().context("a sum that is no number");
        let at_us = at_us.as_i64().context("a window at no time")?;
        let sums = Sums { of: number(of)?, per: number(per)? };
        hosts.entry(host.clone()).or_default().push((at_us, sums));
    }
    Ok(hosts)
}

//! `transom-fleet policy status`: where a roll-out is, and what its gates found.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};
use transom_output::{plain, say};
use transom_rollout::{Gate, Judged, LEAST_OUTSIDE};

use super::kept::{Kept, Told};
use super::place::{Place, State};
use super::{key, words};

/// Say which generation is rolled out, how far it is, and what its gates found
#[derive(clap::Args)]
pub struct Args {
    /// Where the policies are, below `policy/`
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: String,
    /// Public keys that are believed, one a line, as hosts have them
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// Say which sums of windows are kept in this folder, where `step` has it as --state
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let place = Place::open(&args.from, None, key::trusted(&args.trust)?)?;
    let state = place.under_way()?;
    let now_s = words::now_s();
    let kept = args.state.as_deref().map(|folder| Kept::open(Some(folder)));
    let kept = kept.map(|kept| kept.told(&state.current, &state.generation));
    if args.json {
        let mut json = json(&state, now_s);
        if let Some(kept) = &kept {
            json["kept"] = kept.as_ref().map_or(Value::Null, |kept| kept_json(kept, &state));
        }
        say!("{}", serde_json::to_string_pretty(&json)?)?;
    } else {
        say!("{}", text(&state, now_s))?;
        if let Some(kept) = &kept {
            say!("{}", kept_text(kept.as_ref(), &state))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The sums by which the next step goes on.
fn kept_text(kept: Option<&Told>, State { generation, .. }: &State) -> String {
    let Some(Told { tables, until_s, gates }) = kept else {
        return "no sums of it are kept there: the next step reads all its rows".to_owned();
    };
    let of = |(gate, (hosts, windows)): (&Gate, &(usize, usize))| {
        format!("\n  gate {}: {hosts} hosts, {windows} windows", gate.name)
    };
    let of: String = generation.gates.iter().zip(gates).map(of).collect();
    format!(
        "sums of rows in {tables} are kept up to {}, and later rows of that time do not count:{of}",
        words::utc(*until_s)
    )
}

fn kept_json(Told { tables, until_s, gates }: &Told, State { generation, .. }: &State) -> Value {
    let of = |(gate, (hosts, windows)): (&Gate, &(usize, usize))| json!({ "gate": gate.name, "hosts": hosts, "windows": windows });
    let gates: Vec<Value> = generation.gates.iter().zip(gates).map(of).collect();
    json!({ "tables": tables, "until_s": until_s, "gates": gates })
}

/// What a gate found last, if it was asked.
fn judged<'a>(state: &'a State, gate: &Gate) -> Option<&'a Judged> {
    state.current.progress.judged.iter().find(|judged| judged.gate == gate.name)
}

/// For people.
pub fn text(state: &State, now_s: u64) -> String {
    let State { current, generation, .. } = state;
    let none = if generation.policy.is_none() { " (no policy)" } else { "" };
    let mut lines = vec![format!("generation {}{none}: {}", current.generation, stage(state))];
    if !current.progress.because.is_empty() {
        lines.push(format!("because: {}", plain(&current.progress.because)));
    }
    if !current.progress.is_done && !generation.waves.is_last(current.wave) {
        lines.push(format!(
            "control and all hosts outside have {}",
            words::generation(current.before)
        ));
    }
    let ends_s = current.ends_s();
    lines.push(if now_s < ends_s {
        format!("its lease ends in {}, at {}", words::long(ends_s - now_s), words::utc(ends_s))
    } else {
        format!(
            "its lease ended {} ago, at {}: hosts have gone back to nothing by themselves",
            words::long(now_s - ends_s),
            words::utc(ends_s)
        )
    });
    lines.extend(generation.gates.iter().map(|gate| gate_text(state, gate)));
    // Of a generation that was undone, which has no gates itself.
    let own = |judged: &&Judged| !generation.gates.iter().any(|gate| gate.name == judged.gate);
    let undone = current.progress.judged.iter().filter(own);
    lines.extend(undone.map(|judged| format!("gate {}: {}", judged.gate, found(judged))));
    lines.join("\n")
}

pub fn stage(state: &State) -> String {
    let State { current, generation, .. } = state;
    let waves = &generation.waves;
    if current.progress.is_done {
        return format!("all hosts have it, since {}", words::utc(current.began_s));
    }
    let share = waves.shares.get(current.wave).copied().unwrap_or(1.0);
    let of = if current.wave == 0 { plain(&current.first).into() } else { words::wave(share) };
    let halves = if waves.is_last(current.wave) { "" } else { ", half of them at a time" };
    let halves = if current.wave == 0 { "" } else { halves };
    format!(
        "wave {} of {} ({of}{halves}) since {}; {} of {} windows of {} judged{}",
        current.wave + 1,
        waves.shares.len(),
        words::utc(current.began_s),
        current.progress.rollout.window,
        2 * waves.windows * (1 + current.progress.rollout.holds),
        words::long(waves.window_s),
        match current.progress.rollout.holds {
            0 => String::new(),
            holds => format!("; held {holds} times, since a gate was suspicious or had no rows"),
        }
    )
}

fn gate_text(state: &State, gate: &Gate) -> String {
    let found = judged(state, gate).map_or("not asked yet".to_owned(), found);
    let expected = state.generation.expected.iter().find(|(name, ..)| *name == gate.name);
    let expected = expected.map(|(_, low, high)| {
        format!("\n  expected: {} to {}", words::change(*low), words::change(*high))
    });
    format!("gate {gate}\n  found: {found}{}", expected.unwrap_or_default())
}

fn found(judged: &Judged) -> String {
    let Judged { treated, outside, .. } = judged;
    let hosts = format!("hosts that had it: {treated}, without it: {outside}");
    if *treated == 0 {
        return format!("no verdict: {hosts}; it takes rows of one that had it");
    }
    if *outside < LEAST_OUTSIDE {
        return format!("no verdict: {hosts}; it takes {LEAST_OUTSIDE} without it");
    }
    let change = judged.change.map(|change| words::interval(change) + ", ").unwrap_or_default();
    let worst = judged.worst.iter().map(|(host, share)| (plain(host), words::change(*share)));
    let worst = worst.map(|(host, change)| format!("{host} {change}"));
    format!(
        "{change}{hosts}; chance of the mean {}, of single hosts {}; worst: {}",
        words::chance(judged.chance_of_mean),
        words::chance(judged.chance_of_hosts),
        worst.collect::<Vec<_>>().join(", ")
    )
}

/// For programs.
pub fn json(state: &State, now_s: u64) -> Value {
    let State { current, generation, .. } = state;
    let gate = |gate: &Gate| {
        let expected = generation.expected.iter().find(|(name, ..)| *name == gate.name);
        json!({
            "name": gate.name,
            "metric": gate.metric,
            "worse": gate.worse,
            "tolerate": gate.tolerate,
            "found": judged(state, gate).map(found_json),
            "expected": expected.map(|(_, low, high)| json!({ "low": low, "high": high })),
        })
    };
    json!({
        "generation": current.generation,
        "before": current.before,
        "has_policy": generation.policy.is_some(),
        "wave": current.wave,
        "shares": generation.waves.shares,
        "first": current.first,
        "began_s": current.began_s,
        "window_s": generation.waves.window_s,
        "windows_judged": current.progress.rollout.window,
        "holds": current.progress.rollout.holds,
        "written_s": current.written_s,
        "lease_s": current.lease_s,
        "lease_left_s": current.ends_s().saturating_sub(now_s),
        "is_done": current.progress.is_done,
        "because": current.progress.because,
        "gates": generation.gates.iter().map(gate).collect::<Vec<_>>(),
        "last_found": current.progress.judged.iter().map(found_json).collect::<Vec<_>>(),
    })
}

fn found_json(judged: &Judged) -> Value {
    let change =
        judged.change.map(|(low, mean, high)| json!({ "mean": mean, "low": low, "high": high }));
    let worst = judged.worst.iter().map(|(host, share)| json!({ "host": host, "change": share }));
    json!({
        "gate": judged.gate,
        "treated": judged.treated,
        "outside": judged.outside,
        "change": change,
        "chance_of_mean": judged.chance_of_mean,
        "chance_of_hosts": judged.chance_of_hosts,
        "worst": worst.collect::<Vec<_>>(),
    })
}

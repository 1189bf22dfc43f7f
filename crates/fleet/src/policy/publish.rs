//! `transom-fleet policy publish`: a new generation begins, with one host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use transom_output::{note, plain, say, text_of};
use transom_rollout::{Current, FORMAT, Gate, Generation, Waves, share};

use super::gates::{self, Expected};
use super::place::{Last, Place, Signed, State};
use super::{document, words};
use crate::ask::{Tables, time};
use crate::questions;

/// Publish a policy: one host has it first, then more, while gates compare them with the others
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The policy, a TOML file (docs/policy.md)
    #[arg(value_name = "POLICY.toml")]
    policy: PathBuf,
    #[command(flatten)]
    signed: Signed,
    /// Where the tables are, to choose the first host [default: as --to]
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: Option<String>,
    /// The first host [default: one with rows of the last hour, chosen by a hash]
    #[arg(long, value_name = "HOST")]
    first: Option<String>,
    /// What may not become worse: a ratio of two columns' sums, which way is worse, by how much, and
    /// the least sum below the line for a window of a host to count (100 unless given)
    #[arg(long = "gate", value_name = "[NAME =] COLUMN / COLUMN, higher|lower, SHARE[, LEAST]",
          default_values = [gates::DEFAULT])]
    gates: Vec<Gate>,
    /// What a gate is expected to find, as `transom whatif` says: loss=-30%..-10%
    #[arg(long, value_name = "GATE=LOW..HIGH", value_parser = gates::expected,
          allow_hyphen_values = true)]
    expected: Vec<Expected>,
    /// Shares of the fleet, one after another; one host comes before them
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = share,
          default_value = "1%,10%,50%,100%")]
    shares: Vec<f64>,
    /// How long a window is, for which a host's rows are added up
    #[arg(long, value_name = "TIME", value_parser = words::span, default_value = "10m")]
    window: u64,
    /// Windows in each half of a wave: then both halves of its hosts change places
    #[arg(long, value_name = "N", default_value_t = 6)]
    windows: u32,
    /// Hosts go back by themselves when nobody has renewed it for this long: 60 s to 7 days
    #[arg(long, value_name = "TIME", value_parser = words::span, default_value = "1h")]
    lease: u64,
    /// Its number is higher than this one: where the policies were in another place before, whose
    /// last one hosts have seen
    #[arg(long, value_name = "GENERATION", default_value_t = 0)]
    after: u64,
}

const EXAMPLES: &str = "\
`transom-fleet policy step` goes on from there: nothing happens without it, and the lease ends.
A gate's columns are those of docs/agent-columns.md; `connections` counts rows.
A host on which the sum below the line stays under LEAST has no rows to a gate, which holds the wave.

Examples:
  transom-fleet policy publish far.toml --to s3://tables/fleet --key fleet.key
  transom-fleet policy publish far.toml --to s3://tables/fleet --key fleet.key \\
      --gate 'loss = retransmitted / data_segments_sent, higher, 10 %' \\
      --gate 'timeouts / connections, higher, 20 %, 10' --expected loss=-30%..-10% --lease 2h";

const LEAST_LEASE_S: u64 = 60;
const LONGEST_LEASE_S: u64 = 7 * 86_400;

/// All that a generation is made of, but its number.
pub struct Draft {
    pub policy: String,
    pub waves: Waves,
    pub gates: Vec<Gate>,
    pub expected: Vec<(String, f64, f64)>,
    pub lease_s: u64,
    /// Hosts have seen this generation somewhere else.
    pub after: u64,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let draft = draft(args)?;
    let place = args.signed.open()?;
    let first = |number| match &args.first {
        Some(host) => Ok(host.clone()),
        None => first_host(args.from.as_deref().unwrap_or(&args.signed.to), number),
    };
    let state = publish(&place, draft, first, args.signed.now_s())?;
    say!("{}", told(&state)?)?;
    Ok(ExitCode::SUCCESS)
}

fn draft(args: &Args) -> Result<Draft> {
    let named = || format!("the policy {}", args.policy.display());
    let policy = text_of(&args.policy).with_context(named)?;
    document::check(&policy).with_context(named)?;
    gates::check(&args.gates, &args.expected)?;
    let shares = std::iter::once(0.0).chain(args.shares.iter().copied()).collect();
    let waves = Waves { shares, window_s: args.window, windows: args.windows };
    if let Some(fault) = waves.fault() {
        bail!("--shares, --window, --windows: {fault}");
    }
    ensure!(
        (LEAST_LEASE_S..=LONGEST_LEASE_S).contains(&args.lease),
        "--lease: from {} to {}",
        words::long(LEAST_LEASE_S),
        words::long(LONGEST_LEASE_S)
    );
    let expected = args.expected.iter().map(|it| (it.gate.clone(), it.low, it.high)).collect();
    let (gates, lease_s) = (args.gates.clone(), args.lease);
    Ok(Draft { policy, waves, gates, expected, lease_s, after: args.after })
}

/// # Errors
/// Another one is under way, somebody else was faster, or the store refuses.
pub fn publish(
    place: &Place,
    draft: Draft,
    first: impl Fn(u64) -> Result<String>,
    now_s: u64,
) -> Result<State> {
    let last = place.last()?;
    if let Some(Last { current, .. }) = &last {
        ensure!(
            current.progress.is_done || now_s >= current.ends_s(),
            "{}: generation {} is under way, in wave {}: wait for its end, or take it back with \
             `transom-fleet policy rollback`",
            place.address(),
            current.generation,
            current.wave + 1
        );
    }
    let has_before = has_before(place, last.as_ref())?;
    let is_first = last.is_none() && draft.after == 0;
    let number = last.as_ref().map_or(0, |last| last.current.generation).max(draft.after) + 1;
    let mut generation = Generation {
        format: FORMAT,
        number,
        policy: Some(draft.policy),
        waves: draft.waves,
        gates: draft.gates,
        expected: draft.expected,
    };
    let first = first(number)?;
    place.add(&mut generation)?;
    let before = last.as_ref().map(|last| &last.current);
    let mut current = Current::begin(generation.number, before, &first, now_s, draft.lease_s);
    if !has_before {
        current = current.without_before();
    }
    place.swap(last.as_ref(), &current)?;
    if is_first {
        note!(
            "transom-fleet: it is the first one here: hosts that have followed another place take it for a \
             replay, unless --after names the last generation of that place"
        );
    }
    place.under_way()
}

/// Whether what all other hosts are to keep can be had: going back is to it.
fn has_before(place: &Place, last: Option<&Last>) -> Result<bool> {
    let Some(before) = last.map(|last| last.current.settled()).filter(|before| *before != 0) else {
        return Ok(true);
    };
    let kept = place.generation_if_any(before).with_context(|| {
        format!(
            "all other hosts are to keep generation {before}, and could not go back to it: name the key \
             that signed it with --trust, or take it from them first (`rollback --none`)"
        )
    });
    let has_it = kept?.is_some();
    if !has_it {
        note!(
            "transom-fleet: generation {before}, which all hosts had, is not there any more: they have \
             nothing until it is their turn"
        );
    }
    Ok(has_it)
}

/// A host that has had rows in the last hour.
fn first_host(from: &str, generation: u64) -> Result<String> {
    let choose = || -> Result<String> {
        let now = time::now();
        let tables = Tables::of(from, time::range("1h", None, now)?)?;
        let question = questions::named("by_window")?;
        let given = [("of", "connections"), ("per", "connections"), ("window_us", "3600000000")];
        let given: BTreeMap<String, String> =
            given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let answer = tables.answer(&question, &given)?;
        let hosts: Vec<&str> = answer.rows.iter().filter_map(|row| row[0].as_str()).collect();
        let first =
            Waves::first(&hosts, generation).context("no host has rows of the last hour")?;
        Ok(first.to_owned())
    };
    choose().context("which host is to be the first? Name it with --first")
}

fn told(state: &State) -> Result<String> {
    let State { current, generation, .. } = state;
    let shares = generation.waves.shares[1..].iter().map(|share| words::wave(*share));
    let others = words::generation(current.before);
    let gates: Vec<String> =
        generation.gates.iter().map(|gate| format!("gate: {gate}\n")).collect();
    Ok(format!(
        "generation {} is published: {} first, then {}; all others have {others}\n{}its lease ends at \
         {}, unless `transom-fleet policy step` renews it",
        current.generation,
        plain(&current.first),
        shares.collect::<Vec<_>>().join(", "),
        gates.concat(),
        words::utc(current.ends_s()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_of_the_help_that_count_connections_say_how_many_are_enough() {
        let given = EXAMPLES.split("--gate '").skip(1).filter_map(|it| it.split('\'').next());
        let gates: Vec<Gate> = given.map(|text| text.parse().unwrap()).collect();
        let of_connections = gates.iter().filter(|gate| gate.metric.per == "connections");
        assert!(of_connections.clone().count() > 0, "{gates:?}");
        for gate in of_connections {
            assert!(gate.least < 100.0, "{gate}: 14,400 connections a day, or no row");
        }
    }
}

//! `transom-fleet policy step`: judges the windows whose rows have come, and goes on, holds, or takes
//! the policy back.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transom_output::{note, plain, say};
use transom_rollout::{Current, Decision, Generation, Looked, Silence, Step};

use super::kept::Kept;
use super::metrics::OfSteps;
use super::place::{Place, Signed, State};
use super::{sums, words};

/// Go on with a roll-out: judge the windows that are over, renew the lease, take back what does harm
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    signed: Signed,
    /// Where the tables are [default: as --to]
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    from: Option<String>,
    /// How late rows may come: a window is judged this long after its end
    #[arg(long, value_name = "TIME", value_parser = words::span, default_value = "10m")]
    lag: u64,
    /// Folder for the sums of windows that were judged, whose rows are not read again [default:
    /// $STATE_DIRECTORY, else they are known until the program ends]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Keep metrics in this file, for the text collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE.prom", overrides_with = "metrics")]
    metrics: Option<PathBuf>,
    /// Take one step after another, this long after the last one
    #[arg(long, value_name = "TIME", value_parser = words::pause)]
    every: Option<u64>,
}

const EXAMPLES: &str = "\
DuckDB's program reads the tables: `duckdb` in PATH, or the one that TRANSOM_DUCKDB names.
Of two who take steps at the same time, one is told so and has changed nothing.

Examples:
  transom-fleet policy step --to s3://tables/fleet --key /etc/transom/fleet.key
  transom-fleet policy step --to s3://tables/fleet --key /etc/transom/fleet.key --every 2m";

pub fn run(args: &Args) -> Result<ExitCode> {
    let place = args.signed.open()?;
    let from = args.from.as_deref().unwrap_or(&args.signed.to);
    let of_service = || std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    let mut kept = Kept::open(args.state.clone().or_else(of_service).as_deref());
    let metrics = args.metrics.clone().map(OfSteps::at).transpose()?;
    loop {
        match step(&place, from, &mut kept, args.lag, args.signed.now_s()) {
            Ok(lines) => {
                for line in &lines {
                    say!("{}", plain(line))?;
                }
                if let Err(error) = show(metrics.as_ref(), &place) {
                    note!("transom-fleet: {error:#}; the step was taken");
                }
            }
            Err(error) => match args.every {
                None => return Err(error),
                // The next step sees what is there then.
                Some(every) => note!("transom-fleet: {error:#}; again in {}", words::long(every)),
            },
        }
        let Some(every) = args.every else { return Ok(ExitCode::SUCCESS) };
        std::thread::sleep(Duration::from_secs(every));
    }
}

/// What there is after a step.
fn show(metrics: Option<&OfSteps>, place: &Place) -> Result<()> {
    let Some(metrics) = metrics else { return Ok(()) };
    let State { current, generation, .. } = place.under_way()?;
    metrics.show(&current, &generation)
}

/// Takes one step, and says what it did.
///
/// # Errors
/// The lease is over, the tables or the policies cannot be read, or somebody else was faster: then
/// nothing was changed.
fn step(place: &Place, from: &str, kept: &mut Kept, lag_s: u64, now_s: u64) -> Result<Vec<String>> {
    let state = place.under_way()?;
    let State { current, generation, .. } = &state;
    let number = current.generation;
    ensure!(
        now_s < current.ends_s(),
        "{}: the lease of generation {number} ended at {}, and hosts have gone back to nothing by \
         themselves: publish it again, or take it back with `transom-fleet policy rollback`",
        place.address(),
        words::utc(current.ends_s())
    );
    // Nobody is judged in the last wave.
    if current.before != 0 && !generation.waves.is_last(current.wave) {
        place.generation(current.before).with_context(|| lost_before(current))?;
    }
    let mut next = current.clone();
    let due = current.due(&generation.waves, now_s, lag_s);
    let mut looked = Looked::default();
    if !current.progress.is_done && !due.is_empty() {
        let sums = sums::of(from, current, generation, due.end, kept)?;
        looked = next.look(generation, &sums, due, now_s);
        if let Some((last, _)) = looked.steps.last() {
            kept.keep(from, current, generation, sums, last + 1);
        }
    }
    let mut told: Vec<String> =
        looked.steps.iter().map(|it| step_text(current, generation, it)).collect();
    if let Some((_, Step::Undo(decision))) = looked.steps.last() {
        told.push(undo(place, &state, &next, decision, now_s)?);
        return Ok(told);
    }
    let is_blind = looked.missing.is_some() || !looked.silent.is_empty();
    if looked.steps.is_empty() && !is_blind && !current.is_to_renew(now_s) {
        return Ok(vec![format!("generation {number}: nothing is due")]);
    }
    if !looked.steps.is_empty() || !is_blind {
        next.renew(now_s);
        place.swap(Some(&state.last()), &next)?;
        told.push(format!(
            "generation {number}: the lease is renewed until {}",
            words::utc(next.ends_s())
        ));
    }
    if let Some(window) = looked.missing {
        told.push(missing_text(&next, generation, window));
    }
    told.extend(looked.silent.iter().map(|silence| silent_text(&next, silence)));
    Ok(told)
}

/// Why nothing goes on that could not be taken back.
fn lost_before(current: &Current) -> String {
    format!(
        "generation {} could not be taken back to generation {}, which all other hosts have, so that no \
         step is taken (--trust names more keys)",
        current.generation, current.before
    )
}

fn step_text(current: &Current, generation: &Generation, (window, step): &(i64, Step)) -> String {
    let waves = &generation.waves;
    let begins_s = current.begins_s(waves, *window);
    let became = match step {
        Step::Wait => "goes on".to_owned(),
        Step::Hold => "is held: a gate is suspicious, and the same hosts have it once more".into(),
        Step::Repeat => {
            "is held: hosts that had no rows have some now, and the same hosts have it once more"
                .into()
        }
        Step::Next => {
            let share = waves.shares.get(current.wave + 1).copied().unwrap_or(1.0);
            format!("is good: the next one has {}", words::wave(share))
        }
        Step::Done => "is over: all hosts have it".into(),
        Step::Undo(_) => "does harm".into(),
    };
    format!(
        "generation {}, window of {}: wave {} {became}",
        current.generation,
        words::utc(begins_s),
        current.wave + 1
    )
}

fn missing_text(current: &Current, generation: &Generation, window: i64) -> String {
    format!(
        "generation {}: no host has rows from {} on, so nobody knows whether it does harm: the lease \
         is not renewed for them, and at {} hosts go back to nothing by themselves; see whether \
         `transom-fleet ship` runs on them, and --from",
        current.generation,
        words::utc(current.begins_s(&generation.waves, window)),
        words::utc(current.ends_s())
    )
}

fn silent_text(current: &Current, Silence { gate, hosts, of }: &Silence) -> String {
    let shown = hosts.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = hosts.len().saturating_sub(5);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let who = match hosts.len() {
        0 => "the hosts that have it have too few".to_owned(),
        n => format!("{n} of {of} hosts ({shown}{more}) have no"),
    };
    format!(
        "generation {}: wave {} is held: while they have it, {who} rows for gate {gate}, and nobody \
         knows whether it does harm; the lease is not renewed, and at {} hosts go back to nothing by \
         themselves, unless rows come; see whether connections still end there, `transom-fleet ship` \
         and `transom tune follow` run and have the same --host, and {} reaches {} in a window, \
         the last number of --gate",
        current.generation,
        current.wave + 1,
        words::utc(current.ends_s()),
        gate.metric.per,
        gate.least
    )
}

/// A generation with what was there before, for all hosts at once.
fn undo(
    place: &Place,
    state: &State,
    next: &Current,
    decision: &Decision,
    now_s: u64,
) -> Result<String> {
    let number = place.add_older(next, next.before)?;
    let because = because(next.generation, decision);
    let current = Current::for_all(number, next, Some(&decision.by.gate), &because, now_s);
    place.swap(Some(&state.last()), &current)?;
    let has = match next.before {
        0 => "nothing".to_owned(),
        before => format!("the policy of generation {before}"),
    };
    Ok(format!("generation {number} takes it back: all hosts have {has}; {because}"))
}

fn because(generation: u64, decision: &Decision) -> String {
    let Decision { by, bound } = decision;
    let found = by.change.map_or("worse".to_owned(), words::interval);
    let at = match &by.worst[..] {
        [(host, _)] => format!(" at {host}"),
        _ => String::new(),
    };
    format!(
        "gate {} of generation {generation} found {found}{at}; hosts that had it: {}, without it: {}; the \
         chance of that is {}, and it is undone below {bound:.1e}",
        by.gate,
        by.treated,
        by.outside,
        words::chance(by.chance_of_mean.min(by.chance_of_hosts))
    )
}

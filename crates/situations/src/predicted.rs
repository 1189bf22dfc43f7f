//! How near predictions came to what was then recorded.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};
use transom_analysis::{Analysis, Recording, analyse};
use transom_event::Endpoints;
use transom_predict::{Measured, fit, of_connection};
use transom_trace::Reader;

use crate::catalogue::Situation;
use crate::network::PORT;

/// Settings that differ by less than this share are as good as one another.
const DIFFERENT: f64 = 0.1;
/// What `whatif` ends with when it predicts nothing.
const REFUSED: i32 = 3;

/// One pair (path, change).
#[derive(Clone, Debug)]
pub struct Pair {
    pub path: String,
    pub change: String,
    /// Goodput, Mbit/s.
    pub before: f64,
    pub after: f64,
    /// Median, least and greatest; or why there is none.
    pub predicted: Result<[f64; 3], String>,
    pub seconds: f64,
}

impl Pair {
    /// Predicted ÷ recorded.
    pub fn ratio(&self) -> Option<f64> {
        self.predicted.as_ref().ok().map(|it| it[0] / self.after)
    }
}

/// The recorded connection of a trace, in its recording.
fn connection(file: &Path) -> Result<(Recording, Analysis)> {
    let mut recording = Recording::default();
    for event in Reader::open(file)? {
        recording.push(&event?);
    }
    let is_ours = |ends: Endpoints| ends.remote.port() == PORT;
    let found = analyse(&recording).into_iter().find(|it| it.ends.is_some_and(is_ours));
    let analysis = found.with_context(|| format!("{}: no connection", file.display()))?;
    Ok((recording, analysis))
}

/// # Errors
/// If the trace cannot be read or has no such connection.
pub fn measured(file: &Path) -> Result<Measured> {
    let (recording, analysis) = connection(file)?;
    let found = recording.connection(analysis.cookie).context("it has it")?;
    let length = found.last_ns.saturating_sub(found.first_ns) as f64 / 1e9;
    Ok(of_connection(found, &analysis, length, length))
}

/// A number of a path as it was built and as it was fitted.
#[derive(Clone, Debug)]
pub struct Fitted {
    pub path: String,
    pub what: &'static str,
    pub built: f64,
    /// Value, least and greatest.
    pub found: [f64; 3],
}

/// What was fitted to a trace, beside what was built; nothing where no path could be fitted.
///
/// # Errors
/// If the trace cannot be read or has no such connection.
pub fn fitted(situation: &Situation, file: &Path) -> Result<Vec<Fitted>> {
    let (recording, analysis) = connection(file)?;
    let found = recording.connection(analysis.cookie).context("it has it")?;
    let Ok(models) = fit(found, &analysis, &recording) else { return Ok(Vec::new()) };
    let (path, up) = (&situation.path, situation.path.get("up").and_then(Value::as_table));
    let number = |table: Option<&Table>, key: &str| {
        let value = table?.get(key)?;
        value.as_float().or_else(|| value.as_integer().map(|it| it as f64))
    };
    let built = [
        ("round trip", number(Some(path), "rtt_ms")),
        ("rate", number(up, "rate_mbit")),
        ("queue", number(up, "queue_packets")),
        ("policed rate", number(up, "police_mbit")),
        ("burst", number(up, "police_burst_bytes").map(|it| it / 1e3)),
        ("loss", number(up, "loss").map(|it| it * 100.0)),
    ];
    let parameters = models[0].parameters();
    let both = built.into_iter().filter_map(|(what, built)| {
        let (_, _, scale, it) = parameters.iter().find(|it| it.0 == what)?;
        let high = it.high.unwrap_or(f64::INFINITY);
        let found = [it.value, it.low, high].map(|it| it * scale);
        Some(Fitted { path: situation.name.clone(), what, built: built?, found })
    });
    Ok(both.collect())
}

/// Fitted ÷ built, number by number.
pub fn fits(all: &[Fitted]) -> String {
    let mut text = String::from(
        "| number | paths | left open | fitted ÷ built: median | 90 % between | built value in the interval |\n|---|---|---|---|---|---|\n",
    );
    for what in ["round trip", "rate", "queue", "policed rate", "burst", "loss"] {
        let of: Vec<&Fitted> = all.iter().filter(|it| it.what == what).collect();
        let closed: Vec<&&Fitted> = of.iter().filter(|it| it.found[2].is_finite()).collect();
        let mut ratios: Vec<f64> = closed.iter().map(|it| it.found[0] / it.built).collect();
        ratios.sort_by(f64::total_cmp);
        let inside =
            of.iter().filter(|it| it.found[1] <= it.built && it.built <= it.found[2]).count();
        let _ = writeln!(
            text,
            "| {what} | {} | {} | {:.3} | {:.3} to {:.3} | {inside} of {} |",
            of.len(),
            of.len() - closed.len(),
            quantile(&ratios, 0.5),
            quantile(&ratios, 0.05),
            quantile(&ratios, 0.95),
            of.len(),
        );
    }
    text
}

/// Asks `transom whatif` about the first trace, and measures the second.
///
/// # Errors
/// If a trace cannot be read, or the program fails in another way than by a refusal.
pub fn ask(
    transom: &Path,
    budget: &str,
    [before, after]: [&Path; 2],
    arguments: &[String],
) -> Result<Pair> {
    let began = std::time::Instant::now();
    let port = format!(":{PORT}");
    let output = Command::new(transom)
        .args(["whatif", "--json", "--budget", budget, "--connection", &port])
        .arg(before)
        .args(arguments)
        .output()?;
    let seconds = began.elapsed().as_secs_f64();
    let errors = String::from_utf8_lossy(&output.stderr);
    let predicted = match output.status.code() {
        Some(0 | REFUSED) => predicted(&serde_json::from_slice(&output.stdout)?),
        Some(1) if errors.contains("no path can be fitted") => {
            Err(errors.lines().last().unwrap_or_default().to_owned())
        }
        _ => {
            ensure!(output.status.success(), "transom whatif {}: {errors}", before.display());
            Err(errors.into_owned())
        }
    };
    let name = before.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Pair {
        path: name.into_owned(),
        change: arguments.join(" ").replace("--", ""),
        before: measured(before)?.goodput_mbit,
        after: measured(after)?.goodput_mbit,
        predicted,
        seconds,
    })
}

fn predicted(answer: &serde_json::Value) -> Result<[f64; 3], String> {
    let result = &answer["result"];
    let mismatches = result["mismatches"].as_array().cloned().unwrap_or_default();
    if !mismatches.is_empty() {
        let texts = mismatches.iter().filter_map(|it| it["text"].as_str());
        return Err(texts.collect::<Vec<_>>().join(" "));
    }
    let prediction = &result["predictions"][0];
    let numbers = ["value", "low", "high"].map(|key| prediction["goodput_mbit"][key].as_f64());
    let [Some(value), Some(low), Some(high)] = numbers else {
        return Err("no simulation was finished".to_owned());
    };
    match prediction["is_open"].as_bool() {
        Some(true) => Err(format!("open: {low:.2} to {high:.2} Mbit/s")),
        _ => Ok([value, low, high]),
    }
}

/// A share of the sorted values.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len().max(1) - 1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// All pairs as a table, and how near they came.
pub fn report(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "| path | change | before | after | predicted | predicted ÷ after |\n|---|---|---|---|---|---|\n",
    );
    for pair in pairs {
        let Pair { path, change, before, after, .. } = pair;
        let predicted = match &pair.predicted {
            Ok([value, low, high]) => format!("{value:.2} ({low:.2} to {high:.2})"),
            Err(why) => format!("refused: {why}"),
        };
        let ratio = pair.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "| {path} | {change} | {before:.2} | {after:.2} | {predicted} | {ratio} |"
        );
    }
    text.push('\n');
    text.push_str(&score(pairs));
    text
}

fn score(pairs: &[Pair]) -> String {
    let mut apart: Vec<f64> =
        pairs.iter().filter_map(Pair::ratio).map(|ratio| ratio.ln().abs().exp() - 1.0).collect();
    apart.sort_by(f64::total_cmp);
    let answered: Vec<&Pair> = pairs.iter().filter(|pair| pair.predicted.is_ok()).collect();
    let (mut named, mut right) = (0, 0);
    let mut decide = |a: [f64; 2], b: [f64; 2]| {
        let [predicted, real] = [0, 1].map(|i| (b[i] / a[i]).ln());
        if real.abs() >= (1.0 + DIFFERENT).ln() {
            named += 1;
            right += usize::from(predicted.signum() == real.signum());
        }
    };
    let of = |pair: &Pair| pair.predicted.as_ref().map_or(0.0, |it| it[0]);
    for (i, pair) in answered.iter().enumerate() {
        decide([pair.before, pair.before], [of(pair), pair.after]);
        for other in answered[..i].iter().filter(|other| other.path == pair.path) {
            decide([of(other), other.after], [of(pair), pair.after]);
        }
    }
    let within = answered.iter().filter(|pair| {
        pair.predicted.as_ref().is_ok_and(|it| it[1] <= pair.after && pair.after <= it[2])
    });
    let seconds: Vec<f64> = {
        let mut all: Vec<f64> = pairs.iter().map(|pair| pair.seconds).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    format!(
        "{} pairs, {} refused ({:.0} %). Predicted and recorded differ by {:.1} % at the median, {:.1} % at the 90th percentile, {:.1} % at most; {} of {} recorded values lie in the interval. Of settings that differ by 10 % or more the better one was named in {right} of {named}. An answer took {:.1} s at the median, {:.1} s at most.\n",
        pairs.len(),
        pairs.len() - answered.len(),
        100.0 * (pairs.len() - answered.len()) as f64 / pairs.len().max(1) as f64,
        100.0 * quantile(&apart, 0.5),
        100.0 * quantile(&apart, 0.9),
        100.0 * quantile(&apart, 1.0),
        within.count(),
        answered.len(),
        quantile(&seconds, 0.5),
        quantile(&seconds, 1.0),
    )
}

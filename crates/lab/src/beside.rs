//! Results of virtual beside those of real time, as one Markdown document: what each claim's number
//! and verdict are in both, and what both took.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::claims::{Judged, Outcome, Verdict};
use crate::measure::median;
use crate::page::results::Results;
use crate::page::text::{interval, short};
use crate::progress::clock;
use crate::run::once::Report;
use crate::simulated;
use crate::sweep::{Point, points};

/// Numbers that differ by more are marked.
const MARKED: f64 = 0.1;
/// Half of that, for the summary.
const CLOSE: f64 = 0.05;

/// An experiment's results in both times.
struct Pair {
    real: Results,
    simulated: Option<Results>,
}

/// A claim in both.
struct Row {
    real: Verdict,
    simulated: Verdict,
    /// Virtual less real, as a share of real; none without two numbers.
    difference: Option<f64>,
}

/// The document of two folders, each of one experiment's results or of several experiments'.
///
/// # Errors
/// If a folder holds no results, or of another kind of time, or no experiment is in both.
pub fn document(real: &Path, simulated: &Path) -> Result<String> {
    let (real, mut simulated) = (folder(real, false)?, folder(simulated, true)?);
    let mut pairs = Vec::new();
    for real in real {
        let at = simulated.iter().position(|other| other.loaded.name == real.loaded.name);
        let simulated = at.map(|at| simulated.remove(at));
        pairs.push(Pair { real, simulated });
    }
    ensure!(
        pairs.iter().any(|pair| pair.simulated.is_some()),
        "no experiment is in both folders: run it in both times first"
    );
    Ok(written(&pairs))
}

/// Results in a folder itself, or in each folder below it, in the order of their names.
fn folder(directory: &Path, is_virtual: bool) -> Result<Vec<Results>> {
    let mut folders = vec![directory.to_owned()];
    if !directory.join("experiment.toml").exists() {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let below = entries.map(|entry| entry.path());
        folders = below.filter(|path| has_finished_runs(path)).collect();
        folders.sort();
    }
    let all = folders.iter().map(|path| Results::read(path)).collect::<Result<Vec<_>>>()?;
    ensure!(!all.is_empty(), "{} holds no results", directory.display());
    for results in &all {
        ensure!(
            results.is_virtual() == is_virtual,
            "{} holds results of {} time: name the folder of real time first",
            results.directory.display(),
            if is_virtual { "real" } else { "virtual" }
        );
    }
    Ok(all)
}

/// A campaign that runs on has folders that it has not come to.
fn has_finished_runs(directory: &Path) -> bool {
    directory.join("experiment.toml").exists() && Results::read(directory).is_ok()
}

impl Pair {
    fn rows(&self) -> Vec<Row> {
        let Some(simulated) = &self.simulated else { return Vec::new() };
        let others = simulated.verdicts();
        let both = self.real.verdicts().into_iter().filter_map(|real| {
            let simulated = others.iter().find(|other| other.text == real.text)?.clone();
            let difference = difference(&real.judged, &simulated.judged);
            Some(Row { real, simulated, difference })
        });
        both.collect()
    }
}

fn difference(real: &Judged, simulated: &Judged) -> Option<f64> {
    let (real, simulated) = (real.number?, simulated.number?);
    match real {
        0.0 if simulated == 0.0 => Some(0.0),
        0.0 => Some(f64::INFINITY),
        real => Some((simulated - real) / real.abs()),
    }
}

fn written(pairs: &[Pair]) -> String {
    let all: Vec<Vec<Row>> = pairs.iter().map(Pair::rows).collect();
    let mut text = format!(
        "# Virtual beside real time\n\nWritten by `transom lab report --beside`. {}\n\n{}\n\n",
        opening(pairs),
        summary(&all.iter().flatten().collect::<Vec<_>>())
    );
    text += "| experiment | runs, real | virtual | took, real | virtual | same verdicts |\n\
             |---|---|---|---|---|---|\n";
    for (pair, rows) in pairs.iter().zip(&all) {
        text += &line(pair, rows);
    }
    for (pair, rows) in pairs.iter().zip(&all).filter(|(_, rows)| !rows.is_empty()) {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n| claim | real | 95 % interval | virtual | 95 % interval | \
             difference | verdict, real | virtual |\n|---|---|---|---|---|---|---|---|\n",
            pair.real.loaded.name, pair.real.loaded.experiment.title
        );
        rows.iter().for_each(|row| text += &claim(row));
    }
    text
}

fn opening(pairs: &[Pair]) -> String {
    let kernel =
        pairs[0].real.manifest["machine"]["kernel"].as_str().unwrap_or("an unknown kernel");
    let kernel = kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let simulated = pairs.iter().filter_map(|pair| pair.simulated.as_ref());
    let kernels = simulated.flat_map(|results| {
        let all = results.manifest["virtual_time"]["simulated_kernels"].as_array();
        all.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned))
    });
    let kernels: std::collections::BTreeSet<String> = kernels.collect();
    let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
    format!(
        "Real runs: {kernel}, with iperf. Virtual runs: Linux {kernels}, by `transom-simulate`. \
         What both took is added up run by run. A difference is that of the virtual number from \
         the real one, as a share of the real one; above {:.0} % it is bold. Where the intervals \
         overlap, chance may have made it.",
        100.0 * MARKED
    )
}

/// `Of 98 claims with a number in both, …`.
fn summary(rows: &[&Row]) -> String {
    let sizes: Vec<f64> = rows.iter().filter_map(|row| row.difference.map(f64::abs)).collect();
    let within = |share: f64| sizes.iter().filter(|size| **size <= share).count();
    let overlapping =
        rows.iter().filter(|row| row.is_marked() && row.overlaps() == Some(true)).count();
    let judged: Vec<&&Row> = rows.iter().filter(|row| row.is_run()).collect();
    let same = judged.iter().filter(|row| row.is_same()).count();
    let middle = median(&sizes).map(|size| format!("{:.1} %", 100.0 * size));
    let Some(middle) = middle else { return "No claim has a number in both.".to_owned() };
    format!(
        "Of {} claims with a number in both, {} are within {:.0} % and {} within {:.0} %; the median \
         difference is {middle}. Of the {} others, the intervals of {overlapping} overlap. {same} of \
         {} verdicts are the same.",
        sizes.len(),
        within(CLOSE),
        100.0 * CLOSE,
        within(MARKED),
        100.0 * MARKED,
        sizes.len() - within(MARKED),
        judged.len(),
    )
}

/// Of one experiment.
fn line(pair: &Pair, rows: &[Row]) -> String {
    let name = &pair.real.loaded.name;
    let (runs, seconds) = taken(&pair.real);
    let Some(simulated) = &pair.simulated else {
        let points = points(&pair.real.loaded, false);
        let why = points.iter().flat_map(|it| simulated::obstacles(&it.experiment)).next();
        let why = why.unwrap_or_else(|| "not run".to_owned());
        return format!("| {name} | {runs} | | {} | | {why} |\n", clock(seconds));
    };
    let (virtual_runs, virtual_seconds) = taken(simulated);
    let same = rows.iter().filter(|row| row.is_run() && row.is_same()).count();
    let judged = rows.iter().filter(|row| row.is_run()).count();
    format!(
        "| [{name}](#{name}) | {runs} | {virtual_runs} | {} | {} | {same} of {} |\n",
        clock(seconds),
        clock(virtual_seconds),
        judged
    )
}

/// Finished runs, and the seconds that they took.
fn taken(results: &Results) -> (usize, f64) {
    let folders = points(&results.loaded, false).iter().map(Point::folder);
    let runs = folders.flat_map(|folder| {
        let entries = std::fs::read_dir(results.directory.join(folder)).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    });
    let finished = runs.filter(|run| run.join("measured.json").exists());
    let seconds: Vec<f64> =
        finished.filter_map(|run| Report::read(&run)).map(|report| report.seconds).collect();
    (seconds.len(), seconds.iter().sum())
}

impl Row {
    fn is_marked(&self) -> bool {
        self.difference.is_some_and(|difference| difference.abs() > MARKED)
    }

    /// None: one of them has no interval.
    fn overlaps(&self) -> Option<bool> {
        let ((low, high), (least, most)) =
            (self.real.judged.interval?, self.simulated.judged.interval?);
        Some(low <= most && least <= high)
    }

    /// In both times.
    fn is_run(&self) -> bool {
        let is_run = |verdict: &Verdict| !matches!(verdict.judged.outcome, Outcome::NotRun { .. });
        is_run(&self.real) && is_run(&self.simulated)
    }

    fn is_same(&self) -> bool {
        let kind = |verdict: &Verdict| std::mem::discriminant(&verdict.judged.outcome);
        kind(&self.real) == kind(&self.simulated)
    }
}

fn claim(row: &Row) -> String {
    let number = |verdict: &Verdict| verdict.judged.number.map(short).unwrap_or_default();
    let difference = row.difference.map_or(String::new(), |difference| {
        let percent = match difference.is_finite() {
            true => format!("{:+.1} %", 100.0 * difference),
            false => "from 0".to_owned(),
        };
        match (row.is_marked(), row.overlaps()) {
            (false, _) => percent,
            (true, Some(true)) => format!("**{percent}**, intervals overlap"),
            (true, _) => format!("**{percent}**"),
        }
    });
    format!(
        "| {} | {} | {} | {} | {} | {difference} | {} | {} |\n",
        row.real.text.replace('|', "\\|"),
        number(&row.real),
        interval(&row.real.judged),
        number(&row.simulated),
        interval(&row.simulated.judged),
        in_a_word(&row.real),
        in_a_word(&row.simulated)
    )
}

fn in_a_word(verdict: &Verdict) -> &'static str {
    match verdict.judged.outcome {
        Outcome::Reproduced => "reproduced",
        Outcome::NotReproduced { .. } => "not reproduced",
        Outcome::Undecided { .. } => "undecided",
        Outcome::NotRun { .. } => "not run",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::made_up;

    /// The made-up results, real and virtual, the virtual ones with this goodput in all runs.
    fn folders(mbit: f64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for kind in ["real", "virtual"] {
            let directory = folder.path().join(kind).join("made-up");
            fs::create_dir_all(&directory).unwrap();
            made_up::results(&directory, false);
        }
        let directory = folder.path().join("virtual/made-up");
        let manifest = fs::read_to_string(directory.join("manifest.json")).unwrap();
        let manifest = manifest.replacen(
            '{',
            "{\"backend\": \"virtual\", \"virtual_time\": {\"simulated_kernels\": [\"6.12.0\"]}, ",
            1,
        );
        fs::write(directory.join("manifest.json"), manifest).unwrap();
        for run in Results::read(&directory).unwrap().runs {
            let path = directory.join(run.below).join("measured.json");
            let mut measured = run.measured;
            measured.flows.get_mut("up").unwrap().insert("goodput_mbit".into(), mbit);
            fs::write(path, serde_json::to_vec(&measured).unwrap()).unwrap();
        }
        folder
    }

    fn of(folder: &tempfile::TempDir) -> String {
        document(&folder.path().join("real"), &folder.path().join("virtual")).unwrap()
    }

    fn row<'a>(text: &'a str, claim: &str) -> &'a str {
        text.lines().find(|line| line.contains(claim)).unwrap()
    }

    #[test]
    fn numbers_and_verdicts_stand_side_by_side() {
        let text = of(&folders(9.5));
        // Really 9 and 10 Mbit/s in the two repeats.
        let same = row(&text, "It is between nine and ten");
        assert!(same.contains("| 9.50 | 3.15 to 15.9 | 9.50 | 9.50 to 9.50 | +0.0 % |"), "{same}");
        assert!(same.ends_with("| undecided | reproduced |"), "{same}");
        assert!(text.contains("Linux 6.18, with iperf. Virtual runs: Linux 6.12.0"), "{text}");
        assert!(text.contains("| [made-up](#made-up) |"), "{text}");
    }

    #[test]
    fn what_differs_by_more_than_a_tenth_is_marked_and_chance_is_named() {
        let marked = of(&folders(12.0));
        let row_at_zero = row(&marked, "It is between nine and ten");
        assert!(row_at_zero.contains("| **+26.3 %**, intervals overlap |"), "{row_at_zero}");
        let near = of(&folders(10.0));
        assert!(row(&near, "It is between nine and ten").contains("| +5.3 % |"));
    }

    #[test]
    fn without_claims_nothing_is_summed_up() {
        assert_eq!(summary(&[]), "No claim has a number in both.");
    }

    #[test]
    fn a_claim_that_was_run_in_one_time_only_has_no_verdict_to_compare() {
        let folder = folders(9.5);
        assert!(of(&folder).contains(" of 5 verdicts are the same"));
        // Two of the claims are about both points.
        fs::remove_dir_all(folder.path().join("virtual/made-up/runs/rtt-ms-64")).unwrap();
        let text = of(&folder);
        assert!(text.contains(" of 3 verdicts are the same"), "{text}");
    }

    #[test]
    fn the_folders_must_be_of_both_times_in_their_order() {
        let folder = folders(9.5);
        let (real, simulated) = (folder.path().join("real"), folder.path().join("virtual"));
        let error = document(&simulated, &real).unwrap_err().to_string();
        assert!(
            error.contains("holds results of virtual time: name the folder of real"),
            "{error}"
        );
        let error = document(&real, &folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("holds no results"), "{error}");
    }
}

//! Several folders of results as one Markdown document: `docs/results.md`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::results::Results;
use super::text::{self, bounds, interval, remarks, short};
use super::{Count, put};
use crate::claims::Verdict;

/// How to read the tables.
const HOW: &str = "A claim is reproduced if the 95 % confidence interval of its number lies within \
    the bounds, not reproduced if it lies outside, and else undecided with so many repeats. A \
    calibrated claim is about a number that was put in: it is shown and not counted. How both are \
    computed, and what a control is: [experiments](experiments.md#claims).";
/// Where the pictures go, beside the document.
const PICTURES: &str = "img/results";

/// Writes the document and, beside it, the pictures that the folders hold already.
///
/// # Errors
/// If a folder holds no results, or a file cannot be read or written.
pub fn write(directories: &[&Path], document: &Path) -> Result<()> {
    let all = directories.iter().map(|path| Results::read(path)).collect::<Result<Vec<_>>>()?;
    let beside = document.parent().unwrap_or(Path::new(""));
    let mut text = opening(&all);
    for results in &all {
        text += &section(results, &pictures(results, beside)?);
    }
    put(document, text.as_bytes())
}

fn opening(all: &[Results]) -> String {
    let mut text = "# Results\n\nWhat the experiments claim, and what was measured on the \
                    testbed. Written by `make experiments`. "
        .to_owned();
    if let Some(machine) = all.iter().map(machine).find(|machine| !machine.is_empty()) {
        let _ = write!(text, "Measured on {machine}.");
    }
    text += "\n\n| experiment | runs | reproduced | not reproduced | \
             undecided | passed by a control, too | control undecided or not run | calibrated \
             |\n|---|---|---|---|---|---|---|---|\n";
    let mut sum = Count::default();
    for results in all {
        let count = Count::of(&results.verdicts());
        let (name, title) = (&results.loaded.name, &results.loaded.experiment.title);
        let runs = results.runs.len();
        let of_controls: usize = results.controls.values().map(Vec::len).sum();
        let controls =
            if of_controls > 0 { format!(" + {of_controls} of controls") } else { String::new() };
        let _ = writeln!(
            text,
            "| [{name}](#{name}): {title} | {runs}{controls} | {} of {} | {} | {} | {} | {} | {} |",
            count.reproduced,
            count.all(),
            count.not_reproduced,
            count.undecided,
            count.also_by_control,
            count.control_open,
            count.calibrated,
        );
        sum = sum + count;
    }
    let _ = writeln!(text, "\n{}. {HOW}\n", sum.in_words());
    text
}

/// Processor, kernel, day.
fn machine(results: &Results) -> String {
    let machine = &results.manifest["machine"];
    let fact = |key: &str| machine[key].as_str().map(str::to_owned);
    let day = results.manifest["started"].as_str().and_then(|time| time.get(..10));
    let kernel = fact("kernel")
        .map(|kernel| kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
    let cores = machine["processors"].as_u64().map(|cores| format!("{cores} cores"));
    let facts = [fact("processor"), cores, kernel, day.map(str::to_owned)];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn section(results: &Results, pictures: &[(String, PathBuf)]) -> String {
    let experiment = &results.loaded.experiment;
    let mut text = format!(
        "## {}\n\n{} ({}). {}\n\n{}\n\n",
        results.loaded.name,
        experiment.title,
        experiment.source,
        experiment.question,
        form(results)
    );
    text += "| claim | ours | 95 % interval | wanted | published | |\n|---|---|---|---|---|---|\n";
    for verdict in results.verdicts() {
        text += &row(&verdict);
    }
    for (title, path) in pictures {
        let _ = write!(text, "\n![{title}]({})\n", path.display());
    }
    if !experiment.differs.is_empty() {
        text += "\nWhat differs from the paper's system:\n\n";
        for sentence in &experiment.differs {
            let _ = writeln!(text, "- {sentence}");
        }
    }
    text + "\n"
}

/// When and with what it was measured, and whether it was all that the experiment asks for.
fn form(results: &Results) -> String {
    let manifest = &results.manifest;
    let day = manifest["started"].as_str().and_then(|time| time.get(..10)).unwrap_or("unknown day");
    let version = manifest["programs"][0]["version"].as_str().unwrap_or("unknown version");
    let wanted = results.loaded.experiment.repeats;
    let repeats = results.runs.iter().map(|run| run.measured.repeat).max().unwrap_or(0);
    let whole = results.whole_repeats();
    let quick = manifest["quick"].as_bool().unwrap_or(false);
    let form = match (quick, whole < wanted as usize) {
        (true, _) => "only the short form (`--quick`)".to_owned(),
        (false, true) => format!("{whole} of {wanted} repeats with all points"),
        (false, false) => format!("in full ({repeats} repeats)"),
    };
    let mut text = format!("Measured on {day} with transom {version}: {form}.");
    if let Some(time) = text::virtual_time(manifest) {
        let _ = write!(text, " {time}");
    }
    if let late @ 1.. = manifest["late"].as_u64().unwrap_or(0) {
        let _ = write!(text, " {late} runs were kept though the machine was too busy.");
    }
    text
}

fn row(verdict: &Verdict) -> String {
    let number = |value: Option<f64>| value.map(short).unwrap_or_default();
    let (ours, published) = (number(verdict.judged.number), number(verdict.published));
    let remarks: String = remarks(verdict).iter().map(|it| format!("<br>*{it}*")).collect();
    format!(
        "| {} | {ours} | {} | {} | {published} | {} |\n",
        format!("{}{remarks}", verdict.text).replace('|', "\\|"),
        interval(&verdict.judged),
        bounds(verdict),
        text::verdict(verdict)
    )
}

/// Title and path, seen from the document, of each figure.
fn pictures(results: &Results, beside: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut copied = Vec::new();
    for (n, figure) in results.loaded.experiment.figures.iter().enumerate() {
        let from = results.directory.join(format!("figure-{}.png", n + 1));
        if !from.exists() {
            continue;
        }
        let path = Path::new(PICTURES).join(format!("{}-{}.png", results.loaded.name, n + 1));
        let to = beside.join(&path);
        std::fs::create_dir_all(to.parent().unwrap_or(beside))
            .with_context(|| format!("cannot make {}", beside.join(PICTURES).display()))?;
        std::fs::copy(&from, &to)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        copied.push((figure.title.clone(), path));
    }
    Ok(copied)
}

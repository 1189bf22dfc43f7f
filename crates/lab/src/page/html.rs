//! The page: plain HTML and SVG, no script.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;
use transom_view::report::{escape, fill};

use super::text::{self, bounds, interval, remarks, short};
use super::{Count, Drawn, Results, heading};
use crate::claims::{Outcome, Verdict};
use crate::measure::median;
use crate::sweep::{CONTROLS, canonical};

const TEMPLATE: &str = include_str!("../../assets/page.html");
/// A metric of real runs only.
const LATENESS: &str = "lateness_p99_ms";
const STYLE: &str = include_str!("../../assets/page.css");

pub fn page(results: &Results, figures: &[Drawn]) -> String {
    let mut body = header(results);
    body += &claims(&results.verdicts());
    body += &drawings(figures);
    body += &table(results);
    let differs = &results.loaded.experiment.differs;
    if !differs.is_empty() {
        body += "<h2>What differs from the paper's system</h2>\n<ul>\n";
        for sentence in differs {
            let _ = writeln!(body, "<li>{}</li>", escape(sentence));
        }
        body += "</ul>\n";
    }
    body += &facts(results);
    whole(&results.loaded.experiment.title, &body)
}

/// A page around a body.
pub fn whole(title: &str, body: &str) -> String {
    let values = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("title", &escape(title)),
        ("style", STYLE),
        ("body", body),
    ];
    fill(TEMPLATE, &values)
}

fn header(results: &Results) -> String {
    let [title, source, question] = heading(&results.loaded).map(escape);
    let verdicts = results.verdicts();
    let quick = if results.manifest["quick"] == true { "quick, " } else { "" };
    let runs = results.runs.len() + results.controls.values().map(Vec::len).sum::<usize>();
    let noun = if runs == 1 { "run" } else { "runs" };
    let name = escape(&results.loaded.name);
    let claims = match verdicts.as_slice() {
        [] => String::new(),
        verdicts => format!(" <span>{}</span>", Count::of(verdicts).in_words()),
    };
    let time = virtual_time(&results.manifest);
    format!(
        "<header>\n<h1>{title}</h1>\n<p>{question}</p>\n<p class=\"facts\"><span>{source}</span> \
         <span>{name}</span> <span>{quick}{runs} {noun}</span>{claims}</p>\n{time}</header>\n"
    )
}

/// That the runs were simulated, and what of the experiment could not be.
fn virtual_time(manifest: &Value) -> String {
    let Some(said) = text::virtual_time(manifest) else { return String::new() };
    let mut html = format!("<p class=\"virtual\">{}</p>\n", escape(&said));
    for reason in manifest["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(html, "<p class=\"soft-text\">Not simulated: {}.</p>", escape(reason));
    }
    html
}

fn claims(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut html = "<h2>Claims</h2>\n<div class=\"scroll\"><table><thead><tr><th>Claim</th>\
        <th></th><th class=\"number\">Measured</th><th class=\"number\">95 % interval</th>\
        <th class=\"number\">Wanted</th><th class=\"number\">Published</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for verdict in verdicts {
        let number = |number: Option<f64>| number.map(short).unwrap_or_default();
        let _ = writeln!(
            html,
            "<tr><td class=\"claim\">{}{}</td><td class=\"outcome{}\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td></tr>",
            escape(&verdict.text),
            remarks(verdict).iter().map(|remark| remarked(remark)).collect::<String>(),
            class(verdict),
            escape(&text::verdict(verdict)),
            number(verdict.judged.number),
            interval(&verdict.judged),
            bounds(verdict),
            number(verdict.published),
        );
    }
    html + "</tbody></table></div>\n"
}

pub fn class(verdict: &Verdict) -> &'static str {
    match verdict.judged.outcome {
        Outcome::Reproduced if verdict.is_evidence() => " yes",
        Outcome::NotReproduced { .. } if verdict.calibrated.is_none() => " no",
        _ => "",
    }
}

/// A line below the claim.
fn remarked(remark: &str) -> String {
    let class = if remark.starts_with("WARNING") { "no" } else { "soft-text" };
    format!("<br><small class=\"{class}\">{}</small>", escape(remark))
}

fn drawings(figures: &[Drawn]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut html = "<h2>Figures</h2>\n<div class=\"figures\">\n".to_owned();
    for (n, (title, drawn)) in figures.iter().enumerate() {
        let files = drawn.as_ref().map(|_| {
            let file = |ending: &str| {
                format!("<a href=\"figure-{}.{ending}\">{}</a>", n + 1, ending.to_uppercase())
            };
            format!("{}{}", file("svg"), file("png"))
        });
        let _ = writeln!(
            html,
            "<figure><figcaption>{}{}</figcaption>\n{}</figure>",
            escape(title),
            files.unwrap_or_default(),
            picture(drawn)
        );
    }
    html + "</div>\n"
}

pub fn picture(drawn: &Result<super::figure::canvas::Drawing, String>) -> String {
    match drawn {
        Ok(drawing) => drawing.inline(),
        Err(why) => format!("<p class=\"soft-text\">{}</p>", escape(why)),
    }
}

/// Median and spread of a list, as cells say it.
pub fn cell(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return String::new() };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 || short(low) == short(high) {
        return short(middle);
    }
    format!("{} <small>{} to {}</small>", short(middle), short(low), short(high))
}

fn table(results: &Results) -> String {
    let experiment = &results.loaded.experiment;
    let mut html =
        "<h2>Points</h2>\n<p class=\"soft-text\">Goodput in Mbit/s, median and spread of the repeats; \
         all numbers are in <a href=\"runs.csv\">runs.csv</a>.</p>\n<div class=\"scroll\"><table><thead><tr>"
            .to_owned();
    let number = |html: &mut String, words: &str| {
        let _ = write!(html, "<th class=\"number\">{}</th>", escape(words));
    };
    for key in experiment.sweep.keys() {
        number(&mut html, key);
    }
    for flow in experiment.flows.keys() {
        number(&mut html, flow);
    }
    if experiment.flows.len() > 1 {
        number(&mut html, "sum");
        number(&mut html, "Jain");
    }
    let is_late = |run: &super::results::Run| run.measured.run.contains_key(LATENESS);
    let has_lateness = results.runs.iter().any(is_late);
    if has_lateness {
        number(&mut html, "emulator late, p99 ms");
    }
    html += "<th>Runs</th></tr></thead>\n<tbody>\n";
    for runs in results.runs.chunk_by(|a, b| a.slug == b.slug) {
        html += "<tr>";
        for key in experiment.sweep.keys() {
            let value = runs[0].measured.point.get(key).map(canonical).unwrap_or_default();
            let _ = write!(html, "<td class=\"number\">{}</td>", escape(&value));
        }
        let mut put = |values: Vec<f64>| {
            let _ = write!(html, "<td class=\"number\">{}</td>", cell(&values));
        };
        let of_run = |metric: &str| {
            runs.iter().filter_map(|run| run.measured.run.get(metric).copied()).collect()
        };
        for flow in experiment.flows.keys() {
            let goodput = |run: &super::results::Run| {
                run.measured.flows.get(flow)?.get("goodput_mbit").copied()
            };
            put(runs.iter().filter_map(goodput).collect());
        }
        if experiment.flows.len() > 1 {
            put(of_run("sum_mbit"));
            put(of_run("jain"));
        }
        if has_lateness {
            put(of_run(LATENESS));
        }
        html += "<td>";
        for run in runs {
            let path = run.below.display().to_string();
            let _ = write!(html, "<a href=\"{}/\">{}</a> ", escape(&path), run.measured.repeat);
        }
        html += "</td></tr>\n";
    }
    html += "</tbody></table></div>\n";
    if !results.controls.is_empty() {
        let _ = writeln!(html, "<p class=\"soft-text\">Runs of controls are in {CONTROLS}/.</p>");
    }
    html + &traces(results)
}

/// Links to the traces of the first run, as examples of where they are.
fn traces(results: &Results) -> String {
    let Some(run) = results.runs.first() else { return String::new() };
    let folder = results.directory.join(&run.below);
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "parquet"))
        .collect();
    names.sort();
    if names.is_empty() {
        return String::new();
    }
    let link = |name: &String| {
        format!(
            "<a href=\"{}/{}\">{}</a>",
            escape(&run.below.display().to_string()),
            escape(name),
            escape(name)
        )
    };
    let links: Vec<String> = names.iter().map(link).collect();
    format!(
        "<p class=\"soft-text\">Each run's folder holds the trace of every host; of the first: {}. \
         <code>transom report</code> and <code>transom explain</code> read them.</p>\n",
        links.join(", ")
    )
}

/// What ran, where, with what: every plain value of the manifest.
fn facts(results: &Results) -> String {
    let mut rows = Vec::new();
    leaves("", &results.manifest, &mut rows);
    if rows.is_empty() {
        return String::new();
    }
    let mut html = "<h2>How it was run</h2>\n<dl>\n".to_owned();
    for (key, value) in rows {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(&key), escape(&value));
    }
    html + "</dl>\n"
}

fn leaves(key: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => match (map.get("name"), map.get("version")) {
            (Some(Value::String(name)), Some(Value::String(version))) => {
                rows.push((name.clone(), version.clone()));
            }
            _ => map.iter().for_each(|(key, value)| leaves(key, value, rows)),
        },
        Value::Array(list) => list.iter().for_each(|value| leaves(key, value, rows)),
        Value::String(text) if !text.is_empty() => rows.push((key.replace('_', " "), text.clone())),
        Value::Number(number) => rows.push((key.replace('_', " "), number.to_string())),
        Value::Bool(yes) => {
            rows.push((key.replace('_', " "), if *yes { "yes" } else { "no" }.to_owned()));
        }
        Value::String(_) | Value::Null => {}
    }
}

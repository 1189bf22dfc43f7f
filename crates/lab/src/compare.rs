//! Several folders of results beside one another: the same experiment on two kernels, before and
//! after a change, quick and full.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use transom_view::report::escape;

use crate::page::figure;
use crate::page::html::{cell, class, picture, whole};
use crate::page::results::Results;
use crate::page::text::{short, verdict as in_words};
use crate::sweep::canonical;

/// One page of all the folders; experiments of the same name stand in the same section.
///
/// # Errors
/// If a folder holds no results, or a trace that a figure needs cannot be read.
pub fn compare(directories: &[&Path]) -> Result<String> {
    ensure!(!directories.is_empty(), "name at least one folder of results");
    let mut sections: Vec<(String, Vec<Results>)> = Vec::new();
    for directory in directories {
        let results = Results::read(directory)?;
        match sections.iter_mut().find(|(name, _)| *name == results.loaded.name) {
            Some((_, all)) => all.push(results),
            None => sections.push((results.loaded.name.clone(), vec![results])),
        }
    }
    let mut body = "<header>\n<h1>Results beside one another</h1>\n</header>\n".to_owned();
    for (_, all) in &sections {
        body += &section(all)?;
    }
    Ok(whole("Results beside one another", &body))
}

fn section(all: &[Results]) -> Result<String> {
    let experiment = &all[0].loaded.experiment;
    let mut html = format!(
        "<h2>{}</h2>\n<p class=\"facts\"><span>{}</span></p>\n",
        escape(&experiment.title),
        escape(&experiment.source)
    );
    html += &claims(all);
    html += &points(all);
    for shown in &experiment.figures {
        let _ = writeln!(html, "<h3>{}</h3>\n<div class=\"figures\">", escape(&shown.title));
        for results in all {
            let same = results.loaded.experiment.figures.iter();
            let drawn = match same.clone().position(|other| other.title == shown.title) {
                Some(at) => figure::draw(results, at)?,
                None => Err("this folder has no such figure".to_owned()),
            };
            let _ = writeln!(
                html,
                "<figure><figcaption>{}</figcaption>\n{}</figure>",
                escape(&label(results)),
                picture(&drawn)
            );
        }
        html += "</div>\n";
    }
    Ok(html)
}

fn label(results: &Results) -> String {
    results.directory.display().to_string()
}

fn head(html: &mut String, first: &[String], all: &[Results]) {
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for words in first {
        let _ = write!(html, "<th>{}</th>", escape(words));
    }
    for results in all {
        let _ = write!(html, "<th>{}</th>", escape(&label(results)));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
}

fn claims(all: &[Results]) -> String {
    let mut html = String::new();
    head(&mut html, &["Claim".to_owned()], all);
    let verdicts: Vec<_> = all.iter().map(Results::verdicts).collect();
    for verdict in &verdicts[0] {
        let _ = write!(html, "<tr><td class=\"claim\">{}</td>", escape(&verdict.text));
        for other in &verdicts {
            match other.iter().find(|other| other.text == verdict.text) {
                Some(other) => {
                    let number = other.judged.number.map(short).unwrap_or_default();
                    let outcome = escape(&in_words(other));
                    let class = class(other);
                    let _ = write!(html, "<td class=\"outcome{class}\">{number} {outcome}</td>");
                }
                None => html.push_str("<td></td>"),
            }
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Goodput of every flow at every point that any of the folders has.
fn points(all: &[Results]) -> String {
    let mut places: Vec<(&str, String)> = Vec::new();
    for run in all.iter().flat_map(|results| &results.runs) {
        if !places.iter().any(|(slug, _)| *slug == run.slug) {
            let pair =
                |(key, value): (&String, &toml::Value)| format!("{key} = {}", canonical(value));
            let label = run.measured.point.iter().map(pair).collect::<Vec<_>>().join(", ");
            places.push((&run.slug, label));
        }
    }
    let mut html =
        "<p class=\"soft-text\">Goodput in Mbit/s, median and spread of the repeats.</p>\n"
            .to_owned();
    head(&mut html, &["Point".to_owned(), "Flow".to_owned()], all);
    for (slug, label) in &places {
        for flow in all[0].loaded.experiment.flows.keys() {
            let _ = write!(html, "<tr><td>{}</td><td>{}</td>", escape(label), escape(flow));
            for results in all {
                let here = results.runs.iter().filter(|run| run.slug == *slug);
                let values: Vec<f64> = here
                    .filter_map(|run| run.measured.flows.get(flow)?.get("goodput_mbit").copied())
                    .collect();
                let _ = write!(html, "<td>{}</td>", cell(&values));
            }
            html.push_str("</tr>\n");
        }
    }
    html + "</tbody></table></div>\n"
}

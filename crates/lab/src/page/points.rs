//! The points of a sweep as a table for a terminal.

use std::fmt::Write;

use super::Results;
use super::text::short;
use crate::claims::interval;
use crate::measure::mean;
use crate::sweep::canonical;

/// Metrics of each flow, if they were measured.
const OF_FLOW: [&str; 3] = ["goodput_mbit", "srtt_ms", "retransmits"];
/// And of the run, where there are several flows.
const OF_RUN: [&str; 2] = ["sum_mbit", "jain"];

/// A line for each point: the swept values, and the means of the repeats with half of their 95 %
/// interval.
pub fn points(results: &Results) -> String {
    let experiment = &results.loaded.experiment;
    let keys: Vec<&String> = experiment
        .sweep
        .iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(key, _)| key)
        .collect();
    let several = experiment.flows.len() > 1;
    let of_flows = experiment.flows.keys().flat_map(|flow| OF_FLOW.map(|it| (Some(flow), it)));
    let of_run = OF_RUN.into_iter().filter(|_| several).map(|it| (None, it));
    let columns: Vec<(Option<&String>, &str)> = of_flows.chain(of_run).collect();
    let name = |(flow, metric): &(Option<&String>, &str)| match flow {
        Some(flow) if several => format!("{flow}.{metric}"),
        _ => (*metric).to_owned(),
    };
    let mut rows = vec![
        keys.iter().map(|it| (*it).clone()).chain(columns.iter().map(name)).collect::<Vec<_>>(),
    ];
    for runs in results.runs.chunk_by(|a, b| a.slug == b.slug) {
        let value = |key: &&String| runs[0].measured.point.get(*key).map(canonical);
        let values = keys.iter().map(|key| value(key).unwrap_or_default());
        let number = |(flow, metric): &(Option<&String>, &str)| {
            let of = |run: &super::results::Run| match flow {
                Some(flow) => run.measured.flows.get(*flow)?.get(*metric).copied(),
                None => run.measured.run.get(*metric).copied(),
            };
            cell(&runs.iter().filter_map(of).collect::<Vec<_>>())
        };
        rows.push(values.chain(columns.iter().map(number)).collect());
    }
    aligned(&rows)
}

fn cell(values: &[f64]) -> String {
    let Some(middle) = mean(values) else { return "-".to_owned() };
    match interval::of_mean(values) {
        Some((low, high)) if high > low => {
            format!("{} ± {}", short(middle), short((high - low) / 2.0))
        }
        _ => short(middle),
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    #[test]
    fn each_point_has_a_line_with_means_and_half_intervals() {
        let folder = tempfile::tempdir().unwrap();
        made_up::results(folder.path(), false);
        let text = points(&Results::read(folder.path()).unwrap());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
            .collect();
        assert_eq!(lines[0], ["path.rtt_ms", "goodput_mbit", "srtt_ms", "retransmits"]);
        assert_eq!(lines[1], ["0", "9.50 ± 6.35", "20.0", "4.00"]);
        assert_eq!(lines.len(), 3);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }
}

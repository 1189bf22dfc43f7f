//! The page: everything in one file, nothing fetched.

use serde_json::{Value, json};
use transom_analysis::{
    Analysis, Connection, Limit, Recording, Sample, Series, automatic_bin, thin_rows,
};

use super::crowd::{Buckets, fold, join};
use super::header::{escape, facts, notices};
use super::marks::{NAMES, bands, changes, errors};
use super::pack::Packer;
use super::rows;
use super::share::share;
use super::{Selection, Trace};

/// No page is larger than this, in bytes.
pub const PAGE_LIMIT: usize = 5_000_000;

/// Points of all curves together, before the size of the page is known.
const POINTS: usize = 250_000;
/// Points of one connection: what a browser redraws without a pause.
const POINTS_OF_ONE: usize = 100_000;
/// How many lines the charts take of each sort.
const LABELS: usize = 300;
const BINS: u64 = 400;
/// Curves that the charts have.
const CURVES: usize = 11;
/// Throughput is written in units of so many bit/s.
const RATE_UNIT: f64 = 100.0;

const TEMPLATE: &str = include_str!("../../assets/page/page.html");
const STYLE: &str = include_str!("../../assets/page/page.css");
const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const SCRIPTS: [&str; 5] = [
    include_str!("../../assets/page/unpack.js"),
    include_str!("../../assets/page/table.js"),
    include_str!("../../assets/page/steps.js"),
    include_str!("../../assets/page/charts.js"),
    include_str!("../../assets/page/main.js"),
];

/// The page of a recording: curves of the selected connections, a table of all.
///
/// # Errors
/// A connection was asked for that the recording does not have.
pub fn page(trace: &Trace, selection: &Selection) -> anyhow::Result<String> {
    let shown = selection.choose(&trace.analyses)?;
    let mut budget = POINTS;
    loop {
        let html = render(trace, &shown, budget);
        if html.len() < PAGE_LIMIT || budget < 100 {
            return Ok(html);
        }
        budget = (budget as f64 * 0.85 * PAGE_LIMIT as f64 / html.len() as f64) as usize;
    }
}

fn render(trace: &Trace, shown: &[&Analysis], budget: usize) -> String {
    let Trace { recording, analyses, meta } = trace;
    let shown: Vec<(&Analysis, &Connection)> = shown
        .iter()
        .filter_map(|&analysis| Some((analysis, recording.connection(analysis.cookie)?)))
        .collect();
    let wishes: Vec<usize> =
        shown.iter().map(|(_, connection)| connection.points.len().min(POINTS_OF_ONE)).collect();
    let mut packed = String::new();
    let mut about = serde_json::Map::new();
    for (&(analysis, connection), points) in shown.iter().zip(share(budget, &wishes)) {
        let (data, mut facts) = pack(connection, recording.start_ns, points);
        facts["limits"] = json!(limits(analysis));
        about.insert(analysis.cookie.to_string(), facts);
        packed += &format!(
            "<script type=\"application/octet-stream\" id=\"c{}\">{data}</script>\n",
            analysis.cookie
        );
    }
    let data = json!({
        "duration": recording.end_ns.saturating_sub(recording.start_ns) / 1000,
        "kinds": NAMES,
        "lost": lost(recording),
        "rows": rows::table(analyses, recording.start_ns),
        "all": analyses.len(),
        "about": about,
    });
    let title = if meta.source.is_empty() { "recording" } else { &meta.source };
    fill(
        TEMPLATE,
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("title", &escape(title)),
            ("style", &format!("{UPLOT_STYLE}\n{STYLE}")),
            ("facts", &facts(recording, meta)),
            ("notices", &notices(recording, meta)),
            ("data", &data.to_string().replace('<', "\\u003c")),
            ("packed", &packed),
            ("uplot", UPLOT),
            ("licence", UPLOT_LICENCE),
            ("scripts", &SCRIPTS.join("\n")),
        ],
    )
}

/// Replaces each `{{name}}` once, in one pass: what is filled in is not read again.
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text += before;
        let (name, after) = after.split_once("}}").expect("the template closes its braces");
        let value = values.iter().find(|(key, _)| *key == name);
        text += value.expect("the template names what there is").1;
        rest = after;
    }
    text + rest
}

/// When events were lost: µs since the start, how many; one entry a bucket.
fn lost(recording: &Recording) -> Vec<(u64, u64)> {
    let buckets = Buckets::new(recording.start_ns..recording.end_ns, 1000);
    let mut lost: Vec<(u64, u64)> = Vec::new();
    let mut last = None;
    for &(time_ns, _, count) in &recording.lost {
        let bucket = Some(buckets.of(time_ns));
        match lost.last_mut() {
            Some(entry) if bucket == last => entry.1 += u64::from(count),
            _ => lost.push((time_ns.saturating_sub(recording.start_ns) / 1000, count.into())),
        }
        last = bucket;
    }
    lost
}

/// What limited the connection, and for which share of its time.
fn limits(analysis: &Analysis) -> Vec<(&'static str, f64)> {
    let shares = Limit::ALL.iter().map(|&limit| (limit.label(), analysis.limits.share(limit)));
    shares.filter(|&(_, share)| share > 0.0).collect()
}

/// The curves of [`transom_analysis::CURVES`] that the charts have: all but the pacing rate.
fn drawn(sample: &Sample) -> [Option<u64>; CURVES] {
    let all = sample.curves();
    std::array::from_fn(|curve| all[curve])
}

/// The curves, marks and bands of one connection, and what was thinned of them.
fn pack(connection: &Connection, start_ns: u64, points: usize) -> (String, Value) {
    let micros = |ns: u64| ns.saturating_sub(start_ns) / 1000;
    let mut packer = Packer::default();
    let series = Series::of(connection);
    let samples = &series.samples;
    let time = |at: usize| samples[at].time_ns;
    let thinned = thin_rows(samples.len(), time, |at| drawn(&samples[at]), &[], points);
    let kept: Vec<&Sample> = thinned.kept.iter().map(|&at| &samples[at]).collect();
    packer.number(kept.len() as u64);
    packer.column(kept.iter().map(|sample| Some(micros(sample.time_ns))));
    let values: Vec<_> = kept.iter().map(|sample| drawn(sample)).collect();
    for curve in 0..CURVES {
        packer.column(values.iter().map(|values| values[curve]));
    }

    let bin_ns = automatic_bin(series.end_ns - series.start_ns, series.min_rtt_ns(), BINS);
    let throughput = series.throughput(Some(bin_ns));
    packer.number(micros(throughput.start_ns));
    packer.number(micros(throughput.end_ns));
    packer.number(throughput.bin_ns / 1000);
    packer.number(throughput.up.len() as u64);
    for rates in [&throughput.up, &throughput.down] {
        packer.column(rates.iter().map(|rate| Some((rate / RATE_UNIT).round() as u64)));
    }

    let errors = errors(connection, start_ns);
    let limit = (points / 2).max(500);
    let range = micros(connection.first_ns)..micros(connection.last_ns);
    let fine = Buckets::new(range, (limit / 4).max(100));
    let ticks = fold(fine, limit, &errors);
    packer.number(ticks.len() as u64);
    packer.column(ticks.iter().map(|tick| Some(tick.time)));
    packer.column(ticks.iter().map(|tick| Some(tick.kind.into())));
    packer.column(ticks.iter().map(|tick| Some(tick.count)));

    let all_bands = bands(connection, start_ns);
    let bands = join(fine, limit / 4, &all_bands);
    packer.number(bands.len() as u64);
    packer.column(bands.iter().map(|band| Some(band.from)));
    packer.column(bands.iter().map(|band| Some(band.to - band.from)));
    packer.column(bands.iter().map(|band| Some(band.state.into())));

    let changes = changes(connection, start_ns);
    let about = json!({
        "events": connection.points.len(),
        "buckets": thinned.buckets,
        "errors": errors.len(),
        "joined": all_bands.len() - bands.len(),
        "changes": &changes[..changes.len().min(LABELS)],
        "more_changes": changes.len().saturating_sub(LABELS),
    });
    (packer.base64(), about)
}

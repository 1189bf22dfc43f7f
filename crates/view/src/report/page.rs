//! The page: everything in one file, nothing fetched.

use std::collections::HashSet;

use serde_json::{Value, json};
use transom_analysis::{
    Analysis, Connection, Limit, NoneMatches, Recording, Sample, Series, automatic_bin, thin_rows,
};

use super::crowd::{Buckets, fold, join};
use super::header::{escape, facts, notices};
use super::joined::{Joined, Place};
use super::marks::{NAMES, bands, changes, errors, range};
use super::pack::Packer;
use super::rows::{self, Key};
use super::share::share;
use super::{Selection, Trace, comparison, overview};

/// No page is larger than this, in bytes.
pub const PAGE_LIMIT: usize = 5_000_000;

/// Points of all curves together, before the size of the page is known.
const POINTS: usize = 250_000;
/// As few are no curves any more.
const LEAST_POINTS: usize = 100;
/// Sizes do not follow the number of points exactly.
const SAFETY: f64 = 0.85;
/// Points of one connection: what a browser redraws without a pause.
const POINTS_OF_ONE: usize = 100_000;
/// How many lines the charts take of each sort.
const LABELS: usize = 300;
const BINS: u64 = 400;
/// Curves that the charts have.
const CURVES: usize = 11;
/// Of the time; less would be written as 0.0 %.
const LEAST_SHARE: f64 = 0.0005;
/// Throughput is written in units of so many bit/s.
const RATE_UNIT: f64 = 100.0;

const TEMPLATE: &str = include_str!("../../assets/page/page.html");
const STYLE: &str = include_str!("../../assets/page/page.css");
const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const SCRIPTS: [&str; 6] = [
    include_str!("../../assets/page/unpack.js"),
    include_str!("../../assets/page/table.js"),
    include_str!("../../assets/page/steps.js"),
    include_str!("../../assets/page/charts.js"),
    include_str!("../../assets/page/overview.js"),
    include_str!("../../assets/page/main.js"),
];

/// The page of one trace, or of two: curves of the selected connections, a table of all.
///
/// # Errors
/// A connection was asked for that no trace has.
pub fn page(traces: &[Trace], selection: &Selection) -> Result<String, NoneMatches> {
    let mut chosen = selection.choose(traces)?;
    let joined = if selection.compare { Joined::apart(traces) } else { Joined::of(traces) };
    let totals = totals(traces, &joined);
    loop {
        let shown = with_other_ends(traces, &chosen, &joined);
        let with = |budget| render(traces, &joined, &shown, &totals, budget);
        let whole = with(POINTS);
        if whole.len() < PAGE_LIMIT {
            return Ok(whole);
        }
        let least = with(LEAST_POINTS);
        let most = chosen.iter().map(Vec::len).max().unwrap_or(0);
        if least.len() < PAGE_LIMIT || most <= 1 {
            return Ok(thinned(whole.len(), with).unwrap_or(least));
        }
        // Rates, marks and names of so many connections are too much by themselves.
        let fit = most as f64 * SAFETY * PAGE_LIMIT as f64 / least.len() as f64;
        chosen.iter_mut().for_each(|of_trace| of_trace.truncate((fit as usize).max(1)));
    }
}

/// The page with as many points as it has room for, if with any; `size` is that with all.
fn thinned(mut size: usize, with: impl Fn(usize) -> String) -> Option<String> {
    let mut budget = POINTS;
    loop {
        budget = (budget as f64 * SAFETY * PAGE_LIMIT as f64 / size as f64) as usize;
        if budget <= LEAST_POINTS {
            return None;
        }
        let html = with(budget);
        size = html.len();
        if size < PAGE_LIMIT {
            return Some(html);
        }
    }
}

/// A connection of which the page has curves.
struct Shown<'a> {
    trace: usize,
    analysis: &'a Analysis,
    connection: &'a Connection,
}

/// The chosen ones, and the other end of each that has one.
fn with_other_ends<'a>(
    traces: &'a [Trace],
    chosen: &[Vec<&'a Analysis>],
    joined: &Joined,
) -> Vec<Shown<'a>> {
    let places = chosen
        .iter()
        .enumerate()
        .flat_map(|(trace, chosen)| chosen.iter().map(move |a| (trace, a.cookie)));
    let both = places.flat_map(|place| [Some(place), joined.others.get(&place).copied()]);
    let wanted: HashSet<Place> = both.flatten().collect();
    let all = traces.iter().enumerate();
    let all = all.flat_map(|(at, trace)| trace.analyses.iter().map(move |a| (at, trace, a)));
    all.filter(|(at, _, analysis)| wanted.contains(&(*at, analysis.cookie)))
        .filter_map(|(trace, of, analysis)| {
            let connection = of.recording.connection(analysis.cookie)?;
            Some(Shown { trace, analysis, connection })
        })
        .collect()
}

/// What the chart of all connections draws; nothing where there is only one.
fn totals(traces: &[Trace], joined: &Joined) -> Vec<Value> {
    if traces.iter().map(|trace| trace.analyses.len()).sum::<usize>() < 2 {
        return Vec::new();
    }
    let origins = joined.origins_ns.iter();
    traces.iter().zip(origins).map(|(trace, &origin)| overview::chart(trace, origin)).collect()
}

fn render(
    traces: &[Trace],
    joined: &Joined,
    shown: &[Shown],
    totals: &[Value],
    budget: usize,
) -> String {
    let wishes: Vec<usize> =
        shown.iter().map(|one| one.connection.points.len().min(POINTS_OF_ONE)).collect();
    let key = |trace: usize| Key { trace, traces: traces.len() };
    let mut packed = String::new();
    let mut about = serde_json::Map::new();
    for (one, points) in shown.iter().zip(share(budget, &wishes)) {
        let name = key(one.trace).of(one.analysis.cookie);
        let (data, mut facts) = pack(one.connection, joined.origins_ns[one.trace], points);
        facts["limits"] = json!(limits(one.analysis));
        if let Some(&(trace, cookie)) = joined.others.get(&(one.trace, one.analysis.cookie)) {
            facts["other"] = json!(key(trace).of(cookie));
        }
        if let Some(before) = traces[one.trace].before.get(&one.analysis.cookie) {
            facts["before"] = json!([before.heading, before.steps]);
        }
        packed +=
            &format!("<script type=\"application/octet-stream\" id=\"c{name}\">{data}</script>\n");
        about.insert(name, facts);
    }
    let each = || traces.iter().enumerate().map(|(at, trace)| (at, trace, joined.origins_ns[at]));
    let rows = each().flat_map(|(at, trace, origin)| {
        let has_other_end = |cookie| joined.others.contains_key(&(at, cookie));
        rows::table(&trace.analyses, key(at), origin, has_other_end)
    });
    let data = json!({
        "kinds": NAMES,
        "names": traces.iter().map(|trace| &trace.meta.source).collect::<Vec<_>>(),
        "lost": each().map(|(_, trace, origin)| lost(&trace.recording, origin)).collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
        "all": traces.iter().map(|trace| trace.analyses.len()).sum::<usize>(),
        "about": about,
        "overview": totals,
    });
    let title = title(traces);
    fill(
        TEMPLATE,
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("title", &escape(&title)),
            ("style", &format!("{UPLOT_STYLE}\n{STYLE}")),
            ("facts", &header(traces, joined)),
            ("overview", &overview(traces, joined)),
            ("data", &data.to_string().replace('<', "\\u003c")),
            ("packed", &packed),
            ("uplot", UPLOT),
            ("licence", UPLOT_LICENCE),
            ("scripts", &SCRIPTS.join("\n")),
        ],
    )
}

fn title(traces: &[Trace]) -> String {
    let names: Vec<&str> = traces.iter().map(|trace| trace.meta.source.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    if names.is_empty() { "recording".to_owned() } else { names.join(" and ") }
}

/// What was recorded, and what is missing from it.
fn header(traces: &[Trace], joined: &Joined) -> String {
    let mut html = String::new();
    for (at, Trace { recording, meta, .. }) in traces.iter().enumerate() {
        let name = if traces.len() > 1 {
            format!("<b>{}</b> {}: ", Key::letter(at), escape(&meta.source))
        } else {
            String::new()
        };
        html += &format!("<p class=\"facts\">{name}{}</p>\n", facts(recording, meta));
        html += &notices(recording, meta);
    }
    html + &joined.notice()
}

fn overview(traces: &[Trace], joined: &Joined) -> String {
    let mut html = overview::section(traces);
    if let ([a, b], true) = (traces, joined.is_empty()) {
        html += &comparison::section(a, b);
    }
    html
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
fn lost(recording: &Recording, origin_ns: u64) -> Vec<(u64, u64)> {
    let buckets = Buckets::new(recording.start_ns..recording.end_ns, 1000);
    let mut lost: Vec<(u64, u64)> = Vec::new();
    let mut last = None;
    let events = recording.lost.iter().filter(|(_, cause, _)| !cause.counts_segments());
    for &(time_ns, _, count) in events {
        let bucket = Some(buckets.of(time_ns));
        match lost.last_mut() {
            Some(entry) if bucket == last => entry.1 += u64::from(count),
            _ => lost.push((time_ns.saturating_sub(origin_ns) / 1000, count.into())),
        }
        last = bucket;
    }
    lost
}

/// What limited the connection, and for which share of its time.
fn limits(analysis: &Analysis) -> Vec<(&'static str, f64)> {
    let shares = Limit::ALL.iter().map(|&limit| (limit.label(), analysis.limits.share(limit)));
    shares.filter(|&(_, share)| share >= LEAST_SHARE).collect()
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
    let fine = Buckets::new(range(connection, start_ns), (limit / 4).max(100));
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

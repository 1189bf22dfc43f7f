//! One figure per connection for papers and slides: cwnd above throughput, on one axis.

use std::fmt::Write;

use transom_analysis::{
    Analysis, Connection, Recording, Series, Throughput, automatic_bin, thin_rows,
};

use super::crowd::{Band, Buckets, fold, join};
use super::header::{escape, grouped};
use super::marks::{NAMES, bands, changes, errors, range};
use super::plot::{Curve, INK, Ink, Panel, SOFT, Scale, TEXT, legend, line, text, wide};
use super::rows::ends;

/// Units of the figure: it is 90 mm wide, the column of a paper.
const WIDTH: f64 = 300.0;
const LEFT: f64 = 73.0;
const RIGHT: f64 = WIDTH - 7.0;
const LANE: f64 = 8.5;
/// Parts of the time that are told apart: finer than a printer.
const BUCKETS: usize = 800;
const POINTS: usize = 4 * BUCKETS;
const BINS: u64 = 200;

const fn ink(name: &'static str, colour: &'static str, width: f64) -> Ink {
    Ink { name, colour, width, dash: "", fill: 0.0, main: false }
}

/// The window panel: column of [`transom_analysis::CURVES`] and how it is drawn, the last on top.
const WINDOW: [(usize, Ink); 5] = [
    (2, Ink { fill: 0.18, main: true, ..ink("in flight", "#00805c", 0.6) }),
    (4, Ink { dash: "1 1.5", ..ink("send window", "#8a8a8a", 0.8) }),
    (3, Ink { dash: "5 1.5 1 1.5", ..ink("clamp", "#a8518a", 0.8) }),
    (1, Ink { dash: "3.5 1.5", ..ink("ssthresh", "#b87400", 0.9) }),
    (0, Ink { main: true, ..ink("cwnd", "#0072b2", 1.2) }),
];
const WINDOW_LEGEND: [&str; 5] = ["cwnd", "ssthresh", "in flight", "clamp", "send window"];
const RTT: [(usize, Ink); 2] = [
    (5, Ink { main: true, ..ink("smoothed RTT", "#0072b2", 1.0) }),
    (6, Ink { dash: "3.5 1.5", main: true, ..ink("minimum RTT", "#c44a00", 0.9) }),
];
const ACKED: Ink = Ink { main: true, ..ink("acknowledged", "#0072b2", 1.0) };
const RECEIVED: Ink = Ink { dash: "3.5 1.5", main: true, ..ink("received", "#c44a00", 1.0) };

/// Background of the congestion states disorder, cwr, recovery, loss: the colour, and lines on it that
/// tell them apart without colour.
const STATES: [(&str, &str, &str); 5] = [
    ("", "", ""),
    ("disorder", "#fdf3c4", ""),
    ("cwr", "#d3e8f6", "M0 2H3"),
    ("recovery", "#fbd9b4", "M-.5 .5L.5 -.5M0 3L3 0M2.5 3.5L3.5 2.5"),
    (
        "loss",
        "#f3b8a5",
        "M-.5 .5L.5 -.5M0 3L3 0M2.5 3.5L3.5 2.5M-.5 2.5L.5 3.5M0 0L3 3M2.5 -.5L3.5 .5",
    ),
];

/// What a figure shows beside cwnd, events and throughput.
#[derive(Clone, Copy, Debug, Default)]
pub struct FigureOptions {
    /// A third panel with the round-trip time.
    pub rtt: bool,
}

/// The figure of one connection, as an SVG document.
pub fn figure(recording: &Recording, analysis: &Analysis, options: FigureOptions) -> String {
    let nothing = Connection::default();
    let connection = recording.connection(analysis.cookie).unwrap_or(&nothing);
    let series = Series::of(connection);
    let start_ns = recording.start_ns;
    let from = seconds(connection.begun_ns(), start_ns);
    let span = seconds(connection.last_ns, connection.begun_ns()).max(1e-5);
    let x = Scale { low: from, high: from + span, start: LEFT, end: RIGHT };
    let mut svg = String::new();

    let mut y = 9.0;
    let title = title(analysis);
    // In line with the panels where there is room for that.
    let from = if LEFT + wide(&title) <= RIGHT { LEFT } else { WIDTH - RIGHT };
    for (n, row) in folded(&title, RIGHT - from).iter().enumerate() {
        y += if n > 0 { ROW } else { 0.0 };
        text(&mut svg, (from, y), "start", TEXT, SOFT, &escape(row));
    }
    y = window(&mut svg, connection, &series, start_ns, x, y + 12.0);
    y = lanes(&mut svg, connection, start_ns, x, y + 5.0);
    y = throughput(&mut svg, &series, start_ns, x, y + 12.0);
    if options.rtt {
        let curves = curves(&series, start_ns, &RTT, 1e-3);
        legend(&mut svg, (LEFT, RIGHT), y + 12.0, &[RTT[0].1, RTT[1].1]);
        let panel = Panel::new(x, y + 16.0, 60.0, &curves);
        panel.axis(&mut svg, "RTT (ms)");
        panel.curves(&mut svg, &curves);
        y += 76.0;
    }
    y = time_axis(&mut svg, x, y);
    y = list(&mut svg, &changes(connection, start_ns), y);

    let named = escape(&format!("{} {}", analysis.program, ends(analysis)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"90mm\" height=\"{:.2}mm\" \
         viewBox=\"0 0 {WIDTH} {y:.1}\" role=\"img\" \
         font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n\
         <title>{named}: congestion window and throughput</title>\n\
         <rect width=\"{WIDTH}\" height=\"{y:.1}\" fill=\"#fff\"/>\n{svg}</svg>\n",
        y * 90.0 / WIDTH
    )
}

/// A name for the files of a connection: rank, program, cookie.
pub fn file_stem(rank: usize, analysis: &Analysis) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let program: String = analysis.program.chars().map(safe).collect();
    let program = program.trim_matches('-');
    let program = if program.is_empty() { "connection" } else { program };
    format!("{rank:03}-{program}-{}", analysis.cookie)
}

fn title(analysis: &Analysis) -> String {
    let mptcp = analysis.mptcp.map(|token| format!("MPTCP {token}")).unwrap_or_default();
    let parts = [&analysis.program, &ends(analysis), &analysis.algorithm, &mptcp];
    let known: Vec<&str> =
        parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    known.join(", ")
}

/// Words in rows that have room for so much; a word that is wider than a row is cut.
fn folded(words: &str, room: f64) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let most = (room / wide("x")) as usize;
    for word in words.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(most) {
            let part: String = part.iter().collect();
            match rows.last_mut() {
                Some(row) if wide(row) + wide(" ") + wide(&part) <= room => {
                    row.push(' ');
                    row.push_str(&part);
                }
                _ => rows.push(part),
            }
        }
    }
    rows
}

fn seconds(ns: u64, start_ns: u64) -> f64 {
    ns.saturating_sub(start_ns) as f64 / 1e9
}

/// Curves that have a value, each thinned by itself.
fn curves(series: &Series, start_ns: u64, inks: &[(usize, Ink)], unit: f64) -> Vec<Curve> {
    let samples = &series.samples;
    let curve = |&(column, ink): &(usize, Ink)| {
        let time = |at: usize| samples[at].time_ns;
        let value = |at: usize| samples[at].curves()[column];
        let kept = thin_rows(samples.len(), time, |at| [value(at)], &[], POINTS).kept;
        let point = |&at: &usize| (seconds(time(at), start_ns), value(at).map(|v| v as f64 * unit));
        Curve { ink, points: kept.iter().map(point).collect() }
    };
    let known = |curve: &Curve| curve.points.iter().any(|point| point.1.is_some());
    inks.iter().map(curve).filter(known).collect()
}

fn window(
    svg: &mut String,
    connection: &Connection,
    series: &Series,
    start_ns: u64,
    x: Scale,
    top: f64,
) -> f64 {
    let curves = curves(series, start_ns, &WINDOW, 1.0);
    let inks: Vec<Ink> = WINDOW_LEGEND
        .iter()
        .filter_map(|name| curves.iter().map(|curve| curve.ink).find(|ink| ink.name == *name))
        .collect();
    let top = legend(svg, (LEFT, RIGHT), top, &inks);
    let mut panel = Panel::new(x, top + 4.0, 120.0, &curves);
    let changes = changes(connection, start_ns);
    for number in Number::all(&changes, x) {
        let to = number.from + wide(&number.words);
        panel.keep_free(number.from..to, number.depth() + 2.0, &curves);
    }
    let fine = Buckets::new(range(connection, start_ns), BUCKETS);
    let bands = join(fine, 400, &bands(connection, start_ns));
    tiles(svg, &bands);
    for band in &bands {
        let (from, to) = (x.at(band.from as f64 / 1e6), x.at(band.to as f64 / 1e6));
        let _ = writeln!(
            svg,
            "<rect x=\"{from:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"120\" fill=\"url(#{})\"/>",
            top + 4.0,
            (to - from).max(0.3),
            STATES[usize::from(band.state).min(4)].0
        );
    }
    panel.axis(svg, "window (segments)");
    panel.curves(svg, &curves);
    numbers(svg, &changes, &panel);
    states(svg, &bands, top + 124.0)
}

/// The backgrounds of the states that there are, for the rectangles that use them.
fn tiles(svg: &mut String, bands: &[Band]) {
    let seen = |state: usize| bands.iter().any(|band| usize::from(band.state).min(4) == state);
    for (_, &(name, colour, lines)) in STATES.iter().enumerate().filter(|(state, _)| seen(*state)) {
        let _ = writeln!(
            svg,
            "<defs><pattern id=\"{name}\" width=\"3\" height=\"3\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"3\" height=\"3\" fill=\"{colour}\"/>\
             <path d=\"{lines}\" stroke=\"#000\" stroke-opacity=\"0.22\" stroke-width=\"0.5\"/>\
             </pattern></defs>"
        );
    }
}

/// Names the colours of the background, in a row below the panel.
fn states(svg: &mut String, bands: &[Band], top: f64) -> f64 {
    let mut x = LEFT;
    for (state, &(name, ..)) in STATES.iter().enumerate().skip(1) {
        if bands.iter().any(|band| usize::from(band.state) == state) {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"7\" height=\"6\" fill=\"url(#{name})\"/>",
                top + 4.5
            );
            text(svg, (x + 10.0, top + 10.0), "start", TEXT, SOFT, name);
            x += 10.0 + wide(name) + 9.0;
        }
    }
    if x > LEFT { top + 11.0 } else { top }
}

/// Most changes that a figure lists; those after them have only their line.
const LISTED: usize = 12;
/// Height of a row of words.
const ROW: f64 = TEXT + 2.0;

/// The number of a change beside its line, under which [`list`] says what and why: there is no room for
/// that.
struct Number {
    words: String,
    from: f64,
    row: usize,
}

impl Number {
    /// Those that find room.
    fn all(changes: &[(u64, String)], x: Scale) -> Vec<Number> {
        let mut ends = [f64::MIN; 4];
        let number = |(n, (time, _)): (usize, &(u64, String))| {
            let words = (n + 1).to_string();
            let from = (x.at(*time as f64 / 1e6) + 2.0).min(RIGHT - wide(&words));
            let row = ends.iter().position(|&end| end + 2.0 < from)?;
            ends[row] = from + wide(&words);
            Some(Number { words, from, row })
        };
        changes.iter().take(LISTED).enumerate().filter_map(number).collect()
    }

    /// From the top of the panel to below it.
    fn depth(&self) -> f64 {
        ROW * (self.row + 1) as f64
    }
}

/// Changes of clamp and algorithm and by Transom itself: a line each, with its number.
fn numbers(svg: &mut String, changes: &[(u64, String)], panel: &Panel) {
    for (time, _) in changes {
        let x = panel.x.at(*time as f64 / 1e6);
        line(svg, (x, panel.y.start), (x, panel.y.end), INK, 0.5);
    }
    for number in Number::all(changes, panel.x) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{TEXT}\" fill=\"{INK}\" \
             stroke=\"#fff\" stroke-width=\"2\" paint-order=\"stroke\">{}</text>",
            number.from,
            panel.y.end + number.depth(),
            number.words
        );
    }
}

/// What each numbered line is, and why; returns where it ends.
fn list(svg: &mut String, changes: &[(u64, String)], top: f64) -> f64 {
    const FROM: f64 = 20.0;
    let mut y = if changes.is_empty() { top } else { top + 3.0 };
    for (n, (_, label)) in changes.iter().take(LISTED).enumerate() {
        text(svg, (FROM - 4.0, y + TEXT), "end", TEXT, SOFT, &(n + 1).to_string());
        for part in parts(label, WIDTH - FROM) {
            text(svg, (FROM, y + TEXT), "start", TEXT, INK, &escape(part));
            y += ROW;
        }
    }
    if changes.len() > LISTED {
        let more = format!("and {} more", changes.len() - LISTED);
        text(svg, (FROM, y + TEXT), "start", TEXT, SOFT, &more);
        y += ROW;
    }
    y
}

/// A label in one line, or in two when there is no room for one.
fn parts(label: &str, room: f64) -> Vec<&str> {
    match label.find("because") {
        Some(at) if wide(label) > room => vec![label[..at].trim_end(), &label[at..]],
        _ => vec![label],
    }
}

/// One row of ticks for each kind of error event that was seen.
fn lanes(svg: &mut String, connection: &Connection, start_ns: u64, x: Scale, top: f64) -> f64 {
    let errors = errors(connection, start_ns);
    let ticks = fold(Buckets::new(range(connection, start_ns), BUCKETS), 400, &errors);
    let mut y = top;
    for (kind, name) in NAMES.iter().enumerate() {
        let of_kind = || ticks.iter().filter(|tick| usize::from(tick.kind) == kind);
        let count: u64 = of_kind().map(|tick| tick.count).sum();
        if count == 0 {
            continue;
        }
        let colour = if kind < 4 { "#c44a00" } else { INK };
        let words = format!("{name} {}", grouped(count));
        text(svg, (LEFT - 4.0, y + LANE - 2.2), "end", 5.5, SOFT, &words);
        let mut path = String::new();
        for tick in of_kind() {
            let _ = write!(path, "M{:.2} {:.2}v6", x.at(tick.time as f64 / 1e6), y + 1.0);
        }
        let _ = writeln!(svg, "<path d=\"{path}\" stroke=\"{colour}\" stroke-width=\"0.6\"/>");
        y += LANE;
    }
    y
}

fn throughput(svg: &mut String, series: &Series, start_ns: u64, x: Scale, top: f64) -> f64 {
    let bin_ns = automatic_bin(series.end_ns - series.start_ns, series.min_rtt_ns(), BINS);
    let bins = Throughput::of(series, Some(bin_ns));
    let curve = |ink: Ink, rates: &[f64]| {
        let value = |at: usize| Some(rates[at.min(rates.len() - 1)] / 1e6);
        let time = |at: usize| seconds(bins.bin_start_ns(at), start_ns);
        Curve { ink, points: (0..=rates.len()).map(|at| (time(at), value(at))).collect() }
    };
    let both = [curve(ACKED, &bins.up), curve(RECEIVED, &bins.down)];
    let moved = |curve: &Curve| curve.points.iter().any(|point| point.1 > Some(0.0));
    let curves: Vec<Curve> = both.into_iter().filter(moved).collect();
    let panel = Panel::new(x, top + 4.0, 70.0, &curves);
    panel.axis(svg, "throughput (Mbit/s)");
    panel.curves(svg, &curves);
    let inks: Vec<Ink> = curves.iter().map(|curve| curve.ink).collect();
    legend(svg, (LEFT, RIGHT), top, &inks);
    text(svg, (RIGHT, top), "end", TEXT, SOFT, &mean_of(bins.bin_ns));
    top + 74.0
}

fn mean_of(bin_ns: u64) -> String {
    match bin_ns as f64 {
        ns if ns >= 1e9 => format!("means of {} s", ns / 1e9),
        ns => format!("means of {} ms", ns / 1e6),
    }
}

fn time_axis(svg: &mut String, x: Scale, top: f64) -> f64 {
    line(svg, (LEFT, top), (RIGHT, top), SOFT, 0.6);
    let (ticks, decimals) = x.ticks(34.0);
    for tick in ticks {
        let at = x.at(tick);
        line(svg, (at, top), (at, top + 3.0), SOFT, 0.6);
        let number = format!("{tick:.decimals$}");
        text(svg, (at, top + 11.0), "middle", TEXT, SOFT, &number);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    text(svg, (middle, top + 20.0), "middle", TEXT, INK, "time since start of recording (s)");
    top + 25.0
}

#[cfg(test)]
mod tests {
    use super::mean_of;

    #[test]
    fn the_width_of_a_mean_has_the_unit_that_people_read() {
        assert_eq!(mean_of(200_000_000), "means of 200 ms");
        assert_eq!(mean_of(200_000_000_000), "means of 200 s");
    }
}

//! The window or the throughput of all flows of one run, over time, and what went wrong when.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::Value;
use transom_analysis::{Series, Throughput};
use transom_event::Kind;
use transom_view::report::Scale;

use super::canvas::{Canvas, Drawing, LEFT, Pen, RIGHT, TEXT, value_scale};
use crate::claims::pooled;
use crate::experiment::Pick;
use crate::measure::{Seen, connections};
use crate::page::results::{Results, Run};
use crate::sweep::{points, same};

/// More than a screen or printer shows.
const SAMPLES: usize = 2400;
/// Of a throughput, ns.
const BIN_NS: u64 = 500_000_000;

/// Events that are drawn below the curves.
const LANES: [(Kind, &str); 4] = [
    (Kind::Retransmit, "retransmit"),
    (Kind::Rto, "timeout"),
    (Kind::DupAck, "dup. ACK"),
    (Kind::LocalCongestion, "refused"),
];

/// The run that a figure shows.
pub fn chosen<'a>(
    results: &'a Results,
    at: &BTreeMap<String, Value>,
    greatest: Option<&Pick>,
    least: Option<&Pick>,
) -> Option<&'a Run> {
    let meant = |run: &&Run| {
        let point = &run.measured.point;
        at.iter().all(|(key, value)| point.get(key).is_some_and(|there| same(there, value)))
    };
    let mut meant = results.runs.iter().filter(meant);
    let by = |pick| move |a: &&Run, b: &&Run| order(pick, a, b);
    match (greatest, least) {
        // The first of equals, as without a choice.
        (Some(pick), _) => meant.rev().max_by(by(pick)),
        (_, Some(pick)) => meant.min_by(by(pick)),
        _ => meant.next(),
    }
}

fn order(pick: &Pick, a: &Run, b: &Run) -> Ordering {
    let number = |run: &Run| pooled(pick, &[&run.measured]).ok().map(|values| values[0]);
    number(a).partial_cmp(&number(b)).unwrap_or(Ordering::Equal)
}

pub fn draw(
    results: &Results,
    title: &str,
    quantity: &str,
    run: Option<&Run>,
) -> Result<Result<Drawing, String>> {
    let Some(run) = run else {
        return Ok(Err("this run was not made".to_owned()));
    };
    let whole = points(&results.loaded, false).iter().find(|point| point.slug == run.slug);
    let experiment = &whole.context("a run of a point that the sweep does not have")?.experiment;
    let seen = connections(&results.directory.join(&run.below), experiment)?;
    if seen.is_empty() {
        return Ok(Err("no flow of TCP".to_owned()));
    }
    Ok(Ok(drawing(title, quantity, &seen)))
}

fn drawing(title: &str, quantity: &str, seen: &BTreeMap<String, Seen>) -> Drawing {
    let start_ns = seen.values().map(|seen| seen.connection().begun_ns()).min().unwrap_or(0);
    let end_ns = seen.values().map(|seen| seen.connection().last_ns).max().unwrap_or(0);
    let seconds = |ns: u64| ns.saturating_sub(start_ns) as f64 / 1e9;
    let mut canvas = Canvas::default();
    let names = seen.keys().enumerate().map(|(n, name)| (Pen::ours(n), name.as_str()));
    let top = canvas.legend(TEXT + 2.0, &names.collect::<Vec<_>>()) + 24.0;
    let curves: Vec<Vec<(f64, f64)>> = seen
        .values()
        .map(|seen| match quantity {
            "throughput" => throughput(seen, &seconds),
            _ => window(seen, &seconds),
        })
        .collect();
    let y = value_scale(curves.iter().flatten().map(|point| point.1), top);
    let high = seconds(end_ns).max(0.001);
    let x = Scale { low: 0.0, high, start: LEFT, end: RIGHT };
    let unit = if quantity == "throughput" { "Mbit/s" } else { "window (segments)" };
    canvas.values(y, unit);
    for (n, curve) in curves.iter().enumerate() {
        canvas.path(&steps(curve, x, y), Pen::ours(n), width(n, curves.len()));
    }
    for (n, curve) in curves.iter().enumerate() {
        for (time, value) in marked(curve, (n, curves.len()), high) {
            canvas.mark((x.at(time), y.at(value)), Pen::ours(n));
        }
    }
    let bottom = lanes(&mut canvas, seen, x, y.start + 8.0, &seconds);
    let (ticks, decimals) = x.ticks(60.0);
    for tick in ticks {
        let label = format!("{tick:.decimals$}");
        canvas.words((x.at(tick), bottom + 9.0), "middle", "soft", &label);
    }
    canvas.words(((LEFT + RIGHT) / 2.0, bottom + 22.0), "middle", "ink", "time (s)");
    Drawing { title: title.to_owned(), body: canvas.0, height: bottom + 28.0 }
}

fn window(seen: &Seen, seconds: &impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let connection = seen.connection();
    let series = Series::of(connection).thinned(&connection.marks, SAMPLES);
    series.samples.iter().map(|s| (seconds(s.time_ns), f64::from(s.cwnd))).collect()
}

fn throughput(seen: &Seen, seconds: &impl Fn(u64) -> f64) -> Vec<(f64, f64)> {
    let Throughput { start_ns, bin_ns, up, .. } =
        Series::of(seen.connection()).throughput(Some(BIN_NS));
    let mut points: Vec<(f64, f64)> = up
        .iter()
        .enumerate()
        .map(|(n, rate)| (seconds(start_ns + n as u64 * bin_ns), rate / 1e6))
        .collect();
    // The last bin ends with the connection.
    points.extend(points.last().map(|&(_, rate)| (seconds(seen.connection().last_ns), rate)));
    points
}

/// Of a curve that others are drawn over: wider than these, so that it is seen where all are equal.
fn width(n: usize, of: usize) -> f64 {
    1.2 + 0.6 * (of - 1 - n) as f64
}

/// Where a curve has its marks, which tell it from others without colour: each curve at times of its own.
fn marked(curve: &[(f64, f64)], (n, of): (usize, usize), high: f64) -> Vec<(f64, f64)> {
    const MARKS: usize = 4;
    let is_seen = |time: f64| {
        let (first, last) = (curve.first()?.0, curve.last()?.0);
        let (_, value) = curve[..curve.partition_point(|point| point.0 <= time)].last()?;
        (first..=last).contains(&time).then_some((time, *value))
    };
    let time = |k: usize| high * (k as f64 + (n as f64 + 0.5) / of as f64) / MARKS as f64;
    (0..MARKS).filter(|_| of > 1).filter_map(|k| is_seen(time(k))).collect()
}

/// Each value holds until the next.
fn steps(curve: &[(f64, f64)], x: Scale, y: Scale) -> String {
    let mut path = String::new();
    let mut height = f64::NAN;
    for &(time, value) in curve {
        let (at, now) = (x.at(time), y.at(value));
        if path.is_empty() {
            path = format!("M{at:.2} {now:.2}");
        } else if (now - height).abs() >= 0.005 {
            path += &format!("H{at:.2}V{now:.2}");
        } else {
            continue;
        }
        height = now;
    }
    let end = curve.last().map_or(0.0, |point| x.at(point.0));
    format!("{path}H{end:.2}")
}

/// A row for each kind of event that happened; returns where the rows end.
fn lanes(
    canvas: &mut Canvas,
    seen: &BTreeMap<String, Seen>,
    x: Scale,
    top: f64,
    seconds: &impl Fn(u64) -> f64,
) -> f64 {
    let mut y = top;
    for (kind, name) in LANES {
        if seen.values().all(|seen| seen.connection().count(kind) == 0) {
            continue;
        }
        canvas.words((LEFT - 4.0, y + 7.5), "end", "soft", name);
        for (n, seen) in seen.values().enumerate() {
            let marks = seen.connection().marks.iter().filter(|mark| mark.kind == kind);
            let mut path = String::new();
            let mut last = f64::NEG_INFINITY;
            for mark in marks {
                let at = x.at(seconds(mark.time_ns));
                // Closer than a printed line: the same tick.
                if at - last >= 0.3 {
                    path += &format!("M{at:.2} {y:.2}v8");
                    last = at;
                }
            }
            if !path.is_empty() {
                canvas.path(&path, Pen::ours(n), 0.9);
            }
        }
        y += 11.0;
    }
    y
}

#[cfg(test)]
mod tests {
    use super::{marked, width};

    #[test]
    fn curves_are_marked_at_times_of_their_own_where_they_are() {
        let whole = [(0.0, 10.0), (3.0, 20.0), (10.0, 20.0)];
        let late = [(2.0, 5.0), (8.0, 7.0)];
        let [first, second] = [marked(&whole, (0, 2), 10.0), marked(&late, (1, 2), 10.0)];
        assert_eq!(first, [(0.625, 10.0), (3.125, 20.0), (5.625, 20.0), (8.125, 20.0)]);
        assert_eq!(
            second,
            [(4.375, 5.0), (6.875, 5.0)],
            "neither before its begin nor after its end"
        );
        assert!(marked(&whole, (0, 1), 10.0).is_empty(), "one alone needs none");
        assert!(marked(&[], (1, 2), 10.0).is_empty());
    }

    #[test]
    fn a_curve_is_seen_below_equal_ones() {
        for of in 2..5 {
            for n in 1..of {
                assert!(width(n - 1, of) - width(n, of) > 0.5, "{n} of {of}");
            }
        }
        assert_eq!(width(0, 1), width(3, 4));
    }
}

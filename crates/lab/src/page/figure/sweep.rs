//! A metric over the values of a swept key.

use transom_view::report::Scale;

use super::canvas::{Canvas, Drawing, LEFT, Pen, RIGHT, TEXT, value_scale};
use super::{name, published};
use crate::claims::{AtValue, along_key, as_number};
use crate::experiment::Curve;
use crate::metrics::Measured;
use crate::page::results::Results;
use crate::sweep::{canonical, same};

/// One curve: where each point is on the axis, its value, and the spread of the repeats.
struct Line<'a> {
    pen: Pen,
    name: &'a str,
    points: Vec<(usize, f64, f64, f64)>,
}

pub fn draw(
    results: &Results,
    title: &str,
    along: &str,
    unit: &str,
    curves: &[Curve],
) -> Result<Drawing, String> {
    let runs: Vec<&Measured> = results.runs.iter().map(|run| &run.measured).collect();
    let keys = &results.loaded.experiment.sweep[along];
    let position = |key: &toml::Value| keys.iter().position(|other| same(other, key));
    let mut lines = Vec::new();
    let mut last = "nothing was measured".to_owned();
    for (n, curve) in curves.iter().enumerate() {
        let pen = Pen::ours(n);
        match along_key(&curve.pick, along, &runs) {
            Ok(places) => {
                let point = |p: &AtValue| Some((position(&p.key)?, p.value, p.low, p.high));
                let points = places.iter().filter_map(point).collect();
                lines.push(Line { pen, name: name(curve), points });
            }
            Err(why) => last = why,
        }
        for series in published(results, &curve.pick, Some(along)) {
            let both = series.at.iter().zip(&series.values);
            let points = both.filter_map(|(key, &v)| Some((position(key)?, v, v, v))).collect();
            lines.push(Line { pen: pen.published(), name: &series.name, points });
        }
    }
    if lines.iter().all(|line| line.pen.published) {
        return Err(last);
    }
    Ok(drawing(title, along, unit, keys, &lines))
}

fn drawing(title: &str, along: &str, unit: &str, keys: &[toml::Value], lines: &[Line]) -> Drawing {
    let mut canvas = Canvas::default();
    let entries: Vec<(Pen, &str)> = lines.iter().map(|line| (line.pen, line.name)).collect();
    let top = canvas.legend(TEXT + 2.0, &entries) + 24.0;
    let y = value_scale(lines.iter().flat_map(|l| l.points.iter().flat_map(|p| [p.1, p.3])), top);
    canvas.values(y, unit);
    let inset = (RIGHT - LEFT) / (2.0 * keys.len() as f64);
    let high = keys.len().saturating_sub(1).max(1) as f64;
    let x = Scale { low: 0.0, high, start: LEFT + inset.min(24.0), end: RIGHT - inset.min(24.0) };
    for (n, key) in keys.iter().enumerate() {
        let label = canonical(key);
        canvas.words((x.at(n as f64), y.start + 13.0), "middle", "soft", &label);
    }
    canvas.words(((LEFT + RIGHT) / 2.0, y.start + 27.0), "middle", "ink", &axis_title(along, keys));
    for line in lines {
        let at = |value: f64| y.at(value);
        let mut path = String::new();
        for (n, &(key, value, ..)) in line.points.iter().enumerate() {
            let command = if n == 0 { 'M' } else { 'L' };
            path += &format!("{command}{:.2} {:.2}", x.at(key as f64), at(value));
        }
        canvas.path(&path, line.pen, if line.pen.published { 1.1 } else { 1.6 });
        for &(key, value, low, high) in &line.points {
            let x = x.at(key as f64);
            canvas.spread(x, (at(low), at(high)), line.pen);
            canvas.mark((x, at(value)), line.pen);
        }
    }
    Drawing { title: title.to_owned(), body: canvas.0, height: y.start + 33.0 }
}

/// `path.rtt_ms` of numbers is `RTT (ms), steps not to scale`; others by their last part.
fn axis_title(along: &str, keys: &[toml::Value]) -> String {
    let last = along.rsplit('.').next().unwrap_or(along);
    let words = match last {
        "rtt_ms" => "round-trip time of the path (ms)".to_owned(),
        "loss" => "loss of the path".to_owned(),
        "write" => "bytes written at once".to_owned(),
        other => other.replace('_', " "),
    };
    let numbers = keys.iter().all(|key| as_number(key).is_some());
    if numbers && keys.len() > 2 { format!("{words}, steps not to scale") } else { words }
}

//! One bar a pick, the published number beside it.

use super::canvas::{Canvas, Drawing, LEFT, Pen, RIGHT, TEXT, value_scale, wide};
use super::{name, published};
use crate::claims::pooled;
use crate::experiment::Curve;
use crate::measure::median;
use crate::metrics::Measured;
use crate::page::results::Results;

struct Bar<'a> {
    name: &'a str,
    value: f64,
    low: f64,
    high: f64,
    published: Option<f64>,
}

pub fn draw(
    results: &Results,
    title: &str,
    unit: &str,
    curves: &[Curve],
) -> Result<Drawing, String> {
    let runs: Vec<&Measured> = results.runs.iter().map(|run| &run.measured).collect();
    let mut bars = Vec::new();
    let mut last = "nothing was measured".to_owned();
    for curve in curves {
        match pooled(&curve.pick, &runs) {
            Ok(values) => bars.push(Bar {
                name: name(curve),
                value: median(&values).expect("values are never none"),
                low: values.iter().copied().fold(f64::INFINITY, f64::min),
                high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                published: published(results, &curve.pick, None)
                    .find_map(|series| series.values.first().copied()),
            }),
            Err(why) => last = why,
        }
    }
    if bars.is_empty() { Err(last) } else { Ok(drawing(title, unit, &bars)) }
}

fn drawing(title: &str, unit: &str, bars: &[Bar]) -> Drawing {
    let mut canvas = Canvas::default();
    let ours = Pen::ours(0);
    let mut entries = vec![(ours, "ours, median and spread")];
    if bars.iter().any(|bar| bar.published.is_some()) {
        entries.push((ours.published(), "published"));
    }
    let top = canvas.legend(TEXT + 2.0, &entries) + 24.0;
    let all = bars.iter().flat_map(|bar| [bar.value, bar.high, bar.published.unwrap_or(0.0)]);
    let y = value_scale(all, top);
    canvas.values(y, unit);
    let room = (RIGHT - LEFT) / bars.len() as f64;
    let width = (room * 0.5).min(46.0);
    for (n, bar) in bars.iter().enumerate() {
        let middle = LEFT + (n as f64 + 0.5) * room;
        let (from, to) = (y.at(0.0), y.at(bar.value));
        canvas.0 += &format!(
            "<rect x=\"{:.1}\" y=\"{:.2}\" width=\"{width:.1}\" height=\"{:.2}\" class=\"f0\" \
             fill-opacity=\".75\"/>\n",
            middle - width / 2.0,
            from.min(to),
            (from - to).abs()
        );
        canvas.spread(middle, (y.at(bar.low), y.at(bar.high)), Pen::ours(3));
        if let Some(value) = bar.published {
            let at = y.at(value);
            let path = format!("M{:.2} {at:.2}h{:.2}", middle - width / 2.0 - 5.0, width + 10.0);
            canvas.path(&path, ours.published(), 1.1);
            canvas.mark((middle + width / 2.0 + 5.0, at), ours.published());
        }
        let number = format!("{:.2}", bar.value);
        canvas.words((middle, y.at(bar.high.max(bar.value)) - 4.0), "middle", "ink", &number);
        for (row, line) in lines(bar.name, room).iter().enumerate() {
            let baseline = y.start + 13.0 + row as f64 * TEXT * 1.2;
            canvas.words((middle, baseline), "middle", "soft", line);
        }
    }
    let rows = bars.iter().map(|bar| lines(bar.name, room).len()).max().unwrap_or(1) as f64;
    Drawing { title: title.to_owned(), body: canvas.0, height: y.start + 8.0 + rows * TEXT * 1.25 }
}

/// A name in lines of at most this width.
fn lines(name: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split_whitespace() {
        match lines.last_mut() {
            Some(line) if wide(line) + wide(word) + wide(" ") < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

//! Axes, ticks and step curves, as SVG.

use std::fmt::Write;
use std::ops::Range;

/// Font size of numbers and words, in units of the figure.
pub const TEXT: f64 = 7.4;
pub const INK: &str = "#1a1a1a";
pub const SOFT: &str = "#555";

/// Values from `low` to `high` on a line from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub start: f64,
    pub end: f64,
}

impl Scale {
    pub fn at(&self, value: f64) -> f64 {
        self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// Round values, about one every `room` units, and their decimals.
    pub fn ticks(&self, room: f64) -> (Vec<f64>, usize) {
        let span = self.high - self.low;
        let wish = span * room / (self.end - self.start).abs();
        let unit = 10f64.powf(wish.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * unit).into_iter().find(|&s| s >= wish);
        let step = step.unwrap_or(10.0 * unit);
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).max(0.0) as usize;
        let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
        ((0..=count).map(|n| (first + n as f64) * step).collect(), decimals)
    }
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Ink {
    pub name: &'static str,
    pub colour: &'static str,
    pub width: f64,
    pub dash: &'static str,
    /// Filled down to zero, this opaque.
    pub fill: f64,
    /// Decides the height of the panel.
    pub main: bool,
}

/// One curve: times (s) and values, and how it is drawn.
pub struct Curve {
    pub ink: Ink,
    pub points: Vec<(f64, Option<f64>)>,
}

/// A rectangle with a scale of time and one of values.
pub struct Panel {
    pub x: Scale,
    pub y: Scale,
}

impl Panel {
    /// Up to the main curves; a curve far above them does not flatten them.
    pub fn new(x: Scale, top: f64, height: f64, curves: &[Curve]) -> Panel {
        let peak = |curve: &Curve| curve.points.iter().filter_map(|p| p.1).fold(0.0, f64::max);
        let main = curves.iter().filter(|c| c.ink.main).map(peak).fold(0.0, f64::max);
        let high = curves.iter().map(peak).filter(|&p| p <= 2.0 * main).fold(0.0, f64::max);
        let high = if high > 0.0 { high * 1.06 } else { 1.0 };
        Panel { x, y: Scale { low: 0.0, high, start: top + height, end: top } }
    }

    /// Raises the top until no curve that is shown comes so near to it between these places.
    pub fn keep_free(&mut self, places: Range<f64>, depth: f64, curves: &[Curve]) {
        let (shown, height) = (self.y.high, self.y.start - self.y.end);
        let highest = |curve: &Curve| {
            let x = |at: usize| curve.points.get(at).map_or(f64::MAX, |point| self.x.at(point.0));
            let among = |&at: &usize| x(at) <= places.end && x(at + 1) >= places.start;
            let values = (0..curve.points.len()).filter(among).filter_map(|at| curve.points[at].1);
            values.filter(|&value| value <= shown).fold(0.0, f64::max)
        };
        let highest = curves.iter().map(highest).fold(0.0, f64::max);
        self.y.high = shown.max(highest / (1.0 - depth / height));
    }

    /// Horizontal grid and the numbers left of it, and what they are.
    pub fn axis(&self, svg: &mut String, title: &str) {
        let (ticks, decimals) = self.y.ticks(18.0);
        let (left, right) = (self.x.start, self.x.end);
        for tick in ticks {
            let y = self.y.at(tick);
            line(svg, (left, y), (right, y), "#e4e4e4", 0.5);
            let number = format!("{tick:.decimals$}");
            text(svg, (left - 4.0, y + TEXT * 0.35), "end", TEXT, SOFT, &number);
        }
        let middle = (self.y.start + self.y.end) / 2.0;
        let turned = format!(
            "<text transform=\"translate(9 {middle:.1}) rotate(-90)\" text-anchor=\"middle\" \
             font-size=\"{TEXT}\" fill=\"{INK}\">{title}</text>\n"
        );
        svg.push_str(&turned);
    }

    /// The curves, cut at the edges of the panel.
    pub fn curves(&self, svg: &mut String, curves: &[Curve]) {
        let (x, y) = (self.x.start, self.y.end);
        let (width, height) = (self.x.end - x, self.y.start - y);
        let _ = writeln!(
            svg,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"{x} {y} {width} {height}\" fill=\"none\" stroke-linejoin=\"round\">"
        );
        for curve in curves {
            let (outline, area) = self.path(&curve.points);
            let Ink { colour, width, dash, fill, .. } = curve.ink;
            if fill > 0.0 {
                let _ = writeln!(
                    svg,
                    "<path d=\"{area}\" fill=\"{colour}\" fill-opacity=\"{fill}\" stroke=\"none\"/>"
                );
            }
            let dash = dashes(dash);
            let _ = writeln!(
                svg,
                "<path d=\"{outline}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash}/>"
            );
        }
        svg.push_str("</svg>\n");
    }

    /// Steps: each value holds until the next one. Also the area below them.
    fn path(&self, points: &[(f64, Option<f64>)]) -> (String, String) {
        let (mut outline, mut area) = (String::new(), String::new());
        let mut before: Option<(f64, f64)> = None;
        let floor = self.y.start;
        for &(time, value) in points {
            let x = self.x.at(time);
            match (before, value.map(|v| self.y.at(v))) {
                (None, Some(y)) => {
                    let _ = write!(outline, "M{x:.2} {y:.2}");
                    let _ = write!(area, "M{x:.2} {floor:.2}V{y:.2}");
                    before = Some((x, y));
                }
                (Some((_, last)), Some(y)) if (last - y).abs() >= 0.005 => {
                    let _ = write!(outline, "H{x:.2}V{y:.2}");
                    let _ = write!(area, "H{x:.2}V{y:.2}");
                    before = Some((x, y));
                }
                (Some((_, last)), Some(_)) => before = Some((x, last)),
                (Some(_), None) => {
                    let _ = write!(outline, "H{x:.2}");
                    let _ = write!(area, "H{x:.2}V{floor:.2}");
                    before = None;
                }
                (None, None) => {}
            }
        }
        if let Some((x, _)) = before {
            let _ = write!(outline, "H{x:.2}");
            let _ = write!(area, "H{x:.2}V{floor:.2}");
        }
        (outline, area)
    }
}

/// The names of the curves in rows from `left` to `right`; returns the last baseline.
pub fn legend(svg: &mut String, (left, right): (f64, f64), top: f64, inks: &[Ink]) -> f64 {
    let (mut x, mut baseline) = (left, top);
    for ink in inks {
        let Ink { name, colour, width, dash, fill, .. } = *ink;
        if x > left && x + 17.0 + wide(name) > right {
            (x, baseline) = (left, baseline + TEXT * 1.3);
        }
        let y = baseline - TEXT * 0.35;
        if fill > 0.0 {
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {y:.1}h14v3h-14z\" fill=\"{colour}\" fill-opacity=\"{fill}\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {y:.1}h14\" stroke=\"{colour}\" stroke-width=\"{width}\"{}/>",
            dashes(dash)
        );
        text(svg, (x + 17.0, baseline), "start", TEXT, INK, name);
        x += 17.0 + wide(name) + 10.0;
    }
    baseline
}

/// About how wide a word is: no font is at hand when the figure is written.
pub fn wide(word: &str) -> f64 {
    word.chars().count() as f64 * TEXT * 0.54
}

fn dashes(dash: &str) -> String {
    if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") }
}

pub fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
    let _ = writeln!(
        svg,
        "<path d=\"M{:.2} {:.2}L{:.2} {:.2}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// `words` must be safe as XML already.
pub fn text(svg: &mut String, at: (f64, f64), anchor: &str, size: f64, colour: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" \
         fill=\"{colour}\">{words}</text>",
        at.0, at.1
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale { low: 0.0, high: 47.0, start: 0.0, end: 100.0 };
        assert_eq!(scale.ticks(20.0), (vec![0.0, 10.0, 20.0, 30.0, 40.0], 0));
    }

    #[test]
    fn small_ticks_show_their_decimals() {
        let scale = Scale { low: 0.1, high: 0.35, start: 0.0, end: 100.0 };
        let (ticks, decimals) = scale.ticks(40.0);
        assert_eq!(decimals, 1);
        assert!((ticks[0] - 0.1).abs() < 1e-9 && ticks.len() == 3, "{ticks:?}");
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let x = Scale { low: 0.0, high: 10.0, start: 0.0, end: 10.0 };
        let panel = Panel { x, y: Scale { low: 0.0, high: 10.0, start: 10.0, end: 0.0 } };
        let (outline, _) = panel.path(&[(0.0, Some(1.0)), (2.0, Some(3.0)), (4.0, None)]);
        assert_eq!(outline, "M0.00 9.00H2.00V7.00H4.00");
    }
}

//! Axes, marks and words of a figure, as SVG whose colours are classes: the page gives them those
//! of its theme, a file of its own those of paper.

use std::fmt::Write;

use transom_view::report::{Scale, escape};

pub const WIDTH: f64 = 480.0;
/// Font size, in units of the figure.
pub const TEXT: f64 = 9.5;
pub const LEFT: f64 = 56.0;
pub const RIGHT: f64 = WIDTH - 8.0;
/// Height of the panel.
pub const PANEL: f64 = 190.0;
/// Colours there are; more curves begin again with another dash.
pub const COLOURS: usize = 6;

/// What the classes look like on paper.
const PAPER: &str = "text{fill:#1a1a1a}.soft{fill:#555}.back{fill:#fff}\
    .grid{stroke:#e2e2e2;stroke-width:.6}.axis{stroke:#8a8a8a;stroke-width:.8}\
    .line{fill:none;stroke-linejoin:round}.none{fill:#fff}\
    .s0{stroke:#0072b2}.s1{stroke:#b87400}.s2{stroke:#00805c}.s3{stroke:#a8518a}.s4{stroke:#c44a00}\
    .s5{stroke:#3d94cc}.f0{fill:#0072b2}.f1{fill:#b87400}.f2{fill:#00805c}.f3{fill:#a8518a}\
    .f4{fill:#c44a00}.f5{fill:#3d94cc}";

/// A figure, complete but for its colours.
pub struct Drawing {
    pub title: String,
    pub body: String,
    pub height: f64,
}

impl Drawing {
    /// For a page that has a style for the classes.
    pub fn inline(&self) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {:.1}\" role=\"img\"><title>{}</title>\n{}</svg>",
            self.height,
            escape(&self.title),
            self.body
        )
    }

    /// A file of its own, on white.
    pub fn document(&self) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"130mm\" height=\"{:.2}mm\" \
             viewBox=\"0 0 {WIDTH} {:.1}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n\
             <title>{}</title>\n<style>{PAPER}</style>\n\
             <rect class=\"back\" width=\"{WIDTH}\" height=\"{:.1}\"/>\n{}</svg>\n",
            self.height * 130.0 / WIDTH,
            self.height,
            escape(&self.title),
            self.height,
            self.body
        )
    }
}

/// How a curve differs from others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pen {
    pub colour: usize,
    /// Of the paper: dashed, with hollow marks.
    pub published: bool,
}

impl Pen {
    pub fn ours(n: usize) -> Pen {
        Pen { colour: n % COLOURS, published: false }
    }

    pub fn published(self) -> Pen {
        Pen { published: true, ..self }
    }
}

/// SVG as it grows.
#[derive(Default)]
pub struct Canvas(pub String);

impl Canvas {
    pub fn words(&mut self, at: (f64, f64), anchor: &str, class: &str, words: &str) {
        let (x, y) = at;
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{TEXT}\" \
             class=\"{class}\">{}</text>",
            escape(words)
        );
    }

    pub fn segment(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.0,
            "<path d=\"M{:.2} {:.2}L{:.2} {:.2}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub fn path(&mut self, path: &str, pen: Pen, width: f64) {
        let dash = if pen.published { " stroke-dasharray=\"4 2.5\"" } else { "" };
        let _ = writeln!(
            self.0,
            "<path d=\"{path}\" class=\"line s{}\" stroke-width=\"{width}\"{dash}/>",
            pen.colour
        );
    }

    /// Each colour has a shape as well, for eyes and printers without colour.
    pub fn mark(&mut self, (x, y): (f64, f64), pen: Pen) {
        let r = 2.9;
        let path = match pen.colour % 4 {
            0 => format!(
                "M{:.2} {y:.2}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
                x - r,
                d = 2.0 * r
            ),
            1 => format!("M{:.2} {:.2}h{d}v{d}h-{d}z", x - 2.5, y - 2.5, d = 5.0),
            2 => format!("M{:.2} {:.2}h6.8l-3.4 -6z", x - 3.4, y + 2.6),
            _ => format!("M{x:.2} {:.2}l3.6 3.6l-3.6 3.6l-3.6 -3.6z", y - 3.6),
        };
        let fill = if pen.published { "none".to_owned() } else { format!("f{}", pen.colour) };
        let _ = writeln!(
            self.0,
            "<path d=\"{path}\" class=\"s{} {fill}\" stroke-width=\"1.1\"/>",
            pen.colour
        );
    }

    /// From the least to the greatest of the repeats.
    pub fn spread(&mut self, x: f64, (low, high): (f64, f64), pen: Pen) {
        if (low - high).abs() < 0.4 {
            return;
        }
        let path = format!(
            "M{x:.2} {low:.2}V{high:.2}M{:.2} {low:.2}h5M{:.2} {high:.2}h5",
            x - 2.5,
            x - 2.5
        );
        let _ = writeln!(
            self.0,
            "<path d=\"{path}\" class=\"line s{}\" stroke-width=\".8\"/>",
            pen.colour
        );
    }

    /// Names in rows, each behind its line and mark; returns the last baseline.
    pub fn legend(&mut self, top: f64, entries: &[(Pen, &str)]) -> f64 {
        let (mut x, mut baseline) = (LEFT, top);
        for &(pen, name) in entries {
            if x > LEFT && x + 24.0 + wide(name) > RIGHT {
                (x, baseline) = (LEFT, baseline + TEXT * 1.4);
            }
            let y = baseline - TEXT * 0.33;
            self.path(&format!("M{x:.1} {y:.1}h18"), pen, 1.3);
            self.mark((x + 9.0, y), pen);
            self.words((x + 22.0, baseline), "start", "ink", name);
            x += 22.0 + wide(name) + 12.0;
        }
        baseline
    }

    /// Grid and numbers of the values, and their unit above.
    pub fn values(&mut self, y: Scale, unit: &str) {
        let (ticks, decimals) = y.ticks(24.0);
        for tick in ticks {
            let at = y.at(tick);
            self.segment((LEFT, at), (RIGHT, at), "grid");
            let number = format!("{tick:.decimals$}");
            self.words((LEFT - 5.0, at + TEXT * 0.35), "end", "soft", &number);
        }
        self.segment((LEFT, y.start), (RIGHT, y.start), "axis");
        self.words((4.0, y.end - 6.0), "start", "soft", unit);
    }
}

/// From zero (or below, if a value is) to a little above the greatest.
pub fn value_scale(values: impl Iterator<Item = f64>, top: f64) -> Scale {
    let (mut low, mut high) = (0.0f64, 0.0f64);
    for value in values.filter(|value| value.is_finite()) {
        (low, high) = (low.min(value), high.max(value));
    }
    let room = (high - low) * 0.06;
    let high = if high > low { high + room } else { low + 1.0 };
    let low = if low < 0.0 { low - room } else { 0.0 };
    Scale { low, high, start: top + PANEL, end: top }
}

/// About how wide a word is: no font is at hand when the figure is written.
pub fn wide(word: &str) -> f64 {
    word.chars().count() as f64 * TEXT * 0.53
}

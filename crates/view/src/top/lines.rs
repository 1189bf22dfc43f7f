//! Parts of a line, over as many lines as a narrow screen needs for them.

use ratatui::text::{Line, Span};

use super::numbers::columns;

/// Between two parts.
const GAP: usize = 2;

/// The parts in lines of so many columns, `most` of them. One that is longer than a line goes on in the
/// next after a space of its own; what has no room at all is left out.
pub fn of(parts: Vec<Span<'static>>, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    for part in parts {
        let mut gap = GAP;
        for word in words(&part.content, width) {
            let line = lines.last_mut().expect("never empty");
            let used = line.width();
            if used == 0 {
                line.push_span(Span::styled(word, part.style));
            } else if used + gap + columns(&word) <= width {
                line.push_span(Span::raw(" ".repeat(gap)));
                line.push_span(Span::styled(word, part.style));
            } else if lines.len() < most {
                lines.push(Line::from(Span::styled(word, part.style)));
            } else {
                return lines;
            }
            gap = 1;
        }
    }
    lines
}

/// One, if it fits into a line.
fn words(text: &str, width: usize) -> Vec<String> {
    match columns(text) <= width {
        true => vec![text.to_owned()],
        false => text.split_whitespace().map(str::to_owned).collect(),
    }
}

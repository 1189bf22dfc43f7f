//! A plot in braille dots, 2 × 4 to a character, or in ASCII.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Dots to be drawn into a rectangle of characters.
pub struct Plot {
    area: Rect,
    /// One byte a character, a bit a dot: column 0 in bits 0-3 from the top, column 1 in 4-7.
    cells: Vec<u8>,
}

impl Plot {
    pub fn new(area: Rect) -> Plot {
        Plot { area, cells: vec![0; usize::from(area.width) * usize::from(area.height)] }
    }

    /// Dots across and down.
    pub fn columns(&self) -> usize {
        usize::from(self.area.width) * 2
    }

    pub fn rows(&self) -> usize {
        usize::from(self.area.height) * 4
    }

    /// A vertical line at dot column `x` between two heights, each 0 (bottom) to 1 (top).
    pub fn line(&mut self, x: usize, from: f64, to: f64) {
        let (rows, width) = (self.rows(), usize::from(self.area.width));
        if x >= self.columns() || rows == 0 {
            return;
        }
        let row = |height: f64| (height.clamp(0.0, 1.0) * (rows - 1) as f64).round() as usize;
        let (low, high) = (row(from.min(to)), row(from.max(to)));
        for y in low..=high {
            let down = rows - 1 - y;
            self.cells[down / 4 * width + x / 2] |= 1 << (down % 4 + x % 2 * 4);
        }
    }

    pub fn draw(&self, buffer: &mut Buffer, style: Style, ascii: bool) {
        let width = usize::from(self.area.width);
        for (i, &dots) in self.cells.iter().enumerate().filter(|&(_, &dots)| dots != 0) {
            let (x, y) = ((i % width) as u16, (i / width) as u16);
            let sign = if ascii { ascii_sign(dots) } else { braille(dots) };
            if let Some(cell) = buffer.cell_mut((self.area.x + x, self.area.y + y)) {
                cell.set_char(sign).set_style(style);
            }
        }
    }
}

/// Unicode numbers the dots of the upper three rows first, then those of the fourth.
fn braille(dots: u8) -> char {
    let (left, right) = (u32::from(dots & 0xf), u32::from(dots >> 4));
    let bits = left & 7 | (right & 7) << 3 | (left >> 3) << 6 | (right >> 3) << 7;
    char::from_u32(0x2800 + bits).unwrap_or(' ')
}

fn ascii_sign(dots: u8) -> char {
    let rows = dots & 0xf | dots >> 4;
    match (rows & 0b0011 != 0, rows & 0b1100 != 0) {
        (true, true) => '|',
        (true, false) => '\'',
        _ => '.',
    }
}

/// The next round number that is not below `value`: the top of an axis.
pub fn round_up(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 {
        return 1.0;
    }
    let decade = 10f64.powf(value.log10().floor());
    const STEPS: [f64; 9] = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let enough = value / decade * (1.0 - 1e-9);
    decade * STEPS.into_iter().find(|&step| step >= enough).unwrap_or(10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_drawn_from_level_to_level() {
        let area = Rect::new(0, 0, 2, 1);
        let mut plot = Plot::new(area);
        plot.line(0, 0.0, 0.0);
        plot.line(1, 0.0, 1.0);
        plot.line(2, 1.0, 1.0);
        plot.line(99, 0.0, 1.0);
        let mut buffer = Buffer::empty(area);
        plot.draw(&mut buffer, Style::new(), false);
        assert_eq!(buffer, Buffer::with_lines(["⣸⠁"]));
    }

    #[test]
    fn ascii_tells_halves_apart() {
        let area = Rect::new(0, 0, 3, 1);
        let mut plot = Plot::new(area);
        plot.line(0, 0.0, 0.0);
        plot.line(2, 0.0, 1.0);
        plot.line(4, 1.0, 1.0);
        let mut buffer = Buffer::empty(area);
        plot.draw(&mut buffer, Style::new(), true);
        assert_eq!(buffer, Buffer::with_lines([".|'"]));
    }

    #[test]
    fn axis_tops_are_round() {
        for (value, top) in [(0.0, 1.0), (1.0, 1.0), (3.2, 4.0), (10.0, 10.0), (12_345.0, 15_000.0)]
        {
            assert_eq!(round_up(value), top);
        }
    }
}

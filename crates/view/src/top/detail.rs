//! One connection: its numbers, cwnd above throughput on one time axis, its last events.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::Widget;

use super::app::App;
use super::connection::Connection;
use super::facts;
use super::history::{SLOT_NS, SLOTS, Slot, Tick, slot_number};
use super::numbers::{fit, printable, si};
use super::plot::{Plot, round_up};
use super::screen::Scene;
use super::table;
use super::theme::{Theme, Tone};

/// Characters left of the plots, for the scale.
const GUTTER: u16 = 6;

/// From this width on the events stand beside the plots, not below.
const WIDE: u16 = 130;

pub fn draw(app: &App, scene: Scene<'_>, c: &Connection, area: Rect, to: &mut Buffer) {
    let Scene { model, theme, .. } = scene;
    let top = table::header(app, scene, model.len(), area);
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(top.len() as u16),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    Text::from(top).render(head, to);
    table::keys(
        &[
            ("Esc", "table"),
            ("?", "help"),
            ("q", "quit"),
            ("Space", "freeze"),
            (theme.sign("↑↓", "j/k"), "other connection"),
        ],
        area.width,
        theme,
    )
    .render(foot, to);
    let (main, events) = if body.width >= WIDE {
        let [main, _, events] =
            Layout::horizontal([Constraint::Fill(3), Constraint::Length(2), Constraint::Fill(2)])
                .areas(body);
        (main, events)
    } else {
        let lines = if body.height >= 20 { 4 } else { 0 };
        let [main, events] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(lines)]).areas(body);
        (main, events)
    };
    let now_ns = model.now_ns();
    let width = usize::from(main.width);
    let mut lines = vec![Line::styled(
        fit(&facts::who(c, theme), width, theme.ascii),
        theme.style(if c.closed_ns.is_some() { Tone::Dim } else { Tone::Strong }),
    )];
    lines.extend(facts::lines(c, now_ns, width, theme));
    let [top, charts] = Layout::vertical([
        Constraint::Length(lines.len().min(usize::from(main.height)) as u16),
        Constraint::Fill(1),
    ])
    .areas(main);
    for (line, y) in lines.into_iter().zip(top.y..top.bottom()) {
        line.render(Rect { y, height: 1, ..top }, to);
    }
    draw_charts(c, now_ns, theme, charts, to);
    draw_events(c, theme, events, to);
}

/// The same stretch of time for every plot.
#[derive(Clone, Copy)]
struct Axis {
    /// First slot and how many.
    first: u32,
    slots: u32,
}

impl Axis {
    /// Up to the last whole slot, as far back as the connection goes, at least 15 s.
    fn new(c: &Connection, now_ns: u64) -> Axis {
        let end = slot_number(now_ns);
        let age = end.saturating_sub(slot_number(c.first_ns));
        let slots = [60, 120].into_iter().find(|&slots| age <= slots).unwrap_or(SLOTS as u32);
        Axis { first: end.saturating_sub(slots), slots }
    }

    /// The slots of one of `columns` equal stretches: first and last.
    fn stretch(self, x: usize, columns: usize) -> (u32, u32) {
        let at = |x: usize| {
            self.first.saturating_add((x as u64 * u64::from(self.slots) / columns as u64) as u32)
        };
        let first = at(x);
        (first, at(x + 1).saturating_sub(1).max(first))
    }

    fn seconds(self) -> u64 {
        u64::from(self.slots) * SLOT_NS / 1_000_000_000
    }

    fn of(self, c: &Connection) -> impl Iterator<Item = &Slot> + Clone {
        c.history.between(self.first, self.first.saturating_add(self.slots - 1))
    }
}

/// A direction of traffic: its name, and its bytes in a slot.
type Direction = (&'static str, fn(&Slot) -> u32);

fn draw_charts(c: &Connection, now_ns: u64, theme: Theme, area: Rect, to: &mut Buffer) {
    if area.height < 5 || area.width < GUTTER + 10 {
        return;
    }
    let axis = Axis::new(c, now_ns);
    let bytes = |of: fn(&Slot) -> u32| axis.of(c).map(|s| u64::from(of(s))).sum::<u64>();
    let (up, down) = (bytes(|s| s.up), bytes(|s| s.down));
    let [plots, marks, time] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1), Constraint::Length(1)])
            .areas(area);
    let both = plots.height >= 18 && up > 0 && down > 0;
    let [cwnd, first, second] = Layout::vertical([
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Fill(if both { 2 } else { 0 }),
    ])
    .areas(plots);
    draw_cwnd(c, axis, theme, cwnd, to);
    let directions: [Direction; 2] = [("up", |s| s.up), ("down", |s| s.down)];
    let stronger = usize::from(down > up);
    draw_throughput(c, axis, directions[stronger], theme, first, to);
    if both {
        draw_throughput(c, axis, directions[1 - stronger], theme, second, to);
    }
    draw_marks(c, axis, theme, marks, to);
    draw_time(axis, theme, time, to);
}

/// Draws title and scale; gives back the place of the plot.
fn frame(title: &str, top: f64, theme: Theme, area: Rect, to: &mut Buffer) -> Rect {
    let dim = theme.style(Tone::Dim);
    let plot = Rect {
        x: area.x + GUTTER,
        y: area.y + 1,
        width: area.width.saturating_sub(GUTTER),
        height: area.height.saturating_sub(1),
    };
    Line::styled(title.to_owned(), dim).render(Rect { height: 1, ..plot_title(area) }, to);
    let mut label = |y: u16, value: f64| {
        let text = format!("{:>5}", si(value));
        to.set_stringn(area.x, y, text, usize::from(GUTTER - 1), dim);
    };
    if plot.height > 1 {
        label(plot.y, top);
    }
    if plot.height > 0 {
        label(plot.bottom() - 1, 0.0);
    }
    plot
}

fn plot_title(area: Rect) -> Rect {
    Rect { x: area.x + GUTTER, width: area.width.saturating_sub(GUTTER), ..area }
}

fn draw_cwnd(c: &Connection, axis: Axis, theme: Theme, area: Rect, to: &mut Buffer) {
    let mut held = c.history.cwnd_before(axis.first);
    let highest = axis.of(c).map(|s| s.cwnd_max).max().max(held).unwrap_or(0);
    let top = round_up(f64::from(highest));
    let place = frame("cwnd, segments", top, theme, area, to);
    let mut plot = Plot::new(place);
    let columns = plot.columns();
    for x in 0..columns {
        let (first, last) = axis.stretch(x, columns);
        let slots = c.history.between(first, last).filter(|s| s.cwnd_last > 0);
        let known = slots.clone().flat_map(|s| [s.cwnd_min, s.cwnd_max]).chain(held);
        let (low, high) = (known.clone().min(), known.max());
        if let (Some(low), Some(high)) = (low, high) {
            plot.line(x, f64::from(low) / top, f64::from(high) / top);
        }
        held = slots.last().map(|s| s.cwnd_last).or(held);
    }
    plot.draw(to, theme.style(Tone::Accent), theme.ascii);
}

fn draw_throughput(
    c: &Connection,
    axis: Axis,
    (name, of): Direction,
    theme: Theme,
    area: Rect,
    to: &mut Buffer,
) {
    let seconds = SLOT_NS as f64 / 1e9;
    let top = round_up(axis.of(c).map(of).max().unwrap_or(0) as f64 / seconds);
    let place = frame(&format!("throughput {name}, B/s"), top, theme, area, to);
    let mut plot = Plot::new(place);
    let columns = plot.columns();
    for x in 0..columns {
        let (first, last) = axis.stretch(x, columns);
        let most = c.history.between(first, last).map(of).max().unwrap_or(0);
        if most > 0 {
            plot.line(x, 0.0, f64::from(most) / seconds / top);
        }
    }
    plot.draw(to, theme.style(Tone::Plain), theme.ascii);
}

/// Under the plots: what went wrong, when.
fn draw_marks(c: &Connection, axis: Axis, theme: Theme, area: Rect, to: &mut Buffer) {
    let place = plot_title(area);
    to.set_stringn(area.x, area.y, "marks", usize::from(GUTTER), theme.style(Tone::Dim));
    for x in 0..place.width {
        let (first, last) = axis.stretch(x.into(), place.width.into());
        let gravest = c.history.between(first, last).map(|slot| slot.tick).max();
        let (sign, tone) = match gravest.unwrap_or_default() {
            Tick::None => continue,
            Tick::Retransmission => ("r", Tone::Warning),
            Tick::LocalCongestion => ("L", Tone::Bad),
            Tick::Timeout => ("T", Tone::Bad),
        };
        to.set_stringn(place.x + x, area.y, sign, 1, theme.style(tone));
    }
}

fn draw_time(axis: Axis, theme: Theme, area: Rect, to: &mut Buffer) {
    let dim = theme.style(Tone::Dim);
    let place = plot_title(area);
    let width = usize::from(place.width);
    let start = format!("-{} s", axis.seconds());
    let legend = "r retransmission  T timeout  L local congestion";
    to.set_stringn(place.x, area.y, &start, width, dim);
    let now_at = place.right().saturating_sub(3);
    to.set_stringn(now_at, area.y, "now", width.min(3), dim);
    if width > start.len() + legend.len() + 8 {
        let x = place.x + ((width - legend.len()) / 2) as u16;
        to.set_stringn(x, area.y, legend, legend.len(), dim);
    }
}

/// The last events that are not plain ACKs or data, newest first.
fn draw_events(c: &Connection, theme: Theme, area: Rect, to: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let title = "last events (s since first seen)";
    to.set_stringn(area.x, area.y, fit(title, width, theme.ascii), width, theme.style(Tone::Dim));
    for (mark, y) in c.marks.iter().rev().zip(area.y + 1..area.bottom()) {
        let text = fit(&printable(&mark.line(c.first_ns), theme.ascii), width, theme.ascii);
        to.set_stringn(area.x, y, text, width, theme.style(Tone::Plain));
    }
}

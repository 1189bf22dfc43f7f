//! The table of connections and the lines around it.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Widget;

use super::app::{App, Status};
use super::column::{self, Column};
use super::family::{Family, Row};
use super::lines;
use super::model::Model;
use super::numbers::{self, aligned, fit, grouped, printable};
use super::screen::Scene;
use super::spark;
use super::theme::{Theme, Tone};

/// Draws header, table and footer.
pub fn draw(app: &mut App, scene: Scene<'_>, area: Rect, to: &mut Buffer) {
    let Scene { model, status, theme } = scene;
    let families = app.families(model);
    let rows: Vec<(Row, &Family)> =
        families.iter().flat_map(|family| family.rows().map(move |row| (row, family))).collect();
    let connections = rows.iter().filter(|(row, _)| row.cookie().is_some()).count();
    let mut top = header(app, scene, connections, area);
    if let Some(note) = status.note.as_ref().filter(|_| area.height > 8) {
        let note = Span::styled(printable(note, theme.ascii), theme.style(Tone::Warning));
        top.extend(lines::of(vec![note], area.width.into(), usize::from(area.height / 6)));
    }
    let [head, titles, body, foot] = Layout::vertical([
        Constraint::Length(top.len() as u16),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    app.page = usize::from(body.height);
    app.place(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    Text::from(top).render(head, to);
    let columns = column::choose(area.width, app.order.column);
    title_line(app, &columns, theme).render(titles, to);
    if rows.is_empty() {
        Line::styled(nothing(app, model), theme.style(Tone::Dim)).render(body, to);
    }
    for (i, (shown, family)) in rows.iter().enumerate().skip(app.offset).take(app.page) {
        let line = Rect { y: body.y + (i - app.offset) as u16, height: 1, ..body };
        row(*shown, family, model.now_ns(), &columns, theme).render(line, to);
        if i == app.cursor {
            to.set_style(line, Modifier::REVERSED);
        }
    }
    footer(app, area.width, theme).render(foot, to);
}

fn nothing(app: &App, model: &Model) -> &'static str {
    match (model.is_empty(), app.filter.is_empty()) {
        (false, false) => "no connection matches the filter (Esc clears it)",
        _ => "no TCP connection has been active yet",
    }
}

/// The lines on top: how fast events come, what was lost, what is shown. One where it has room for all.
pub fn header(app: &App, scene: Scene<'_>, shown: usize, area: Rect) -> Vec<Line<'static>> {
    let Scene { model, status, theme } = scene;
    let mut parts = vec![Span::styled("transom top", theme.style(Tone::Strong))];
    if app.frozen.is_some() {
        let frozen = theme.style(Tone::Accent).add_modifier(Modifier::REVERSED);
        parts.push(Span::styled(" FROZEN ", frozen));
    }
    parts.push(Span::raw(format!("{} events/s", grouped(model.event_rate().round() as u64))));
    parts.extend(losses(status, theme));
    let total = grouped(model.len() as u64);
    let connections = if shown == model.len() {
        format!("{total} connections")
    } else {
        format!("{} of {total} connections", grouped(shown as u64))
    };
    parts.push(Span::raw(connections));
    if model.not_kept() > 0 {
        parts.push(Span::raw(format!("{} not kept", grouped(model.not_kept()))));
    }
    let arrow =
        if app.order.is_descending() { theme.sign("↓", "v") } else { theme.sign("↑", "^") };
    parts.push(Span::raw(format!("by {} {arrow}", app.order.column.name())));
    if !app.filter.is_empty() && app.editing.is_none() {
        let text = format!("/{}", printable(&app.filter, theme.ascii));
        parts.push(Span::styled(text, theme.style(Tone::Accent)));
    }
    // The connections have half of a low screen.
    let most = usize::from(area.height / 4).max(1);
    lines::of(parts, usize::from(area.width), most)
}

/// Events that were lost, and what was seen of segments without an event.
fn losses(status: &Status, theme: Theme) -> Vec<Span<'static>> {
    let (unseen, lost): (Vec<_>, Vec<_>) =
        status.lost.iter().partition(|(cause, _)| cause.counts_segments());
    let mut parts = Vec::new();
    if lost.is_empty() {
        parts.push(Span::raw("lost 0"));
    } else {
        let total = lost.iter().map(|(_, count)| count).sum();
        let causes: Vec<String> =
            lost.iter().map(|(cause, n)| format!("{cause} {}", grouped(*n))).collect();
        let text = format!("lost {} ({})", grouped(total), causes.join(", "));
        parts.push(Span::styled(text, theme.style(Tone::Bad)));
    }
    parts.extend(unseen.into_iter().map(|(cause, segments)| {
        let text = format!("{} {}", grouped(segments), cause.told_as("events"));
        Span::styled(text, theme.style(Tone::Warning))
    }));
    parts
}

fn title_line(app: &App, columns: &[(Column, u16)], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for &(column, width) in columns {
        // Sorted by the sum of both directions: both are what the eye looks for.
        let both = app.order.column == Column::Rate && matches!(column, Column::Up | Column::Down);
        let style = match both || column == app.order.column {
            true => theme.style(Tone::Accent).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            false => theme.style(Tone::Dim),
        };
        let title = match column {
            Column::Sparkline if usize::from(width) < column.title().len() => "CWND, 1 s",
            _ => column.title(),
        };
        let title = fit(title, usize::from(width), theme.ascii);
        let pad = usize::from(width).saturating_sub(numbers::columns(&title));
        let (before, after) = if column.is_right_aligned() { (pad, 1) } else { (0, pad + 1) };
        spans.push(Span::raw(" ".repeat(before)));
        spans.push(Span::styled(title, style));
        spans.push(Span::raw(" ".repeat(after)));
    }
    Line::from(spans)
}

fn row(
    row: Row,
    family: &Family,
    now_ns: u64,
    columns: &[(Column, u16)],
    theme: Theme,
) -> Line<'static> {
    let connection = family.0.iter().find(|c| row.cookie() == Some(c.cookie));
    let mut spans = Vec::with_capacity(2 * columns.len());
    for &(column, width) in columns {
        let (text, tone) = match (column, connection) {
            (Column::Sparkline, Some(c)) => {
                let tone = if c.closed_ns.is_some() { Tone::Dim } else { Tone::Accent };
                (spark::cwnd(c, now_ns, usize::from(width), theme), tone)
            }
            _ => family.cell(row, column, now_ns, usize::from(width), theme),
        };
        spans.push(Span::styled(
            aligned(&text, width.into(), column.is_right_aligned()),
            theme.style(tone),
        ));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn footer(app: &App, width: u16, theme: Theme) -> Line<'static> {
    if app.editing.is_some() {
        return Line::from(vec![
            Span::styled("/", theme.style(Tone::Accent)),
            Span::raw(printable(&app.filter, theme.ascii)),
            Span::styled(" ", Modifier::REVERSED),
            Span::styled("  Enter keeps, Esc drops", theme.style(Tone::Dim)),
        ]);
    }
    let sort = theme.sign("←→", "<>");
    keys(
        &[
            ("?", "help"),
            ("q", "quit"),
            ("Enter", "detail"),
            ("/", "filter"),
            (sort, "sort"),
            ("r", "reverse"),
            ("Space", if app.frozen.is_some() { "go on" } else { "freeze" }),
        ],
        width,
        theme,
    )
}

/// A line of keys and what they do: the first of them, as many as have room. The help has all.
pub fn keys(pairs: &[(&'static str, &'static str)], width: u16, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    let mut end = 0;
    for (key, action) in pairs {
        end += numbers::columns(key) + 1 + numbers::columns(action);
        if end > usize::from(width) {
            break;
        }
        end += 2;
        spans.push(Span::styled(*key, theme.style(Tone::Strong)));
        spans.push(Span::styled(format!(" {action}  "), theme.style(Tone::Dim)));
    }
    Line::from(spans)
}

//! The table of connections and the lines around it.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::app::App;
use super::column::{self, Column};
use super::family::{Family, Row};
use super::model::Model;
use super::numbers::{self, aligned, fit, grouped, printable};
use super::screen::Scene;
use super::spark;
use super::theme::{Theme, Tone};

/// Draws header, table and footer.
pub fn draw(app: &mut App, scene: Scene<'_>, area: Rect, to: &mut Buffer) {
    let Scene { model, status, theme } = scene;
    let note = u16::from(status.note.is_some() && area.height > 8);
    let [head, note_line, titles, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(note),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    app.page = usize::from(body.height);
    let families = app.families(model);
    let rows: Vec<(Row, &Family)> =
        families.iter().flat_map(|family| family.rows().map(move |row| (row, family))).collect();
    app.place(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    let connections = rows.iter().filter(|(row, _)| row.cookie().is_some()).count();
    header(app, scene, connections).render(head, to);
    if let Some(note) = &status.note {
        let text = fit(&printable(note, theme.ascii), usize::from(area.width), theme.ascii);
        Line::styled(text, theme.style(Tone::Warning)).render(note_line, to);
    }
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
    footer(app, theme).render(foot, to);
}

fn nothing(app: &App, model: &Model) -> &'static str {
    match (model.is_empty(), app.filter.is_empty()) {
        (false, false) => "no connection matches the filter (Esc clears it)",
        _ => "no TCP connection has been active yet",
    }
}

/// The line on top: how fast events come, what was lost, what is shown.
pub fn header(app: &App, scene: Scene<'_>, shown: usize) -> Line<'static> {
    let Scene { model, status, theme } = scene;
    let mut spans = vec![Span::styled("transom top", theme.style(Tone::Strong))];
    if app.frozen.is_some() {
        let frozen = theme.style(Tone::Accent).add_modifier(Modifier::REVERSED);
        spans.push(Span::raw("  "));
        spans.push(Span::styled(" FROZEN ", frozen));
    }
    let mut plain = |text: String| spans.push(Span::raw(format!("  {text}")));
    plain(format!("{} events/s", grouped(model.event_rate().round() as u64)));
    let (unseen, lost): (Vec<_>, Vec<_>) =
        status.lost.iter().partition(|(cause, _)| cause.counts_segments());
    if lost.is_empty() {
        plain("lost 0".into());
    } else {
        let total = lost.iter().map(|(_, count)| count).sum();
        let causes: Vec<String> =
            lost.iter().map(|(cause, n)| format!("{cause} {}", grouped(*n))).collect();
        let text = format!("  lost {} ({})", grouped(total), causes.join(", "));
        spans.push(Span::styled(text, theme.style(Tone::Bad)));
    }
    for (cause, segments) in unseen {
        let text = format!("  {} {}", grouped(segments), cause.told_as("events"));
        spans.push(Span::styled(text, theme.style(Tone::Warning)));
    }
    let mut plain = |text: String| spans.push(Span::raw(format!("  {text}")));
    let total = grouped(model.len() as u64);
    if shown == model.len() {
        plain(format!("{total} connections"));
    } else {
        plain(format!("{} of {total} connections", grouped(shown as u64)));
    }
    if model.not_kept() > 0 {
        plain(format!("{} not kept", grouped(model.not_kept())));
    }
    let arrow =
        if app.order.is_descending() { theme.sign("↓", "v") } else { theme.sign("↑", "^") };
    plain(format!("by {} {arrow}", app.order.column.name()));
    if !app.filter.is_empty() && app.editing.is_none() {
        let text = format!("  /{}", printable(&app.filter, theme.ascii));
        spans.push(Span::styled(text, theme.style(Tone::Accent)));
    }
    Line::from(spans)
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

fn footer(app: &App, theme: Theme) -> Line<'static> {
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
        theme,
    )
}

/// A line of keys and what they do.
pub fn keys(pairs: &[(&'static str, &'static str)], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (key, action) in pairs {
        spans.push(Span::styled(*key, theme.style(Tone::Strong)));
        spans.push(Span::styled(format!(" {action}  "), theme.style(Tone::Dim)));
    }
    Line::from(spans)
}

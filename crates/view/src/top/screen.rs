//! Which of the views is drawn.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Status, View};
use super::model::Model;
use super::theme::Theme;
use super::{detail, help, table};

/// What is drawn, whichever the view.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub model: &'a Model,
    pub status: &'a Status,
    pub theme: Theme,
}

/// Draws the whole screen; `live` gives way to what was frozen.
pub fn draw(app: &mut App, live: Scene<'_>, area: Rect, to: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    if app.help {
        return help::draw(app.scroll, live.theme, area, to);
    }
    let frozen = app.frozen.clone();
    let scene = match frozen.as_deref() {
        Some((model, status)) => Scene { model, status, ..live },
        None => live,
    };
    if let View::Detail(cookie) = app.view {
        if let Some(connection) = scene.model.connection(cookie) {
            return detail::draw(app, scene, connection, area, to);
        }
        // It has faded out.
        app.view = View::Table;
    }
    table::draw(app, scene, area, to);
}

//! What the user has chosen, and how keys change it. Pure: no terminal.

use std::rc::Rc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use transom_event::LossCause;

use super::column::Column;
use super::family::{Family, Row};
use super::model::Model;
use super::order::{Filter, Order};

/// What the screen shows besides the connections.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Events lost, by cause; only causes that happened.
    pub lost: Vec<(LossCause, u64)>,
    /// A remark of the source, e.g. that it only polls.
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Table,
    /// One connection, by its cookie.
    Detail(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Stay,
    Quit,
    Suspend,
}

/// A connection stays the same row when others of its family come and go.
fn is_same(a: Row, b: Row) -> bool {
    a == b || a.cookie().is_some() && a.cookie() == b.cookie()
}

/// State of the screen.
#[derive(Clone, Debug)]
pub struct App {
    pub view: View,
    pub help: bool,
    pub scroll: u16,
    pub order: Order,
    pub filter: String,
    /// The filter before editing, while it is being edited.
    pub editing: Option<String>,
    /// While frozen: what the screen goes on showing.
    pub frozen: Option<Rc<(Model, Status)>>,
    /// What is under the cursor, and its place in the table.
    pub selected: Option<Row>,
    pub cursor: usize,
    /// First row of the table on the screen, and how many fit.
    pub offset: usize,
    pub page: usize,
}

impl App {
    pub fn new(sort: Column, filter: &str) -> App {
        App {
            view: View::Table,
            help: false,
            scroll: 0,
            order: Order { column: sort, reverse: false },
            filter: filter.to_owned(),
            editing: None,
            frozen: None,
            selected: None,
            cursor: 0,
            offset: 0,
            page: 1,
        }
    }

    /// What the table shows, in order.
    pub fn families<'a>(&self, model: &'a Model) -> Vec<Family<'a>> {
        self.order.apply(model, &Filter::new(&self.filter))
    }

    /// Rows of the table, in order; keeps the cursor on its row.
    pub fn rows(&mut self, model: &Model) -> Vec<Row> {
        let rows: Vec<Row> = self.families(model).iter().flat_map(Family::rows).collect();
        self.place(&rows);
        rows
    }

    /// Keeps the cursor on its row, and on the screen.
    pub fn place(&mut self, rows: &[Row]) {
        let place =
            self.selected.and_then(|chosen| rows.iter().position(|&row| is_same(row, chosen)));
        self.cursor = place.unwrap_or(self.cursor).min(rows.len().saturating_sub(1));
        // The top row is where the eye rests: there the cursor stays and does not follow.
        self.selected = rows.get(self.cursor).copied().filter(|_| self.cursor > 0);
        if self.cursor < self.offset {
            self.offset = self.cursor;
        }
        self.offset = self.offset.max((self.cursor + 1).saturating_sub(self.page.max(1)));
        self.offset = self.offset.min(rows.len().saturating_sub(self.page.max(1)));
    }

    fn move_to(&mut self, place: usize, rows: &[Row]) {
        self.cursor = place.min(rows.len().saturating_sub(1));
        self.selected = rows.get(self.cursor).copied();
    }

    /// Takes a key; `live` and `status` are what happens behind a frozen screen.
    pub fn key(&mut self, key: KeyEvent, live: &Model, status: &Status) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Next::Quit,
                KeyCode::Char('z') => Next::Suspend,
                _ => Next::Stay,
            };
        }
        if self.editing.is_some() {
            self.edit(key.code);
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('?' | 'h') => (self.help, self.scroll) = (!self.help, 0),
            KeyCode::Char(' ') => self.freeze(live, status),
            KeyCode::Esc if self.help => self.help = false,
            _ if self.help => self.scroll_help(key.code),
            KeyCode::Esc => self.back(),
            _ => self.navigate(key.code, live),
        }
        Next::Stay
    }

    fn freeze(&mut self, live: &Model, status: &Status) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Rc::new((live.clone(), status.clone()))),
        };
    }

    /// Out of the detail view; in the table, out of the filter.
    fn back(&mut self) {
        match self.view {
            View::Detail(_) => self.view = View::Table,
            View::Table => self.filter.clear(),
        }
    }

    fn scroll_help(&mut self, code: KeyCode) {
        self.scroll = match code {
            KeyCode::Down | KeyCode::Char('j') => self.scroll.saturating_add(1),
            KeyCode::PageDown => self.scroll.saturating_add(10),
            KeyCode::Up | KeyCode::Char('k') => self.scroll.saturating_sub(1),
            KeyCode::PageUp => self.scroll.saturating_sub(10),
            _ => self.scroll,
        };
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.editing = None,
            KeyCode::Esc => self.filter = self.editing.take().unwrap_or_default(),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if !c.is_control() && self.filter.chars().count() < 200 => {
                self.filter.push(c);
            }
            _ => {}
        }
    }

    fn navigate(&mut self, code: KeyCode, live: &Model) {
        let frozen = self.frozen.clone();
        let rows = self.rows(frozen.as_ref().map_or(live, |frozen| &frozen.0));
        let page = self.page.max(1);
        match code {
            KeyCode::Enter => {
                // A sum has no details of its own: its first subflow stands for it.
                let chosen = rows.iter().skip(self.cursor).find(|row| row.cookie().is_some());
                self.view = match (self.view, chosen) {
                    (View::Table, Some(row @ (Row::Connection(cookie) | Row::Subflow(cookie)))) => {
                        self.selected = Some(*row);
                        View::Detail(*cookie)
                    }
                    _ => View::Table,
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.move_to(self.cursor.saturating_sub(1), &rows),
            KeyCode::Down | KeyCode::Char('j') => self.move_to(self.cursor + 1, &rows),
            KeyCode::PageUp => self.move_to(self.cursor.saturating_sub(page), &rows),
            KeyCode::PageDown => self.move_to(self.cursor + page, &rows),
            KeyCode::Home | KeyCode::Char('g') => self.move_to(0, &rows),
            KeyCode::End | KeyCode::Char('G') => self.move_to(usize::MAX, &rows),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by_neighbour(-1),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by_neighbour(1),
            KeyCode::Char('r') => self.order.reverse = !self.order.reverse,
            KeyCode::Char('/') if self.view == View::Table => {
                self.editing = Some(self.filter.clone());
            }
            KeyCode::Char(letter) => {
                if let Some(column) = column_of(letter) {
                    self.order = Order { column, reverse: false };
                }
            }
            _ => {}
        }
        // In the detail view the arrows walk from connection to connection.
        let moves = matches!(code, KeyCode::Up | KeyCode::Down | KeyCode::Char('j' | 'k'));
        if moves && matches!(self.view, View::Detail(_)) {
            self.skip_sum(code, &rows);
            if let Some(cookie) = rows.get(self.cursor).and_then(|row| row.cookie()) {
                self.view = View::Detail(cookie);
            }
        }
    }

    /// Goes on, in the direction of the key, from a sum to a subflow.
    fn skip_sum(&mut self, code: KeyCode, rows: &[Row]) {
        if let Some(Row::Sum(_)) = rows.get(self.cursor) {
            let up = matches!(code, KeyCode::Up | KeyCode::Char('k')) && self.cursor > 0;
            self.move_to(if up { self.cursor - 1 } else { self.cursor + 1 }, rows);
        }
    }

    fn sort_by_neighbour(&mut self, step: isize) {
        let columns: Vec<Column> = Column::sortable().collect();
        let at = columns.iter().position(|&c| c == self.order.column).unwrap_or(0);
        let next = (at as isize + step).rem_euclid(columns.len() as isize) as usize;
        self.order = Order { column: columns[next], reverse: false };
    }
}

/// Letters that sort at once; the arrows reach every column.
pub const SORT_LETTERS: [(char, Column); 8] = [
    ('B', Column::Rate),
    ('C', Column::Cwnd),
    ('F', Column::InFlight),
    ('L', Column::Limit),
    ('P', Column::Program),
    ('Q', Column::SendQueue),
    ('R', Column::Retransmitted),
    ('S', Column::Srtt),
];

fn column_of(letter: char) -> Option<Column> {
    SORT_LETTERS.iter().find(|(key, _)| *key == letter).map(|&(_, column)| column)
}

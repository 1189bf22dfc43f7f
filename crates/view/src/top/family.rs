//! Subflows of Multipath TCP connections under their sum (RFC 8684).

use std::collections::HashMap;

use transom_event::Token;

use super::column::{Column, Key};
use super::connection::Connection;
use super::numbers::{fit, printable, si};
use super::theme::{Theme, Tone};

/// What the table shows together: one connection, or subflows of one, the first to start first.
#[derive(Clone, Debug)]
pub struct Family<'a>(pub Vec<&'a Connection>);

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    Connection(u64),
    /// The sum of the subflows below it.
    Sum(Token),
    Subflow(u64),
}

impl Row {
    /// The connection of the row, if it is one.
    pub fn cookie(self) -> Option<u64> {
        match self {
            Row::Connection(cookie) | Row::Subflow(cookie) => Some(cookie),
            Row::Sum(_) => None,
        }
    }
}

impl<'a> Family<'a> {
    /// Every connection alone, subflows of one connection together.
    pub fn all(connections: impl Iterator<Item = &'a Connection>) -> Vec<Family<'a>> {
        let mut families: Vec<Family> = Vec::new();
        let mut places: HashMap<Token, usize> = HashMap::new();
        for connection in connections {
            match connection.mptcp().and_then(|token| places.get(&token).copied()) {
                Some(place) => families[place].0.push(connection),
                None => {
                    if let Some(token) = connection.mptcp() {
                        places.insert(token, families.len());
                    }
                    families.push(Family(vec![connection]));
                }
            }
        }
        for Family(members) in &mut families {
            members.sort_by_key(|c| (c.first_ns, c.cookie));
        }
        families
    }

    /// Its token, if it has a sum: a single subflow is its own.
    pub fn token(&self) -> Option<Token> {
        self.0.first().filter(|_| self.0.len() > 1)?.mptcp()
    }

    pub fn is_closed(&self) -> bool {
        self.0.iter().all(|c| c.closed_ns.is_some())
    }

    /// By age where all else is equal.
    pub fn age(&self) -> (u64, u64) {
        (self.0[0].first_ns, self.0[0].cookie)
    }

    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let token = self.token();
        let member = move |cookie| match token {
            Some(_) => Row::Subflow(cookie),
            None => Row::Connection(cookie),
        };
        token.map(Row::Sum).into_iter().chain(self.0.iter().map(move |c| member(c.cookie)))
    }

    pub fn key(&self, column: Column, now_ns: u64) -> Key {
        match adds_up(column) {
            true => Key::Number(self.sum(column, now_ns)),
            false => column.key(self.0[0], now_ns),
        }
    }

    fn sum(&self, column: Column, now_ns: u64) -> f64 {
        let number = |c: &&Connection| match column.key(c, now_ns) {
            Key::Number(number) => number,
            Key::Text(_) | Key::Address(_) => 0.0,
        };
        self.0.iter().map(number).sum()
    }

    /// The text of a cell, at most `width` characters, and its tone.
    pub fn cell(
        &self,
        row: Row,
        column: Column,
        now_ns: u64,
        width: usize,
        theme: Theme,
    ) -> (String, Tone) {
        let Some(c) = self.0.iter().find(|c| row.cookie() == Some(c.cookie)) else {
            return self.sum_cell(column, now_ns, width, theme);
        };
        let indent = match (row, column) {
            (Row::Subflow(_), Column::Program) => "  ",
            _ => "",
        };
        let (text, tone) = column.cell(c, now_ns, width.saturating_sub(indent.len()), theme);
        (format!("{indent}{text}"), tone)
    }

    fn sum_cell(&self, column: Column, now_ns: u64, width: usize, theme: Theme) -> (String, Tone) {
        let first = self.0[0];
        let text = match column {
            Column::Program => printable(&first.program(), theme.ascii),
            Column::Pid if first.tgid != 0 => first.tgid.to_string(),
            Column::Local => String::from("MPTCP"),
            Column::Remote => {
                let token = self.token().map(|token| token.to_string()).unwrap_or_default();
                format!("{} subflows, {token}", self.0.len())
            }
            Column::Sparkline => String::new(),
            _ if adds_up(column) => si(self.sum(column, now_ns)),
            _ => String::new(),
        };
        let tone = if self.is_closed() { Tone::Dim } else { Tone::Strong };
        (fit(&text, width, theme.ascii), tone)
    }
}

/// Whether the numbers of subflows make that of their connection.
fn adds_up(column: Column) -> bool {
    use Column::*;
    matches!(
        column,
        Rate | Up
            | Down
            | Sparkline
            | Cwnd
            | InFlight
            | Retransmitted
            | Lately
            | Rtos
            | SendQueue
            | ReceiveQueue
    )
}

//! Which connections the table shows, and in what order.

use transom_event::{CaState, TcpState};

use super::column::{Column, Key};
use super::connection::Connection;
use super::model::Model;

/// Words that must all occur in program, pid, addresses with ports, algorithm or states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    words: Vec<String>,
}

impl Filter {
    /// Words are separated by spaces; case does not matter.
    pub fn new(text: &str) -> Filter {
        Filter { words: text.split_whitespace().map(str::to_lowercase).collect() }
    }

    pub fn matches(&self, c: &Connection) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let ends = c.endpoints().map_or_else(String::new, |e| format!("{} {}", e.local, e.remote));
        let text = format!(
            "{} {} {ends} {} {} {}",
            c.program(),
            c.tgid,
            c.algorithm(),
            c.tcp().map_or("", TcpState::name),
            c.ca().map_or("", CaState::name),
        )
        .to_lowercase();
        self.words.iter().all(|word| text.contains(word.as_str()))
    }
}

/// How the table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub column: Column,
    /// Against the column's natural direction.
    pub reverse: bool,
}

impl Order {
    pub fn is_descending(self) -> bool {
        self.column.is_descending() != self.reverse
    }

    /// The connections that pass the filter, sorted; closed ones last, equals by age.
    pub fn apply<'a>(self, model: &'a Model, filter: &Filter) -> Vec<&'a Connection> {
        let now_ns = model.now_ns();
        let mut rows: Vec<(bool, Key, &Connection)> = model
            .connections()
            .filter(|c| filter.matches(c))
            .map(|c| (c.closed_ns.is_some(), self.column.key(c, now_ns), c))
            .collect();
        rows.sort_by(|(a_closed, a_key, a), (b_closed, b_key, b)| {
            let keys = a_key.compare(b_key);
            let keys = if self.is_descending() { keys.reverse() } else { keys };
            a_closed
                .cmp(b_closed)
                .then(keys)
                .then((a.first_ns, a.cookie).cmp(&(b.first_ns, b.cookie)))
        });
        rows.into_iter().map(|(_, _, c)| c).collect()
    }
}

//! Which connections the table shows, and in what order.

use transom_analysis::{Identified, Selector};
use transom_event::{CaState, TcpState};

use super::column::{Column, Key};
use super::connection::Connection;
use super::family::Family;
use super::model::Model;

/// Words that must all be true of a connection: selectors as every command takes them, an
/// algorithm, a state, `mptcp`, or a name that is shown of an address or a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    words: Vec<(String, Option<Selector>)>,
}

impl Filter {
    /// Words are separated by spaces; case does not matter.
    pub fn new(text: &str) -> Filter {
        let word = |word: &str| (word.to_lowercase(), word.parse().ok());
        Filter { words: text.split_whitespace().map(word).collect() }
    }

    pub fn matches(&self, c: &Connection) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let text = format!(
            "{} {} {} {} {}",
            c.algorithm(),
            c.tcp().map_or("", TcpState::name),
            c.ca().map_or("", CaState::name),
            c.mptcp().map_or("", |_| "mptcp"),
            c.names().collect::<Vec<_>>().join(" "),
        )
        .to_lowercase();
        self.words.iter().all(|(word, selector)| {
            let selects = |selector: &Selector| selector.matches(&c.identity());
            text.contains(word.as_str()) || selector.as_ref().is_some_and(selects)
        })
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

    /// The connections that pass the filter, sorted; closed ones last, equals by age; subflows of
    /// one Multipath TCP connection together, by their sum.
    pub fn apply<'a>(self, model: &'a Model, filter: &Filter) -> Vec<Family<'a>> {
        let now_ns = model.now_ns();
        let wanted = model.connections().filter(|c| filter.matches(c));
        let mut rows: Vec<(bool, Key, Family)> = Family::all(wanted)
            .into_iter()
            .map(|family| (family.is_closed(), family.key(self.column, now_ns), family))
            .collect();
        rows.sort_by(|(a_closed, a_key, a), (b_closed, b_key, b)| {
            let keys = a_key.compare(b_key);
            let keys = if self.is_descending() { keys.reverse() } else { keys };
            a_closed.cmp(b_closed).then(keys).then(a.age().cmp(&b.age()))
        });
        rows.into_iter().map(|(_, _, family)| family).collect()
    }
}

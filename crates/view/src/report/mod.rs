//! One self-contained HTML page, and pictures for papers.

mod curves;
mod figure;
mod header;
mod marks;
mod output;
mod pack;
mod page;
mod plot;
mod png;
mod rows;
mod share;
mod summary;
mod thin;

use std::collections::{BTreeMap, HashMap};

use transom_event::LossCause;

pub use figure::{FigureOptions, figure, file_stem};
pub use header::escape;
pub use output::{Output, default_page, write};
pub use page::{PAGE_LIMIT, fill, page};
pub use plot::Scale;
pub use png::png;
pub use summary::{Progress, Summary, progress, summaries};
pub use thin::{Band, Buckets, Tick, fold, join, keep};

/// What is known of a recording beside its events. Empty fields are not shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageMeta {
    /// Name of the trace file.
    pub source: String,
    pub host: String,
    /// Release of the kernel that was recorded.
    pub kernel: String,
    /// Wall-clock time of the start, ns since 1970 (UTC).
    pub started_ns: Option<u64>,
    /// The recorder and its version.
    pub recorder: String,
    /// The recorder was stopped before it could end the file.
    pub cut: bool,
    /// How events were chosen, when not every one was recorded.
    pub sampling: String,
    /// Events that the recorder counted as lost, by cause, at its end; where it
    /// knows of more than the `lost` events of the recording tell, it is believed.
    pub lost: BTreeMap<LossCause, u64>,
}

/// What the analysis says of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    /// One sentence.
    pub verdict: String,
    /// What limited it, and for which share of its time (0 to 1).
    pub limits: Vec<(String, f64)>,
}

/// Notes by socket cookie.
pub type AllNotes = HashMap<u64, Notes>;

/// Which connections get curves.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Cookies, MPTCP tokens, or parts of a program name or of `local > remote`; empty = all.
    pub connections: Vec<String>,
    /// At most this many, those with most bytes first.
    pub top: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { connections: Vec::new(), top: 50 }
    }
}

impl Selection {
    /// The chosen ones of `rows`, in their order.
    ///
    /// # Errors
    /// A wanted connection that is none of them.
    pub fn choose<'a>(&self, rows: &'a [Summary]) -> anyhow::Result<Vec<&'a Summary>> {
        for wanted in &self.connections {
            if !rows.iter().any(|row| row.matches(wanted)) {
                anyhow::bail!(
                    "no connection of this recording is '{wanted}': give a socket cookie, an MPTCP \
                     token, or part of a program name, an address or a port, as the table of the page shows them"
                );
            }
        }
        let chosen = |row: &&Summary| {
            self.connections.is_empty() || self.connections.iter().any(|wanted| row.matches(wanted))
        };
        Ok(rows.iter().filter(chosen).take(self.top).collect())
    }
}

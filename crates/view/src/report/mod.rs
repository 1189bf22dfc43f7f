//! One self-contained HTML page, and pictures for papers.

mod crowd;
mod figure;
mod header;
mod marks;
mod output;
mod pack;
mod page;
mod plot;
mod png;
mod rows;
mod save;
mod share;

use std::collections::BTreeMap;

use transom_analysis::{Analysis, NoneMatches, Recording, Selector, analyse, select};
use transom_event::LossCause;

pub use crowd::{Band, Buckets, Tick, fold, join};
pub use figure::{FigureOptions, figure, file_stem};
pub use header::escape;
pub use output::{Output, default_page, write};
pub use page::{PAGE_LIMIT, fill, page};
pub use plot::Scale;
pub use png::png;
pub use save::{save, save_page};

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

/// A recording, what the analysis says of it, and what is known of it besides.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub recording: Recording,
    /// In the order of the table.
    pub analyses: Vec<Analysis>,
    pub meta: PageMeta,
}

impl Trace {
    pub fn new(recording: Recording, meta: PageMeta) -> Trace {
        let analyses = analyse(&recording);
        Trace { recording, analyses, meta }
    }
}

/// Which connections get curves.
#[derive(Clone, Debug)]
pub struct Selection {
    /// What the user wrote, and what it means; empty = all.
    pub connections: Vec<(String, Selector)>,
    /// At most this many, those with most bytes first.
    pub top: usize,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { connections: Vec::new(), top: 50 }
    }
}

impl Selection {
    /// The chosen ones, in their order.
    ///
    /// # Errors
    /// A wanted connection that is none of them.
    pub fn choose<'a>(&self, analyses: &'a [Analysis]) -> Result<Vec<&'a Analysis>, NoneMatches> {
        let mut chosen = select(analyses, &self.connections)?;
        chosen.truncate(self.top);
        Ok(chosen)
    }
}

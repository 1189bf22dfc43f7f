//! One self-contained HTML page, and pictures for papers.

mod comparison;
mod crowd;
mod figure;
mod header;
mod joined;
mod marks;
mod output;
mod overview;
mod pack;
mod page;
mod plot;
mod png;
mod rows;
mod share;

use std::collections::{BTreeMap, HashMap};

use transom_analysis::{Analysis, NoneMatches, Recording, Selector, analyse, select};
use transom_event::LossCause;

pub use crowd::{Band, Buckets, Tick, fold, join};
pub use figure::{FigureOptions, figure, file_stem};
pub use header::escape;
pub use output::{Output, default_page, write};
pub use page::{PAGE_LIMIT, fill, page};
pub use plot::Scale;
pub use png::png;

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
    /// Of the machine's start, and CLOCK_REALTIME − CLOCK_BOOTTIME in ns; empty and 0 = not known.
    pub boot_id: String,
    pub realtime_offset_ns: i64,
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

/// What is known of a connection from before its first event, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Until when, and from where.
    pub heading: String,
    /// Oldest first.
    pub steps: Vec<String>,
}

/// A recording, what the analysis says of it, and what is known of it besides.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub recording: Recording,
    /// In the order of the table.
    pub analyses: Vec<Analysis>,
    pub meta: PageMeta,
    /// By cookie.
    pub before: HashMap<u64, Before>,
}

impl Trace {
    pub fn new(recording: Recording, meta: PageMeta) -> Trace {
        let analyses = analyse(&recording);
        Trace { recording, analyses, meta, before: HashMap::new() }
    }
}

/// Which connections get curves.
#[derive(Clone, Debug)]
pub struct Selection {
    /// What the user wrote, and what it means; empty = all.
    pub connections: Vec<(String, Selector)>,
    /// At most this many of a trace, those with most bytes first.
    pub top: usize,
    /// Compare two traces even if they hold both ends of the same connections.
    pub compare: bool,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { connections: Vec::new(), top: 50, compare: false }
    }
}

impl Selection {
    /// The chosen ones of each trace, in their order.
    ///
    /// # Errors
    /// A wanted connection that is in no trace.
    pub fn choose<'a>(&self, traces: &'a [Trace]) -> Result<Vec<Vec<&'a Analysis>>, NoneMatches> {
        let all = traces.iter().flat_map(|trace| &trace.analyses);
        for (text, selector) in &self.connections {
            if selector.of(all.clone()).is_empty() {
                return Err(NoneMatches::new(text, all.clone()));
            }
        }
        let chosen = |trace: &'a Trace| -> Vec<&'a Analysis> {
            let here =
                |(_, selector): &&(String, Selector)| !selector.of(&trace.analyses).is_empty();
            let wanted: Vec<_> = self.connections.iter().filter(here).cloned().collect();
            if wanted.is_empty() && !self.connections.is_empty() {
                return Vec::new();
            }
            let mut chosen = select(&trace.analyses, &wanted).unwrap_or_default();
            chosen.truncate(self.top);
            chosen
        };
        Ok(traces.iter().map(chosen).collect())
    }
}

//! What the agent says of itself: so that whoever reads the rows knows what may be missing.

use crate::column::{Text, Time};
use crate::columns;
use crate::named;

named! {
    /// What happened.
    AgentEvent {
        /// A file was finished; the numbers are those of its time.
        Period = "period",
        Start = "start",
        Stop = "stop",
        /// Between the agent before this one and this one: see `gap_us` and `lost_rows`.
        Gap = "gap",
        /// The level changed, by the budget or the configuration.
        Level = "level",
        /// Old files were removed to keep the spool's limit.
        Removed = "removed",
        /// The spool could not be written.
        Unwritable = "unwritable",
        /// A file of recorded events was finished: see `trace` and `events`.
        Trace = "trace",
    }
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentRow {
    pub time: Time,
    pub event: AgentEvent,
    pub level: u8,
    pub cpu_share: f64,
    pub tracked: u64,
    pub untracked: u64,
    pub lost_rows: u64,
    pub lost_decisions: u64,
    pub rows: u64,
    pub decisions: u64,
    pub gap_us: Option<u64>,
    pub boot: Option<Text>,
    pub kernel: Option<Text>,
    pub version: Option<Text>,
    pub trace: Option<Text>,
    pub events: u64,
}

columns! { AgentRow {
    time, "µs", "when", Technical;
    event, "", "`period`: a file was finished; `start`, `stop`, `gap`, `level`, `unwritable`; `removed`: the oldest files were, to keep the spool's limit; `trace`: a file of recorded events was", Technical;
    level, "", "level of detail from now on; 255: none, new connections are counted and have no rows (-1 in [metrics](metrics.md) and in the [question](questions.md) `agents`)", Technical;
    cpu_share, "", "of one CPU, of agent and probes, in the last minute", Technical;
    tracked, "", "connections that are remembered now", Technical;
    untracked, "", "connections that were not remembered, since the agent began", Technical;
    lost_rows, "", "rows of connections that were lost, since the agent began; in `gap`: estimated for it", Technical;
    lost_decisions, "", "the same, of decisions", Technical;
    rows, "", "rows of connections in the file of this time", Technical;
    decisions, "", "decisions in the file of this time", Technical;
    gap_us, "µs", "time without an agent; null but in `gap`", Technical;
    boot, "", "boot of the kernel: cookies are unique within it", Technical;
    kernel, "", "its release; null where the next agent made the file after a restart of the machine", Technical;
    version, "", "of the agent", Technical;
    trace, "", "name of the file of recorded events in the spool; null but in `trace`", Technical;
    events, "", "in that file", Technical;
} }

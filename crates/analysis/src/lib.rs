//! Events → series, episodes, limits, verdicts. Pure: no I/O, no clock.
//!
//! ```
//! let recording = transom_analysis::Recording::default();
//! for analysis in transom_analysis::analyse(&recording) {
//!     println!("{}", analysis.verdict.text());
//! }
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod analysis;
mod causes;
mod cwnd_falls;
mod downloads;
mod episode;
mod episodes;
mod evidence;
mod families;
mod finding;
mod limits;
mod losses;
mod multipath;
mod path;
mod recording;
mod recoveries;
mod select;
mod series;
mod slow_start;
mod story;
mod summary;
pub mod text;
mod thin;
mod throughput;
mod track;
mod units;
mod verdict;

pub use analysis::{Analysis, analyse, analyse_connection};
pub use cwnd_falls::COLLAPSE_FALL;
pub use episode::{CollapseCause, Episode, EpisodeKind, SlowStartEnd, WindowSide};
pub use families::{families, family_order};
pub use finding::Cause;
pub use limits::{Limit, Limits, Span};
pub use losses::Losses;
pub use multipath::Multipath;
pub use recording::{Connection, Mark, Point, Recording};
pub use select::Pattern;
pub use series::{CURVES, Sample, Series};
pub use summary::{Coverage, Retransmitted, Rtt, Summary};
pub use thin::{MIN_BUDGET, thin, thin_rows};
pub use throughput::{Throughput, automatic_bin};
pub use verdict::{Confidence, Verdict};

//! Events → series, episodes, limits, verdicts. Pure: no I/O, no clock.
//!
//! ```
//! let recording = transom_analysis::Recording::default();
//! for analysis in transom_analysis::analyse(&recording) {
//!     println!("{}", analysis.verdict.text());
//! }
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod activity;
mod analysis;
mod causes;
mod compare;
mod cwnd_falls;
mod delivery;
mod dialogue;
mod downloads;
mod ends;
mod episode;
mod episodes;
mod evidence;
mod families;
mod finding;
mod held_back;
mod limits;
mod live;
mod long_segments;
mod losses;
mod multipath;
mod path;
mod progress;
mod range;
mod reach;
mod recording;
mod recoveries;
mod relay;
mod roster;
mod select;
mod series;
mod slow_start;
mod story;
mod summary;
pub mod text;
mod thin;
mod throughput;
mod track;
pub mod units;
mod verdict;

pub use analysis::{Analysis, analyse, analyse_connection};
pub use compare::{CauseShare, Compared, Group, compare, shares};
pub use cwnd_falls::COLLAPSE_FALL;
pub use ends::{ClockRelation, ClockSource, OffsetBounds, RecorderClock, are_both_ends, bounds};
pub use episode::{CollapseCause, Episode, EpisodeKind, ResendCause, SlowStartEnd, WindowSide};
pub use families::{families, family_order};
pub use finding::Cause;
pub use limits::{Limit, Limits, Span};
pub use live::{Gained, Live};
pub use losses::Losses;
pub use multipath::Multipath;
pub use recording::{Connection, Mark, Point, Recording};
pub use roster::{Chosen, Roster};
pub use select::{BadSelector, End, Identified, Identity, NoneMatches, Selector, select};
pub use series::{CURVES, Sample, Series, is_sampled};
pub use summary::{Coverage, Retransmitted, Rtt, Summary, TIMESTAMP_TICK_US};
pub use thin::{MIN_BUDGET, Thinned, thin, thin_rows};
pub use throughput::{Throughput, automatic_bin};
pub use track::{Step, is_timeout, steps};
pub use verdict::{Confidence, Verdict};

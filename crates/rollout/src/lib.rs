//! How a policy gets to the hosts of a fleet: wave by wave, against a control group at the same time,
//! and back when it does harm.
//!
//! ```text
//! policy ─► [`Generation`], signed ─► each host: is it my turn? [`Waves`]
//!                                          │
//! connections by host and window ─► [`Contrast`]s ─► [`Gate`] ─► [`Rollout`]: go on, hold, undo
//! ```
//!
//! Pure: no clock, no storage, no network. `docs/rollout.md` has the design and how often it errs.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod chance;
mod contrast;
mod envelope;
mod gate;
mod generation;
mod progress;
mod waves;

pub use contrast::{Contrast, Metric, Sums, Windows, contrasts};
pub use envelope::{Signed, signing_key, verifying_key};
pub use gate::{Gate, Judged, Worse};
pub use generation::{Current, FORMAT, Generation, Known, Reason, Turn};
pub use progress::{Decision, Rollout, Step};
pub use waves::{Arm, History, Waves};

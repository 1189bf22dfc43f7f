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
mod controller;
mod envelope;
mod gate;
mod gate_text;
mod generation;
mod host;
mod progress;
mod silence;
mod start;
mod stored;
mod waves;

pub use contrast::{Contrast, Metric, Sums, Windows, contrasts};
pub use controller::{HostWindows, Looked};
pub use ed25519_dalek::{SigningKey, VerifyingKey};
pub use envelope::{Signed, key_text, signing_key, verifying_key};
pub use gate::{Gate, Judged, LEAST_OUTSIDE, Worse};
pub use gate_text::{percent, share};
pub use generation::{Current, FORMAT, Generation, Known, Reason, Turn};
pub use host::{Host, Now, Wanted};
pub use progress::{Decision, Progress, Rollout, Step, Undone};
pub use silence::Silence;
pub use stored::{CURRENT, MOST_BYTES, Unverified, generation_name, trusted_keys};
pub use waves::{Arm, History, Waves};

//! The guard: withdraws an aggressive window from a path on which it does harm.
//!
//! ```text
//! connections as they are now ─► [`Guards`] ─► a [`Sample`] of each path ─► its [`Guard`] ─► [`Verdict`]
//! ```
//!
//! Pure: the daemon (`transom tune`) and the simulator look at connections, each in its own way, and
//! do what the verdict says. Time is what has passed since any moment, by a clock that never goes
//! back. `docs/policy.md` has the bounds, and what the guard cannot see.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod paths;
mod sample;
mod settings;
mod verdict;

pub use paths::{Connection, Guards, Window};
pub use sample::{Brought, Counters, Progress, Sample};
pub use settings::{EACH, GuardSettings, LEAST_QUEUE, LEAST_WINDOW, LOSS_TIMES, ROUND_TRIPS};
pub use verdict::{Guard, Hurt, Verdict};

#[cfg(test)]
mod tests;

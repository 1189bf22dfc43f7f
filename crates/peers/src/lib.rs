//! What the terminals of one access point tell each other, and what follows.
//!
//! Pure: no clock, no socket, no file. Time comes in as a [`std::time::Duration`] since some moment
//! of the caller's own (a monotonic clock); clocks of different terminals are never compared.
//!
//! [`wire`] and [`seal`] make a [`Report`] into bytes that only holders of the group's key can make
//! or read; [`Sieve`] throws out what is not worth decrypting; [`Group`] keeps what was heard and throws out what is old, replayed or absurd;
//! [`decide`] turns it into caps and algorithms, the same at every terminal.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod decide;
pub mod estimate;
mod group;
mod pace;
pub mod policy;
mod report;
pub mod seal;
mod sieve;
pub mod wire;

pub use decide::{Choice, Decision, Opening, Verdict, Why, decide, is_full, openings};
pub use group::{Counters, EXPIRY, Group, Heard, MOST_REMEMBERED, MOST_TERMINALS, Member};
pub use pace::{PERIOD, Pace};
pub use policy::{Function, Policy};
pub use report::{
    Absurd, Algorithm, Flow, FlowId, MOST_FLOWS, MOST_NAME, Report, TerminalId, Treatment,
    tidy_name,
};
pub use sieve::{Dropped, Sieve};

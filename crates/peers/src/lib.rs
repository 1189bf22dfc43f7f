//! What the terminals of one access point report to each other, and what follows from it.
//!
//! Pure: no clock, no socket, no file. Time is passed in as a [`std::time::Duration`] since a moment
//! that the caller chooses (a monotonic clock); clocks of different terminals are never compared.
//!
//! [`wire`] and [`seal`] turn a [`Report`] into bytes that only holders of the group's key can make
//! or read. [`Sieve`] drops what is not worth decrypting. [`Group`] keeps what was received and
//! drops what is old, replayed or absurd. [`decide()`] turns it into caps and algorithms, the same at
//! every terminal. [`Terminal`] is all of it together, as the daemon and the simulator run it.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod decide;
pub mod estimate;
mod flows;
mod group;
mod in_force;
mod pace;
mod report;
pub mod rules;
pub mod seal;
mod sieve;
mod terminal;
pub mod wire;

pub use decide::{Choice, Decision, Opening, Verdict, Why, decide, is_full, openings};
pub use flows::{EACH, Flows};
pub use group::{Counters, EXPIRY, Group, Heard, MOST_REMEMBERED, MOST_TERMINALS, Member};
pub use in_force::InForce;
pub use pace::{PERIOD, Pace};
pub use report::{
    Absurd, Algorithm, Flow, FlowId, MOST_FLOWS, MOST_NAME, Report, TerminalId, Treatment,
    tidy_name,
};
pub use rules::{Function, Rules};
pub use sieve::{Dropped, Drops, MOST_PER_SECOND, Sieve};
pub use terminal::{Identity, Terminal};

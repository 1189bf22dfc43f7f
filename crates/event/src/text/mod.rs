//! Text forms of an event: for people, for the papers' tools, for programs.

mod human;
mod json;
mod paper;
mod utc;

pub use human::{human, timestamp};
pub use json::{Context, json, value};
pub use paper::{LogPosition, PAPER_CAPACITY, paper};
pub use utc::Utc;

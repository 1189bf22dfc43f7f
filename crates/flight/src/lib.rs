//! A flight recorder: the last minutes of events in memory, and when they are worth a file. Pure.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod memory;
mod trigger;

pub use memory::Memory;
pub use trigger::{Condition, Trigger};

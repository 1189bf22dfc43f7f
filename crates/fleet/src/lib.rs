//! What many machines saw, as tables in object storage: what the program `transom-fleet` is made of.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod ask;
pub mod bucket;
pub mod dashboard;
pub mod events;
pub mod explain;
pub mod follow;
pub mod landed;
pub mod policy;
pub mod questions;
pub mod serve;
pub mod ship;
mod text_collector;
mod whole;

pub use landed::{Identity, land};

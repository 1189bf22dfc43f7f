//! The testbed: experiments on emulated air and path, what they measured, and
//! whether that is what the papers published.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod beside;
pub mod catalogue;
pub mod claims;
pub mod clean;
pub mod compare;
pub mod experiment;
pub mod flows;
pub mod grid;
pub mod hosts;
#[cfg(test)]
mod made_up;
pub mod manifest;
pub mod measure;
pub mod metrics;
pub mod page;
mod pool;
pub mod progress;
pub mod run;
pub mod search;
pub mod simulated;
pub mod suite;
pub mod sweep;

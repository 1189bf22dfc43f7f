//! `lab grid`: a space of paths and traffic, points drawn from it, and how congestion controls do
//! at them.
//!
//! ```text
//! grid file ─► points (draw) ─► an experiment each (point) ─► runs ─► numbers ─► verdicts (judge)
//! ```
//!
//! Every algorithm meets the same chance at a point: the same seeds, the same losses of the n-th
//! packet, the same weak moments. What is compared are therefore pairs of runs.

pub mod draw;
pub mod file;
pub mod guarded;
pub mod guarded_table;
mod harm;
pub mod judge;
mod numbers;
mod point;
pub mod real;
pub mod results;
pub mod runs;
pub mod table;

pub use draw::{Half, Point};
pub use file::{Algorithm, Grid};
pub use results::Results;

#[cfg(test)]
mod guarded_tests;
#[cfg(test)]
mod tests;

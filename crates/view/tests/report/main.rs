//! The report, from a recording to what a reader sees.

mod browser;
mod contents;
mod figures;
mod size;
mod synthetic;
mod thinning;

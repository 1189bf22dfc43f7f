//! The report, from a recording to what a reader sees.

mod browser;
mod contents;
mod crowd;
mod figures;
mod size;
mod synthetic;
mod two;

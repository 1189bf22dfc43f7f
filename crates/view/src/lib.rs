//! What people look at: the report page and its pictures, the live table.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod report;
pub mod top;

//! What `deterministic.rs` says of Linux 6.12, of Linux 6.1.
#![cfg(linux_6_1)]

#[path = "deterministic.rs"]
mod deterministic;

//! What `trace.rs` says of Linux 6.12, of Linux 6.1.
#![cfg(linux_6_1)]

#[path = "trace.rs"]
mod trace;

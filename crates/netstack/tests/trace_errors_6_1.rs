//! What `trace_errors.rs` says of Linux 6.12, of Linux 6.1.
#![cfg(linux_6_1)]

#[path = "trace_errors.rs"]
mod trace_errors;

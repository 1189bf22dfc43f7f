//! A recording as a raw stream: records of the kernel on disk as they are, in blocks with a length and a
//! checksum. Without Arrow, because the agent must stay small.
//!
//! ```text
//! file    = magic, frame of the header, frames of records…, frame of the end, trailer
//! frame   = form, coding, length on disk, length decoded, CRC-32, body
//! header, end = lines `key=value`
//! trailer = where the frame of the end begins, magic
//! ```
//!
//! All numbers are little-endian, as the records are.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod delta;
mod frame;
mod meta;
mod pairs;
mod reader;
mod writer;

pub use frame::{Coding, MAGIC};
pub use meta::{FORMAT_VERSION, Footer, Meta, are_ours, realtime_offset_ns};
pub use reader::Reader;
pub use writer::{Options, Writer};

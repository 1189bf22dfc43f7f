//! The table `events`: what was recorded of chosen connections event by event (level 2 of the agent),
//! as the trace format has it.

use std::fs::File;

use anyhow::{Result, ensure};
use bytes::Bytes;
use transom_spool::TABLE;
use transom_trace::table_of_stream;

pub const NAME: &str = "events";
/// When an event was.
pub const TIME: &str = transom_trace::TIME;
/// The format of a landed file is that of a trace.
pub const FORMAT_VERSION: u32 = transom_trace::FORMAT_VERSION;

/// A raw stream of the spool as a table, and the boot in which its events were. The same stream
/// always makes the same bytes.
///
/// # Errors
/// It is no raw stream, is damaged, of a newer format, or does not say of which boot it is.
pub fn table_of(file: File) -> Result<(Bytes, String)> {
    let (table, meta) = table_of_stream(file, [(TABLE.to_owned(), NAME.to_owned())])?;
    let boot: String = meta.boot_id.chars().filter(char::is_ascii_hexdigit).collect();
    ensure!(boot.len() == 32, "it does not say of which boot it is");
    Ok((table.into(), boot))
}

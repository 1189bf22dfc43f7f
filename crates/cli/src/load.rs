//! A whole trace file in memory, for `report` and `explain`.

use std::path::Path;

use anyhow::Result;
use transom_analysis::Recording;
use transom_output::note;
use transom_trace::{Footer, Meta, Reader};

/// What a file holds.
pub struct Loaded {
    pub recording: Recording,
    pub meta: Meta,
    pub footer: Option<Footer>,
}

/// # Errors
/// If the file is not there or no trace. One that is cut is no error.
pub fn load(path: &Path) -> Result<Loaded> {
    let mut reader = Reader::open(path)?;
    let mut recording = Recording::default();
    for event in &mut reader {
        recording.push(&event?);
    }
    recording.cut = reader.is_cut();
    let (meta, footer) = (reader.meta().clone(), reader.footer().cloned());
    if recording.cut {
        note!(
            "transom: {} is cut, as after a crash: {} events are whole and are used",
            path.display(),
            recording.events
        );
    }
    Ok(Loaded { recording, meta, footer })
}

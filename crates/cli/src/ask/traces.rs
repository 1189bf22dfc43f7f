//! `ask --report`, `ask --events`: the events of the connections that were recorded (level 2), as one
//! page, or in the format of another tool.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use transom_analysis::Recording;
use transom_event::text::Utc;
use transom_event::{Event, Kind, Names, Place};
use transom_export::perfetto;
use transom_output::{Output, Replace, note};
use transom_spool::{Answer, BEGUN, FileName, Recorded, Table};
use transom_trace::{Footer, Reader};

use super::prelude::before;
use crate::handover::{self, Tool};
use crate::load::Loaded;
use crate::report::write_page;

/// Longest time that a trace is open (`file_seconds`), and what clocks may differ by.
const OPEN_US: i64 = 3_600_000_000;
const SLACK_US: i64 = 2_000_000;

/// Writes the page; what has no trace is said before.
///
/// # Errors
/// None of them was recorded, or the page cannot be written.
pub fn report(
    files: &[(FileName, PathBuf, u64)],
    answer: &Answer,
    page: &Path,
    names: &Names,
) -> Result<()> {
    let found = found(files, answer, &mut |_| ())?;
    let preludes = answer.recorded.iter();
    let preludes = preludes.filter_map(|it| Some((it.cookie, before(it.prelude.as_ref()?))));
    write_page(found, preludes.collect(), page, names)
}

/// Writes them in the format of the tool that the name of the file tells.
///
/// # Errors
/// As of [`report`], or there is no such tool.
pub fn hand_over(files: &[(FileName, PathBuf, u64)], answer: &Answer, to: &Path) -> Result<()> {
    let tool = match to.extension().and_then(OsStr::to_str) {
        Some("pcapng") => Tool::Wireshark,
        Some("pftrace") => Tool::Perfetto,
        _ => bail!("--events {}: name it .pcapng (Wireshark) or .pftrace (Perfetto)", to.display()),
    };
    let mut events = Vec::new();
    let found = found(files, answer, &mut |event| {
        if tool == Tool::Wireshark {
            events.push(*event);
        }
    })?;
    let origin = handover::origin_of(&found.meta, false);
    let mut output = Output::open(to, &[], Replace::Never)?;
    match tool {
        Tool::Wireshark => {
            handover::black_box(None, events.into_iter().map(Ok), &origin, &mut output)?;
        }
        _ => perfetto::write(&found.recording, &origin, &mut output)?,
    }
    output.finish()
}

/// What there is of those that were recorded; the rest is said.
fn found(
    files: &[(FileName, PathBuf, u64)],
    answer: &Answer,
    each: &mut dyn FnMut(&Event),
) -> Result<Loaded> {
    let (asked, recorded) = (answer.asked.connections, &answer.recorded);
    ensure!(
        !recorded.is_empty(),
        "none of the {asked} connections was recorded (level 2): there are rows of them and no \
         events. `recording` in the agent's configuration says which ones are"
    );
    let Some(found) = events(files, recorded, each)? else {
        bail!("the traces of these connections are gone: see recording.hours and mib");
    };
    let with_events = found.recording.connections.len() as u64;
    let gone = recorded.len() as u64 - with_events.min(recorded.len() as u64);
    note!(
        "{with_events} of {asked} connections with events; {} with rows only{}",
        asked.saturating_sub(recorded.len() as u64),
        if gone == 0 { String::new() } else { format!(", {gone} whose trace is gone") },
    );
    Ok(found)
}

/// All events of these connections, from however many files.
fn events(
    files: &[(FileName, PathBuf, u64)],
    recorded: &[Recorded],
    each: &mut dyn FnMut(&Event),
) -> Result<Option<Loaded>> {
    let from = recorded.iter().map(|it| it.from.0).min().unwrap_or(0);
    let to = recorded.iter().map(|it| it.to.0).max().unwrap_or(0);
    let name = |us: i64| Utc::from_us(us).format(BEGUN);
    let begun = name(from - OPEN_US)..=name(to + SLACK_US);
    let is_wanted = |name: &FileName| name.table() == Table::Traces && begun.contains(&name.begun);
    let spans: HashMap<u64, &Recorded> = recorded.iter().map(|it| (it.cookie, it)).collect();
    let mut all: Option<Loaded> = None;
    for (_, path, _) in files.iter().filter(|(name, ..)| is_wanted(name)) {
        // One that was just begun, or removed while we look.
        let Ok(mut reader) = Reader::open(path) else { continue };
        let meta = reader.meta().clone();
        let offset_ns = meta.realtime_offset_ns;
        let into = all.get_or_insert_with(|| Loaded {
            recording: Recording::default(),
            meta,
            footer: Some(Footer::default()),
        });
        for event in &mut reader {
            // What comes before a damage is used.
            let Ok(event) = event else { break };
            if wanted(&event, &spans, offset_ns) && !is_repeated(&event, &into.recording) {
                each(&event);
                into.recording.push(&event);
            }
        }
    }
    Ok(all.filter(|all| !all.recording.connections.is_empty()))
}

/// Cookies are unique within a boot: the time tells connections of two boots apart.
fn wanted(event: &Event, spans: &HashMap<u64, &Recorded>, offset_ns: i64) -> bool {
    let wall_us = (event.time_ns as i64).saturating_add(offset_ns) / 1000;
    spans
        .get(&event.cookie)
        .is_some_and(|span| (span.from.0 - SLACK_US..=span.to.0 + SLACK_US).contains(&wall_us))
}

/// Each file begins with who its connections are.
fn is_repeated(event: &Event, recording: &Recording) -> bool {
    event.kind == Kind::Open
        && event.place == Place::Recorder
        && recording.connection(event.cookie).is_some()
}

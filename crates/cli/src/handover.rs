//! A trace file in the format of another tool, for `convert`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use transom_analysis::{Chosen, Recording, Roster};
use transom_event::{Event, Kind};
use transom_export::{BlackBox, Origin, perfetto, qlog};
use transom_output::{Output, Replace};
use transom_trace::{Converted, Meta, Reader};

use crate::chosen::ChosenArgs;

/// Which tool it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Wireshark,
    Perfetto,
    Qvis,
}

/// Writes `input` to the file `to`.
///
/// # Errors
/// If the input cannot be read to its end, has nothing of what is wanted, or the output cannot be
/// written. No part of a file is left behind.
pub fn write(
    tool: Tool,
    chosen: &ChosenArgs,
    input: &mut Reader,
    to: &Path,
    replace: Replace,
) -> Result<Converted> {
    let from = input.path().to_owned();
    let mut output = Output::open(to, &[&from], replace)?;
    let origin = origin(input);
    let wanted = wanted(chosen, input)?;
    let writing = || format!("cannot write {}", to.display());
    let done = match tool {
        Tool::Wireshark => {
            let events = black_box(wanted, input.by_ref(), &origin, &mut output);
            Converted { events: events.with_context(writing)?, left_out: 0, cut: input.is_cut() }
        }
        Tool::Perfetto => {
            let recording = load(wanted, input)?;
            perfetto::write(&recording, &origin, &mut output).with_context(writing)?;
            Converted { events: recording.events, left_out: 0, cut: input.is_cut() }
        }
        Tool::Qvis => {
            let recording = load(wanted, input)?;
            ensure!(
                recording.connections.iter().any(|connection| !connection.points.is_empty()),
                "{} has no connection with a state: a qlog file would have no trace",
                from.display()
            );
            let left_out = qlog::write(&recording, &origin, &mut output).with_context(writing)?;
            Converted { events: recording.events, left_out, cut: input.is_cut() }
        }
    };
    output.finish()?;
    Ok(done)
}

/// What the files of other tools say of the recording.
pub fn origin(input: &Reader) -> Origin {
    origin_of(input.meta(), input.is_cut())
}

/// The same of a recording that is in no one file.
pub fn origin_of(meta: &Meta, cut: bool) -> Origin {
    Origin {
        program: format!("transom {}", env!("CARGO_PKG_VERSION")),
        kernel: meta.kernel.clone(),
        host: meta.host.clone(),
        boot_id: meta.boot_id.clone(),
        realtime_offset_ns: meta.realtime_offset_ns,
        command_line: meta.command_line.clone(),
        cut,
    }
}

/// The connections that are wanted, in memory.
fn load(mut wanted: Option<Chosen>, input: &mut Reader) -> Result<Recording> {
    let mut recording = Recording::default();
    for event in input.by_ref() {
        let event = event?;
        if is_wanted(&mut wanted, &event) {
            recording.push(&event);
        } else {
            recording.pass(&event);
        }
    }
    recording.cut = input.is_cut();
    recording.told_apart_ns = input.meta().told_apart_ns();
    Ok(recording)
}

/// The connections that are wanted; `None` = all of them. Takes a reading of the file
/// for itself, which keeps no event.
fn wanted(chosen: &ChosenArgs, input: &Reader) -> Result<Option<Chosen>> {
    if !chosen.is_given() {
        return Ok(None);
    }
    let mut roster = Roster::default();
    for event in Reader::open(input.path())? {
        roster.push(&event?);
    }
    let chosen = roster.chosen(&chosen.selectors());
    Ok(Some(chosen.with_context(|| input.path().display().to_string())?))
}

/// Those of a chosen connection; what was lost is of all.
fn is_wanted(wanted: &mut Option<Chosen>, event: &Event) -> bool {
    event.kind == Kind::Lost || wanted.as_mut().is_none_or(|chosen| chosen.has(event))
}

/// Event by event: a black box of any length needs no memory. Returns how many it has.
///
/// # Errors
/// Of the events, or the output's.
pub fn black_box(
    mut wanted: Option<Chosen>,
    events: impl Iterator<Item = Result<Event>>,
    origin: &Origin,
    output: &mut Output,
) -> Result<u64> {
    let mut file = BlackBox::new(output, origin)?;
    let mut count = 0;
    for event in events {
        let event = event?;
        if is_wanted(&mut wanted, &event) {
            count += 1;
            file.push(&event)?;
        }
    }
    file.finish()?;
    Ok(count)
}

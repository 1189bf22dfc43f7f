//! `ask --report`, `ask --events`: the events of the connections that were recorded (level 2), as one
//! page, or in the format of another tool.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use transom_analysis::{Connection, Recording};
use transom_event::text::Utc;
use transom_event::{Event, Kind, Names, Place};
use transom_export::perfetto;
use transom_output::{Output, Replace, note};
use transom_spool::{Answer, BEGUN, FileName, Recorded, Table};
use transom_trace::{Footer, Meta, Reader};

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
    let (loaded, found) = found(files, answer, &mut |_| ())?;
    let preludes = found.0.iter();
    let preludes = preludes.filter_map(|it| Some((it.cookie, before(it.of.prelude.as_ref()?))));
    write_page(loaded, preludes.collect(), page, names)
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
    let (loaded, found) = found(files, answer, &mut |event| {
        if tool == Tool::Wireshark {
            events.push(*event);
        }
    })?;
    events.retain(|event| found.has(event));
    let origin = handover::origin_of(&loaded.meta, false);
    let mut output = Output::open(to, &[], Replace::Never)?;
    match tool {
        Tool::Wireshark => {
            handover::black_box(None, events.into_iter().map(Ok), &origin, &mut output)?;
        }
        _ => perfetto::write(&loaded.recording, &origin, &mut output)?,
    }
    output.finish()
}

/// A connection that was asked for, and that there are events of.
struct Found<'a> {
    of: &'a Recorded,
    /// In the recording; and of its socket there, which may have had others.
    cookie: u64,
    socket: u64,
    times: RangeInclusive<u64>,
}

struct AllFound<'a>(Vec<Found<'a>>);

impl AllFound<'_> {
    fn has(&self, event: &Event) -> bool {
        let is_of = |it: &Found| it.socket == event.cookie && it.times.contains(&event.time_ns);
        self.0.iter().any(is_of)
    }
}

/// What there is of those that were recorded; the rest is said.
fn found<'a>(
    files: &[(FileName, PathBuf, u64)],
    answer: &'a Answer,
    each: &mut dyn FnMut(&Event),
) -> Result<(Loaded, AllFound<'a>)> {
    let (asked, recorded) = (answer.asked.connections, &answer.recorded);
    ensure!(
        !recorded.is_empty(),
        "none of the {asked} connections was recorded (level 2): there are rows of them and no \
         events. `recording` in the agent's configuration says which ones are"
    );
    let Some((mut loaded, boots)) = events(files, recorded, each) else {
        bail!("the traces of these connections are gone: see recording.hours and mib");
    };
    let Loaded { recording, meta, .. } = &mut loaded;
    let found = recorded.iter().filter_map(|it| {
        let socket = boots.cookie(it);
        let connection = nearest(recording.connections_of(socket), it, meta)?;
        let Connection { cookie, first_ns, last_ns, .. } = *connection;
        Some(Found { of: it, cookie, socket, times: first_ns..=last_ns })
    });
    let found: Vec<Found> = found.collect();
    let cookies: HashSet<u64> = found.iter().map(|it| it.cookie).collect();
    recording.keep(|connection| cookies.contains(&connection.cookie));
    let with_events = cookies.len() as u64;
    let gone = recorded.len() as u64 - with_events.min(recorded.len() as u64);
    note!(
        "{with_events} of {asked} connections with events; {} with rows only{}",
        asked.saturating_sub(recorded.len() as u64),
        if gone == 0 { String::new() } else { format!(", {gone} whose trace is gone") },
    );
    Ok((loaded, AllFound(found)))
}

/// Of the connections that a socket had, the one that a row is of: their times are told by two
/// programs, and may lie a little apart.
fn nearest<'a>(
    all: impl Iterator<Item = &'a Connection>,
    row: &Recorded,
    meta: &Meta,
) -> Option<&'a Connection> {
    let wall_us = |time_ns: u64| (time_ns as i64).saturating_add(meta.realtime_offset_ns) / 1000;
    let apart_us = |connection: &Connection| {
        let [begun, ended] = [connection.first_ns, connection.last_ns].map(wall_us);
        begun.max(row.from.0) - ended.min(row.to.0)
    };
    all.map(|it| (apart_us(it), it))
        .filter(|(apart_us, _)| *apart_us <= SLACK_US)
        .min_by_key(|(apart_us, _)| *apart_us)
        .map(|(_, connection)| connection)
}

/// All events of these connections, from however many files.
fn events(
    files: &[(FileName, PathBuf, u64)],
    recorded: &[Recorded],
    each: &mut dyn FnMut(&Event),
) -> Option<(Loaded, Boots)> {
    let from = recorded.iter().map(|it| it.from.0).min().unwrap_or(0);
    let to = recorded.iter().map(|it| it.to.0).max().unwrap_or(0);
    let name = |us: i64| Utc::from_us(us).format(BEGUN);
    let begun = name(from - OPEN_US)..=name(to + SLACK_US);
    let is_wanted = |name: &FileName| name.table() == Table::Traces && begun.contains(&name.begun);
    let mut spans: HashMap<u64, Vec<&Recorded>> = HashMap::new();
    for it in recorded {
        spans.entry(it.cookie).or_default().push(it);
    }
    let (mut all, mut boots) = (None::<Loaded>, Boots::default());
    for (_, path, _) in files.iter().filter(|(name, ..)| is_wanted(name)) {
        // One that was just begun, or removed while we look.
        let Ok(mut reader) = Reader::open(path) else { continue };
        let meta = reader.meta().clone();
        for event in &mut reader {
            // What comes before a damage is used.
            let Ok(event) = event else { break };
            let mut of_cookie = spans.get(&event.cookie).into_iter().flatten();
            if !of_cookie.any(|it| is_of(&event, it, &meta)) {
                continue;
            }
            let into = all.get_or_insert_with(|| Loaded {
                recording: Recording::default(),
                meta: meta.clone(),
                footer: Some(Footer::default()),
            });
            let event = boots.as_of_the_first(event, &meta);
            if !is_repeated(&event, &into.recording) {
                each(&event);
                into.recording.push(&event);
            }
        }
    }
    Some((all?, boots))
}

/// Whether an event of a file that says this of itself is of that connection.
fn is_of(event: &Event, connection: &Recorded, meta: &Meta) -> bool {
    let wall_us = (event.time_ns as i64).saturating_add(meta.realtime_offset_ns) / 1000;
    let span = connection.from.0 - SLACK_US..=connection.to.0 + SLACK_US;
    is_same(connection, &boot(meta)) && span.contains(&wall_us)
}

/// The boot that a trace is of, as the rows have it.
fn boot(meta: &Meta) -> String {
    meta.boot_id.replace('-', "")
}

/// One of the two may not say it.
fn is_same(connection: &Recorded, boot: &str) -> bool {
    boot.is_empty() || connection.boot.as_deref().is_none_or(|of_row| of_row == boot)
}

/// The boots of the kernel that there are events of, with what to add to their times for wall time.
/// Each has a clock of its own, and numbers its connections anew.
#[derive(Default)]
struct Boots(Vec<(String, i64)>);

impl Boots {
    /// An event of a file that says this of itself, as if it was of the first boot: at its wall
    /// time, of a connection whose number none has there.
    fn as_of_the_first(&mut self, event: Event, meta: &Meta) -> Event {
        let boot = boot(meta);
        let nth = self.0.iter().position(|(known, _)| *known == boot).unwrap_or_else(|| {
            self.0.push((boot, meta.realtime_offset_ns));
            self.0.len() - 1
        });
        let later_ns = self.0[nth].1.saturating_sub(self.0[0].1);
        let time_ns = event.time_ns.saturating_add_signed(later_ns);
        Event { time_ns, cookie: apart(event.cookie, nth), ..event }
    }

    /// The number that this connection has then.
    fn cookie(&self, connection: &Recorded) -> u64 {
        let nth = self.0.iter().position(|(boot, _)| is_same(connection, boot));
        apart(connection.cookie, nth.unwrap_or(0))
    }
}

/// A cookie of the nth boot as one that no other boot has: the kernel counts them from both ends of
/// the numbers on.
fn apart(cookie: u64, nth: usize) -> u64 {
    cookie ^ (nth as u64) << 48
}

/// Each file begins with who its connections are.
fn is_repeated(event: &Event, recording: &Recording) -> bool {
    let last = || recording.connections_of(event.cookie).last();
    event.kind == Kind::Open
        && event.place == Place::Recorder
        && last().is_some_and(|it| !it.closed)
}

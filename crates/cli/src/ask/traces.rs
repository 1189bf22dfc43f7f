//! `ask --report`, `ask --events`: the events of the connections that were recorded (level 2), as one
//! page, or in the format of another tool.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use transom_analysis::Recording;
use transom_event::text::Utc;
use transom_event::{Event, Kind, Names, Place};
use transom_export::perfetto;
use transom_output::{Output, Replace, note};
use transom_spool::{Answer, BEGUN, FileName, Recorded, Table};
use transom_trace::{Footer, Meta, Reader};

use super::begun_us;
use super::prelude::before;
use crate::handover::{self, Tool};
use crate::load::Loaded;
use crate::report::write_page;

/// Longest time that a trace is open (`file_seconds`), and what clocks may differ by.
const OPEN_US: i64 = 3_600_000_000;
const SLACK_US: i64 = 2_000_000;
/// A clock that differs by so much was set; less is how it was steered.
const SET_NS: i64 = 1_000_000_000;

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
    let (loaded, found) = found(files, answer, &mut |_, _| ())?;
    let preludes = found.iter();
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
    let (loaded, _) = found(files, answer, &mut |cookie, event| {
        if tool == Tool::Wireshark {
            events.push((cookie, *event));
        }
    })?;
    let is_found = |(cookie, _): &(u64, Event)| loaded.recording.connection(*cookie).is_some();
    let origin = handover::origin_of(&loaded.meta, false);
    let mut output = Output::open(to, &[], Replace::Never)?;
    match tool {
        Tool::Wireshark => {
            let events = events.into_iter().filter(is_found).map(|(_, event)| Ok(event));
            handover::black_box(None, events, &origin, &mut output)?;
        }
        _ => perfetto::write(&loaded.recording, &origin, &mut output)?,
    }
    output.finish()
}

/// A connection that was asked for, and that there are events of.
struct Found<'a> {
    of: &'a Recorded,
    /// In the recording.
    cookie: u64,
}

/// What there is of those that were recorded; the rest is said. `each` event that may be of one is
/// told with the number that its connection has in the recording.
fn found<'a>(
    files: &[(FileName, PathBuf, u64)],
    answer: &'a Answer,
    each: &mut dyn FnMut(u64, &Event),
) -> Result<(Loaded, Vec<Found<'a>>)> {
    let (asked, recorded) = (answer.asked.connections, &answer.recorded);
    ensure!(
        !recorded.is_empty(),
        "none of the {asked} connections was recorded (level 2): there are rows of them and no \
         events. `recording` in the agent's configuration says which ones are"
    );
    let Some(gathered) = events(files, recorded, each) else {
        bail!("the traces of these connections are gone: see recording.hours and mib");
    };
    let found = recorded.iter().filter_map(|of| Some(Found { of, cookie: gathered.nearest(of)? }));
    let found: Vec<Found> = found.collect();
    let cookies: HashSet<u64> = found.iter().map(|it| it.cookie).collect();
    let set_ns = gathered.boots.set_ns;
    if set_ns.saturating_abs() >= SET_NS {
        note!(
            "transom: the clock was set by {:+.3} s between these traces: all times are by the clock \
             of the first one, not as in the rows",
            set_ns as f64 / 1e9
        );
    }
    let mut loaded = gathered.loaded;
    loaded.recording.keep(|connection| cookies.contains(&connection.cookie));
    let with_events = cookies.len() as u64;
    let gone = recorded.len() as u64 - with_events.min(recorded.len() as u64);
    note!(
        "{with_events} of {asked} connections with events; {} with rows only{}",
        asked.saturating_sub(recorded.len() as u64),
        if gone == 0 { String::new() } else { format!(", {gone} whose trace is gone") },
    );
    Ok((loaded, found))
}

/// What the traces have.
struct Gathered {
    loaded: Loaded,
    boots: Boots,
    /// The first and the last moment of each connection in the recording, as its own files tell the
    /// time of day, µs: between two files of a boot the clock may have been set.
    wall_us: HashMap<u64, [i64; 2]>,
}

impl Gathered {
    /// Of the connections that its socket had, the one that a row is of: their times are told by two
    /// programs, and may lie a little apart.
    fn nearest(&self, row: &Recorded) -> Option<u64> {
        let all = self.loaded.recording.connections_of(self.boots.cookie(row));
        let apart_us = all.filter_map(|it| {
            let [begun, ended] = self.wall_us.get(&it.cookie)?;
            Some((*begun.max(&row.from.0) - *ended.min(&row.to.0), it.cookie))
        });
        let near = apart_us.filter(|(apart_us, _)| *apart_us <= SLACK_US);
        near.min_by_key(|(apart_us, _)| *apart_us).map(|(_, cookie)| cookie)
    }
}

/// All events of these connections, from however many files.
fn events(
    files: &[(FileName, PathBuf, u64)],
    recorded: &[Recorded],
    each: &mut dyn FnMut(u64, &Event),
) -> Option<Gathered> {
    let traces = Traces::of(files, recorded);
    let mut spans: HashMap<u64, Vec<&Recorded>> = HashMap::new();
    for it in recorded {
        spans.entry(it.cookie).or_default().push(it);
    }
    let (mut all, mut boots) = (None::<Loaded>, Boots::default());
    let mut wall_us: HashMap<u64, [i64; 2]> = HashMap::new();
    for path in &traces.paths {
        // One that was just begun, or removed while we look.
        let Ok(mut reader) = Reader::open(path) else { continue };
        let meta = reader.meta().clone();
        let of_boot = boot(&meta);
        for event in &mut reader {
            // What comes before a damage is used.
            let Ok(event) = event else { break };
            let mut of_cookie = spans.get(&event.cookie).into_iter().flatten();
            let at_us = (event.time_ns as i64).saturating_add(meta.realtime_offset_ns) / 1000;
            let may_be_its =
                |it: &Recorded| traces.times(&event, &of_boot).any(|at| may_be_at(it, at));
            if !of_cookie.any(|it| is_same(it, &of_boot) && may_be_its(it)) {
                continue;
            }
            let into = all.get_or_insert_with(|| Loaded {
                recording: Recording::default(),
                meta: meta.clone(),
                footer: Some(Footer::default()),
            });
            let event = boots.as_of_the_first(event, &meta);
            if is_repeated(&event, &into.recording) {
                continue;
            }
            into.recording.push(&event);
            let cookie = into.recording.last_of(event.cookie).map_or(event.cookie, |it| it.cookie);
            let [begun, ended] = wall_us.entry(cookie).or_insert([at_us; 2]);
            (*begun, *ended) = (at_us.min(*begun), at_us.max(*ended));
            each(cookie, &event);
        }
    }
    Some(Gathered { loaded: all?, boots, wall_us })
}

/// The files that may have events of some connections. What a file is called tells when it was begun by
/// the clock of that time, and the times of a connection are those of the clock at its end: where it was
/// set between, the earlier files are found by their numbers.
struct Traces {
    paths: Vec<PathBuf>,
    /// Each boot with what its clock was ahead of the time since it, µs: once, unless it was set.
    clocks: Vec<(String, i64)>,
}

impl Traces {
    fn of(files: &[(FileName, PathBuf, u64)], recorded: &[Recorded]) -> Traces {
        let from = recorded.iter().map(|it| it.from.0).min().unwrap_or(0);
        let to = recorded.iter().map(|it| it.to.0).max().unwrap_or(0);
        let name = |us: i64| Utc::from_us(us).format(BEGUN);
        let begun = name(from - OPEN_US)..=name(to + SLACK_US);
        let mut all: Vec<_> = files.iter().filter(|it| it.0.table() == Table::Traces).collect();
        all.sort_by_key(|(name, ..)| name.number);
        let mut traces = Traces { paths: Vec::new(), clocks: Vec::new() };
        // From the last one back, so that each that was begun by another clock has one after it.
        let mut later: Option<Begun> = None;
        let longest_us = recorded.iter().map(|it| it.to.0 - it.from.0).max().unwrap_or(0);
        for file in all.iter().rev() {
            let wanted = begun.contains(&file.0.begun);
            let Some(later_one) = later.as_ref().filter(|_| !wanted) else {
                later = if wanted { traces.take(file).or(later) } else { later };
                continue;
            };
            let Some(begun) = Begun::of(file) else { continue };
            let is_near = begun.since_boot_us + OPEN_US + longest_us >= later_one.since_boot_us;
            if begun.boot != later_one.boot || !is_near {
                // None before it either, until one is of the time again.
                later = None;
            } else if begun.ahead_us.abs_diff(later_one.ahead_us) > SLACK_US.unsigned_abs() {
                traces.take(file);
            }
        }
        traces.paths.reverse();
        traces
    }

    /// None: it was just begun, or removed while we look.
    fn take(&mut self, file: &(FileName, PathBuf, u64)) -> Option<Begun> {
        let begun = Begun::of(file)?;
        self.paths.push(file.1.clone());
        let is_known = |(boot, ahead_us): &(String, i64)| {
            *boot == begun.boot && ahead_us.abs_diff(begun.ahead_us) < SLACK_US.unsigned_abs() / 2
        };
        if !self.clocks.iter().any(is_known) {
            self.clocks.push((begun.boot.clone(), begun.ahead_us));
        }
        Some(begun)
    }

    /// When an event was by each of the clocks that its boot had, µs.
    fn times<'a>(&'a self, event: &Event, boot: &'a str) -> impl Iterator<Item = i64> + 'a {
        let since_boot_us = event.time_ns as i64 / 1000;
        let of_boot = self.clocks.iter().filter(move |(of, _)| of == boot);
        of_boot.map(move |(_, ahead_us)| since_boot_us.saturating_add(*ahead_us))
    }
}

/// When a file was begun.
struct Begun {
    boot: String,
    ahead_us: i64,
    since_boot_us: i64,
}

impl Begun {
    fn of((name, path, _): &(FileName, PathBuf, u64)) -> Option<Begun> {
        let meta = Reader::open(path).ok()?.meta().clone();
        let ahead_us = meta.realtime_offset_ns / 1000;
        let since_boot_us = begun_us(&name.begun)?.saturating_sub(ahead_us);
        Some(Begun { boot: boot(&meta), ahead_us, since_boot_us })
    }
}

fn may_be_at(connection: &Recorded, at_us: i64) -> bool {
    (connection.from.0 - SLACK_US..=connection.to.0 + SLACK_US).contains(&at_us)
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
struct Boots {
    all: Vec<(String, i64)>,
    /// How far the wall clock was set within a boot, from its first file to another one, ns.
    set_ns: i64,
}

impl Boots {
    /// An event of a file that says this of itself, as if it was of the first boot: at its wall
    /// time, of a connection whose number none has there.
    fn as_of_the_first(&mut self, event: Event, meta: &Meta) -> Event {
        let boot = boot(meta);
        let nth = self.all.iter().position(|(known, _)| *known == boot).unwrap_or_else(|| {
            self.all.push((boot, meta.realtime_offset_ns));
            self.all.len() - 1
        });
        let set_ns = meta.realtime_offset_ns.saturating_sub(self.all[nth].1);
        if set_ns.saturating_abs() > self.set_ns.saturating_abs() {
            self.set_ns = set_ns;
        }
        let later_ns = self.all[nth].1.saturating_sub(self.all[0].1);
        let time_ns = event.time_ns.saturating_add_signed(later_ns);
        Event { time_ns, cookie: apart(event.cookie, nth), ..event }
    }

    /// The number that this connection has then.
    fn cookie(&self, connection: &Recorded) -> u64 {
        let nth = self.all.iter().position(|(boot, _)| is_same(connection, boot));
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
    event.kind == Kind::Open
        && event.place == Place::Recorder
        && recording.last_of(event.cookie).is_some_and(|it| !it.closed)
}

//! A journal that is complete becomes Parquet files: aside, synced, renamed. Made again after a
//! kill they have the same names, so that no row is there twice.

use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::iter::once;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use chrono::DateTime;
use transom_output::note;
use transom_spool::{
    AgentEvent, AgentRow, BEGUN, BOOT, FileName, Row, TABLE, Table, Time, VERSION, write,
};

use crate::assemble::Assembler;
use crate::journal::{Beat, Head, Record, Records, TraceFile};
use crate::pace::{Hurry, Pace};
use crate::store::boot;

/// Programs that speak to the network are another user of the agent's group.
pub const READABLE_BY_GROUP: u32 = 0o640;
/// How files are called while they are written.
const ASIDE: &str = ".agent-";
/// Records between two steps.
const STEP: u32 = 256;

/// A complete journal, and what is needed to read it.
pub struct Job {
    pub spool: PathBuf,
    pub journal: PathBuf,
    pub assembler: Assembler,
}

/// What came of it.
pub struct Done {
    pub rows: u64,
    /// Of the files.
    pub bytes: u64,
    pub worked: Duration,
}

impl Job {
    /// Makes the files and removes the journal; `None`: there is no journal.
    ///
    /// # Errors
    /// The files cannot be written: the journal stays.
    pub fn run(mut self, pace: &mut Pace) -> Result<Option<Done>> {
        let made = self.convert(pace)?;
        if made.is_some() {
            fs::remove_file(&self.journal).or_else(gone)?;
        }
        Ok(made.map(|(rows, bytes)| Done { rows, bytes, worked: pace.worked() }))
    }

    /// A pass for the names of cgroups, one for rows, which are most of a journal, and another if there
    /// are decisions. Returns how many rows there were, and how many bytes the files have.
    fn convert(&mut self, pace: &mut Pace) -> Result<Option<(u64, u64)>> {
        let again = || Ok::<_, anyhow::Error>(Records::open(&self.journal)?.into_iter().flatten());
        let Some(records) = Records::open(&self.journal)? else { return Ok(None) };
        let head = records.head;
        let beat = |record| if let Record::Beat(beat) = record { Some(beat) } else { None };
        let first_offset = again()?.find_map(beat).map_or(0, |beat| beat.wall_offset_ns);
        let pace = RefCell::new(pace);
        let step = &mut || pace.borrow_mut().step();
        let (mut seen, mut bytes) = (Seen::default(), 0);
        // The kernel that wrote it may have been another one.
        self.assembler.us_per_jiffy = head.us_per_jiffy;
        self.assembler.wall_offset_ns = first_offset;
        // The first rows of a cgroup may come up to a second before its name.
        for (n, record) in again()?.enumerate() {
            if let Record::Name(id, name) = record {
                self.assembler.cgroups.note(id, &name);
            }
            if n.is_multiple_of(STEP as usize) {
                step();
            }
        }
        let mut of = records
            .inspect(|record| seen.note(record, || pace.borrow_mut().step()))
            .filter_map(|record| self.assembler.row_of(record));
        if let Some(first) = of.next() {
            bytes += put(&self.spool, Table::Connections, &head, once(first).chain(of), step)?;
        }
        if seen.decisions > 0 {
            self.assembler.wall_offset_ns = first_offset;
            let of = again()?.filter_map(|record| self.assembler.decision_of(record));
            bytes += put(&self.spool, Table::Decisions, &head, of, step)?;
        }
        let agent = agent_rows(&seen, &head);
        bytes += put(&self.spool, Table::Agent, &head, agent.into_iter(), step)?;
        Ok(Some((seen.rows, bytes)))
    }
}

/// What a journal has.
#[derive(Default)]
pub struct Seen {
    records: u32,
    rows: u64,
    decisions: u64,
    beats: Vec<Beat>,
    traces: Vec<TraceFile>,
}

impl Seen {
    pub fn note(&mut self, record: &Record, step: impl FnOnce()) {
        match record {
            Record::Row(_) => self.rows += 1,
            Record::Decision(_) => self.decisions += 1,
            Record::Beat(beat) => self.beats.push(*beat),
            Record::Trace(trace) => self.traces.push(*trace),
            _ => {}
        }
        self.records = self.records.wrapping_add(1);
        if self.records.is_multiple_of(STEP) {
            step();
        }
    }
}

fn put<T: Row>(
    spool: &Path,
    table: Table,
    head: &Head,
    rows: impl Iterator<Item = T>,
    step: &mut dyn FnMut(),
) -> Result<u64> {
    let name = FileName::new(table, begun(head.begun_us), head.number);
    let path = spool.join(name.to_string());
    let named = || format!("writing {}", path.display());
    let temporary = tempfile::Builder::new()
        .prefix(ASIDE)
        .permissions(Permissions::from_mode(READABLE_BY_GROUP))
        .tempfile_in(spool)
        .with_context(named)?;
    let metadata = [
        (TABLE, table.name().to_owned()),
        (VERSION, env!("CARGO_PKG_VERSION").to_owned()),
        (BOOT, hex(&head.boot)),
    ];
    let bytes = write(temporary.as_file(), rows, &metadata, step).with_context(named)?;
    temporary.as_file().sync_all().with_context(named)?;
    temporary.persist(&path).with_context(named)?;
    Ok(bytes)
}

/// Removes what an agent was writing that was killed. The journals have its rows.
///
/// # Errors
/// The spool cannot be read.
pub fn remove_unfinished(spool: &Path) -> Result<()> {
    for entry in fs::read_dir(spool)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(ASIDE.as_bytes())
            && let Err(error) = fs::remove_file(entry.path())
        {
            note!("{} stays in the spool: {error}", entry.path().display());
        }
    }
    Ok(())
}

/// As file names say it.
pub fn begun(us: i64) -> String {
    DateTime::from_timestamp_micros(us).unwrap_or_default().format(BEGUN).to_string()
}

/// A job on a thread of its own.
pub struct Running {
    thread: JoinHandle<Result<Option<Done>>>,
    hurry: Hurry,
}

impl Running {
    /// `work`, as far as it is known, spread over `time`.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn begin(job: Job, work: Duration, time: Duration) -> Result<Running> {
        let hurry = Hurry::default();
        let said = hurry.clone();
        let run = move || job.run(&mut Pace::spread(work, time, said));
        let thread = std::thread::Builder::new().name("finish".into()).spawn(run)?;
        Ok(Running { thread, hurry })
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end, which now comes as soon as it can.
    pub fn end(self) -> Result<Option<Done>> {
        self.hurry.say();
        self.thread.join().map_err(|_| anyhow!("a file of the spool could not be made"))?
    }
}

pub fn gone(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Whether something could not be written because the disk is full, or what one may have of it.
pub fn lacks_room(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| matches!(cause.kind(), StorageFull | QuotaExceeded))
}

/// What the agent says of itself in a journal.
pub fn agent_rows(seen: &Seen, head: &Head) -> Vec<AgentRow> {
    let Seen { rows, decisions, beats, traces, .. } = seen;
    // Of another boot nobody knows it any more.
    let is_this_boot = boot().is_ok_and(|boot| boot == head.boot);
    let kernel = is_this_boot.then(|| rustix::system::uname().release().to_string_lossy().into());
    let of_beat =
        |beat, counted| AgentRow { kernel: kernel.clone(), ..of_beat(beat, head, counted) };
    let last = beats.len().saturating_sub(1);
    let told = beats.iter().enumerate().filter(|(n, beat)| *n == last || beat.event != 0);
    let mut told: Vec<AgentRow> = told
        .map(|(n, beat)| {
            let counted = if n == last { (*rows, *decisions) } else { (0, 0) };
            of_beat(beat, counted)
        })
        .collect();
    let newest = beats.last().map(|beat| of_beat(beat, (0, 0))).unwrap_or_default();
    told.extend(traces.iter().map(|trace| AgentRow {
        time: Time(trace.end_us),
        event: AgentEvent::Trace,
        gap_us: None,
        trace: Some(trace.name().to_string().into()),
        events: trace.events,
        ..newest.clone()
    }));
    told
}

fn of_beat(beat: &Beat, head: &Head, (rows, decisions): (u64, u64)) -> AgentRow {
    let event = AgentEvent::ALL.get(usize::from(beat.event)).copied().unwrap_or_default();
    AgentRow {
        time: Time((beat.time_ns as i64 + beat.wall_offset_ns) / 1000),
        event,
        level: beat.level,
        cpu_share: f64::from(beat.cpu_ppm) / 1e6,
        tracked: beat.tracked,
        untracked: beat.untracked,
        lost_rows: beat.lost_rows,
        lost_decisions: beat.lost_decisions,
        rows,
        decisions,
        gap_us: (event == AgentEvent::Gap).then_some(beat.gap_ns / 1000),
        boot: Some(hex(&head.boot).into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        ..AgentRow::default()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

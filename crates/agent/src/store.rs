//! The spool: the journal that is open, the Parquet files made of those before, and the limits
//! of how much may lie there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use chrono::DateTime;
use rustix::fs::{FlockOperation, flock};
use transom_spool::{AgentEvent, AgentRow, FileName, Row, TABLE, Table, Text, Time, list, write};

use crate::assemble::Assembler;
use crate::journal::{self, Beat, Head, Journal, Record, Records, size_of_kind};
use crate::raw::{DECISION, RawRow, is_row};

/// A journal is finished when it has this many rows: about 4 MiB of Parquet.
const MOST_ROWS: u64 = 60_000;
/// Beyond it, where no file can be made of it, what comes is counted as lost.
const MOST_BYTES: u64 = 64 << 20;

/// What may lie in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: u64,
    /// Decisions are removed when they are older.
    pub decisions_us: i64,
    pub file_us: i64,
}

/// What was lost on the way to the disk, and what was removed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub rows: u64,
    pub decisions: u64,
    pub files_removed: u64,
}

pub struct Store {
    spool: PathBuf,
    limits: Limits,
    journal: Option<Journal>,
    /// Cgroups that the journal has a name of.
    noted: std::collections::HashSet<u64>,
    pub losses: Losses,
    /// Of all files that were finished.
    pub rows: u64,
    next: u32,
    boot: [u8; 16],
    us_per_jiffy: u32,
    _lock: File,
}

impl Store {
    /// Takes the spool, and finishes what an earlier agent left; what that one saw last is
    /// returned.
    ///
    /// # Errors
    /// Another agent has it, or it cannot be written.
    pub fn open(
        spool: &Path,
        limits: Limits,
        assembler: &mut Assembler,
    ) -> Result<(Store, Option<(Head, Beat)>)> {
        fs::create_dir_all(spool)
            .with_context(|| format!("making the spool {}", spool.display()))?;
        let lock = take(spool)?;
        let next = list(spool)
            .with_context(|| format!("reading the spool {}", spool.display()))?
            .iter()
            .map(|(name, ..)| name.number + 1)
            .max()
            .unwrap_or(1);
        let mut store = Store {
            spool: spool.to_owned(),
            limits,
            journal: None,
            noted: Default::default(),
            losses: Losses::default(),
            rows: 0,
            next,
            boot: boot()?,
            us_per_jiffy: assembler.us_per_jiffy,
            _lock: lock,
        };
        let left = store.finish_left(assembler)?;
        store.next = store.next.max(left.map_or(0, |(head, _)| head.number + 1));
        Ok((store, left))
    }

    fn path(&self) -> PathBuf {
        self.spool.join(journal::NAME)
    }

    fn finish_left(&mut self, assembler: &mut Assembler) -> Result<Option<(Head, Beat)>> {
        let path = self.path();
        let Some(records) = Records::open(&path)? else { return Ok(None) };
        let head = records.head;
        let last = records
            .filter_map(|r| if let Record::Beat(beat) = r { Some(beat) } else { None })
            .last();
        self.convert(assembler).with_context(|| format!("finishing {}", path.display()))?;
        fs::remove_file(&path)?;
        Ok(last.map(|beat| (head, beat)))
    }

    /// From now on these.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// This boot of the kernel.
    pub fn boot(&self) -> [u8; 16] {
        self.boot
    }

    /// Begins a journal if none is open.
    fn journal(&mut self, now_us: i64) -> Result<&mut Journal> {
        if self.journal.is_none() {
            fs::create_dir_all(&self.spool)?;
            let head = Head::new(self.boot, now_us, self.next, self.us_per_jiffy);
            self.journal = Some(Journal::create(&self.path(), head)?);
            self.next += 1;
            self.noted.clear();
        }
        self.journal.as_mut().context("the journal was just made")
    }

    /// Appends what the kernel wrote; what cannot be written is counted.
    pub fn append(&mut self, bytes: &[u8], now_us: i64, assembler: &mut Assembler) -> Result<()> {
        let (rows, decisions) = counted(bytes);
        let result = self.try_append(bytes, now_us, assembler);
        match (&result, &mut self.journal) {
            (Ok(()), Some(journal)) => {
                journal.rows += rows;
                journal.decisions += decisions;
            }
            _ => {
                self.losses.rows += rows;
                self.losses.decisions += decisions;
            }
        }
        result
    }

    fn try_append(&mut self, bytes: &[u8], now_us: i64, assembler: &mut Assembler) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.journal(now_us)?.bytes > MOST_BYTES {
            bail!("no file could be made of {} for long", self.path().display());
        }
        for (cgroup, path) in self.new_names(bytes, assembler) {
            self.journal(now_us)?.name(cgroup, &path)?;
        }
        self.journal(now_us)?.append(bytes)
    }

    /// Cgroups that the journal has no name of: by the time a file is made, they may be gone.
    fn new_names(&mut self, bytes: &[u8], assembler: &mut Assembler) -> Vec<(u64, Text)> {
        let mut new = Vec::new();
        for record in records(bytes) {
            let Ok(row) = bytemuck::try_pod_read_unaligned::<RawRow>(record) else { continue };
            if self.noted.insert(row.cgroup)
                && let Some(path) = assembler.cgroups.names(row.cgroup).path.clone()
            {
                new.push((row.cgroup, path));
            }
        }
        new
    }

    /// A sign of life, or something that happened.
    pub fn beat(&mut self, beat: &Beat, now_us: i64) -> Result<()> {
        self.journal(now_us)?.beat(beat)
    }

    /// Looks whether the journal is to be finished, or was removed under us.
    pub fn tend(&mut self, now_us: i64, assembler: &mut Assembler) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        if journal.is_gone() {
            self.losses.rows += journal.rows;
            self.losses.decisions += journal.decisions;
            self.journal = None;
            bail!("{} was removed while it was written", self.path().display());
        }
        let age = now_us - journal.head.begun_us;
        // A clock that was set back must not keep a journal open for long.
        if journal.rows >= MOST_ROWS || age >= self.limits.file_us || age < 0 {
            self.finish(assembler)?;
        }
        Ok(())
    }

    /// Makes Parquet files of the journal and keeps the spool within its limits.
    ///
    /// # Errors
    /// The files cannot be written: the journal stays and is tried again.
    pub fn finish(&mut self, assembler: &mut Assembler) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let (rows, now_us) = (journal.rows, journal.head.begun_us);
        self.keep_within(0, now_us)?;
        self.convert(assembler)?;
        self.journal = None;
        self.rows += rows;
        fs::remove_file(self.path()).or_else(gone)?;
        Ok(())
    }

    fn convert(&self, assembler: &mut Assembler) -> Result<()> {
        let path = self.path();
        let again = || Ok::<_, anyhow::Error>(Records::open(&path)?.into_iter().flatten());
        let Some(first) = Records::open(&path)? else { return Ok(()) };
        let head = first.head;
        let (mut rows, mut decisions) = (0, 0);
        for record in first {
            match record {
                Record::Name(id, name) => assembler.cgroups.note(id, &name),
                Record::Beat(beat) => assembler.wall_offset_ns = beat.wall_offset_ns,
                Record::Row(_) => rows += 1,
                Record::Decision(_) => decisions += 1,
                Record::Recents(_) => {}
            }
        }
        if rows > 0 {
            let of = again()?.filter_map(|record| assembler.row_of(record));
            self.put(Table::Connections, &head, of)?;
        }
        if decisions > 0 {
            let of = again()?
                .filter_map(|r| if let Record::Decision(raw) = r { Some(raw) } else { None });
            self.put(Table::Decisions, &head, of.map(|raw| assembler.decision(&raw)))?;
        }
        self.put(Table::Agent, &head, agent_rows(again()?, &head, rows, decisions).into_iter())
    }

    /// A whole file in its place: made aside, synced, renamed. Made again after a kill it has the
    /// same name, so that no row is there twice.
    fn put<T: Row>(&self, table: Table, head: &Head, rows: impl Iterator<Item = T>) -> Result<()> {
        let begun = DateTime::from_timestamp_micros(head.begun_us).unwrap_or_default();
        let name = FileName::new(table, begun.format("%Y%m%dT%H%M%SZ").to_string(), head.number);
        let path = self.spool.join(name.to_string());
        let named = || format!("writing {}", path.display());
        let temporary = tempfile::Builder::new()
            .prefix(".agent-")
            .tempfile_in(&self.spool)
            .with_context(named)?;
        let metadata = [
            (TABLE, table.name().to_owned()),
            ("transom.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("transom.boot", hex(&head.boot)),
        ];
        write(temporary.as_file(), rows, &metadata).with_context(named)?;
        temporary.as_file().sync_all().with_context(named)?;
        temporary.persist(&path).with_context(named)?;
        Ok(())
    }

    /// Removes old files: decisions that are too old, then decisions, then connections, until
    /// `more` bytes would fit.
    pub fn keep_within(&mut self, more: u64, now_us: i64) -> Result<u64> {
        let files = list(&self.spool).or_else(|error| {
            if error.kind() == std::io::ErrorKind::NotFound { Ok(Vec::new()) } else { Err(error) }
        })?;
        let oldest = DateTime::from_timestamp_micros(now_us - self.limits.decisions_us)
            .unwrap_or_default()
            .format("%Y%m%dT%H%M%SZ")
            .to_string();
        let mut total: u64 = files.iter().map(|(.., bytes)| bytes).sum::<u64>() + more;
        let mut removed = 0;
        let order = [Table::Decisions, Table::Connections, Table::Agent];
        for table in order {
            for (name, path, bytes) in files.iter().filter(|(name, ..)| name.table() == table) {
                let too_old = table == Table::Decisions && name.begun < oldest;
                if total <= self.limits.bytes && !too_old {
                    continue;
                }
                fs::remove_file(path).or_else(gone)?;
                total -= bytes;
                removed += 1;
            }
        }
        self.losses.files_removed += removed;
        Ok(removed)
    }

    /// Bytes of the spool, journal included.
    pub fn bytes(&self) -> u64 {
        let files: u64 = list(&self.spool).map_or(0, |files| files.iter().map(|(.., b)| b).sum());
        files + self.journal.as_ref().map_or(0, |journal| journal.bytes)
    }
}

fn gone(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn take(spool: &Path) -> Result<File> {
    let path = spool.join("lock");
    let file = transom_machine::lock::open(&path)
        .with_context(|| format!("opening {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        bail!(
            "another agent has the spool {}: stop it, or name another one with --spool",
            spool.display()
        );
    }
    Ok(file)
}

/// The records of the kernel in a run of bytes.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let size = size_of_kind(*bytes.first()?)?;
        let (record, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        Some(record)
    })
}

fn counted(bytes: &[u8]) -> (u64, u64) {
    let of =
        |wanted: fn(u8) -> bool| records(bytes).filter(|record| wanted(record[0])).count() as u64;
    (of(is_row), of(|kind| kind == DECISION))
}

pub fn agent_rows(
    records: impl Iterator<Item = Record>,
    head: &Head,
    rows: u64,
    decisions: u64,
) -> Vec<AgentRow> {
    let beats: Vec<Beat> = records
        .filter_map(|r| if let Record::Beat(beat) = r { Some(beat) } else { None })
        .collect();
    let last = beats.len().saturating_sub(1);
    let told = beats.iter().enumerate().filter(|(n, beat)| *n == last || beat.event != 0);
    let of = |(n, beat): (usize, &Beat)| {
        let event = AgentEvent::ALL.get(usize::from(beat.event)).copied().unwrap_or_default();
        let of_period = |number: u64| if n == last { number } else { 0 };
        AgentRow {
            time: Time((beat.time_ns as i64 + beat.wall_offset_ns) / 1000),
            event,
            level: beat.level,
            cpu_share: f64::from(beat.cpu_ppm) / 1e6,
            tracked: beat.tracked,
            untracked: beat.untracked,
            lost_rows: beat.lost_rows,
            lost_decisions: beat.lost_decisions,
            rows: of_period(rows),
            decisions: of_period(decisions),
            gap_us: (event == AgentEvent::Gap).then_some(beat.gap_ns / 1000),
            boot: Some(hex(&head.boot).into()),
            kernel: Some(rustix::system::uname().release().to_string_lossy().into()),
            version: Some(env!("CARGO_PKG_VERSION").into()),
        }
    };
    told.map(of).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// /proc/sys/kernel/random/boot_id
fn boot() -> Result<[u8; 16]> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number =
        u128::from_str_radix(&digits, 16).with_context(|| format!("{path} is no identity"))?;
    Ok(number.to_be_bytes())
}

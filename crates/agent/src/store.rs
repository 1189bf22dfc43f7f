//! The spool: the journal that is open, and the Parquet files made of those before.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::mem::{self, offset_of};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use transom_output::note;
use transom_spool::next_number;

use crate::addresses::Tagger;
use crate::assemble::Assembler;
use crate::finish::{Done, Job, Running, gone, lacks_room, remove_unfinished};
use crate::journal::{
    self, Beat, Head, Journal, OtherVersion, Record, Records, TraceFile, size_of_kind,
};
use crate::pace::Pace;
use crate::raw::{DECISION, RawRow, is_row};
use crate::room::Room;
use crate::taken::Taken;

/// A journal is finished when it has this many rows: about 4 MiB of Parquet.
const MOST_ROWS: u64 = 60_000;
/// Or this part of the spool's limit.
pub const JOURNALS: u64 = 8;
/// Beyond it, where no file can be made of it, what comes is counted as lost.
const MOST_BYTES: u64 = 64 << 20;
/// Files are made within this time, however long the journal took to fill.
const LONGEST_JOB: Duration = Duration::from_secs(30);

/// What may lie in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: u64,
    /// Decisions are removed when they are older.
    pub decisions_us: i64,
    pub file_us: i64,
}

/// What was lost on the way to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    pub rows: u64,
    pub decisions: u64,
}

/// A journal that is not written any more.
struct Complete {
    path: PathBuf,
    rows: u64,
    decisions: u64,
    bytes: u64,
    /// How long that took.
    filled: Duration,
}

impl Complete {
    /// Of an agent that was killed. Files are made of it at once.
    fn left(path: PathBuf) -> Result<Complete> {
        let bytes = fs::metadata(&path)?.len();
        let mut left = Complete { path, rows: 0, decisions: 0, bytes, filled: Duration::ZERO };
        for record in Records::open(&left.path)?.into_iter().flatten() {
            match record {
                Record::Row(_) => left.rows += 1,
                Record::Decision(_) => left.decisions += 1,
                _ => {}
            }
        }
        Ok(left)
    }
}

pub struct Store {
    spool: PathBuf,
    limits: Limits,
    journal: Option<Journal>,
    /// The one before it, while files are made of it.
    complete: Option<Complete>,
    /// Of agents before this one, the oldest first: there was no room for files of them.
    left: VecDeque<Complete>,
    running: Option<Running>,
    /// CPU time to make files, as it was the last time.
    work_per_row: Duration,
    beat: Option<Beat>,
    /// Cgroups that the journal has a name of, or that have none.
    noted: HashSet<u64>,
    /// Those of its rows that are not looked for yet.
    unnamed: HashSet<u64>,
    pub losses: Losses,
    /// Of all files that were finished.
    pub rows: u64,
    next: u32,
    boot: [u8; 16],
    us_per_jiffy: u32,
    room: Room,
    taken: Taken,
    /// Its key is in the spool.
    tagger: Tagger,
}

impl Store {
    /// Finishes what an earlier agent left; what that one saw last is returned, and kept until this
    /// agent runs.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(
        taken: Taken,
        spool: &Path,
        limits: Limits,
        assembler: &mut Assembler,
    ) -> Result<(Store, Option<(Head, Beat)>)> {
        let named = || format!("reading the spool {}", spool.display());
        remove_unfinished(spool).with_context(named)?;
        let next = next_number(spool).with_context(named)?;
        let mut store = Store {
            spool: spool.to_owned(),
            limits,
            journal: None,
            complete: None,
            left: VecDeque::new(),
            running: None,
            work_per_row: Duration::from_micros(4),
            beat: None,
            noted: HashSet::new(),
            unnamed: HashSet::new(),
            losses: Losses::default(),
            rows: 0,
            next,
            boot: boot()?,
            us_per_jiffy: assembler.us_per_jiffy,
            room: Room::of(spool).with_context(named)?,
            taken,
            tagger: assembler.tagger.clone(),
        };
        let left = match store.finish_left(assembler)? {
            // That of another version says nothing to this one, and is no reason not to start.
            None => last_of(&store.stopped()).unwrap_or(None),
            Some((head, beat)) => {
                // Of a full disk this start is told elsewhere: only the next one knows less.
                let _ = Journal::create(&store.stopped(), head).and_then(|mut it| it.beat(&beat));
                Some((head, beat))
            }
        };
        store.next = store.next.max(left.map_or(0, |(head, _)| head.number + 1));
        Ok((store, left))
    }

    /// The agent runs: what it made stays, and what the one before saw last is told.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn begun(&mut self) -> Result<()> {
        self.taken.stays();
        Ok(fs::remove_file(self.stopped()).or_else(gone)?)
    }

    fn path(&self) -> PathBuf {
        self.spool.join(journal::NAME)
    }

    /// What the agent that stopped saw last.
    fn stopped(&self) -> PathBuf {
        self.spool.join(journal::STOPPED)
    }

    /// Keeps what was seen last for the next agent, which tells from it what it missed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn stop(&mut self, beat: &Beat, now_us: i64) -> Result<()> {
        let head = Head::new(self.boot, now_us, self.next, self.us_per_jiffy);
        Journal::create(&self.stopped(), head)?.beat(beat)
    }

    /// Complete ones first; the open one's last beat is the last that was seen. On a full disk they
    /// stay journals until there is room.
    fn finish_left(&mut self, assembler: &mut Assembler) -> Result<Option<(Head, Beat)>> {
        let mut last = None;
        let mut journals = journal::all(&self.spool)?;
        journals.rotate_left(1);
        for path in journals {
            let left = match last_of(&path) {
                Err(error) if error.is::<OtherVersion>() => {
                    set_aside(&path, &error)?;
                    continue;
                }
                left => left?,
            };
            let made = self.job(path.clone(), assembler).run(&mut Pace::without_rests());
            match made.with_context(|| format!("finishing {}", path.display())) {
                Ok(done) => self.room.made(done.map_or(0, |done| done.bytes)),
                Err(error) if lacks_room(&error) => {
                    note!("{error:#}; it stays a journal until there is room");
                    self.leave(&path)?;
                }
                Err(error) => return Err(error),
            }
            last = left.or(last);
        }
        Ok(last)
    }

    /// Keeps a journal for later. The open one is complete now: ours takes its name.
    fn leave(&mut self, journal: &Path) -> Result<()> {
        let Some(Records { head, .. }) = Records::open(journal)? else { return Ok(()) };
        let path = self.spool.join(journal::name_of_complete(head.number));
        fs::rename(journal, &path).with_context(|| format!("writing {}", path.display()))?;
        self.next = self.next.max(head.number + 1);
        self.left.push_back(Complete::left(path)?);
        Ok(())
    }

    fn job(&self, journal: PathBuf, assembler: &Assembler) -> Job {
        Job { spool: self.spool.clone(), journal, assembler: assembler.for_journal() }
    }

    /// From now on these.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.room.look_again();
    }

    /// This boot of the kernel.
    pub fn boot(&self) -> [u8; 16] {
        self.boot
    }

    /// Begins a journal if none is open.
    fn journal(&mut self, now_us: i64) -> Result<&mut Journal> {
        if self.journal.is_none() {
            fs::create_dir_all(&self.spool)?;
            self.taken.again(&self.spool, &self.tagger)?;
            let head = Head::new(self.boot, now_us, self.next, self.us_per_jiffy);
            let mut journal = Journal::create(&self.path(), head)?;
            self.next += 1;
            self.noted.clear();
            self.unnamed.clear();
            // Rows have the time of the kernel, and a beat says what it is for us.
            if let Some(beat) = &self.beat {
                journal.beat(beat)?;
            }
            self.journal = Some(journal);
        }
        self.journal.as_mut().context("the journal was just made")
    }

    /// Appends what the kernel wrote; what cannot be written is counted.
    pub fn append(&mut self, bytes: &[u8], now_us: i64, assembler: &mut Assembler) -> Result<()> {
        let arrived = Arrived::of(bytes);
        let result = self.try_append(bytes, &arrived.cgroups, now_us, assembler);
        match (&result, &mut self.journal) {
            (Ok(()), Some(journal)) => {
                journal.rows += arrived.rows;
                journal.decisions += arrived.decisions;
            }
            _ => {
                self.losses.rows += arrived.rows;
                self.losses.decisions += arrived.decisions;
            }
        }
        result
    }

    fn try_append(
        &mut self,
        bytes: &[u8],
        cgroups: &[u64],
        now_us: i64,
        assembler: &mut Assembler,
    ) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.journal(now_us)?.bytes > MOST_BYTES.min(self.limits.bytes / 2) {
            bail!("no file could be made of {} for long", self.path().display());
        }
        // By the time a file is made, they may be gone.
        for &cgroup in cgroups {
            self.name(cgroup, now_us, assembler)?;
        }
        self.journal(now_us)?.append(bytes)
    }

    fn name(&mut self, cgroup: u64, now_us: i64, assembler: &mut Assembler) -> Result<()> {
        if self.noted.contains(&cgroup) {
            return Ok(());
        }
        let Some(names) = assembler.cgroups.found(cgroup) else {
            self.unnamed.insert(cgroup);
            return Ok(());
        };
        if let Some(path) = &names.path {
            self.journal(now_us)?.name(cgroup, path)?;
        }
        self.noted.insert(cgroup);
        Ok(())
    }

    /// What one row told of may never have another: a container that connects once.
    fn name_the_unnamed(&mut self, now_us: i64, assembler: &mut Assembler) -> Result<()> {
        let unnamed = mem::take(&mut self.unnamed);
        if unnamed.is_empty() || self.journal.is_none() {
            return Ok(());
        }
        assembler.cgroups.next_second();
        unnamed.into_iter().try_for_each(|cgroup| self.name(cgroup, now_us, assembler))
    }

    /// A sign of life, or something that happened.
    pub fn beat(&mut self, beat: &Beat, now_us: i64) -> Result<()> {
        self.journal(now_us)?.beat(beat)?;
        self.beat = Some(Beat { event: 0, gap_ns: 0, ..*beat });
        Ok(())
    }

    /// A file of recorded events was finished.
    pub fn trace(&mut self, file: &TraceFile, now_us: i64) -> Result<()> {
        let size = fs::metadata(self.spool.join(file.name().to_string()));
        self.room.made(size.map_or(0, |size| size.len()));
        self.journal(now_us)?.trace(file)
    }

    /// Looks whether the journal is complete, whether files were made of the one before, and
    /// whether somebody removed either. Once a second.
    pub fn tend(&mut self, now_us: i64, assembler: &mut Assembler) -> Result<()> {
        self.name_the_unnamed(now_us, assembler)?;
        self.look_at_running()?;
        if self.complete.is_none() {
            self.complete = self.left.pop_front();
        }
        let Some(journal) = &self.journal else { return Ok(()) };
        if journal.is_gone() {
            self.losses.rows += journal.rows;
            self.losses.decisions += journal.decisions;
            self.journal = None;
            bail!("{} was removed while it was written", self.path().display());
        }
        let age = now_us - journal.head.begun_us;
        // A clock that was set back must not keep a journal open for long.
        let is_full = journal.rows >= MOST_ROWS || journal.bytes >= self.limits.bytes / JOURNALS;
        let is_complete = is_full || age >= self.limits.file_us || age < 0;
        if is_complete && self.complete.is_none() {
            self.complete_journal(now_us)?;
        }
        self.begin_job(now_us, assembler)
    }

    fn look_at_running(&mut self) -> Result<()> {
        match self.running.take_if(|running| running.is_over()) {
            Some(running) => self.job_ended(running.end()),
            None => Ok(()),
        }
    }

    fn job_ended(&mut self, result: Result<Option<Done>>) -> Result<()> {
        let done = result?;
        let Some(complete) = self.complete.take() else { return Ok(()) };
        let Some(done) = done else {
            self.losses.rows += complete.rows;
            self.losses.decisions += complete.decisions;
            bail!("{} was removed before files were made of it", complete.path.display());
        };
        self.rows += done.rows;
        self.room.made(done.bytes);
        if done.rows > 0 {
            self.work_per_row = done.worked / u32::try_from(done.rows).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// The next record begins another journal.
    fn complete_journal(&mut self, now_us: i64) -> Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let path = self.spool.join(journal::name_of_complete(journal.head.number));
        fs::rename(self.path(), &path).with_context(|| format!("writing {}", path.display()))?;
        let filled = Duration::from_micros((now_us - journal.head.begun_us).max(0) as u64);
        let (rows, decisions, bytes) = (journal.rows, journal.decisions, journal.bytes);
        self.complete = Some(Complete { path, rows, decisions, bytes, filled });
        self.journal = None;
        Ok(())
    }

    fn begin_job(&mut self, now_us: i64, assembler: &Assembler) -> Result<()> {
        if self.running.is_some() || self.complete.is_none() {
            return Ok(());
        }
        self.room.keep_within(&self.limits, self.journals(), now_us)?;
        let Some(complete) = &self.complete else { return Ok(()) };
        // The next journal must not be complete before this one is done.
        let time = (complete.filled / 2).min(LONGEST_JOB);
        let work = self.work_per_row * u32::try_from(complete.rows).unwrap_or(u32::MAX);
        let job = self.job(complete.path.clone(), assembler);
        self.running = Some(Running::begin(job, work, time)?);
        Ok(())
    }

    /// Makes files of all that has come, at once, and keeps the spool within its limits.
    ///
    /// # Errors
    /// The files cannot be written: the journals stay.
    pub fn finish(&mut self, now_us: i64, assembler: &mut Assembler) -> Result<()> {
        self.name_the_unnamed(now_us, assembler)?;
        if let Some(running) = self.running.take() {
            let result = running.end();
            self.job_ended(result)?;
        }
        self.finish_complete(now_us, assembler)?;
        while self.complete.is_none() && !self.left.is_empty() {
            self.complete = self.left.pop_front();
            self.finish_complete(now_us, assembler)?;
        }
        self.complete_journal(now_us)?;
        self.finish_complete(now_us, assembler)
    }

    fn finish_complete(&mut self, now_us: i64, assembler: &Assembler) -> Result<()> {
        let Some(complete) = &self.complete else { return Ok(()) };
        let job = self.job(complete.path.clone(), assembler);
        self.room.keep_within(&self.limits, self.journals(), now_us)?;
        let result = job.run(&mut Pace::without_rests());
        self.job_ended(result)
    }

    /// Bytes of the spool, journals included.
    pub fn bytes(&self) -> u64 {
        self.room.bytes() + self.journals()
    }

    /// Files that were removed to keep the limit.
    pub fn removed(&self) -> u64 {
        self.room.removed
    }

    fn journals(&self) -> u64 {
        let open = self.journal.as_ref().map_or(0, |journal| journal.bytes);
        let complete = self.complete.iter().chain(&self.left);
        open + complete.map(|complete| complete.bytes).sum::<u64>()
    }
}

/// After an upgrade over an agent that was killed: the machine is watched from now on all the same.
fn set_aside(journal: &Path, why: &anyhow::Error) -> Result<()> {
    let place = |number: u32| journal.with_extension(format!("other-version-{number}"));
    let place = (1..).map(place).find(|place| !place.exists()).unwrap_or_default();
    fs::rename(journal, &place).with_context(|| format!("moving {}", journal.display()))?;
    note!(
        "{why}: it is kept as {}. For files of its rows, rename it back and start and stop an agent \
         of that version",
        place.display()
    );
    Ok(())
}

/// The last beat of a journal, if there is one.
fn last_of(journal: &Path) -> Result<Option<(Head, Beat)>> {
    let Some(records) = Records::open(journal)? else { return Ok(None) };
    let head = records.head;
    let beat = |record| if let Record::Beat(beat) = record { Some(beat) } else { None };
    Ok(records.filter_map(beat).last().map(|beat| (head, beat)))
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

/// What a run of bytes has.
#[derive(Default)]
struct Arrived {
    rows: u64,
    decisions: u64,
    /// Of its rows: neighbours mostly have the same one, which is here once.
    cgroups: Vec<u64>,
}

impl Arrived {
    fn of(bytes: &[u8]) -> Arrived {
        let mut arrived = Arrived::default();
        for record in records(bytes) {
            if record[0] == DECISION {
                arrived.decisions += 1;
            } else if is_row(record[0]) {
                arrived.rows += 1;
                let cgroup = cgroup_of(record);
                if arrived.cgroups.last() != Some(&cgroup) {
                    arrived.cgroups.push(cgroup);
                }
            }
        }
        arrived
    }
}

fn cgroup_of(row: &[u8]) -> u64 {
    let at = offset_of!(RawRow, cgroup);
    u64::from_ne_bytes(row[at..at + size_of::<u64>()].try_into().unwrap_or_default())
}

/// /proc/sys/kernel/random/boot_id
pub fn boot() -> Result<[u8; 16]> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number =
        u128::from_str_radix(&digits, 16).with_context(|| format!("{path} is no identity"))?;
    Ok(number.to_be_bytes())
}

#[cfg(test)]
mod tests;

//! The shipper at work: what waits goes, one file after another, and what went is remembered.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use transom_output::note;
use transom_spool::{FileName, Table, Time};

use super::clock::{self, Clock};
use super::described::{self, Described};
use super::files::{self, Found, Waiting, found, landed_as};
use super::given_up;
use super::last_look::LastLook;
use super::machine::{self, Said};
use super::metrics::Metrics;
use super::object::{Object, Sent};
use super::pace::{Pace, random};
use super::record::Record;
use super::spool_lock::SpoolLock;
use crate::bucket::{Bucket, Refusal, refusal};
use crate::landed::Identity;

/// How often the spool is looked at; the agent finishes files each 5 minutes.
const LOOK: Duration = Duration::from_secs(15);
/// `--once` gives up after so many failures one after another: about a minute.
const MOST_FAILURES: u32 = 8;
/// A backlog says how far it is each so many files.
const PROGRESS: u64 = 50;

#[derive(Default)]
pub struct Count {
    pub landed: u64,
    pub were_there: u64,
    pub rows: u64,
    pub bytes: u64,
}

pub struct Shipper {
    spool: PathBuf,
    bucket: Bucket,
    host: String,
    record: Record,
    pace: Pace,
    spread: Duration,
    said: Said,
    described: Described,
    /// Files that cannot go, each with the reason: they are told of once, and stay.
    aside: HashMap<String, String>,
    count: Count,
    metrics: Option<Metrics>,
    /// When who watches was told last.
    told_at: Duration,
    lock: SpoolLock,
    last_look: LastLook,
    clock: Arc<dyn Clock>,
    /// Bytes of events that may land of one hour; 0: none is shipped.
    events: u64,
    /// The store was seen to keep what is there.
    is_write_once: bool,
}

/// Why a file did not go, where it is not a matter of that file.
enum Trouble {
    /// It may go later.
    Later(String),
    /// Somebody has to change something.
    Stop(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Stop(error.into())
    }
}

impl Shipper {
    /// # Errors
    /// Another one has the spool, or a place cannot be opened.
    pub fn open(
        spool: &Path,
        state: &Path,
        bucket: Bucket,
        host: String,
        spread: Duration,
        said: Said,
        metrics: Option<PathBuf>,
    ) -> Result<Shipper> {
        let lock = SpoolLock::take(spool)?;
        let of = format!("{host} to {}", bucket.address);
        let record = Record::open(state, &of, |name| spool.join(name).exists())?;
        Ok(Shipper {
            spool: spool.to_owned(),
            bucket,
            record,
            pace: Pace::of(&host, spread),
            spread,
            said,
            described: Described::default(),
            host,
            aside: HashMap::new(),
            count: Count::default(),
            metrics: metrics.map(Metrics::at).transpose()?,
            told_at: Duration::ZERO,
            lock,
            last_look: LastLook::default(),
            clock: Arc::new(clock::Machine),
            events: 0,
            is_write_once: false,
        })
    }

    /// Recorded events, too: at most so many bytes of each hour.
    #[must_use]
    pub fn with_events(mut self, bytes: u64) -> Shipper {
        self.events = bytes;
        self
    }

    /// By another clock than the machine's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Shipper {
        self.clock = clock;
        self
    }

    fn waiting(&mut self) -> Result<Vec<Waiting>> {
        let changed = self.lock.check()?;
        if self.last_look.still_holds(changed) {
            return Ok(vec![]);
        }
        let now = SystemTime::now();
        let Found { mut finished, is_recording } = found(&self.spool, self.events > 0)?;
        finished.retain(|file| {
            let name = file.name.to_string();
            let is_known = self.record.has(&name) || self.record.is_left(&name);
            !is_known && !self.aside.contains_key(&name)
        });
        self.last_look.note(changed, now, finished.is_empty() && !is_recording);
        Ok(finished)
    }

    /// What waits, which is also told to who watches.
    fn look(&mut self) -> Result<Vec<Waiting>> {
        let waiting = self.waiting()?;
        if let Some(metrics) = &mut self.metrics {
            metrics.look(&waiting, self.aside.len());
        }
        self.told_at = self.clock.now();
        Ok(waiting)
    }

    /// A round with a full spool lasts for hours on a slow way: that files land is told meanwhile.
    fn look_meanwhile(&mut self) -> Result<()> {
        if self.metrics.is_some() && self.clock.now().abs_diff(self.told_at) >= LOOK {
            self.look()?;
        }
        Ok(())
    }

    /// Ships what is there.
    ///
    /// # Errors
    /// Of the store, after a minute of trying if it may pass.
    pub async fn once(&mut self) -> Result<ExitCode> {
        loop {
            match self.round().await {
                Ok(()) => break,
                Err(Trouble::Stop(error)) => return Err(error),
                Err(Trouble::Later(line)) if self.pace.failures >= MOST_FAILURES => {
                    let left = self.waiting()?.len();
                    bail!("{}: {line}; {left} files wait", self.bucket.address);
                }
                Err(Trouble::Later(line)) => self.wait(&line).await,
            }
        }
        self.tell();
        Ok(if self.aside.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Ships what is there and what comes.
    ///
    /// # Errors
    /// Somebody has to change something.
    pub async fn forever(&mut self) -> Result<Infallible> {
        note!("shipping {} to {} as {}", self.spool.display(), self.bucket.address, self.host);
        self.let_others_go().await?;
        loop {
            match self.round().await {
                Ok(()) => self.clock.sleep(LOOK).await,
                Err(Trouble::Stop(error)) => return Err(error),
                Err(Trouble::Later(line)) => self.wait(&line).await,
            }
        }
    }

    /// With a backlog at the start, other machines have come back just now, too.
    async fn let_others_go(&mut self) -> Result<()> {
        let waiting = self.waiting()?;
        let is_old = |file: &Waiting| file.age().is_some_and(|age| age > 2 * self.spread);
        if waiting.iter().any(is_old) {
            let wait = self.pace.until_own_moment(self.clock.now());
            note!("{} files wait; the first goes in {} s", waiting.len(), wait.as_secs());
            self.clock.sleep(wait).await;
        }
        Ok(())
    }

    async fn wait(&mut self, line: &str) {
        let wait = self.pace.failed(self.clock.now(), random());
        note!("{}: {line}; again in {:.1} s", self.bucket.address, wait.as_secs_f64());
        self.clock.sleep(wait).await;
    }

    async fn round(&mut self) -> Result<(), Trouble> {
        let waiting = self.look()?;
        for (n, file) in waiting.iter().enumerate() {
            self.look_meanwhile()?;
            self.ship(file).await?;
            self.pace.succeeded();
            if (self.count.landed + self.count.were_there).is_multiple_of(PROGRESS) {
                note!("{}; {} files wait", self.told(), waiting.len() - n - 1);
            }
        }
        self.describe().await?;
        if !waiting.is_empty() {
            self.look()?;
        }
        Ok(())
    }

    /// What this machine is, for whoever tells connections apart by it.
    async fn describe(&mut self) -> Result<(), Trouble> {
        if !self.described.is_time() {
            return Ok(());
        }
        let time = Time(i64::try_from(self.clock.now().as_micros()).unwrap_or(i64::MAX));
        let row = machine::row(time, &self.spool, &self.said);
        let Some(boot) = machine::boot().filter(|_| self.described.is_news(&row)) else {
            self.described.looked();
            return Ok(());
        };
        let object = described::object(&row, &Identity { host: self.host.clone(), boot })?;
        match described::land(&object, row, &*self.bucket.store).await {
            Ok((Some(there), is_new)) => {
                self.described.has(there);
                if let Some(metrics) = self.metrics.as_mut().filter(|_| is_new) {
                    metrics.landed(described::NAME, object.rows, object.bytes.len() as u64);
                }
            }
            Ok((None, _)) => self.described.looked(),
            Err(error) => return Err(self.trouble(&error)),
        }
        Ok(())
    }

    async fn ship(&mut self, file: &Waiting) -> Result<(), Trouble> {
        let name = file.name.to_string();
        if !self.has_room(file, 1) {
            return Ok(self.record.leave(&name)?);
        }
        let Some((object, bytes)) = self.made(file)? else { return Ok(()) };
        let object = match object {
            Ok(object) => object,
            Err(error) => {
                self.put_aside(name, &format!("{error:#}"));
                return Ok(());
            }
        };
        if !self.has_room(file, object.bytes.len() as u64) {
            return Ok(self.record.leave(&name)?);
        }
        let earlier = self.record.earlier(&name).map(str::to_owned);
        self.record.sends(&name, &object.digest)?;
        let sent = object.send(&*self.bucket.store, earlier.as_deref()).await;
        if let Err(error) = &sent
            && earlier.is_none()
            && refusal(error).0.is_final()
        {
            self.record.was_refused(&name)?;
        }
        // Without a record, what is there was told of by whoever put it there.
        let is_ours = match sent {
            Ok(Sent::Landed) => true,
            Ok(Sent::WasThere) => earlier.is_some(),
            _ => false,
        };
        if is_ours && file.name.table() == Table::Agent {
            self.tell_given_up(&file.name, &bytes).await?;
        }
        let keeps = match sent {
            // Once, with the first object that lands.
            Ok(Sent::Landed) if !self.is_write_once => {
                Some(self.bucket.keeps(&object.path, object.bytes.clone().into()).await)
            }
            _ => None,
        };
        if let Some(Ok(false)) = keeps {
            return Err(Trouble::Stop(anyhow::anyhow!(
                "{}: this store writes over what is there, though it is asked not to \
                 (If-None-Match): a machine with the name of another would replace its rows; take \
                 a store that has conditional writes",
                self.bucket.address
            )));
        }
        // It landed, also if the store could not be asked just now what it keeps.
        self.look_at(file, &object, sent)?;
        match keeps {
            Some(Err(error)) => return Err(self.trouble(&error)),
            Some(Ok(_)) => self.is_write_once = true,
            None => {}
        }
        Ok(())
    }

    /// Whether its hour has room for so many bytes more of events.
    fn has_room(&self, file: &Waiting, bytes: u64) -> bool {
        let of_hour = || self.record.events_of_hour(&file.name.to_string());
        file.name.table() != Table::Traces || of_hour() + bytes <= self.events
    }

    /// The object of a file, and the file's own bytes but of events; `None`: the agent needed the room.
    fn made(&self, file: &Waiting) -> Result<Option<(Result<Object>, Bytes)>, Trouble> {
        let named = || format!("reading {}", file.path.display());
        let mut open = match files::open(&file.path) {
            Ok(open) => open,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(anyhow::Error::new(error).context(named()).into()),
        };
        if file.name.table() == Table::Traces {
            return Ok(Some((Object::of_events(&file.name, open, &self.host), Bytes::new())));
        }
        let mut bytes = Vec::new();
        open.read_to_end(&mut bytes).with_context(named)?;
        let bytes = Bytes::from(bytes);
        Ok(Some((Object::of(&file.name, &bytes, &self.host), bytes)))
    }

    /// Of the time of an agent's own file.
    async fn tell_given_up(&mut self, name: &FileName, file: &Bytes) -> Result<(), Trouble> {
        let lacks = |of: &FileName| {
            let name = of.to_string();
            if of.table() == Table::Traces && (self.events == 0 || self.record.is_left(&name)) {
                return self.events > 0;
            }
            !self.record.has(&name) && !self.spool.join(&name).exists()
        };
        let Ok(Some(told)) = given_up::told(name, file, &self.host, lacks) else {
            return Ok(());
        };
        let rows: u64 = told.rows.iter().map(|(_, rows)| rows).sum();
        match told.object.send(&*self.bucket.store, None).await {
            Ok(Sent::Busy) => {
                return Err(Trouble::Later(format!("{} is being written", told.object.path)));
            }
            // One that is there was sent before a kill.
            Ok(_) => note!("{name}: {rows} rows were given up before they could be shipped"),
            Err(error) => return Err(self.trouble(&error)),
        }
        if let Some(metrics) = &mut self.metrics {
            told.rows.iter().for_each(|(table, rows)| metrics.given_up(table, *rows));
        }
        Ok(())
    }

    fn look_at(
        &mut self,
        file: &Waiting,
        object: &Object,
        sent: Result<Sent, object_store::Error>,
    ) -> Result<(), Trouble> {
        match sent {
            Ok(Sent::Landed) => self.count.landed += 1,
            Ok(Sent::WasThere) => self.count.were_there += 1,
            Ok(Sent::Busy) => {
                return Err(Trouble::Later(format!("{} is being written", object.path)));
            }
            Ok(Sent::Taken) => {
                let reason = format!(
                    "{} is there with other rows: another machine has the name {} and this boot \
                     (a clone), or the spool was emptied; give --host another name and --state \
                     another folder",
                    object.path, self.host
                );
                self.put_aside(file.name.to_string(), &reason);
                return Ok(());
            }
            Err(error) => return Err(self.trouble(&error)),
        }
        self.count.rows += object.rows;
        let bytes = object.bytes.len() as u64;
        self.count.bytes += bytes;
        let table = file.name.table();
        let events = if table == Table::Traces { bytes } else { 0 };
        self.record.landed(&file.name.to_string(), events)?;
        if let Some(metrics) = &mut self.metrics {
            metrics.landed(landed_as(table), object.rows, bytes);
        }
        Ok(())
    }

    fn trouble(&mut self, error: &object_store::Error) -> Trouble {
        let (kind, line) = refusal(error);
        if let Some(metrics) = &mut self.metrics {
            metrics.trouble(kind.name());
            let _ = self.look();
        }
        match kind {
            Refusal::Slower | Refusal::Unreachable => Trouble::Later(line),
            _ => Trouble::Stop(anyhow::anyhow!("{}: {line}", self.bucket.address)),
        }
    }

    fn put_aside(&mut self, name: String, reason: &str) {
        note!("{}: not shipped, and it stays: {reason}", self.spool.join(&name).display());
        self.aside.insert(name, reason.to_owned());
    }

    fn told(&self) -> String {
        let Count { landed, were_there, rows, bytes } = self.count;
        let known =
            if were_there > 0 { format!(", {were_there} of them before") } else { String::new() };
        format!("{} files landed{known}: {rows} rows, {bytes} bytes", landed + were_there)
    }

    fn tell(&self) {
        let aside = self.aside.len();
        let left = if aside > 0 { format!("; {aside} stay in the spool") } else { String::new() };
        note!("{}{left}", self.told());
    }
}

//! The real shippers of many hosts in one process, on one clock: agents finish files, an outage comes
//! and goes, and afterwards the bucket is read.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::TryStreamExt;
use object_store::ObjectStoreExt;
use tokio::task::LocalSet;
use transom_fleet::bucket::Bucket;
use transom_fleet::ship::clock::Clock;
use transom_fleet::ship::{Said, Shipper};
use transom_spool::{
    AgentRow, BEGUN, Connection, FileName, Row, RowKind, TABLE, Table, Time, read, write,
};

use crate::counted::{Counted, Second};
use crate::stopped::Stopped;

pub const START: Duration = Duration::from_secs(1_795_435_200);
const BOOT: &str = "00112233445566778899aabbccddeeff";
/// How often an agent finishes files, and a shipper looks.
pub const PERIOD: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(15);
const INSTANT: Duration = Duration::from_millis(1);
/// After the last file, until all must have landed.
const LAST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Its number: another process may have the hosts before it.
    pub first: u32,
    pub hosts: u32,
    /// Of connections, in a file.
    pub rows: u32,
    pub before: Duration,
    pub outage: Duration,
    pub after: Duration,
    /// The shippers' `--spread`.
    pub spread: Duration,
    /// Of each so many hosts one is read row by row; the others' objects are counted.
    pub read: u32,
}

/// Who has the server is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is to go.
    Down,
    /// It is to come back.
    Up,
    /// All is over, and the bucket is to be read: several processes do that one after the other.
    Read,
}

/// Requests of a part of the time.
#[derive(Clone, Debug, Default)]
pub struct Part {
    pub seconds: u64,
    pub asked: u64,
    pub failed: u64,
    pub bytes: u64,
    /// Those of each second in which there were any.
    pub each_second: BTreeMap<u64, u64>,
}

impl Part {
    #[allow(dead_code, reason = "who adds parts of several processes does it afterwards")]
    pub fn most_in_a_second(&self) -> u64 {
        self.each_second.values().max().copied().unwrap_or_default()
    }
}

#[derive(Debug)]
pub struct Told {
    pub before: Part,
    pub outage: Part,
    /// From its end on, as long as the hosts are spread over.
    pub back: Part,
    pub after: Part,
    /// Finished by the end of the outage, and not landed then.
    pub backlog: usize,
    /// After the end of the outage, until the last of the backlog landed.
    pub landed_after: Duration,
    /// Of connections and agents.
    pub objects: usize,
    /// Of machines: each says what it is once, and again when that has changed.
    pub described: usize,
    pub rows_read: usize,
    pub real: Duration,
}

fn host_name(host: u32) -> String {
    format!("web-{host:05}")
}

/// Writes the files of so many numbers, and returns their names.
pub fn make(rows: u32, numbers: u32, folder: &Path) -> Result<BTreeMap<u32, [String; 2]>> {
    let files = |number: u32| -> Result<_> {
        let begun = START + PERIOD * number;
        let time = |n: u32| Time((begun.as_micros() as i64) + i64::from(n) * 1000);
        let row = |n: u32| Connection {
            time: time(n),
            kind: RowKind::End,
            cookie: cookie(number, n),
            ..Connection::default()
        };
        let agent = AgentRow {
            time: time(0),
            rows: rows.into(),
            boot: Some(BOOT.into()),
            ..AgentRow::default()
        };
        let rows = (0..rows).map(row).collect();
        let connections = put(folder, Table::Connections, number, rows)?;
        Ok((number, [connections, put(folder, Table::Agent, number, vec![agent])?]))
    };
    (0..numbers).map(files).collect()
}

fn cookie(number: u32, row: u32) -> u64 {
    u64::from(number) << 32 | u64::from(row)
}

fn put<T: Row>(folder: &Path, table: Table, number: u32, rows: Vec<T>) -> Result<String> {
    let begun = (START + PERIOD * number).as_secs();
    let begun = chrono::DateTime::from_timestamp(begun as i64, 0).context("a time")?;
    let name = FileName::new(table, begun.format(BEGUN).to_string(), number).to_string();
    let metadata = [(TABLE, table.name().to_owned()), ("transom.boot", BOOT.to_owned())];
    let mut bytes = Vec::new();
    write(&mut bytes, rows, &metadata, &mut || ())?;
    fs::write(folder.join(&name), bytes)?;
    Ok(name)
}

/// The files of each number, which are alike on all hosts: rows differ by the host that lands with them.
const MADE: &str = "made";

/// A part of a time that is the host's own; `turn` makes another one for each purpose, so that neither
/// says anything of the other (Roberts' sequence in two dimensions).
fn own(host: u32, turn: f64, of: Duration) -> Duration {
    of.mul_f64((f64::from(host) * turn).fract())
}

const AGENTS_TURN: f64 = 0.754_877_67;
const SHIPPERS_TURN: f64 = 0.569_840_29;

struct Crowd {
    plan: Plan,
    clock: Arc<Stopped>,
    store: Arc<Counted>,
    bucket: Bucket,
    folder: PathBuf,
    /// Of each host: how many files its agent has finished.
    finished: Vec<Cell<u32>>,
    /// Names by number.
    files: BTreeMap<u32, [String; 2]>,
}

impl Crowd {
    fn new(plan: Plan, bucket: &Bucket, folder: &Path) -> Result<Crowd> {
        let clock = Arc::new(Stopped::at(START, 2 * plan.hosts as usize));
        let store = Arc::new(Counted::new(bucket.store.clone(), clock.clone()));
        let numbers = (plan.end() - START).as_secs() / PERIOD.as_secs() + 1;
        fs::create_dir(folder.join(MADE))?;
        Ok(Crowd {
            plan,
            bucket: Bucket { store: store.clone(), address: bucket.address.clone() },
            clock,
            store,
            folder: folder.to_owned(),
            finished: vec![Cell::new(0); plan.hosts as usize],
            files: make(plan.rows, u32::try_from(numbers)?, &folder.join(MADE))?,
        })
    }

    fn spool(&self, host: u32) -> PathBuf {
        self.folder.join(host_name(host))
    }

    /// Finishes files until the end.
    async fn agent(&self, host: u32) -> Result<()> {
        let spool = self.spool(host);
        self.clock.sleep(own(host, AGENTS_TURN, PERIOD)).await;
        while self.clock.now() < self.plan.end() {
            let finished = &self.finished[(host - self.plan.first) as usize];
            let number = finished.get();
            for name in &self.files[&number] {
                fs::hard_link(self.folder.join(MADE).join(name), spool.join(name))?;
            }
            finished.set(number + 1);
            self.clock.sleep(PERIOD).await;
        }
        Ok(())
    }

    async fn shipper(&self, host: u32) -> Result<()> {
        let (spool, clock) = (self.spool(host), self.clock.clone());
        let (bucket, spread) = (self.bucket.clone(), self.plan.spread);
        let said = Said { labels: None, agent_config: "/nonexistent".into() };
        let shipper = Shipper::open(&spool, &spool, bucket, host_name(host), spread, said, None)?;
        let mut shipper = shipper.with_clock(clock);
        // Machines do not look in the same moment.
        self.clock.sleep(own(host, SHIPPERS_TURN, LOOK)).await;
        match shipper.forever().await? {}
    }

    fn part(&self, from: Duration, to: Duration) -> Part {
        let seen = self.store.seen();
        let of = seen.seconds.range(from.as_secs()..to.as_secs());
        let add = |mut sum: Part, (at, second): (&u64, &Second)| {
            sum.asked += second.asked;
            sum.failed += second.failed;
            sum.bytes += second.bytes;
            sum.each_second.insert(at - from.as_secs(), second.asked);
            sum
        };
        of.fold(Part { seconds: (to - from).as_secs(), ..Part::default() }, add)
    }

    fn hosts(&self) -> Range<u32> {
        self.plan.first..self.plan.first + self.plan.hosts
    }

    /// The backlog at the end of the outage, and when its last object had landed.
    fn backlog(&self, finished: &[u32], end: Duration) -> (usize, Duration) {
        let seen = self.store.seen();
        let is_of_it = |(name, at): &&(String, u64)| {
            let parts: Vec<&str> = name.rsplit(['-', '/', '.']).take(4).collect();
            let [_, number, _, host] = parts[..] else { return false };
            let (Ok(number), Ok(host)) = (number.parse::<u32>(), host.parse::<u32>()) else {
                return false;
            };
            *at >= end.as_secs() && number < finished[(host - self.plan.first) as usize]
        };
        let late: Vec<u64> = seen.landed.iter().filter(is_of_it).map(|(_, at)| *at).collect();
        let last = late.iter().max().copied().unwrap_or(end.as_secs());
        (late.len(), Duration::from_secs(last) - end)
    }

    /// Nothing is lost or doubled: objects by their names, and rows of some hosts.
    async fn read(&self) -> Result<(usize, usize, usize)> {
        let listed: Vec<_> = self.bucket.store.list(None).try_collect().await?;
        let found: BTreeSet<String> = listed.iter().map(|it| it.location.to_string()).collect();
        ensure!(found.len() == listed.len(), "an object is listed twice");
        let own: BTreeSet<String> = self.hosts().map(host_name).collect();
        let host_of = |name: &String| {
            let file = name.rsplit('/').next().unwrap_or_default();
            file.rsplitn(3, '-').nth(2).unwrap_or_default().to_owned()
        };
        let (described, found): (BTreeSet<_>, BTreeSet<_>) = found
            .into_iter()
            .filter(|name| own.contains(&host_of(name)))
            .partition(|name| name.starts_with("hosts/"));
        let hosts: BTreeSet<String> = described.iter().map(host_of).collect();
        ensure!(hosts == own, "{} hosts of {} say what they are", hosts.len(), own.len());
        let mut rows_read = 0;
        for (host, finished) in self.hosts().zip(self.finished.iter().map(Cell::get)) {
            let mut cookies = Vec::new();
            for number in 0..finished {
                let [connections, agent] = names(host, number);
                ensure!(found.contains(&agent), "{agent} is lost");
                ensure!(found.contains(&connections), "{connections} is lost");
                if host.is_multiple_of(self.plan.read) {
                    let got = self.bucket.store.get(&connections.into()).await?;
                    let rows = read::<Connection, _>(got.bytes().await?)?;
                    cookies.extend(rows.iter().map(|row| row.cookie));
                }
            }
            cookies.sort_unstable();
            let whole = (0..finished).flat_map(|n| (0..self.plan.rows).map(move |r| cookie(n, r)));
            let is_read = host.is_multiple_of(self.plan.read);
            ensure!(!is_read || cookies.iter().copied().eq(whole), "rows of host {host} differ");
            rows_read += cookies.len();
        }
        let expected: u32 = self.finished.iter().map(|it| 2 * it.get()).sum();
        ensure!(found.len() == expected as usize, "{} objects, not {expected}", found.len());
        Ok((found.len(), described.len(), rows_read))
    }
}

fn names(host: u32, number: u32) -> [String; 2] {
    let hour = chrono::DateTime::from_timestamp((START + PERIOD * number).as_secs() as i64, 0);
    let hour = hour.unwrap_or_default().format("date=%Y-%m-%d/hour=%H");
    let name = host_name(host);
    ["connections", "agent"]
        .map(|table| format!("{table}/{hour}/{name}-{BOOT}-{number:06}.parquet"))
}

impl Plan {
    fn end(&self) -> Duration {
        START + self.before + self.outage + self.after
    }
}

pub fn ship_all(
    plan: Plan,
    bucket: &Bucket,
    folder: &Path,
    mut ask: impl FnMut(Moment) -> Result<()>,
) -> Result<Told> {
    let began = Instant::now();
    let crowd = Rc::new(Crowd::new(plan, bucket, folder)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let trouble: Rc<Cell<Option<anyhow::Error>>> = Rc::default();
    for host in crowd.hosts() {
        fs::create_dir(crowd.spool(host))?;
        for is_agent in [true, false] {
            let (crowd, trouble) = (crowd.clone(), trouble.clone());
            local.spawn_local(async move {
                let ended =
                    if is_agent { crowd.agent(host).await } else { crowd.shipper(host).await };
                if let Err(error) = ended {
                    trouble.set(Some(error.context(host_name(host))));
                }
                crowd.clock.rests();
            });
        }
    }
    let pass = |until| {
        local.block_on(&runtime, crowd.clock.pass_until(until));
        trouble.take().map_or(Ok(()), Err)
    };
    let (down, up, end) = (START + plan.before, START + plan.before + plan.outage, plan.end());
    // So that who wakes up in that moment is part of what follows.
    pass(down - INSTANT)?;
    ask(Moment::Down)?;
    pass(up - INSTANT)?;
    ask(Moment::Up)?;
    let finished: Vec<u32> = crowd.finished.iter().map(Cell::get).collect();
    pass(end + plan.spread.max(LAST))?;
    ask(Moment::Read)?;
    let (objects, described, rows_read) = runtime.block_on(crowd.read())?;
    let (backlog, landed_after) = crowd.backlog(&finished, up);
    if backlog == 0 {
        bail!("nothing waited at the end of the outage");
    }
    Ok(Told {
        before: crowd.part(START + PERIOD, down),
        outage: crowd.part(down, up),
        back: crowd.part(up, up + plan.spread),
        after: crowd.part(up + plan.spread, end),
        backlog,
        landed_after,
        objects,
        described,
        rows_read,
        real: began.elapsed(),
    })
}

//! The kernel's side: the programs of `bpf/agent.bpf.c`, loaded and attached by level, their
//! ring, their orders and their counts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytemuck::bytes_of;
use libbpf_rs::{Link, MapCore, MapFlags, Object, RingBuffer, RingBufferBuilder};
use transom_machine::objects::{self, Detaching, map, program};
use transom_machine::{ProgramStats, iterator, load_sharing, namespace, program_stats};

use crate::level2::Chooser;
use crate::raw::{Counts, Orders, RawChoice, RawRow, SNAPSHOT};
use crate::watch::{Found, Watch};

const LEVEL_0: &str = "state_changed";
const LEVEL_1: [&str; 4] = ["state_decided", "retransmitted", "reset_received", "reset_sent"];

/// Slots of `agent_counts` for what there is now; the others only grow.
const TRACKED: u32 = 0;
const RECENT: u32 = 4;
const CHOSEN: u32 = 5;
const OF_NOW: [u32; 3] = [TRACKED, RECENT, CHOSEN];

/// How long the list of network namespaces is believed.
pub const NAMESPACES_FOR: Duration = Duration::from_secs(30);

pub struct Kernel {
    ring: RingBuffer<'static>,
    arrived: Rc<RefCell<Vec<u8>>>,
    snapshots: Rc<RefCell<Vec<RawRow>>>,
    look: Link,
    recount: Link,
    level_0: Option<Link>,
    level_1: Vec<Link>,
    detaching: Detaching,
    object: Object,
    orders: Orders,
    choice: RawChoice,
    namespaces: (Instant, HashMap<u64, PathBuf>),
    here: u64,
}

impl Kernel {
    /// Loads the programs, attaches level 0, and takes in the connections that exist.
    ///
    /// # Errors
    /// A privilege or a feature of the kernel is missing.
    pub fn open(interim: Duration, most: u32, causes: bool) -> Result<Kernel> {
        let (object, causes) = load(causes)?;
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let snapshots = Rc::new(RefCell::new(Vec::new()));
        let (sink, aside) = (arrived.clone(), snapshots.clone());
        let rows = map(&object, "rows")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&rows, move |bytes: &[u8]| {
            if bytes.first() == Some(&SNAPSHOT) {
                aside.borrow_mut().extend(bytemuck::try_pod_read_unaligned::<RawRow>(bytes));
            } else {
                sink.borrow_mut().extend_from_slice(bytes);
            }
            0
        })?;
        let ring = builder.build().context("mapping the agent's ring")?;
        let look = program(&object, "look")?.attach().context("attaching `look`")?;
        let recount = program(&object, "recount")?
            .attach_iter(map(&object, "tracked")?.as_fd())
            .context("attaching `recount`")?;
        let orders = Orders {
            interim_ns: interim.as_nanos() as u64,
            most,
            causes: u32::from(causes),
            generation: 0,
            recount: 0,
            roll_call: 0,
            reserved: 0,
        };
        order(&object, orders)?;
        let level_1 = if causes { attach(&object, &LEVEL_1)? } else { Vec::new() };
        let level_0 = program(&object, LEVEL_0)?.attach().context("attaching level 0")?;
        let long_ago = Instant::now() - 2 * NAMESPACES_FOR;
        let mut kernel = Kernel {
            ring,
            arrived,
            snapshots,
            look,
            recount,
            level_0: Some(level_0),
            level_1,
            detaching: Detaching::default(),
            object,
            orders,
            choice: RawChoice::default(),
            namespaces: (long_ago, HashMap::new()),
            here: namespace::own().map_or(0, u64::from),
        };
        kernel.find_programs()?;
        kernel.look(None)?;
        Ok(kernel)
    }

    fn find_programs(&self) -> Result<()> {
        let link = program(&self.object, "earlier_programs")?.attach()?;
        iterator::run(&link, None).map(drop).context("looking for programs that hold sockets")
    }

    /// What is still counted and is not found has ended while a program was skipped. It is found in
    /// whatever namespace it is, also in one that nothing can enter.
    fn count_anew(&mut self, found: Option<&mut Found>) -> Result<()> {
        let recount = map(&self.object, "agent_recount")?;
        for slot in OF_NOW {
            recount.update(&slot.to_ne_bytes(), &0u64.to_ne_bytes(), MapFlags::ANY)?;
        }
        self.orders.recount += 1;
        self.orders.roll_call = u32::from(found.is_some());
        order(&self.object, self.orders)?;
        let mut said = iterator::run(&self.recount, None)?;
        if let Some(found) = found {
            // While the kernel's buffer was read, a socket that ended may have moved another one before
            // the place where the walk went on. Each is said once.
            while !said.is_empty() {
                found.cookies.extend(cookies(&said));
                said = iterator::run(&self.recount, None)?;
            }
        }
        let counts = map(&self.object, "agent_counts")?;
        for slot in OF_NOW {
            let now = self.number("agent_recount", slot);
            counts.update(&slot.to_ne_bytes(), &now.to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }

    /// Connections that were to be chosen and that the look did not come to have ended.
    fn forget_wanted(&self) -> Result<()> {
        let wanted = map(&self.object, "wanted")?;
        let left: Vec<Vec<u8>> = wanted.keys().collect();
        left.iter().for_each(|key| _ = wanted.delete(key));
        Ok(())
    }

    /// A slot of one of the maps of counts; one of what there is now may be below 0 for a while.
    fn number(&self, counts: &str, slot: u32) -> i64 {
        let Ok(map) = map(&self.object, counts) else { return 0 };
        let value = map.lookup(&slot.to_ne_bytes(), MapFlags::ANY).ok().flatten();
        value.and_then(|bytes| Some(i64::from_ne_bytes(bytes.try_into().ok()?))).unwrap_or(0)
    }
}

impl Watch for Kernel {
    fn has_level_1(&self) -> bool {
        !self.level_1.is_empty()
    }

    fn set_level_1(&mut self, on: bool) -> Result<()> {
        if on != self.level_1.is_empty() {
            return Ok(());
        }
        self.orders.causes = u32::from(on);
        self.orders.generation += 1;
        order(&self.object, self.orders)?;
        if on {
            self.detaching.wait();
            self.level_1 = attach(&self.object, &LEVEL_1)?;
        } else {
            self.detaching = Detaching::begin(self.level_1.drain(..));
        }
        Ok(())
    }

    fn set_most(&mut self, most: u32) -> Result<()> {
        if self.orders.most != most {
            let orders = Orders { most, ..self.orders };
            order(&self.object, orders)?;
            self.orders = orders;
        }
        Ok(())
    }

    fn chooser(&self) -> Option<Chooser> {
        self.has_level_1().then(|| Chooser::of(&self.object).ok())?
    }

    fn set_choice(&mut self, choice: &RawChoice) -> Result<()> {
        let was_on = self.choice.on;
        self.choice = *choice;
        map(&self.object, "agent_choice")?.update(
            &0u32.to_ne_bytes(),
            bytes_of(choice),
            MapFlags::ANY,
        )?;
        if was_on != choice.on {
            self.orders.generation += 1;
            order(&self.object, self.orders)?;
        }
        Ok(())
    }

    fn choose(&mut self, cookie: u64) -> Result<()> {
        let wanted = map(&self.object, "wanted")?;
        Ok(wanted.update(&cookie.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)?)
    }

    fn snapshots(&mut self) -> Vec<RawRow> {
        std::mem::take(&mut *self.snapshots.borrow_mut())
    }

    fn wait(&mut self, at_most: Duration) -> Result<Vec<u8>> {
        match self.ring.poll(at_most) {
            Ok(()) => {}
            Err(error) if error.kind() == libbpf_rs::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("reading the agent's ring"),
        }
        // What did not wake us is there all the same.
        let _ = self.ring.consume();
        Ok(std::mem::take(&mut *self.arrived.borrow_mut()))
    }

    fn reuse(&mut self, mut bytes: Vec<u8>) {
        // A quarter of the ring wakes us, and a vector doubles.
        const KEPT: usize = 2 << 20;
        bytes.clear();
        if bytes.capacity() <= KEPT && self.arrived.borrow().is_empty() {
            *self.arrived.borrow_mut() = bytes;
        }
    }

    fn look(&mut self, found: Option<&mut Found>) -> Result<()> {
        if self.namespaces.0.elapsed() > NAMESPACES_FOR {
            self.namespaces = (Instant::now(), namespace::all());
        }
        let mut is_old = false;
        for (inode, path) in &self.namespaces.1 {
            let elsewhere = (*inode != self.here).then_some(path.as_path());
            match iterator::run(&self.look, elsewhere) {
                Ok(_) => {}
                // It may go while we look, and some must not be entered.
                Err(_) if elsewhere.is_some() => is_old |= !path.exists(),
                Err(error) => return Err(error),
            }
        }
        if is_old {
            // It has gone, or the process by which it was found: the next look knows which.
            self.namespaces.0 -= 2 * NAMESPACES_FOR;
        }
        self.forget_wanted()?;
        self.count_anew(found)
    }

    fn counts(&self) -> Counts {
        let slot = |slot: u32| self.number("agent_counts", slot).max(0) as u64;
        let stats = program_stats(&self.object);
        let skipped = |names: &[&str]| -> u64 {
            let named = stats.iter().filter(|program| names.contains(&program.name.as_str()));
            named.map(|program| program.recursion_misses).sum()
        };
        Counts {
            tracked: slot(TRACKED),
            untracked: slot(1),
            lost_rows: slot(2) + skipped(&[LEVEL_0]),
            lost_decisions: slot(3) + skipped(&LEVEL_1),
            recorded: slot(CHOSEN),
            chosen: slot(6),
            not_chosen: slot(7),
        }
    }

    fn stats(&self) -> Vec<ProgramStats> {
        program_stats(&self.object)
    }

    fn last(&mut self) -> Result<Vec<u8>> {
        self.level_1.clear();
        self.level_0 = None;
        self.wait(Duration::ZERO)
    }
}

/// What a recount with a roll call said.
fn cookies(said: &[u8]) -> impl Iterator<Item = u64> {
    said.chunks_exact(size_of::<u64>()).map(bytemuck::pod_read_unaligned)
}

/// The programs, and whether those of level 1 are among them: older kernels lack a tracepoint.
fn load(level_1: bool) -> Result<(Object, bool)> {
    let of_level_1 = if level_1 { load_sharing(objects::agent::open()?).ok() } else { None };
    if let Some(object) = of_level_1 {
        return Ok((object, true));
    }
    let mut open = objects::agent::open()?;
    for mut program in open.progs_mut() {
        if LEVEL_1.iter().any(|name| program.name() == *name) {
            program.set_autoload(false);
        }
    }
    let object = load_sharing(open)
        .context("the kernel did not accept the agent's programs: see `transom check`")?;
    Ok((object, false))
}

fn attach(object: &Object, names: &[&str]) -> Result<Vec<Link>> {
    let each = names
        .iter()
        .map(|name| program(object, name)?.attach().with_context(|| format!("attaching `{name}`")));
    each.collect()
}

fn order(object: &Object, orders: Orders) -> Result<()> {
    let map = map(object, "agent_orders")?;
    Ok(map.update(&0u32.to_ne_bytes(), bytes_of(&orders), MapFlags::ANY)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::net::{TcpListener, TcpStream};
    use transom_testbed::{Namespace, needs_root, wait_for};

    /// More than the kernel's buffer has room for.
    const MANY: usize = 5000;

    #[test]
    fn a_look_says_whom_it_found_when_it_is_asked_and_once_each() {
        needs_root!();
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
        let mut kernel = Kernel::open(Duration::from_secs(300), 1 << 16, false).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (here, listener.accept().unwrap().0)
        };
        let pairs: Vec<_> = (0..MANY / 2).map(|_| pair()).collect();
        let cookies: Vec<u64> = pairs
            .iter()
            .flat_map(|(here, there)| [here, there])
            .map(|socket| rustix::net::sockopt::socket_cookie(socket).unwrap())
            .collect();
        let mut found = Found::default();
        kernel.look(Some(&mut found)).unwrap();
        let times = |found: &Found| -> Vec<usize> {
            let mut times: HashMap<u64, usize> = HashMap::new();
            found.cookies.iter().for_each(|cookie| *times.entry(*cookie).or_default() += 1);
            cookies.iter().map(|cookie| times.get(cookie).copied().unwrap_or(0)).collect()
        };
        assert_eq!(times(&found), [1; MANY]);
        drop(pairs);
        wait_for("their ends", || {
            let mut found = Found::default();
            kernel.look(Some(&mut found)).unwrap();
            times(&found) == [0; MANY]
        });
    }

    /// Sockets keep a namespace that nothing lives in and nobody can enter.
    #[test]
    fn whoever_is_still_open_is_found_where_no_look_comes_to() {
        needs_root!();
        let mut kernel = Kernel::open(Duration::from_secs(300), 1 << 16, false).unwrap();
        let host = Namespace::new("left");
        let pair = host.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            [here, listener.accept().unwrap().0]
        });
        drop(host);
        let cookies = pair.each_ref().map(|it| rustix::net::sockopt::socket_cookie(it).unwrap());
        let mut are_found = || {
            let mut found = Found::default();
            kernel.look(Some(&mut found)).unwrap();
            cookies.map(|cookie| found.cookies.contains(&cookie))
        };
        assert_eq!(are_found(), [true; 2]);
        drop(pair);
        wait_for("their ends", || are_found() == [false; 2]);
    }
}

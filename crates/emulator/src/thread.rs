//! The one thread that carries real packets through the emulated network.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, mpsc};

use anyhow::{Context, Result};
use rustix::event::epoll;
use rustix::io::Errno;

use crate::clock::{Alarm, Clock, Lead, become_realtime, boottime, thread_cpu};
use crate::gateway::Gateway;
use crate::lateness::Histogram;
use crate::log::{Log, PortLog};
use crate::network::{Delivery, Network};
use crate::packet::{Frame, Nanos, mark};
use crate::plan::Plan;
use crate::port::{self, Given, Taken};

/// Frames taken from one TAP before the others get their turn.
const MOST_AT_ONCE: usize = 64;
/// The largest frame a TAP gives: 65535 bytes and an Ethernet header, with room for a VLAN tag.
const LARGEST_FRAME: usize = 65_535 + 18;
/// Memory of frames kept for the next ones.
const MOST_SPARE: usize = 1024;
/// How often what is shown is brought up to date, ns.
const SHOW_EVERY: Nanos = 100_000_000;

const STOP: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
const BEGIN: u64 = u64::MAX - 2;

/// Wishes that everything begin anew: the bell, and whom to tell when it has.
pub(crate) struct Wishes {
    pub bell: Arc<OwnedFd>,
    pub waiting: mpsc::Receiver<mpsc::Sender<()>>,
}

pub(crate) struct Carrier {
    plan: Plan,
    network: Network,
    /// None once it has vanished.
    taps: Vec<Option<OwnedFd>>,
    ports: Vec<PortLog>,
    gateway: Gateway,
    epoll: OwnedFd,
    alarm: Alarm,
    clock: Clock,
    lead: Lead,
    started_boottime: Nanos,
    /// What the thread had used of a CPU by then.
    cpu_before: Nanos,
    realtime: bool,
    lateness: Histogram,
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
    deliveries: Vec<Delivery>,
    shown: Arc<Mutex<Log>>,
    show_at: Nanos,
    wishes: Wishes,
    _stop: Arc<OwnedFd>,
}

impl Carrier {
    pub fn new(
        plan: Plan,
        taps: Vec<OwnedFd>,
        stop: Arc<OwnedFd>,
        wishes: Wishes,
        shown: Arc<Mutex<Log>>,
    ) -> Result<Carrier> {
        let clock = Clock::start();
        let alarm = Alarm::new(clock)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("making an epoll")?;
        let watch = |fd: &dyn std::os::fd::AsFd, data: u64| {
            epoll::add(&epoll, fd.as_fd(), epoll::EventData::new_u64(data), epoll::EventFlags::IN)
                .context("watching a descriptor")
        };
        watch(&alarm, ALARM)?;
        watch(&*stop, STOP)?;
        watch(&*wishes.bell, BEGIN)?;
        for (index, tap) in taps.iter().enumerate() {
            rustix::io::ioctl_fionbio(tap, true).context("making a TAP non-blocking")?;
            watch(tap, index as u64)?;
        }
        let named = |name: &String| PortLog { name: name.clone(), ..PortLog::default() };
        Ok(Carrier {
            network: Network::new(&plan)?,
            taps: taps.into_iter().map(Some).collect(),
            ports: plan.ports.iter().map(|port| named(&port.name)).collect(),
            gateway: Gateway::new(&plan),
            epoll,
            alarm,
            clock,
            lead: Lead::new(Nanos::from(plan.spin_us) * 1000),
            started_boottime: boottime(),
            cpu_before: 0,
            realtime: become_realtime(),
            lateness: Histogram::new(),
            buffer: vec![0; LARGEST_FRAME],
            spare: Vec::new(),
            deliveries: Vec::new(),
            shown,
            show_at: 0,
            wishes,
            _stop: stop,
            plan,
        })
    }

    pub fn run(mut self) -> Result<Log> {
        loop {
            let now = self.clock.now();
            self.pass_time(now);
            if now >= self.show_at {
                self.show(now);
            }
            if !self.sleep_and_read()? {
                break;
            }
        }
        let now = self.clock.now();
        self.pass_time(now);
        let mut log = self.log(self.clock.now());
        log.queues = self.network.queues();
        Ok(log)
    }

    /// Lets logical time reach `now`, and hands over what has reached its host.
    fn pass_time(&mut self, now: Nanos) {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.network.advance(now, &mut deliveries);
        for delivery in deliveries.drain(..) {
            self.hand_over(delivery);
        }
        self.deliveries = deliveries;
    }

    /// Waits until a packet comes or is due, and takes all that came; false: told to stop.
    fn sleep_and_read(&mut self) -> Result<bool> {
        let due = self.network.next_delivery().unwrap_or(Nanos::MAX);
        let wake = self.lead.before(due).min(self.show_at);
        let no_time = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let now = self.clock.now();
        // While watching the clock, and when already late, look without sleeping.
        let timeout = (wake <= now).then_some(no_time);
        if timeout.is_none() {
            self.alarm.set(wake)?;
        } else if due > now {
            self.lead.no_time_to_sleep(due);
        }
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); 32];
        let (ready, _) = match epoll::wait(&self.epoll, &mut room[..], timeout.as_ref()) {
            Ok(ready) => ready,
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error).context("waiting for packets"),
        };
        // What the packets meet inside is settled up to the moment they come in.
        let now = self.clock.now();
        if !ready.is_empty() {
            self.pass_time(now);
        }
        for event in ready.iter() {
            match event.data.u64() {
                STOP => return Ok(false),
                // The times and events read so far are of the time before.
                BEGIN => return self.begin_anew().map(|()| true),
                // It stays readable until it is set anew; it has woken the thread only once.
                ALARM if timeout.is_none() => self.lead.woke(now.saturating_sub(wake), due),
                ALARM => {}
                port => self.read(port as usize, now),
            }
        }
        Ok(true)
    }

    /// Lets time begin at 0 again, and with it all that depends on it: links that change, chance,
    /// queues, and what is counted. What is inside is dropped.
    fn begin_anew(&mut self) -> Result<()> {
        let mut rung = [0; 8];
        rustix::io::read(&*self.wishes.bell, &mut rung).context("reading an event descriptor")?;
        self.network = Network::new(&self.plan)?;
        self.clock = Clock::start();
        self.alarm.restart(self.clock);
        self.started_boottime = boottime();
        self.cpu_before = thread_cpu();
        self.lateness = Histogram::new();
        for log in &mut self.ports {
            let (name, vanished) = (std::mem::take(&mut log.name), log.vanished);
            *log = PortLog { name, vanished, ..PortLog::default() };
        }
        self.show_at = 0;
        for whom in self.wishes.waiting.try_iter() {
            // Who does not wait any more needs no answer.
            let _ = whom.send(());
        }
        Ok(())
    }

    fn read(&mut self, port: usize, now: Nanos) {
        for _ in 0..MOST_AT_ONCE {
            let Some(tap) = &self.taps[port] else { return };
            match port::take(tap, &mut self.buffer) {
                Taken::Nothing => return,
                Taken::Vanished => return self.forget(port),
                Taken::Frame(length) => {
                    self.ports[port].packets_in += 1;
                    self.ports[port].bytes_in += length as u64;
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    bytes.clear();
                    self.gateway.put_header(port, &self.buffer[..length], &mut bytes);
                    bytes.extend_from_slice(&self.buffer[..length]);
                    self.network.arrive(now, port, Frame::new(bytes));
                }
            }
        }
    }

    fn hand_over(&mut self, delivery: Delivery) {
        let Delivery { at, port, frame } = delivery;
        // Before writing: the host's own work on the packet is not our lateness.
        self.lateness.add(self.clock.now().saturating_sub(at));
        let log = &mut self.ports[port];
        let marked = frame.is_marked().then(|| {
            let mut bytes = frame.bytes().to_vec();
            mark(&mut bytes);
            bytes
        });
        let bytes = marked.as_deref().unwrap_or(frame.bytes());
        let bytes = self.gateway.without_header(port, bytes);
        match self.taps[port].as_ref().map(|tap| port::give(tap, bytes)) {
            Some(Given::Taken) => {
                log.packets_out += 1;
                log.bytes_out += bytes.len() as u64;
            }
            Some(Given::Refused) => log.refused += 1,
            Some(Given::Vanished) => {
                log.refused += 1;
                self.forget(port);
            }
            None => log.refused += 1,
        }
        if self.spare.len() < MOST_SPARE
            && let Some(bytes) = frame.into_bytes()
        {
            self.spare.push(bytes);
        }
    }

    /// The host's interface went away, perhaps with its namespace: the others go on.
    fn forget(&mut self, port: usize) {
        self.ports[port].vanished = true;
        if let Some(tap) = self.taps[port].take() {
            // Closing it, which happens next, takes it off the list in any case.
            let _ = epoll::delete(&self.epoll, tap);
        }
    }

    /// Never waits for whoever looks.
    fn show(&mut self, now: Nanos) {
        self.show_at = now + SHOW_EVERY;
        let log = self.log(now);
        if let Ok(mut shown) = self.shown.try_lock() {
            *shown = log;
        }
    }

    fn log(&self, now: Nanos) -> Log {
        Log {
            seed: self.plan.seed,
            started_boottime_ns: self.started_boottime,
            wall_s: now as f64 / 1e9,
            cpu_s: thread_cpu().saturating_sub(self.cpu_before) as f64 / 1e9,
            realtime: self.realtime,
            lateness: self.lateness.summary(),
            up: self.network.up(),
            down: self.network.down(),
            stages: self.network.stages(),
            totals: self.network.totals(),
            ports: self.ports.clone(),
            air: self.network.air(),
            cellular: self.network.cellular(),
            queues: Vec::new(),
        }
    }
}

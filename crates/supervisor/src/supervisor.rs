//! The table of the program's sockets, and what happens when one of them changes.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Options;
use crate::buffers::Buffers;
use crate::calls::requests::SIOCOUTQ;
use crate::closings::Closings;
use crate::errno::{Errno, Result};
use crate::loopback::Loopback;
use crate::notify::Listener;
use crate::pair::{self, Meeting};
use crate::processes::Processes;
use crate::socket::{Failure, Presence, Request, Socket, State};
use crate::stack::{SocketId, Stack, Undelivered};
use crate::stream::Pumped;
use crate::system::{self, Epoll};
use crate::trace::Trace;
use crate::unheard::Unheard;
use crate::watch::Watch;

/// Moved at once between a pair and the stack.
const SCRATCH: usize = 256 * 1024;

/// Edge-triggered, so that a direction that waits for the other side costs nothing.
const PAIR_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const ROOM: u32 = libc::EPOLLOUT as u32;

/// Data of our epoll set above this are no keys of sockets, which the kernel counts from 1.
pub const MOST_KEYS: u64 = u64::MAX - 16;

/// Descriptors that no socket gets, for copies of the program's, of which each call needs one.
const SPARE: usize = 24;

/// Nobody tells us that a thread waits no more for what another one has closed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub struct Supervisor<'a> {
    pub stack: &'a mut dyn Stack,
    pub options: &'a Options,
    pub listener: Listener,
    pub epoll: Epoll,
    pub processes: Processes,
    pub meeting: Meeting,
    pub loopback: Loopback,
    /// By the cookie of the program's end of the pair, which all copies of it share.
    pub sockets: HashMap<u64, Socket>,
    by_id: HashMap<SocketId, u64>,
    /// Keys of descriptors that were replaced, and the keys of those in their place.
    pub replaced: HashMap<u64, u64>,
    /// How many of them are datagram sockets.
    pub datagrams: usize,
    /// Which socket the call of a thread waits for, and until when.
    pub waiting: HashMap<i32, (u64, Option<Instant>)>,
    /// Answers that a signal kept from the caller, who asks again.
    pub unheard: Unheard,
    pub scratch: Vec<u8>,
    /// Sockets that had more to move than their share.
    pub again: Vec<u64>,
    /// When the program closes its ends of datagram sockets.
    pub closings: Closings,
    /// Ends whose pair cannot say that they are closed.
    pub watch: Watch,
    /// Ends that have no pair yet.
    pub unjoined: Watch,
    pub trace: Trace,
    /// Programs of another ABI that were told that they get no sockets.
    pub refused: HashSet<PathBuf>,
    /// Listeners and attempts to connect whose end the program has closed, while a thread of it waits.
    pub closed: Vec<u64>,
}

impl<'a> Supervisor<'a> {
    pub fn new(stack: &'a mut dyn Stack, options: &'a Options, listener: Listener) -> Result<Self> {
        Ok(Self {
            stack,
            options,
            listener,
            epoll: Epoll::new()?,
            processes: Processes::default(),
            meeting: Meeting::open()?,
            loopback: Loopback::default(),
            sockets: HashMap::new(),
            by_id: HashMap::new(),
            replaced: HashMap::new(),
            datagrams: 0,
            waiting: HashMap::new(),
            unheard: Unheard::default(),
            scratch: vec![0; SCRATCH],
            again: Vec::new(),
            closings: Closings::new()?,
            watch: Watch::new()?,
            unjoined: Watch::new()?,
            trace: Trace::new(options.trace),
            refused: HashSet::new(),
            closed: Vec::new(),
        })
    }

    /// Enters a socket of the stack with the program's end, and ours if there is a pair. Gives the
    /// key.
    pub fn enter(
        &mut self,
        id: SocketId,
        (domain, kind, protocol): (i32, i32, i32),
        theirs: BorrowedFd,
        ours: Option<OwnedFd>,
        state: State,
    ) -> Result<u64> {
        // The kernel gives the lowest number that is free: there are no more than these.
        if theirs.as_raw_fd() as usize + SPARE > system::most_descriptors() {
            return Err(Errno(libc::EMFILE));
        }
        let key = system::cookie(theirs)?;
        let inode = system::inode(theirs)?;
        match &ours {
            Some(ours) if kind == libc::SOCK_STREAM => {
                self.epoll.add(ours.as_raw_fd(), PAIR_EVENTS | ROOM, key)?;
            }
            Some(ours) => self.epoll.add(ours.as_raw_fd(), PAIR_EVENTS, key)?,
            None => {
                self.sweep_unjoined(false);
                self.unjoined.add(theirs, key);
            }
        }
        let socket = Socket {
            id,
            domain,
            kind,
            protocol,
            accepted: false,
            ours,
            inode,
            filled: 0,
            narrow: false,
            buffers: Buffers::default(),
            holder: (0, -1),
            waiting: Vec::new(),
            presence: Presence::Held,
            watches_room: true,
            fast_open: false,
            abort: false,
            closing: None,
            former: Vec::new(),
            state,
        };
        self.datagrams += usize::from(!socket.is_stream());
        let stream = socket.is_stream();
        self.sockets.insert(key, socket);
        self.by_id.insert(id, key);
        if !stream {
            self.see_closing(key, theirs);
        }
        Ok(key)
    }

    /// UDP sockets have no hang-up that would say that the program has closed its end.
    fn see_closing(&mut self, key: u64, theirs: BorrowedFd) {
        let seen = self.closings.add(theirs, key).ok();
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.closing = seen;
        }
        if seen.is_none() {
            if self.watch.is_crowded() {
                self.sweep();
            }
            self.watch(key, theirs);
        }
    }

    /// Gives a fresh stream's end its peer. `full`: nothing can be written to it for now.
    pub fn join(&mut self, key: u64, theirs: BorrowedFd, full: bool) -> Result<()> {
        let socket = self.sockets.get_mut(&key).ok_or(Errno(libc::EBADF))?;
        let ours = self.meeting.join(theirs)?;
        self.unjoined.remove(theirs);
        if full {
            socket.filled = pair::fill(theirs)?;
            socket.narrow = true;
        }
        self.epoll.add(ours.as_raw_fd(), PAIR_EVENTS | ROOM, key)?;
        socket.watches_room = true;
        socket.ours = Some(ours);
        Ok(())
    }

    /// Gives the pair of a connection the buffers that go with those of the stack's socket. What was
    /// filled stays full.
    pub fn fit(&mut self, key: u64, theirs: BorrowedFd) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let (State::Connecting(_) | State::Connected(_)) = socket.state else { return };
        let Some(ours) = &socket.ours else { return };
        socket.buffers = Buffers::of(self.stack, socket.id);
        pair::resize(ours.as_fd(), socket.buffers.inbound());
        if !socket.narrow {
            pair::resize(theirs, socket.buffers.outbound());
        }
    }

    /// Closes the stack's socket and forgets it.
    pub fn remove(&mut self, key: u64) {
        let Some(socket) = self.take_out(key) else { return };
        if let State::Listening(queue) = &socket.state {
            for (id, _) in &queue.taken {
                self.stack.close(*id);
            }
        }
        self.stack.close(socket.id);
        for waiting in socket.waiting {
            self.waiting.remove(&waiting.call.tid);
            let _ = self.listener.answer(waiting.call.id, Err(Errno(libc::EBADF)));
        }
    }

    /// Closes it as whoever has bytes unread does: with RST (RFC 2525, section 2.17).
    fn reset(&mut self, key: u64) {
        if let Some(socket) = self.sockets.get(&key) {
            let now = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
            let _ = self.stack.setsockopt(socket.id, libc::SOL_SOCKET, libc::SO_LINGER, &now);
        }
        self.remove(key);
    }

    /// Ends all that the program still has, and lets the peers know.
    pub fn abandon(&mut self) {
        for key in self.sockets.keys().copied().collect::<Vec<_>>() {
            self.reset(key);
        }
    }

    /// Takes the socket out without touching the stack's.
    pub fn take_out(&mut self, key: u64) -> Option<Socket> {
        let socket = self.sockets.remove(&key)?;
        self.by_id.remove(&socket.id);
        for former in &socket.former {
            self.replaced.remove(former);
        }
        self.datagrams -= usize::from(!socket.is_stream());
        if let Some(closing) = socket.closing {
            self.closings.forget(closing);
        }
        Some(socket)
    }

    /// The same socket of the stack under another key, that of another end of the program's.
    pub fn rename(&mut self, old: u64, theirs: BorrowedFd) -> Result<u64> {
        let (key, inode) = (system::cookie(theirs)?, system::inode(theirs)?);
        let mut socket = self.take_out(old).ok_or(Errno(libc::EBADF))?;
        self.unjoined.add(theirs, key);
        for waiting in &socket.waiting {
            self.waiting.insert(waiting.call.tid, (key, waiting.until));
        }
        socket.former.push(old);
        socket.accepted = false;
        for former in &socket.former {
            self.replaced.insert(*former, key);
        }
        self.datagrams += usize::from(!socket.is_stream());
        self.by_id.insert(socket.id, key);
        socket.inode = inode;
        socket.presence = Presence::Held;
        socket.narrow = false;
        socket.filled = 0;
        socket.ours = None;
        socket.state = State::Fresh;
        self.sockets.insert(key, socket);
        Ok(key)
    }

    /// Something happened at our end of a pair.
    pub fn pair_changed(&mut self, key: u64, events: u32) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if events & libc::EPOLLHUP as u32 != 0 && socket.presence == Presence::Held {
            socket.presence = Presence::Closed;
        }
        self.pump(key);
        self.settle(key);
    }

    /// The program has closed its ends of datagram sockets.
    pub fn ends_closed(&mut self) {
        for key in self.closings.take() {
            if let Some(socket) = self.sockets.get_mut(&key) {
                socket.presence = Presence::Closed;
            }
            self.pair_changed(key, 0);
        }
    }

    /// The stack has named this socket.
    pub fn stack_changed(&mut self, id: SocketId) {
        let Some(&key) = self.by_id.get(&id) else { return };
        let Some(socket) = self.sockets.get(&key) else { return };
        match &socket.state {
            State::Fresh | State::Ended(_) => self.retry(key),
            State::Connecting(_) => self.connection_decided(key),
            State::Listening(_) => self.connections_wait(key),
            State::Connected(_) | State::Datagram(_) => {
                self.pump(key);
                self.settle(key);
            }
        }
    }

    /// Moves bytes both ways as far as both sides let.
    pub fn pump(&mut self, key: u64) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let Some(ours) = &socket.ours else { return };
        if socket.abort && socket.presence != Presence::Watched && pair::hung_up(ours.as_fd()) {
            // What is unsent goes with it, and the peer gets RST, no FIN before.
            return self.remove(key);
        }
        match &mut socket.state {
            State::Connected(stream) => {
                let (ours, most) = (ours.as_fd(), socket.buffers);
                match stream.pump(self.stack, socket.id, ours, most, &mut self.scratch) {
                    Ok(Pumped::Idle) => {}
                    Ok(Pumped::More) => self.again.push(key),
                    Ok(Pumped::ClosedUnread) => return self.reset(key),
                    Err(errno) => return self.fail(key, errno),
                }
                // Each read of the program makes room, and would wake us for nothing.
                let waits = stream.waits_for_program();
                if waits != socket.watches_room {
                    let events = if waits { PAIR_EVENTS | ROOM } else { PAIR_EVENTS };
                    let changed = self.epoll.change(ours.as_raw_fd(), events, key);
                    socket.watches_room = changed.map_or(socket.watches_room, |()| waits);
                }
            }
            State::Datagram(datagram) => {
                let (id, ours) = (socket.id, ours.as_fd());
                let sent = datagram.pump_out(self.stack, id, ours, &mut self.scratch);
                let received = datagram.pump_in(self.stack, id, ours, &mut self.scratch);
                if sent == Pumped::More || received == Pumped::More {
                    self.again.push(key);
                }
                if datagram.failure.is_some() {
                    self.show_failure(key);
                }
            }
            _ => return,
        }
        self.retry(key);
    }

    /// An error of the network becomes one of the program's end.
    fn show_failure(&mut self, key: u64) {
        let Some(theirs) = self.program_end(key) else { return };
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if let (State::Datagram(datagram), Some(ours)) = (&mut socket.state, &socket.ours) {
            datagram.shown = datagram.failure.take();
            let _ = datagram.wire.refuse(ours.as_fd(), theirs.as_fd());
        }
    }

    /// Once the program has closed its end and all is delivered, the socket goes.
    fn settle(&mut self, key: u64) {
        let Some(socket) = self.sockets.get(&key) else { return };
        let closed = match socket.presence {
            Presence::Held | Presence::Lost => false,
            Presence::Closed => true,
            Presence::Watched => {
                let hung_up = socket.ours.as_ref().is_some_and(|ours| pair::hung_up(ours.as_fd()));
                hung_up && !self.watch.alive().contains(&key)
            }
        };
        if !closed {
            return;
        }
        let delivered = match &socket.state {
            State::Connected(stream) => stream.delivered() || socket.abort,
            State::Datagram(datagram) => !datagram.has_outbound(),
            _ => true,
        };
        if !delivered {
            return;
        }
        if !self.is_awaited(key) {
            self.remove(key);
        } else if !self.closed.contains(&key) {
            self.closed.push(key);
        }
    }

    /// Whether a thread still waits for a listener or an attempt to connect: for it, the kernel keeps
    /// what another thread has closed.
    fn is_awaited(&self, key: u64) -> bool {
        let Some(socket) = self.sockets.get(&key) else { return false };
        matches!(socket.state, State::Listening(_) | State::Connecting(_))
            && socket.waiting.iter().any(|waiting| self.listener.waits(waiting.call.id))
    }

    /// Forgets what was closed and nobody waits for any more.
    fn forget_closed(&mut self) {
        for key in std::mem::take(&mut self.closed) {
            self.settle(key);
        }
    }

    /// The connection is broken: the program's end gets `ECONNRESET`, `SO_ERROR` the true error. If
    /// the peer had ended before, a read finds only that, as on TCP.
    fn fail(&mut self, key: u64, errno: Errno) {
        let theirs = self.program_end(key);
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        self.trace.failed(socket.holder, errno);
        if socket.is_closed() {
            return self.remove(key);
        }
        let ended = matches!(&socket.state, State::Connected(stream) if stream.end_passed());
        let theirs = theirs.as_ref().map(|theirs| theirs.as_fd());
        // A pair whose end is closed with bytes unread is reset; without, it has ended.
        let failure = match theirs {
            Some(theirs) if !ended && system::send(theirs, &[0], 0).is_ok() => {
                Failure::Shown(errno)
            }
            _ => Failure::Hidden(errno),
        };
        self.bury(key, theirs, failure);
    }

    /// Closes our end; what is left answers `SO_ERROR` until the program has closed its own.
    pub fn bury(&mut self, key: u64, theirs: Option<BorrowedFd>, failure: Failure) {
        if self.watch.is_crowded() {
            self.sweep();
        }
        if let Some(theirs) = theirs {
            self.watch(key, theirs);
        }
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if socket.is_closed() {
            return self.remove(key);
        }
        if socket.presence == Presence::Held {
            socket.presence = Presence::Lost;
            self.watch.miss();
        }
        socket.state = State::Ended(failure);
        socket.ours = None;
        self.retry(key);
    }

    /// From now on a hang-up of the pair does not say that the program has closed its end.
    pub fn watch(&mut self, key: u64, theirs: BorrowedFd) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if socket.presence != Presence::Watched {
            socket.presence = Presence::Watched;
            self.watch.add(theirs, key);
        }
    }

    /// The program's end, from the process that used it last, or from whoever has it.
    pub fn program_end(&mut self, key: u64) -> Option<OwnedFd> {
        let socket = self.sockets.get(&key)?;
        let (tid, fd) = socket.holder;
        let found = self.processes.descriptor(tid, fd).ok();
        found
            .filter(|found| system::cookie(found.as_fd()) == Ok(key))
            .or_else(|| self.processes.find(socket.inode, key))
    }

    /// Forgets what the program has closed without our being told yet: before a port is refused.
    pub fn notice_closed(&mut self) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // Descriptors that are always ready come again each time.
        for _ in 0..1 + self.sockets.len() / events.len() {
            let got = self.epoll.wait(&mut events, Some(Duration::ZERO)).unwrap_or(0);
            let all = got < events.len();
            for event in &events[..got] {
                let (key, bits) = (event.u64, event.events);
                if key < MOST_KEYS {
                    self.pair_changed(key, bits);
                }
            }
            if all {
                break;
            }
        }
        self.ends_closed();
        self.sweep();
        self.sweep_unjoined(true);
    }

    /// Forgets sockets that ended, or were shut down, and that the program has closed, or that have
    /// ended where nobody has them.
    fn sweep(&mut self) {
        let alive: HashSet<u64> = self.watch.look();
        let watched =
            |socket: &Socket| matches!(socket.presence, Presence::Watched | Presence::Lost);
        let delivered = |socket: &Socket| match &socket.state {
            State::Connected(stream) => stream.delivered(),
            State::Datagram(datagram) => !datagram.has_outbound(),
            _ => true,
        };
        self.remove_all(|key, socket| {
            watched(socket) && delivered(socket) && !alive.contains(&key)
        });
    }

    /// Forgets sockets that have never done anything and that the program has closed.
    fn sweep_unjoined(&mut self, now: bool) {
        if !now && !self.unjoined.is_crowded() {
            return;
        }
        let alive = self.unjoined.look();
        self.remove_all(|key, socket| {
            matches!(socket.state, State::Fresh) && !alive.contains(&key)
        });
    }

    fn remove_all(&mut self, gone: impl Fn(u64, &Socket) -> bool) {
        let all = self.sockets.iter();
        let gone: Vec<u64> =
            all.filter(|(key, socket)| gone(**key, socket)).map(|(key, _)| *key).collect();
        for key in gone {
            self.remove(key);
        }
    }

    /// The call waits until its socket changes.
    pub fn park(&mut self, key: u64, waiting: Request) {
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.waiting.push(waiting);
            self.waiting.insert(waiting.call.tid, (key, waiting.until));
        }
    }

    /// A thread has but one call: an older one of it was interrupted.
    pub fn unpark(&mut self, tid: i32) -> Option<Request> {
        let (key, _) = self.waiting.remove(&tid)?;
        let waiting = &mut self.sockets.get_mut(&key)?.waiting;
        let at = waiting.iter().position(|waiting| waiting.call.tid == tid)?;
        Some(waiting.remove(at))
    }

    /// Serves the calls that wait for this socket once more, in the order in which they came.
    pub fn retry(&mut self, key: u64) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let is_closed = socket.presence == Presence::Closed;
        let listens = matches!(socket.state, State::Listening(_));
        for waiting in std::mem::take(&mut socket.waiting) {
            self.waiting.remove(&waiting.call.tid);
            match is_closed && listens {
                true => self.accept_from_closed(key, &waiting),
                false => self.serve_again(&waiting),
            }
        }
    }

    /// Answers the calls whose time is over; says when the next one's is.
    pub fn expire(&mut self, now: Instant) -> Option<Instant> {
        let over = self.waiting.iter().filter(|(_, (_, until))| until.is_some_and(|at| at <= now));
        let over: Vec<i32> = over.map(|(tid, _)| *tid).collect();
        for waiting in over.into_iter().filter_map(|tid| self.unpark(tid)).collect::<Vec<_>>() {
            self.give_up(&waiting);
        }
        self.forget_closed();
        let look = (!self.closed.is_empty()).then(|| now + LOOK_AGAIN);
        self.waiting.values().filter_map(|(_, until)| *until).chain(look).min()
    }

    /// What the program has sent and the stack has not got yet; and of the same connections, what
    /// their peers have not acknowledged.
    pub fn undelivered(&mut self) -> Undelivered {
        let mut sum = Undelivered::default();
        for socket in self.sockets.values() {
            let here = match (&socket.state, &socket.ours) {
                (State::Connected(stream), Some(ours)) if !stream.delivered() => {
                    stream.held_for_stack() + system::unread(ours.as_fd()).unwrap_or(0)
                }
                (State::Datagram(datagram), _) if datagram.has_outbound() => 0,
                _ => continue,
            };
            let mut there = [0; 4];
            let asked = self.stack.ioctl(socket.id, SIOCOUTQ, &mut there);
            let there = asked.map_or(0, |()| u32::from_ne_bytes(there));
            sum.connections += 1;
            sum.bytes += here as u64 + u64::from(there);
        }
        sum
    }
}

//! The table of the program's sockets, and what happens when one of them changes.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::Options;
use crate::datagram::Datagram;
use crate::errno::{Errno, Result};
use crate::notify::{Call, Listener};
use crate::pair::{self, Pair};
use crate::processes::Processes;
use crate::socket::{Queue, Role, Socket, Waiting};
use crate::stack::{SocketId, Stack};
use crate::stream::{Pumped, Stream};
use crate::system::{self, Epoll};
use crate::trace::Trace;
use crate::watch::Watch;

/// Moved at once between a pair and the stack.
const SCRATCH: usize = 256 * 1024;

/// Edge-triggered, so that a direction that waits for the other side costs nothing.
const PAIR_EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
const ROOM: u32 = libc::EPOLLOUT as u32;

pub struct Supervisor<'a> {
    pub stack: &'a mut dyn Stack,
    pub options: &'a Options,
    pub listener: Listener,
    pub epoll: Epoll,
    pub processes: Processes,
    /// By the cookie of the program's end of the pair, which all copies of it share.
    pub sockets: HashMap<u64, Socket>,
    by_id: HashMap<SocketId, u64>,
    /// How many of them are datagram sockets.
    pub datagrams: usize,
    /// Which socket the call of a thread waits for, and until when.
    pub waiting: HashMap<i32, (u64, Option<Instant>)>,
    /// Answers that a signal kept from the caller, who asks again.
    pub unheard: HashMap<i32, (Call, Result<i64>)>,
    pub scratch: Vec<u8>,
    /// Sockets that had more to move than their share.
    pub again: Vec<u64>,
    pub watch: Watch,
    pub trace: Trace,
}

impl<'a> Supervisor<'a> {
    pub fn new(stack: &'a mut dyn Stack, options: &'a Options, listener: Listener) -> Result<Self> {
        Ok(Self {
            stack,
            options,
            listener,
            epoll: Epoll::new()?,
            processes: Processes::default(),
            sockets: HashMap::new(),
            by_id: HashMap::new(),
            datagrams: 0,
            waiting: HashMap::new(),
            unheard: HashMap::new(),
            scratch: vec![0; SCRATCH],
            again: Vec::new(),
            watch: Watch::new()?,
            trace: Trace::new(options.trace),
        })
    }

    /// Enters a socket of the stack with its pair. Gives the program's end and the key.
    pub fn enter(
        &mut self,
        id: SocketId,
        (domain, kind, protocol): (i32, i32, i32),
        (pair, filled): (Pair, usize),
        role: Role,
    ) -> Result<(u64, OwnedFd)> {
        let key = system::cookie(pair.theirs.as_fd())?;
        let inode = system::inode(pair.theirs.as_fd())?;
        self.epoll.add(pair.ours.as_raw_fd(), PAIR_EVENTS | ROOM, key)?;
        let socket = Socket {
            id,
            domain,
            kind,
            protocol,
            ours: Some(pair.ours),
            inode,
            filled,
            narrow: filled > 0,
            holder: (0, -1),
            error: None,
            waiting: Vec::new(),
            watched: false,
            told_of_room: true,
            hung_up: false,
            abort: false,
            refused: false,
            told: false,
            role,
        };
        self.datagrams += usize::from(!socket.is_stream());
        self.sockets.insert(key, socket);
        self.by_id.insert(id, key);
        Ok((key, pair.theirs))
    }

    /// Closes the stack's socket and forgets it.
    pub fn remove(&mut self, key: u64) {
        let Some(socket) = self.take_out(key) else { return };
        if let Role::Listening(queue) = &socket.role {
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

    /// Takes the socket out without touching the stack's, to enter it again with another pair.
    pub fn take_out(&mut self, key: u64) -> Option<Socket> {
        let socket = self.sockets.remove(&key)?;
        self.by_id.remove(&socket.id);
        self.datagrams -= usize::from(!socket.is_stream());
        Some(socket)
    }

    /// Something happened at our end of a pair.
    pub fn pair_changed(&mut self, key: u64, events: u32) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if events & libc::EPOLLHUP as u32 != 0 {
            socket.hung_up = true;
        }
        self.pump(key);
        self.settle(key);
    }

    /// The stack has named this socket.
    pub fn stack_changed(&mut self, id: SocketId) {
        let Some(&key) = self.by_id.get(&id) else { return };
        let Some(socket) = self.sockets.get(&key) else { return };
        match &socket.role {
            Role::Fresh | Role::Dead => {}
            Role::Connecting => self.connection_decided(key),
            Role::Listening(_) => self.connections_wait(key),
            Role::Connected(_) | Role::Datagram(_) => {
                self.pump(key);
                self.settle(key);
            }
        }
    }

    /// Moves bytes both ways as far as both sides let.
    pub fn pump(&mut self, key: u64) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        let Some(ours) = &socket.ours else { return };
        if socket.abort && !socket.watched && pair::hung_up(ours.as_fd()) {
            // What is unsent goes with it, and the peer gets RST, no FIN before.
            return self.remove(key);
        }
        match &mut socket.role {
            Role::Connected(stream) => {
                match stream.pump(self.stack, socket.id, ours.as_fd(), &mut self.scratch) {
                    Ok(Pumped::Idle) => {}
                    Ok(Pumped::More) => self.again.push(key),
                    Err(errno) => return self.fail(key, errno),
                }
                // Each read of the program makes room, and would wake us for nothing.
                let waits = stream.waits_for_program();
                if waits != socket.told_of_room {
                    let events = if waits { PAIR_EVENTS | ROOM } else { PAIR_EVENTS };
                    let changed = self.epoll.change(ours.as_raw_fd(), events, key);
                    socket.told_of_room = changed.map_or(socket.told_of_room, |()| waits);
                }
            }
            Role::Datagram(datagram) => {
                let (id, ours) = (socket.id, ours.as_fd());
                let sent = datagram.pump_out(self.stack, id, ours, &mut self.scratch);
                let received = datagram.pump_in(self.stack, id, ours, &mut self.scratch);
                if sent == Pumped::More || received == Pumped::More {
                    self.again.push(key);
                }
                self.retry(key);
            }
            _ => {}
        }
    }

    /// Once the program has closed its end and all is delivered, the socket goes.
    fn settle(&mut self, key: u64) {
        let Some(socket) = self.sockets.get(&key) else { return };
        if !socket.hung_up || self.program_has(key) {
            return;
        }
        let delivered = match &socket.role {
            Role::Connected(stream) => stream.delivered() || socket.abort,
            Role::Datagram(datagram) => !datagram.has_outbound(),
            _ => true,
        };
        if delivered {
            self.remove(key);
        }
    }

    /// Whether any process still has the program's end, of which the pair says that it hung up. The
    /// pair says so too when both directions are shut down, but then the socket is watched.
    fn program_has(&self, key: u64) -> bool {
        self.sockets.get(&key).is_some_and(|socket| socket.watched)
            && self.watch.alive().contains(&key)
    }

    /// The connection is broken: the program's end gets `ECONNRESET`, `SO_ERROR` the true error.
    fn fail(&mut self, key: u64, errno: Errno) {
        let theirs = self.program_end(key);
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        self.trace.failed(socket.holder, errno);
        socket.error = Some(errno);
        if socket.hung_up && !socket.watched {
            return self.remove(key);
        }
        // A pair whose end is closed with bytes unread is reset; without, it has ended.
        if let Some(theirs) = &theirs {
            let _ = system::send(theirs.as_fd(), &[0]);
        }
        self.bury(key, theirs.as_ref().map(|theirs| theirs.as_fd()));
    }

    /// Closes our end; what is left answers `SO_ERROR` until the program has closed its own.
    pub fn bury(&mut self, key: u64, theirs: Option<BorrowedFd>) {
        self.sweep();
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        if let Some(theirs) = theirs
            && !socket.watched
        {
            self.watch.add(theirs, key);
            socket.watched = true;
        }
        socket.role = Role::Dead;
        socket.ours = None;
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

    /// Forgets dead sockets that the program has closed.
    fn sweep(&mut self) {
        if !self.watch.is_crowded() {
            return;
        }
        let alive: HashSet<u64> = self.watch.alive();
        self.watch.looked();
        let gone: Vec<u64> = self
            .sockets
            .iter()
            .filter(|(key, socket)| {
                matches!(socket.role, Role::Dead) && socket.watched && !alive.contains(key)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.remove(key);
        }
    }

    /// The call waits until its socket changes.
    pub fn park(&mut self, key: u64, call: &Call, until: Option<Instant>) {
        if let Some(socket) = self.sockets.get_mut(&key) {
            socket.waiting.push(Waiting { call: *call, until });
            self.waiting.insert(call.tid, (key, until));
        }
    }

    /// A thread has but one call: an older one of it was interrupted.
    pub fn unpark(&mut self, tid: i32) -> Option<Call> {
        let (key, _) = self.waiting.remove(&tid)?;
        let waiting = &mut self.sockets.get_mut(&key)?.waiting;
        let at = waiting.iter().position(|waiting| waiting.call.tid == tid)?;
        Some(waiting.remove(at).call)
    }

    /// Serves the calls that wait for this socket once more, in the order in which they came.
    pub fn retry(&mut self, key: u64) {
        let Some(socket) = self.sockets.get_mut(&key) else { return };
        for waiting in std::mem::take(&mut socket.waiting) {
            self.waiting.remove(&waiting.call.tid);
            self.serve_again(&waiting);
        }
    }

    /// Answers the calls whose time is over; says when the next one's is.
    pub fn expire(&mut self, now: Instant) -> Option<Instant> {
        let over = self.waiting.iter().filter(|(_, (_, until))| until.is_some_and(|at| at <= now));
        let over: Vec<i32> = over.map(|(tid, _)| *tid).collect();
        for call in over.into_iter().filter_map(|tid| self.unpark(tid)).collect::<Vec<_>>() {
            let connecting = i64::from(call.nr) == libc::SYS_connect;
            let errno = if connecting { libc::EINPROGRESS } else { libc::EAGAIN };
            self.finish(&call, Err(Errno(errno)));
        }
        self.waiting.values().filter_map(|(_, until)| *until).min()
    }

    /// Whether anything that the program has sent is not with the stack yet.
    pub fn undelivered(&self) -> bool {
        self.sockets.values().any(|socket| match &socket.role {
            Role::Connected(stream) => socket.ours.is_some() && !stream.delivered(),
            Role::Datagram(datagram) => datagram.has_outbound(),
            _ => false,
        })
    }

    pub fn new_role(kind: i32) -> Role {
        if kind == libc::SOCK_STREAM { Role::Fresh } else { Role::Datagram(Datagram::default()) }
    }

    pub fn connected_role() -> Role {
        Role::Connected(Stream::default())
    }

    pub fn listening_role() -> Role {
        Role::Listening(Queue::default())
    }
}

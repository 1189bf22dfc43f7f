//! One connection: the program that sends and the one that receives.

use transom_emulator::Nanos;
use transom_netstack::Error;
use transom_scenario::{Flow, Greeting, Traffic, Transfer};

use crate::kernels::{Kernels, Socket};

use super::exchange::{Exchange, Then};
use super::source::{Source, Turn, nanos};

/// Bytes of one `send`, as iperf 2 has them.
pub const WRITE: u64 = 128 << 10;
/// Bytes that one `receive` takes at most.
pub const READ: usize = 1 << 20;
/// The same of a receiver that reads at a rate.
const SLOW_READ: usize = 16 << 10;

#[derive(Debug)]
pub struct Connection {
    pub flow: usize,
    /// The host's end that sends (of requests: that asks), and the other.
    pub near: Option<Socket>,
    pub far: Option<Socket>,
    work: Work,
    write: u64,
    /// Bytes of the first `send`, until it has happened.
    first_write: Option<u64>,
    /// Bytes that the receiver answers to it, until it has.
    answer: Option<u64>,
    /// How long a `send` waits for room; none: not at all.
    patience: Option<Nanos>,
    /// The `send` that waits: bytes that are not taken yet, and when it gives up.
    waiting: Option<(u64, Nanos)>,
    read_mbit: Option<f64>,
    /// The receiver may read again.
    reads_at: Nanos,
    pub transfers: Vec<Transfer>,
    /// Data segments of the sending end and those of them that were retransmissions, when it
    /// closed or was last asked.
    pub sent: (u64, u64),
    /// What has begun and not ended.
    under_way: Option<Transfer>,
    last_read: Nanos,
    /// The sender has written all and said so.
    said_goodbye: bool,
    /// The program that listens has it.
    pub is_accepted: bool,
    pub has_failed: bool,
}

#[derive(Debug)]
enum Work {
    Send(Source),
    Exchange(Exchange),
}

/// What became of a visit.
#[derive(Debug, Default)]
pub struct Visit {
    /// Bytes that the receiving program read.
    pub received: u64,
    /// Come again then.
    pub again: Option<Nanos>,
}

impl Connection {
    /// `start`: of the flow; `source`: what it writes, unless it asks and answers.
    pub fn new(flow: usize, described: &Flow, source: Option<Source>, start: Nanos) -> Connection {
        let work = match (&described.traffic, source) {
            (requests @ Traffic::Requests { .. }, _) => {
                Work::Exchange(Exchange::new(requests, start))
            }
            (_, source) => Work::Send(source.expect("a stream has a source")),
        };
        Connection {
            flow,
            near: None,
            far: None,
            work,
            write: described.write_bytes.map_or(WRITE, u64::from),
            first_write: described.greeting.map(|Greeting { bytes, .. }| bytes.into()),
            answer: described.greeting.map(|Greeting { answer, .. }| answer.into()),
            patience: described.send_timeout_s.map(nanos),
            waiting: None,
            read_mbit: described.read_mbit,
            reads_at: 0,
            transfers: Vec::new(),
            sent: (0, 0),
            under_way: None,
            last_read: 0,
            said_goodbye: false,
            is_accepted: false,
            has_failed: false,
        }
    }

    /// Both programs have closed, or given it up.
    pub fn is_over(&self) -> bool {
        self.has_failed || (self.said_goodbye && self.near.is_none() && self.far.is_none())
    }

    /// After an error: both programs close.
    pub fn give_up(&mut self, kernels: &mut Kernels) {
        self.count_sent(kernels);
        for socket in [self.near.take(), self.far.take()].into_iter().flatten() {
            kernels.close(socket);
        }
        self.has_failed = true;
    }

    /// Everything that the programs can do now.
    ///
    /// # Errors
    /// What a socket reports: the connection is over.
    pub fn visit(&mut self, kernels: &mut Kernels, now: Nanos) -> Result<Visit, Error> {
        let mut visit = Visit::default();
        match &mut self.work {
            Work::Send(_) => {
                self.send(kernels, now, &mut visit)?;
                self.receive(kernels, now, &mut visit)?;
            }
            Work::Exchange(_) => self.exchange(kernels, now, &mut visit)?,
        }
        self.say_goodbye(kernels)?;
        Ok(visit)
    }

    fn send(&mut self, kernels: &mut Kernels, now: Nanos, visit: &mut Visit) -> Result<(), Error> {
        let (Work::Send(source), Some(socket)) = (&mut self.work, self.near) else { return Ok(()) };
        while !self.said_goodbye {
            let begun = self.waiting.filter(|(left, until)| *left > 0 && now < *until);
            let turn = begun.map_or_else(|| source.turn(now), |(left, _)| Turn::Write(left));
            match turn {
                Turn::Wait(until) => {
                    visit.again = Some(until);
                    return Ok(());
                }
                Turn::End => {
                    self.said_goodbye = true;
                    return kernels.end_writing(socket);
                }
                Turn::Write(most) => {
                    let most = most.min(self.first_write.unwrap_or(self.write));
                    let until = begun.map(|(_, until)| until);
                    let until = until.or(self.patience.map(|patience| now + patience));
                    let Some(bytes) = write(kernels, socket, most)? else {
                        // Before the first byte it waits for the connection.
                        self.waiting =
                            until.filter(|_| self.under_way.is_some()).map(|at| (most, at));
                        visit.again = self.waiting.map(|(_, at)| at).or(source.changes());
                        return Ok(());
                    };
                    self.first_write = None;
                    self.waiting = until.map(|at| (most - bytes, at));
                    source.wrote(bytes, now);
                    let began_s = now as f64 / 1e9;
                    self.under_way.get_or_insert(Transfer { began_s, ..Transfer::default() });
                }
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        kernels: &mut Kernels,
        now: Nanos,
        visit: &mut Visit,
    ) -> Result<(), Error> {
        let Some(socket) = self.far else { return Ok(()) };
        loop {
            if self.reads_at > now {
                visit.again = Some(visit.again.map_or(self.reads_at, |at| at.min(self.reads_at)));
                return Ok(());
            }
            let most = if self.read_mbit.is_some() { SLOW_READ } else { READ };
            let Some(bytes) = read(kernels, socket, most)? else { return Ok(()) };
            if bytes == 0 {
                self.end();
                kernels.close(socket);
                self.far = None;
                return Ok(());
            }
            if let Some(mbit) = self.read_mbit {
                self.reads_at = now + (bytes as f64 * 8_000.0 / mbit).round() as Nanos;
            }
            visit.received += bytes;
            self.count(bytes, now);
            if let Some(answer) = self.answer.take() {
                write(kernels, socket, answer)?;
            }
        }
    }

    fn count(&mut self, bytes: u64, now: Nanos) {
        self.last_read = now;
        if let Some(transfer) = &mut self.under_way {
            transfer.bytes += bytes;
            transfer.first_read_s.get_or_insert(now as f64 / 1e9);
        }
    }

    /// The transfer ended with the last byte that was read.
    fn end(&mut self) {
        if let Some(mut transfer) = self.under_way.take() {
            transfer.ended_s = Some(self.last_read as f64 / 1e9);
            self.transfers.push(transfer);
        }
    }

    /// What is under way when the simulation ends.
    pub fn cut(&mut self) {
        self.transfers.extend(self.under_way.take());
    }

    /// Asks the sending end what it sent.
    pub fn count_sent(&mut self, kernels: &mut Kernels) {
        if let Some(socket) = self.near {
            self.sent = kernels.sent(socket);
        }
    }

    fn exchange(
        &mut self,
        kernels: &mut Kernels,
        now: Nanos,
        visit: &mut Visit,
    ) -> Result<(), Error> {
        let (Some(near), far) = (self.near.filter(|_| !self.said_goodbye), self.far) else {
            return Ok(());
        };
        loop {
            let Work::Exchange(exchange) = &mut self.work else { return Ok(()) };
            let step = exchange.step(kernels, near, far, now)?;
            if step.began {
                let began_s = now as f64 / 1e9;
                self.under_way = Some(Transfer { began_s, ..Transfer::default() });
            }
            if step.received > 0 {
                visit.received += step.received;
                self.count(step.received, now);
            }
            match step.then {
                Then::Again => {}
                Then::Answered => self.end(),
                Then::Wait(until) => {
                    visit.again = until;
                    return Ok(());
                }
                Then::Over => {
                    self.end();
                    self.said_goodbye = true;
                    return kernels.end_writing(near);
                }
            }
        }
    }

    /// Each end closes when it has heard that the other has.
    fn say_goodbye(&mut self, kernels: &mut Kernels) -> Result<(), Error> {
        if !self.said_goodbye {
            return Ok(());
        }
        self.count_sent(kernels);
        let ends = match self.work {
            Work::Send(_) => vec![&mut self.near],
            Work::Exchange(_) => vec![&mut self.far, &mut self.near],
        };
        for end in ends {
            let Some(socket) = *end else { continue };
            // What has not been read before is an answer to a greeting.
            while let Some(bytes) = read(kernels, socket, READ)? {
                if bytes == 0 {
                    kernels.close(socket);
                    *end = None;
                    break;
                }
            }
        }
        Ok(())
    }
}

/// None: there is no room, or no connection yet.
pub fn write(kernels: &mut Kernels, socket: Socket, bytes: u64) -> Result<Option<u64>, Error> {
    match kernels.send_zeros(socket, bytes as usize) {
        Ok(bytes) => Ok(Some(bytes as u64)),
        Err(error) if error.would_block() => Ok(None),
        Err(error) => Err(error),
    }
}

/// None: there is nothing to read; 0: the other side has ended.
pub fn read(kernels: &mut Kernels, socket: Socket, most: usize) -> Result<Option<u64>, Error> {
    match kernels.discard(socket, most.max(1)) {
        Ok(bytes) => Ok(Some(bytes as u64)),
        // Not yet connected is no error of a program that waits for readiness.
        Err(error) if error.would_block() || error.errno == libc::ENOTCONN => Ok(None),
        Err(error) => Err(error),
    }
}

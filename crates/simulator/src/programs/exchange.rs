//! Requests and answers, one after the other.

use transom_emulator::Nanos;
use transom_netstack::Error;
use transom_scenario::Traffic;

use crate::kernels::{Kernels, Socket};

use super::connection::{READ, WRITE, read, write};
use super::source::nanos;

/// Bytes left of what is under way, in the order in which they move.
#[derive(Debug, Default)]
pub struct Exchange {
    request: u64,
    response: u64,
    think: Nanos,
    /// Requests still to be answered.
    left: u64,
    /// Of the request: to be written, to be read.
    asking: u64,
    asked: u64,
    /// Of the answer.
    answering: u64,
    answered: u64,
    /// The next request begins then.
    next_at: Option<Nanos>,
}

/// What a step did.
#[derive(Debug)]
pub struct Step {
    /// A request began.
    pub began: bool,
    /// Bytes of the answer that were read.
    pub received: u64,
    pub then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Again,
    /// The answer is whole.
    Answered,
    /// It was the last.
    Over,
    /// Nothing to do before a socket is ready, or this time.
    Wait(Option<Nanos>),
}

impl Exchange {
    /// Of [`Traffic::Requests`]; nothing is asked of any other.
    pub fn new(traffic: &Traffic, start: Nanos) -> Exchange {
        let Traffic::Requests { request, response, think_s, count } = traffic else {
            return Exchange::default();
        };
        Exchange {
            request: *request,
            response: *response,
            think: nanos(*think_s),
            left: *count,
            next_at: Some(start),
            ..Exchange::default()
        }
    }

    /// `near` asks and `far`, once it is there, answers.
    pub fn step(
        &mut self,
        kernels: &mut Kernels,
        near: Socket,
        far: Option<Socket>,
        now: Nanos,
    ) -> Result<Step, Error> {
        let began = self.next_at.is_some_and(|at| at <= now);
        if began {
            self.begin();
        }
        let mut moved = began | send_some(kernels, near, &mut self.asking)?;
        if let Some(far) = far {
            if self.asked > 0
                && let Some(bytes) = read(kernels, far, self.asked as usize)?.filter(|it| *it > 0)
            {
                self.asked -= bytes.min(self.asked);
                self.answering = if self.asked == 0 { self.response } else { 0 };
                moved = true;
            }
            moved |= send_some(kernels, far, &mut self.answering)?;
        }
        let mut received = 0;
        if self.answered > 0 {
            received = read(kernels, near, READ)?.unwrap_or(0);
            self.answered -= received.min(self.answered);
            moved |= received > 0;
        }
        let then = match (received > 0 && self.answered == 0, moved) {
            (true, _) => self.is_answered(now),
            (false, true) => Then::Again,
            (false, false) => Then::Wait(self.next_at),
        };
        Ok(Step { began, received, then })
    }

    fn begin(&mut self) {
        self.next_at = None;
        (self.asking, self.asked) = (self.request, self.request);
        // A request of no bytes is the connection itself.
        self.answering = if self.request == 0 { self.response } else { 0 };
        self.answered = self.response;
    }

    fn is_answered(&mut self, now: Nanos) -> Then {
        self.left -= 1;
        if self.left == 0 {
            return Then::Over;
        }
        self.next_at = Some(now + self.think);
        Then::Answered
    }
}

fn send_some(kernels: &mut Kernels, socket: Socket, left: &mut u64) -> Result<bool, Error> {
    if *left == 0 {
        return Ok(false);
    }
    let bytes = write(kernels, socket, (*left).min(WRITE))?;
    *left -= bytes.unwrap_or(0);
    Ok(bytes.is_some())
}

//! A stream of datagrams at a constant rate.

use std::io::IoSlice;

use transom_emulator::Nanos;
use transom_netstack::Error;

use crate::kernels::{Kernels, Socket};

/// What is still on its way when the sender has ended may arrive within so long.
const FAREWELL: Nanos = 1_000_000_000;

#[derive(Debug)]
pub struct Datagrams {
    pub near: Socket,
    pub far: Socket,
    payload: Vec<u8>,
    interval: f64,
    /// When the next is due: a sender that had to wait catches up.
    next: f64,
    until: Nanos,
    pub sent: u64,
    pub received: u64,
    pub began: Nanos,
    pub first_read: Option<Nanos>,
    pub last_read: Nanos,
    pub bytes: u64,
    done: bool,
    pub has_failed: bool,
}

impl Datagrams {
    pub fn new(
        near: Socket,
        far: Socket,
        mbit: f64,
        datagram: u32,
        now: Nanos,
        until: Nanos,
    ) -> Datagrams {
        Datagrams {
            near,
            far,
            payload: vec![0; datagram as usize],
            interval: f64::from(datagram) * 8_000.0 / mbit,
            next: now as f64,
            until,
            sent: 0,
            received: 0,
            began: now,
            first_read: None,
            last_read: now,
            bytes: 0,
            done: false,
            has_failed: false,
        }
    }

    pub fn is_over(&self) -> bool {
        self.done || self.has_failed
    }

    /// Sends what is due and reads what came: bytes read, and when to come again.
    pub fn visit(
        &mut self,
        kernels: &mut Kernels,
        now: Nanos,
    ) -> Result<(u64, Option<Nanos>), Error> {
        let mut blocked = false;
        while self.next <= now as f64 && now < self.until && !blocked {
            let Socket { kernel, id } = self.near;
            match kernels.of(kernel).send(id, &[IoSlice::new(&self.payload)], 0, None, &[]) {
                Ok(_) => {
                    self.sent += 1;
                    self.next += self.interval;
                }
                Err(error) if error.would_block() => blocked = true,
                // The device's queue was full: the datagram is lost, as sent.
                Err(error) if error.errno == libc::ENOBUFS => {
                    self.sent += 1;
                    self.next += self.interval;
                }
                Err(error) => return Err(error),
            }
        }
        let mut read = 0;
        loop {
            match kernels.discard(self.far, 1 << 16) {
                Ok(bytes) => {
                    self.received += 1;
                    read += bytes as u64;
                    self.first_read.get_or_insert(now);
                    self.last_read = now;
                }
                Err(error) if error.would_block() => break,
                Err(error) => return Err(error),
            }
        }
        self.bytes += read;
        self.done = now >= self.until + FAREWELL;
        let again = if now >= self.until {
            (!self.done).then_some(self.until + FAREWELL)
        } else if blocked {
            // The socket says when there is room.
            Some(self.until)
        } else {
            Some((self.next.ceil() as Nanos).min(self.until))
        };
        Ok((read, again))
    }
}

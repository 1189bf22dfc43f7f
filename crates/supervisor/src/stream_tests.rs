//! The pump between a real pair and a stack that does exactly what a test says.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;
use crate::address::Address;
use crate::forks;
use crate::pair::{self, Pair};
use crate::stack::{PathStatus, PollFd, Received};

/// A stack with one connection.
#[derive(Default)]
struct Scripted {
    sent: Vec<u8>,
    /// How many bytes it still takes.
    window: usize,
    /// What `recv` gives, one after the other; then `EAGAIN`.
    incoming: VecDeque<Result<Vec<u8>>>,
    fin: bool,
    /// What `poll` and `SO_ERROR` say.
    events: u32,
    error: i32,
    /// Of `sent`, what was urgent.
    urgent: Vec<u8>,
    /// An urgent byte when so many are left of `incoming`.
    marked: Option<(usize, u8)>,
}

impl Stack for Scripted {
    fn socket(&mut self, _: i32, _: i32, _: i32) -> Result<SocketId> {
        Ok(SocketId(0))
    }

    fn bind(&mut self, _: SocketId, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self, _: SocketId, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn listen(&mut self, _: SocketId, _: i32) -> Result<()> {
        Ok(())
    }

    fn accept(&mut self, _: SocketId) -> Result<(SocketId, Address)> {
        Err(Errno(libc::EAGAIN))
    }

    fn shutdown(&mut self, _: SocketId, how: i32) -> Result<()> {
        self.fin |= how == libc::SHUT_WR;
        Ok(())
    }

    fn close(&mut self, _: SocketId) {}

    fn send(
        &mut self,
        _: SocketId,
        data: &[IoSlice],
        flags: i32,
        _: Option<&[u8]>,
        _: &[u8],
    ) -> Result<usize> {
        assert!(!self.fin, "data after FIN");
        let taken = data[0].len().min(self.window);
        self.sent.extend_from_slice(&data[0][..taken]);
        self.window -= taken;
        if flags & libc::MSG_OOB != 0 {
            self.urgent.extend_from_slice(&data[0][..taken]);
        }
        if taken == 0 { Err(Errno(libc::EAGAIN)) } else { Ok(taken) }
    }

    fn recv(
        &mut self,
        _: SocketId,
        data: &mut [IoSliceMut],
        flags: i32,
        _: Option<&mut Received>,
    ) -> Result<usize> {
        if flags & libc::MSG_OOB != 0 {
            let (_, byte) = self.marked.take().ok_or(Errno(libc::EINVAL))?;
            self.events = 0;
            data[0][0] = byte;
            return Ok(1);
        }
        let bytes = self.incoming.pop_front().unwrap_or(Err(Errno(libc::EAGAIN)))?;
        data[0][..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn getsockopt(&mut self, _: SocketId, _: i32, _: i32, value: &mut [u8]) -> Result<usize> {
        value.copy_from_slice(&self.error.to_ne_bytes());
        Ok(4)
    }

    fn ioctl(&mut self, _: SocketId, _: u32, mark: &mut [u8]) -> Result<()> {
        let left = self.incoming.len();
        let here = self.marked.is_some_and(|(at, _)| at == left);
        mark.copy_from_slice(&i32::from(here).to_ne_bytes());
        Ok(())
    }

    fn setsockopt(&mut self, _: SocketId, _: i32, _: i32, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn interfaces(&mut self, _: SocketId, _: Option<&mut [u8]>) -> Result<usize> {
        Ok(0)
    }

    fn sysctl(&mut self, _: &str) -> String {
        unreachable!()
    }

    fn getsockname(&mut self, _: SocketId) -> Result<Address> {
        Ok(Address::default())
    }

    fn getpeername(&mut self, _: SocketId) -> Result<Address> {
        Ok(Address::default())
    }

    fn poll(&mut self, _: SocketId) -> u32 {
        self.events
    }

    fn turn(&mut self, _: &mut Vec<SocketId>) {}

    fn deadline(&mut self) -> Option<Duration> {
        None
    }

    fn poll_fds(&self) -> &[PollFd] {
        &[]
    }

    fn paths(&mut self, _: SocketId, _: bool) -> Vec<PathStatus> {
        Vec::new()
    }
}

struct Bench {
    stack: Scripted,
    pair: Pair,
    stream: Stream,
    scratch: Vec<u8>,
}

impl Bench {
    fn new(window: usize) -> Self {
        Self {
            stack: Scripted { window, ..Scripted::default() },
            pair: Pair::open().unwrap(),
            stream: Stream::default(),
            scratch: vec![0; 64 * 1024],
        }
    }

    fn pump(&mut self) -> Result<Pumped> {
        let ours = self.pair.ours.as_fd();
        let most = Buffers::default();
        self.stream.pump(&mut self.stack, SocketId(0), ours, most, &mut self.scratch)
    }

    fn program_writes(&self, bytes: &[u8]) {
        assert_eq!(system::send(self.pair.theirs.as_fd(), bytes, 0), Ok(bytes.len()));
    }

    fn program_reads(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; 1 << 20];
        let got = system::recv(self.pair.theirs.as_fd(), &mut bytes, 0)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

#[test]
fn what_the_stack_does_not_take_is_held_and_comes_in_order() {
    let mut bench = Bench::new(3);
    bench.program_writes(b"abcdefgh");
    assert_eq!(bench.pump(), Ok(Pumped::Idle));
    bench.program_writes(b"ij");
    assert_eq!(bench.pump(), Ok(Pumped::Idle));
    assert_eq!(bench.stack.sent, b"abc");
    bench.stack.window = 100;
    assert_eq!(bench.pump(), Ok(Pumped::Idle));
    assert_eq!(bench.stack.sent, b"abcdefghij");
}

#[test]
fn fin_comes_after_the_last_byte() {
    let mut bench = Bench::new(2);
    bench.program_writes(b"last");
    system::shutdown(bench.pair.theirs.as_fd(), libc::SHUT_WR).unwrap();
    bench.pump().unwrap();
    assert!(!bench.stack.fin && !bench.stream.delivered());
    bench.stack.window = 2;
    bench.pump().unwrap();
    assert_eq!(bench.stack.sent, b"last");
    assert!(bench.stack.fin && bench.stream.delivered());
}

#[test]
fn the_peer_s_end_leaves_the_program_s_direction_open() {
    let mut bench = Bench::new(100);
    bench.stack.incoming = [Ok(b"bye".to_vec()), Ok(Vec::new())].into();
    bench.pump().unwrap();
    assert_eq!(bench.program_reads(), Ok(b"bye".to_vec()));
    assert_eq!(bench.program_reads(), Ok(Vec::new()));
    bench.program_writes(b"still here");
    bench.pump().unwrap();
    assert_eq!(bench.stack.sent, b"still here");
}

#[test]
fn a_program_that_does_not_read_stops_the_peer_and_loses_nothing() {
    let mut bench = Bench::new(0);
    let block = vec![7; 60_000];
    bench.stack.incoming = (0..100).map(|_| Ok(block.clone())).collect();
    while bench.pump() == Ok(Pumped::More) {}
    let left = bench.stack.incoming.len();
    assert!(left > 0, "the pair took 6 MB");
    assert_eq!(bench.pump(), Ok(Pumped::Idle));
    assert_eq!(bench.stack.incoming.len(), left, "more was taken while some was held");
    let mut read = 0;
    while read < 100 * block.len() {
        read += bench.program_reads().map_or(0, |bytes| bytes.len());
        bench.pump().unwrap();
    }
    assert_eq!(read, 100 * block.len());
}

#[test]
fn what_came_before_a_reset_is_given_first() {
    let mut bench = Bench::new(0);
    bench.stack.incoming = [Ok(b"before".to_vec()), Err(Errno(libc::ECONNRESET))].into();
    assert_eq!(bench.pump(), Err(Errno(libc::ECONNRESET)));
    assert_eq!(bench.program_reads(), Ok(b"before".to_vec()));
}

#[test]
fn a_program_that_closes_with_bytes_unread_is_told_from_one_that_has_read_all() {
    let _no_child = forks::none();
    let mut bench = Bench::new(100);
    bench.stack.incoming = [Ok(b"unread".to_vec())].into();
    bench.program_writes(b"sent");
    bench.pump().unwrap();
    let other = Pair::open().unwrap();
    drop(std::mem::replace(&mut bench.pair.theirs, other.theirs));
    assert!(pair::hung_up(bench.pair.ours.as_fd()));
    assert_eq!(bench.pump(), Ok(Pumped::ClosedUnread));
    assert_eq!(bench.stack.sent, b"sent");
}

#[test]
fn an_error_behind_the_peer_s_end_is_found_though_nothing_is_left_to_read() {
    let mut bench = Bench::new(100);
    bench.stack.incoming = [Ok(Vec::new())].into();
    bench.pump().unwrap();
    assert!(bench.stream.end_passed());
    bench.stack.events = libc::EPOLLERR as u32;
    bench.stack.error = libc::EPIPE;
    assert_eq!(bench.pump(), Err(Errno(libc::EPIPE)));
}

#[test]
fn urgent_bytes_keep_their_place_both_ways() {
    let mut bench = Bench::new(100);
    bench.program_writes(b"before");
    system::send(bench.pair.theirs.as_fd(), b"!", libc::MSG_OOB).unwrap();
    bench.program_writes(b"behind");
    bench.pump().unwrap();
    assert_eq!(bench.stack.sent, b"before!behind");
    assert_eq!(bench.stack.urgent, b"!");

    bench.stack.events = libc::EPOLLPRI as u32;
    bench.stack.incoming = [Ok(b"ab".to_vec()), Ok(b"cd".to_vec())].into();
    bench.stack.marked = Some((1, b'?'));
    bench.pump().unwrap();
    assert_eq!(bench.program_reads(), Ok(b"ab".to_vec()));
    let mut byte = [0];
    let theirs = bench.pair.theirs.as_fd();
    assert_eq!(system::recv(theirs, &mut byte, libc::MSG_OOB), Ok(1));
    assert_eq!(byte, *b"?");
    assert_eq!(bench.program_reads(), Ok(b"cd".to_vec()));
}

#[test]
fn an_urgent_byte_that_is_written_while_the_pump_looks_is_not_lost() {
    const ROUNDS: usize = 200;
    let mut bench = Bench::new(ROUNDS);
    let theirs = bench.pair.theirs.try_clone().unwrap();
    let (passed, next) = std::sync::mpsc::channel();
    let program = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            system::send(theirs.as_fd(), b"!", libc::MSG_OOB).unwrap();
            if next.recv_timeout(Duration::from_secs(5)).is_err() {
                return;
            }
        }
    });
    let mut seen = 0;
    while !program.is_finished() {
        bench.pump().unwrap();
        while seen < bench.stack.urgent.len() {
            seen += 1;
            passed.send(()).unwrap();
        }
    }
    assert_eq!(bench.stack.urgent.len(), ROUNDS, "urgent bytes that passed");
}

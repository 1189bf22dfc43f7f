//! Answers that a signal kept from the caller.
//!
//! A signal may take a call away between the moment at which it is carried out and its answer. If the
//! handler says so (`SA_RESTART`) the kernel repeats the call; else the program finds `EINTR`, and may
//! repeat it itself, or give it up. Bytes that were taken from a stream are gone, a datagram is sent,
//! an error is reported: so the repeated call gets the answer of the first one.
//!
//! The kernel does not say which call is a repeated one. It is taken for one if it is the very next of
//! its thread, has the same arguments, and if everything that decided about the first one still lies
//! in the program's memory: a datagram with other content is another datagram.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::errno::{Errno, Result};
use crate::memory::{self, Piece};
use crate::notify::{Call, Listener};

/// Beyond this many threads we forget all and begin anew: some have long ended.
const REMEMBERED: usize = 1024;

thread_local! {
    /// What the calls that are carried out have done so far, each by its thread.
    static TRACES: RefCell<HashMap<i32, Traces>> = RefCell::default();
}

/// Pieces of the program's memory, each with its address.
type Pieces = Vec<(u64, Vec<u8>)>;

/// What a call has read and written.
#[derive(Debug, Default)]
struct Traces {
    read: Pieces,
    written: Pieces,
}

/// Notes what the thread's call has found in these pieces of its memory.
pub fn was_read(tid: i32, pieces: &[Piece], bytes: &[u8]) {
    note(tid, pieces, bytes, |traces| &mut traces.read);
}

/// Notes what was written there.
pub fn was_written(tid: i32, pieces: &[Piece], bytes: &[u8]) {
    note(tid, pieces, bytes, |traces| &mut traces.written);
}

fn note(tid: i32, pieces: &[Piece], mut bytes: &[u8], which: fn(&mut Traces) -> &mut Pieces) {
    TRACES.with_borrow_mut(|all| {
        let Some(traces) = all.get_mut(&tid) else { return };
        for piece in pieces {
            let (here, rest) = bytes.split_at(piece.len.min(bytes.len()));
            if !here.is_empty() {
                which(traces).push((piece.address, here.to_vec()));
            }
            bytes = rest;
        }
    });
}

/// The thread's call has waited, without having done anything, and reads everything once more.
pub fn read_anew(tid: i32) {
    begin(tid, Traces::default());
}

/// From now on, what the thread's call does is noted, behind these.
fn begin(tid: i32, traces: Traces) {
    TRACES.with_borrow_mut(|all| {
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(tid, traces);
    });
}

fn end(tid: i32) -> Traces {
    TRACES.with_borrow_mut(|all| all.remove(&tid)).unwrap_or_default()
}

impl Traces {
    /// Whether the call would read now what it read then. What it has written since may lie there as
    /// well: a length that was the room, and then that of the answer.
    fn lie_there(&self, tid: i32) -> bool {
        self.read.iter().all(|(address, then)| {
            let mut now = vec![0; then.len()];
            let piece = Piece { address: *address, len: now.len() };
            memory::copy_in(tid, &[piece], &mut now) == Ok(then.len())
                && (0..then.len()).all(|at| {
                    now[at] == then[at] || self.last_written(address + at as u64) == Some(now[at])
                })
        })
    }

    fn last_written(&self, address: u64) -> Option<u8> {
        self.written.iter().rev().find_map(|(start, bytes)| {
            let at = address.checked_sub(*start)?;
            bytes.get(usize::try_from(at).ok()?).copied()
        })
    }

    /// Writes again what was written: the program may have cleared it for its next attempt.
    fn write_again(&self, tid: i32) -> Result<()> {
        for (address, bytes) in &self.written {
            let piece = Piece { address: *address, len: bytes.len() };
            if memory::copy_out(tid, &[piece], bytes)? < bytes.len() {
                return Err(Errno(libc::EFAULT));
            }
        }
        Ok(())
    }
}

struct Answered {
    call: Call,
    answer: Result<i64>,
    traces: Traces,
}

/// By thread.
#[derive(Default)]
pub struct Unheard(HashMap<i32, Answered>);

impl Unheard {
    /// A call comes. If it is the one before once more, gives what that one was answered. `amid`: that
    /// one waited, and had moved something already.
    pub fn begin(
        &mut self,
        listener: &Listener,
        call: &Call,
        amid: Option<(Call, i64)>,
    ) -> Option<Result<i64>> {
        let (before, traces) = (self.0.remove(&call.tid), end(call.tid));
        let before = match amid {
            Some((call, moved)) => Some(Answered { call, answer: Ok(moved), traces }),
            None => before,
        };
        begin(call.tid, Traces::default());
        let before = before.filter(|first| first.call.is_like(call))?;
        let same = before.traces.lie_there(call.tid);
        if !listener.waits(call.id) {
            // One more signal: nothing will be done, what was found may be anything, and the next call
            // may be the repeated one.
            self.0.insert(call.tid, before);
            return None;
        }
        let Answered { answer, traces, .. } = before;
        let repeated = same && traces.write_again(call.tid).is_ok();
        repeated.then(|| {
            begin(call.tid, traces);
            answer
        })
    }

    /// The call has its answer. `kept`: a signal was quicker, and the answer is to be given again.
    pub fn end(&mut self, call: &Call, kept: Option<Result<i64>>) {
        let traces = end(call.tid);
        let Some(answer) = kept else { return };
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(call.tid, Answered { call: *call, answer, traces });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn a_call_is_the_same_as_long_as_it_would_read_the_same() {
        let mut sent = *b"first";
        begin(own(), Traces::default());
        Memory(own()).read(sent.as_ptr() as u64, &mut [0; 5]).unwrap();
        let traces = end(own());
        assert!(traces.lie_there(own()));
        std::hint::black_box(&mut sent).copy_from_slice(b"other");
        assert!(!traces.lie_there(own()));
    }

    #[test]
    fn a_length_may_be_the_room_or_that_of_the_answer() {
        let mut length = 128i32;
        let at = &raw mut length as u64;
        begin(own(), Traces::default());
        assert_eq!(Memory(own()).read_int(at), Ok(128));
        Memory(own()).write_int(at, 16).unwrap();
        let traces = end(own());
        for (now, same) in [(16, true), (128, true), (28, false)] {
            Memory(own()).write_int(at, now).unwrap();
            assert_eq!(traces.lie_there(own()), same, "{now}");
        }
    }

    #[test]
    fn what_was_received_is_there_again_though_the_program_has_cleared_it() {
        let mut parts = [[0u8; 3], [0; 3]];
        let pieces = parts.each_mut().map(|part| Piece { address: part.as_ptr() as u64, len: 3 });
        begin(own(), Traces::default());
        Memory(own()).scatter(&pieces, b"abcde").unwrap();
        let traces = end(own());
        Memory(own()).scatter(&pieces, &[0; 6]).unwrap();
        traces.write_again(own()).unwrap();
        let mut now = [0; 6];
        Memory(own()).gather(&pieces, &mut now).unwrap();
        assert_eq!(&now, b"abcde\0");
    }

    #[test]
    fn other_threads_calls_leave_the_traces_of_a_call_alone() {
        let text = *b"text";
        begin(own(), Traces::default());
        begin(1, Traces::default());
        Memory(own()).read(text.as_ptr() as u64, &mut [0; 4]).unwrap();
        end(1);
        assert_eq!(end(own()).read.len(), 1);
    }
}

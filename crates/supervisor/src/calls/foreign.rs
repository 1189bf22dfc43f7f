//! Programs of another ABI than ours: 32-bit ones, and x32. They run, but their calls have other numbers
//! and their structures another layout: they get no socket of IPv4 or IPv6, and it is said why.

use std::fs;

use crate::errno::{Errno, Result};
use crate::filter::Foreign;
use crate::memory::Memory;
use crate::notify::Call;
use crate::supervisor::Supervisor;
use transom_output::note;

impl Supervisor<'_> {
    pub(super) fn serve_foreign(&mut self, call: &Call, what: Foreign) {
        // Whoever asked may be gone.
        let _ = match family(call, what) {
            Ok(libc::AF_INET | libc::AF_INET6) => {
                self.tell_refused(call.tid);
                self.listener.answer(call.id, Err(Errno(libc::EAFNOSUPPORT)))
            }
            // All others are the kernel's, and so is memory that is not there.
            _ => self.listener.let_through(call.id),
        };
    }

    /// Once for each program.
    fn tell_refused(&mut self, tid: i32) {
        let program = fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
        if self.refused.insert(program.clone()) {
            note!(
                "transom run: {} is a 32-bit program, which cannot be put on another stack: it gets no \
                 sockets of IPv4 and IPv6 (EAFNOSUPPORT). Use a 64-bit build of it, or start it \
                 without `transom run`",
                program.display()
            );
        }
    }
}

fn family(call: &Call, what: Foreign) -> Result<i32> {
    match what {
        Foreign::Socket => Ok(call.int(0)),
        Foreign::SocketInMemory => Memory(call.tid).read_int(call.args[1]),
    }
}

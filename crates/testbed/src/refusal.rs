//! System calls that the kernel refuses to a thread or a program, as a service's or a container's
//! seccomp filter does.

use std::io;

use libc::{c_long, sock_filter, sock_fprog};

/// `offsetof(struct seccomp_data, …)`; the low half of an argument comes first.
const NR: u32 = 0;
const ARGS: u32 = 16;

/// What is refused; nothing else is.
#[derive(Clone)]
pub struct Refusal(Vec<sock_filter>);

impl Refusal {
    /// This call, as one that is not permitted.
    pub fn of(call: c_long) -> Refusal {
        Refusal(vec![
            load(NR),
            jump(libc::BPF_JEQ, call as u32, 0, 1),
            refuse(libc::EPERM),
            give(libc::SECCOMP_RET_ALLOW),
        ])
    }

    /// Sockets of all families but these, as `RestrictAddressFamilies=` of a unit does.
    pub fn of_sockets_but(families: &[i32]) -> Refusal {
        let after = families.len() as u8;
        let mut code =
            vec![load(NR), jump(libc::BPF_JEQ, libc::SYS_socket as u32, 0, after + 2), load(ARGS)];
        for (at, &family) in (0..).zip(families) {
            code.push(jump(libc::BPF_JEQ, family as u32, after - at, 0));
        }
        code.extend([refuse(libc::EAFNOSUPPORT), give(libc::SECCOMP_RET_ALLOW)]);
        Refusal(code)
    }

    /// Files opened so that they are made if they are not there, as `fs.protected_regular` does with
    /// files of others in `/tmp`, for root too.
    pub fn of_making_files() -> Refusal {
        Refusal(vec![
            load(NR),
            jump(libc::BPF_JEQ, libc::SYS_openat as u32, 0, 3),
            load(ARGS + 2 * 8),
            jump(libc::BPF_JSET, libc::O_CREAT as u32, 0, 1),
            refuse(libc::EACCES),
            give(libc::SECCOMP_RET_ALLOW),
        ])
    }

    /// From now on, for this thread and what it starts.
    fn begin(&mut self) -> io::Result<()> {
        let program = sock_fprog { len: self.0.len() as u16, filter: self.0.as_mut_ptr() };
        // SAFETY: the kernel copies the filter.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Does `work` on a thread of its own, to which this is refused, and to what it starts.
    ///
    /// # Panics
    /// As `work` does, or if the kernel takes no filter.
    pub fn during<T: Send>(mut self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                self.begin().expect("a filter");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn refuse(error: i32) -> sock_filter {
    give(libc::SECCOMP_RET_ERRNO | error as u32)
}

fn give(answer: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, answer)
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(test: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { jt, jf, ..statement(libc::BPF_JMP | test | libc::BPF_K, k) }
}

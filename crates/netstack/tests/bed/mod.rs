//! What all tests of the library need: one kernel at a time, and sockets that are easily said.
#![allow(dead_code)]

use std::io::{IoSlice, IoSliceMut, Read};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use transom_netstack::{FakeClock, Kernel, Parameters, Result, Series, SocketId};

/// Longer than any transfer here takes, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// 2026-01-01.
pub const WALL: u64 = 1_767_225_600_000_000_000;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Warnings of the kernels, and worse.
static COMPLAINTS: Mutex<String> = Mutex::new(String::new());

/// No kernel since the last call found something wrong with itself.
pub fn assert_no_complaints() {
    let complaints =
        std::mem::take(&mut *COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner));
    assert!(!complaints.contains("cut here"), "{complaints}");
}

/// Tests of one program run on several threads, kernels do not.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel that a test program is for: of `boot` 6.12, of `boot_6_1` 6.1.
pub fn series() -> Series {
    if env!("CARGO_CRATE_NAME").ends_with("_6_1") { Series::Linux61 } else { Series::Linux612 }
}

pub fn parameters() -> Parameters {
    let mut parameters = Parameters::from_host().expect("random bytes");
    parameters.series = series();
    parameters.seed = [7; 32];
    parameters.command_line = "loglevel=5".to_owned();
    parameters.console = Box::new(|text| {
        eprint!("{text}");
        COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    });
    parameters
}

/// A kernel under the host's clock, with its loopback interface up.
pub fn boot() -> Kernel {
    let mut kernel = Kernel::boot(parameters()).expect("boot");
    kernel.set_loopback_up().expect("loopback");
    kernel
}

pub fn boot_at(clock: &FakeClock) -> Kernel {
    let mut parameters = parameters();
    parameters.clock = Box::new(clock.clone());
    let mut kernel = Kernel::boot(parameters).expect("boot");
    kernel.set_loopback_up().expect("loopback");
    kernel
}

/// `struct sockaddr_in` or `sockaddr_in6`.
pub fn raw(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => {
            let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
            bytes.extend(port);
            bytes.extend(v4.ip().octets());
            bytes.extend([0; 8]);
            bytes
        }
        SocketAddr::V6(v6) => {
            let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
            bytes.extend(port);
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
            bytes
        }
    }
}

pub fn family(address: SocketAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

pub fn stream(kernel: &mut Kernel, address: SocketAddr) -> SocketId {
    kernel.socket(family(address), libc::SOCK_STREAM, 0).expect("socket")
}

pub fn listener(kernel: &mut Kernel, address: SocketAddr, protocol: i32) -> SocketId {
    let socket = kernel.socket(family(address), libc::SOCK_STREAM, protocol).expect("socket");
    kernel
        .setsockopt(socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32.to_ne_bytes())
        .expect("SO_REUSEADDR");
    kernel.bind(socket, &raw(address)).expect("bind");
    kernel.listen(socket, 1024).expect("listen");
    socket
}

/// Begins to connect.
pub fn connect(kernel: &mut Kernel, address: SocketAddr, protocol: i32) -> SocketId {
    let socket = kernel.socket(family(address), libc::SOCK_STREAM, protocol).expect("socket");
    match kernel.connect(socket, &raw(address)) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.errno, libc::EINPROGRESS, "{error}"),
    }
    socket
}

/// Connects, and waits until it is.
pub fn connected(kernel: &mut Kernel, address: SocketAddr, protocol: i32) -> SocketId {
    let socket = connect(kernel, address, protocol);
    turn_until(kernel, PATIENCE, |kernel| kernel.poll(socket) & libc::EPOLLOUT as u32 != 0);
    assert_eq!(error_of(kernel, socket), 0);
    socket
}

pub fn send(kernel: &mut Kernel, socket: SocketId, data: &[u8]) -> Result<usize> {
    kernel.send(socket, &[IoSlice::new(data)], 0, None, &[])
}

pub fn receive(kernel: &mut Kernel, socket: SocketId, data: &mut [u8]) -> Result<usize> {
    kernel.receive(socket, &mut [IoSliceMut::new(data)], 0, None)
}

/// `SO_ERROR`.
pub fn error_of(kernel: &mut Kernel, socket: SocketId) -> i32 {
    let mut value = [0; 4];
    kernel.getsockopt(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut value).expect("SO_ERROR");
    i32::from_ne_bytes(value)
}

/// Turns, and sleeps on the interfaces in between, until `done` says so; at most `limit`.
pub fn turn_until(kernel: &mut Kernel, limit: Duration, mut done: impl FnMut(&mut Kernel) -> bool) {
    let end = Instant::now() + limit;
    let mut ready = Vec::new();
    loop {
        ready.clear();
        let more = kernel.turn(&mut ready);
        if done(kernel) {
            return;
        }
        assert!(Instant::now() < end, "it did not happen in {limit:?}");
        if !more {
            wait(kernel, Duration::from_millis(20));
        }
    }
}

/// Until an interface has something, the library's next timer, or `most`.
pub fn wait(kernel: &mut Kernel, most: Duration) {
    let most = kernel.time_left().map_or(most, |left| left.min(most));
    let mut fds: Vec<libc::pollfd> = kernel
        .descriptors()
        .map(|(fd, room)| {
            let events = if room { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
            libc::pollfd { fd, events, revents: 0 }
        })
        .collect();
    if fds.is_empty() {
        thread::sleep(most);
        return;
    }
    let timeout =
        libc::timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
    // SAFETY: the descriptors are those of the kernel's interfaces.
    unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as u64, &timeout, std::ptr::null()) };
}

/// Bytes that tell their place: what is lost, doubled or swapped is seen.
pub fn pattern(at: u64, bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        let position = at + i as u64;
        *byte = (position ^ (position >> 8) ^ (position >> 16).wrapping_mul(31)) as u8;
    }
}

pub fn assert_pattern(at: u64, bytes: &[u8]) {
    let mut expected = vec![0; bytes.len()];
    pattern(at, &mut expected);
    assert!(bytes == expected, "the bytes from {at} on are not those that were sent");
}

/// Sends the pattern and its end; `during` sees how much has been sent.
pub fn send_all(
    kernel: &mut Kernel,
    socket: SocketId,
    total: u64,
    mut during: impl FnMut(&mut Kernel, u64),
) {
    let mut buffer = vec![0; 1 << 16];
    let mut sent = 0;
    turn_until(kernel, PATIENCE, |kernel| {
        while sent < total {
            let size = buffer.len().min((total - sent) as usize);
            pattern(sent, &mut buffer[..size]);
            match send(kernel, socket, &buffer[..size]) {
                Ok(n) => sent += n as u64,
                Err(error) => {
                    assert!(error.would_block(), "{error}");
                    return false;
                }
            }
            during(kernel, sent);
        }
        true
    });
    kernel.shutdown(socket, libc::SHUT_WR).expect("its end");
}

/// A thread of the host that reads the pattern to its end and returns how much it was.
pub fn reader(mut stream: impl Read + Send + 'static) -> JoinHandle<u64> {
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 18];
        let mut at = 0;
        loop {
            let n = stream.read(&mut buffer).expect("read");
            if n == 0 {
                return at;
            }
            assert_pattern(at, &buffer[..n]);
            at += n as u64;
        }
    })
}

/// Turns until that thread has read this much, and no more.
pub fn assert_read(kernel: &mut Kernel, reader: JoinHandle<u64>, total: u64) {
    turn_until(kernel, PATIENCE, |_| reader.is_finished());
    assert_eq!(reader.join().expect("the pattern"), total);
}

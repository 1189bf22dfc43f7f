//! How fast the library is over TAP, beside the host's own stack over TAP.
//!
//! ```text
//! cargo run --release -p transom-netstack --example throughput [SECONDS]
//! ```
//!
//! Needs root: all happens in network namespaces of its own.

#[path = "../tests/bed/mod.rs"]
mod bed;
#[path = "../tests/namespace/mod.rs"]
mod namespace;

use std::io::{IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bed::{connect, listener, receive, send, wait};
use namespace::{HOST4, HOST6, OURS4, in_namespace, run, with_host};
use transom_netstack::{Kernel, Nic, SocketId, Tap};

const CHUNK: usize = 256 << 10;

fn main() {
    let seconds = std::env::args().nth(1).map_or(3, |text| text.parse().expect("SECONDS"));
    let duration = Duration::from_secs(seconds);
    boot_time();
    turn_time();
    with_host(move |kernel, _| library_sends(kernel, duration));
    with_host(move |kernel, _| library_receives(kernel, duration));
    in_namespace(move || host_over_tap(duration));
}

fn boot_time() {
    let _alone = bed::alone();
    let mut times: Vec<_> = (0..20)
        .map(|_| {
            let start = Instant::now();
            drop(bed::boot());
            start.elapsed()
        })
        .collect();
    let first = times[0];
    times.sort();
    let before = resident();
    let kernel = bed::boot();
    println!("memory of an idle kernel with 256 MiB: {} MiB in use", (resident() - before) >> 20);
    drop(kernel);
    println!("boot and halt: first {first:.1?}, median of 20 {:.1?}", times[10]);
}

/// Bytes of memory in use: proc_pid_statm(5).
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What it costs to ask when there is nothing to do, and a round of one byte over the loopback.
fn turn_time() {
    const TURNS: u32 = 200_000;
    let _alone = bed::alone();
    let mut kernel = bed::boot();
    let mut ready = Vec::new();
    let start = Instant::now();
    for _ in 0..TURNS {
        kernel.turn(&mut ready);
    }
    println!("a turn with nothing to do: {:.0?}", start.elapsed() / TURNS);

    let address = "127.0.0.1:5001".parse().unwrap();
    let listener = listener(&mut kernel, address, 0);
    let client = connect(&mut kernel, address, 0);
    kernel.turn(&mut ready);
    let server = kernel.accept(listener).unwrap();
    let start = Instant::now();
    for _ in 0..TURNS {
        send(&mut kernel, client, b"x").unwrap();
        kernel.turn(&mut ready);
        receive(&mut kernel, server, &mut [0; 8]).unwrap();
    }
    println!("a byte over the loopback, sent, turned, received: {:.0?}", start.elapsed() / TURNS);
}

/// CPU time of the calling thread.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(what: &str, bytes: u64, time: Duration, cpu: Duration) {
    let rate = bytes as f64 * 8.0 / time.as_secs_f64() / 1e9;
    let share = cpu.as_secs_f64() / time.as_secs_f64() * 100.0;
    println!("{what}: {rate:.2} Gbit/s, {share:.0} % of a CPU");
}

fn server() -> SocketAddr {
    SocketAddr::new(HOST4.parse().unwrap(), 5001)
}

/// Reads until the end.
fn sink(mut stream: TcpStream) -> u64 {
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return total,
            Ok(n) => total += n as u64,
        }
    }
}

fn source(mut stream: TcpStream, duration: Duration) -> u64 {
    let buffer = vec![0; CHUNK];
    let end = Instant::now() + duration;
    let mut total = 0;
    while Instant::now() < end && stream.write_all(&buffer).is_ok() {
        total += CHUNK as u64;
    }
    total
}

fn library_sends(kernel: &mut Kernel, duration: Duration) {
    let listener = TcpListener::bind(server()).unwrap();
    let socket = connect(kernel, server(), 0);
    bed::turn_until(kernel, duration, |kernel| kernel.poll(socket) & libc::EPOLLOUT as u32 != 0);
    let sink = thread::spawn(move || sink(listener.accept().unwrap().0));
    let buffer = vec![0; CHUNK];
    let (start, before) = (Instant::now(), cpu());
    while start.elapsed() < duration {
        while send(kernel, socket, &buffer).is_ok() {}
        if !kernel.turn(&mut Vec::new()) {
            wait(kernel, Duration::from_millis(1));
        }
    }
    let (time, used) = (start.elapsed(), cpu() - before);
    kernel.close(socket);
    bed::turn_until(kernel, duration, |_| sink.is_finished());
    report("library sends", sink.join().unwrap(), time, used);
}

fn library_receives(kernel: &mut Kernel, duration: Duration) {
    let ours = SocketAddr::new(OURS4.parse().unwrap(), 5001);
    let listener = listener(kernel, ours, 0);
    let source = thread::spawn(move || source(TcpStream::connect(ours).unwrap(), duration));
    let mut socket = None;
    bed::turn_until(kernel, duration, |kernel| {
        socket = kernel.accept(listener).ok();
        socket.is_some()
    });
    let (start, before) = (Instant::now(), cpu());
    let total = drain(kernel, socket.unwrap());
    let (time, used) = (start.elapsed(), cpu() - before);
    source.join().unwrap();
    report("library receives", total, time, used);
}

fn drain(kernel: &mut Kernel, socket: SocketId) -> u64 {
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        loop {
            match receive(kernel, socket, &mut buffer) {
                Ok(0) => return total,
                Ok(n) => total += n as u64,
                Err(_) => break,
            }
        }
        if !kernel.turn(&mut Vec::new()) {
            wait(kernel, Duration::from_millis(1));
        }
    }
}

/// Two namespaces of the host, joined by a thread that copies frames from one TAP to the other: the
/// same devices, with the kernel's stack in the library's place.
fn host_over_tap(duration: Duration) {
    let near = namespace::host_end("peer0", HOST4, HOST6);
    let (there, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (listening, ended) = (there.clone(), done.clone());
    let (give, take) = std::sync::mpsc::channel();
    let far = thread::spawn(move || {
        // SAFETY: of this thread only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        run("ip link set lo up");
        let tap = namespace::host_end("wifi0", OURS4, namespace::OURS6);
        give.send(tap).unwrap();
        let listener = TcpListener::bind((OURS4, 5001)).unwrap();
        listening.store(true, Ordering::Release);
        let total = sink(listener.accept().unwrap().0);
        ended.store(true, Ordering::Release);
        total
    });
    let far_tap = take.recv().unwrap();
    let finished = done.clone();
    let copier = thread::spawn(move || copy(near, far_tap, &finished));
    while !there.load(Ordering::Acquire) {
        thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    source(TcpStream::connect((OURS4, 5001)).unwrap(), duration);
    let total = far.join().unwrap();
    let time = start.elapsed();
    report("host's stack over TAP (CPU: the copying thread)", total, time, copier.join().unwrap());
}

fn copy(mut near: Tap, mut far: Tap, done: &AtomicBool) -> Duration {
    let mut buffer = vec![0; 1 << 17];
    let mut fds = [&near, &far].map(|tap| libc::pollfd {
        fd: tap.descriptor().unwrap().as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    while !done.load(Ordering::Acquire) {
        // SAFETY: both descriptors are open.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, 10) };
        for _ in 0..64 {
            let there = pass(&mut near, &mut far, &mut buffer);
            let back = pass(&mut far, &mut near, &mut buffer);
            if !there && !back {
                break;
            }
        }
    }
    cpu()
}

fn pass(from: &mut Tap, to: &mut Tap, buffer: &mut [u8]) -> bool {
    let Some((size, offload)) = from.receive(buffer) else { return false };
    to.transmit(offload, &[IoSlice::new(&buffer[..size])]);
    true
}

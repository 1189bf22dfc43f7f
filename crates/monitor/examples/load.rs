//! Traffic over loopback for `make bench`: `load MODE SECONDS CONNECTIONS`.
//! Prints how much was moved: bytes/s (bulk, paced), messages/s (small, echo), or connections/s of a
//! request each (connect). With `-` for SECONDS it runs until its input ends, and prints at each line
//! of it how many bytes were moved so far.

use std::io::{Read, Write, stdin};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SMALL: usize = 100;
const BULK: usize = 128 << 10;
/// 1 Gbit/s over each connection, as a program that produces its data at this rate.
const PACED: usize = 62_500;
const PACED_EVERY: Duration = Duration::from_micros(500);

fn pair(listener: &TcpListener) -> std::io::Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

fn send(mut to: TcpStream, size: usize, stop: &AtomicBool) {
    let message = vec![7u8; size];
    while !stop.load(Ordering::Relaxed) && to.write_all(&message).is_ok() {}
}

fn send_paced(mut to: TcpStream, stop: &AtomicBool) {
    let message = vec![7u8; PACED];
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) && to.write_all(&message).is_ok() {
        due += PACED_EVERY;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn receive(mut from: TcpStream, moved: &AtomicU64) {
    let mut buffer = vec![0u8; BULK];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        moved.fetch_add(n as u64, Ordering::Relaxed);
    }
}

fn ask(mut to: TcpStream, moved: &AtomicU64, stop: &AtomicBool) {
    let mut message = [7u8; SMALL];
    while !stop.load(Ordering::Relaxed) {
        if to.write_all(&message).and_then(|()| to.read_exact(&mut message)).is_err() {
            return;
        }
        moved.fetch_add(SMALL as u64, Ordering::Relaxed);
    }
}

fn answer(mut from: TcpStream) {
    let mut message = [0u8; SMALL];
    while from.read_exact(&mut message).and_then(|()| from.write_all(&message)).is_ok() {}
}

/// A request and a reply on a connection of their own, again and again.
fn connect(to: SocketAddr, moved: &AtomicU64, stop: &AtomicBool) {
    let mut message = [7u8; SMALL];
    while !stop.load(Ordering::Relaxed) {
        let answered = TcpStream::connect(to).and_then(|mut stream| {
            stream.write_all(&message).and_then(|()| stream.read_exact(&mut message))
        });
        if answered.is_err() {
            return;
        }
        moved.fetch_add(SMALL as u64, Ordering::Relaxed);
    }
}

fn accept(listener: &TcpListener) {
    for stream in listener.incoming().map_while(Result::ok) {
        answer(stream);
    }
}

/// How many bytes its threads have moved.
fn start(
    mode: &str,
    connections: usize,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<Arc<AtomicU64>> {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0")?);
    let moved = Arc::new(AtomicU64::new(0));
    for _ in 0..connections {
        let (counter, flag) = (Arc::clone(&moved), Arc::clone(stop));
        if mode == "connect" {
            let (to, here) = (listener.local_addr()?, Arc::clone(&listener));
            thread::spawn(move || connect(to, &counter, &flag));
            thread::spawn(move || accept(&here));
            continue;
        }
        let (client, server) = pair(&listener)?;
        if mode == "echo" {
            thread::spawn(move || ask(client, &counter, &flag));
            thread::spawn(move || answer(server));
        } else if mode == "paced" {
            thread::spawn(move || send_paced(client, &flag));
            thread::spawn(move || receive(server, &counter));
        } else {
            let size = if mode == "bulk" { BULK } else { SMALL };
            thread::spawn(move || send(client, size, &flag));
            thread::spawn(move || receive(server, &counter));
        }
    }
    Ok(moved)
}

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, mode, seconds, connections] = words.as_slice() else {
        eprintln!("usage: load bulk|paced|small|echo|connect SECONDS|- CONNECTIONS");
        std::process::exit(2);
    };
    let stop = Arc::new(AtomicBool::new(false));
    let moved = start(mode, connections.parse().expect("CONNECTIONS is a number"), &stop)?;
    if seconds == "-" {
        for _ in stdin().lines() {
            println!("{}", moved.load(Ordering::Relaxed));
        }
        std::process::exit(0)
    }
    let seconds = Duration::from_secs_f64(seconds.parse().expect("SECONDS is a number"));
    // The first tenth is for slow start and warm caches.
    thread::sleep(seconds / 10);
    let (before, began) = (moved.load(Ordering::Relaxed), Instant::now());
    thread::sleep(seconds * 9 / 10);
    let rate = (moved.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    println!("{:.0}", if mode == "bulk" || mode == "paced" { rate } else { rate / SMALL as f64 });
    std::process::exit(0)
}

//! The two programs of a connection: one that sends and one that receives.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::catalogue::{Receive, Send};
use crate::sockets::PATIENCE;

/// Whether a call was only interrupted by its timeout.
fn would_block(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Sends as `options` say until `over`, or the total is sent and acknowledged by a close.
pub fn send(stream: &mut TcpStream, options: &Send, over: &AtomicBool) -> Result<()> {
    let data = vec![b'x'; options.write];
    let began = Instant::now();
    let mut left = options.total.unwrap_or(usize::MAX);
    let mut writes = 0;
    while left > 0 && !over.load(Ordering::Relaxed) {
        let now = data.len().min(left);
        write_all(stream, &data[..now], options.poll, over)?;
        left -= now;
        writes += 1;
        if options.reply > 0 {
            read_all(stream, options.reply, over)?;
        }
        let due = began + Duration::from_millis(options.every_ms * writes);
        sleep_until(due, over);
    }
    if options.total.is_some() {
        stream.shutdown(Shutdown::Write)?;
        read_all(stream, usize::MAX, over)?;
    }
    Ok(())
}

fn sleep_until(due: Instant, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(PATIENCE));
    }
}

fn write_all(
    stream: &mut TcpStream,
    mut data: &[u8],
    polls: bool,
    over: &AtomicBool,
) -> Result<()> {
    if polls {
        stream.set_nonblocking(true)?;
    }
    while !data.is_empty() && !over.load(Ordering::Relaxed) {
        match stream.write(data) {
            Ok(n) => data = &data[n..],
            Err(error) if would_block(&error) => {
                if polls {
                    let patience = Timespec::try_from(PATIENCE)?;
                    poll(&mut [PollFd::new(&*stream, PollFlags::OUT)], Some(&patience))?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads so many bytes, or until the end.
fn read_all(stream: &mut TcpStream, mut bytes: usize, over: &AtomicBool) -> Result<()> {
    let mut buffer = [0; 4096];
    while bytes > 0 && !over.load(Ordering::Relaxed) {
        let most = bytes.min(buffer.len());
        match stream.read(&mut buffer[..most]) {
            Ok(0) => return Ok(()),
            Ok(n) => bytes -= n,
            Err(error) if would_block(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Takes one connection after the other until `over`.
pub fn serve(listener: &TcpListener, send: &Send, options: &Receive, over: &AtomicBool) {
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while !over.load(Ordering::Relaxed) {
        match listener.accept() {
            // The other side decides how the connection ends; a reset is its affair.
            Ok((stream, _)) => drop(receive(stream, send, options, over)),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn receive(mut stream: TcpStream, send: &Send, options: &Receive, over: &AtomicBool) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let (stop, length) =
        (Duration::from_secs_f64(options.stop_at_s), Duration::from_secs_f64(options.stop_s));
    let mut buffer = vec![0; options.read];
    let (mut reads, mut unanswered) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        if !length.is_zero() && began.elapsed() >= stop {
            sleep_until(began + stop + length, over);
        }
        if options.every_ms > 0 {
            reads += 1;
            sleep_until(began + Duration::from_millis(options.every_ms * reads), over);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => unanswered += n,
            Err(error) if would_block(&error) => {}
            Err(error) => return Err(error.into()),
        }
        if send.reply > 0 && unanswered >= send.write {
            unanswered -= send.write;
            stream.write_all(&vec![b'y'; send.reply])?;
        }
    }
    Ok(())
}

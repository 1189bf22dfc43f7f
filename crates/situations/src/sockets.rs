//! TCP sockets with the options of a situation, in a host's namespace.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use transom_lab::hosts::namespace;

use crate::catalogue::{Receive, Send};

/// How long a blocking call waits before it looks whether all is over.
pub const PATIENCE: Duration = Duration::from_millis(100);

fn socket(to: SocketAddr) -> Result<OwnedFd> {
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    Ok(rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

fn option(fd: &OwnedFd, level: i32, name: i32, value: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads `value.len()` bytes from `value`.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    ensure!(result == 0, "setsockopt {name}: {}", std::io::Error::last_os_error());
    Ok(())
}

pub fn listen(host: &str, at: SocketAddr, options: &Receive) -> Result<TcpListener> {
    let fd = namespace::inside(host, || socket(at))??;
    if let Some(bytes) = options.buffer {
        sockopt::set_socket_recv_buffer_size(&fd, bytes)?;
    }
    rustix::net::bind(&fd, &at).with_context(|| format!("binding {at}"))?;
    rustix::net::listen(&fd, 64)?;
    Ok(TcpListener::from(fd))
}

/// `None` if nobody answers in `patience`.
pub fn connect(
    host: &str,
    to: SocketAddr,
    options: &Send,
    patience: Duration,
) -> Result<Option<TcpStream>> {
    let fd = namespace::inside(host, || socket(to))??;
    if let Some(bytes) = options.buffer {
        sockopt::set_socket_send_buffer_size(&fd, bytes)?;
    }
    if let Some(mbit) = options.max_pacing_mbit {
        let bytes = (mbit * 1e6 / 8.0) as u32;
        option(&fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes.to_ne_bytes())?;
    }
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(patience))?;
    match rustix::net::connect(&fd, &to) {
        Ok(()) => {}
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::AGAIN) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("connecting to {to}")),
    }
    if let Some(name) = options.algorithm.as_ref().filter(|_| options.algorithm_before.is_some()) {
        option(&fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())?;
    }
    let stream = TcpStream::from(fd);
    stream.set_nodelay(options.nodelay)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Some(stream))
}

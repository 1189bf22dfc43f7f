//! Connections between namespaces, and the options that provoke what we test.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use super::{Namespace, PATIENCE, Path};

pub type Stream = TcpStream;

static PORT: AtomicU16 = AtomicU16::new(0);

/// A port no other test of this machine is likely to use just now.
pub fn fresh_port() -> u16 {
    let base = 20_000 + (std::process::id() % 300) as u16 * 40;
    base + PORT.fetch_add(1, Ordering::Relaxed) % 40
}

/// A connection from the left end to the right; both ends belong to this process.
pub fn pair(path: &Path) -> (TcpStream, TcpStream) {
    pair_at(&path.left, &path.right, IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), fresh_port())
}

pub fn pair_at(
    client: &Namespace,
    server: &Namespace,
    to: IpAddr,
    port: u16,
) -> (TcpStream, TcpStream) {
    let at = SocketAddr::new(to, port);
    let listener = server.inside(|| TcpListener::bind(at)).expect("a free port");
    let connecting = client.inside(|| TcpStream::connect(at)).expect("the other end listens");
    let (accepted, _) = listener.accept().expect("it connected");
    // A test that fails must not hang.
    for stream in [&connecting, &accepted] {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    }
    (connecting, accepted)
}

/// Connections that lose segments, one that is refused and one that is reset.
pub fn troubled_connections(path: &Path) {
    path.lose(|n| n % 10 == 9);
    let (mut client, mut server) = pair(path);
    send_and_wait(&mut client, &mut server, 200_000);
    let (client, server) = pair(path);
    set_linger_zero(&client);
    drop((client, server));
    let nobody = SocketAddr::from(([10, 77, 0, 2], 9));
    assert!(path.left.inside(|| TcpStream::connect(nobody)).is_err());
}

/// Reads until `bytes` have come.
pub fn receive_all(stream: &mut TcpStream, bytes: usize) {
    let mut left = bytes;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let most = buffer.len().min(left);
        match stream.read(&mut buffer[..most]) {
            Ok(0) => panic!("the connection ended with {left} bytes to come"),
            Ok(n) => left -= n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("the connection holds: {error}"),
        }
    }
}

/// Sends `bytes` and waits until the other program has read them all and said so.
pub fn send_and_wait(sender: &mut TcpStream, receiver: &mut TcpStream, bytes: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            receive_all(receiver, bytes);
            receiver.write_all(b"!").expect("the connection holds");
        });
        sender.write_all(&vec![7; bytes]).expect("the connection holds");
        receive_all(sender, 1);
    });
}

/// Waits until the other end has acknowledged all that was sent.
pub fn settle(stream: &TcpStream) {
    super::wait_for("the last acknowledgment", || {
        let mut unacknowledged = 0i32;
        // SAFETY: SIOCOUTQ (the number of TIOCOUTQ) writes one int.
        let result =
            unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut unacknowledged) };
        result == 0 && unacknowledged == 0
    });
}

pub fn set_option<T: Copy>(stream: &impl AsRawFd, level: i32, name: i32, value: T) {
    let length = size_of::<T>() as libc::socklen_t;
    let from = std::ptr::from_ref(&value).cast();
    // SAFETY: `value` lives and has that length.
    let result = unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, from, length) };
    assert_eq!(result, 0, "option {name}: {}", std::io::Error::last_os_error());
}

pub fn get_option(stream: &impl AsRawFd, level: i32, name: i32) -> i32 {
    let (mut value, mut length) = (0i32, 4);
    let to = std::ptr::from_mut(&mut value).cast();
    // SAFETY: `value` has the length that is told.
    let result = unsafe { libc::getsockopt(stream.as_raw_fd(), level, name, to, &mut length) };
    assert_eq!(result, 0, "option {name}: {}", std::io::Error::last_os_error());
    value
}

/// Closing the stream will send a reset.
pub fn set_linger_zero(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(stream, libc::SOL_SOCKET, libc::SO_LINGER, linger);
}

pub fn set_algorithm(stream: &TcpStream, name: &str) {
    let mut value = [0u8; 16];
    value[..name.len()].copy_from_slice(name.as_bytes());
    set_option(stream, libc::IPPROTO_TCP, libc::TCP_CONGESTION, value);
}

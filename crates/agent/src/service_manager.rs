//! Tells the service manager that the agent runs, or that it ends: one datagram to the socket that
//! systemd names in NOTIFY_SOCKET (sd_notify(3)).

use std::env;
use std::ffi::OsStr;
use std::io::Result;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use transom_output::note;

/// A manager that does not read is left: rows are worth more than its knowledge of us.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Probes are attached and the spool is ours: a connection that ends now has its row.
    Ready,
    Stopping,
}

impl State {
    fn assignment(self) -> &'static str {
        match self {
            State::Ready => "READY=1",
            State::Stopping => "STOPPING=1",
        }
    }
}

/// Does nothing where no manager waits for it, and goes on where it cannot be told.
pub fn tell(state: State) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state.assignment()) {
        note!(
            "{}: telling the service manager {}: {error}; the agent goes on, but a unit of Type=notify waits for this: with Type=simple it does not",
            socket.display(),
            state.assignment(),
        );
    }
}

/// A name with '@' is no file (unix(7), abstract).
fn send(socket: &OsStr, words: &str) -> Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let datagram = UnixDatagram::unbound()?;
    datagram.set_write_timeout(Some(PATIENCE))?;
    datagram.send_to_addr(words.as_bytes(), &address)?;
    Ok(())
}

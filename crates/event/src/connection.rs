//! The two ends of a connection, as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Serialize;

use crate::{Body, Connections, Event, Kind, Open, Origin, Place};

/// Local and remote address of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoints {
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.local, self.remote)
    }
}

/// How this end knows a Multipath TCP connection (RFC 8684 section 3.2); written as `ss` and
/// `ip mptcp` write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Token(pub u32);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

const AF_INET6: u16 = 10;

fn address(bytes: &[u8; 16], family: u16) -> IpAddr {
    if family == AF_INET6 {
        let v6 = Ipv6Addr::from(*bytes);
        return v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4);
    }
    IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
}

/// What a name of 16 bytes says, up to its NUL. One that a program gave itself may hold anything;
/// a terminal must not obey it.
pub fn plain_name(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]);
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A program's name as the kernel keeps it: 15 bytes of it (`TASK_COMM_LEN`), which may end within a
/// character.
pub fn kept_name(name: &str) -> String {
    let mut kept = [0; 16];
    let length = name.len().min(15);
    kept[..length].copy_from_slice(&name.as_bytes()[..length]);
    plain_name(&kept)
}

impl Open {
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            local: SocketAddr::new(address(&self.local_addr, self.family), self.local_port),
            remote: SocketAddr::new(address(&self.remote_addr, self.family), self.remote_port),
        }
    }

    /// Program name of the owner (`task_struct.comm`, 15 characters at most).
    pub fn program(&self) -> String {
        plain_name(&self.comm)
    }

    /// Name of the congestion control algorithm.
    pub fn algorithm(&self) -> String {
        plain_name(&self.algorithm)
    }

    /// The Multipath TCP connection that it is a subflow of.
    pub fn mptcp(&self) -> Option<Token> {
        (self.mptcp != 0).then_some(Token(self.mptcp))
    }
}

/// Which connection a cookie is: learnt from `open` events, known for a while after `close`.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    known: Connections<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    open: Open,
    /// The second number of its `open`: window scaling, which later events do not tell again.
    scaling: u32,
}

impl Directory {
    /// Learns from an event; returns whether it is the first of this connection.
    pub fn learn(&mut self, event: &Event) -> bool {
        let cookie = event.cookie;
        let Body::Open(open) = event.body else {
            if event.kind == Kind::Close {
                self.known.close(cookie);
            }
            return false;
        };
        let opens = event.kind == Kind::Open;
        if opens {
            self.known.open(cookie);
        }
        let is_new = self.known.get(cookie).is_none();
        let known = self.known.get_or(cookie, || Known { open, scaling: 0 });
        known.open = open;
        if opens {
            known.scaling = event.aux[1];
        }
        is_new
    }

    /// Also of a connection that has just closed.
    pub fn get(&self, cookie: u64) -> Option<&Open> {
        self.known.get(cookie).map(|known| &known.open)
    }

    /// An `open` event of this time for each that is open: how a file begins that goes on with
    /// connections of an earlier one.
    pub fn reopened(&self, time_ns: u64) -> impl Iterator<Item = Event> {
        self.known.open_ones().map(move |(cookie, known)| Event {
            time_ns,
            cookie,
            tgid: 0,
            cpu: 0,
            kind: Kind::Open,
            place: Place::Recorder,
            aux: [Origin::Existing as u32, known.scaling],
            body: Body::Open(known.open),
        })
    }

    /// All connections that are open.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Open)> {
        self.known.open_ones().map(|(cookie, known)| (cookie, &known.open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;

    fn event(cookie: u64, kind: Kind) -> Event {
        let body = match kind {
            Kind::Open | Kind::Owner => Body::Open(Open { family: 2, ..Open::default() }),
            _ => Body::State(State::default()),
        };
        let place = Place::SetState;
        Event { time_ns: 7, cookie, tgid: 1, cpu: 0, kind, place, aux: [1, 0], body }
    }

    #[test]
    fn the_reset_that_a_close_sends_is_of_a_known_connection_which_no_file_goes_on_with() {
        let mut directory = Directory::default();
        assert!(directory.learn(&event(7, Kind::Open)));
        for (cookie, kind) in [(7, Kind::Close), (8, Kind::Ack), (7, Kind::Reset), (7, Kind::Owner)]
        {
            assert!(!directory.learn(&event(cookie, kind)));
            assert!(directory.get(7).is_some(), "{kind}");
        }
        assert_eq!(directory.reopened(9).count(), 0);
        assert!(directory.learn(&event(7, Kind::Open)), "the socket connects again");
        assert_eq!(directory.reopened(9).count(), 1);
    }
}

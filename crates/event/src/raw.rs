//! The 128 bytes that leave the kernel (`bpf/event.h`) and the event they say.

use bytemuck::{Pod, Zeroable};

use crate::{CaState, Chrono, Kind, Place, TcpState};

/// Bytes of one record in the ring buffer.
pub const RAW_LEN: usize = 128;

/// `min_rtt_us`, `mdev_us` and `clamp` that are not set.
pub const UNSET: u32 = u32::MAX;

/// Bits of [`State::flags`].
pub mod flags {
    pub const CWND_LIMITED: u8 = 0x01;
    pub const APP_LIMITED: u8 = 0x02;
    pub const CHRONO_SHIFT: u8 = 2;
    pub const AFTER: u8 = 0x10;
    pub const PACED: u8 = 0x20;
    pub const IN_SLOW_START: u8 = 0x40;
    pub const ECN: u8 = 0x80;
}

/// Bit of [`State::send_buffer`]: the program was refused more of it.
pub const WRITE_BLOCKED: u16 = 0x8000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Head {
    /// CLOCK_BOOTTIME, ns.
    pub time_ns: u64,
    /// Socket cookie.
    pub cookie: u64,
    /// Process that last touched the socket; 0 = not known.
    pub tgid: u32,
    pub cpu: u16,
    pub kind: u8,
    pub place: u8,
    pub aux: [u32; 2],
}

/// `struct tcp_sock` and its parents, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct State {
    /// Segments.
    pub cwnd: u32,
    /// Segments; 2147483647 = not set.
    pub ssthresh: u32,
    /// `snd_cwnd_clamp`, segments; [`UNSET`] = not set.
    pub clamp: u32,
    /// Sequence numbers.
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub rcv_nxt: u32,
    /// Bytes.
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// Segments.
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub rto_us: u32,
    pub srtt_us: u32,
    /// Mean deviation of the RTT, as `ss` and TCP_INFO show it; [`UNSET`] = not known.
    pub mdev_us: u32,
    /// [`UNSET`] = not measured.
    pub min_rtt_us: u32,
    /// `sk_wmem_queued`, bytes of memory.
    pub send_queue: u32,
    /// `sk_rmem_alloc`, bytes of memory.
    pub recv_queue: u32,
    /// Written by the program and not yet sent, bytes.
    pub unsent: u32,
    /// Segments.
    pub delivered: u32,
    /// Bytes/s; `u64::MAX` = not limited.
    pub pacing_rate: u64,
    /// `mss_cache`, bytes.
    pub mss: u16,
    pub ca_state: u8,
    pub tcp_state: u8,
    /// See [`flags`].
    pub flags: u8,
    /// `icsk_backoff`: doublings of the RTO.
    pub backoff: u8,
    /// `sk_sndbuf` in KiB, 15 bits; 0 = not recorded; and [`WRITE_BLOCKED`].
    pub send_buffer: u16,
}

impl State {
    /// Segments in flight as `tcp_packets_in_flight` counts them (RFC 6675 "pipe").
    pub fn in_flight(&self) -> u32 {
        self.packets_out
            .saturating_sub(self.sacked_out.saturating_add(self.lost_out))
            .saturating_add(self.retrans_out)
    }

    /// `sk_sndbuf`, bytes of memory, in whole KiB; `None` where it was not recorded.
    pub fn send_buffer_bytes(&self) -> Option<u32> {
        let kib = u32::from(self.send_buffer & !WRITE_BLOCKED);
        (kib > 0).then_some(kib << 10)
    }

    /// The program wants to write more than the send buffer holds (`SOCK_NOSPACE`).
    pub fn is_write_blocked(&self) -> bool {
        self.send_buffer & WRITE_BLOCKED != 0
    }

    /// Sent and not acknowledged, bytes.
    pub fn outstanding(&self) -> u32 {
        self.snd_nxt.wrapping_sub(self.snd_una)
    }

    pub fn ca(&self) -> Option<CaState> {
        CaState::from_number(self.ca_state.into())
    }

    pub fn tcp(&self) -> Option<TcpState> {
        TcpState::from_number(self.tcp_state.into())
    }

    pub fn chrono(&self) -> Chrono {
        Chrono::from_number(u32::from(self.flags >> flags::CHRONO_SHIFT & 3))
            .unwrap_or(Chrono::Idle)
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The slow start threshold, if congestion has ever set one.
    pub fn ssthresh_set(&self) -> Option<u32> {
        (self.ssthresh < i32::MAX as u32).then_some(self.ssthresh)
    }

    /// The limit of the window, if there is one: no window is above 2³¹ − 1 (`tcp_snd_cwnd_set`), and
    /// that is the most that `bpf_setsockopt` puts back.
    pub fn clamp_set(&self) -> Option<u32> {
        (self.clamp < i32::MAX as u32).then_some(self.clamp)
    }

    /// Mean deviation of the RTT, µs; files of format 1 do not have it.
    pub fn mdev(&self) -> Option<u32> {
        (self.mdev_us != UNSET).then_some(self.mdev_us)
    }

    pub fn min_rtt(&self) -> Option<u32> {
        (self.min_rtt_us != UNSET).then_some(self.min_rtt_us)
    }

    pub fn pacing(&self) -> Option<u64> {
        (self.pacing_rate != u64::MAX).then_some(self.pacing_rate)
    }
}

/// Who a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Open {
    /// IPv4 in the first four bytes.
    pub local_addr: [u8; 16],
    pub remote_addr: [u8; 16],
    pub local_port: u16,
    pub remote_port: u16,
    /// Inode number of the network namespace.
    pub netns: u32,
    /// Interface of the route; 0 = not known.
    pub ifindex: u32,
    pub family: u16,
    pub reserved: u16,
    /// cgroup v2 id; 0 = not known.
    pub cgroup: u64,
    pub comm: [u8; 16],
    pub algorithm: [u8; 16],
    /// Token of the Multipath TCP connection that it is a subflow of (RFC 8684); 0 = none.
    pub mptcp: u32,
    pub reserved2: u32,
}

/// The SACK blocks of a segment and the state they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Sack {
    /// Left and right edge.
    pub blocks: [[u32; 2]; 4],
    pub cwnd: u32,
    pub ssthresh: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
    pub packets_out: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    pub ca_state: u8,
    pub tcp_state: u8,
    pub reserved: u16,
    pub reserved2: [u32; 7],
}

/// One record as the kernel wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Raw {
    pub head: Head,
    pub body: [u64; 12],
}

/// One event, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_BOOTTIME, ns.
    pub time_ns: u64,
    /// Socket cookie; 0 for [`Kind::Lost`].
    pub cookie: u64,
    /// Process that last touched the socket; 0 = not known.
    pub tgid: u32,
    pub cpu: u16,
    pub kind: Kind,
    pub place: Place,
    /// See [`Kind`] for what they mean.
    pub aux: [u32; 2],
    pub body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)]
pub enum Body {
    None,
    State(State),
    Open(Open),
    Sack(Sack),
}

/// Which of the bodies a record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    None,
    State,
    Open,
    Sack,
}

impl Kind {
    /// Which body its records have.
    pub const fn body(self) -> BodyKind {
        match self {
            Kind::Open | Kind::Owner | Kind::Algorithm => BodyKind::Open,
            Kind::Sack => BodyKind::Sack,
            Kind::Lost => BodyKind::None,
            _ => BodyKind::State,
        }
    }
}

/// A record that this program does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadEvent {
    Length(usize),
    Kind(u8),
    Place(u8),
}

impl std::fmt::Display for BadEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadEvent::Length(n) => write!(f, "an event has {RAW_LEN} bytes, this one {n}"),
            BadEvent::Kind(k) => write!(f, "unknown kind of event {k}"),
            BadEvent::Place(p) => write!(f, "unknown place of event {p}"),
        }
    }
}

impl std::error::Error for BadEvent {}

impl Raw {
    /// Copies the record out of bytes that need not be aligned.
    pub fn from_bytes(bytes: &[u8]) -> Result<Raw, BadEvent> {
        bytemuck::try_pod_read_unaligned(bytes).map_err(|_| BadEvent::Length(bytes.len()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::bytes_of(self)
    }

    pub fn state(&self) -> &State {
        bytemuck::cast_ref(&self.body)
    }

    pub fn open(&self) -> &Open {
        bytemuck::cast_ref(&self.body)
    }

    pub fn sack(&self) -> &Sack {
        bytemuck::cast_ref(&self.body)
    }
}

impl TryFrom<&Raw> for Event {
    type Error = BadEvent;

    fn try_from(raw: &Raw) -> Result<Event, BadEvent> {
        let head = &raw.head;
        let kind = Kind::from_number(head.kind.into()).ok_or(BadEvent::Kind(head.kind))?;
        let place = Place::from_number(head.place.into()).ok_or(BadEvent::Place(head.place))?;
        let body = match kind.body() {
            BodyKind::Open => Body::Open(*raw.open()),
            BodyKind::Sack => Body::Sack(*raw.sack()),
            BodyKind::None => Body::None,
            BodyKind::State => Body::State(*raw.state()),
        };
        Ok(Event {
            time_ns: head.time_ns,
            cookie: head.cookie,
            tgid: head.tgid,
            cpu: head.cpu,
            kind,
            place,
            aux: head.aux,
            body,
        })
    }
}

impl From<&Event> for Raw {
    fn from(event: &Event) -> Raw {
        let head = Head {
            time_ns: event.time_ns,
            cookie: event.cookie,
            tgid: event.tgid,
            cpu: event.cpu,
            kind: event.kind as u8,
            place: event.place as u8,
            aux: event.aux,
        };
        let body = match &event.body {
            Body::None => [0; 12],
            Body::State(state) => bytemuck::cast(*state),
            Body::Open(open) => bytemuck::cast(*open),
            Body::Sack(sack) => bytemuck::cast(*sack),
        };
        Raw { head, body }
    }
}

impl Event {
    pub fn state(&self) -> Option<&State> {
        match &self.body {
            Body::State(state) => Some(state),
            _ => None,
        }
    }

    pub fn open(&self) -> Option<&Open> {
        match &self.body {
            Body::Open(open) => Some(open),
            _ => None,
        }
    }

    pub fn sack(&self) -> Option<&Sack> {
        match &self.body {
            Body::Sack(sack) => Some(sack),
            _ => None,
        }
    }
}

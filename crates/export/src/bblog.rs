//! The TCP Black Box Log of FreeBSD (`netinet/tcp_log_buf.h`) as pcapng holds it: custom blocks and
//! options of the private enterprise number 10949.
//!
//! All numbers are little-endian, in whatever order the rest of the file is. What Linux or the
//! trace does not have is 0: the record has no other way to leave a field out.

use transom_event::{CaState, State, TcpState, flags};

pub(crate) const ENTERPRISE: u32 = 10_949;

/// Types of custom blocks.
pub(crate) const EVENT_BLOCK: u32 = 1;
pub(crate) const SKIPPED_BLOCK: u32 = 2;

/// Types of custom options.
pub(crate) const VERSION_OPTION: u32 = 1;
pub(crate) const STATE_OPTION: u32 = 2;
pub(crate) const DUMP_OPTION: u32 = 4;

/// `TCP_LOG_BUF_VER`: the layout of the state record below.
pub(crate) const VERSION: u32 = 9;

/// Bytes of a state record and of the dump information.
pub(crate) const STATE_LEN: usize = 268;
pub(crate) const DUMP_LEN: usize = 208;

/// Event identifiers (`enum tcp_log_events`) that something in Linux corresponds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Id {
    In = 1,
    Out = 2,
    Rto = 3,
    EnterRecovery = 15,
    ExitRecovery = 16,
    Cwnd = 17,
    NoBuffers = 42,
    ConnectionEnd = 54,
    /// "User space event data": the comment of the block says what it is.
    User = 59,
}

/// `TLB_FLAG_TXBUF`: the fields of the send buffer are filled in.
const HAS_SEND_BUFFER: u16 = 0x0002;

/// `t_flags` of FreeBSD's `tcpcb`.
const REQUESTED_SCALING: u32 = 0x20;
const RECEIVED_SCALING: u32 = 0x40;
const FAST_RECOVERY: u32 = 0x0010_0000;
const CONGESTION_RECOVERY: u32 = 0x2000_0000;
/// `t_flags2`.
const ECN_PERMITTED: u32 = 0x20;

/// `TCP_MAXWIN << TCP_MAX_WINSHIFT`: no slow start threshold yet.
pub(crate) const SSTHRESH_UNSET: u32 = 65_535 << 14;

/// `ENOBUFS` of FreeBSD: what its TCP meets where the device refuses a segment.
pub(crate) const ENOBUFS: i32 = 55;

/// A state at one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// µs of the clock that the dump information has the offset of.
    pub time_us: u64,
    /// Number of the event in the file.
    pub serial: u32,
    pub id: Id,
    pub errno: i32,
    pub state: &'a State,
    /// Shift counts of the windows that the other side offers and of those offered here.
    pub scaling: Option<[u32; 2]>,
    /// Duplicate ACKs in a row.
    pub dup_acks: u32,
    /// The two numbers of the event, see `transom_event::fields`, where FreeBSD has none of its own.
    pub flex: [u32; 2],
    pub payload: u32,
}

/// FreeBSD's number of a state (`netinet/tcp_fsm.h`).
pub(crate) fn tcp_state(state: Option<TcpState>) -> i32 {
    match state {
        None | Some(TcpState::Close) => 0,
        Some(TcpState::Listen) => 1,
        Some(TcpState::SynSent) => 2,
        Some(TcpState::SynRecv | TcpState::NewSynRecv) => 3,
        Some(TcpState::Established) => 4,
        Some(TcpState::CloseWait) => 5,
        Some(TcpState::FinWait1) => 6,
        Some(TcpState::Closing) => 7,
        Some(TcpState::LastAck) => 8,
        Some(TcpState::FinWait2) => 9,
        Some(TcpState::TimeWait) => 10,
    }
}

/// Segments as bytes; FreeBSD counts its windows in bytes.
pub(crate) fn in_bytes(segments: u32, state: &State) -> u32 {
    segments.saturating_mul(state.mss.into())
}

struct Bytes<const N: usize>([u8; N]);

impl<const N: usize> Bytes<N> {
    fn put<const M: usize>(&mut self, at: usize, bytes: [u8; M]) {
        self.0[at..at + M].copy_from_slice(&bytes);
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at, value.to_le_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, value.to_le_bytes());
    }
}

impl Record<'_> {
    /// `struct tcp_log_buffer`, without the header of a packet.
    pub fn bytes(&self) -> [u8; STATE_LEN] {
        let state = self.state;
        let mut to = Bytes([0; STATE_LEN]);
        to.u64(0, self.time_us / 1_000_000);
        to.u64(8, self.time_us % 1_000_000);
        // Ticks of a kernel with 1000 in a second.
        to.u32(16, (self.time_us / 1000) as u32);
        to.u32(20, self.serial);
        to.put(25, [self.id as u8]);
        to.put(26, HAS_SEND_BUFFER.to_le_bytes());
        to.u32(28, self.errno.cast_unsigned());
        // Available and claimed bytes of the send buffer: here all of it is both.
        let unacknowledged = state.outstanding().saturating_add(state.unsent);
        to.u32(44, unacknowledged);
        to.u32(48, unacknowledged);
        to.u32(56, tcp_state(state.tcp()).cast_unsigned());
        to.u32(68, self.flags());
        to.u32(72, state.snd_una);
        // Linux never takes snd_nxt back: it is the highest number sent, too.
        to.u32(76, state.snd_nxt);
        to.u32(80, in_bytes(state.cwnd, state));
        to.u32(84, state.snd_nxt);
        to.u32(92, state.snd_wnd);
        to.u32(96, state.ssthresh_set().map_or(SSTHRESH_UNSET, |n| in_bytes(n, state)));
        to.u32(100, state.srtt_us);
        to.u32(104, state.mdev().unwrap_or(0));
        to.u32(116, if state.has(flags::ECN) { ECN_PERMITTED } else { 0 });
        to.u32(120, state.rcv_nxt);
        to.u32(124, state.rcv_wnd);
        to.u32(128, self.dup_acks);
        to.u32(140, self.flex[0]);
        to.u32(144, self.flex[1]);
        let [send, receive] = self.scaling.unwrap_or([0, 0]);
        to.put(156, [(send & 0xf | (receive & 0xf) << 4) as u8]);
        to.u32(264, self.payload);
        to.0
    }

    fn flags(&self) -> u32 {
        let recovery = match self.state.ca() {
            Some(CaState::Recovery) => FAST_RECOVERY | CONGESTION_RECOVERY,
            Some(CaState::Cwr) => CONGESTION_RECOVERY,
            _ => 0,
        };
        // Two shift counts of 0 are those of a connection without the option.
        let scaled = self.scaling.is_some_and(|scaling| scaling != [0, 0]);
        recovery | if scaled { REQUESTED_SCALING | RECEIVED_SCALING } else { 0 }
    }
}

/// `struct tcp_log_header` of a log that holds any number of connections: no addresses, and what to
/// add to the times of its records.
pub(crate) fn dump(offset_us: i64, id: &str) -> [u8; DUMP_LEN] {
    let mut to = Bytes([0; DUMP_LEN]);
    to.u32(0, VERSION);
    to.u64(56, offset_us.div_euclid(1_000_000).cast_unsigned());
    to.u64(64, offset_us.rem_euclid(1_000_000).cast_unsigned());
    // A text of 64 bytes with its NUL.
    let bytes = id.as_bytes();
    let length = bytes.len().min(63);
    to.0[72..72 + length].copy_from_slice(&bytes[..length]);
    to.0
}

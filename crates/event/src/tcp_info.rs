//! `struct tcp_info` of the kernel's user API (linux/tcp.h), as sock_diag
//! and TCP_INFO hand it out. The struct only ever grows at its end; what an older kernel
//! does not send reads as 0.

use crate::{State, UNSET, flags};

/// The bytes of one `tcp_info`.
pub struct TcpInfo<'a>(pub &'a [u8]);

/// The kernel's clocks of what it waited for, µs since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    pub busy: u64,
    pub rwnd: u64,
    pub sndbuf: u64,
}

impl TcpInfo<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..at + 8).and_then(|b| b.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }

    /// Since Linux 4.10.
    pub fn waited(&self) -> Waited {
        Waited { busy: self.u64(168), rwnd: self.u64(176), sndbuf: self.u64(184) }
    }

    /// Segments with data that were sent, retransmissions included, and these alone. Since Linux 4.6.
    pub fn segments(&self) -> (u32, u32) {
        (self.u32(156), self.u32(100))
    }

    /// The estimate of the peer's segment size: 0 until a socket has been connected.
    pub fn rcv_mss(&self) -> u32 {
        self.u32(20)
    }

    /// Acknowledged by the peer, and received; since Linux 4.1.
    pub fn bytes(&self) -> (u64, u64) {
        (self.u64(120), self.u64(128))
    }

    /// With retransmissions, and these alone; since Linux 4.19.
    pub fn bytes_sent(&self) -> (u64, u64) {
        (self.u64(200), self.u64(208))
    }

    /// Of any kind, sent and received; since Linux 4.2.
    pub fn all_segments(&self) -> (u32, u32) {
        (self.u32(136), self.u32(140))
    }

    /// Segments with data that were received; since Linux 4.6.
    pub fn data_segments_in(&self) -> u32 {
        self.u32(152)
    }

    /// Delivered with a mark of congestion; since Linux 4.18.
    pub fn delivered_ce(&self) -> u32 {
        self.u32(196)
    }

    /// `dsack_dups` and `reord_seen`; since Linux 4.19.
    pub fn spurious_and_reordered(&self) -> (u32, u32) {
        (self.u32(216), self.u32(220))
    }

    /// Segments that were received out of order; since Linux 5.4.
    pub fn out_of_order(&self) -> u32 {
        self.u32(224)
    }

    /// Of the retransmission timer; since Linux 6.7.
    pub fn timeouts(&self) -> u32 {
        self.u32(240) & 0xffff
    }

    /// The state of the connection as far as TCP_INFO tells it. Sequence
    /// numbers count from the start of the connection; the clamp is not told.
    pub fn state(&self, before: Waited) -> State {
        let now = self.waited();
        let cwnd = self.u32(80);
        let ssthresh = self.u32(76);
        let packets_out = self.u32(24);
        let acked = self.u64(120);
        let sent_once = self.u64(200).saturating_sub(self.u64(208));
        State {
            cwnd,
            ssthresh,
            clamp: UNSET,
            snd_una: acked as u32,
            snd_nxt: acked.max(sent_once) as u32,
            rcv_nxt: self.u64(128) as u32,
            snd_wnd: self.u32(228),
            rcv_wnd: self.u32(232),
            packets_out,
            sacked_out: self.u32(28),
            lost_out: self.u32(32),
            retrans_out: self.u32(36),
            rto_us: self.u32(8),
            srtt_us: self.u32(68),
            mdev_us: self.u32(72),
            min_rtt_us: self.u32(148),
            unsent: self.u32(144),
            delivered: self.u32(192),
            pacing_rate: self.u64(104),
            mss: self.u32(16) as u16,
            ca_state: self.u8(1),
            tcp_state: self.u8(0),
            flags: self.flags(before, now, cwnd, ssthresh, packets_out),
            backoff: self.u8(4),
            ..State::default()
        }
    }

    fn flags(&self, before: Waited, now: Waited, cwnd: u32, ssthresh: u32, out: u32) -> u8 {
        // Rwnd- and sndbuf-limited time is part of the busy time.
        let chrono = if now.rwnd > before.rwnd {
            2
        } else if now.sndbuf > before.sndbuf {
            3
        } else {
            u8::from(now.busy > before.busy)
        };
        let mut bits = chrono << flags::CHRONO_SHIFT;
        if out >= cwnd {
            bits |= flags::CWND_LIMITED;
        }
        if self.u8(7) & 1 != 0 {
            bits |= flags::APP_LIMITED;
        }
        if cwnd < ssthresh {
            bits |= flags::IN_SLOW_START;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_struct_of_an_old_kernel_reads_as_zeros() {
        let mut bytes = vec![0u8; 104];
        bytes[80] = 10;
        let state = TcpInfo(&bytes).state(Waited::default());
        assert_eq!((state.cwnd, state.delivered, state.snd_wnd), (10, 0, 0));
    }

    #[test]
    fn the_kernels_own_clock_says_who_is_waited_for() {
        let mut bytes = vec![0u8; 240];
        bytes[176] = 5;
        bytes[168] = 9;
        let info = TcpInfo(&bytes);
        assert_eq!(info.state(Waited::default()).chrono(), crate::Chrono::ReceiveWindow);
        assert_eq!(info.state(info.waited()).chrono(), crate::Chrono::Idle);
    }
}

//! `struct tcp_info` (`TCP_INFO`), as far as `--status` shows it.

use crate::address::Address;
use crate::stack::PathStatus;

/// `tcpi_state`, by the kernel's numbers (`enum` in net/tcp_states.h), in names of RFC 9293.
const STATES: [&str; 13] = [
    "-",
    "ESTABLISHED",
    "SYN-SENT",
    "SYN-RECEIVED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSED",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "NEW-SYN-RECEIVED",
];

/// A connection by what `getsockopt(TCP_INFO)` answered; fields that the kernel does not give are 0.
/// `accepted` as for [`crate::Stack::paths`].
pub fn path(info: &[u8], accepted: bool, local: Address, remote: Address) -> PathStatus {
    let word = |at: usize| {
        info.get(at..at + 4).map_or(0, |four| u32::from_ne_bytes(four.try_into().expect("four")))
    };
    let long = |at: usize| {
        info.get(at..at + 8).map_or(0, |eight| u64::from_ne_bytes(eight.try_into().expect("eight")))
    };
    // A SYN counts as a byte when it is acknowledged, but not that of a SYN-ACK. So does a FIN, which
    // is not among the bytes sent.
    let acknowledged = long(120).saturating_sub(u64::from(!accepted));
    let sent = info.get(..216).map(|_| long(200).saturating_sub(long(208)));
    let state = info.first().and_then(|state| STATES.get(usize::from(*state))).unwrap_or(&"-");
    PathStatus {
        local,
        remote,
        state,
        cwnd: word(80),
        rtt_us: word(68),
        sent: sent.map_or(acknowledged, |sent| sent.min(acknowledged)),
        received: long(128),
        retransmitted: word(100),
        backup: false,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    fn sent(info: &[u8], accepted: bool) -> u64 {
        path(info, accepted, Address::default(), Address::default()).sent
    }

    #[test]
    fn the_places_are_those_of_the_c_library() {
        assert_eq!(offset_of!(libc::tcp_info, tcpi_rtt), 68);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_snd_cwnd), 80);
        assert_eq!(offset_of!(libc::tcp_info, tcpi_total_retrans), 100);
    }

    #[test]
    fn syn_and_fin_are_no_bytes() {
        let mut info = vec![0; 216];
        for (at, value) in [(120, 1002u64), (200, 1200), (208, 200)] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        assert_eq!(sent(&info, false), 1000, "1200 with what was retransmitted");
        // Kernels before 4.19 do not tell what was sent, and so not of the FIN.
        assert_eq!(sent(&info[..200], false), 1001);
    }

    #[test]
    fn a_syn_is_no_byte_while_data_is_on_the_way_either() {
        let mut info = vec![0; 216];
        for (at, value) in [(120, 501u64), (200, 1000)] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        assert_eq!(sent(&info, false), 500);
        assert_eq!(sent(&info, true), 501, "a SYN-ACK does not count");
        info[120] = 0;
        info[121] = 0;
        assert_eq!(sent(&info, false), 0, "before the handshake");
    }

    #[test]
    fn an_answer_that_ends_early_is_read_as_far_as_it_goes() {
        let mut info = vec![0; 84];
        info[0] = 1;
        info[80] = 10;
        let path = path(&info, false, Address::default(), Address::default());
        assert_eq!((path.state, path.cwnd, path.sent), ("ESTABLISHED", 10, 0));
    }
}

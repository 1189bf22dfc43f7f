//! Options of sockets (getsockopt(2), setsockopt(2)) with which a kernel reaches beyond the value that
//! it is given: one that comes from another process must not be passed on as it is.

use crate::netlink::number;

/// linux/tcp.h
pub const TCP_ZEROCOPY_RECEIVE: i32 = 35;
const TCP_AO_GET_KEYS: i32 = 41;
/// linux/socket.h, linux/mptcp.h
const SOL_MPTCP: i32 = 284;
const MPTCP_FULL_INFO: i32 = 4;
/// linux/sctp.h
const SCTP_SOCKOPT_CONNECTX3: i32 = 111;

/// `struct ip_msfilter` up to its list, of which each entry is a `struct in_addr`.
const IP_FILTER: Counted = Counted { count_at: 12, head: 16, entry: 4 };
/// The same of `struct group_filter` and `struct sockaddr_storage`.
const GROUP_FILTER: Counted = Counted { count_at: 140, head: 144, entry: 128 };
/// Where `struct tcp_ao_getsockopt` tells how many of its like are asked for, and then how many there
/// are. The length of the value is that of one.
const KEYS_AT: usize = 272;

/// Values of `getsockopt` that say themselves how many entries the kernel may write behind their head.
struct Counted {
    count_at: usize,
    head: usize,
    entry: usize,
}

impl Counted {
    fn of(level: i32, name: i32) -> Option<Counted> {
        match (level, name) {
            (libc::IPPROTO_IP, libc::IP_MSFILTER) => Some(IP_FILTER),
            (libc::IPPROTO_IP | libc::IPPROTO_IPV6, libc::MCAST_MSFILTER) => Some(GROUP_FILTER),
            _ => None,
        }
    }

    fn entries(&self, room: usize) -> usize {
        room.saturating_sub(self.head) / self.entry
    }

    /// The kernel itself refuses a value that is shorter than the head.
    fn fits(&self, value: &[u8], room: usize) -> bool {
        count(value, self.count_at) <= self.entries(room)
    }
}

/// The kernel writes the number also where the value ends before it.
fn one_key_fits(value: &[u8]) -> bool {
    value.len() >= KEYS_AT + 4 && count(value, KEYS_AT) <= 1
}

fn count(value: &[u8], at: usize) -> usize {
    number(value.get(at..).unwrap_or_default()) as usize
}

/// Whether the option's value, set or got, holds addresses of memory: the kernel would follow them in
/// the process that asks, whoever wrote them.
pub fn holds_pointers(level: i32, name: i32) -> bool {
    match level {
        // With the first one's number a filter is got, its length in instructions instead of bytes.
        libc::SOL_SOCKET => {
            matches!(name, libc::SO_ATTACH_FILTER | libc::SO_ATTACH_REUSEPORT_CBPF)
        }
        libc::IPPROTO_TCP => name == TCP_ZEROCOPY_RECEIVE,
        libc::IPPROTO_SCTP => name == SCTP_SOCKOPT_CONNECTX3,
        SOL_MPTCP => name == MPTCP_FULL_INFO,
        // The tables of iptables, arptables and ebtables, whose counters lie elsewhere.
        libc::IPPROTO_IP => matches!(name, 64 | 65 | 96 | 97 | 128..=131),
        libc::IPPROTO_IPV6 => matches!(name, 64 | 65),
        _ => false,
    }
}

/// Whether a kernel that is given this option stays within the value, of which `getsockopt` reads the
/// bytes too.
///
/// # Errors
/// It would not; the error number to answer instead.
pub fn check(level: i32, name: i32, value: &[u8]) -> Result<(), i32> {
    if holds_pointers(level, name) {
        return Err(libc::ENOPROTOOPT);
    }
    if (level, name) == (libc::IPPROTO_TCP, TCP_AO_GET_KEYS) && !one_key_fits(value) {
        return Err(libc::EOPNOTSUPP);
    }
    match Counted::of(level, name) {
        Some(counted) if !counted.fits(value, value.len()) => Err(libc::EINVAL),
        _ => Ok(()),
    }
}

/// Of a value of `room` bytes that was cut to these, and had room for what it asks for: it asks for no
/// more than it has room for now. The kernel answers with the number that there are.
pub fn ask_for_less(level: i32, name: i32, value: &mut [u8], room: usize) {
    let Some(counted) = Counted::of(level, name) else { return };
    let left = counted.entries(value.len());
    if counted.fits(value, room) && left < count(value, counted.count_at) {
        value[counted.count_at..][..4].copy_from_slice(&(left as u32).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many bytes, of which those at `at` are the number.
    fn value(length: usize, at: usize, number: u32) -> Vec<u8> {
        let mut value = vec![0; length];
        value[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        value
    }

    #[test]
    fn a_filter_of_sources_has_room_for_as_many_as_it_asks_for() {
        let ip =
            |length, number| check(libc::IPPROTO_IP, libc::IP_MSFILTER, &value(length, 12, number));
        assert_eq!((ip(16, 0), ip(56, 10), ip(200, 10)), (Ok(()), Ok(()), Ok(())));
        assert_eq!((ip(16, 1), ip(55, 10)), (Err(libc::EINVAL), Err(libc::EINVAL)));
        for level in [libc::IPPROTO_IP, libc::IPPROTO_IPV6] {
            let group =
                |length, number| check(level, libc::MCAST_MSFILTER, &value(length, 140, number));
            assert_eq!((group(144, 0), group(144 + 1280, 10)), (Ok(()), Ok(())));
            for (length, number) in [(144, 1), (144, 64), (144 + 1279, 10), (144, u32::MAX)] {
                assert_eq!(group(length, number), Err(libc::EINVAL), "{length} {number}");
            }
        }
    }

    #[test]
    fn a_value_that_was_cut_asks_for_what_it_still_has_room_for() {
        let asked = |length, number, room| {
            let mut value = value(length, 140, number);
            ask_for_less(libc::IPPROTO_IP, libc::MCAST_MSFILTER, &mut value, room);
            count(&value, 140)
        };
        assert_eq!(asked(144 + 5 * 128, 9, 144 + 9 * 128), 5);
        assert_eq!(asked(144 + 5 * 128, 4, 144 + 9 * 128), 4);
        // It had none before.
        assert_eq!(asked(144 + 5 * 128, 10, 144 + 9 * 128), 10);
        assert_eq!(asked(144 + 5 * 128, 6, 144 + 5 * 128), 6);
        ask_for_less(libc::IPPROTO_IP, libc::MCAST_MSFILTER, &mut [0xff; 8], 8);
    }

    #[test]
    fn one_key_has_room_and_more_have_not() {
        let keys = |number| check(libc::IPPROTO_TCP, TCP_AO_GET_KEYS, &value(288, 272, number));
        assert_eq!((keys(0), keys(1), keys(2)), (Ok(()), Ok(()), Err(libc::EOPNOTSUPP)));
        let cut = check(libc::IPPROTO_TCP, TCP_AO_GET_KEYS, &[0; 275]);
        assert_eq!(cut, Err(libc::EOPNOTSUPP), "the number of keys lies behind it");
    }

    /// The kernel knows what to say.
    #[test]
    fn a_value_that_is_too_short_for_a_number_is_the_kernels_affair() {
        for (level, name) in
            [(libc::IPPROTO_IP, libc::IP_MSFILTER), (libc::IPPROTO_IP, libc::MCAST_MSFILTER)]
        {
            assert_eq!(check(level, name, &[0xff; 8]), Ok(()));
            assert_eq!(check(level, name, &[]), Ok(()));
        }
    }

    #[test]
    fn options_with_pointers_are_refused_whatever_the_value() {
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (libc::IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE),
            (libc::IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX3),
            (SOL_MPTCP, MPTCP_FULL_INFO),
            (libc::IPPROTO_IP, 129),
        ] {
            assert_eq!(check(level, name, &[]), Err(libc::ENOPROTOOPT), "{level} {name}");
        }
        for (level, name) in [
            (libc::SOL_SOCKET, libc::SO_ERROR),
            (libc::IPPROTO_TCP, libc::TCP_INFO),
            (libc::IPPROTO_IP, libc::IP_RECVERR),
        ] {
            assert_eq!(check(level, name, &[0xff; 512]), Ok(()), "{level} {name}");
        }
    }
}

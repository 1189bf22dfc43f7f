//! How much memory the library has, and how much of it TCP's buffers may take.

use transom_machine::cgroup;

/// On the smallest host, and on the largest. Hundreds of connections whose buffers are full fit into
/// the largest one.
const LEAST: u64 = 256 << 20;
const MOST: u64 = 1 << 30;
/// The library does not start with less.
const SMALLEST: u64 = 16 << 20;
/// Of the memory that there is, so that a phone is not filled by one program's buffers.
const SHARE: u64 = 8;
/// The same, as a limit: in a small container the program needs memory, too.
const LARGEST_SHARE: u64 = 2;
/// Linux counts TCP's memory in them.
const PAGE: usize = 4096;

/// In bytes. It is taken from the host only where it is written to.
pub fn of_the_library() -> usize {
    let host = rustix::system::sysinfo();
    let bytes = u64::from(host.mem_unit).saturating_mul(host.totalram as u64);
    share_of(cgroup::memory_limit().map_or(bytes, |limit| limit.min(bytes)))
}

fn share_of(all: u64) -> usize {
    let share = (all / SHARE).clamp(LEAST, MOST);
    share.min(all / LARGEST_SHARE).max(SMALLEST) as usize
}

/// The three numbers of tcp_mem: a quarter of the memory, three eighths, half of it. Linux takes a
/// tenth, since a host has other uses. Beyond that the receiver drops what arrives, and of MPTCP also
/// what a connection waits for: with enough connections at once none of them goes on.
pub fn for_tcp(memory: usize) -> String {
    let pages = memory / PAGE;
    format!("{} {} {}", pages / 4, pages / 8 * 3, pages / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_gives_an_eighth_of_its_memory_within_bounds() {
        assert_eq!(share_of(1 << 30), 256 << 20);
        assert_eq!(share_of(4 << 30), 512 << 20);
        assert_eq!(share_of(64 << 30), 1 << 30);
    }

    #[test]
    fn the_program_keeps_half_of_a_small_container() {
        assert_eq!(share_of(512 << 20), 256 << 20);
        assert_eq!(share_of(256 << 20), 128 << 20);
        assert_eq!(share_of(8 << 20), 16 << 20);
    }

    #[test]
    fn buffers_of_tcp_take_at_most_half_of_it() {
        assert_eq!(for_tcp(1 << 30), "65536 98304 131072");
    }
}

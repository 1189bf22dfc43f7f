//! How much memory the library has, and how much of it TCP's buffers may take.

/// On the smallest host, and on the largest. Hundreds of connections whose buffers are full fit into
/// the largest one.
const LEAST: u64 = 256 << 20;
const MOST: u64 = 1 << 30;
/// Of the host's memory, so that a phone is not filled by one program's buffers.
const SHARE: u64 = 8;
/// Linux counts TCP's memory in them.
const PAGE: usize = 4096;

/// In bytes. It is taken from the host only where it is written to.
pub fn of_the_library() -> usize {
    let host = rustix::system::sysinfo();
    let bytes = u64::from(host.mem_unit).saturating_mul(host.totalram as u64);
    share_of(bytes)
}

fn share_of(host: u64) -> usize {
    (host / SHARE).clamp(LEAST, MOST) as usize
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
    fn buffers_of_tcp_take_at_most_half_of_it() {
        assert_eq!(for_tcp(1 << 30), "65536 98304 131072");
    }
}

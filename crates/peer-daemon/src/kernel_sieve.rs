//! The sieve in the kernel (`bpf/sieve.bpf.c`): a filter of the socket, which ends with it.
//!
//! A datagram that it drops costs no copy, no place in the socket's buffer and no wake-up.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use libbpf_rs::Object;
use transom_machine::objects::{self, map, per_cpu_sum, program_fd, put_settings};
use transom_peers::seal::{MOST_SEALED, OVERHEAD, VERSION};
use transom_peers::{Drops, MOST_PER_SECOND};

use crate::link::Early;

pub struct KernelSieve {
    object: Object,
}

impl KernelSieve {
    /// From now on the socket receives only what begins with the topic, bears a mark of this key,
    /// and is neither replayed nor part of a flood.
    ///
    /// # Errors
    /// No CAP_BPF, or a kernel without BPF or older than 5.3.
    pub fn attach(socket: &UdpSocket, topic: &str, mark_key: [u8; 16]) -> Result<KernelSieve> {
        let mut open = objects::sieve::open()?;
        put_settings(&mut open, &settings(topic, mark_key))?;
        let object = open.load().context("loading the socket's filter (it needs CAP_BPF)")?;
        let program = program_fd(&object, "sieve")?.as_raw_fd();
        // SAFETY: the option takes a descriptor, which is open for the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_BPF,
                (&raw const program).cast(),
                size_of_val(&program) as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(std::io::Error::last_os_error()).context("attaching the socket's filter");
        }
        Ok(KernelSieve { object })
    }

    /// What it dropped so far.
    ///
    /// # Errors
    /// The kernel refuses to read its counters.
    pub fn early(&self) -> Result<Early> {
        let verdicts = map(&self.object, "verdicts")?;
        let count = |slot| per_cpu_sum(&verdicts, slot).context("reading the filter's counters");
        let drops = Drops { foreign: count(2)?, replayed: count(3)?, flood: count(4)? };
        Ok(Early { others: count(1)?, drops })
    }
}

/// `struct sieve_settings`.
fn settings(topic: &str, mark_key: [u8; 16]) -> Vec<u8> {
    let numbers = [VERSION.into(), OVERHEAD as u32, MOST_SEALED as u32, MOST_PER_SECOND, 0];
    let numbers: Vec<u8> = numbers.into_iter().flat_map(u32::to_ne_bytes).collect();
    [&mark_key, topic.as_bytes(), &numbers].concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use transom_peers::seal::{GroupKey, Seal};
    use transom_peers::wire::Session;
    use transom_peers::{Dropped, Sieve};
    use transom_testbed::{needs_root, wait_for};

    use super::*;

    const TOPIC: &str = "0123456789ab";

    /// A socket with the filter, and the sieve of user space that it must equal.
    struct Both {
        socket: UdpSocket,
        kernel: KernelSieve,
        seal: Seal,
        user: Sieve,
    }

    fn seal(key: u8) -> Seal {
        Seal::new(&GroupKey::new([key; 32]), "an access point")
    }

    fn both() -> Both {
        let (socket, seal) = (UdpSocket::bind("127.0.0.1:0").unwrap(), seal(7));
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let kernel = KernelSieve::attach(&socket, TOPIC, seal.mark_key()).unwrap();
        Both { socket, kernel, user: Sieve::new(seal.clone()), seal }
    }

    impl Both {
        /// Datagrams that the filter let through, and that it has seen.
        fn judged(&self) -> (u64, u64) {
            let verdicts = map(&self.kernel.object, "verdicts").unwrap();
            let counts = [0, 1, 2, 3, 4].map(|slot| per_cpu_sum(&verdicts, slot).unwrap());
            (counts[0], counts.iter().sum())
        }

        /// What the kernel lets through of a datagram, if it does.
        fn passes(&self, datagram: &[u8]) -> Option<Vec<u8>> {
            let (passed, seen) = self.judged();
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            from.send_to(datagram, self.socket.local_addr().unwrap()).unwrap();
            wait_for("the filter to see it", || self.judged().1 > seen);
            (self.judged().0 > passed).then(|| {
                let mut buffer = [0; 4096];
                let length = self.socket.recv(&mut buffer).expect("what passed is queued");
                buffer[..length].to_vec()
            })
        }

        /// Whether both let it through, which must be the same, and the same whole datagram.
        fn agree(&mut self, sealed: &[u8]) -> Result<(), Dropped> {
            let datagram = [TOPIC.as_bytes(), sealed].concat();
            let before = self.kernel.early().unwrap().drops;
            let passed = self.passes(&datagram);
            let user = self.user.sift(Duration::ZERO, sealed);
            assert_eq!(passed, user.is_ok().then_some(datagram), "{sealed:02x?}");
            let after = self.kernel.early().unwrap().drops;
            let counted = Drops {
                foreign: before.foreign + u64::from(user == Err(Dropped::Foreign)),
                replayed: before.replayed + u64::from(user == Err(Dropped::Replayed)),
                ..before
            };
            assert_eq!(after, counted);
            user
        }
    }

    #[test]
    fn the_kernel_lets_through_messages_of_every_length_and_nothing_else() {
        needs_root!();
        let mut both = both();
        for length in (0..80).chain([500, 1099, 1100, 1101]) {
            let session = Session(0xfedc_ba98_7654_3210 + length as u64);
            let sealed = both.seal.close(session, 0xfedc_ba98, &vec![0x5a; length]);
            let expected = if length <= 1100 { Ok(()) } else { Err(Dropped::Foreign) };
            assert_eq!(both.agree(&sealed), expected, "{length}");
            assert!(both.agree(&sealed).is_err(), "a second time");
        }
    }

    #[test]
    fn a_changed_bit_or_a_missing_byte_is_foreign_wherever_it_is() {
        needs_root!();
        let mut both = both();
        let sealed = both.seal.close(Session(1), 1, b"a report of thirty-one bytes...");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(both.agree(&changed), Err(Dropped::Foreign), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(both.agree(&sealed[..length]), Err(Dropped::Foreign), "{length} bytes");
        }
        assert_eq!(both.agree(&[&sealed[..], &[0]].concat()), Err(Dropped::Foreign));
        assert_eq!(
            both.agree(&seal(8).close(Session(1), 1, b"of another key")),
            Err(Dropped::Foreign)
        );
        assert_eq!(both.agree(&sealed), Ok(()));
    }

    #[test]
    fn replays_are_dropped_session_by_session() {
        needs_root!();
        let mut both = both();
        for (session, counter, expected) in [
            (1, 5, Ok(())),
            (1, 5, Err(Dropped::Replayed)),
            (1, 4, Err(Dropped::Replayed)),
            (2, 0, Ok(())),
            (1, 6, Ok(())),
            (2, 0, Err(Dropped::Replayed)),
            (2, u32::MAX, Ok(())),
            (2, 7, Err(Dropped::Replayed)),
        ] {
            let sealed = both.seal.close(Session(session), counter, b"a report");
            assert_eq!(both.agree(&sealed), expected, "{session} {counter}");
        }
    }

    #[test]
    fn other_topics_are_counted_and_a_flood_of_one_session_cuts_off_that_session_alone() {
        needs_root!();
        let both = both();
        let message = |session, counter| {
            let sealed = both.seal.close(Session(session), counter, b"a report");
            [TOPIC.as_bytes(), &sealed].concat()
        };
        for other in [b"".as_slice(), b"0123456789a", b"0123456789aB and more"] {
            assert_eq!(both.passes(other), None);
        }
        assert_eq!(both.kernel.early().unwrap().others, 3);
        let passed = (0..200).filter(|&n| both.passes(&message(1, n)).is_some()).count();
        // More than one second may have begun meanwhile.
        assert!(passed >= MOST_PER_SECOND as usize && passed < 200, "{passed}");
        assert_eq!(both.kernel.early().unwrap().drops.flood, 200 - passed as u64);
        assert!(both.passes(&message(2, 0)).is_some());
    }
}

//! Frames between two hosts: made by hand, by another stack, and waited for.

// Each test file uses its own part of this.
#![allow(dead_code)]

pub mod packets;
pub mod stack;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_nic::{MOST_BYTES, Nic, Received, VnetHeader};
use transom_testbed::Namespace;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// An Ethernet link between two hosts, up at both ends, with 10.99.0.N and fd99::N, N = 1 and 2.
pub fn link(first: (&Namespace, &str), second: (&Namespace, &str)) {
    transom_testbed::link(
        (first.0, first.1, &["10.99.0.1/24", "fd99::1/64"]),
        (second.0, second.1, &["10.99.0.2/24", "fd99::2/64"]),
    );
}

/// Waits for something to read; false after `patience`.
pub fn wait(descriptor: impl AsFd, patience: Duration) -> bool {
    let mut one = [PollFd::new(&descriptor, PollFlags::IN)];
    let time = Timespec::try_from(patience).expect("a short time");
    poll(&mut one, Some(&time)).expect("poll") > 0
}

/// The next frame that `wanted` wants; none after `patience`.
pub fn next_frame(
    nic: &mut dyn Nic,
    patience: Duration,
    wanted: impl Fn(&[u8]) -> bool,
) -> Option<(VnetHeader, Vec<u8>)> {
    let end = Instant::now() + patience;
    let mut buffer = vec![0; MOST_BYTES];
    loop {
        match nic.receive(&mut buffer) {
            Received::Frame { header, length } if wanted(&buffer[..length]) => {
                return Some((header, buffer[..length].to_vec()));
            }
            Received::Frame { .. } => {}
            Received::Nothing => {
                let left = end.checked_duration_since(Instant::now())?;
                wait(nic.descriptor(), left);
            }
            other => panic!("{other:?}"),
        }
    }
}

//! A path without Ethernet, as a cellular interface is: raw IP between two TUN interfaces.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transom_nic::{MOST_BYTES, Mode, Nic, Received, Tun};

use super::Bed;

/// The wire between them; cut when it is dropped.
pub struct Wire {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Path `n` of the bed: `c<n>` and `s<n>` with the addresses of an Ethernet path.
pub fn add_raw_path(bed: &Bed, n: u8) -> Wire {
    let ends = [(&bed.client, 'c', 1), (&bed.server, 's', 2)].map(|(host, side, last)| {
        let name = format!("{side}{n}");
        let tun = host.inside(|| Tun::create(&name, Mode::Tun, false)).expect("a TUN interface");
        host.ip(&format!("addr add 10.70.{n}.{last}/24 dev {name}"));
        host.ip(&format!("addr add fd70:{n}::{last}/64 dev {name} nodad"));
        tun
    });
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    Wire { stop, thread: Some(std::thread::spawn(move || carry(ends, &told))) }
}

fn carry([mut a, mut b]: [Tun; 2], stop: &AtomicBool) {
    let mut buffer = vec![0; MOST_BYTES];
    while !stop.load(Ordering::Relaxed) {
        let mut both = [&a, &b].map(readable);
        let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let _ = poll(&mut both, Some(&soon));
        forward(&mut a, &mut b, &mut buffer);
        forward(&mut b, &mut a, &mut buffer);
    }
}

fn readable(tun: &Tun) -> PollFd<'_> {
    PollFd::from_borrowed_fd(tun.descriptor(), PollFlags::IN)
}

fn forward(from: &mut Tun, to: &mut Tun, buffer: &mut [u8]) {
    while let Received::Frame { header, length } = from.receive(buffer) {
        to.transmit(&header, &[IoSlice::new(&buffer[..length])]);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

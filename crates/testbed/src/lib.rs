//! Real kernels on both ends of a path of ours, and witnesses of what passed.
//!
//! Every namespace, process and file goes when its value is dropped, also when
//! a test fails.

mod disk;
#[cfg(feature = "programs")]
pub mod lab;
pub mod layout;
#[cfg(feature = "programs")]
mod machine;
mod multicast;
mod multipath;
mod namespace;
mod path;
mod program;
mod prometheus;
mod puppet;
mod python;
#[cfg(feature = "programs")]
mod recording;
mod refusal;
mod segment;
mod skip;
mod sockets;
mod spinning;
mod talking;
#[cfg(feature = "programs")]
pub mod tuned;
mod wire;
mod witness;

pub use disk::SmallDisk;
#[cfg(feature = "programs")]
pub use machine::{hides_process_one, where_all_is_seen};
pub use multicast::SourceFilter;
pub use multipath::{TwoPaths, multipath_listener, multipath_stream};
pub use namespace::{Namespace, host_and_port, link, run};
pub use path::{Fate, Path, Towards, on_a_path_in_time};
pub use program::{Cgroup, Client, copy, own_comm, write_script};
pub use prometheus::{NATIVE, Prometheus};
pub use puppet::{Puppet, ROUND_TRIP};
pub use python::{python_for, python_with};
#[cfg(feature = "programs")]
pub use recording::{Recording, Trace, copy_transom, enters, transom, transom_of_nobody};
pub use refusal::Refusal;
pub use segment::{ACK, FIN, RST, SYN, Segment};
pub use skip::{chromium, find_program, has, is_required, kernel_is_since, skip};
pub use sockets::{
    Stream, fresh_port, get_option, pair, pair_at, receive_all, send_and_wait, set_algorithm,
    set_linger_zero, set_option, settle, troubled_connections,
};
pub use spinning::Spinning;
pub use talking::Talking;
pub use wire::Wire;
pub use witness::{Capture, Counters, device_drops, interrupt, queue_drops, socket_statistics};

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// How long anything is waited for. An emulated machine whose processors others use takes a minute to
/// start a recorder, and several where a program is refused; only a test that fails waits to the end.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Polls until `done` says so; what was waited for is named if it never comes.
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited {} s for {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test, and again if it fails and the machine has an excuse for it, five times in all.
fn again_with(excuse: impl Fn() -> Option<String>, test: impl Fn()) {
    for left in (0..5).rev() {
        let Err(failure) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        match excuse() {
            Some(excuse) if left > 0 => eprintln!("once more: {excuse}"),
            _ => resume_unwind(failure),
        }
    }
}

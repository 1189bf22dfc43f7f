//! Loads the probes, picks the best the kernel offers, yields events.

pub mod clock;
mod existing;
mod filter;
mod journal;
#[cfg(test)]
mod layout;
pub mod namespace;
mod probes;
mod process_one;
mod program_stats;
mod rings;
mod sampler;
mod session;
mod settings;
mod shared;
mod skeleton;
mod source;
mod survey;
mod tcp_info;

pub use filter::{
    Filter, MAX_VALUES, Prefix, cgroup2_mount, interface_index, netns_inode, netns_path,
};
pub use journal::{DEFAULT_ENTRIES, Journal, MOST_ENTRIES};
pub use probes::{Candidate, Need, PURPOSES, Purpose, Tier};
pub use process_one::ProcessOne;
pub use program_stats::ProgramStats;
pub use sampler::Sampler;
pub use session::{DEFAULT_RING_BYTES, Monitor, Options, Rate};
pub use shared::{SHARED, load_sharing};
pub use source::Source;
pub use survey::{BPFFS_PATH, BTF_PATH, Choice, Fact, Survey, bpffs_is_mounted, kernel_release};

/// Keeps libbpf's own messages, the verifier's among them, off the terminal
/// unless `TRANSOM_DEBUG` is set.
pub fn quiet_libbpf() {
    if std::env::var_os("TRANSOM_DEBUG").is_none() {
        libbpf_rs::set_print(None);
    }
}

//! Loads the probes, picks the best the kernel offers, yields events.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod btf;
mod capture;
pub mod clock;
mod existing;
mod filter;
mod fit;
mod journal;
#[cfg(test)]
mod layout;
pub mod owner;
mod pace;
mod presence;
mod privilege;
mod probes;
mod process_one;
mod rings;
mod sampler;
mod session;
mod settings;
pub mod sock_diag;
mod source;
mod survey;

pub use btf::BTF_PATH;
pub use capture::{Capture, Captured, Packets};
pub use filter::{Filter, MAX_VALUES};
pub use journal::{DEFAULT_ENTRIES, Journal, MOST_ENTRIES};
pub use privilege::is_refusal;
pub use probes::{Candidate, Need, PURPOSES, Purpose, Tier};
pub use process_one::ProcessOne;
pub use sampler::Sampler;
pub use session::{DEFAULT_RING_BYTES, Monitor, MonitorOptions, Rate};
pub use source::Source;
pub use survey::{Choice, Fact, Survey, kernel_release};

//! The machine we run on: BPF objects, maps and iterators, network namespaces, bpffs, cgroups,
//! locks and signals.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bpffs;
pub mod cgroup;
pub mod iterator;
pub mod lock;
pub mod namespace;
pub mod objects;
mod program_stats;
mod shared;
pub mod signals;
pub mod workload;

pub use program_stats::{ProgramStats, missed, program_stats};
pub use shared::load_sharing;

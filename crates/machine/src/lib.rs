//! The machine we run on: BPF objects, maps and iterators, processes, network namespaces, bpffs, cgroups,
//! SELinux, locks and signals.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod bpffs;
pub mod cgroup;
pub mod iterator;
pub mod lock;
pub mod namespace;
pub mod objects;
pub mod processes;
mod program_stats;
pub mod relay;
pub mod selinux;
mod shared;
pub mod signals;
pub mod workload;

pub use program_stats::{ProgramStats, missed, program_stats};
pub use shared::load_sharing;

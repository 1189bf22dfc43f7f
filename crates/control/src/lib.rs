//! The lever: policies turned into actions on connections, and their undoing.
//!
//! A [`policy::Policy`] is read and checked as a whole, an [`engine::Engine`]
//! holds it in the kernel and over the running connections, and what was there
//! before comes back when the engine goes, or by the next one's start.

#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod backend;
mod contract;
pub mod decide;
pub mod engine;
pub mod hand;
mod kernel_scope;
mod machine;
mod names;
pub mod policy;
pub mod routes;
pub mod scope;
pub mod stability;
mod steady;

pub use transom_guard as guard;

pub use contract::{
    ONE, PROGRAMS, Parameters, RULES, RawRule, Seen, Tuned, VALUES, Wish, name16, text16,
};
pub use engine::{Change, Engine, Outcome};
pub use kernel_scope::{KernelScope, available_algorithms};
pub use machine::{loadable_algorithms, send_memory};
pub use policy::{Draft, Policy};
pub use scope::Scope;

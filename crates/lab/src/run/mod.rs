//! Running experiments: one run ([`once`]), and all runs of a file ([`campaign`]).

mod begun;
pub mod campaign;
pub(crate) mod companions;
mod emulation;
pub mod fingerprint;
mod ledger;
pub mod once;
pub(crate) mod peers;
mod policies;
mod precision;
mod real_time;
mod recorders;
mod virtual_time;

pub use campaign::{Means, Order, Summary};
pub use emulation::{Carrier, plan};

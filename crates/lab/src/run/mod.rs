//! Running experiments: one run ([`once`]), and all runs of a file ([`campaign`]).

pub mod campaign;
mod companions;
mod emulation;
pub mod fingerprint;
pub mod once;
pub(crate) mod peers;
mod policies;
mod recorders;

pub use campaign::{Order, Summary};
pub use emulation::Carrier;

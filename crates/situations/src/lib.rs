//! Connections with a known cause, built over real kernels, and how often the verdict names it.
//!
//! [`catalogue`] says what is built, [`run`] builds and records one, [`score`] asks
//! `transom explain --json` and compares.

pub mod catalogue;
mod network;
mod programs;
mod recorder;
pub mod run;
pub mod score;
mod sockets;

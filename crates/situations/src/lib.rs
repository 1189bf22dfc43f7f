//! Connections with a known cause, built over real kernels, and how often the verdict names it.
//!
//! [`catalogue`] says what is built; [`draw`] draws more, whose cause `label` computes. [`run`] builds and records one, [`score`] asks
//! `transom explain --json` and compares.

pub mod batch;
pub mod catalogue;
mod companion;
pub mod draw;
mod label;
mod network;
pub mod pairs;
mod policy;
pub mod predicted;
mod programs;
pub mod run;
pub mod score;
mod sockets;

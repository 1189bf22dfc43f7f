//! Emulated air and path between network namespaces: pure elements in logical
//! time, and the one thread that carries real packets through them.
//!
//! [`plan::Plan`] says what to emulate. [`Network`] is that in logical time, without any I/O;
//! [`start`] makes it real: it takes one TAP device per host ([`transom_link::tun`]) and carries
//! packets until [`Running::stop`] gives the [`log::Log`]. The model and its sources: `docs/air.md`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod air;
mod clock;
mod cross;
mod delay;
mod driver;
mod fading;
mod gateway;
mod ht;
mod ip;
mod lateness;
pub mod log;
mod loss;
mod managed;
mod network;
mod packet;
mod phy;
pub mod plan;
mod policer;
mod port;
mod queue;
mod random;
mod rate;
mod running;
mod sampler;
mod sender;
mod server;
mod stage;
mod thread;
mod window;

pub use network::{Delivery, Network};
pub use packet::{Body, Frame, Nanos, mark};
pub use random::Stream;
pub use running::{Running, start};

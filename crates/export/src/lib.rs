//! Events in the formats of other tools: pcapng with FreeBSD's TCP Black Box Log for Wireshark,
//! track events for Perfetto, qlog for qvis. Pure: events in, bytes out.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bblog;
pub mod beside;
mod blackbox;
mod headers;
mod origin;
mod owners;
mod packets;
mod pcapng;
pub mod perfetto;
mod phrase;
mod protobuf;
pub mod qlog;
mod trackevent;

pub use blackbox::{BlackBox, Packet};
pub use origin::Origin;
pub use owners::{Owner, Owners};

//! Events in the formats of other tools: pcapng with FreeBSD's TCP Black Box Log for Wireshark,
//! track events for Perfetto, qlog for qvis. Pure: events in, bytes out.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod bblog;
mod blackbox;
mod origin;
mod packets;
mod pcapng;
pub mod perfetto;
mod phrase;
mod protobuf;
pub mod qlog;
mod trackevent;

pub use blackbox::BlackBox;
pub use origin::Origin;

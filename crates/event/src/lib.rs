//! What an event is: its layout, its units and its text forms. No I/O, no BPF.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod action;
mod called;
mod connection;
mod connections;
pub mod errors;
pub mod fields;
mod losses;
mod names;
mod prefix;
mod raw;
pub mod tcp_info;
pub mod text;

pub use action::Action;
pub use called::Names;
pub use connection::{Directory, Endpoints, Token, kept_name, plain_name};
pub use connections::Connections;
pub use losses::Losses;
pub use names::{
    Algorithm, CaState, Chrono, Direction, Kind, LossCause, Origin, Place, Reason,
    RetransmitReason, RtoCause, TcpState,
};
pub use prefix::Prefix;
pub use raw::{
    BadEvent, Body, BodyKind, Event, Head, Open, RAW_LEN, Raw, Sack, State, UNSET, WRITE_BLOCKED,
    flags,
};

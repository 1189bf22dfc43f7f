//! Linux's network stack as a library: TCP, UDP, MPTCP of another kernel than the host's, in this
//! process, under its own clock.
//!
//! ```text
//! sockets, options, /proc ──► Kernel ──► liblinux.a (linux/, C) ──► Nic (TAP, packet sockets, …)
//!                               ▲                        │
//!                               └── ready sockets ◄──────┘
//! ```
//!
//! Nothing here blocks, starts a thread or looks at the time by itself: whoever owns the
//! [`Kernel`] calls [`Kernel::turn`] when a NIC has frames and at [`Kernel::deadline`].
//!
//! One [`Kernel`] of each [`Series`] at a time in a process, for the kernel's variables are the
//! program's; when it is dropped, all it had is gone, and the next one boots from nothing. It may move
//! between threads.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod boot;
mod clock;
mod error;
mod frame;
mod genetlink;
mod host;
mod kernel;
mod mptcp;
mod netlink;
mod nic;
mod route;
mod series;
mod socket;
mod sys;
mod tap;
mod trace;

pub use boot::{Console, Parameters};
pub use clock::{Clock, FakeClock, SystemClock};
pub use error::{Error, Result};
pub use frame::{Frame, FrameNic};
pub use host::HostId;
pub use kernel::Kernel;
pub use mptcp::{Endpoint, EndpointFlags};
pub use nic::{Link, Nic, NicId, NicParameters, Transmitted};
pub use route::{Metrics, Route};
pub use series::Series;
pub use socket::{Message, SocketId};
pub use tap::Tap;
pub use trace::{EVENT_BYTES, Events};
pub use transom_link::VnetHeader;

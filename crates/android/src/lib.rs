//! Transom on an Android phone. The host has `adb`; the device needs nothing installed.
//!
//! ```text
//! host                                device
//! adb, device   ── adb shell ──►  sh, su
//! program       ── adb push ───►  /data/local/tmp/transom
//! attended, recording, clock ──►  `transom android on-device …` (ondevice/)
//! ```
//!
//! What needs more than a shell's own words is done by our own program on the device, so that
//! nothing depends on which tools a phone has.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod adb;
mod attended;
mod call;
mod checksum;
mod clock;
mod device;
mod elf;
pub mod ondevice;
mod program;
mod recording;
mod root;
mod selinux;
mod shell;

pub use adb::Adb;
pub use attended::{attend, on_terminal};
pub use clock::{Relation, Relations};
pub use device::{Device, Facts};
pub use elf::Machine;
pub use program::{Installed, Program, remove};
pub use recording::{Lying, Order, Watching};
pub use root::Root;
pub use selinux::denials;

/// Where a shell of Android may write and run.
pub const FOLDER: &str = "/data/local/tmp";

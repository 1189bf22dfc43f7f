//! Links as the kernel offers them to a program: TAP and TUN devices, the virtio-net header before
//! their frames, the Ethernet header, and netlink messages. And which options of sockets a kernel must
//! not be asked for with another process's bytes.

use anyhow::{Result, ensure};

pub mod ethernet;
pub mod netlink;
mod network;
pub mod options;
mod parts;
pub mod tun;
mod vnet;

pub use network::same_network;
pub use parts::{beginning, behind, length};
pub use vnet::{Segmentation, VnetHeader};

/// # Errors
/// No interface can have this name; the message says what is allowed.
pub fn check_name(name: &str) -> Result<()> {
    ensure!(is_name(name), "interface name {name:?}: 1 to 15 bytes, no space, slash or colon");
    Ok(())
}

/// Whether an interface may have this name: the kernel's `dev_valid_name`.
pub fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte != b'/' && byte != b':' && byte != 0 && !byte.is_ascii_whitespace();
    !name.is_empty()
        && name.len() < libc::IFNAMSIZ
        && !matches!(name, "." | "..")
        && name.bytes().all(good)
}

//! Which process holds a socket, as far as /proc lets us look.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// By the inode of a socket: a process that holds it, and its `comm`.
pub type Owners = HashMap<u32, (u32, [u8; 16])>;

/// The owners of those of these sockets that a process holds; one walk over all open files, which
/// ends when all are found.
pub fn owners(inodes: &HashSet<u32>) -> Owners {
    let mut found = Owners::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if found.len() == inodes.len() {
            break;
        }
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let held: Vec<u32> =
            sockets(&process.path()).filter(|inode| inodes.contains(inode)).collect();
        if !held.is_empty() {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name = padded(name.trim_end());
            for inode in held {
                found.entry(inode).or_insert((pid, name));
            }
        }
    }
    found
}

/// Inodes of the sockets that a process has open.
fn sockets(process: &Path) -> impl Iterator<Item = u32> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.filter_map(|file| {
        let link = fs::read_link(file.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// A name as the kernel keeps it: at most 15 bytes and a zero.
pub fn padded(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let length = text.len().min(15);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_process_that_holds_a_socket_is_found_and_a_socket_of_nobody_is_not() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let text = link.to_str().unwrap();
        let inode: u32 = text["socket:[".len()..text.len() - 1].parse().unwrap();
        let found = owners(&HashSet::from([inode, u32::MAX]));
        assert_eq!(found.keys().collect::<Vec<_>>(), [&inode]);
        assert_eq!(found[&inode].0, std::process::id());
    }
}

//! `SIOCETHTOOL`: what an interface's driver tells. The request holds a pointer to more, of a length
//! that each command has for itself.

use crate::errno::{Errno, Result};
use crate::memory::{Memory, Piece};
use crate::system;

/// Where `struct ifreq` has the pointer.
const POINTER: usize = 16;
/// No value of [`READS`] is longer.
const ROOM: usize = 4096;

/// `linux/ethtool.h`: `ETHTOOL_GSET`, `GDRVINFO`, `GMSGLVL`, `GLINK`, `GCOALESCE`, `GRINGPARAM`,
/// `GPAUSEPARAM`, `GRXCSUM`, `GTXCSUM`, `GSG`, `GTSO`, `GPERMADDR`, `GUFO`, `GGSO`, `GFLAGS`,
/// `GPFLAGS`, `GGRO`, `GCHANNELS`, `GET_TS_INFO`, `GEEE`, `GLINKSETTINGS`, `GFECPARAM`: all that only
/// read, need no privilege and have a value of limited length.
const READS: [u32; 22] = [
    0x01, 0x03, 0x07, 0x0a, 0x0e, 0x10, 0x12, 0x14, 0x16, 0x18, 0x1e, 0x20, 0x21, 0x23, 0x25, 0x27,
    0x2b, 0x3c, 0x41, 0x44, 0x4c, 0x50,
];

/// Asks the host about its interface. What the kernel has written is what differs afterwards: only that
/// is written to the program, which may have no more room.
pub fn ask(request: u32, interface: &mut [u8], memory: Memory) -> Result<()> {
    let pointer = interface[POINTER..].first_chunk().map_or(0, |field| u64::from_ne_bytes(*field));
    let mut value = [0; ROOM];
    let copied = memory.gather(&pages(pointer), &mut value)?;
    let command = value.first_chunk().map(|command| u32::from_ne_bytes(*command));
    if copied < 4 {
        return Err(Errno(libc::EFAULT));
    }
    if !command.is_some_and(|command| READS.contains(&command)) {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let before = value;
    let ours = value.as_mut_ptr() as u64;
    interface[POINTER..POINTER + 8].copy_from_slice(&ours.to_ne_bytes());
    let asked = system::ask_about_interface(request, interface);
    interface[POINTER..POINTER + 8].copy_from_slice(&pointer.to_ne_bytes());
    asked?;
    let changed = |at: &usize| value[*at] != before[*at];
    let (Some(first), Some(last)) = ((0..ROOM).find(changed), (0..ROOM).rfind(changed)) else {
        return Ok(());
    };
    memory.write(pointer + first as u64, &value[first..=last])
}

/// All of it that may be there: the second page may be none of the program's.
fn pages(pointer: u64) -> [Piece; 2] {
    let first = ROOM - pointer as usize % ROOM;
    let second = Piece { address: pointer.wrapping_add(first as u64), len: ROOM - first };
    [Piece { address: pointer, len: first }, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIOCETHTOOL: u32 = 0x8946;
    const ETHTOOL_GDRVINFO: u32 = 0x03;
    const ETHTOOL_GSTRINGS: u32 = 0x1b;

    fn own() -> Memory {
        Memory(std::process::id() as i32)
    }

    fn interface(name: &str, value: &mut [u8]) -> Vec<u8> {
        let mut interface = vec![0; 40];
        interface[..name.len()].copy_from_slice(name.as_bytes());
        interface[POINTER..POINTER + 8].copy_from_slice(&(value.as_mut_ptr() as u64).to_ne_bytes());
        interface
    }

    /// `tun` and `lo` tell little, but their driver's name they do, from byte 4 on.
    #[test]
    fn a_driver_tells_its_name_and_nothing_behind_its_value_is_touched() {
        const LENGTH: usize = 196;
        let mut value = [0xee; LENGTH + 60];
        value[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        let mut interface = interface("lo", &mut value);
        let before = interface.clone();
        let asked = ask(SIOCETHTOOL, &mut interface, own());
        assert_eq!(interface, before, "the program's pointer is its own again");
        // The kernel has written through another pointer.
        let value = std::hint::black_box(&value);
        assert!(value[LENGTH..].iter().all(|byte| *byte == 0xee));
        match asked {
            Ok(()) => assert_ne!(value[4], 0xee),
            Err(errno) => assert_eq!(errno.0, libc::EOPNOTSUPP, "a kernel whose lo has no driver"),
        }
    }

    #[test]
    fn what_may_be_longer_than_our_room_is_refused_and_what_is_not_there_is_a_fault() {
        let mut value = ETHTOOL_GSTRINGS.to_ne_bytes();
        let refused = ask(SIOCETHTOOL, &mut interface("lo", &mut value), own());
        assert_eq!(refused.unwrap_err().0, libc::EOPNOTSUPP);
        let mut nowhere = interface("lo", &mut value);
        nowhere[POINTER..POINTER + 8].copy_from_slice(&8u64.to_ne_bytes());
        assert_eq!(ask(SIOCETHTOOL, &mut nowhere, own()).unwrap_err().0, libc::EFAULT);
    }
}

//! The BSSID of the access point that a wireless interface belongs to, from the kernel's nl80211.
//!
//! Two questions of generic netlink: the family's number, and the stations of the interface; a
//! client's only station is its access point.

use std::ffi::CString;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// linux/nl80211.h
const NL80211_CMD_GET_STATION: u8 = 17;
const NL80211_ATTR_IFINDEX: u16 = 3;
const NL80211_ATTR_MAC: u16 = 6;

const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// None when the interface is not wireless, not associated, or the kernel does not say.
pub fn bssid(interface: &str) -> Option<String> {
    let name = CString::new(interface).ok()?;
    // SAFETY: the name ends with 0.
    let index = Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|&index| index != 0)?;
    let mut socket = Socket::new(NETLINK_GENERIC).ok()?;
    socket.bind_auto().ok()?;
    socket.connect(&SocketAddr::new(0, 0)).ok()?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"nl80211\0");
    let family = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_REQUEST, &name)
        .and_then(|answer| find(&answer, CTRL_ATTR_FAMILY_ID))?;
    let family = u16::from_ne_bytes(family.get(..2)?.try_into().ok()?);
    let index = attribute(NL80211_ATTR_IFINDEX, &index.to_ne_bytes());
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    let answer = ask(&socket, family, NL80211_CMD_GET_STATION, flags, &index)?;
    hardware_address(&find(&answer, NL80211_ATTR_MAC)?)
}

fn hardware_address(bytes: &[u8]) -> Option<String> {
    let six: [u8; 6] = bytes.try_into().ok()?;
    let pairs: Vec<String> = six.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(pairs.join(":"))
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn request(family: u16, command: u8, flags: u16, attributes: &[u8]) -> Vec<u8> {
    let length = (HEADER + GENERIC_HEADER + attributes.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// The attributes of the first answer.
fn ask(socket: &Socket, family: u16, command: u8, flags: u16, with: &[u8]) -> Option<Vec<u8>> {
    socket.send(&request(family, command, flags, with), 0).ok()?;
    let mut buffer = Vec::with_capacity(1 << 15);
    socket.recv(&mut buffer, 0).ok()?;
    let answer = first_answer(&buffer)?.to_vec();
    // The end of a dump, or the acknowledgment, which nobody needs.
    let _ = socket.set_non_blocking(true);
    while {
        buffer.clear();
        socket.recv(&mut buffer, 0).is_ok()
    } {}
    let _ = socket.set_non_blocking(false);
    Some(answer)
}

fn first_answer(bytes: &[u8]) -> Option<&[u8]> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    if kind == NLMSG_ERROR || kind == NLMSG_DONE {
        return None;
    }
    bytes.get(HEADER + GENERIC_HEADER..length)
}

/// The value of the first attribute of a kind.
fn find(attributes: &[u8], wanted: u16) -> Option<Vec<u8>> {
    let mut rest = attributes;
    while let Some(header) = rest.get(..4) {
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two upper bits say that it is nested or in network order.
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value.to_vec());
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_among_the_attributes_of_an_answer() {
        let attributes = [
            attribute(NL80211_ATTR_IFINDEX, &3u32.to_ne_bytes()),
            attribute(NL80211_ATTR_MAC, &[2, 0, 0, 0xab, 0, 1]),
        ];
        let answer = request(30, NL80211_CMD_GET_STATION, 0, &attributes.concat());
        let found = find(first_answer(&answer).unwrap(), NL80211_ATTR_MAC).unwrap();
        assert_eq!(hardware_address(&found).as_deref(), Some("02:00:00:ab:00:01"));
    }

    #[test]
    fn damaged_or_foreign_answers_say_nothing() {
        assert_eq!(first_answer(&[]), None);
        assert_eq!(first_answer(&[255; 19]), None);
        assert_eq!(find(&[200, 0, 6, 0, 1], NL80211_ATTR_MAC), None);
        assert_eq!(find(&[0, 0, 0, 0, 0, 0, 0, 0], NL80211_ATTR_MAC), None);
        assert_eq!(hardware_address(&[1, 2, 3]), None);
    }

    #[test]
    fn an_interface_that_is_not_wireless_has_no_bssid() {
        assert_eq!(bssid("lo"), None);
    }

    /// The kernel's own families are always there: the control family names itself.
    #[test]
    fn the_kernel_tells_the_number_of_a_family() {
        let mut socket = Socket::new(NETLINK_GENERIC).unwrap();
        socket.bind_auto().unwrap();
        socket.connect(&SocketAddr::new(0, 0)).unwrap();
        let name = attribute(CTRL_ATTR_FAMILY_NAME, b"nlctrl\0");
        let answer = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_REQUEST, &name).unwrap();
        let number = find(&answer, CTRL_ATTR_FAMILY_ID).unwrap();
        assert_eq!(u16::from_ne_bytes([number[0], number[1]]), GENL_ID_CTRL);
    }
}

//! Netlink (RFC 3549, netlink(7)): messages and their attributes, and a socket to the host's kernel.

mod address;
mod socket;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

pub use address::Address;
pub use socket::{Netlink, route_socket, sock_diag_socket};

pub const HEADER: usize = 16;
pub const NLM_F_ACK: u16 = libc::NLM_F_ACK as u16;
pub const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
pub const NLM_F_REPLACE: u16 = libc::NLM_F_REPLACE as u16;
pub const NLM_F_EXCL: u16 = libc::NLM_F_EXCL as u16;
pub const NLM_F_CREATE: u16 = libc::NLM_F_CREATE as u16;
const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const NLMSG_DONE: u16 = libc::NLMSG_DONE as u16;
/// The attribute contains attributes (linux/netlink.h).
const NLA_F_NESTED: u16 = libc::NLA_F_NESTED as u16;
/// linux/genetlink.h: the controller, and the header of every family.
const GENL_ID_CTRL: u16 = libc::GENL_ID_CTRL as u16;
const CTRL_CMD_GETFAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;
const CTRL_ATTR_FAMILY_ID: u16 = libc::CTRL_ATTR_FAMILY_ID as u16;
const CTRL_ATTR_FAMILY_NAME: u16 = libc::CTRL_ATTR_FAMILY_NAME as u16;
pub const GENERIC_HEADER: usize = 4;

/// One message, without its header.
#[derive(Debug)]
pub struct Message {
    pub kind: u16,
    pub body: Vec<u8>,
}

/// What a message means to the sender of the request.
pub enum Answer {
    /// One of the requested objects.
    Body,
    /// The end of a dump, or an acknowledgment.
    Done,
    Refused(Errno),
}

impl Message {
    pub fn answer(&self) -> Answer {
        // A dump that failed says so where it ends.
        let code = self.body.get(..4).map(|_| self.u32(0) as i32);
        match (self.kind, code) {
            (NLMSG_ERROR | NLMSG_DONE, Some(0)) | (NLMSG_DONE, None) => Answer::Done,
            (NLMSG_ERROR | NLMSG_DONE, Some(code @ -4095..0)) => {
                Answer::Refused(Errno::from_raw_os_error(-code))
            }
            (NLMSG_ERROR | NLMSG_DONE, _) => Answer::Refused(Errno::PROTO),
            _ => Answer::Body,
        }
    }

    /// The attributes after the fixed part, which has `length` bytes.
    pub fn attributes(&self, length: usize) -> Attributes<'_> {
        Attributes(self.body.get(length.next_multiple_of(4)..).unwrap_or_default())
    }

    pub fn u32(&self, at: usize) -> u32 {
        number(self.body.get(at..).unwrap_or_default())
    }

    pub fn u16(&self, at: usize) -> u16 {
        match self.body.get(at..at + 2) {
            Some(bytes) => u16::from_ne_bytes([bytes[0], bytes[1]]),
            None => 0,
        }
    }

    pub fn u8(&self, at: usize) -> u8 {
        self.body.get(at).copied().unwrap_or(0)
    }
}

/// The first four bytes as a number; 0 if there are fewer.
pub fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// An address; its length determines the family.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(four).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|sixteen| Ipv6Addr::from(sixteen).into())
}

pub fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// Attributes as pairs of kind (without flags) and value, up to the first that is cut off.
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let head = self.0.get(..4)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The upper bits are flags: nested, network byte order.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

/// A request under construction.
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend(body);
        Request { bytes }
    }

    /// Asks the controller for the number of the family with this name ([`family_number`]).
    pub fn family(name: &str) -> Request {
        Request::generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0).text(CTRL_ATTR_FAMILY_NAME, name)
    }

    /// A request to a family of generic netlink.
    pub fn generic(family: u16, command: u8, flags: u16) -> Request {
        Request::new(family, flags, &[command, 1, 0, 0])
    }

    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        self.align();
        let length = (4 + value.len()) as u16;
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self
    }

    /// A string, with the 0 at its end.
    pub fn text(self, kind: u16, text: &str) -> Request {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat())
    }

    pub fn nested(mut self, kind: u16, fill: impl FnOnce(Request) -> Request) -> Request {
        self.align();
        let start = self.bytes.len();
        self = fill(self.attribute(kind | NLA_F_NESTED, &[]));
        let size = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&size.to_ne_bytes());
        self
    }

    fn add_flags(&mut self, flags: u16) {
        let flags = flags | u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.align();
        let size = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&size.to_ne_bytes());
        self.bytes
    }
}

/// The number in the answer to [`Request::family`].
pub fn family_number(answer: &Message) -> Option<u16> {
    let mut attributes = answer.attributes(GENERIC_HEADER);
    let (_, value) = attributes.find(|&(kind, _)| kind == CTRL_ATTR_FAMILY_ID)?;
    Some(u16::from_ne_bytes(value.try_into().ok()?))
}

/// The complete messages of a datagram, with their flags.
pub fn messages(mut bytes: &[u8]) -> Vec<(u16, Message)> {
    let mut found = Vec::new();
    while bytes.len() >= HEADER {
        let length = number(bytes) as usize;
        let Some(body) = bytes.get(HEADER..length) else { break };
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        let flags = u16::from_ne_bytes([bytes[6], bytes[7]]);
        found.push((flags, Message { kind, body: body.to_vec() }));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_attribute_may_contain_attributes() {
        let request = Request::new(16, 0, &[])
            .attribute(1, b"abc")
            .nested(2, |inner| inner.attribute(3, &7u32.to_ne_bytes()).attribute(4, &[]));
        let bytes = request.finish();
        assert_eq!(bytes.len() % 4, 0);
        let read: Vec<_> = Attributes(&bytes[HEADER..]).collect();
        assert_eq!(read[0], (1, &b"abc"[..]));
        assert_eq!(read[1].0, 2);
        let inner: Vec<_> = Attributes(read[1].1).collect();
        assert_eq!(inner, [(3, &7u32.to_ne_bytes()[..]), (4, &[][..])]);
    }

    #[test]
    fn a_message_that_is_cut_off_is_not_read() {
        let bytes = Request::new(16, 0, &[]).attribute(1, b"abcdefgh").finish();
        for cut in 0..bytes.len() {
            let _ = Attributes(&bytes[..cut]).count();
            assert!(messages(&bytes[..cut]).is_empty());
        }
    }

    #[test]
    fn an_error_number_is_an_error() {
        let of = |body: &[u8]| Message { kind: NLMSG_ERROR, body: body.to_vec() }.answer();
        assert!(matches!(of(&(-libc::EEXIST).to_ne_bytes()), Answer::Refused(Errno::EXIST)));
        assert!(matches!(of(&[0; 4]), Answer::Done));
        assert!(matches!(of(&[0; 3]), Answer::Refused(Errno::PROTO)));
        let failed = Message { kind: NLMSG_DONE, body: (-libc::EOPNOTSUPP).to_ne_bytes().into() };
        assert!(matches!(failed.answer(), Answer::Refused(Errno::OPNOTSUPP)));
    }

    proptest! {
        #[test]
        fn any_attributes_are_read_as_they_were_written(
            written in vec((0u16..0x3fff, vec(any::<u8>(), 0..50)), 0..10),
        ) {
            let request = written.iter().fold(Request::new(16, 0, &[]), |request, (kind, value)| {
                request.attribute(*kind, value)
            });
            let bytes = request.finish();
            let read: Vec<_> =
                Attributes(&bytes[HEADER..]).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn any_messages_are_read_as_they_were_written(
            written in vec((16u16.., 0u16.., vec(any::<u8>(), 0..50)), 0..10),
        ) {
            let request = |(kind, flags, body): &(u16, u16, Vec<u8>)| Request::new(*kind, *flags, body);
            let datagram: Vec<u8> = written.iter().map(request).flat_map(Request::finish).collect();
            let read = messages(&datagram);
            prop_assert_eq!(read.len(), written.len());
            for ((flags, message), (kind, given, body)) in read.iter().zip(&written) {
                prop_assert_eq!((message.kind, *flags), (*kind, given | NLM_F_REQUEST));
                // The padding that the next message needs counts as the body's.
                prop_assert_eq!(&message.body[..body.len()], &body[..]);
                prop_assert!(message.body[body.len()..].iter().all(|&byte| byte == 0));
                prop_assert_eq!(message.body.len(), body.len().next_multiple_of(4));
            }
        }

        #[test]
        fn an_address_is_read_as_it_was_written(ip: IpAddr, length in 0usize..20) {
            prop_assert_eq!(address(&address_bytes(ip)), Some(ip));
            prop_assert_eq!(address(&vec![0; length]).is_some(), length == 4 || length == 16);
        }

        #[test]
        fn no_bytes_make_the_reader_panic_or_run_on(bytes: Vec<u8>, code: [u8; 4]) {
            for kind in [NLMSG_ERROR, NLMSG_DONE] {
                let _ = Message { kind, body: code.into() }.answer();
            }
            prop_assert!(Attributes(&bytes).count() <= bytes.len() / 4);
            for (_, message) in messages(&bytes) {
                prop_assert!(message.attributes(16).count() <= bytes.len() / 4);
            }
        }
    }
}

//! Netlink to the library's kernel: requests of RFC 3549's form, answered at once.

use std::io::{IoSlice, IoSliceMut};

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::socket::SocketId;

pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_ACK: u16 = 4;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_CREATE: u16 = 0x400;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;

/// An attribute holds others (linux/netlink.h).
const NLA_F_NESTED: u16 = 1 << 15;

/// The sockets to the kernel, made when first needed.
#[derive(Default)]
pub(crate) struct Netlink {
    sockets: Vec<(i32, SocketId)>,
}

/// A request under construction.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
        bytes.extend(body);
        Self { bytes }
    }

    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.align();
        self.bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self
    }

    pub fn nested(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        self.align();
        let start = self.bytes.len();
        self = fill(self.attribute(kind | NLA_F_NESTED, &[]));
        let size = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&size.to_ne_bytes());
        self
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.align();
        let size = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&size.to_ne_bytes());
        self.bytes
    }
}

/// The attributes of a message: kind (without flags) and value.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let size = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
        let value = bytes.get(4..size)?;
        bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

impl Kernel {
    fn netlink_socket(&mut self, protocol: i32) -> Result<SocketId> {
        if let Some((_, socket)) = self.netlink.sockets.iter().find(|(p, _)| *p == protocol) {
            return Ok(*socket);
        }
        let socket = self.socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        self.netlink.sockets.push((protocol, socket));
        Ok(socket)
    }

    /// Sends a request and returns the bodies of the answers (without headers), for a dump all.
    pub(crate) fn ask(
        &mut self,
        protocol: i32,
        request: Request,
        what: &'static str,
    ) -> Result<Vec<Vec<u8>>> {
        let socket = self.netlink_socket(protocol)?;
        self.send(socket, &[IoSlice::new(&request.finish())], 0, None, &[])?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = match self.receive(socket, &mut [IoSliceMut::new(&mut buffer)], 0, None) {
                Ok(n) => n,
                Err(error) if error.would_block() => return Ok(answers),
                Err(error) => return Err(Error::new(error.errno, what)),
            };
            if collect(&buffer[..n], &mut answers, what)? {
                return Ok(answers);
            }
        }
    }
}

/// True: that was all.
fn collect(mut bytes: &[u8], answers: &mut Vec<Vec<u8>>, what: &'static str) -> Result<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let size = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(body) = bytes.get(HEADER..size) else { break };
        match u16::from_ne_bytes([header[4], header[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let number = body.get(..4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
                return match number.unwrap_or(-libc::EPROTO) {
                    0 => Ok(true),
                    error => Err(Error::new(-error, what)),
                };
            }
            _ => answers.push(body.to_vec()),
        }
        bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_attributes_are_read_as_they_were_written(
            written in vec((0u16..0x3fff, vec(any::<u8>(), 0..50)), 0..10),
        ) {
            let request = written.iter().fold(Request::new(16, 0, &[]), |request, (kind, value)| {
                request.attribute(*kind, value)
            });
            let bytes = request.finish();
            let read: Vec<_> = attributes(&bytes[HEADER..])
                .map(|(kind, value)| (kind, value.to_vec()))
                .collect();
            prop_assert_eq!(read, written);
        }

        #[test]
        fn nonsense_is_read_to_an_end(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(attributes(&bytes).count() <= bytes.len());
            let mut answers = Vec::new();
            let _ = collect(&bytes, &mut answers, "test");
            prop_assert!(answers.len() <= bytes.len());
        }
    }

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let request = Request::new(16, 0, &[])
            .attribute(1, b"abc")
            .nested(2, |inner| inner.attribute(3, &7u32.to_ne_bytes()).attribute(4, &[]));
        let bytes = request.finish();
        assert_eq!(bytes.len() % 4, 0);
        let read: Vec<_> = attributes(&bytes[HEADER..]).collect();
        assert_eq!(read[0], (1, &b"abc"[..]));
        assert_eq!(read[1].0, 2);
        let inner: Vec<_> = attributes(read[1].1).collect();
        assert_eq!(inner, [(3, &7u32.to_ne_bytes()[..]), (4, &[][..])]);
    }

    #[test]
    fn a_cut_message_ends_the_reading() {
        let bytes = Request::new(16, 0, &[]).attribute(1, b"abcdefgh").finish();
        for cut in 0..bytes.len() {
            let _ = attributes(&bytes[..cut]).count();
            let mut answers = Vec::new();
            assert!(collect(&bytes[..cut], &mut answers, "test").is_ok());
            assert!(answers.is_empty());
        }
    }

    #[test]
    fn an_error_number_is_an_error() {
        let bytes = Request::new(NLMSG_ERROR, 0, &(-libc::EEXIST).to_ne_bytes()).finish();
        let error = collect(&bytes, &mut Vec::new(), "test").unwrap_err();
        assert_eq!(error.errno, libc::EEXIST);
    }
}

//! Many datagrams with one system call: most of what a flood costs is asking for it.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

const MOST: usize = 64;

/// Buffers for [`MOST`] datagrams.
pub struct Batch {
    buffers: Vec<u8>,
    each: usize,
    lengths: Vec<usize>,
}

impl Batch {
    /// For datagrams of up to `each` bytes; longer ones are cut off there.
    pub fn new(each: usize) -> Batch {
        Batch { buffers: vec![0; each * MOST], each, lengths: Vec::with_capacity(MOST) }
    }

    /// Waits for a datagram, as long as the socket's timeout lets it, and takes those that are
    /// there. None after the timeout or an error.
    pub fn receive(&mut self, socket: &UdpSocket) -> impl Iterator<Item = &[u8]> {
        let mut vectors: Vec<libc::iovec> = self
            .buffers
            .chunks_mut(self.each)
            .map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            })
            .collect();
        // SAFETY: zeros are a header without address, vectors or control data.
        let empty: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let mut headers = [empty; MOST];
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header has one vector, which is a part of `buffers` of its own.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                MOST as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        self.lengths.clear();
        self.lengths.extend(headers[..count].iter().map(|header| header.msg_len as usize));
        self.buffers.chunks(self.each).zip(&self.lengths).map(|(buffer, &length)| &buffer[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_comes_in_order_and_what_is_too_long_is_cut() {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        to.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; usize::from(n)]).collect();
        for datagram in &sent {
            from.send_to(datagram, to.local_addr().unwrap()).unwrap();
        }
        let (mut batch, mut heard) = (Batch::new(60), Vec::new());
        while heard.len() < sent.len() {
            heard.extend(batch.receive(&to).map(<[u8]>::to_vec));
        }
        let cut: Vec<Vec<u8>> = sent
            .into_iter()
            .map(|mut d| {
                d.truncate(60);
                d
            })
            .collect();
        assert_eq!(heard, cut);
    }
}

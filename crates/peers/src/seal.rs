//! Sealed messages: only holders of the group's key can make or read them.
//!
//! XChaCha20-Poly1305 (RFC 8439 with the 192-bit nonce of draft-irtf-cfrg-xchacha). The nonce is
//! the sender's session, a random number taken at each start, and its counter, so it never repeats
//! though many terminals share one key. The access point is authenticated with it: what was said at
//! one cannot be repeated at another.
//!
//! The sealed text is preceded by a mark: SipHash-2-4 of all the rest, with a key of the group and
//! the access point. It costs a fraction of the decryption, and a filter in the kernel can check it,
//! so that a flood of forgeries is dropped cheaply ([`crate::Sieve`]). A mark alone proves nothing:
//! every message that passes is decrypted and authenticated.

use std::fmt;
use std::hash::Hasher;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use siphasher::sip::SipHasher24;

use crate::report::TerminalId;
use crate::wire::{MOST_BYTES, Session};

/// The form of what is sealed and how; another form is another number.
pub const VERSION: u8 = 2;
/// Version, session, counter.
const NAMED: usize = 1 + 8 + 4;
const MARK: usize = 8;
const HEAD: usize = NAMED + MARK;
const TAG: usize = 16;
/// Bytes that sealing adds.
pub const OVERHEAD: usize = HEAD + TAG;
/// Bytes of a sealed message at most.
pub const MOST_SEALED: usize = MOST_BYTES + OVERHEAD;

const PREFIX: &str = "transom-peer-1:";

/// The group's key, as it stands in a key file.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey([u8; 32]);

/// Keys are not printed by mistake.
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupKey")
    }
}

impl GroupKey {
    pub fn new(random: [u8; 32]) -> GroupKey {
        GroupKey(random)
    }

    /// The line of a key file.
    pub fn to_text(&self) -> String {
        let mut text = PREFIX.to_owned();
        self.0.iter().for_each(|byte| text += &format!("{byte:02x}"));
        text
    }

    /// Reads the line of a key file; None when it is none.
    pub fn from_text(text: &str) -> Option<GroupKey> {
        let digits = text.trim().strip_prefix(PREFIX)?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(GroupKey(key))
    }

    /// One key for each purpose (as HKDF-Expand of RFC 5869 with one block).
    fn derive(&self, purpose: &str, about: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(about);
        mac.finalize().into_bytes().into()
    }

    /// What stands openly for an access point in this group: without the key one learns only
    /// whether two of them are the same.
    pub fn topic(&self, access_point: &str) -> String {
        let hash = self.derive("transom peer 1 topic", access_point.as_bytes());
        hash[..6].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The identity of a terminal in this group, from what names it elsewhere.
    pub fn terminal(&self, name: &[u8]) -> TerminalId {
        let hash = self.derive("transom peer 1 terminal", name);
        TerminalId(hash[..8].try_into().expect("8 of 32 bytes"))
    }
}

/// Seals and opens for one access point.
#[derive(Clone)]
pub struct Seal {
    cipher: XChaCha20Poly1305,
    mark_key: [u8; 16],
    access_point: Vec<u8>,
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    pub fn new(key: &GroupKey, access_point: &str) -> Seal {
        let cipher = XChaCha20Poly1305::new(&key.derive("transom peer 1 messages", b"").into());
        let mark = key.derive("transom peer 2 marks", access_point.as_bytes());
        let mark_key = mark[..16].try_into().expect("16 of 32 bytes");
        Seal { cipher, mark_key, access_point: access_point.as_bytes().to_vec() }
    }

    /// The key of the marks, for a filter that checks them elsewhere.
    pub fn mark_key(&self) -> [u8; 16] {
        self.mark_key
    }

    /// `counter` must be another one for each message of the session.
    pub fn close(&self, session: Session, counter: u32, message: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(message.len() + OVERHEAD);
        sealed.push(VERSION);
        sealed.extend(session.0.to_le_bytes());
        sealed.extend(counter.to_le_bytes());
        sealed.extend([0; MARK]);
        let payload = Payload { msg: message, aad: &self.authenticated() };
        let text = self.cipher.encrypt(&nonce(session, counter), payload);
        sealed.extend(text.expect("a message is far shorter than 2^38 bytes"));
        let mark = self.mark(&sealed);
        sealed[NAMED..HEAD].copy_from_slice(&mark);
        sealed
    }

    /// Of all but the mark itself.
    fn mark(&self, sealed: &[u8]) -> [u8; MARK] {
        let mut marker = SipHasher24::new_with_key(&self.mark_key);
        marker.write(&sealed[..NAMED]);
        marker.write(&sealed[HEAD..]);
        marker.finish().to_le_bytes()
    }

    /// The session and counter that a message names, if it bears the mark of this group and access
    /// point: a holder of the key made it, and it was not changed.
    pub fn named(&self, sealed: &[u8]) -> Option<(Session, u32)> {
        if sealed.len() < OVERHEAD || sealed.len() > MOST_SEALED || sealed[0] != VERSION {
            return None;
        }
        let session = Session(u64::from_le_bytes(sealed[1..9].try_into().ok()?));
        let counter = u32::from_le_bytes(sealed[9..NAMED].try_into().ok()?);
        // Compared as a whole number, which takes the same time wherever they differ.
        let found = u64::from_le_bytes(sealed[NAMED..HEAD].try_into().ok()?);
        (found == u64::from_le_bytes(self.mark(sealed))).then_some((session, counter))
    }

    /// The sender's session and counter, and the message; None if it is not of this group and
    /// access point, whole and unchanged.
    pub fn open(&self, sealed: &[u8]) -> Option<(Session, u32, Vec<u8>)> {
        let (session, counter) = self.named(sealed)?;
        let payload = Payload { msg: &sealed[HEAD..], aad: &self.authenticated() };
        let message = self.cipher.decrypt(&nonce(session, counter), payload).ok()?;
        Some((session, counter, message))
    }

    fn authenticated(&self) -> Vec<u8> {
        [&[VERSION], self.access_point.as_slice()].concat()
    }
}

fn nonce(session: Session, counter: u32) -> XNonce {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&session.0.to_le_bytes());
    nonce[8..12].copy_from_slice(&counter.to_le_bytes());
    nonce.into()
}

//! How much of an address a row has. By default its prefix, and a tag by which rows of the same
//! address are found without knowing it: a keyed hash, whose key never leaves the machine.

use std::fs;
use std::hash::Hasher;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use siphasher::sip::SipHasher24;

const KEY: usize = 16;

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addresses {
    /// A prefix and a tag.
    #[default]
    Prefix,
    /// The address, too.
    Full,
}

#[derive(Clone)]
pub struct Tagger {
    key: [u8; KEY],
}

impl Tagger {
    /// The key in this file.
    ///
    /// # Errors
    /// The file is not there or cannot be read, or others may read it.
    pub fn of(file: &Path) -> Result<Tagger> {
        let named = || format!("the key of address tags, {}", file.display());
        let bytes = fs::read(file).with_context(named)?;
        let found = bytes.len();
        let key = bytes.try_into().ok().with_context(|| {
            format!("{} has {found} bytes, not {KEY}: remove it for a new one", named())
        })?;
        let mode = fs::metadata(file)?.permissions().mode();
        ensure!(mode & 0o077 == 0, "{} can be read by others: chmod 600", named());
        Ok(Tagger { key })
    }

    /// The same; a new one if there is none. For the agent alone: whoever else made it would be
    /// its owner.
    ///
    /// # Errors
    /// The file cannot be read or made, or others may read it.
    pub fn of_or_new(file: &Path) -> Result<Tagger> {
        if !file.exists() {
            let mut key = [0; KEY];
            rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
            Tagger { key }.keep(file)?;
        }
        Tagger::of(file)
    }

    /// Writes the key where its file is not there.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn keep(&self, file: &Path) -> Result<()> {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        let written = match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            // One that is cut would be refused by the next agent.
            made => made.and_then(|mut made| made.write_all(&self.key)).inspect_err(|_| {
                let _ = fs::remove_file(file);
            }),
        };
        written.with_context(|| format!("the key of address tags, {}", file.display()))
    }

    pub fn tag(&self, address: IpAddr) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        match address {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        // Files have signed numbers.
        hasher.finish() >> 1
    }
}

/// As a record of the kernel has it.
pub fn address(family: u8, bytes: &[u8; 16]) -> IpAddr {
    if i32::from(family) == libc::AF_INET6 {
        Ipv6Addr::from(*bytes).into()
    } else {
        Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_same_until_the_key_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let address = "192.0.2.77".parse().unwrap();
        let kept = Tagger::of_or_new(&file).unwrap();
        let first = kept.tag(address);
        assert_eq!(Tagger::of(&file).unwrap().tag(address), first);
        assert_ne!(Tagger::of(&file).unwrap().tag("192.0.2.78".parse().unwrap()), first);
        fs::remove_file(&file).unwrap();
        assert_ne!(Tagger::of_or_new(&file).unwrap().tag(address), first);
        fs::remove_file(&file).unwrap();
        kept.keep(&file).unwrap();
        assert_eq!(Tagger::of_or_new(&file).unwrap().tag(address), first);
    }

    #[test]
    fn whoever_only_reads_makes_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let refusal = format!("{:#}", Tagger::of(&file).err().unwrap());
        assert!(refusal.contains("No such file") && !file.exists(), "{refusal}");
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_cut_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        fs::write(&file, "short").unwrap();
        let refusal = |file: &Path| Tagger::of(file).err().unwrap().to_string();
        assert!(refusal(&file).contains("5 bytes"));
        fs::write(&file, [0; KEY]).unwrap();
        assert!(refusal(&file).contains("chmod 600"));
    }
}

//! Generations and what is current as files: their names, and their bytes, signed.

use anyhow::{Context, Result, ensure};
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::envelope::{Signed, verifying_key};
use crate::generation::{Current, FORMAT, Generation, Reason};

/// The name of the one file that changes.
pub const CURRENT: &str = "current";

/// No file is larger, so that nobody who reads one needs memory for more.
pub const MOST_BYTES: u64 = 1 << 20;

pub fn generation_name(number: u64) -> String {
    format!("gen-{number}")
}

const GENERATION: &str = "generation";

/// What a newer format has in common with this one.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

fn open<T: DeserializeOwned>(bytes: &[u8], what: &str, keys: &[VerifyingKey]) -> Result<T> {
    let signed: Signed = serde_json::from_slice(bytes).context("it is nothing that was signed")?;
    let Format { format } = signed.open(what, keys)?;
    ensure!(format <= FORMAT, "{}", Reason::Newer { format });
    signed.open(what, keys)
}

impl Generation {
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_bytes(&self, key: &SigningKey) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&Signed::sign(GENERATION, self, key)?)?)
    }

    /// # Errors
    /// No trusted key signed it, it is another generation, or of a newer format.
    pub fn from_bytes(bytes: &[u8], number: u64, keys: &[VerifyingKey]) -> Result<Generation> {
        let read = || -> Result<Generation> {
            let generation: Generation = open(bytes, GENERATION, keys)?;
            ensure!(generation.number == number, "it is generation {}", generation.number);
            if let Some(fault) = generation.waves.fault() {
                anyhow::bail!("its waves make no sense: {fault}");
            }
            Ok(generation)
        };
        read().with_context(|| generation_name(number))
    }
}

impl Current {
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_bytes(&self, key: &SigningKey) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(&Signed::sign(CURRENT, self, key)?)?)
    }

    /// # Errors
    /// No trusted key signed it, or it is of a newer format.
    pub fn from_bytes(bytes: &[u8], keys: &[VerifyingKey]) -> Result<Current> {
        open(bytes, CURRENT, keys).context(CURRENT)
    }

    /// What a file says that nobody has verified: to fetch what it names and to show it, and for
    /// nothing else.
    ///
    /// # Errors
    /// It is no such file.
    pub fn unverified(bytes: &[u8]) -> Result<Unverified> {
        let signed: Signed = serde_json::from_slice(bytes).context("it is nothing signed")?;
        Ok(serde_json::from_str(&signed.text)?)
    }
}

/// Of a [`Current`] that may be forged.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Unverified {
    pub generation: u64,
    /// The one before.
    pub before: u64,
    pub wave: usize,
    pub written_s: u64,
    pub lease_s: u64,
}

/// A file of public keys, one a line, with comments after `#`: all of them are trusted, so that a
/// new key can be brought to the hosts before the first policy is signed with it.
///
/// # Errors
/// A line is no key, or there is none.
pub fn trusted_keys(text: &str) -> Result<Vec<VerifyingKey>> {
    let words = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let lines = text.lines().map(words).zip(1..).filter(|(line, _)| !line.is_empty());
    let keys = lines.map(|(line, at)| verifying_key(&line).with_context(|| format!("line {at}")));
    let keys: Vec<VerifyingKey> = keys.collect::<Result<_>>()?;
    ensure!(!keys.is_empty(), "it has no key: nobody would be trusted");
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Waves;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn generation(format: u32) -> Generation {
        let waves = Waves::default();
        Generation { format, number: 3, policy: None, waves, gates: vec![], expected: vec![] }
    }

    fn refused(bytes: &[u8], number: u64) -> String {
        let trusted = [key(1).verifying_key()];
        format!("{:#}", Generation::from_bytes(bytes, number, &trusted).unwrap_err())
    }

    #[test]
    fn a_generation_is_read_as_it_was_written() {
        let bytes = generation(FORMAT).to_bytes(&key(1)).unwrap();
        let read = Generation::from_bytes(&bytes, 3, &[key(1).verifying_key()]).unwrap();
        assert_eq!(read, generation(FORMAT));
    }

    #[test]
    fn what_is_not_believed_is_named_with_its_file() {
        let bytes = |format, seed| generation(format).to_bytes(&key(seed)).unwrap();
        assert!(refused(&bytes(FORMAT, 2), 3).starts_with("gen-3: signed with the key"));
        assert!(refused(&bytes(FORMAT, 1), 4).contains("gen-4: it is generation 3"));
        assert!(refused(&bytes(FORMAT + 1, 1), 3).contains("it has the format 2"));
        assert!(refused(b"{}", 3).contains("nothing that was signed"));
        let mut senseless = generation(FORMAT);
        senseless.waves.shares.clear();
        assert!(refused(&senseless.to_bytes(&key(1)).unwrap(), 3).contains("make no sense"));
    }

    #[test]
    fn trusted_keys_stand_one_on_a_line_with_comments() {
        let text = |seed: u8| crate::key_text(key(seed).verifying_key().as_bytes());
        let file = format!("# ours\n{}\n\n{} # the next one\n", text(1), text(2));
        let keys = trusted_keys(&file).unwrap();
        assert_eq!(keys, [key(1).verifying_key(), key(2).verifying_key()]);
        assert!(trusted_keys("# none\n").unwrap_err().to_string().contains("no key"));
        let wrong = format!("{:#}", trusted_keys("\nabc\n").unwrap_err());
        assert!(wrong.contains("line 2") && wrong.contains("32 bytes"), "{wrong}");
    }
}

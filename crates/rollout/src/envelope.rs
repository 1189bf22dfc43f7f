//! Signed text: who has the key may say what the hosts of a fleet do, and nobody else.

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What is signed begins with it and with what it is, so that a signature is good for nothing else.
const DOMAIN: &str = "transom fleet 1";

/// As it lies in the object storage: the text is signed as it is, byte for byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// What it is: `generation`, `current`.
    pub what: String,
    pub text: String,
    /// The public key, base64.
    pub key: String,
    /// Ed25519 (RFC 8032), base64.
    pub signature: String,
}

fn message(what: &str, text: &str) -> Vec<u8> {
    [DOMAIN, what, text].join("\0").into_bytes()
}

impl Signed {
    /// # Errors
    /// It cannot be written as JSON.
    pub fn sign(what: &str, content: &impl Serialize, key: &SigningKey) -> Result<Signed> {
        let text = serde_json::to_string(content)?;
        let signature = key.sign(&message(what, &text));
        Ok(Signed {
            what: what.to_owned(),
            text,
            key: BASE64.encode(key.verifying_key().as_bytes()),
            signature: BASE64.encode(signature.to_bytes()),
        })
    }

    /// What was signed, if one of these keys did.
    ///
    /// # Errors
    /// It is something else, of another key, or was changed.
    pub fn open<T: DeserializeOwned>(&self, what: &str, keys: &[VerifyingKey]) -> Result<T> {
        ensure!(self.what == what, "it is signed as '{}', not as '{what}'", self.what);
        let key = keys.iter().find(|key| BASE64.encode(key.as_bytes()) == self.key);
        let Some(key) = key else {
            bail!("signed with the key {}, which is not trusted", self.key)
        };
        let signature = BASE64.decode(&self.signature).ok();
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
        let signature = signature.context("its signature is none")?;
        let is_good = key.verify_strict(&message(what, &self.text), &signature).is_ok();
        ensure!(is_good, "the signature is not of this text: it was changed, or forged");
        serde_json::from_str(&self.text).context("signed, but not to be read")
    }
}

/// As [`signing_key`] and [`verifying_key`] read them.
pub fn key_text(bytes: &[u8; 32]) -> String {
    BASE64.encode(bytes)
}

/// # Errors
/// The text is no key: 32 bytes as base64.
pub fn signing_key(text: &str) -> Result<SigningKey> {
    Ok(SigningKey::from_bytes(&bytes(text).context("a secret key is 32 bytes as base64")?))
}

/// # Errors
/// The text is no key: 32 bytes as base64, a point of the curve.
pub fn verifying_key(text: &str) -> Result<VerifyingKey> {
    let bytes = bytes(text).context("a public key is 32 bytes as base64")?;
    VerifyingKey::from_bytes(&bytes).context("these 32 bytes are no public key")
}

fn bytes(text: &str) -> Option<[u8; 32]> {
    BASE64.decode(text.trim()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    fn refusal(signed: &Signed, what: &str) -> String {
        let trusted = [key(1).verifying_key(), key(2).verifying_key()];
        signed.open::<u32>(what, &trusted).expect_err("it is refused").to_string()
    }

    #[test]
    fn who_is_trusted_is_believed_and_nobody_else() {
        let trusted = [key(1).verifying_key(), key(2).verifying_key()];
        for seed in [1, 2] {
            let signed = Signed::sign("current", &7u32, &key(seed)).unwrap();
            assert_eq!(signed.open::<u32>("current", &trusted).unwrap(), 7);
        }
        let stranger = Signed::sign("current", &7u32, &key(3)).unwrap();
        assert!(refusal(&stranger, "current").contains("not trusted"));
        // A stranger who names a trusted key.
        let posing = Signed { key: BASE64.encode(key(1).verifying_key().as_bytes()), ..stranger };
        assert!(refusal(&posing, "current").contains("changed, or forged"));
    }

    #[test]
    fn what_was_signed_as_one_thing_is_no_other() {
        let signed = Signed::sign("generation", &7u32, &key(1)).unwrap();
        assert!(refusal(&signed, "current").contains("signed as 'generation'"));
        let renamed = Signed { what: "current".to_owned(), ..signed };
        assert!(refusal(&renamed, "current").contains("changed, or forged"));
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let text = BASE64.encode([9; 32]);
        assert_eq!(signing_key(&format!("{text}\n")).unwrap().to_bytes(), [9; 32]);
        let public = BASE64.encode(key(9).verifying_key().as_bytes());
        assert_eq!(verifying_key(&public).unwrap(), key(9).verifying_key());
        assert!(verifying_key("abc").unwrap_err().to_string().contains("32 bytes"));
    }

    proptest! {
        #[test]
        fn any_change_is_noticed(at in 0usize..200, to in any::<u8>()) {
            let signed = Signed::sign("current", &(1u32, "some text of a policy"), &key(1)).unwrap();
            let mut json = serde_json::to_vec(&signed).unwrap();
            let at = at % json.len();
            prop_assume!(json[at] != to);
            json[at] = to;
            let opened = serde_json::from_slice::<Signed>(&json)
                .ok()
                .and_then(|it| it.open::<(u32, String)>("current", &[key(1).verifying_key()]).ok());
            // Blanks between the words of JSON are not signed, and say nothing.
            prop_assert!(opened.is_none_or(|it| it == (1, "some text of a policy".to_owned())));
        }
    }
}

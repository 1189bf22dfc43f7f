//! Keys from a file, as AWS's own programs have it: `AWS_SHARED_CREDENTIALS_FILE`, or
//! `~/.aws/credentials`, and in it the profile `AWS_PROFILE`. Keys in variables, roles of pods, tasks
//! and machines are left to the client library.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AwsCredential};
use transom_output::text_of;

const KEY_ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";

/// Other places that have keys, which come before a file.
const BEFORE: [&str; 4] = [
    KEY_ID,
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// # Errors
/// Of the two keys in variables one is missing; the file that is named is not there, is readable by
/// others, or has no such profile.
pub fn given_to(builder: AmazonS3Builder) -> Result<AmazonS3Builder> {
    for [one, other] in [[KEY_ID, SECRET], [SECRET, KEY_ID]] {
        ensure!(
            is_set(other) || !is_set(one),
            "{other} is not set, though {one} is: set both, or neither and take keys from elsewhere"
        );
    }
    if BEFORE.into_iter().any(is_set) {
        return Ok(builder);
    }
    let named = std::env::var_os("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    let at_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws/credentials"));
    let Some(path) = named.clone().or_else(at_home) else { return no_file(builder) };
    if named.is_none() && !path.exists() {
        return no_file(builder);
    }
    let profile = std::env::var("AWS_PROFILE").unwrap_or_else(|_| "default".into());
    let file = KeyFile { path, profile };
    file.read()?;
    Ok(builder.with_credentials(Arc::new(file)))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// What is left is the role of the machine, which its cloud answers for.
fn no_file(builder: AmazonS3Builder) -> Result<AmazonS3Builder> {
    ensure!(
        !is_set(TOKEN),
        "{TOKEN} is set, but neither {KEY_ID} nor {SECRET}, to which it belongs: set them, too, or \
         unset it"
    );
    let is_off = std::env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|value| value == "true");
    ensure!(!is_off, "no keys: {}", super::refusal::WHERE_KEYS_ARE);
    Ok(builder)
}

/// # Errors
/// Others than the owner can read the file, or it is not there.
pub fn check_private(path: &Path) -> Result<()> {
    let metadata = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    // systemd lets the service read by an access list, whose mask shows as bits of the group.
    let by_systemd = std::env::var_os("CREDENTIALS_DIRECTORY");
    let is_systemds = by_systemd.is_some_and(|folder| path.starts_with(folder));
    let forbidden = if is_systemds { 0o007 } else { 0o077 };
    let mode = metadata.mode() & 0o777;
    ensure!(
        mode & forbidden == 0,
        "{} has keys, and others can read it (mode {mode:04o}): chmod 600 {}, and take new keys if \
         it was not only just made",
        path.display(),
        path.display()
    );
    Ok(())
}

/// Read for each request, so that keys can be changed while the program runs.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    profile: String,
}

impl KeyFile {
    fn read(&self) -> Result<AwsCredential> {
        check_private(&self.path)?;
        let named = || format!("reading {}", self.path.display());
        let text = text_of(&self.path).with_context(named)?;
        parse(&text, &self.profile).with_context(named)
    }
}

#[async_trait]
impl CredentialProvider for KeyFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let refused = |error: anyhow::Error| object_store::Error::Unauthenticated {
            path: self.path.display().to_string(),
            source: format!("{error:#}").into(),
        };
        self.read().map(Arc::new).map_err(refused)
    }
}

/// The keys of a profile.
fn parse(text: &str, profile: &str) -> Result<AwsCredential> {
    let mut is_there = false;
    let mut is_inside = false;
    let mut keys: [Option<String>; 3] = Default::default();
    let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_inside = section.trim() == profile;
            is_there |= is_inside;
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let at = names.iter().position(|known| *known == name.trim());
        if let (true, Some(at)) = (is_inside, at) {
            keys[at] = Some(value.trim().to_owned());
        }
    }
    ensure!(is_there, "it has no profile [{profile}] (AWS_PROFILE)");
    let [Some(key_id), Some(secret_key), token] = keys else {
        bail!("its profile [{profile}] lacks aws_access_key_id or aws_secret_access_key");
    };
    Ok(AwsCredential { key_id, secret_key, token })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const FILE: &str = "# of the fleet\n[default]\naws_access_key_id = A\naws_secret_access_key=b=c\n\
                        [other]\naws_access_key_id=X\n[short]\naws_access_key_id = S\n\
                        aws_secret_access_key = T\naws_session_token = U\n";

    #[test]
    fn keys_are_those_of_the_profile() {
        let keys = parse(FILE, "default").unwrap();
        assert_eq!((&*keys.key_id, &*keys.secret_key, keys.token), ("A", "b=c", None));
        let keys = parse(FILE, "short").unwrap();
        assert_eq!((&*keys.key_id, keys.token.as_deref()), ("S", Some("U")));
    }

    #[test]
    fn a_profile_that_is_not_there_or_not_whole_is_named() {
        let refusal = |profile| parse(FILE, profile).err().unwrap().to_string();
        assert!(refusal("nobody").contains("[nobody]"));
        assert!(refusal("other").contains("[other] lacks"));
    }

    #[test]
    fn keys_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        fs::write(&path, FILE).unwrap();
        let file = KeyFile { path: path.clone(), profile: "default".into() };
        for (mode, is_refused) in [(0o644, true), (0o640, true), (0o604, true), (0o600, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = file.read();
            assert_eq!(read.is_err(), is_refused, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
                assert!(!format!("{error:#}").contains("b=c"), "keys are not shown");
            }
        }
    }

    #[test]
    fn keys_that_were_changed_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let write = |text: String| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write(FILE.into());
        let file = KeyFile { path: path.clone(), profile: "default".into() };
        assert_eq!(file.read().unwrap().key_id, "A");
        write(FILE.replace("= A", "= B"));
        assert_eq!(file.read().unwrap().key_id, "B");
    }
}

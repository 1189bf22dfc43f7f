//! `transom-fleet policy key`: a key that signs policies, and its public half for the hosts.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rustix::rand::{GetRandomFlags, getrandom};
use transom_output::{note, say, text_of};
use transom_rollout::{SigningKey, VerifyingKey, key_text, signing_key, trusted_keys};

use crate::bucket::check_private;

/// Make a key that signs policies, and print its public half for the file that hosts trust
#[derive(clap::Args)]
pub struct Args {
    /// The secret key's file, which only its owner can read; nothing is written over
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the public half of a key that is there
    #[arg(long)]
    public: bool,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    let key = if args.public { read(&args.file)? } else { make(&args.file)? };
    say!("{}", key_text(key.verifying_key().as_bytes()))?;
    if !args.public {
        note!("transom-fleet: {} signs policies now: keep it secret", args.file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn make(path: &Path) -> Result<SigningKey> {
    let named = || format!("making the key {}", path.display());
    let mut secret = [0; 32];
    let length = getrandom(&mut secret, GetRandomFlags::empty()).with_context(named)?;
    anyhow::ensure!(length == secret.len(), "the kernel gave too few random bytes");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already, and a key that hosts trust is not written over: name another \
             file, or print its public half with --public",
            path.display()
        ),
        file => file.with_context(named)?,
    };
    let written = writeln!(file, "{}", key_text(&secret)).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(path);
        return Err(error).with_context(named);
    }
    Ok(SigningKey::from_bytes(&secret))
}

/// # Errors
/// The file is not there, others can read it, or it has no key.
pub fn read(path: &Path) -> Result<SigningKey> {
    check_private(path)?;
    let named = || format!("the key {}", path.display());
    let text = text_of(path).with_context(named)?;
    signing_key(&text).with_context(named)
}

/// The public keys of a file as hosts have it.
///
/// # Errors
/// The file is not there, or a line is no key.
pub fn trusted(path: &Path) -> Result<Vec<VerifyingKey>> {
    let named = || format!("the trusted keys {}", path.display());
    let text = text_of(path).with_context(named)?;
    trusted_keys(&text).with_context(named)
}

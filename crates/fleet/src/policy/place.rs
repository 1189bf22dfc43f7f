//! Where policies are rolled out, who signs them, and what is there now.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use tokio::runtime::Runtime;
use transom_rollout::{CURRENT, Current, Generation, SigningKey, VerifyingKey, generation_name};

use super::store::{self, Found};
use super::{key, words};
use crate::bucket::{self, Bucket, Retries};

/// Who may write there.
#[derive(clap::Args, Clone, Debug)]
pub struct Signed {
    /// Where the policies are, below `policy/`
    #[arg(long, value_name = "s3://BUCKET/PREFIX|file:///DIR")]
    pub to: String,
    /// The secret key that signs, of `transom-fleet policy key`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public keys: what they signed is believed, too
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// To rehearse a roll-out: what would be done at this time, seconds since 1970
    #[arg(long, value_name = "SECONDS", hide = true)]
    now: Option<u64>,
}

impl Signed {
    pub fn now_s(&self) -> u64 {
        self.now.unwrap_or_else(words::now_s)
    }

    /// # Errors
    /// The key is not there, others can read it, or the address is none.
    pub fn open(&self) -> Result<Place> {
        let key = key::read(&self.key)?;
        let mut trusted = vec![key.verifying_key()];
        if let Some(path) = &self.trust {
            trusted.extend(key::trusted(path)?);
        }
        Place::open(&self.to, Some(key), trusted)
    }
}

/// A place with policies.
pub struct Place {
    bucket: Bucket,
    runtime: Runtime,
    key: Option<SigningKey>,
    trusted: Vec<VerifyingKey>,
}

/// What is rolled out there, whether its generation can be had or not.
#[derive(Clone, Debug)]
pub struct Last {
    pub current: Current,
    found: Found,
}

/// The same with its generation.
#[derive(Clone, Debug)]
pub struct State {
    pub current: Current,
    pub generation: Generation,
    found: Found,
}

impl State {
    fn of(Last { current, found }: Last, generation: Generation) -> State {
        State { current, generation, found }
    }

    /// Without its generation.
    pub fn last(&self) -> Last {
        Last { current: self.current.clone(), found: self.found.clone() }
    }
}

/// A number that others took meanwhile is left out; so many at once are none of ours.
const MOST_TAKEN: u64 = 1000;

impl Place {
    /// # Errors
    /// The address is none, or has no keys.
    pub fn open(
        address: &str,
        key: Option<SigningKey>,
        trusted: Vec<VerifyingKey>,
    ) -> Result<Place> {
        Ok(Place {
            bucket: Bucket::open(address, Retries::Few)?,
            runtime: bucket::runtime()?,
            key,
            trusted,
        })
    }

    pub fn address(&self) -> &str {
        &self.bucket.address
    }

    fn key(&self) -> Result<&SigningKey> {
        self.key.as_ref().context("nothing is signed without a key")
    }

    /// `None`: nothing has been published.
    ///
    /// # Errors
    /// It cannot be read, or no trusted key signed it.
    pub fn last(&self) -> Result<Option<Last>> {
        let Some(found) = self.read(CURRENT)? else { return Ok(None) };
        let current = Current::from_bytes(&found.bytes, &self.trusted)
            .with_context(|| self.not_believed())?;
        Ok(Some(Last { current, found }))
    }

    /// # Errors
    /// As [`Place::last`], or nothing has been published.
    pub fn published(&self) -> Result<Last> {
        self.last()?.with_context(|| {
            format!("{} has no policy: `transom-fleet policy publish` one", self.address())
        })
    }

    /// `None`: nothing has been published.
    ///
    /// # Errors
    /// As [`Place::last`], or its generation is not there.
    pub fn state(&self) -> Result<Option<State>> {
        self.last()?.map(|last| self.with_generation(last)).transpose()
    }

    /// # Errors
    /// As [`Place::state`], or nothing has been published.
    pub fn under_way(&self) -> Result<State> {
        self.with_generation(self.published()?)
    }

    fn with_generation(&self, last: Last) -> Result<State> {
        let generation = self.generation(last.current.generation)?;
        Ok(State::of(last, generation))
    }

    /// # Errors
    /// It is not there, or no trusted key signed it.
    pub fn generation(&self, number: u64) -> Result<Generation> {
        self.generation_if_any(number)?.with_context(|| {
            format!(
                "{} has no generation {number}: if it was there, a rule that removes old objects has \
                 policy/, too; `publish` and `rollback --none` go on without it",
                self.address()
            )
        })
    }

    /// # Errors
    /// No trusted key signed it.
    pub fn generation_if_any(&self, number: u64) -> Result<Option<Generation>> {
        let Some(found) = self.read(&generation_name(number))? else { return Ok(None) };
        let generation = Generation::from_bytes(&found.bytes, number, &self.trusted);
        generation.map(Some).with_context(|| self.not_believed())
    }

    fn not_believed(&self) -> String {
        format!("{} has what is not believed here", self.address())
    }

    fn read(&self, name: &str) -> Result<Option<Found>> {
        self.runtime
            .block_on(store::read(&self.bucket, name))
            .with_context(|| self.bucket.address.clone())
    }

    /// Writes a generation under the next free number from its own on, which it has afterwards.
    ///
    /// # Errors
    /// The store refuses.
    pub fn add(&self, generation: &mut Generation) -> Result<()> {
        let first = generation.number;
        while generation.number < first + MOST_TAKEN {
            let bytes = generation.to_bytes(self.key()?)?;
            ensure!(
                bytes.len() as u64 <= transom_rollout::MOST_BYTES,
                "the policy has {} bytes: no host reads so many",
                bytes.len()
            );
            let added = store::add_if_free(&self.bucket, generation.number, bytes);
            if self.runtime.block_on(added).with_context(|| self.bucket.address.clone())? {
                return Ok(());
            }
            generation.number += 1;
        }
        bail!(
            "{} has generations {first} and {MOST_TAKEN} more that nobody rolls out",
            self.address()
        )
    }

    /// Writes a new generation with the policy of an older one (0: none) for all hosts at once, and
    /// returns its number.
    ///
    /// # Errors
    /// There is no such generation, or the store refuses.
    pub fn add_older(&self, current: &Current, older: u64) -> Result<u64> {
        let policy = match older {
            0 => None,
            older => self.generation(older)?.policy,
        };
        let mut back = Generation::back_to(current.generation + 1, policy);
        self.add(&mut back)?;
        Ok(back.number)
    }

    /// Puts it in the place of what was read.
    ///
    /// # Errors
    /// Somebody else was faster, hosts would take it for a replay, or the store refuses.
    pub fn swap(&self, read: Option<&Last>, current: &Current) -> Result<()> {
        if let Some(Last { current: last, .. }) = read {
            // Of a higher generation hosts believe any time.
            ensure!(
                last.generation < current.generation || last.written_s <= current.written_s,
                "{}: generation {} was written {} s from now: this machine's clock is behind, or the \
                 other one's was ahead; set it. `rollback` goes on all the same",
                self.address(),
                last.generation,
                last.written_s - current.written_s
            );
        }
        let bytes = current.to_bytes(self.key()?)?;
        let swapped = store::swap(&self.bucket, read.map(|last| &last.found), bytes);
        self.runtime.block_on(swapped).with_context(|| self.bucket.address.clone())
    }
}

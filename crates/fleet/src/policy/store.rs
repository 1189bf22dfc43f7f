//! Policies in object storage: `policy/gen-N` is written once, and `policy/current` is swapped only
//! for what was read, so that of two operators at the same time one is refused.

use std::path::Path as Folder;

use anyhow::{Context, Result, bail, ensure};
use object_store::path::Path;
use object_store::{Error, GetOptions, PutMode, PutPayload, UpdateVersion};
use transom_rollout::{CURRENT, MOST_BYTES, generation_name};

use super::folder;
use crate::bucket::{Bucket, OTHER_KEYS, Refusal, refusal};

const FOLDER: &str = "policy";

/// What lies under a name, and which version of it that is.
#[derive(Clone, Debug)]
pub struct Found {
    pub bytes: Vec<u8>,
    version: UpdateVersion,
}

fn path(name: &str) -> Path {
    Path::from_iter([FOLDER, name])
}

impl Found {
    /// By which a store tells this version from others.
    pub fn tag(&self) -> Option<&str> {
        self.version.e_tag.as_deref()
    }
}

/// What lies under a name, for somebody who may know it.
pub enum Look {
    Absent,
    /// The version that is known.
    Known,
    Found(Found),
}

/// # Errors
/// The store refuses, or the object is larger than a policy can be.
pub async fn look(bucket: &Bucket, name: &str, known: Option<&str>) -> Result<Look> {
    let path = path(name);
    let shown = || format!("{}/{path}", bucket.address);
    let options = GetOptions::new().with_if_none_match(known);
    let got = match bucket.store.get_opts(&path, options).await {
        Ok(got) => got,
        Err(Error::NotModified { .. }) => return Ok(Look::Known),
        Err(error @ Error::NotFound { .. }) if refusal(&error).0 != Refusal::NoBucket => {
            return Ok(Look::Absent);
        }
        Err(error) => bail!("{}: {}", shown(), unreadable(&error)),
    };
    let size = got.meta.size;
    ensure!(size <= MOST_BYTES, "{} has {size} bytes: it is no policy", shown());
    let version =
        UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
    match got.bytes().await {
        Ok(bytes) => Ok(Look::Found(Found { bytes: bytes.to_vec(), version })),
        Err(error) => bail!("{}: {}", shown(), refusal(&error).1),
    }
}

fn unreadable(error: &Error) -> String {
    match refusal(error) {
        (Refusal::Denied, line) if !line.ends_with(OTHER_KEYS) => format!(
            "{line}; or nothing is there: who may not list (s3:ListBucket) is told the same then"
        ),
        (_, line) => line,
    }
}

/// # Errors
/// As [`look`].
pub async fn read(bucket: &Bucket, name: &str) -> Result<Option<Found>> {
    Ok(match look(bucket, name, None).await? {
        Look::Found(found) => Some(found),
        Look::Absent | Look::Known => None,
    })
}

/// Whether it was free, or has these very bytes: then an answer was lost, and this is the second try.
///
/// # Errors
/// The store refuses, or would not refuse another's.
pub async fn add_if_free(bucket: &Bucket, number: u64, bytes: Vec<u8>) -> Result<bool> {
    let name = generation_name(number);
    if !put(bucket, &name, bytes.clone(), PutMode::Create).await? {
        return Ok(false);
    }
    let is_kept = bucket.keeps(&path(&name), bytes.into()).await;
    ensure!(
        is_kept.unwrap_or(true),
        "{}: this store writes over what is there, though it is asked not to (If-None-Match): of two who \
         roll out at the same time it would refuse none; take one that has conditional writes",
        path(&name)
    );
    Ok(true)
}

/// Puts it in the place of what was read, or where nothing was.
///
/// # Errors
/// Somebody else has put another there since, or the store refuses.
pub async fn swap(bucket: &Bucket, read: Option<&Found>, bytes: Vec<u8>) -> Result<()> {
    let is_done = match (read, bucket.address.strip_prefix("file://")) {
        (Some(found), Some(folder)) => {
            let path = Folder::new(folder).join(FOLDER).join(CURRENT);
            folder::swap(&path, &found.bytes, &bytes)?
        }
        (read, _) => {
            let mode = read.map_or(PutMode::Create, |found| PutMode::Update(found.version.clone()));
            put(bucket, CURRENT, bytes, mode).await?
        }
    };
    ensure!(
        is_done,
        "{} was written by somebody else meanwhile: look at it, and start again",
        path(CURRENT)
    );
    Ok(())
}

/// Whether it lies there now.
async fn put(bucket: &Bucket, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<bool> {
    let path = path(name);
    match bucket.store.put_opts(&path, PutPayload::from(bytes.clone()), mode.into()).await {
        Ok(_) => Ok(true),
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {
            // The answer to a first try may have been lost on the way.
            let there = read(bucket, name).await.context("after a write that was refused")?;
            Ok(there.is_some_and(|found| found.bytes == bytes))
        }
        Err(error) => bail!("{path}: {}", refusal(&error).1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::bucket::{Retries, runtime};

    fn bucket() -> Bucket {
        Bucket { store: Arc::new(InMemory::new()), address: "memory".to_owned() }
    }

    fn refused(result: Result<()>) -> String {
        result.expect_err("it is refused").to_string()
    }

    #[test]
    fn a_generation_is_written_once() {
        runtime().unwrap().block_on(async {
            let bucket = bucket();
            assert!(add_if_free(&bucket, 3, b"one".to_vec()).await.unwrap());
            assert!(!add_if_free(&bucket, 3, b"two".to_vec()).await.unwrap());
            assert_eq!(read(&bucket, "gen-3").await.unwrap().unwrap().bytes, b"one");
            assert!(read(&bucket, "gen-4").await.unwrap().is_none());
        });
    }

    async fn assert_that_one_of_two_is_refused(bucket: &Bucket) {
        swap(bucket, None, b"one".to_vec()).await.unwrap();
        assert!(refused(swap(bucket, None, b"x".to_vec()).await).contains("meanwhile"));
        let seen = read(bucket, CURRENT).await.unwrap();
        swap(bucket, seen.as_ref(), b"two".to_vec()).await.unwrap();
        let late = refused(swap(bucket, seen.as_ref(), b"three".to_vec()).await);
        assert!(late.contains("policy/current was written by somebody else"), "{late}");
        assert_eq!(read(bucket, CURRENT).await.unwrap().unwrap().bytes, b"two");
    }

    #[test]
    fn of_two_who_swap_at_the_same_time_one_is_refused() {
        runtime().unwrap().block_on(async {
            assert_that_one_of_two_is_refused(&bucket()).await;
        });
    }

    #[test]
    fn a_folder_swaps_as_object_storage_does() {
        runtime().unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let address = format!("file://{}", folder.path().display());
            let bucket = Bucket::open(&address, Retries::None).unwrap();
            assert_that_one_of_two_is_refused(&bucket).await;
            let names = std::fs::read_dir(folder.path().join("policy")).unwrap();
            assert_eq!(names.count(), 1, "nothing else is left there");
        });
    }

    #[test]
    fn a_second_try_after_a_lost_answer_is_no_race() {
        runtime().unwrap().block_on(async {
            let bucket = bucket();
            swap(&bucket, None, b"one".to_vec()).await.unwrap();
            let seen = read(&bucket, CURRENT).await.unwrap();
            for _ in 0..2 {
                swap(&bucket, seen.as_ref(), b"two".to_vec()).await.unwrap();
                assert!(add_if_free(&bucket, 1, b"a".to_vec()).await.unwrap());
            }
            assert!(!add_if_free(&bucket, 1, b"b".to_vec()).await.unwrap());
        });
    }

    #[test]
    fn what_is_too_large_for_a_policy_is_not_read() {
        runtime().unwrap().block_on(async {
            let bucket = bucket();
            add_if_free(&bucket, 1, vec![b' '; MOST_BYTES as usize + 1]).await.unwrap();
            let said = read(&bucket, "gen-1").await.unwrap_err().to_string();
            assert!(said.contains("policy/gen-1 has 1048577 bytes"), "{said}");
        });
    }
}

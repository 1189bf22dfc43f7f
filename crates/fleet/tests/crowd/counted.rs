//! A store that counts what it is asked for, by the second of its clock, and may be slow or out of reach.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use transom_fleet::ship::clock::Clock;

#[derive(Clone, Copy, Debug, Default)]
pub struct Second {
    pub asked: u64,
    pub failed: u64,
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub struct Seen {
    pub seconds: BTreeMap<u64, Second>,
    /// Each object, and the second in which it landed.
    pub landed: Vec<(String, u64)>,
}

/// How long an object takes at a time, and as the nth one; `None`: the store cannot be reached.
pub type Way = fn(Duration, u64) -> Option<Duration>;

#[derive(Debug)]
pub struct Counted {
    inner: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    way: Option<Way>,
    seen: Mutex<Seen>,
}

impl Counted {
    pub fn new(inner: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>) -> Counted {
        Counted { inner, clock, way: None, seen: Mutex::default() }
    }

    #[must_use]
    pub fn over(mut self, way: Way) -> Counted {
        self.way = Some(way);
        self
    }

    async fn pass(&self) -> Result<()> {
        let Some(way) = self.way else { return Ok(()) };
        let nth = self.seen().seconds.values().map(|second| second.asked).sum();
        let takes = way(self.clock.now(), nth)
            .ok_or(Error::Generic { store: "S3", source: "connection refused".into() })?;
        if !takes.is_zero() {
            self.clock.sleep(takes).await;
        }
        Ok(())
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, second: u64, bytes: usize, failed: bool) {
        let mut seen = self.seen();
        let of = seen.seconds.entry(second).or_default();
        of.asked += 1;
        of.failed += u64::from(failed);
        of.bytes += bytes as u64;
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counted {}", self.inner)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Counted {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let (second, bytes) = (self.clock.now().as_secs(), payload.content_length());
        let put = match self.pass().await {
            Ok(()) => self.inner.put_opts(location, payload, opts).await,
            Err(error) => Err(error),
        };
        self.count(second, if put.is_ok() { bytes } else { 0 }, put.is_err());
        if put.is_ok() {
            self.seen().landed.push((location.to_string(), second));
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let second = self.clock.now().as_secs();
        let got = self.inner.get_opts(location, options).await;
        self.count(second, 0, got.is_err());
        got
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[Range<u64>],
    ) -> Result<Vec<bytes::Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

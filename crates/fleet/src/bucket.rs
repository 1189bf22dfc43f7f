//! Where the tables are: `s3://BUCKET/PREFIX` of any server that speaks S3, or a folder as
//! `file:///FOLDER`. Keys, region and endpoint come from where AWS's own programs take them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, Error, ObjectStore, PutMode, PutPayload, RetryConfig};
use tokio::runtime::{Builder, Runtime};

mod credentials;
mod grant;
mod names;
mod refusal;

pub use credentials::check_private;
pub use grant::{Grant, grant};
pub use refusal::{OTHER_KEYS, Refusal, refusal};

/// A request that gets no answer is given up after this time; a file of the agent is 4 MiB.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// Whether the client itself asks again when a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retries {
    /// A few times within seconds: for who waits for an answer.
    Few,
    /// Never: for who has a pace of its own.
    None,
}

/// All names of objects are relative to the prefix.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub store: Arc<dyn ObjectStore>,
    /// As it was given.
    pub address: String,
}

impl Bucket {
    /// # Errors
    /// The address is none, keys are lacking in part or readable by others, or the folder is not
    /// there. Nothing is asked of a server yet.
    pub fn open(address: &str, retries: Retries) -> Result<Bucket> {
        let store: Arc<dyn ObjectStore> = if let Some(rest) = address.strip_prefix("s3://") {
            s3(rest, retries)
        } else if let Some(folder) = address.strip_prefix("file://") {
            folder_of(folder)
        } else {
            bail!("'{address}' is neither s3://BUCKET/PREFIX nor file:///FOLDER")
        }
        .with_context(|| format!("opening {address}"))?;
        Ok(Bucket { store, address: address.trim_end_matches('/').to_owned() })
    }

    /// Whether the store keeps what is there when it is asked to (`If-None-Match`): some that do not
    /// know conditional writes write over it without a word. `bytes` are what has just landed at
    /// `path`, so that nothing changes either way.
    ///
    /// # Errors
    /// It could not be asked.
    pub async fn keeps(&self, path: &Path, bytes: PutPayload) -> Result<bool, Error> {
        match self.store.put_opts(path, bytes, PutMode::Create.into()).await {
            Ok(_) => Ok(false),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// One thread, for programs that wait more than they work.
///
/// # Errors
/// The kernel gives no descriptor for it.
pub fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn folder_of(folder: &str) -> Result<Arc<dyn ObjectStore>> {
    ensure!(folder.starts_with('/'), "file:/// needs a folder from the root: file:///var/tables");
    ensure!(
        std::path::Path::new(folder).is_dir(),
        "there is no such folder: make it, or correct it"
    );
    // An object that was said to have landed is there after a power failure, too.
    Ok(Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true)))
}

fn s3(rest: &str, retries: Retries) -> Result<Arc<dyn ObjectStore>> {
    let (builder, prefix) = s3_builder(rest)?;
    let store = builder.with_retry(retry_config(retries)).build()?;
    let prefix = Path::parse(prefix.trim_end_matches('/'))?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}

/// The client of a bucket, and the prefix in it.
fn s3_builder(rest: &str) -> Result<(AmazonS3Builder, &str)> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    ensure!(!bucket.is_empty(), "it names no bucket");
    // TLS with the primitives that are in the program anyway. Another part may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    check_endpoint(&builder)?;
    let builder = credentials::given_to(builder)?
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_client_options(client_options());
    Ok((builder, prefix))
}

fn is_encryption_waived() -> bool {
    std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1")
}

/// What the environment says of the client stays; `with_client_options` would forget it.
fn client_options() -> ClientOptions {
    ClientOptions::new()
        .with_allow_http(is_encryption_waived())
        .with_timeout(LONGEST_REQUEST)
        .with_connect_timeout(LONGEST_CONNECT)
        .with_dns_resolver(Arc::new(names::Names))
        .with_user_agent(http::HeaderValue::from_static(concat!(
            "transom-fleet/",
            env!("CARGO_PKG_VERSION")
        )))
}

fn check_endpoint(builder: &AmazonS3Builder) -> Result<()> {
    use object_store::aws::AmazonS3ConfigKey::{Endpoint, S3Endpoint};
    for key in [S3Endpoint, Endpoint] {
        let Some(endpoint) = builder.get_config_value(&key) else { continue };
        let is_plain = endpoint.starts_with("http://");
        ensure!(
            is_plain || endpoint.starts_with("https://"),
            "the endpoint {endpoint} (AWS_ENDPOINT_URL) is no https://HOST"
        );
        ensure!(
            !is_plain || is_encryption_waived(),
            "the endpoint {endpoint} is not encrypted: use https://, or say AWS_ALLOW_HTTP=true if \
             nobody else is on the way"
        );
    }
    Ok(())
}

fn retry_config(retries: Retries) -> RetryConfig {
    match retries {
        Retries::Few => RetryConfig {
            max_retries: 4,
            retry_timeout: Duration::from_secs(20),
            ..RetryConfig::default()
        },
        Retries::None => RetryConfig { max_retries: 0, ..RetryConfig::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> String {
        format!("{:#}", Bucket::open(address, Retries::None).unwrap_err())
    }

    #[test]
    fn what_is_no_address_is_refused_by_its_name() {
        for address in ["tables", "https://bucket", "s3:/x", ""] {
            assert!(refused(address).contains("neither s3://"), "{}", refused(address));
        }
        assert!(refused("s3:///x").contains("names no bucket"));
        assert!(refused("file://relative").contains("file:///"));
        assert!(refused("file:///no/such/folder").contains("/no/such/folder"));
    }

    #[test]
    fn a_folder_takes_an_object_once() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}", folder.path().display());
        let bucket = Bucket::open(&address, Retries::None).unwrap();
        let put = |text: &'static str| {
            let name = Path::from("a/b.parquet");
            let put = bucket.store.put_opts(&name, text.into(), PutMode::Create.into());
            runtime().unwrap().block_on(put)
        };
        put("first").unwrap();
        let again = put("second").unwrap_err();
        assert!(matches!(again, Error::AlreadyExists { .. }), "{again}");
        assert_eq!(std::fs::read(folder.path().join("a/b.parquet")).unwrap(), b"first");
    }
}

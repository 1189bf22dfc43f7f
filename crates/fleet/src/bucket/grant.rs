//! What another program needs to read a bucket that this one may read: the same keys, from wherever
//! they come.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use object_store::aws::AmazonS3ConfigKey::{
    Endpoint, Region, S3Endpoint, VirtualHostedStyleRequest,
};
use object_store::aws::AwsCredential;

use super::{refusal, s3_builder};

/// It has keys, so that it is shown nowhere.
pub struct Grant {
    pub keys: Arc<AwsCredential>,
    pub region: Option<String>,
    /// Of a server that is not AWS's own, with its scheme.
    pub endpoint: Option<String>,
    /// Whether the bucket is a part of the server's name, as AWS has it.
    pub is_virtual_hosted: bool,
}

/// `None` for a folder.
///
/// # Errors
/// There are no keys, or the address is none.
pub async fn grant(address: &str) -> Result<Option<Grant>> {
    let Some(rest) = address.strip_prefix("s3://") else { return Ok(None) };
    let (builder, _) = s3_builder(rest)?;
    let value = |key| builder.get_config_value(&key);
    let endpoint = value(S3Endpoint).or_else(|| value(Endpoint));
    let is_virtual_hosted = match value(VirtualHostedStyleRequest) {
        Some(value) => value == "true",
        None => endpoint.is_none(),
    };
    let region = value(Region);
    let store = builder.build()?;
    let keys = store.credentials().get_credential().await;
    let keys = keys.map_err(|error| anyhow!("{}", refusal(&error).1))?;
    Ok(Some(Grant { keys, region, endpoint, is_virtual_hosted }))
}

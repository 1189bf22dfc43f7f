//! A file for the text collector of Prometheus' node exporter: whole at any moment, and readable by
//! the collector, which is another user.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// # Errors
/// The file cannot be written; then it is as it was.
pub fn write(path: &Path, registry: &Registry) -> Result<()> {
    let named = || format!("writing metrics to {}", path.display());
    let mut text = String::new();
    encode(&mut text, registry).with_context(named)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let new = tempfile::Builder::new().prefix(".transom-").tempfile_in(folder);
    let mut new = new.with_context(named)?;
    new.write_all(text.as_bytes()).with_context(named)?;
    let readable = std::fs::Permissions::from_mode(0o644);
    new.as_file().set_permissions(readable).with_context(named)?;
    new.persist(path).with_context(named)?;
    Ok(())
}

/// As a metric has it.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

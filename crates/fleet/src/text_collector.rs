//! A file for the text collector of Prometheus' node exporter: whole at any moment, and readable by
//! the collector, which is another user.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tempfile::NamedTempFile;
use transom_metrics::Definition;

/// What an earlier process told stays until there is something to tell: a file that says 0 of what is not
/// known yet would end alerts that hold, and raise others.
///
/// # Errors
/// The file could not be written.
pub fn try_out(path: &Path) -> Result<()> {
    ensure!(!path.is_dir(), "{} is a folder: name a file in it", path.display());
    new_beside(path).with_context(|| naming(path))?;
    Ok(())
}

/// # Errors
/// The file cannot be written; then it is as it was.
pub fn write(path: &Path, registry: &Registry) -> Result<()> {
    let named = || naming(path);
    let mut text = String::new();
    encode(&mut text, registry).with_context(named)?;
    let mut new = new_beside(path).with_context(named)?;
    new.write_all(text.as_bytes()).with_context(named)?;
    let readable = std::fs::Permissions::from_mode(0o644);
    new.as_file().set_permissions(readable).with_context(named)?;
    new.persist(path).with_context(named)?;
    Ok(())
}

/// What the file says of a metric without labels.
pub fn told(path: &Path, of: &Definition) -> Option<f64> {
    let text = std::fs::read_to_string(path).ok()?;
    let series = of.series();
    text.lines().find_map(|line| line.strip_prefix(&series)?.strip_prefix(' ')?.parse().ok())
}

fn naming(path: &Path) -> String {
    format!("writing metrics to {}", path.display())
}

fn new_beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    tempfile::Builder::new().prefix(".transom-").tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// As a metric has it.
pub fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

//! Python with the servers and engines that tests ask.

use std::path::{Path, PathBuf};

use transom_testbed::{python_for, skip};

/// An environment of this name; `None` where it cannot be had.
pub fn of(lacking: &str, packages: &[&str], imports: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    match python_for(lacking, packages, imports, folder) {
        Ok(python) => Some(python),
        Err(reason) => {
            skip(lacking, &format!("no Python environment for it: {reason}"));
            None
        }
    }
}

/// The interpreter with DuckDB, ClickHouse and an S3 server; `None` where it cannot be had.
pub fn engines() -> Option<PathBuf> {
    // The extension must be of DuckDB's very version; from DuckDB's own site it would be fetched.
    let packages = [
        "duckdb==1.5.5",
        "duckdb-cli==1.5.5",
        "duckdb-extension-httpfs==1.5.5",
        "chdb",
        "moto[server]",
    ];
    of("chdb", &packages, "duckdb, duckdb_cli, duckdb_extension_httpfs, chdb.session, moto.server")
}

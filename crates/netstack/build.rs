//! Links `liblinux.a`, which `make linux` builds.

use std::env;
use std::path::{Path, PathBuf};

/// Names the directory of `liblinux.a`, if it is not `linux` in cargo's target directory.
const PLACE: &str = "TRANSOM_LINUX_LIBRARY";

fn main() {
    println!("cargo:rerun-if-env-changed={PLACE}");
    let archive = directory().join("liblinux.a");
    println!("cargo:rerun-if-changed={}", archive.display());
    if !archive.is_file() {
        println!(
            "cargo::error=there is no {}: build it with `make linux`, or name its directory in {PLACE}",
            archive.display()
        );
        return;
    }
    let directory = archive.parent().expect("it has a name");
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static=linux");
}

/// Where `scripts/linux-library.sh` puts it.
fn directory() -> PathBuf {
    if let Some(place) = env::var_os(PLACE) {
        return place.into();
    }
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Path::new(&package).join("../..").join(target).join(library_directory())
}

/// One a machine: `linux/x86_64`, `linux/aarch64`.
fn library_directory() -> PathBuf {
    Path::new("linux").join(env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it"))
}

//! Links `liblinux.a`, which `make linux` builds, and those of other series that are beside it.

use std::env;
use std::path::{Path, PathBuf};

/// Names the directory of `liblinux.a`, if it is not `linux` in cargo's target directory.
const PLACE: &str = "TRANSOM_LINUX_LIBRARY";

fn main() {
    println!("cargo:rerun-if-env-changed={PLACE}");
    println!("cargo::rustc-check-cfg=cfg(linux_6_1)");
    let directory = directory();
    let archive = directory.join("liblinux.a");
    println!("cargo:rerun-if-changed={}", archive.display());
    if !archive.is_file() {
        println!(
            "cargo::error=there is no {}: build it with `make linux`, or name its directory in {PLACE}",
            archive.display()
        );
        return;
    }
    println!("cargo:rustc-link-search=native={}", directory.display());
    println!("cargo:rustc-link-lib=static=linux");
    link_if_there(&directory, "6.1", "linux_6_1");
}

/// A series that the program can do without: `cfg` tells whether it is linked.
fn link_if_there(directory: &Path, series: &str, cfg: &str) {
    let archive = directory.join(format!("liblinux-{series}.a"));
    if archive.is_file() {
        println!("cargo:rerun-if-changed={}", archive.display());
        println!("cargo:rustc-link-lib=static=linux-{series}");
        println!("cargo:rustc-cfg={cfg}");
    } else {
        // Cargo takes a file that is not there for one that has changed, each time.
        println!("cargo:rerun-if-changed={}", directory.display());
    }
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

//! Compiles every `bpf/NAME.bpf.c` and makes a Rust skeleton of it: `NAME.bpf.o` and `NAME.skel.rs`.
//! Programs carry the object compressed, as `NAME.bpf.o.z`: it is mostly type information.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context, Result, bail};
use libbpf_cargo::SkeletonBuilder;
use miniz_oxide::deflate::compress_to_vec_zlib;

/// Older ones miss instructions (v3) or relocations that the programs use.
const OLDEST_CLANG: u32 = 14;

/// Level of compression.
const SMALLEST: u8 = 10;

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn clang() -> Result<String> {
    if let Ok(named) = env::var("CLANG") {
        return Ok(named);
    }
    let versions = (OLDEST_CLANG..=30).rev().map(|version| format!("clang-{version}"));
    match versions.chain(["clang".to_owned()]).find(|name| runs(name)) {
        Some(found) => Ok(found),
        None => bail!("no clang found: install clang-{OLDEST_CLANG} or newer, or set CLANG"),
    }
}

fn main() -> Result<()> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../bpf");
    let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => bail!("no BPF programs for the architecture {other}"),
    };
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = clang()?;
    for entry in fs::read_dir(&sources)? {
        let path = entry?.path();
        println!("cargo:rerun-if-changed={}", path.display());
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = file.strip_suffix(".bpf.c") else { continue };
        let object = out.join(format!("{name}.bpf.o"));
        SkeletonBuilder::new()
            .source(&path)
            .obj(&object)
            .clang(&clang)
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Werror",
                &format!("-I{}", sources.display()),
                // Names of files are in the objects: the same ones in every checkout.
                &format!("-ffile-prefix-map={}=bpf", sources.display()),
                &format!("-D__TARGET_ARCH_{arch}"),
            ])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .with_context(|| format!("compiling {}", path.display()))?;
        let compressed = compress_to_vec_zlib(&fs::read(&object)?, SMALLEST);
        fs::write(out.join(format!("{name}.bpf.o.z")), compressed)?;
    }
    Ok(())
}

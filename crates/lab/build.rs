//! Puts the repository's experiments into the program, for those who have only the program.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    println!("cargo::rerun-if-changed={}", root.display());
    let files = fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    let entry = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.canonicalize().expect("a file that was just listed");
        format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
    };
    let list: String = files.iter().map(entry).collect();
    let code = format!("/// Name and text.\npub const ALL: &[(&str, &str)] = &[\n{list}];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("experiments.rs"), code).expect("OUT_DIR can be written");
}

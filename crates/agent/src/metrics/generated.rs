//! Files of the repository that are made from the definitions.

use std::path::Path;

/// Writes the file instead, if TRANSOM_WRITE_DOCS is set.
pub fn assert_is_generated(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("TRANSOM_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(path, text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(committed == text, "{file} is not what the definitions make of it");
}
